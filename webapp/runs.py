"""Questions in flight. A run is a task of the server: pages only follow it, so a reload or a closed tab ends nothing.

runs.ask(asker, conversation, question, options) -> Run      begins at once, or raises Refused
async for _ in runs.follow(run): draw(run)                   any number of followers, about 10 updates a second
runs.stop(owner, run)                                        the provider's call is closed, the text so far is kept
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from core.calls.base import Account
from core.errors import NotOwner, TrinityError
from core.types import Reason, Status
from webapp.limits import Buckets
from webapp.options import STANDARD, Asker, Options
from webapp.ownership import fingerprint, same_owner
from webapp.questions import Refused, problem_of
from webapp.run import Run, ended, messages, unsaved

if TYPE_CHECKING:
    from core.events import Event
    from webapp.archive import Archive
    from webapp.teams import TeamLike, Teams

log = logging.getLogger(__name__)

UPDATE_S = 0.1  # the shortest time between two updates of one page
HEARTBEAT_S = 5.0  # a page is drawn anew this often even when nothing happened: "still waiting"
STOP_GRACE_S = 5.0  # after this a team that does not end by itself is cancelled
ORPHAN_S = 600.0  # a run nobody has followed for this long is stopped
KEEP_RUNS = 200  # finished runs kept in memory; the database has them all
MAX_RUNNING = 32
MAX_RUNNING_PER_OWNER = 3


class Runs:
    """Every question in flight on this server. One running question a conversation; memory is bounded."""

    def __init__(
        self,
        teams: Teams,
        archive: Archive,
        *,
        default_pool: str = "embedded",
        public: bool = False,
        by_owner: Buckets | None = None,
        by_address: Buckets | None = None,
        orphan_s: float = ORPHAN_S,
    ) -> None:
        self._teams = teams
        self._archive = archive
        self._default_pool = default_pool
        self._public = public
        self._by_owner = by_owner or Buckets(burst=10, refill_s=6.0)
        self._by_address = by_address or Buckets(burst=30, refill_s=3.0)
        self._orphan_s = orphan_s
        self._runs: dict[str, Run] = {}  # the newest run of each conversation, oldest first
        self._janitor: asyncio.Task[None] | None = None

    async def ask(self, asker: Asker, conversation: str, question: str, options: Options = STANDARD) -> Run:
        """Begin to answer. An empty `conversation` begins a new one.

        Raises Refused with a reason for the visitor, or NotOwner.
        """
        self._check(asker, conversation, question)
        record = self._archive.record(asker.owner, conversation, options.replaces)
        run = Run(conversation, question, options, fingerprint(asker.owner), record)
        place = conversation or f"new-{record.question_id}"
        before = self._runs.pop(place, None)
        self._runs[place] = run  # before the first await: a second Send finds it
        try:
            await record.open(question, options.pool or self._default_pool, options)
        except BaseException:
            self._runs.pop(place, None)
            if before is not None:
                self._runs[place] = before
            raise
        run.earlier = unsaved(before)
        record.history = record.history or messages(run.earlier)
        if not conversation:
            del self._runs[place]
            run.conversation = record.conversation
            self._runs[run.conversation] = run
        run.task = asyncio.create_task(self._drive(run, asker), name="question")
        self._tidy()
        return run

    def latest(self, owner: str, conversation: str) -> Run | None:
        """The conversation's newest run in memory, running or done, if it is this owner's."""
        run = self._runs.get(conversation)
        return run if run is not None and same_owner(owner, run.owner_print) else None

    def knows(self, question_id: str) -> bool:
        """Whether this process answers, or has just answered, that question."""
        return any(run.record.question_id == question_id for run in self._runs.values())

    def running(self, owner: str) -> list[Run]:
        """This owner's running questions, oldest first."""
        return [run for run in self._runs.values() if not run.done and same_owner(owner, run.owner_print)]

    async def follow(self, run: Run) -> AsyncGenerator[int, None]:
        """Yield the run's version now, after each change and every HEARTBEAT_S; ends when the run is done.

        There is at least UPDATE_S between two yields.
        """
        run.followers += 1
        try:
            seen = -1
            while True:
                seen, done = run.version, run.done
                yield seen
                if done:
                    return
                await asyncio.sleep(UPDATE_S)
                await run.change(seen, timeout_s=HEARTBEAT_S)
                run.last_seen = time.monotonic()
        finally:
            run.followers -= 1
            run.last_seen = time.monotonic()

    def stop(self, owner: str, conversation: str) -> None:
        """Stop the conversation's running question. Nothing happens when it is over; raises NotOwner for a stranger."""
        run = self._runs.get(conversation)
        if run is None:
            return
        if not same_owner(owner, run.owner_print):
            raise NotOwner("This conversation belongs to another browser or does not exist.")
        self._stop(run)

    def forget(self, owner: str, conversation: str) -> None:
        """Stop and drop a conversation that is being deleted."""
        self.stop(owner, conversation)
        self._runs.pop(conversation, None)

    def forget_all(self, owner: str) -> None:
        """Stop and drop everything of one owner."""
        for name, run in list(self._runs.items()):
            if same_owner(owner, run.owner_print):
                self._stop(run)
                del self._runs[name]

    async def close(self, grace_s: float = STOP_GRACE_S) -> None:
        """Stop everything and wait until it is written down: the server is going."""
        tasks = [run.task for run in self._runs.values() if run.task and not run.done]
        for run in list(self._runs.values()):
            self._stop(run)
        if self._janitor:
            self._janitor.cancel()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace_s + 1.0)
            for task in late:
                task.cancel()

    def _check(self, asker: Asker, conversation: str, question: str) -> None:
        if problem := problem_of(question):
            raise problem
        known = self._runs.get(conversation)
        if known is not None and not same_owner(asker.owner, known.owner_print):
            raise NotOwner("This conversation belongs to another browser or does not exist.")
        if known is not None and not known.done:
            raise Refused("busy_conversation")
        if len(self.running(asker.owner)) >= MAX_RUNNING_PER_OWNER:
            raise Refused("busy_owner", count=MAX_RUNNING_PER_OWNER)
        if sum(not run.done for run in self._runs.values()) >= MAX_RUNNING:
            raise Refused("busy_server")
        wait = self._by_owner.wait_s(fingerprint(asker.owner)) or self._by_address.wait_s(asker.address)
        if wait:
            raise Refused("too_fast", seconds=max(1, round(wait)))

    async def _drive(self, run: Run, asker: Asker) -> None:
        """The run's own task: wait for the team, follow its events, write each turn down, and end in every case."""
        try:
            await self._answer(run, asker)
        except asyncio.CancelledError:
            run.live.trace = run.live.trace or ended(run, Status.STOPPED, None, "stopped by you")
        except TrinityError as error:
            run.live.trace = ended(run, Status.FAILED, Reason.ERROR, str(error))
        except Exception as error:  # whatever broke, the visitor gets an ending and the log gets the trace
            incident = secrets.token_hex(4)
            log.exception("incident %s: a run broke", incident)
            note = f"Something broke inside ({type(error).__name__}, incident {incident}). Please try again."
            run.live.trace = ended(run, Status.FAILED, Reason.ERROR, note)
        trace = run.live.trace or ended(run, Status.FAILED, Reason.ERROR, "The run ended without a result.")
        run.live.trace = trace
        try:
            await asyncio.shield(run.record.finish(trace))
        finally:  # whatever became of the record, nobody may wait for ever
            run.done = True
            run.bump()

    async def _answer(self, run: Run, asker: Asker) -> None:
        options = run.options
        run.loading = not self._teams.is_ready(options.pool, options.checkpoint)
        run.bump()
        team = await _unless(run.stop, self._teams.get(options.pool, options.checkpoint))
        if team is None:
            run.live.trace = ended(run, Status.STOPPED, None, "stopped by you before the first turn")
            return
        run.loading = False
        events = team.run(
            run.question,
            question_id=run.record.question_id,
            history=run.record.history,
            limits=options.limits,
            exclude=options.exclude,
            account=self._account(run, asker),
            stop=run.stop,
        )
        async with aclosing(events):  # type: ignore[type-var]  # a team's events are an async generator
            async for event in events:
                await self._take(run, event)

    def _account(self, run: Run, asker: Asker) -> Account:
        """Who pays: the ledger gets hashes of browser and address, never the token itself."""
        address = hashlib.sha256(asker.address.encode()).hexdigest() if asker.address else ""
        return Account(
            question=run.record.question_id,
            limit_usd=run.options.limits.usd,
            owner=run.owner_print,
            address=address,
            public=self._public,
        )

    async def _take(self, run: Run, event: Event) -> None:
        from core.events import TurnDone

        run.live.apply(event)
        run.bump()
        if isinstance(event, TurnDone):
            await run.record.add_turn(event.turn)

    def _stop(self, run: Run) -> None:
        if run.done or run.stopping:
            return
        run.stopping = True
        run.stop.set()
        run.bump()
        if run.task is not None:
            asyncio.get_running_loop().call_later(STOP_GRACE_S, _cancel_unless_ended, run)

    def _tidy(self) -> None:
        """Forget the oldest finished runs and see that the janitor is at work."""
        finished = [name for name, run in self._runs.items() if run.done]
        for name in finished[: max(0, len(self._runs) - KEEP_RUNS)]:
            del self._runs[name]
        if self._janitor is None or self._janitor.done():
            self._janitor = asyncio.create_task(self._watch_orphans(), name="orphans")

    async def _watch_orphans(self) -> None:
        while any(not run.done for run in self._runs.values()):
            await asyncio.sleep(min(15.0, self._orphan_s / 2))
            for run in list(self._runs.values()):
                if not run.followers and time.monotonic() - run.last_seen > self._orphan_s:
                    self._stop(run)


def _cancel_unless_ended(run: Run) -> None:
    if run.task is not None and run.live.trace is None:  # with a trace the run is being written down
        run.task.cancel()


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, TeamLike]) -> TeamLike | None:
    """The result of `work`, or None when `stop` is set first (then `work` is cancelled)."""
    task, stopped = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        stopped.cancel()
        task.cancel()
