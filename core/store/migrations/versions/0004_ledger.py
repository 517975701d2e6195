"""The ledger: calls, spend, remembered replies."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """The ledger: calls, spend, remembered replies."""
    text = ["id", "key", "agent", "model", "channel", "state", "question", "owner_hash", "run", "process", "runner"]
    op.create_table(
        "calls",
        *[sa.Column(name, sa.Text(), nullable=False) for name in text],
        sa.Column("reserved", sa.BigInteger(), nullable=False),
        sa.Column("charged", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.BigInteger(), nullable=True),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=True),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("finished", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_calls"),
    )
    op.create_index("ix_calls_created", "calls", ["created"])
    op.create_index("ix_calls_question", "calls", ["question"])
    op.create_index("ix_calls_run", "calls", ["run"])
    still_open = sa.text("state = 'reserved'")
    op.create_index("ix_calls_open", "calls", ["state"], sqlite_where=still_open, postgresql_where=still_open)
    op.create_table(
        "spend",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("charged", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "key", name="pk_spend"),
    )
    op.create_table(
        "replies",
        *[sa.Column(name, sa.Text(), nullable=False) for name in ["key", "question", "agent", "model", "text"]],
        *[sa.Column(name, sa.Text(), nullable=False) for name in ["reasoning", "finish"]],
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=False),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.BigInteger(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("hits", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_replies"),
    )
    op.create_index("ix_replies_question", "replies", ["question"])
