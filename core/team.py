"""A team: one pool with its head, backbone and caller, assembled from the settings and ready to answer."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from core.assets import SHIPPED_CHECKPOINTS
from core.calls.base import Account, Caller
from core.coordinator import stoppable
from core.errors import CheckpointInvalid, PoolInvalid
from core.events import Event
from core.policy import BoundHead, Policy, bind, bind_untrained
from core.pool import AgentInfo, Pool, load_pool
from core.run import Run
from core.settings import Settings
from core.types import Limits, Message

if TYPE_CHECKING:
    from core.backbone.base import Backbone
    from core.backbone.reader import BackboneReader
    from core.checkpoint import Checkpoint
    from core.store import Store


class Team:
    """Answers questions. `notes` are sentences to show wherever the team is used."""

    def __init__(self, pool: Pool, policy: Policy, caller: Caller, closers: Sequence[object] = ()) -> None:
        self.pool = pool
        self.policy = policy
        self.caller = caller
        self._closers = closers

    @property
    def pool_name(self) -> str:
        """The pool's name."""
        return self.pool.name

    @property
    def checkpoint_name(self) -> str:
        """The head in use."""
        return self.policy.head.checkpoint.name

    @property
    def backbone_name(self) -> str:
        """The model that reads."""
        return self.policy.backbone.name

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user of this team should know."""
        return (*((self.pool.note,) if self.pool.note else ()), *self.policy.head.notes)

    @property
    def agents(self) -> tuple[AgentInfo, ...]:
        """The members of the pool, in order."""
        return self.pool.describe()

    def run(self, question: str, *, stop: asyncio.Event | None = None, **options: Any) -> AsyncIterator[Event]:
        """Answer one question as a stream of events (core/events.py); `stop` ends it early, with what was said.

        The other options are those of `prepare`. Raises QuestionInvalid at the first step.
        """
        return stoppable(self.prepare(question, **options), stop or asyncio.Event())

    def prepare(
        self,
        question: str,
        *,
        question_id: str,
        history: tuple[Message, ...] = (),
        limits: Limits = Limits(),
        exclude: Mapping[str, str] | Sequence[str] = (),
        account: Account | None = None,
        seed: int = 0,
    ) -> Run:
        """A question with all it needs. Raises PoolInvalid when `exclude` names no agent of the pool."""
        left_out = exclude if isinstance(exclude, Mapping) else dict.fromkeys(exclude, "left out by you")
        if stray := set(left_out) - {agent.name for agent in self.pool.agents}:
            raise PoolInvalid(f"The pool {self.pool.name} has no agent {sorted(stray)[0]!r} to leave out.")
        return Run(
            id=question_id,
            question=question,
            policy=self.policy,
            pool=self.pool,
            caller=self.caller,
            account=account or Account(question_id, limits.usd),
            limits=limits,
            history=history,
            exclude=left_out,
            seed=seed,
        )

    def close(self) -> None:
        """End helper processes and threads."""
        for closer in self._closers:
            closer.close()  # type: ignore[attr-defined]


def load_team(
    settings: Settings,
    *,
    pool: str | None = None,
    checkpoint: str | None = None,
    store: Store | None = None,
    warm: bool = True,
) -> Team:
    """Assemble a team: 2-4 s, blocking. `warm` lets the agents get ready beside it (local weights, child processes).

    Without `store` there is no ledger: only free agents can then be called.
    Raises ConfigError subclasses, each with one clear line.
    """
    members = load_pool(pool or settings.pool, settings)
    if warm:
        members.warm()
    wanted = choose_checkpoint(checkpoint or settings.checkpoint, members, settings)
    backbone, reader = _read_by(settings.backbone, settings.cache_dir, settings.device, settings.dtype)
    head = bind_checkpoint(wanted, members, backbone)
    caller = make_caller(settings, store)
    adapted = with_svf(backbone, head.checkpoint)
    if adapted is backbone:
        return Team(members, Policy(reader, backbone, head), caller)
    from core.backbone.reader import BackboneReader

    own = BackboneReader(adapted)
    return Team(members, Policy(own, adapted, head), caller, (own,))


@cache
def _read_by(name: str, cache_dir: Path, device: str, dtype: str) -> tuple[Backbone, BackboneReader]:
    """The coordinator model and the one thread that runs it: shared by all teams of the process, 0.5 GB once."""
    from core.backbone import load_backbone
    from core.backbone.reader import BackboneReader

    backbone = load_backbone(name, cache_dir=cache_dir, device=device, dtype=dtype)
    reader = BackboneReader(backbone)
    atexit.register(reader.close)
    return backbone, reader


def choose_checkpoint(name: str, pool: Pool, settings: Settings) -> Checkpoint | None:
    """The checkpoint asked for, else the one shipped for this pool, else None (no trained head)."""
    from core.checkpoint import find_checkpoint, load_checkpoint

    if name:
        return load_checkpoint(find_checkpoint(name, settings.data_dir))
    shipped = SHIPPED_CHECKPOINTS / f"{pool.name}.safetensors"
    return load_checkpoint(shipped) if shipped.is_file() else None


def bind_checkpoint(checkpoint: Checkpoint | None, pool: Pool, backbone: Backbone) -> BoundHead:
    """Bind a head to a pool and a backbone. Without one: uniform agent choice on the shipped role rows."""
    from core.checkpoint import load_checkpoint, uniform_checkpoint

    if checkpoint is not None:
        checkpoint.check_backbone(backbone)
        return bind(checkpoint, pool.agents)
    shipped = load_checkpoint(SHIPPED_CHECKPOINTS / "embedded.safetensors")
    if shipped.weights_hash == backbone.weights_hash:
        return bind_untrained(shipped, pool.agents)
    return bind_untrained(uniform_checkpoint(backbone), pool.agents)


def with_svf(backbone: Backbone, checkpoint: Checkpoint) -> Backbone:
    """The backbone with the checkpoint's singular-value offsets applied, if it has any."""
    if checkpoint.svf is None:
        return backbone
    from core.backbone.huggingface import HuggingFaceBackbone
    from core.svf import adapt

    if not isinstance(backbone, HuggingFaceBackbone):
        raise CheckpointInvalid(f"Checkpoint {checkpoint.name} scales weight matrices, and {backbone.name} has none.")
    return adapt(backbone, checkpoint.svf, np.asarray(checkpoint.svf_offsets, dtype=np.float32))


def make_caller(settings: Settings, store: Store | None) -> Caller:
    """The caller with retries, breaker, caps and ledger; without a store the plain one."""
    if store is None:
        from core.calls.base import DirectCaller

        return DirectCaller()
    from core.calls.caller import LedgerCaller

    return LedgerCaller(store, settings)
