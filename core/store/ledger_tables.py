"""The tables of money: every request to a provider, what counts against each cap, and remembered replies.

No text of a question or an answer is in `calls` or `spend`, and owners and addresses are hashes: the ledger may
outlive the conversation it paid for. `replies` holds text and goes with the question that brought it.
"""

from __future__ import annotations

from sqlalchemy import Index, text
from sqlalchemy.orm import Mapped, mapped_column

from core.store.columns import ExactText
from core.store.tables import Base

_OPEN = text("state = 'reserved'")


class CallRow(Base):
    """One request. Money is in nano-dollars; `charged` is what counts against the caps.

    `state`: reserved (sent, or about to be), settled (answered), failed (not billed), in_doubt (may have been
    billed: counted at its worst case). `cost` and the tokens are NULL when the provider did not report them.
    """

    __tablename__ = "calls"
    __table_args__ = (
        Index("ix_calls_created", "created"),
        Index("ix_calls_question", "question"),
        Index("ix_calls_run", "run"),
        Index("ix_calls_open", "state", sqlite_where=_OPEN, postgresql_where=_OPEN),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str]
    agent: Mapped[str]
    model: Mapped[str]
    channel: Mapped[str]
    state: Mapped[str]
    question: Mapped[str]
    owner_hash: Mapped[str]
    run: Mapped[str]
    process: Mapped[str]
    runner: Mapped[str]
    reserved: Mapped[int]
    charged: Mapped[int]
    cost: Mapped[int | None]
    prompt_tokens: Mapped[int | None]
    completion_tokens: Mapped[int | None]
    error: Mapped[str]
    created: Mapped[float]
    finished: Mapped[float | None]


class SpendRow(Base):
    """What counts against one cap so far: `scope` names the cap (question, owner_day …), `key` whose it is."""

    __tablename__ = "spend"

    scope: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    charged: Mapped[int]


class ReplyRow(Base):
    """A complete reply, under the key of everything that was asked."""

    __tablename__ = "replies"
    __table_args__ = (Index("ix_replies_question", "question"),)

    key: Mapped[str] = mapped_column(primary_key=True)
    question: Mapped[str]
    agent: Mapped[str]
    model: Mapped[str] = mapped_column(ExactText)
    text: Mapped[str] = mapped_column(ExactText)
    reasoning: Mapped[str] = mapped_column(ExactText)
    finish: Mapped[str]
    prompt_tokens: Mapped[int]
    completion_tokens: Mapped[int]
    cost: Mapped[int]
    created: Mapped[float]
    hits: Mapped[int]
