"""The ledger: money is reserved before a request is sent and settled after it, in transactions that survive a kill.

All writers of a process go through one thread, which puts everything that waits into one transaction: 50 calls at
once cost a handful of commits, and no two of them can both take the last cent of a cap. Between processes the
database's own lock does the same (BEGIN IMMEDIATE; an advisory lock on PostgreSQL).
"""

from __future__ import annotations

import atexit
import logging
import queue
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, cast

from sqlalchemy import Table, bindparam, insert, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from core.errors import StoreError
from core.store.database import Database
from core.store.ledger_tables import CallRow, SpendRow
from core.store.runner import is_alive, on_this_host, this_runner

log = logging.getLogger(__name__)
_BATCH = 256
_ADVISORY_LOCK = 84207047
_CALLS = cast(Table, CallRow.__table__)
_SPEND = cast(Table, SpendRow.__table__)


@dataclass(frozen=True, slots=True)
class Cap:
    """One limit that a call counts against, in nano-dollars; `limit` None counts without limiting."""

    scope: str
    key: str
    limit: int | None


@dataclass(frozen=True, slots=True)
class Entry:
    """A request about to be sent. `reserved` is the most it can cost, in nano-dollars."""

    key: str
    agent: str
    model: str
    channel: str
    question: str
    owner_hash: str
    run: str
    process: str
    reserved: int
    caps: tuple[Cap, ...]
    id: str = field(default_factory=lambda: uuid.uuid4().hex)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A cap that the request would break, and what is left under it, in nano-dollars."""

    cap: Cap
    left: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a request ended. `charged` counts against the caps; `cost` and tokens are None when not reported."""

    state: str
    charged: int
    cost: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    error: str = ""


@dataclass(slots=True)
class _Reserve:
    entry: Entry
    done: Future[Refusal | None]


@dataclass(slots=True)
class _Settle:
    entry: Entry
    outcome: Outcome
    known: bool  # whether the row exists already (free agents are written once, at the end)


class Ledger:
    """The ledger of one database. Safe to use from several threads; `close` waits for what is queued."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._db = database
        self._clock = clock
        self._queue: queue.SimpleQueue[_Reserve | _Settle | threading.Event] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def reserve(self, entry: Entry) -> Future[Refusal | None]:
        """Reserve before the request is sent. The future gives None once it is on disk, or the cap in the way."""
        done: Future[Refusal | None] = Future()
        self._put(_Reserve(entry, done))
        return done

    def settle(self, entry: Entry, outcome: Outcome) -> None:
        """Settle what was reserved. Returns at once: should the process die first, the reservation stands."""
        self._put(_Settle(entry, outcome, known=True))

    def record(self, entry: Entry, outcome: Outcome) -> None:
        """Write a request that cost nothing and needed no reservation."""
        self._put(_Settle(entry, outcome, known=False))

    def flush(self, timeout: float = 30.0) -> None:
        """Wait until everything given so far is in the database."""
        if self._thread is not None:
            mark = threading.Event()
            self._put(mark)
            mark.wait(timeout)

    def recover(self) -> int:
        """Mark what dead processes of this machine left reserved as in doubt, still counted; returns how many."""
        with self._db.writing(durable=True) as session:
            rows = session.execute(select(CallRow.runner).where(CallRow.state == "reserved").distinct()).scalars()
            dead = [runner for runner in rows if on_this_host(runner) and not is_alive(runner)]
            lost = (
                update(CallRow)
                .where(CallRow.state == "reserved", CallRow.runner.in_(dead))
                .values(state="in_doubt", error="Interrupted", finished=self._clock())
            )
            return len(session.execute(lost.returning(CallRow.id)).all()) if dead else 0

    def charged(self, scope: str, key: str) -> int:
        """What counts against a cap so far, in nano-dollars."""
        with self._db.reading() as session:
            row = session.get(SpendRow, (scope, key))
            return row.charged if row else 0

    def _put(self, item: _Reserve | _Settle | threading.Event) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="ledger", daemon=True)
                self._thread.start()
                atexit.register(self.flush)
        self._queue.put(item)

    def _work(self) -> None:
        while True:
            batch = [self._queue.get()]
            while len(batch) < _BATCH:
                try:
                    batch.append(self._queue.get_nowait())
                except queue.Empty:
                    break
            self._write(batch)

    def _write(self, batch: Sequence[_Reserve | _Settle | threading.Event]) -> None:
        moves = [item for item in batch if not isinstance(item, threading.Event)]
        try:
            refusals = self._transact(moves) if moves else {}
        except Exception as error:
            broken = error if isinstance(error, StoreError) else StoreError(f"The ledger failed: {error}")
            log.error("ledger: %s", broken)  # a settlement that is lost leaves its reservation counted
            for item in moves:
                if isinstance(item, _Reserve) and item.done.set_running_or_notify_cancel():
                    item.done.set_exception(broken)
        else:
            for item in moves:
                if isinstance(item, _Reserve) and item.done.set_running_or_notify_cancel():
                    item.done.set_result(refusals.get(item.entry.id))
        for mark in batch:
            if isinstance(mark, threading.Event):
                mark.set()

    def _transact(self, moves: Sequence[_Reserve | _Settle]) -> dict[str, Refusal]:
        with self._db.writing(durable=True) as session:
            if session.get_bind().dialect.name == "postgresql":
                session.connection().exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")
            books = _Books(session, moves, self._clock())
            for move in moves:
                if isinstance(move, _Reserve):
                    books.reserve(move.entry)
                else:
                    books.settle(move)
            books.write()
            return books.refusals


class _Books:
    """One transaction's view: totals are read once, moved in memory in order, and written once."""

    def __init__(self, session: Session, moves: Iterable[_Reserve | _Settle], now: float) -> None:
        self.session = session
        self.now = now
        self.refusals: dict[str, Refusal] = {}
        self.new: dict[str, dict[str, Any]] = {}
        self.closed: list[dict[str, Any]] = []
        self.moved: dict[tuple[str, str], int] = defaultdict(int)
        keys = {(cap.scope, cap.key) for move in moves for cap in move.entry.caps}
        wanted = tuple_(SpendRow.scope, SpendRow.key).in_(sorted(keys))
        found = session.execute(select(SpendRow.scope, SpendRow.key, SpendRow.charged).where(wanted)) if keys else ()
        self.totals = {(scope, key): charged for scope, key, charged in found}

    def reserve(self, entry: Entry) -> None:
        for cap in entry.caps:
            total = self.totals.get((cap.scope, cap.key), 0)
            if cap.limit is not None and total + entry.reserved > cap.limit:
                self.refusals[entry.id] = Refusal(cap, max(0, cap.limit - total))
                return
        self._move(entry, entry.reserved)
        self.new[entry.id] = self._row(entry, "reserved", entry.reserved)

    def settle(self, move: _Settle) -> None:
        entry, outcome = move.entry, move.outcome
        values = {
            "state": outcome.state,
            "charged": outcome.charged,
            "cost": outcome.cost,
            "prompt_tokens": outcome.prompt_tokens,
            "completion_tokens": outcome.completion_tokens,
            "error": outcome.error,
            "finished": self.now,
        }
        self._move(entry, outcome.charged - (entry.reserved if move.known else 0))
        if not move.known:
            self.new[entry.id] = {**self._row(entry, outcome.state, outcome.charged), **values}
        elif entry.id in self.new:
            self.new[entry.id] |= values
        else:
            self.closed.append({f"v_{name}": value for name, value in values.items()} | {"v_id": entry.id})

    def write(self) -> None:
        connection = self.session.connection()
        if self.new:
            connection.execute(insert(_CALLS), list(self.new.values()))
        if self.closed:
            names = [name.removeprefix("v_") for name in self.closed[0] if name != "v_id"]
            values: dict[str, Any] = {name: bindparam(f"v_{name}") for name in names}
            connection.execute(update(_CALLS).where(_CALLS.c.id == bindparam("v_id")).values(values), self.closed)
        rows = [{"scope": s, "key": k, "charged": amount} for (s, k), amount in self.moved.items() if amount]
        if rows:
            connection.execute(_add_to_spend(connection.dialect.name), rows)

    def _move(self, entry: Entry, amount: int) -> None:
        for cap in entry.caps:
            place = (cap.scope, cap.key)
            self.totals[place] = self.totals.get(place, 0) + amount
            self.moved[place] += amount

    def _row(self, entry: Entry, state: str, charged: int) -> dict[str, Any]:
        return {
            "id": entry.id,
            "key": entry.key,
            "agent": entry.agent,
            "model": entry.model,
            "channel": entry.channel,
            "state": state,
            "question": entry.question,
            "owner_hash": entry.owner_hash,
            "run": entry.run,
            "process": entry.process,
            "runner": this_runner(),
            "reserved": entry.reserved,
            "charged": charged,
            "cost": None,
            "prompt_tokens": None,
            "completion_tokens": None,
            "error": "",
            "created": self.now,
            "finished": None,
        }


def _add_to_spend(dialect: str) -> Any:
    statement: Any = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[dialect](_SPEND)
    more = {"charged": _SPEND.c.charged + statement.excluded.charged}
    return statement.on_conflict_do_update(index_elements=["scope", "key"], set_=more)
