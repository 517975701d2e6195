"""Which (agent, role) pairs a turn allows, and which rule bars the rest.

Precedence: the last turn must yield an answer > a Verifier needs an answer > availability and capability > a
Thinker's suggestion > the head. Each rule is a mask over pairs; the first rule, in that order, that bars the
head's own choice is the one a decision names as its override.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from core.agents.base import Agent
from core.types import ROLES, Override, Role, Transcript

if TYPE_CHECKING:
    import numpy.typing as npt

    Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one turn over L agents: masks of shape [L, 3], True where a pair is allowed.

    `masked` names the agents that cannot be chosen at all, with the reason: their probability is exactly 0.
    """

    agents: tuple[str, ...]
    masked: Mapping[str, str]
    layers: tuple[tuple[Override, Mask], ...]
    allowed: Mask
    why_nobody: str = ""  # when no pair is allowed: what each agent says of itself

    def moved_by(self, agent: int, role: int) -> Override | None:
        """The first rule that bars this pair, or None when it is allowed."""
        return next((rule for rule, mask in self.layers if not mask[agent, role]), None)


def rules_for(
    transcript: Transcript,
    agents: Iterable[Agent],
    *,
    masked: Mapping[str, str],
    failed: Iterable[str] = (),
    last_turn: bool = False,
    suggestion: Role | None = None,
    different_verifier: bool = False,
) -> Rules:
    """The rules for the next turn.

    `masked` holds agents that cannot be called (reason in plain words); `failed` those that failed in this very
    turn, so that the next best takes it. A suggestion is kept only if it leaves an allowed pair.
    """
    members = tuple(agents)
    names = tuple(agent.name for agent in members)
    failed = set(failed)
    barred = {**{name: "failed in this turn" for name in names if name in failed}, **masked}
    roles = np.array(ROLES)
    everyone = np.ones((len(names), len(ROLES)), dtype=bool)
    answered = transcript.answer is not None
    layers = [
        (Override.LAST_TURN, everyone & (roles == Role.WORKER) if last_turn and not answered else everyone),
        (Override.NEEDS_ANSWER, everyone if answered else everyone & (roles != Role.VERIFIER)),
        (Override.FALLBACK, _without(everyone, names, failed)),
        (Override.UNAVAILABLE, _without(everyone, names, masked)),
        (Override.CANNOT_PLAY, playable(transcript, members, different_verifier)),
    ]
    allowed = np.logical_and.reduce([mask for _, mask in layers])
    if suggestion is not None:
        wanted = everyone & (roles == suggestion)
        if (allowed & wanted).any():
            layers.append((Override.SUGGESTION, wanted))
            allowed = allowed & wanted
    why = "" if allowed.any() else _why_nobody(transcript, members, barred)
    return Rules(names, barred, tuple(layers), allowed, why)


def playable(transcript: Transcript, agents: Iterable[Agent], different_verifier: bool = False) -> Mask:
    """What the agents say of themselves: bool [L, 3]. `different_verifier` bars the Worker from judging itself."""
    worker = transcript.worker_turn.agent if transcript.worker_turn else None

    def allows(agent: Agent, role: Role) -> bool:
        if different_verifier and role is Role.VERIFIER and agent.name == worker:
            return False
        return agent.can_play(role, transcript) is None

    return np.array([[allows(agent, role) for role in ROLES] for agent in agents], dtype=bool).reshape(-1, len(ROLES))


def _why_nobody(transcript: Transcript, agents: Iterable[Agent], barred: Mapping[str, str]) -> str:
    reasons = {a.name: barred.get(a.name) or a.can_play(Role.WORKER, transcript) for a in agents}
    return "; ".join(f"{name}: {reason}" for name, reason in reasons.items() if reason)


def _without(everyone: Mask, names: tuple[str, ...], out: Iterable[str]) -> Mask:
    barred = set(out)
    keep = np.array([name not in barred for name in names], dtype=bool)
    kept: Mask = everyone & keep[:, None]
    return kept
