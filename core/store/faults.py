"""A database driver's error -> one sentence that says what happened and what to do."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from core.errors import StoreError

# Part of the driver's message -> what to tell. The first match counts.
_KNOWN: tuple[tuple[tuple[str, ...], str], ...] = (
    (("locked", "busy"), "was held by another process for too long. Try again; stop a second program that uses it."),
    (("readonly", "read-only"), "is read-only. Make the file and its folder writable for this user."),
    (
        ("full", "no space", "disk quota"),
        "has no room left. Free some disk space and try again; nothing was half written.",
    ),
    (
        ("malformed", "not a database"),
        "is damaged or not a database. Move the file away to start empty, or put a copy back in its place.",
    ),
    (("unable to open", "disk i/o"), "cannot be opened. Check that the path exists and is readable and writable."),
    (("already exists",), "already holds tables of another program. Give Trinity an empty database."),
    (("no such table", "no such column", "relation"), "lacks what it should have. Restore it, or begin an empty one."),
)


def plain(error: SQLAlchemyError, label: str) -> StoreError:
    """The StoreError for `error`. Holds the driver's first line only: later lines may repeat stored text."""
    if isinstance(error, PoolTimeout):
        return StoreError(f"The database {label} has no free connection. Try again in a moment.")
    if not isinstance(error, DBAPIError):
        return StoreError(f"The database {label} could not be used ({type(error).__name__}).")
    first = (str(error.orig).strip().splitlines() or [type(error.orig).__name__])[0]
    if isinstance(error, IntegrityError):
        return StoreError(f"The database {label} refused a write that contradicts what it holds ({first}).")
    lowered = first.lower()
    for words, advice in _KNOWN:
        if any(word in lowered for word in words):
            return StoreError(f"The database {label} {advice} ({first})")
    if isinstance(error, OperationalError):
        return StoreError(f"The database {label} cannot be reached. Start it or mend TRINITY_DATABASE_URL. ({first})")
    return StoreError(f"The database {label} refused ({first}).")
