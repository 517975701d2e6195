"""Edited pools as numbered versions. A version never changes: each question names the one it ran with."""

from __future__ import annotations

import time

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.errors import StoreError
from core.store.database import Database
from core.store.records import PoolVersion
from core.store.tables import PoolRow


class Pools:
    """The versions of all edited pools."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, name: str, yaml: str, who: str = "") -> PoolVersion:
        """Store the next version of a pool; text equal to the latest version gives that version back."""
        if not name.strip():
            raise StoreError("A pool needs a name.")
        with self._db.writing(durable=True) as session:
            last = _latest(session, name)
            if last is not None and last.yaml == yaml:
                return _record(last)
            number = last.version + 1 if last else 1
            row = PoolRow(name=name, version=number, yaml=yaml, who=who, created=time.time())
            session.add(row)
            return _record(row)

    def get(self, name: str, version: int) -> PoolVersion:
        """One version. Raises StoreError when there is none."""
        with self._db.reading() as session:
            row = session.get(PoolRow, (name, version))
            if row is None:
                raise StoreError(f"There is no version {version} of the pool {name}.")
            return _record(row)

    def latest(self, name: str) -> PoolVersion | None:
        """The newest version, or None when the pool was never edited."""
        with self._db.reading() as session:
            row = _latest(session, name)
            return _record(row) if row else None

    def names(self) -> tuple[str, ...]:
        """Every pool that has a version, in alphabetical order."""
        with self._db.reading() as session:
            return tuple(session.scalars(select(PoolRow.name).distinct().order_by(PoolRow.name)))


def _latest(session: Session, name: str) -> PoolRow | None:
    return session.scalar(select(PoolRow).where(PoolRow.name == name).order_by(PoolRow.version.desc()).limit(1))


def _record(row: PoolRow) -> PoolVersion:
    return PoolVersion(row.name, row.version, row.yaml, row.who, row.created)
