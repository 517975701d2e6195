"""Back end 2: landlock for files, seccomp for everything else, limits for the rest. Works in a plain container.

Needs Linux 5.13 and no privileges. What it cannot do, compared with bubblewrap, is in `Landlock.weaker`.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import struct
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

from core.errors import SandboxUnavailable
from core.sandbox.interpreter import Interpreter
from core.sandbox.launch import environment
from core.sandbox.outcome import SandboxLimits
from core.sandbox.process import Process
from core.sandbox.runner import Runner, rlimits, slot_user
from core.sandbox.scratch import make_scratch, over_quota, remove_scratch, sweep_scratch
from core.sandbox.seccomp import build_filter

_CREATE, _ADD = 444, 445  # the same on every architecture
_READ_FILE, _READ_DIR, _WRITE_FILE = 1 << 2, 1 << 3, 1 << 1
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
# remove folder and file, make folder, file, pipe, link. Not: execute, make device or socket.
_CHANGE = 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 12
_ALL_OF_ABI_1 = (1 << 13) - 1


class Landlock(Runner):
    """Confines the process itself, in place: no mount, no namespace, no package."""

    name = "landlock"

    def __init__(self, interpreter: Interpreter, *, libraries: bool = False) -> None:
        """Raises SandboxUnavailable when the kernel has no landlock or the machine is not one we know."""
        self.abi = _abi()
        self._interpreter, self._libraries = interpreter, libraries
        self._filter = build_filter(landlock=True)
        sweep_scratch()
        self._drops_user = os.geteuid() == 0 and interpreter.shared_with_others()

    @property
    def weaker(self) -> tuple[str, ...]:
        """What this back end cannot guarantee, in plain words."""
        said = [
            "total disk use is measured every 20 ms and then ended by a kill: a fast writer passes the limit briefly",
            "names, sizes and dates of files elsewhere can be asked for (not their content)",
            "the host's process table and clock are shared",
        ]
        if self.abi < 3:
            said.append(f"landlock version {self.abi} does not guard truncation; seccomp refuses it by path instead")
        if self.abi < 6:
            said.append(f"landlock version {self.abi} does not scope sockets and signals; seccomp alone refuses them")
        if not self._drops_user:
            said.append("programs run under this process's own user id, and their threads are not counted")
        return tuple(said)

    def start(
        self, program: str, limits: SandboxLimits, *, channel: bool = False, stop: Event | None = None
    ) -> Process:
        """See Runner.start."""
        user = slot_user() if self._drops_user else 0
        folder = make_scratch(user or None)
        try:
            rules = self._rules(folder)
        except BaseException:
            remove_scratch(folder)
            raise
        job: dict[str, Any] = {
            "uid": user,
            "folder": folder,
            "environment": environment(folder),
            "rlimits": rlimits(limits, count_threads=bool(user)),
            "filter": self._filter,
            "ruleset": rules,
            "drop_capabilities": not user,
            "packages": self._interpreter.packages if self._libraries else "",
            "program": program.encode("utf-8", "surrogatepass"),
            "close": [rules],
        }
        try:
            return Process(
                [self._interpreter.executable],
                job,
                limits,
                inherit=[rules],
                channel=channel,
                stop=stop,
                watch=lambda: over_quota(folder, limits.disk_mb),
                cleanup=lambda: remove_scratch(folder),
            )
        finally:
            os.close(rules)

    def _rules(self, folder: str) -> int:
        """A descriptor of the rule set: read the interpreter, write the scratch folder, nothing else."""
        every = _ALL_OF_ABI_1 | (self.abi >= 2) * _REFER | (self.abi >= 3) * _TRUNCATE | (self.abi >= 5) * _IOCTL_DEVICE
        network, scope = (3 if self.abi >= 4 else 0), (3 if self.abi >= 6 else 0)
        size = 24 if self.abi >= 6 else 16 if self.abi >= 4 else 8
        rules = _call(_CREATE, struct.pack("=QQQ", every, network, scope)[:size], size, 0)
        try:
            packages = [self._interpreter.packages] if self._libraries else []
            for path in itertools.chain(self._interpreter.read, packages, ("/dev/zero", "/dev/urandom", "/dev/random")):
                _allow(rules, path, _READ_FILE | (_READ_DIR if Path(path).is_dir() else 0))
            _allow(rules, "/dev/null", every & (_READ_FILE | _WRITE_FILE | _TRUNCATE))
            _allow(rules, folder, every & (_READ_FILE | _READ_DIR | _WRITE_FILE | _CHANGE | _REFER | _TRUNCATE))
        except BaseException:
            os.close(rules)
            raise
        return rules


def _allow(rules: int, path: str, rights: int) -> None:
    number = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        _call(_ADD, rules, 1, struct.pack("=Qi", rights, number), 0)
    finally:
        os.close(number)


def _abi() -> int:
    """The kernel's landlock version, from 1 up."""
    try:
        return _call(_CREATE, None, 0, 1)
    except OSError as error:
        raise SandboxUnavailable(
            f"this kernel has no landlock ({error.strerror}); Linux 5.13 or newer has it"
        ) from error


def _libc() -> Callable[..., int]:
    call: Callable[..., int] = ctypes.CDLL(None, use_errno=True).syscall
    return call


def _call(number: int, *arguments: int | bytes | None) -> int:
    """A system call that the C library has no name for. Raises OSError."""
    words = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result = _libc()(ctypes.c_long(number), *words)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
