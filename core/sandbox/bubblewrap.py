"""Back end 1: bubblewrap. Own mount, process, network and IPC namespaces, a sized tmpfs, and the seccomp filter.

As root it needs no user namespace and the program gets a user id of its own; as anyone else it needs unprivileged user
namespaces, which Docker's default profile forbids.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from threading import Event
from typing import Any

from core.errors import SandboxUnavailable
from core.sandbox.interpreter import Interpreter
from core.sandbox.launch import environment, memory_file
from core.sandbox.outcome import SandboxLimits
from core.sandbox.process import Process
from core.sandbox.runner import Runner, rlimits, slot_user
from core.sandbox.scratch import MOST_ENTRIES
from core.sandbox.seccomp import build_filter

_FOLDER = "/box"
_NOBODY = 65_534
_DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")


class _FileCount:
    """Asks the program's tmpfs, through /proc, how many files it holds: 280,000 empty ones took 290 MB in 6 s."""

    def __init__(self) -> None:
        self.pid = 0  # of bwrap; its only child is the program
        self._inside = ""

    def __call__(self) -> str | None:
        try:
            if not self._inside:
                children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text(encoding="ascii").split()
                self._inside = f"/proc/{children[0]}/root{_FOLDER}" if children else ""
            space = os.statvfs(self._inside)
        except (OSError, ValueError):  # not there yet, or gone
            return None
        if space.f_files - space.f_ffree > MOST_ENTRIES:
            return f"it made more than {MOST_ENTRIES} files"
        return None


class Bubblewrap(Runner):
    """Runs the interpreter in a world that holds the interpreter and an empty folder."""

    name = "bubblewrap"

    def __init__(self, interpreter: Interpreter, *, libraries: bool = False) -> None:
        """Raises SandboxUnavailable when `bwrap` is not installed or the machine is not one we know."""
        found = shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin")
        if found is None:
            raise SandboxUnavailable("bwrap is not installed (Debian and Ubuntu: apt install bubblewrap)")
        self._bwrap, self._root = found, os.geteuid() == 0
        self._interpreter, self._libraries = interpreter, libraries
        self._filter = build_filter(landlock=False)
        self._world = self._arguments()

    @property
    def weaker(self) -> tuple[str, ...]:
        """What this back end cannot guarantee, in plain words."""
        return (
            "the number of files is counted every 20 ms and then ended by a kill (bytes on disk are capped exactly)",
            "the kernel's version and load can be read in /proc",
        )

    def start(
        self, program: str, limits: SandboxLimits, *, channel: bool = False, stop: Event | None = None
    ) -> Process:
        """See Runner.start."""
        filter_file = memory_file(self._filter)
        job: dict[str, Any] = {
            "uid": slot_user() if self._root else 0,
            "folder": _FOLDER,
            "environment": environment(_FOLDER),
            "rlimits": rlimits(limits, count_threads=True),
            "filter": b"",  # bwrap has loaded it already
            "packages": self._interpreter.packages if self._libraries else "",
            "program": program.encode("utf-8", "surrogatepass"),
        }
        disk = ["--perms", "1777", "--size", str(limits.disk_mb << 20), "--tmpfs", _FOLDER, "--remount-ro", "/"]
        argv = [*self._world, *disk, "--seccomp", str(filter_file), "--", self._interpreter.executable]
        watch = _FileCount()
        try:
            process = Process(argv, job, limits, inherit=[filter_file], channel=channel, stop=stop, watch=watch)
        finally:
            os.close(filter_file)
        watch.pid = process.pid
        return process

    def _arguments(self) -> list[str]:
        words = [self._bwrap, "--die-with-parent", "--hostname", "box", "--unshare-pid", "--unshare-net"]
        words += ["--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL"]
        if self._root:  # the child needs these two to leave root behind; changing the user then drops them
            words += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
            # Changing the user also forgets "die with the parent", so bwrap's own process 1, which remembers, is kept.
        else:
            # Here process 1 would be of the program's user and outside the filter: it must not exist.
            words += ["--as-pid-1", "--unshare-user", "--uid", str(_NOBODY), "--gid", str(_NOBODY)]
        here = self._interpreter
        packages = [here.packages] if self._libraries else []
        seen = [here.executable, *here.read, *here.loaders, *packages]
        # bwrap makes folders above a mount 0700 when it runs as root, and the program is another user.
        for folder in sorted({str(parent) for path in (*seen, *_DEVICES) for parent in Path(path).parents} - {"/"}):
            words += ["--perms", "0755", "--dir", folder]
        for path in seen:
            if not any(path.startswith(other + "/") for other in seen if Path(other).is_dir()):
                words += ["--ro-bind", path, path]
        for top, target in here.links:
            words += ["--symlink", target, top]
        for path in _DEVICES:
            words += ["--dev-bind", path, path]
        for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
            words += ["--symlink", f"/proc/self/fd/{number}", f"/dev/{name}"]
        return [*words, "--proc", "/proc"]
