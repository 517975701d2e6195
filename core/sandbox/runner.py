"""What every back end shares: a program in, a result out, within the machine's bounds."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

from core.sandbox.base import Sandbox
from core.sandbox.gate import GATE
from core.sandbox.outcome import ExecResult, Outcome, SandboxLimits
from core.sandbox.process import STOPPED, Process

_FIRST_USER, _USERS = 64_000, 1_000  # below 65,536, so that they exist in a container's map too
_slots = itertools.count()

_MOST_THREADS, _MOST_FILES = 256, 64
_STACK = 256 << 20


def slot_user() -> int:
    """A user id that no other running program of ours has, so that limits per user count one program only."""
    return _FIRST_USER + next(_slots) % _USERS


def rlimits(limits: SandboxLimits, *, count_threads: bool) -> list[tuple[str, int]]:
    """The limits that the kernel keeps for one process, as names and values for `resource.setrlimit`."""
    kept = [
        ("RLIMIT_AS", limits.memory_mb << 20),
        # A backstop for when the parent is gone: threads may burn several seconds in one, the wall clock comes first.
        ("RLIMIT_CPU", (math.ceil(limits.wall_s) + 1) * (os.cpu_count() or 1)),
        ("RLIMIT_FSIZE", limits.disk_mb << 20),
        ("RLIMIT_NOFILE", _MOST_FILES),
        ("RLIMIT_CORE", 0),
        ("RLIMIT_STACK", _STACK),
    ]
    return [*kept, ("RLIMIT_NPROC", _MOST_THREADS)] if count_threads else kept


class Runner:
    """Base of the back ends. They say how to start; this waits, within the bounds of `core.sandbox.gate`."""

    name = ""

    @property
    def weaker(self) -> tuple[str, ...]:
        """What this back end cannot guarantee, in plain words."""
        return ()

    def start(
        self, program: str, limits: SandboxLimits, *, channel: bool = False, stop: Event | None = None
    ) -> Process:
        """Start `program`, confined. The caller ends it, and holds a place in the gate while it runs.

        Raises OSError when the process cannot be made.
        """
        raise NotImplementedError

    def run(
        self,
        program: str,
        stdin: str = "",
        limits: SandboxLimits = SandboxLimits(),
        *,
        stop: Event | None = None,
    ) -> ExecResult:
        """See Sandbox.run."""
        with GATE.hold(limits.memory_mb, stop) as free:
            if not free:
                return ExecResult(Outcome.SANDBOX_ERROR, detail=STOPPED)
            try:
                with self.start(program, limits, stop=stop) as process:
                    process.feed(stdin.encode("utf-8", "replace"))
                    return process.wait()
            except OSError as error:
                return ExecResult(Outcome.SANDBOX_ERROR, detail=f"the sandbox did not start: {error}")


@dataclass(frozen=True, slots=True)
class Job:
    """One program of many."""

    program: str
    stdin: str = ""
    limits: SandboxLimits = SandboxLimits()


def run_many(sandbox: Sandbox, jobs: Sequence[Job], *, stop: Event | None = None) -> list[ExecResult]:
    """Run all jobs, as many at once as cores and memory allow, and return their results in order.

    A result of `sandbox_error` is tried once more: it says nothing about the program.
    """

    def one(job: Job) -> ExecResult:
        result = sandbox.run(job.program, job.stdin, job.limits, stop=stop)
        if result.outcome is Outcome.SANDBOX_ERROR and not (stop and stop.is_set()):
            result = sandbox.run(job.program, job.stdin, job.limits, stop=stop)
        return result

    if not jobs:
        return []
    with ThreadPoolExecutor(min(len(jobs), GATE.slots), thread_name_prefix="sandbox") as threads:
        return list(threads.map(one, jobs))
