"""Run untrusted Python: bubblewrap, or landlock + seccomp, or refuse.

    sandbox = open_sandbox()                     # SandboxUnavailable when no back end passed its self-check
    result = sandbox.run(program, stdin, SandboxLimits(wall_s=6))

Programs and their outputs are compared by the caller: what is expected never enters the sandbox.
"""

from __future__ import annotations

from core.sandbox.base import Guarantee, ProbeReport, Sandbox
from core.sandbox.outcome import ExecResult, Outcome, SandboxLimits
from core.sandbox.probe import open_sandbox, probe
from core.sandbox.runner import Job, run_many

__all__ = [
    "ExecResult",
    "Guarantee",
    "Job",
    "Outcome",
    "ProbeReport",
    "Sandbox",
    "SandboxLimits",
    "open_sandbox",
    "probe",
    "run_many",
]
