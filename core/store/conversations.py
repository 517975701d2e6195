"""Conversations: begin, list, read, rename, delete, forget."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Sequence

from sqlalchemy import ColumnElement, delete, func, literal, or_, select, tuple_, update
from sqlalchemy.orm import InstrumentedAttribute, Session

from core.errors import StoreError
from core.store.columns import ExactText
from core.store.database import Database
from core.store.ledger_tables import ReplyRow
from core.store.owners import new_id, owned_conversation, owner_hash
from core.store.records import Conversation, Summary
from core.store.rows import read_questions
from core.store.tables import ConversationRow, QuestionRow, SearchRow, ShareRow

TITLE_CHARS = 60
_QUERY_CHARS = 500
_PAGE = 200
_BATCH = 200


def fold(text: str) -> str:
    """Text as search compares it: compatibility forms and letter case do not count."""
    return unicodedata.normalize("NFKC", text).casefold()


def title_of(text: str) -> str:
    """The title a question gives its conversation: its first 60 characters on one line."""
    return " ".join(text[: 4 * TITLE_CHARS].split())[:TITLE_CHARS]


class Conversations:
    """The conversations of all owners. Every method but `purge` and `shared` sees one owner's only."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def create(self, owner: str) -> str:
        """Begin an empty conversation and return its id. The first question gives it its title."""
        now, mine, conversation_id = time.time(), owner_hash(owner), new_id()
        with self._db.writing() as session:
            session.add(
                ConversationRow(
                    id=conversation_id, owner_hash=mine, title="", title_folded="", created=now, updated=now
                )
            )
        return conversation_id

    def list(
        self, owner: str, query: str = "", limit: int = 50, before: tuple[float, str] | None = None
    ) -> tuple[Summary, ...]:
        """The owner's conversations, latest first, at most 200; `before` is the `cursor` of the last one seen.

        `query` must occur in the title, a question or an answer; letter case does not count. Raises StoreError when it
        is longer than 500 characters.
        """
        if len(query) > _QUERY_CHARS:
            raise StoreError(f"Search for at most {_QUERY_CHARS} characters.")
        mine, wanted = owner_hash(owner), fold(query.strip())
        row = ConversationRow
        statement = select(row).where(row.owner_hash == mine, row.deleted.is_(None))
        if wanted:
            hits = select(SearchRow.conversation_id).where(
                SearchRow.owner_hash == mine, self._holds(SearchRow.folded, wanted)
            )
            statement = statement.where(or_(self._holds(row.title_folded, wanted), row.id.in_(hits)))
        if before is not None:
            statement = statement.where(tuple_(row.updated, row.id) < before)
        statement = statement.order_by(row.updated.desc(), row.id.desc()).limit(max(1, min(limit, _PAGE)))
        with self._db.reading() as session:
            rows = session.scalars(statement).all()
            counts = _counts(session, [r.id for r in rows])
        return tuple(Summary(r.id, r.title, r.created, r.updated, *counts.get(r.id, (0, False))) for r in rows)

    def get(self, owner: str, conversation_id: str) -> Conversation:
        """A conversation with its questions and turns. Raises NotOwner."""
        with self._db.reading() as session:
            return read_conversation(session, owned_conversation(session, owner, conversation_id))

    def rename(self, owner: str, conversation_id: str, title: str) -> None:
        """Give it another title, cut to 60 characters; an empty one is refused. Raises NotOwner, StoreError."""
        short = title_of(title)
        if not short:
            raise StoreError("A title needs at least one character.")
        with self._db.writing() as session:
            row = owned_conversation(session, owner, conversation_id)
            row.title, row.title_folded = short, fold(short)

    def delete(self, owner: str, conversation_id: str) -> None:
        """Purge its questions, turns, hidden states, feedback and shares. Raises NotOwner."""
        with self._db.writing() as session:
            _purge(session, [owned_conversation(session, owner, conversation_id, lock=True).id])

    def delete_all(self, owner: str) -> int:
        """Purge everything of this owner; returns how many conversations there were."""
        return self._purge_where(ConversationRow.owner_hash == owner_hash(owner))

    def purge(self, older_than: float) -> int:
        """Retention: purge conversations of all owners untouched since `older_than` (seconds since the epoch).

        Conversations with a running question stay. Empty rows of conversations deleted before then go, too. Returns how
        many conversations lost their text.
        """
        row = ConversationRow
        running = select(QuestionRow.conversation_id).where(QuestionRow.status.is_(None))
        with self._db.writing() as session:
            session.execute(delete(row).where(row.deleted < older_than))
        return self._purge_where(row.updated < older_than, row.deleted.is_(None), row.id.not_in(running))

    def _holds(self, column: InstrumentedAttribute[str], wanted: str) -> ColumnElement[bool]:
        """Whether the column holds the text. Each database by its quicker way, measured on 100,000 answers."""
        if self._db.file is None:
            return func.strpos(column, literal(wanted, ExactText)) > 0
        return column.contains(wanted, autoescape=True)

    def _purge_where(self, *conditions: ColumnElement[bool]) -> int:
        """Purge in small transactions: 100,000 questions take seconds, and other writers must get their turn."""
        count = 0
        while True:
            with self._db.writing() as session:
                ids = session.scalars(select(ConversationRow.id).where(*conditions).limit(_BATCH)).all()
                if ids:
                    _purge(session, ids)
            count += len(ids)
            if len(ids) < _BATCH:
                return count


def read_conversation(session: Session, row: ConversationRow) -> Conversation:
    """The record of a row whose access was checked."""
    questions = read_questions(session, QuestionRow.conversation_id == row.id)
    return Conversation(row.id, row.title, row.created, row.updated, questions)


def _counts(session: Session, ids: Sequence[str]) -> dict[str, tuple[int, bool]]:
    """Conversation id -> (number of questions, one is running). Retries of one question count once."""
    row = QuestionRow
    unfinished = func.count() - func.count(row.status)
    found = session.execute(
        select(row.conversation_id, func.count(row.position.distinct()), unfinished)
        .where(row.conversation_id.in_(ids))
        .group_by(row.conversation_id)
    )
    return {conversation_id: (count, running > 0) for conversation_id, count, running in found}


def _purge(session: Session, ids: Sequence[str]) -> None:
    """Remove all that was said. The empty row stays: a run still going on learns that its conversation is gone."""
    row = ConversationRow
    # Conversation before question, as every writer does: two that met head-on would be a deadlock on PostgreSQL.
    session.execute(select(row.id).where(row.id.in_(ids)).order_by(row.id).with_for_update()).all()
    questions = select(QuestionRow.id).where(QuestionRow.conversation_id.in_(ids))
    session.execute(delete(ReplyRow).where(ReplyRow.question.in_(questions)))  # what a cache holds is text, too
    session.execute(delete(QuestionRow).where(QuestionRow.conversation_id.in_(ids)))  # turns and more cascade
    session.execute(delete(ShareRow).where(ShareRow.conversation_id.in_(ids)))
    emptied = {"owner_hash": "", "title": "", "title_folded": "", "deleted": time.time()}
    session.execute(update(row).where(row.id.in_(ids)).values(emptied))
