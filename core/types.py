"""The nouns of the system, as frozen dataclasses. Everything else passes these around.

A question and the turns spoken so far make a `Transcript`. The policy reads it and makes a `Decision`;
the chosen agent's reply becomes a `Turn`; a finished run is a `Trace` (paper, section 3).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vector = npt.NDArray[np.float32]


class Role(StrEnum):
    """What an agent is asked to do this turn. The order of `ROLES` is the order of the head's role logits."""

    THINKER = "thinker"
    WORKER = "worker"
    VERIFIER = "verifier"


ROLES: tuple[Role, ...] = (Role.THINKER, Role.WORKER, Role.VERIFIER)


class Verdict(StrEnum):
    """A Verifier's judgement of the latest Worker answer."""

    ACCEPT = "ACCEPT"
    REVISE = "REVISE"


class Status(StrEnum):
    """How a run ended."""

    ACCEPTED = "accepted"
    UNVERIFIED = "unverified"
    BUDGET_EXHAUSTED = "budget_exhausted"
    STOPPED = "stopped"
    FAILED = "failed"


class Reason(StrEnum):
    """Why a run ended with a status other than accepted."""

    TURNS = "turns"
    SECONDS = "seconds"
    TOKENS = "tokens"
    MONEY = "money"
    NO_VERIFIER = "no_verifier"
    NO_ANSWER = "no_answer"
    POOL_EMPTY = "pool_empty"
    INTERRUPTED = "interrupted"
    ERROR = "error"


class Override(StrEnum):
    """The rule that moved a choice away from the head's own, in order of precedence."""

    LAST_TURN = "last_turn"
    NEEDS_ANSWER = "needs_answer"
    FALLBACK = "fallback"
    UNAVAILABLE = "unavailable"
    CANNOT_PLAY = "cannot_play"
    SUGGESTION = "suggestion"


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message. `role` is `system`, `user` or `assistant`."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more calls. Adds up with `+`."""

    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.prompt_tokens + other.prompt_tokens, self.completion_tokens + other.completion_tokens)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one question may use. Reaching any of them ends the run with the answer found so far."""

    max_turns: int = 5
    seconds: float = 300.0
    tokens: int = 60_000
    usd: float = 0.50

    def __post_init__(self) -> None:
        if not 1 <= self.max_turns <= 20:
            raise ValueError(f"max_turns must be between 1 and 20, got {self.max_turns}")
        if not (0 < self.seconds < math.inf and self.tokens > 0 and 0 <= self.usd < math.inf):
            raise ValueError("limits must be finite and positive: seconds, tokens and usd")


@dataclass(frozen=True, slots=True)
class ReadToken:
    """The token whose hidden state was read: position -2 of the rendered transcript (paper, section 3.1)."""

    id: int
    text: str
    index: int


@dataclass(frozen=True, slots=True)
class HiddenState:
    """h of one transcript: float32 of shape [hidden_size], with where it came from. Views never mix origins."""

    vector: Vector = field(repr=False)
    read_token: ReadToken
    backbone: str
    protocol: str
    dtype: str
    truncated: bool = False  # the transcript was longer than the context and its middle was cut


@dataclass(frozen=True, slots=True)
class Decision:
    """What the policy chose, with everything a reader needs to see why.

    `agent_probs` and `role_probs` are the head's two softmaxes after masked agents were set to exactly 0;
    `head_agent` and `head_role` are what the head alone would have taken; `override` names the rule that
    moved the choice away from it, or is None.
    """

    agent: str
    role: Role
    agent_probs: Mapping[str, float]
    role_probs: Mapping[Role, float]
    agent_logits: Mapping[str, float]
    role_logits: Mapping[Role, float]
    head_agent: str
    head_role: Role
    override: Override | None
    masked: Mapping[str, str]  # agent -> why it could not be chosen
    hidden: HiddenState | None
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request that failed, kept with whatever text had arrived."""

    agent: str
    model: str
    error: str
    text: str = ""
    usage: Usage = Usage()
    cost_usd: float | None = 0.0


@dataclass(frozen=True, slots=True)
class Turn:
    """What one agent said in one role.

    `text` is the reply byte for byte, without reasoning. `cost_usd` is None when the price is unknown.
    `error` is set when no agent could speak this turn, or the reply broke off (then `text` is the part that came).
    """

    index: int
    role: Role
    agent: str
    slot: int  # 1-based place of the agent in its pool: all that the coordinator model sees of its identity
    model: str
    text: str
    reasoning: str = ""
    verdict: Verdict | None = None
    verdict_reason: str = ""
    unparsed_verdict: bool = False
    suggestion: Role | None = None
    finish: str = "stop"  # stop | length | cut | stopped
    usage: Usage = Usage()
    cost_usd: float | None = 0.0
    latency_s: float = 0.0
    first_token_s: float | None = None
    tries: int = 1  # requests made in this turn, the failed ones included; 0 for a remembered reply
    failed: tuple[Attempt, ...] = ()
    error: str | None = None
    prompt: tuple[Message, ...] = ()
    decision: Decision | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    """A question and the turns spoken about it. `history` holds earlier questions and answers of the conversation.

    Earlier answers are context: they are never this question's Worker answer.
    """

    question: str
    turns: tuple[Turn, ...] = ()
    history: tuple[Message, ...] = ()

    def plus(self, turn: Turn) -> Transcript:
        """The transcript with one more turn."""
        return replace(self, turns=(*self.turns, turn))

    @property
    def worker_turn(self) -> Turn | None:
        """The latest complete Worker turn, else the latest with any text, else None. Its text is the answer."""
        spoken = [t for t in reversed(self.turns) if t.role is Role.WORKER and t.text]
        return next((t for t in spoken if t.finish in ("stop", "length")), spoken[0] if spoken else None)

    @property
    def answer(self) -> str | None:
        """The latest Worker output, byte for byte."""
        return self.worker_turn.text if self.worker_turn else None


@dataclass(frozen=True, slots=True)
class Trace:
    """A finished run. `answer` is None when no Worker spoke; `reason` is None when accepted."""

    id: str
    question: str
    history: tuple[Message, ...]
    turns: tuple[Turn, ...]
    answer: str | None
    status: Status
    reason: Reason | None
    note: str  # one plain sentence for a person; empty when accepted
    usage: Usage
    cost_usd: float | None
    elapsed_s: float
    checkpoint: str
    backbone: str
    protocol: str
    pool: str
    pool_version: int = 1
