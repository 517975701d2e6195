"""Questions: begun, fed turn by turn, finished; or found cut off at the next start."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from core.errors import StoreError
from core.store.codec import limits_to_json, turn_to_row
from core.store.conversations import fold, title_of
from core.store.database import Database
from core.store.hidden import recent_hidden
from core.store.owners import new_id, owned_conversation, owned_question
from core.store.records import HiddenPoint, Question
from core.store.rows import read_questions, read_turns
from core.store.runner import is_alive, on_this_host, this_runner
from core.store.tables import ConversationRow, QuestionRow, SearchRow, TurnRow
from core.tally import Tally
from core.types import Limits, Message, Reason, Status, Trace, Transcript, Turn

INTERRUPTED = "The program stopped while this question ran. Press Retry to ask it again."
# Another machine's run counts as dead this long after its own time limit.
_GRACE_S = 60.0


class Questions:
    """The questions of all conversations."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def start(
        self,
        owner: str,
        conversation_id: str,
        text: str,
        *,
        pool: str,
        checkpoint: str,
        backbone: str,
        protocol: str,
        limits: Limits,
        exclude: Sequence[str] = (),
        pool_version: int | None = None,
        replaces: str | None = None,
        id: str | None = None,
    ) -> str:
        """Record that a question begins to run, before its first turn, and return its id.

        `replaces` names the question of the same conversation that this one is a retry or an edit of. `id` is a fresh
        `new_id()` when the caller needs it beforehand. Raises NotOwner.
        """
        now = time.time()
        with self._db.writing() as session:
            conversation = owned_conversation(session, owner, conversation_id, lock=True)
            row = QuestionRow(
                id=id or new_id(),
                conversation_id=conversation.id,
                owner_hash=conversation.owner_hash,
                position=_position(session, owner, conversation, replaces),
                replaces=replaces,
                text=text,
                note="",
                pool=pool,
                pool_version=pool_version,
                checkpoint=checkpoint,
                backbone=backbone,
                protocol=protocol,
                prompt_tokens=0,
                completion_tokens=0,
                cost_usd=0.0,
                seconds=0.0,
                created=now,
                limits=limits_to_json(limits),
                excluded=list(exclude),
                runner=this_runner(),
            )
            session.add(row)
            session.flush()
            _index(session, row)
            conversation.updated = now
            if not conversation.title:
                conversation.title = title_of(text)
                conversation.title_folded = fold(conversation.title)
            return row.id

    def add_turn(self, question_id: str, turn: Turn) -> None:
        """Commit one turn as it ends; the same index again replaces it. Raises StoreError when the question is gone."""
        with self._db.writing() as session:
            question = _existing(session, question_id)
            session.merge(turn_to_row(question.id, question.owner_hash, time.time(), turn))

    def finish(self, question_id: str, trace: Trace) -> None:
        """Record how the run ended, and any turn that did not reach the database before.

        Raises StoreError when the question is gone: its conversation was deleted while it ran.
        """
        now = time.time()
        with self._db.writing() as session:
            row = _existing(session, question_id)
            known = set(session.scalars(select(TurnRow.turn_index).where(TurnRow.question_id == row.id)))
            session.add_all(turn_to_row(row.id, row.owner_hash, now, t) for t in trace.turns if t.index not in known)
            row.pool, row.checkpoint = trace.pool, trace.checkpoint
            row.backbone, row.protocol = trace.backbone, trace.protocol
            _end(session, row, now, trace)

    def get(self, owner: str, question_id: str) -> Question:
        """One question with its turns. Raises NotOwner."""
        with self._db.reading() as session:
            row = owned_question(session, owner, question_id)
            return read_questions(session, QuestionRow.id == row.id)[0]

    def history(self, owner: str, conversation_id: str, before: str | None = None) -> tuple[Message, ...]:
        """Earlier questions and answers as user and assistant messages, oldest first; inner turns never appear.

        Of a question asked again only the latest answered version counts; one without an answer is left out. `before`
        is the question that is asked again: only what stands before it is history. Raises NotOwner.
        """
        with self._db.reading() as session:
            conversation = owned_conversation(session, owner, conversation_id)
            row = QuestionRow
            answered = select(row).where(row.conversation_id == conversation.id, row.answer.is_not(None))
            if before is not None:
                answered = answered.where(row.position < _sibling(session, owner, conversation, before).position)
            rows = session.scalars(answered.order_by(row.position, row.created)).all()
        latest = {row.position: row for row in rows}
        return tuple(
            message
            for row in latest.values()
            for message in (Message("user", row.text), Message("assistant", row.answer or ""))
        )

    def recent_hidden(
        self,
        owner: str | None,
        limit: int,
        backbone: str,
        protocol: str,
        *,
        dtype: str | None = None,
        first_only: bool = False,
    ) -> tuple[HiddenPoint, ...]:
        """The latest turns' hidden states, newest first: see `core.store.hidden.recent_hidden`."""
        with self._db.reading() as session:
            return recent_hidden(session, owner, limit, backbone, protocol, dtype, first_only)

    def interrupt_unfinished(self) -> int:
        """End the runs that a crash cut off as stopped/interrupted; returns how many. Call it once, at the start.

        Runs of a process that is still alive are left alone. What was said stays: the answer is the last Worker's text.
        """
        with self._db.writing() as session:
            running = session.scalars(select(QuestionRow).where(QuestionRow.status.is_(None))).all()
            dead = [row for row in running if self._is_dead(row)]
            for row in dead:
                _end(session, row, time.time(), _cut_trace(session, row))
        return len(dead)

    def _is_dead(self, row: QuestionRow) -> bool:
        if on_this_host(row.runner):
            return not is_alive(row.runner)
        # A SQLite file belongs to one machine: another host name is a container that is gone.
        return self._db.file is not None or time.time() > row.created + row.limits["seconds"] + _GRACE_S


def _existing(session: Session, question_id: str) -> QuestionRow:
    """The question, with its conversation locked first: on PostgreSQL a deletion then waits for this write."""
    owner = select(QuestionRow.conversation_id).where(QuestionRow.id == question_id).scalar_subquery()
    session.execute(select(ConversationRow.id).where(ConversationRow.id == owner).with_for_update()).all()
    row = session.get(QuestionRow, question_id)
    if row is None:
        raise StoreError("This question is no longer in the database: its conversation was deleted while it ran.")
    return row


def _sibling(session: Session, owner: str, conversation: ConversationRow, question_id: str) -> QuestionRow:
    row = owned_question(session, owner, question_id)
    if row.conversation_id != conversation.id:
        raise StoreError("A question can only be asked again in its own conversation.")
    return row


def _position(session: Session, owner: str, conversation: ConversationRow, replaces: str | None) -> int:
    if replaces is not None:
        return _sibling(session, owner, conversation, replaces).position
    last = select(func.max(QuestionRow.position)).where(QuestionRow.conversation_id == conversation.id)
    return (session.scalar(last) or 0) + 1


def _index(session: Session, row: QuestionRow) -> None:
    """Put question and answer where search looks."""
    session.merge(
        SearchRow(
            question_id=row.id,
            conversation_id=row.conversation_id,
            owner_hash=row.owner_hash,
            folded=fold(f"{row.text}\n{row.answer or ''}"),
        )
    )


def _end(session: Session, row: QuestionRow, now: float, trace: Trace) -> None:
    row.status = trace.status.value
    row.reason = trace.reason.value if trace.reason else None
    row.note, row.answer, row.pool_version = trace.note, trace.answer, trace.pool_version
    row.prompt_tokens, row.completion_tokens = trace.usage.prompt_tokens, trace.usage.completion_tokens
    row.cost_usd, row.seconds, row.finished = trace.cost_usd, trace.elapsed_s, now
    _index(session, row)
    conversation = session.get_one(ConversationRow, row.conversation_id)
    conversation.updated = now


def _cut_trace(session: Session, row: QuestionRow) -> Trace:
    """What is known of a run that a crash ended, from the turns it had committed."""
    turns = tuple(read_turns(session, TurnRow.question_id == row.id).get(row.id, ()))
    last = session.scalar(select(func.max(TurnRow.created)).where(TurnRow.question_id == row.id))
    tally = Tally.of(turns)
    return Trace(
        id=row.id,
        question=row.text,
        history=(),
        turns=turns,
        answer=Transcript(row.text, turns).answer,
        status=Status.STOPPED,
        reason=Reason.INTERRUPTED,
        note=INTERRUPTED,
        usage=tally.usage,
        cost_usd=tally.cost_usd,
        elapsed_s=(last or row.created) - row.created,
        checkpoint=row.checkpoint,
        backbone=row.backbone,
        protocol=row.protocol,
        pool=row.pool,
        pool_version=row.pool_version or 1,
    )
