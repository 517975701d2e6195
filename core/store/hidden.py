"""Recent hidden states, for maps of what the coordinator sees. Origins are never mixed."""

from __future__ import annotations

from sqlalchemy import and_, select
from sqlalchemy.orm import Session, aliased

from core.store.codec import row_to_hidden
from core.store.owners import owner_hash
from core.store.records import HiddenPoint
from core.store.tables import QuestionRow, TurnRow
from core.types import Role, Status, Usage, Verdict

_MOST = 5_000


def recent_hidden(
    session: Session,
    owner: str | None,
    limit: int,
    backbone: str,
    protocol: str,
    dtype: str | None = None,
    first_only: bool = False,
) -> tuple[HiddenPoint, ...]:
    """The latest `limit` turns with h of this backbone and protocol, newest first.

    `owner` None means everybody's and is for admins only: the caller checks that. `dtype` None means that of the newest
    state; states of another precision are never mixed in. `first_only` leaves out all but a question's first turn.
    """
    turn, question, first = TurnRow, QuestionRow, aliased(TurnRow)
    where = [turn.h_backbone == backbone, turn.h_protocol == protocol]
    if owner is not None:
        where.append(turn.owner_hash == owner_hash(owner))
    if dtype is None:
        dtype = session.scalar(select(turn.h_dtype).where(*where).order_by(turn.created.desc()).limit(1))
    where.append(turn.h_dtype == dtype)
    if first_only:
        where.append(turn.turn_index == 1)
    found = session.execute(
        select(turn, question, first.agent)
        .join(question, question.id == turn.question_id)
        .outerjoin(first, and_(first.question_id == turn.question_id, first.turn_index == 1))
        .where(*where)
        .order_by(turn.created.desc(), turn.turn_index.desc())
        .limit(max(1, min(limit, _MOST)))
    )
    return tuple(_point(turn_row, question_row, agent) for turn_row, question_row, agent in found)


def _point(turn: TurnRow, question: QuestionRow, first_agent: str | None) -> HiddenPoint:
    hidden = row_to_hidden(turn)
    assert hidden is not None  # the query asked for rows that have a backbone
    return HiddenPoint(
        question_id=question.id,
        conversation_id=question.conversation_id,
        question=question.text,
        index=turn.turn_index,
        role=Role(turn.role),
        agent=turn.agent,
        model=turn.model,
        first_agent=first_agent,
        verdict=Verdict(turn.verdict) if turn.verdict else None,
        status=Status(question.status) if question.status else None,
        pool=question.pool,
        checkpoint=question.checkpoint,
        usage=Usage(turn.prompt_tokens, turn.completion_tokens),
        cost_usd=turn.cost_usd,
        latency_s=turn.latency_s,
        created=turn.created,
        hidden=hidden,
    )
