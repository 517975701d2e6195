"""What the store hands out: frozen, free of database sessions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.types import HiddenState, Limits, Message, Reason, Role, Status, Trace, Turn, Usage, Verdict


@dataclass(frozen=True, slots=True)
class Feedback:
    """A thumb on one answer. `value` is `up` or `down`; `created` is in seconds since the epoch."""

    question_id: str
    value: str
    reason: str
    created: float


@dataclass(frozen=True, slots=True)
class Question:
    """A stored question with its turns. `status` and `finished` are None while it runs.

    `position` counts questions of the conversation from 1; a retried or edited question has the position of the one it
    `replaces`. `seconds` is the run's wall clock, `created` and `finished` are seconds since the epoch.
    """

    id: str
    conversation_id: str
    position: int
    replaces: str | None
    text: str
    status: Status | None
    reason: Reason | None
    note: str
    answer: str | None
    pool: str
    pool_version: int | None
    checkpoint: str
    backbone: str
    protocol: str
    usage: Usage
    cost_usd: float | None
    seconds: float
    created: float
    finished: float | None
    limits: Limits
    excluded: tuple[str, ...]
    turns: tuple[Turn, ...]
    feedback: Feedback | None

    def trace(self, history: tuple[Message, ...] = ()) -> Trace:
        """The finished run as the coordinator gave it. Raises ValueError while the question still runs."""
        if self.status is None:
            raise ValueError(f"question {self.id} is still running")
        return Trace(
            id=self.id,
            question=self.text,
            history=history,
            turns=self.turns,
            answer=self.answer,
            status=self.status,
            reason=self.reason,
            note=self.note,
            usage=self.usage,
            cost_usd=self.cost_usd,
            elapsed_s=self.seconds,
            checkpoint=self.checkpoint,
            backbone=self.backbone,
            protocol=self.protocol,
            pool=self.pool,
            pool_version=self.pool_version or 1,
        )


@dataclass(frozen=True, slots=True)
class Summary:
    """One line of the history list. `cursor` of the last line asks for the next page."""

    id: str
    title: str
    created: float
    updated: float
    questions: int
    running: bool

    @property
    def cursor(self) -> tuple[float, str]:
        """Where the next page begins: the `before` of `conversations.list`."""
        return (self.updated, self.id)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation with everything said in it, in order of position, then age."""

    id: str
    title: str
    created: float
    updated: float
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class HiddenPoint:
    """One turn's hidden state with what a map colours it by. `first_agent` spoke first in the same question."""

    question_id: str
    conversation_id: str
    question: str
    index: int
    role: Role
    agent: str
    model: str
    first_agent: str | None
    verdict: Verdict | None
    status: Status | None
    pool: str
    checkpoint: str
    usage: Usage
    cost_usd: float | None
    latency_s: float
    created: float
    hidden: HiddenState


@dataclass(frozen=True, slots=True)
class Share:
    """A share link as its owner sees it; the token itself was shown once. `id` is the start of the token's hash."""

    id: str
    created: float
    revoked: float | None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A registered head checkpoint. `summary` is what the checkpoints page shows of it (JSON)."""

    name: str
    sha256: str
    path: str
    created: float
    summary: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Activation:
    """One line of the audit trail. `checkpoint` None means the one shipped for the pool."""

    pool: str
    checkpoint: str | None
    previous: str | None
    who: str
    why: str
    created: float


@dataclass(frozen=True, slots=True)
class PoolVersion:
    """One version of an edited pool, as YAML text."""

    name: str
    version: int
    yaml: str
    who: str
    created: float
