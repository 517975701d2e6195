"""Bring a database to the schema this program knows, or refuse.

Migrations are files in `migrations/versions`, one line of descent, applied in one transaction. There is no way back
down: a SQLite file is copied before it is changed, and that copy is the way back.
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from core.errors import StoreError
from core.store.database import Database

_MIGRATIONS = Path(__file__).resolve().parent / "migrations"
# A copy holds what people may have deleted since, so it is not kept for good.
COPY_DAYS = 30


def alembic_config() -> Config:
    """The configuration of our migrations; there is no alembic.ini."""
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    return config


def revisions() -> tuple[str, ...]:
    """Every revision this program knows, oldest first."""
    return tuple(
        reversed([script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()])
    )


def current(connection: Connection) -> str | None:
    """The revision a database is at; None when it is empty."""
    return MigrationContext.configure(connection).get_current_revision()


def upgrade(database: Database, target: str | None = None) -> str:
    """Migrate to `target` (default: the newest) and return it. Nothing happens when it is there already.

    Raises StoreError when the database is newer than this program, damaged, read-only or unreachable.
    """
    known = revisions()
    target = target or known[-1]
    with database.translated(), database.engine.connect() as connection:
        found = current(connection)
    _refuse_newer(found, known, database.label)
    if database.file is not None:
        _drop_old_copies(database.file, COPY_DAYS)
    if found == target:
        return target
    with database.migrating() as connection:
        found = current(connection)  # again, under the lock: another process may have been faster
        _refuse_newer(found, known, database.label)
        if found == target:
            return target
        if found is not None and database.file is not None:
            _copy(database.file, found)
        config = alembic_config()
        config.attributes["connection"] = connection
        command.upgrade(config, target)
        _check_links(connection, database)
    return target


def _refuse_newer(found: str | None, known: tuple[str, ...], label: str) -> None:
    if found is not None and found not in known:
        raise StoreError(
            f"The database {label} was made by a newer version of Trinity "
            f"(schema {found}, this program knows {known[-1]}). Nothing was changed. "
            "Update Trinity, or point TRINITY_DATABASE_URL or TRINITY_DATA_DIR elsewhere."
        )


def _check_links(connection: Connection, database: Database) -> None:
    """Foreign keys were off while tables were rebuilt: a broken link undoes the whole upgrade."""
    if database.file is None:
        return
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
    if broken:
        raise StoreError(
            f"The upgrade of {database.label} would break {len(broken)} links between rows; it was undone."
        )


def _copies(file: Path) -> list[Path]:
    return sorted(file.parent.glob(f"{file.name}.before-*"))


def _copy(file: Path, revision: str) -> None:
    """Copy the file beside itself; one copy is kept. Called under the migration's lock, before anything is changed.

    VACUUM cannot run inside a transaction, so a second connection does it: it reads what is committed.
    """
    final = file.with_name(f"{file.name}.before-{int(time.time())}-{revision}")
    part = file.with_name(f"{file.name}.before.part")
    try:
        part.unlink(missing_ok=True)  # left by a start that was killed
        part.touch(mode=0o600)
        connection = sqlite3.connect(file, timeout=60)
        try:
            connection.execute("VACUUM INTO ?", (str(part),))
        finally:
            connection.close()
        part.replace(final)
    except (OSError, sqlite3.Error) as error:
        part.unlink(missing_ok=True)
        raise StoreError(
            f"The database {file} must be upgraded, and no safety copy could be written beside it ({error}). "
            "Free some disk space; nothing was changed."
        ) from error
    for older in _copies(file):
        if older != final:
            older.unlink(missing_ok=True)


def _drop_old_copies(file: Path, days: float) -> None:
    for copy in _copies(file):
        try:
            if copy.stat().st_mtime < time.time() - days * 86_400:
                copy.unlink()
        except OSError:
            continue  # another process was faster, or the folder is read-only; the next start tries again
