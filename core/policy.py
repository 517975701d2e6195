"""The policy: backbone + head + rules -> Decision (paper, section 3.1; equations of the two softmaxes).

`z = head(h)` gives L agent logits and 3 role logits; two independent softmaxes; the chosen pair is the most
probable allowed one under p(agent)·p(role), which equals two separate argmaxes when every pair is allowed.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from core.backbone.base import Backbone, Rendered
from core.errors import CheckpointInvalid, NonFiniteState, PoolEmpty
from core.rules import Rules
from core.transcript import render
from core.types import ROLES, Decision, HiddenState, Transcript

if TYPE_CHECKING:
    import numpy.typing as npt

    from core.agents.base import Agent
    from core.checkpoint import Checkpoint

    Floats = npt.NDArray[np.float64]


class Reader(Protocol):
    """Reads hidden states off the event loop, one backbone thread for the whole process."""

    async def hidden(self, rendered: Rendered) -> HiddenState:
        """h of one transcript."""
        ...


@dataclass(frozen=True, slots=True)
class BoundHead:
    """A checkpoint bound to a pool: for each pool agent its row in the head, or None with the reason in `unknown`."""

    checkpoint: Checkpoint
    rows: tuple[int | None, ...]
    unknown: Mapping[str, str]
    notes: tuple[str, ...] = ()
    trained: bool = True

    def logits(self, hidden: HiddenState) -> tuple[Floats, Floats]:
        """Agent logits [L] in pool order (0 where the head has no row) and role logits [3] in ROLES order."""
        agents, roles = self.checkpoint.logits(hidden.vector)
        picked = [0.0 if row is None or not self.trained else float(agents[row]) for row in self.rows]
        return np.array(picked), np.asarray(roles, dtype=np.float64)


def bind(checkpoint: Checkpoint, agents: Sequence[Agent]) -> BoundHead:
    """Match a head's rows to a pool by agent name.

    An agent the head does not know is masked; a changed model under a known name is used with a warning; no
    overlap at all is refused with CheckpointInvalid.
    """
    known = {name: row for row, (name, _) in enumerate(checkpoint.agents)}
    rows = tuple(known.get(agent.name) for agent in agents)
    if all(row is None for row in rows):
        raise CheckpointInvalid(
            f"Checkpoint {checkpoint.name} knows the agents {', '.join(known)}, but the pool has "
            f"{', '.join(a.name for a in agents)}. Train a head for this pool, or choose the pool it was made for."
        )
    unknown = {a.name: "not known to this head" for a, row in zip(agents, rows, strict=True) if row is None}
    changed = [
        agent.name
        for agent, row in zip(agents, rows, strict=True)
        if row is not None and checkpoint.agents[row][1] not in ("", agent.fingerprint)  # empty: not recorded
    ]
    notes = [f"{name} is no longer the model this head was trained with" for name in changed]
    return BoundHead(checkpoint, rows, unknown, tuple(notes))


def bind_untrained(checkpoint: Checkpoint, agents: Sequence[Agent]) -> BoundHead:
    """Uniform agent choice on the role rows of `checkpoint`, for a pool that has no head of its own."""
    rows: tuple[int | None, ...] = (None,) * len(agents)
    return BoundHead(checkpoint, rows, {}, ("this pool has no trained head",), trained=False)


class Policy:
    """Reads a transcript and decides who speaks next, in which role. `mode` is `argmax` (serving) or `sample`."""

    def __init__(self, reader: Reader, backbone: Backbone, head: BoundHead, mode: str = "argmax") -> None:
        if mode not in ("argmax", "sample"):
            raise ValueError(f"mode must be argmax or sample, got {mode!r}")
        self._reader = reader
        self.backbone = backbone
        self.head = head
        self.mode = mode
        self.protocol = head.checkpoint.protocol

    async def read(self, transcript: Transcript) -> HiddenState:
        """h of the transcript under the checkpoint's protocol."""
        return await self._reader.hidden(render(self.protocol, transcript, self.backbone))

    async def decide(self, transcript: Transcript, rules: Rules, seed: int = 0) -> Decision:
        """Choose an allowed pair. Raises PoolEmpty when there is none, NonFiniteState on NaN or infinity."""
        started = time.perf_counter()
        hidden = await self.read(transcript)
        agent_logits, role_logits = self.head.logits(hidden)
        if not (np.isfinite(agent_logits).all() and np.isfinite(role_logits).all()):
            raise NonFiniteState("The head gave a value that is not finite; verify the checkpoint.")
        if not rules.allowed.any():
            why = f" ({rules.why_nobody})" if rules.why_nobody else ""
            raise PoolEmpty(f"No agent of this pool can take this turn{why}.")
        keep = np.array([name not in rules.masked for name in rules.agents], dtype=bool)
        agent_probs, role_probs = softmax(agent_logits, keep), softmax(role_logits)
        rng = turn_rng(seed, transcript)
        agent, role = choose(np.outer(agent_probs, role_probs), rules.allowed, rng, self.mode)
        free = np.outer(softmax(agent_logits, self._known()), role_probs)
        head_agent, head_role = (agent, role)
        if free[agent, role] < free.max():  # a tie that the seeded choice settled is not an override
            head_agent, head_role = choose(free, np.ones_like(rules.allowed), rng)
        moved = (agent, role) != (head_agent, head_role)
        return Decision(
            agent=rules.agents[agent],
            role=ROLES[role],
            agent_probs=dict(zip(rules.agents, agent_probs.tolist(), strict=True)),
            role_probs=dict(zip(ROLES, role_probs.tolist(), strict=True)),
            agent_logits=dict(zip(rules.agents, agent_logits.tolist(), strict=True)),
            role_logits=dict(zip(ROLES, role_logits.tolist(), strict=True)),
            head_agent=rules.agents[head_agent],
            head_role=ROLES[head_role],
            override=rules.moved_by(head_agent, head_role) if moved else None,
            masked=rules.masked,
            hidden=hidden,
            elapsed_s=time.perf_counter() - started,
        )

    def _known(self) -> npt.NDArray[np.bool_]:
        return np.array([row is not None or not self.head.trained for row in self.head.rows])


def softmax(logits: Floats, keep: npt.NDArray[np.bool_] | None = None) -> Floats:
    """Probabilities of the kept entries, exactly 0 for the others. Shape [n] -> [n]."""
    keep = np.ones(len(logits), dtype=bool) if keep is None else keep
    probs = np.zeros(len(logits))
    if keep.any():
        powers = np.exp(logits[keep] - logits[keep].max())
        probs[keep] = powers / powers.sum()
    return probs


def choose(
    pairs: Floats, allowed: npt.NDArray[np.bool_], rng: np.random.Generator, mode: str = "argmax"
) -> tuple[int, int]:
    """The most probable allowed pair of `pairs` [L, 3], or a draw from the renormalised restricted product.

    Equal pairs are settled by the generator, never by their place in the pool.
    """
    order = rng.permutation(np.flatnonzero(allowed))
    weights = pairs.ravel()[order]
    if mode == "sample":
        total = weights.sum()
        shares = weights / total if total > 0 else np.full(len(order), 1 / len(order))
        index = int(rng.choice(order, p=shares))
    else:
        index = int(order[np.argmax(weights)])
    agent, role = divmod(index, int(pairs.shape[1]))
    return agent, role


def turn_rng(seed: int, transcript: Transcript) -> np.random.Generator:
    """The generator of one turn: a function of the seed, the question and the turn number only."""
    return np.random.default_rng(
        [seed, zlib.crc32(transcript.question.encode("utf-8", "replace")), len(transcript.turns)]
    )
