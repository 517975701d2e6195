"""The fifteen attacks that every back end is tried with: three at start-up, all by `trinity doctor` and the tests.

A program says `LEAK` when it succeeds and `done` when it has tried everything, so a back end that merely fails to run
it does not count as having blocked it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from core.sandbox import attack_programs as programs
from core.sandbox.base import Guarantee
from core.sandbox.launch import environment
from core.sandbox.outcome import ExecResult, Outcome, SandboxLimits
from core.sandbox.process import Process
from core.sandbox.runner import Runner

SECRET = "canary-7f3a-secret"  # noqa: S105 - a decoy
_LIMITS = SandboxLimits(wall_s=5.0, memory_mb=512)
_OUTCOMES_THAT_STOP = (Outcome.TIMEOUT, Outcome.OUTPUT_LIMIT, Outcome.MEMORY, Outcome.CRASH)


@dataclass(frozen=True, slots=True)
class Canary:
    """Things to steal or harm. `victim` is a harmless process of ours."""

    folder: str
    tcp: socket.socket
    udp: socket.socket
    unix: socket.socket
    victim: subprocess.Popen[bytes]

    def fill(self, program: str) -> str:
        """The program with the places of this canary as constants in front."""
        facts = {
            "SECRET": f"{self.folder}/secret",
            "FOLDER": self.folder,
            "TCP": self.tcp.getsockname()[1],
            "UDP": self.udp.getsockname()[1],
            "UNIX": self.unix.getsockname(),
            "PARENT": os.getpid(),
            "VICTIM": self.victim.pid,
            "NAMES": sorted(environment("")),
        }
        return "".join(f"{name} = {value!r}\n" for name, value in facts.items()) + program

    def heard(self) -> list[str]:
        """Which listeners were reached, and forget it."""
        said = []
        for name, listener in (("TCP", self.tcp), ("UDP", self.udp), ("UNIX", self.unix)):
            with contextlib.suppress(BlockingIOError):
                if name == "UDP":
                    listener.recv(64)
                else:
                    listener.accept()[0].close()
                said.append(name)
        return said


@dataclass(frozen=True, slots=True)
class Seen:
    """What running one attack looked like from outside."""

    result: ExecResult
    elapsed_s: float
    survivors: list[int]


@dataclass(frozen=True, slots=True)
class Attack:
    """One row. `judge` returns why the attack counts as successful, or an empty string when it was blocked."""

    name: str
    programs: tuple[str, ...]
    judge: Callable[[Seen, Canary, SandboxLimits], str]
    limits: SandboxLimits = _LIMITS
    quick: bool = False


@contextlib.contextmanager
def canary(executable: str) -> Iterator[Canary]:
    """Set up the decoys: a world-readable secret, three listeners on this machine, a process to hurt."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="trinity-canary-"))
        Path(folder).chmod(0o777)  # only the sandbox may stand in the way
        secret = Path(folder, "secret")
        secret.write_text(SECRET, encoding="utf-8")
        secret.chmod(0o666)
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(b"\0trinity-canary-" + os.urandom(6).hex().encode())
        unix.listen()
        for listener in (tcp, udp, unix):
            listener.setblocking(False)
        victim = subprocess.Popen([executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE, env={})
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        yield Canary(folder, tcp, udp, unix, victim)


def attempt(sandbox: Runner, attack: Attack, target: Canary) -> Guarantee:
    """Run one attack and judge it."""
    for program in attack.programs:
        started = time.monotonic()
        with sandbox.start(target.fill(program), attack.limits) as process:
            process.feed(b"")
            result = process.wait()
            elapsed = time.monotonic() - started
            seen = Seen(result, elapsed, _survivors_later(process))
        if why := attack.judge(seen, target, attack.limits):
            return Guarantee(attack.name, False, why)
    return Guarantee(attack.name, True)


def survivors(token: str) -> list[int]:
    """Processes that carry this token on their command line. For looking at only: nothing is killed by name."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if token.encode() in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
    return found


def _survivors_later(process: Process) -> list[int]:
    """Who is still there; a dying process gets 200 ms."""
    for _ in range(10):
        if not (left := survivors(process.token)):
            return []
        time.sleep(0.02)
    return left


def _said_nothing(seen: Seen, _: Canary, __: SandboxLimits) -> str:
    lines = seen.result.stdout.splitlines()
    leaks = [line for line in lines if line.startswith("LEAK")]
    if leaks:
        return "; ".join(leaks)
    return "" if "done" in lines else f"it did not run: {seen.result.outcome} {seen.result.stderr[-200:]}"


def _left_nothing(seen: Seen, target: Canary, limits: SandboxLimits) -> str:
    left = f"{len(seen.survivors)} processes live on" if seen.survivors else ""
    return left or _said_nothing(seen, target, limits)


def _reached_nobody(seen: Seen, target: Canary, limits: SandboxLimits) -> str:
    heard = target.heard()
    return f"reached {', '.join(heard)}" if heard else _said_nothing(seen, target, limits)


def _harmed_nobody(seen: Seen, target: Canary, limits: SandboxLimits) -> str:
    state = Path(f"/proc/{target.victim.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    if target.victim.poll() is not None or state in "TtZX":
        return f"the other process is in state {state}"
    return _said_nothing(seen, target, limits)


def _wrote_nothing(seen: Seen, target: Canary, limits: SandboxLimits) -> str:
    files = sorted(path.name for path in Path(target.folder).iterdir())
    secret = Path(target.folder, "secret")
    if files != ["secret"] or secret.read_text(encoding="utf-8") != SECRET:
        return f"the other folder now holds {', '.join(files)}"
    if secret.stat().st_mode & 0o777 != 0o666:
        return "it changed the rights of another's file"
    return _said_nothing(seen, target, limits)


def _timed_out(seen: Seen, _: Canary, limits: SandboxLimits) -> str:
    on_time = seen.result.outcome is Outcome.TIMEOUT and seen.result.wall_s < limits.wall_s + 0.5
    return "" if on_time and not seen.survivors else f"{seen.result.outcome} after {seen.elapsed_s:.1f} s"


def _stopped(seen: Seen, _: Canary, limits: SandboxLimits) -> str:
    kept = len(seen.result.stdout.encode()) + len(seen.result.stderr.encode())
    if kept > limits.output_bytes * 1.01 or "LEAK" in seen.result.stdout:
        return f"{seen.result.outcome}: {seen.result.stdout[-100:]!r}"
    return "" if seen.result.outcome in _OUTCOMES_THAT_STOP else f"it ended with {seen.result.outcome}"


def _capped(seen: Seen, target: Canary, limits: SandboxLimits) -> str:
    loud = seen.result.outcome is Outcome.OUTPUT_LIMIT
    return _stopped(seen, target, limits) if loud else f"it ended with {seen.result.outcome}"


def _lacked_memory(seen: Seen, target: Canary, limits: SandboxLimits) -> str:
    short = seen.result.outcome is Outcome.MEMORY
    return _stopped(seen, target, limits) if short else f"it ended with {seen.result.outcome}: {seen.result.stdout}"


_SMALL = SandboxLimits(wall_s=5.0, memory_mb=128)
_BRIEF = SandboxLimits(wall_s=0.3, memory_mb=1024)

ATTACKS: tuple[Attack, ...] = (
    Attack("read files of the machine", (programs.READ,), _said_nothing, quick=True),
    Attack("inherit the environment", (programs.ENVIRONMENT,), _said_nothing),
    Attack("read another process's environment", (programs.PROC % "environ",), _said_nothing),
    Attack("read another process's memory", (programs.PROC % "mem",), _said_nothing),
    Attack("trace, signal or limit another process", (programs.PTRACE,), _harmed_nobody),
    Attack("write outside the scratch folder", (programs.WRITE,), _wrote_nothing),
    Attack("reach the network or a local socket", (programs.NETWORK,), _reached_nobody, quick=True),
    Attack("fork 300 processes", (programs.FORK,), _left_nothing, quick=True),
    Attack("allocate more than the limit", (programs.ALLOCATE,), _lacked_memory, _SMALL),
    Attack("allocate more than the limit in children", (programs.CHILDREN,), _said_nothing, _SMALL),
    Attack("compute for ever", ("while True: pass", "9 ** (10 ** 9)"), _timed_out, _BRIEF),
    Attack("live on as a daemon", (programs.DAEMON,), _left_nothing),
    Attack("fill the disk", (programs.FILES, programs.BIG_FILE), _stopped),
    Attack("print for ever", (programs.PRINT,), _capped),
    Attack("start a program behind Python's back", (programs.UNPATCH,), _said_nothing),
)
