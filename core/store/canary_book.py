"""What agents answered to the stored probes: baselines and later looks, kept for comparison."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Index, select, update
from sqlalchemy.orm import Mapped, mapped_column

from core.store.columns import JsonText
from core.store.database import Database
from core.store.owners import new_id
from core.store.tables import Base


class CanaryRow(Base):
    """One look at one agent: all probes with their replies, as JSON. `baseline` is 1 for the one compared with."""

    __tablename__ = "canary"
    __table_args__ = (Index("ix_canary_agent_created", "agent", "created"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    agent: Mapped[str]
    fingerprint: Mapped[str]
    baseline: Mapped[int]
    created: Mapped[float]
    look: Mapped[Any] = mapped_column(JsonText)


@dataclass(frozen=True, slots=True)
class KeptLook:
    """A stored look. `data` is what core.canary wrote."""

    agent: str
    fingerprint: str
    created: float
    data: dict[str, Any]


class CanaryBook:
    """The looks of one database."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def baseline(self, agent: str, fingerprint: str) -> KeptLook | None:
        """What this agent, with these options, is compared with."""
        row = CanaryRow
        with self._db.reading() as session:
            found = session.scalar(
                select(row)
                .where(row.agent == agent, row.fingerprint == fingerprint, row.baseline == 1)
                .order_by(row.created.desc())
                .limit(1)
            )
        return _kept(found) if found else None

    def latest(self) -> tuple[KeptLook, ...]:
        """The newest look at each agent, by name."""
        with self._db.reading() as session:
            rows = session.scalars(select(CanaryRow).order_by(CanaryRow.created)).all()
        return tuple(_kept(row) for _, row in sorted({row.agent: row for row in rows}.items()))

    def add(self, agent: str, fingerprint: str, data: dict[str, Any], *, baseline: bool) -> None:
        """Keep a look. As a baseline it takes the place of the one before."""
        with self._db.writing() as session:
            if baseline:
                session.execute(update(CanaryRow).where(CanaryRow.agent == agent).values(baseline=0))
            row = CanaryRow(
                id=new_id(),
                agent=agent,
                fingerprint=fingerprint,
                baseline=int(baseline),
                created=time.time(),
                look=data,
            )
            session.add(row)


def _kept(row: CanaryRow) -> KeptLook:
    return KeptLook(row.agent, row.fingerprint, row.created, row.look)
