"""Head checkpoints: which files are known, which one serves a pool, and who decided that."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from core.errors import StoreError
from core.store.database import Database
from core.store.records import Activation, Checkpoint
from core.store.tables import ActivationRow, CheckpointRow

_SHA256 = re.compile("[0-9a-f]{64}")


class Checkpoints:
    """Registered checkpoints and the append-only list of activations."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def register(self, name: str, sha256: str, path: str, summary: Mapping[str, Any]) -> Checkpoint:
        """Make a checkpoint known; again with the same hash updates path and summary.

        Raises StoreError when the name already stands for another file: names are never used twice.
        """
        if not name.strip() or not _SHA256.fullmatch(sha256):
            raise StoreError("A checkpoint needs a name and the SHA-256 of its file (64 hexadecimal digits).")
        with self._db.writing() as session:
            row = session.get(CheckpointRow, name)
            if row is None:
                row = CheckpointRow(name=name, sha256=sha256, path=path, created=time.time(), summary=dict(summary))
                session.add(row)
            elif row.sha256 != sha256:
                raise StoreError(f"The name {name} already stands for another checkpoint. Choose a new name.")
            row.path, row.summary = path, dict(summary)
            return _record(row)

    def get(self, name: str) -> Checkpoint | None:
        """The checkpoint of that name, if it is known."""
        with self._db.reading() as session:
            row = session.get(CheckpointRow, name)
            return _record(row) if row else None

    def list(self) -> tuple[Checkpoint, ...]:
        """All of them, newest first."""
        with self._db.reading() as session:
            newest = select(CheckpointRow).order_by(CheckpointRow.created.desc(), CheckpointRow.name)
            return tuple(_record(row) for row in session.scalars(newest))

    def remove(self, name: str) -> None:
        """Forget a checkpoint (not its file). Raises StoreError when it is unknown or serves a pool."""
        with self._db.writing() as session:
            row = _known(session, name)
            pools = session.scalars(select(ActivationRow.pool).where(ActivationRow.checkpoint == name).distinct()).all()
            serving = [pool for pool in pools if (last := _last(session, pool)) and last.checkpoint == name]
            if serving:
                raise StoreError(f"The checkpoint {name} serves {', '.join(serving)}. Activate another one first.")
            session.delete(row)

    def activate(self, pool: str, name: str | None, who: str, why: str) -> Activation:
        """Let a checkpoint serve a pool from the next question on; None goes back to the one shipped.

        Raises StoreError when the checkpoint is unknown, or `who` is empty.
        """
        if not pool.strip() or not who.strip():
            raise StoreError("An activation needs a pool and the name of who decided it.")
        with self._db.writing() as session:
            if name is not None:
                _known(session, name)
            last = _last(session, pool)
            row = ActivationRow(
                pool=pool,
                checkpoint=name,
                previous=last.checkpoint if last else None,
                who=who,
                why=why,
                created=time.time(),
            )
            session.add(row)
            return _activation(row)

    def rollback(self, pool: str, who: str, why: str) -> Activation:
        """Activate what served before the last activation. Raises StoreError when nothing was ever activated."""
        with self._db.reading() as session:
            last = _last(session, pool)
        if last is None:
            raise StoreError(f"Nothing to roll back: no checkpoint was ever activated for the pool {pool}.")
        return self.activate(pool, last.previous, who, why)

    def active(self, pool: str) -> Checkpoint | None:
        """The checkpoint in force for a pool; None means the one shipped for it."""
        with self._db.reading() as session:
            last = _last(session, pool)
            row = session.get(CheckpointRow, last.checkpoint) if last and last.checkpoint else None
            return _record(row) if row else None

    def audit(self, pool: str | None = None) -> tuple[Activation, ...]:
        """Every activation of one pool or of all, newest first."""
        statement = select(ActivationRow).order_by(ActivationRow.id.desc())
        if pool is not None:
            statement = statement.where(ActivationRow.pool == pool)
        with self._db.reading() as session:
            return tuple(_activation(row) for row in session.scalars(statement))


def _known(session: Session, name: str) -> CheckpointRow:
    row = session.get(CheckpointRow, name)
    if row is None:
        raise StoreError(f"There is no checkpoint {name}. Register or import it first.")
    return row


def _last(session: Session, pool: str) -> ActivationRow | None:
    newest = select(ActivationRow).where(ActivationRow.pool == pool).order_by(ActivationRow.id.desc()).limit(1)
    return session.scalar(newest)


def _record(row: CheckpointRow) -> Checkpoint:
    return Checkpoint(row.name, row.sha256, row.path, row.created, row.summary)


def _activation(row: ActivationRow) -> Activation:
    return Activation(row.pool, row.checkpoint, row.previous, row.who, row.why, row.created)
