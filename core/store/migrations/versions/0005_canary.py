"""Looks of `trinity canary`."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Looks of `trinity canary`."""
    op.create_table(
        "canary",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("baseline", sa.BigInteger(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("look", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_canary"),
    )
    op.create_index("ix_canary_agent_created", "canary", ["agent", "created"])
