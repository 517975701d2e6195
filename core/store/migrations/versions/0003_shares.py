"""Share links and feedback."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Share links and feedback."""
    op.create_table(
        "shares",
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("conversation_id", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("revoked", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name="fk_shares_conversation_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("token_hash", name="pk_shares"),
    )
    op.create_index("ix_shares_conversation_id", "shares", ["conversation_id"])
    op.create_table(
        "feedback",
        sa.Column("question_id", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["question_id"],
            ["questions.id"],
            name="fk_feedback_question_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("question_id", name="pk_feedback"),
    )
