"""Conversations, their questions and turns."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Conversations, their questions and turns."""
    op.create_table(
        "conversations",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("owner_hash", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("title_folded", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("updated", sa.Double(), nullable=False),
        sa.Column("deleted", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_conversations"),
    )
    op.create_index("ix_conversations_owner_hash_updated", "conversations", ["owner_hash", "updated"])
    op.create_table(
        "questions",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("owner_hash", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("replaces", sa.Text(), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=True),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("pool_version", sa.BigInteger(), nullable=True),
        sa.Column("checkpoint", sa.Text(), nullable=False),
        sa.Column("backbone", sa.Text(), nullable=False),
        sa.Column("protocol", sa.Text(), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=False),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost_usd", sa.Double(), nullable=True),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("finished", sa.Double(), nullable=True),
        sa.Column("limits", sa.Text(), nullable=False),
        sa.Column("excluded", sa.Text(), nullable=False),
        sa.Column("runner", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name="fk_questions_conversation_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_questions"),
    )
    op.create_index("ix_questions_conversation_id_position", "questions", ["conversation_id", "position"])
    op.create_index("ix_questions_owner_hash_created", "questions", ["owner_hash", "created"])
    op.create_index(
        "ix_questions_running",
        "questions",
        ["runner"],
        sqlite_where=sa.text("status IS NULL"),
        postgresql_where=sa.text("status IS NULL"),
    )
    op.create_table(
        "turns",
        sa.Column("question_id", sa.Text(), nullable=False),
        sa.Column("turn_index", sa.BigInteger(), nullable=False),
        sa.Column("owner_hash", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("slot", sa.BigInteger(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("reasoning", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=True),
        sa.Column("verdict_reason", sa.Text(), nullable=False),
        sa.Column("unparsed_verdict", sa.Boolean(), nullable=False),
        sa.Column("suggestion", sa.Text(), nullable=True),
        sa.Column("finish", sa.Text(), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=False),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost_usd", sa.Double(), nullable=True),
        sa.Column("latency_s", sa.Double(), nullable=False),
        sa.Column("first_token_s", sa.Double(), nullable=True),
        sa.Column("tries", sa.BigInteger(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("failed", sa.Text(), nullable=False),
        sa.Column("prompt", sa.Text(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=True),
        sa.Column("h", sa.LargeBinary(), nullable=True),
        sa.Column("h_size", sa.BigInteger(), nullable=True),
        sa.Column("h_dtype", sa.Text(), nullable=True),
        sa.Column("h_backbone", sa.Text(), nullable=True),
        sa.Column("h_protocol", sa.Text(), nullable=True),
        sa.Column("h_truncated", sa.Boolean(), nullable=True),
        sa.Column("read_id", sa.BigInteger(), nullable=True),
        sa.Column("read_text", sa.Text(), nullable=True),
        sa.Column("read_index", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["question_id"],
            ["questions.id"],
            name="fk_turns_question_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("question_id", "turn_index", name="pk_turns"),
    )
    op.create_index("ix_turns_h", "turns", ["h_backbone", "h_protocol", "created"])
    op.create_index("ix_turns_owner_hash_h", "turns", ["owner_hash", "h_backbone", "h_protocol", "created"])
    op.create_table(
        "search_texts",
        sa.Column("question_id", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("owner_hash", sa.Text(), nullable=False),
        sa.Column("folded", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["question_id"],
            ["questions.id"],
            name="fk_search_texts_question_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("question_id", name="pk_search_texts"),
    )
    op.create_index("ix_search_texts_owner_hash", "search_texts", ["owner_hash"])
