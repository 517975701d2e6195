"""Thumbs on answers, one per question, with a reason."""

from __future__ import annotations

import time

from core.errors import StoreError
from core.store.database import Database
from core.store.owners import owned_question
from core.store.records import Feedback
from core.store.rows import feedback_record
from core.store.tables import FeedbackRow

_VALUES = ("up", "down")
_REASON_CHARS = 2_000


class FeedbackBook:
    """The thumbs of all questions."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def set(self, owner: str, question_id: str, value: str | None, reason: str = "") -> None:
        """Put a thumb `up` or `down`, in place of an earlier one; None takes it away. Raises NotOwner, StoreError."""
        if value is not None and value not in _VALUES:
            raise StoreError("Feedback is up, down or nothing.")
        if len(reason) > _REASON_CHARS:
            raise StoreError(f"A reason may have {_REASON_CHARS} characters; this one has {len(reason)}.")
        with self._db.writing() as session:
            question = owned_question(session, owner, question_id)
            if value is not None:
                session.merge(FeedbackRow(question_id=question.id, value=value, reason=reason, created=time.time()))
            elif (row := session.get(FeedbackRow, question.id)) is not None:
                session.delete(row)

    def get(self, owner: str, question_id: str) -> Feedback | None:
        """The thumb on an answer, if there is one. Raises NotOwner."""
        with self._db.reading() as session:
            row = session.get(FeedbackRow, owned_question(session, owner, question_id).id)
            return feedback_record(row) if row else None
