"""Which process runs a question, and is it still alive: `host:pid:start`.

A process id alone is not enough, since ids are used again; the start time (clock ticks since boot, from /proc) tells
two processes of one id apart. Where there is no /proc the start is empty and the id alone decides.
"""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path


@cache
def _runner(pid: int) -> str:
    return f"{socket.gethostname()}:{pid}:{_start(pid) or ''}"


def this_runner() -> str:
    """The name of this process."""
    return _runner(os.getpid())


def on_this_host(runner: str) -> bool:
    """Whether `runner` is or was a process of this machine."""
    return runner.rpartition(":")[0].rpartition(":")[0] == socket.gethostname()


def is_alive(runner: str) -> bool:
    """Whether that process of this machine still runs. A zombie does not."""
    head, _, start = runner.rpartition(":")
    pid = int(head.rpartition(":")[2])
    if start:
        return _start(pid) == start
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _start(pid: int) -> str | None:
    """Field 22 of /proc/PID/stat; None when the process is gone, a zombie, or there is no /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name before it may hold blanks and brackets
    return None if fields[0] in "ZX" else fields[19]
