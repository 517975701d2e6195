"""What a running question reports, in order of arrival.

A run is: (TurnStarted, Decided, TextDelta*, [AttemptFailed ...], TurnDone, [VerdictGiven])* then exactly one
of Finished or Failed. Stopping a run also ends it with Finished (status `stopped`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from core.types import Attempt, Decision, Trace, Turn, Verdict


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """The coordinator model begins to read; no agent is chosen yet."""

    index: int


@dataclass(frozen=True, slots=True)
class Decided:
    """An agent and a role are chosen. Comes again for the same index when a fallback takes the turn."""

    index: int
    decision: Decision
    model: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the reply: visible text, or reasoning that is kept apart."""

    index: int
    text: str = ""
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """A call failed. The text streamed so far for this index is void; `attempt.text` keeps it.

    `retry_in_s` is the wait before the same agent is asked again, or None when another agent takes the turn
    or the run ends.
    """

    index: int
    attempt: Attempt
    retry_in_s: float | None


@dataclass(frozen=True, slots=True)
class TurnDone:
    """The turn is complete and already part of the transcript: persist it now."""

    index: int
    turn: Turn


@dataclass(frozen=True, slots=True)
class VerdictGiven:
    """A Verifier judged the latest Worker answer."""

    index: int
    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The run is over with any status but failed."""

    trace: Trace


@dataclass(frozen=True, slots=True)
class Failed:
    """The run is over because something broke; `trace.note` says what and what to do. An answer found is kept."""

    trace: Trace


Event: TypeAlias = TurnStarted | Decided | TextDelta | AttemptFailed | TurnDone | VerdictGiven | Finished | Failed
