"""Writing a file so that it is either the old one or the new one, whatever happens in between."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path


def atomic_write(path: Path, data: bytes) -> None:
    """Write `data` to `path`: temporary file beside it, flush to disk, replace, flush the folder.

    A crash or a full disk leaves the old file as it was. The folder must exist. Raises OSError.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _flush_folder(path.parent)


def _flush_folder(folder: Path) -> None:
    """Make the new name durable. Not every file system can; the data itself is on disk already."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
