"""Every error this project raises, as one tree.

TrinityError
├── ConfigError               settings, .env, command line: exit code 2
│   ├── BackboneMissing       model files absent; the text names the command that brings them
│   ├── PoolInvalid           unknown or malformed pool
│   └── CheckpointInvalid     head file refused: shape, names, order, dtype, backbone, protocol
├── QuestionInvalid           empty, too long, not text
├── NonFiniteState            the backbone gave NaN or infinity: never a silent argmax
├── AgentError                one agent's call went wrong
│   ├── AgentTransient        try again: unreachable, overloaded
│   │   └── Throttled         the provider asked for fewer requests
│   ├── AgentAmbiguous        may have been billed: time-out after sending, cut stream, broken body
│   └── AgentPermanent        do not try again
│       ├── AuthFailed · QuotaExhausted · ModelUnknown · PromptTooLong · ContentRefused · EmptyReply
├── BudgetExceeded            money, before any request was sent
├── DeadlineExceeded          wall clock
├── PoolEmpty                 no agent may take this turn
├── SandboxUnavailable        no back end passed its self-check
├── DataUnavailable           a data set is unreachable, gated or malformed
├── StoreError                the database refused
└── NotOwner                  a conversation belongs to another browser or user
"""

from __future__ import annotations


class TrinityError(Exception):
    """Root of the tree. The message says what happened and what to do."""


class ConfigError(TrinityError):
    """Settings, .env or command line are wrong; commands exit with 2."""


class BackboneMissing(ConfigError):
    """The coordinator model's files are not there."""


class PoolInvalid(ConfigError):
    """A pool is unknown or its file is malformed."""


class CheckpointInvalid(ConfigError):
    """A head file was refused; the message holds the two values that differ."""


class QuestionInvalid(TrinityError):
    """The question is empty, too long, or not text."""


class NonFiniteState(TrinityError):
    """The hidden state holds NaN or infinity."""


class AgentError(TrinityError):
    """A call to one agent went wrong.

    `partial` is the text that had arrived, `retry_after` is in seconds, `tries` counts the requests made and
    `cost_usd` is what the last one may have cost (None: unknown); earlier ones were reported as Retry.
    """

    def __init__(
        self,
        message: str,
        *,
        partial: str = "",
        retry_after: float | None = None,
        tries: int = 1,
        cost_usd: float | None = 0.0,
    ) -> None:
        super().__init__(message)
        self.partial = partial
        self.retry_after = retry_after
        self.tries = tries
        self.cost_usd = cost_usd


class AgentTransient(AgentError):
    """Throttled, unreachable or overloaded: worth another try."""


class Throttled(AgentTransient):
    """The provider asked for fewer requests: its `retry_after` holds for everybody who calls it."""


class AgentAmbiguous(AgentError):
    """The provider may have done (and billed) the work: another try counts as a second call."""


class AgentPermanent(AgentError):
    """Another try would fail the same way."""


class AuthFailed(AgentPermanent):
    """Key missing, wrong, or not allowed to use this model."""


class QuotaExhausted(AgentPermanent):
    """The account has no credit left."""


class ModelUnknown(AgentPermanent):
    """The provider does not know this model."""


class PromptTooLong(AgentPermanent):
    """The prompt does not fit the model's context."""


class ContentRefused(AgentPermanent):
    """The provider's content filter stopped the reply."""


class EmptyReply(AgentPermanent):
    """The model said nothing: a failed turn, never an empty answer."""


class BudgetExceeded(TrinityError):
    """The next call could cost more than what is left; it was not sent."""


class DeadlineExceeded(TrinityError):
    """The time for this call or question is over."""


class PoolEmpty(TrinityError):
    """No agent may take this turn."""


class SandboxUnavailable(TrinityError):
    """No sandbox back end passed its self-check; code is not run."""


class DataUnavailable(TrinityError):
    """A data set cannot be had; the message names it and the way to get it. Never replaced by other data."""


class StoreError(TrinityError):
    """The database is unreachable, newer than this program, or refused a write."""


class NotOwner(TrinityError):
    """The conversation belongs to another browser or user, or does not exist."""
