"""A database URL becomes an engine with the right habits, and errors become plain sentences.

SQLite: writers take the lock at once (`BEGIN IMMEDIATE`). A plain BEGIN that reads first and writes later fails with
"database is locked" whatever the time-out; measured with 4 processes it lost a fifth of all transactions.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.orm import Session

from core.errors import ConfigError, StoreError
from core.store.faults import plain

BUSY_MS = 10_000
_MIGRATION_BUSY_MS = 120_000  # another process may be upgrading a large file
# Write-ahead logging needs shared memory between processes, which network and FUSE mounts do not give.
_REMOTE = ("fuse", "nfs", "cifs", "smb", "9p", "virtiofs", "gcsfuse", "s3fs")


@dataclass(frozen=True, slots=True)
class Database:
    """An engine and how to use it: `reading()` and `writing()` are the only doors.

    `label` names the database without its password; `file` is the SQLite file, or None for PostgreSQL.
    """

    engine: Engine
    label: str
    file: Path | None

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session over one consistent snapshot. Raises StoreError."""
        with self._session(self.engine) as session:
            yield session

    @contextmanager
    def writing(self, *, durable: bool = False) -> Iterator[Session]:
        """A session that commits at the end, or rolls back when anything is raised. Raises StoreError.

        `durable` also survives a power cut at once (money); without it SQLite in WAL mode may lose the last
        transactions then, never on a mere crash of the program. Never hold it open across a model's call.
        """
        engine = self.engine.execution_options(trinity_begin="durable" if durable else "write")
        with self._session(engine) as session:
            yield session
            session.commit()

    @contextmanager
    def migrating(self) -> Iterator[Connection]:
        """One exclusive transaction for a schema change: two starting processes take turns. Raises StoreError."""
        engine = self.engine.execution_options(trinity_begin="migrate")
        try:
            with self.translated(), engine.begin() as connection:
                if self.file is None:
                    connection.exec_driver_sql("SELECT pg_advisory_xact_lock(84207046)")
                yield connection
        finally:
            self.engine.dispose()  # the connection had its foreign keys switched off

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn every SQLAlchemy error inside into a StoreError with advice."""
        try:
            yield
        except SQLAlchemyError as error:
            raise plain(error, self.label) from error

    @contextmanager
    def _session(self, engine: Engine) -> Iterator[Session]:
        with self.translated(), Session(engine, expire_on_commit=False) as session:
            yield session


def connect(url: str) -> Database:
    """Make the engine for `url`; a new SQLite file is created. Opens no connection to a server yet.

    Raises ConfigError when the URL itself is wrong, StoreError when a SQLite file cannot be made.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise ConfigError(
            "TRINITY_DATABASE_URL is not a database URL. Use sqlite:////path/to/file or postgresql://user@host/name."
        ) from error
    kind = parsed.get_backend_name()
    if kind == "sqlite":
        return _sqlite(parsed)
    if kind in ("postgresql", "postgres"):
        return _postgres(parsed)
    raise ConfigError(f"TRINITY_DATABASE_URL: {kind} is not supported. Use sqlite:////path/to/file or postgresql://…")


def _postgres(url: URL) -> Database:
    label = f"PostgreSQL at {url.host or 'local socket'}:{url.port or 5432}/{url.database or ''}"
    # A server that does not answer is reported after 10 s; libpq would wait for minutes.
    arguments: dict[str, Any] = {} if "connect_timeout" in url.query else {"connect_timeout": 10}
    engine = create_engine(url.set(drivername="postgresql+psycopg"), pool_pre_ping=True, connect_args=arguments)
    return Database(engine, label, None)


def _sqlite(url: URL) -> Database:
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        raise ConfigError("TRINITY_DATABASE_URL must name a SQLite file, for example sqlite:////data/trinity.sqlite3.")
    file = Path(url.database).expanduser().absolute()
    _create_file(file)
    engine = create_engine(URL.create("sqlite+pysqlite", database=str(file)))
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return Database(engine, str(file), file)


def _create_file(file: Path) -> None:
    """Make an empty database readable by its owner only; the journal mode is stored in the file, so set once, here."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and file.stat().st_size:
            return
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
        connection = sqlite3.connect(file, timeout=BUSY_MS / 1000)
        try:
            connection.execute(f"PRAGMA journal_mode = {journal_mode(file)}")
        finally:
            connection.close()
    except (OSError, sqlite3.Error) as error:
        raise StoreError(
            f"The database {file} cannot be made ({error}). "
            "Make its folder writable, or set TRINITY_DATA_DIR or TRINITY_DATABASE_URL."
        ) from error


def journal_mode(file: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """`WAL` on a local disk, `DELETE` on network and FUSE mounts (a bucket mounted into a container)."""
    try:
        lines = [line.split() for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        return "WAL"  # no mount table on this system: a desktop's own disk
    # The table writes blanks of a path as \040.
    known = [(fields[1].replace("\\040", " "), fields[2]) for fields in lines if len(fields) > 2]
    above = [(len(point), kind) for point, kind in known if file.is_relative_to(point)]
    kind = max(above, default=(0, ""))[1]
    return "DELETE" if kind.startswith(_REMOTE) else "WAL"


def _on_connect(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # the driver would begin transactions by its own rules
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")  # deleted text is overwritten, not only unlinked


def _on_begin(connection: Connection) -> None:
    how = connection.get_execution_options().get("trinity_begin", "read")
    if how == "migrate":
        # Rebuilding a table drops its old form: with foreign keys on, its children would go with it.
        connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {_MIGRATION_BUSY_MS}")
    connection.exec_driver_sql(f"PRAGMA synchronous = {'NORMAL' if how in ('read', 'write') else 'FULL'}")
    connection.exec_driver_sql("BEGIN" if how == "read" else "BEGIN IMMEDIATE")
