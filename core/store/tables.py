"""The tables, as SQLAlchemy classes. A change here needs a migration in `migrations/versions` (a test compares both).

conversations ─┬─ questions ─┬─ turns
               │             ├─ search_texts
               │             └─ feedback
               └─ shares
checkpoints, activations (append-only), pools (numbered versions)

Times are seconds since the epoch (UTC). `owner_hash` is copied from a conversation to its questions and turns, where it
never changes: history, search and Explore then read one index instead of joining 100,000 rows.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Double, ForeignKey, Index, Integer, LargeBinary, MetaData, Text, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from core.store.columns import ExactText, JsonText

_RUNNING = text("status IS NULL")


class Base(DeclarativeBase):
    """Common parent; constraint names are fixed so that migrations can address them on every database."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        }
    )
    type_annotation_map = {str: Text, float: Double, int: BigInteger, bytes: LargeBinary}  # noqa: RUF012


class ConversationRow(Base):
    """A conversation. A deleted one stays as an empty row (no owner, no title) until `purge`."""

    __tablename__ = "conversations"
    __table_args__ = (Index("ix_conversations_owner_hash_updated", "owner_hash", "updated"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    owner_hash: Mapped[str]
    title: Mapped[str] = mapped_column(ExactText)
    title_folded: Mapped[str] = mapped_column(ExactText)
    created: Mapped[float]
    updated: Mapped[float]
    deleted: Mapped[float | None]


class QuestionRow(Base):
    """A question and how its run ended; `status` is NULL while it runs.

    `runner` is the process that runs it. `replaces` is the earlier version that this one takes the place of; both have
    the same `position` in the conversation.
    """

    __tablename__ = "questions"
    __table_args__ = (
        Index("ix_questions_conversation_id_position", "conversation_id", "position"),
        Index("ix_questions_owner_hash_created", "owner_hash", "created"),
        Index("ix_questions_running", "runner", sqlite_where=_RUNNING, postgresql_where=_RUNNING),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    conversation_id: Mapped[str] = mapped_column(ForeignKey("conversations.id", ondelete="CASCADE"))
    owner_hash: Mapped[str]
    position: Mapped[int]
    replaces: Mapped[str | None]
    text: Mapped[str] = mapped_column(ExactText)
    status: Mapped[str | None]
    reason: Mapped[str | None]
    note: Mapped[str] = mapped_column(ExactText)
    answer: Mapped[str | None] = mapped_column(ExactText)
    pool: Mapped[str] = mapped_column(ExactText)
    pool_version: Mapped[int | None]
    checkpoint: Mapped[str] = mapped_column(ExactText)
    backbone: Mapped[str] = mapped_column(ExactText)
    protocol: Mapped[str] = mapped_column(ExactText)
    prompt_tokens: Mapped[int]
    completion_tokens: Mapped[int]
    cost_usd: Mapped[float | None]
    seconds: Mapped[float]
    created: Mapped[float]
    finished: Mapped[float | None]
    limits: Mapped[Any] = mapped_column(JsonText)
    excluded: Mapped[Any] = mapped_column(JsonText)
    runner: Mapped[str]


class TurnRow(Base):
    """One turn. `h` is the decision's hidden state as little-endian float32; the `h_` columns say whence it came."""

    __tablename__ = "turns"
    __table_args__ = (
        Index("ix_turns_owner_hash_h", "owner_hash", "h_backbone", "h_protocol", "created"),
        Index("ix_turns_h", "h_backbone", "h_protocol", "created"),
    )

    question_id: Mapped[str] = mapped_column(ForeignKey("questions.id", ondelete="CASCADE"), primary_key=True)
    turn_index: Mapped[int] = mapped_column(primary_key=True)
    owner_hash: Mapped[str]
    created: Mapped[float]
    role: Mapped[str]
    agent: Mapped[str] = mapped_column(ExactText)
    slot: Mapped[int]
    model: Mapped[str] = mapped_column(ExactText)
    text: Mapped[str] = mapped_column(ExactText)
    reasoning: Mapped[str] = mapped_column(ExactText)
    verdict: Mapped[str | None]
    verdict_reason: Mapped[str] = mapped_column(ExactText)
    unparsed_verdict: Mapped[bool]
    suggestion: Mapped[str | None]
    finish: Mapped[str] = mapped_column(ExactText)
    prompt_tokens: Mapped[int]
    completion_tokens: Mapped[int]
    cost_usd: Mapped[float | None]
    latency_s: Mapped[float]
    first_token_s: Mapped[float | None]
    tries: Mapped[int]
    error: Mapped[str | None] = mapped_column(ExactText)
    failed: Mapped[Any] = mapped_column(JsonText)
    prompt: Mapped[Any] = mapped_column(JsonText)
    decision: Mapped[Any | None] = mapped_column(JsonText)
    h: Mapped[bytes | None]
    h_size: Mapped[int | None]
    h_dtype: Mapped[str | None]
    h_backbone: Mapped[str | None] = mapped_column(ExactText)
    h_protocol: Mapped[str | None] = mapped_column(ExactText)
    h_truncated: Mapped[bool | None]
    read_id: Mapped[int | None]
    read_text: Mapped[str | None] = mapped_column(ExactText)
    read_index: Mapped[int | None]


class SearchRow(Base):
    """Question and answer folded for search, apart from the wide rows: a scan reads nothing else."""

    __tablename__ = "search_texts"

    question_id: Mapped[str] = mapped_column(ForeignKey("questions.id", ondelete="CASCADE"), primary_key=True)
    conversation_id: Mapped[str]
    owner_hash: Mapped[str] = mapped_column(index=True)
    folded: Mapped[str] = mapped_column(ExactText)


class CheckpointRow(Base):
    """A head checkpoint: a file known by its hash. A name is never used for another file."""

    __tablename__ = "checkpoints"

    name: Mapped[str] = mapped_column(ExactText, primary_key=True)
    sha256: Mapped[str]
    path: Mapped[str] = mapped_column(ExactText)
    created: Mapped[float]
    summary: Mapped[Any] = mapped_column(JsonText)


class ActivationRow(Base):
    """Who made which checkpoint serve a pool, when and why. The newest row of a pool is the one in force."""

    __tablename__ = "activations"
    __table_args__ = (Index("ix_activations_pool_id", "pool", "id"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=True)
    pool: Mapped[str] = mapped_column(ExactText)
    checkpoint: Mapped[str | None] = mapped_column(ExactText)  # NULL: the one shipped for the pool
    previous: Mapped[str | None] = mapped_column(ExactText)
    who: Mapped[str] = mapped_column(ExactText)
    why: Mapped[str] = mapped_column(ExactText)
    created: Mapped[float]


class PoolRow(Base):
    """One numbered version of an edited pool. Versions are never changed."""

    __tablename__ = "pools"

    name: Mapped[str] = mapped_column(ExactText, primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True)
    yaml: Mapped[str] = mapped_column(ExactText)
    who: Mapped[str] = mapped_column(ExactText)
    created: Mapped[float]


class ShareRow(Base):
    """A read-only link to a conversation. Only the hash of its token is kept."""

    __tablename__ = "shares"

    token_hash: Mapped[str] = mapped_column(primary_key=True)
    conversation_id: Mapped[str] = mapped_column(ForeignKey("conversations.id", ondelete="CASCADE"), index=True)
    created: Mapped[float]
    revoked: Mapped[float | None]


class FeedbackRow(Base):
    """The owner's thumb on an answer."""

    __tablename__ = "feedback"

    question_id: Mapped[str] = mapped_column(ForeignKey("questions.id", ondelete="CASCADE"), primary_key=True)
    value: Mapped[str]
    reason: Mapped[str] = mapped_column(ExactText)
    created: Mapped[float]
