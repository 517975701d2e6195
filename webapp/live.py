"""A running question as far as it has come: events folded into what a page can show."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from core.events import (
    AttemptFailed,
    Decided,
    Event,
    Failed,
    Finished,
    TextDelta,
    TurnDone,
    TurnStarted,
    VerdictGiven,
)
from core.types import Attempt, Decision, Role, Trace, Turn

MAX_LIVE_TEXT = 200_000  # characters shown of a reply that is still arriving; the finished turn has all of it


@dataclass(slots=True)
class LiveTurn:
    """One turn on its way. `turn` is set when it is complete; times are monotonic seconds."""

    index: int
    started: float
    decision: Decision | None = None
    model: str = ""
    text: str = ""
    reasoning: str = ""
    failed: list[tuple[Attempt, float | None]] = field(default_factory=list)  # with the wait before the next try
    waiting: bool = False  # an attempt failed and nothing came since
    turn: Turn | None = None


@dataclass(slots=True)
class LiveRun:
    """Everything a running question has reported. `apply` takes its events in order."""

    started: float = field(default_factory=time.monotonic)
    turns: list[LiveTurn] = field(default_factory=list)
    trace: Trace | None = None

    @property
    def draft(self) -> str | None:
        """The newest Worker text, complete or still arriving: what would be the answer now."""
        for live in reversed(self.turns):
            if live.turn is not None and live.turn.role is Role.WORKER and live.turn.text:
                return live.turn.text
            if live.turn is None and live.decision is not None and live.decision.role is Role.WORKER and live.text:
                return live.text
        return None

    def apply(self, event: Event) -> None:
        """Fold in one event."""
        if isinstance(event, Finished | Failed):
            self.trace = event.trace
        elif isinstance(event, TurnStarted):
            self.turns.append(LiveTurn(event.index, time.monotonic()))
        elif not isinstance(event, VerdictGiven):  # the finished turn carries its verdict already
            self._to_turn(self._live(event.index), event)

    def _to_turn(self, live: LiveTurn, event: Decided | TextDelta | AttemptFailed | TurnDone) -> None:
        if isinstance(event, Decided):
            live.decision, live.model, live.waiting = event.decision, event.model, False
        elif isinstance(event, TextDelta):
            live.text = (live.text + event.text)[:MAX_LIVE_TEXT]
            live.reasoning = (live.reasoning + event.reasoning)[:MAX_LIVE_TEXT]
            live.waiting = False
        elif isinstance(event, AttemptFailed):
            live.failed.append((event.attempt, event.retry_in_s))
            live.text = live.reasoning = ""
            live.waiting = True
        else:
            live.turn = event.turn

    def _live(self, index: int) -> LiveTurn:
        if not self.turns or self.turns[-1].index != index:  # a run that was joined in the middle
            self.turns.append(LiveTurn(index, time.monotonic()))
        return self.turns[-1]
