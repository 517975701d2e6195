"""What the exit status of a sandboxed program means."""

from __future__ import annotations

import signal

from core.sandbox.child import OUT_OF_MEMORY
from core.sandbox.outcome import Outcome, SandboxLimits


def explain_end(code: int | None, ready: bool, limits: SandboxLimits, stderr: bytes) -> tuple[Outcome, str]:
    """The outcome and one plain sentence for a process that was not killed by its parent.

    Args:
        code: as `subprocess` gives it; bubblewrap reports signals as 128 + number. None: it could not be reaped.
        ready: whether the program had started; before that, every end is the sandbox's.
        limits: what the program was allowed.
        stderr: what it said.
    """
    if not ready:
        said = stderr.decode("utf-8", "replace").strip().splitlines()
        return Outcome.SANDBOX_ERROR, f"the sandbox did not start: {said[-1] if said else f'status {code}'}"
    if code == 0:
        return Outcome.PASSED, ""
    if code == OUT_OF_MEMORY:
        return Outcome.MEMORY, f"it wanted more than {limits.memory_mb} MB"
    number = _signal(code)
    if number == signal.SIGXCPU:
        return Outcome.TIMEOUT, "it used more processor time than its wall clock allows"
    if number == signal.SIGKILL:
        return Outcome.MEMORY, "the kernel ended it, most likely for want of memory"
    if number is not None:
        return Outcome.CRASH, f"it was ended by signal {number}"
    return Outcome.CRASH, f"it ended with status {code}"


def _signal(code: int | None) -> int | None:
    number = 0 if code is None else -code if code < 0 else code - 128
    return number if 0 < number < signal.NSIG else None
