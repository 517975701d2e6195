"""What a program may use, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
