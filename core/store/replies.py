"""Remembered replies: complete ones only, under the key of everything that was asked."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from core.store.database import Database
from core.store.ledger_tables import ReplyRow
from core.store.tables import QuestionRow


@dataclass(frozen=True, slots=True)
class Remembered:
    """A reply as it was given. `cost` in nano-dollars is what it cost then."""

    agent: str
    model: str
    text: str
    reasoning: str
    finish: str
    prompt_tokens: int
    completion_tokens: int
    cost: int


@dataclass(frozen=True, slots=True)
class ReplyStatistics:
    """How the memory pays: replies kept, times one was used, nano-dollars that saved."""

    kept: int
    hits: int
    saved: int


class Replies:
    """The remembered replies of one database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def get(self, key: str) -> Remembered | None:
        """The reply under a key, counted as used; None when there is none."""
        with self._db.reading() as session:
            row = session.get(ReplyRow, key)
        if row is None:
            return None
        with self._db.writing() as session:
            session.execute(update(ReplyRow).where(ReplyRow.key == key).values(hits=ReplyRow.hits + 1))
        return Remembered(row.agent, row.model, row.text, row.reasoning, row.finish,
                          row.prompt_tokens, row.completion_tokens, row.cost)  # fmt: skip

    def put(self, key: str, question: str, reply: Remembered, *, stored: bool = False) -> None:
        """Remember a reply; the first one under a key stays. Raises ValueError for one that is empty or broken off.

        `stored` says that the question is a row of the database: if it was deleted meanwhile, nothing is kept.
        """
        if not reply.text.strip() or reply.finish != "stop":
            raise ValueError("only complete replies are remembered")
        values = {"key": key, "question": question, "created": time.time(), "hits": 0}
        values |= {name: getattr(reply, name) for name in Remembered.__dataclass_fields__}
        with self._db.writing() as session:
            if stored and session.get(QuestionRow, question) is None:
                return
            insert: Any = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}[session.get_bind().dialect.name]
            session.execute(insert(ReplyRow).values(**values).on_conflict_do_nothing(index_elements=["key"]))

    def statistics(self) -> ReplyStatistics:
        """Counts over all replies kept."""
        saved = func.coalesce(func.sum(ReplyRow.hits * ReplyRow.cost), 0)
        with self._db.reading() as session:
            row = session.execute(select(func.count(), func.coalesce(func.sum(ReplyRow.hits), 0), saved)).one()
        return ReplyStatistics(*map(int, row))

    def clear(self) -> int:
        """Forget everything; returns how many."""
        with self._db.writing() as session:
            return len(session.execute(delete(ReplyRow).returning(ReplyRow.key)).all())
