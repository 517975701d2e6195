"""One question as a page sees it, whether it runs, has just ended, or comes from the database."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.tally import Tally
from core.types import Reason, Status, Trace, Usage
from webapp.live import LiveRun, LiveTurn

if TYPE_CHECKING:
    from core.store.records import Question
    from webapp.run import Run


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with what is known of its answer. `status` is None while it runs; `seconds` so far or in all."""

    id: str
    text: str
    turns: tuple[LiveTurn, ...]
    status: Status | None
    reason: Reason | None
    note: str
    answer: str | None
    usage: Usage
    cost_usd: float | None
    seconds: float
    checkpoint: str
    loading: bool = False
    stopping: bool = False
    unsaved: str = ""
    thumb: str = ""  # up, down, or nothing
    thumb_reason: str = ""

    @property
    def running(self) -> bool:
        """Whether more is to come."""
        return self.status is None


def from_run(run: Run) -> Asked:
    """A question in flight, or one that ended a short while ago."""
    live = run.live
    if run.done and live.trace is not None:
        return _from_trace(live.trace, live, run.record.question_id, run.record.problem)
    tally = Tally.of(turn.turn for turn in live.turns if turn.turn is not None)
    return Asked(
        id=run.record.question_id,
        text=run.question,
        turns=tuple(live.turns),
        status=None,
        reason=None,
        note="",
        answer=live.draft,
        usage=tally.usage,
        cost_usd=tally.cost_usd,
        seconds=time.monotonic() - live.started,
        checkpoint="",
        loading=run.loading,
        stopping=run.stopping,
        unsaved=run.record.problem,
    )


def from_store(question: Question) -> Asked:
    """A question of the database. One without a status is run by another process at this moment."""
    return Asked(
        id=question.id,
        text=question.text,
        turns=tuple(LiveTurn(turn.index, 0.0, turn=turn) for turn in question.turns),
        status=question.status,
        reason=question.reason,
        note=question.note,
        answer=question.answer,
        usage=question.usage,
        cost_usd=question.cost_usd,
        seconds=question.seconds,
        checkpoint=question.checkpoint,
        thumb=question.feedback.value if question.feedback else "",
        thumb_reason=question.feedback.reason if question.feedback else "",
    )


def _from_trace(trace: Trace, live: LiveRun, question_id: str, unsaved: str) -> Asked:
    known = {turn.index for turn in live.turns if turn.turn is not None}
    late = [LiveTurn(turn.index, 0.0, turn=turn) for turn in trace.turns if turn.index not in known]
    spoken = [turn for turn in live.turns if turn.turn is not None or turn.text or turn.failed]
    return Asked(
        id=question_id,
        text=trace.question,
        turns=tuple(sorted([*spoken, *late], key=lambda turn: turn.index)),
        status=trace.status,
        reason=trace.reason,
        note=trace.note,
        answer=trace.answer,
        usage=trace.usage,
        cost_usd=trace.cost_usd,
        seconds=trace.elapsed_s,
        checkpoint=trace.checkpoint,
        unsaved=unsaved,
    )
