"""What a sandbox is: run one untrusted Python program with limits, or refuse. Never a bare subprocess."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from core.sandbox.outcome import ExecResult, SandboxLimits

if TYPE_CHECKING:
    from core.sandbox.process import Process


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
