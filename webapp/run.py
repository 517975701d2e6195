"""One question in flight: who asked, with which options, how far it is, and how it ended."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from core.tally import Tally
from core.types import Message, Reason, Status, Trace, Transcript
from webapp.live import LiveRun
from webapp.options import Options

if TYPE_CHECKING:
    from webapp.archive import Record

KEEP_UNSAVED = 20  # questions of one conversation kept in memory while the database refuses them


@dataclass(eq=False)
class Run:
    """One question being answered, or answered a short while ago."""

    conversation: str
    question: str
    options: Options
    owner_print: str
    record: Record
    live: LiveRun = field(default_factory=LiveRun)
    started: float = field(default_factory=time.time)
    loading: bool = False  # waits for its team
    stopping: bool = False
    done: bool = False
    version: int = 0
    followers: int = 0
    last_seen: float = field(default_factory=time.monotonic)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    earlier: tuple[Run, ...] = ()  # runs of this conversation that only memory has
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def bump(self) -> None:
        """Tell every follower that something changed."""
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def change(self, seen: int, timeout_s: float) -> None:
        """Wait until the version is no longer `seen`, at most `timeout_s` seconds."""
        if self.version == seen:
            changed = self._changed
            try:
                await asyncio.wait_for(changed.wait(), timeout_s)
            except TimeoutError:
                return


def unsaved(before: Run | None) -> tuple[Run, ...]:
    """What a conversation that the database refused has so far, the newest last; bounded."""
    return (*before.earlier, before)[-KEEP_UNSAVED:] if before is not None and before.record.problem else ()


def messages(runs: tuple[Run, ...]) -> tuple[Message, ...]:
    """Earlier questions with their answers, as the store would give them."""
    traces = [run.live.trace for run in runs if run.live.trace is not None]
    return tuple(
        message
        for trace in traces
        if trace.answer is not None
        for message in (Message("user", trace.question), Message("assistant", trace.answer))
    )


def ended(run: Run, status: Status, reason: Reason | None, note: str) -> Trace:
    """A trace of what was said, for a run whose team did not give one."""
    turns = tuple(live.turn for live in run.live.turns if live.turn is not None)
    tally = Tally.of(turns)
    return Trace(
        id=run.record.question_id,
        question=run.question,
        history=run.record.history,
        turns=turns,
        answer=Transcript(run.question, turns).answer or run.live.draft,
        status=status,
        reason=reason,
        note=note,
        usage=tally.usage,
        cost_usd=tally.cost_usd,
        elapsed_s=time.monotonic() - run.live.started,
        checkpoint=run.options.checkpoint,
        backbone="",
        protocol="",
        pool=run.options.pool,
    )
