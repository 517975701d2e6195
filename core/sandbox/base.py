"""What a sandbox is: run one untrusted Python program with limits, or refuse. Never a bare subprocess."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Event
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from core.sandbox.process import Process


class Outcome(StrEnum):
    """How a program ended. Only `sandbox_error` is infrastructure: retried, and never scored as 0."""

    PASSED = "passed"  # ran to the end with exit status 0 (whether the output is right is for the caller to compare)
    WRONG = "wrong"  # ran, and the caller's comparison failed: set by graders, never by a back end
    TIMEOUT = "timeout"
    MEMORY = "memory"
    CRASH = "crash"
    OUTPUT_LIMIT = "output_limit"
    SANDBOX_ERROR = "sandbox_error"


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What one program may use."""

    wall_s: float = 6.0
    memory_mb: int = 1024
    output_bytes: int = 65_536
    disk_mb: int = 32


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What came out. `stdout` and `stderr` are cut at the output limit."""

    outcome: Outcome
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    wall_s: float = 0.0
    detail: str = ""  # one plain sentence for a person


@dataclass(frozen=True, slots=True)
class Guarantee:
    """One row of the self-check: an attack, and whether this back end blocked it."""

    attack: str
    blocked: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """What the start-up probe found."""

    backend: str | None  # None: refused, code is not run
    guarantees: tuple[Guarantee, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)  # back end -> why it cannot be used
    weaker: tuple[str, ...] = ()  # what the back end in use cannot guarantee, in plain sentences

    @property
    def attacks_total(self) -> int:
        """How many attacks were tried."""
        return len(self.guarantees)

    @property
    def attacks_blocked(self) -> int:
        """How many of them were blocked."""
        return sum(row.blocked for row in self.guarantees)


@runtime_checkable
class Sandbox(Protocol):
    """One isolation back end. Blocking; safe to call from several threads."""

    name: str

    @property
    def weaker(self) -> tuple[str, ...]:
        """What this back end cannot guarantee, in plain sentences."""
        ...

    def run(
        self, program: str, stdin: str = "", limits: SandboxLimits = SandboxLimits(), *, stop: Event | None = None
    ) -> ExecResult:
        """Run `program` (Python source) with `stdin`. Never raises for anything the program does.

        Setting `stop` from another thread kills the program within about 20 ms (outcome `sandbox_error`).
        """
        ...

    def start(
        self, program: str, limits: SandboxLimits, *, channel: bool = False, stop: Event | None = None
    ) -> Process:
        """Start a program that is talked to (core/sandbox/calls.py). The caller ends it and holds its place."""
        ...
