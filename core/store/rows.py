"""Question rows with their turns and feedback -> records."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from core.store.codec import limits_from_json, row_to_turn
from core.store.records import Feedback, Question
from core.store.tables import FeedbackRow, QuestionRow, TurnRow
from core.types import Reason, Status, Turn, Usage


def read_questions(session: Session, which: ColumnElement[bool]) -> tuple[Question, ...]:
    """The questions that `which` selects, in order of position, then age. Three queries, however many questions."""
    rows = session.scalars(select(QuestionRow).where(which).order_by(QuestionRow.position, QuestionRow.created)).all()
    chosen = select(QuestionRow.id).where(which)
    turns = read_turns(session, TurnRow.question_id.in_(chosen))
    feedback = {
        row.question_id: feedback_record(row)
        for row in session.scalars(select(FeedbackRow).where(FeedbackRow.question_id.in_(chosen)))
    }
    return tuple(_question(row, tuple(turns.get(row.id, ())), feedback.get(row.id)) for row in rows)


def read_turns(session: Session, which: ColumnElement[bool]) -> dict[str, list[Turn]]:
    """Question id -> its turns in order."""
    turns: dict[str, list[Turn]] = defaultdict(list)
    for row in session.scalars(select(TurnRow).where(which).order_by(TurnRow.question_id, TurnRow.turn_index)):
        turns[row.question_id].append(row_to_turn(row))
    return turns


def feedback_record(row: FeedbackRow) -> Feedback:
    """The record of one thumb."""
    return Feedback(row.question_id, row.value, row.reason, row.created)


def _question(row: QuestionRow, turns: tuple[Turn, ...], feedback: Feedback | None) -> Question:
    same: dict[str, Any] = {
        name: getattr(row, name)
        for name in (
            *("id", "conversation_id", "position", "replaces", "text", "note", "answer", "pool", "pool_version"),
            *("checkpoint", "backbone", "protocol", "cost_usd", "seconds", "created", "finished"),
        )
    }
    return Question(
        **same,
        status=Status(row.status) if row.status else None,
        reason=Reason(row.reason) if row.reason else None,
        usage=Usage(row.prompt_tokens, row.completion_tokens),
        limits=limits_from_json(row.limits),
        excluded=tuple(row.excluded),
        turns=turns,
        feedback=feedback,
    )
