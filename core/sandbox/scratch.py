"""Folders that untrusted programs write into: measured while they run, removed without following links."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import time
from pathlib import Path

MOST_ENTRIES = 2_000
_PREFIX = "trinity-box-"
_OLD_S = 3_600


def make_scratch(owner: int | None) -> str:
    """A new private folder, given to user id `owner` when the child changes its user."""
    folder = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")
    if owner is not None:
        os.chown(folder, owner, owner)
    return folder


def sweep_scratch() -> None:
    """Remove what processes that were killed left behind: folders of ours, an hour old, whose maker is gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        maker = folder.name.removeprefix(_PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            about = folder.lstat()
            ours = about.st_uid == os.geteuid() or os.geteuid() == 0
            if ours and time.time() - about.st_mtime > _OLD_S and not Path("/proc", maker).exists():
                remove_scratch(str(folder))


def over_quota(folder: str, megabytes: int) -> str | None:
    """A reason to kill when the folder holds too much, too many files, or nests too deep to measure."""
    used, entries, waiting = 0, 0, [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                for entry in found:
                    entries += 1
                    if entries > MOST_ENTRIES:
                        return f"it made more than {MOST_ENTRIES} files"
                    with contextlib.suppress(FileNotFoundError):
                        used += entry.stat(follow_symlinks=False).st_blocks * 512
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
        except FileNotFoundError:
            continue
        except OSError:
            return "it made folders that cannot be measured"
        if used > megabytes << 20:
            return f"it wrote more than {megabytes} MB"
    return None


def remove_scratch(folder: str) -> None:
    """Remove the folder and all in it. Never follows a link, never leaves the folder, copes with any depth.

    Recursion would die of a tree of 10,000 levels and path names of one longer than 4,096 bytes. So each inner folder
    is moved up to the top before its turn comes, and every step is relative to an open folder.
    """
    try:
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        os.fchmod(top, 0o700)
        while names := os.listdir(top):  # noqa: PTH208 - by descriptor
            for name in names:
                _remove(top, name)
    finally:
        os.close(top)
    Path(folder).rmdir()


def _remove(top: int, name: str) -> None:
    """Remove one entry of the folder `top`; a folder's own folders are moved to `top` for a later round."""
    if not _is_folder(name, top):
        os.unlink(name, dir_fd=top)
        return
    # The programs are dead by now, so nothing can be put in the place of `name` between these lines.
    os.chmod(name, 0o700, dir_fd=top)
    here = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    try:
        for inner in os.listdir(here):  # noqa: PTH208 - by descriptor
            if _is_folder(inner, here):
                os.chmod(inner, 0o700, dir_fd=here)  # moving a folder needs the right to write into it
                os.rename(inner, f"{os.urandom(12).hex()}", src_dir_fd=here, dst_dir_fd=top)
            else:
                os.unlink(inner, dir_fd=here)
    finally:
        os.close(here)
    os.rmdir(name, dir_fd=top)


def _is_folder(name: str, within: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=within, follow_symlinks=False).st_mode)
