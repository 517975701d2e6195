"""Call functions of untrusted code with plain values and get plain values back; the caller compares.

Nothing that is expected enters the sandbox of the solution. `call_many` is for items with arguments and expected
values. `run_check` is for a check written as code (HumanEval): the check runs in a sandbox of its own and its
candidate is a stand-in, so a solution that walks frames, overrides `__eq__` or exits with status 0 gains nothing.
Arguments travel by value: what a solution does to its arguments is not seen by the check.
"""

from __future__ import annotations

import functools
import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import Any

from core.sandbox import wire
from core.sandbox.base import Sandbox
from core.sandbox.gate import GATE
from core.sandbox.outcome import ExecResult, Outcome, SandboxLimits
from core.sandbox.probe import open_sandbox
from core.sandbox.process import STOPPED, Process

_DEAF = "it ended before it answered"
_VERDICT = '{"dict":[["verdict",'


@dataclass(frozen=True, slots=True)
class CallResult:
    """One call. `value` counts only when the outcome is `passed`; `error` says what went wrong, for a person."""

    outcome: Outcome
    value: Any = None
    error: str = ""
    wall_s: float = 0.0


class Conversation:
    """A sandboxed harness and the lines exchanged with it."""

    def __init__(
        self, sandbox: Sandbox, setup: Mapping[str, Any], limits: SandboxLimits, stop: Event | None = None
    ) -> None:
        self._token = secrets.token_hex(8)
        self.process: Process = sandbox.start(_text("harness.py"), limits, channel=True, stop=stop)
        self.process.received_limit = wire.MOST_BYTES + 4_096  # one line, its token, its end
        self.process.feed(b"")
        opening = json.dumps({**setup, "token": self._token, "wire": _text("wire.py")})
        self.process.send(opening.encode() + b"\n")

    def say(self, line: str) -> None:
        """Send one plain value, as `wire.dump` wrote it."""
        self.process.send(f"{self._token} {line}\n".encode())

    def hear(self, until: float | None = None) -> str | None:
        """The next line, or None: the process has ended, or it is past the monotonic time `until`."""
        received = self.process.received
        while b"\n" not in received:
            limit = self.process.deadline if until is None else until
            if not self.process.pump(limit) and b"\n" not in received:
                return None
            if time.monotonic() >= limit and not self.process.ended:
                return None
        line, _, rest = bytes(received).partition(b"\n")
        received[:] = rest
        token, _, text = line.decode("utf-8", "replace").partition(" ")
        if token != self._token:
            self.process.end(Outcome.CRASH, "it wrote into the channel of the sandbox")
            return None
        return text

    def end(self, outcome: Outcome, detail: str) -> ExecResult:
        """Stop it, if it still runs, and say how it ended."""
        return self.process.end(outcome, detail)


def call_many(
    solution: str,
    entry_point: str,
    calls: Sequence[Sequence[Any]],
    limits: SandboxLimits = SandboxLimits(),
    *,
    sandbox: Sandbox | None = None,
    go_on: Callable[[int, CallResult], bool] = lambda index, result: True,
    stop: Event | None = None,
) -> list[CallResult]:
    """Call `entry_point` of `solution` once for each list of arguments, in one process as long as it lives.

    Args:
        solution: Python source.
        entry_point: `name`, `Class.method`, or the name of a method of a class `Solution`.
        calls: positional arguments of each call: plain values only.
        limits: `wall_s` is for each call; a call that is late ends the process, and the next one gets a new one.
        sandbox: default: the best of this machine.
        go_on: asked after each result; False ends the list there (a wrong answer decides an item).
        stop: set it from another thread to end everything.

    Returns:
        One result for each call made. Values come back with their types: list, tuple, set, dict, float and so on.
        When the code does not even load, the list ends with that one failure.

    Raises:
        WireError: an argument is not plain data, or too large.
        SandboxUnavailable: no `sandbox` was given and there is none.
    """
    sandbox = sandbox or open_sandbox()
    lines = [_request(index, arguments) for index, arguments in enumerate(calls)]
    results: list[CallResult] = []
    setup = {"mode": "serve", "solution": solution, "entry_point": entry_point}
    whole = replace(limits, wall_s=limits.wall_s * (len(lines) + 1))
    with GATE.hold(limits.memory_mb, stop) as free:
        if not free:
            return [CallResult(Outcome.SANDBOX_ERROR, error=STOPPED)]
        try:
            while len(results) < len(lines):
                if not _serve(sandbox, setup, whole, limits.wall_s, lines, results, go_on, stop):
                    break
        except OSError as error:
            results.append(CallResult(Outcome.SANDBOX_ERROR, error=f"the sandbox did not start: {error}"))
    return results


def _serve(
    sandbox: Sandbox,
    setup: Mapping[str, Any],
    whole: SandboxLimits,
    each_s: float,
    lines: Sequence[str],
    results: list[CallResult],
    go_on: Callable[[int, CallResult], bool],
    stop: Event | None,
) -> bool:
    """Make calls in one process until it dies or all are made. False: the caller wants no more."""
    talk = Conversation(sandbox, setup, whole, stop)
    with talk.process:
        loaded = _answer(talk, each_s, None)
        if loaded.outcome is not Outcome.PASSED:
            results.append(loaded)
            return False
        while len(results) < len(lines):
            index = len(results)
            talk.say(lines[index])
            result = _answer(talk, each_s, index)
            results.append(result)
            if not go_on(index, result) or (stop and stop.is_set()):
                return False
            if talk.process.ended:
                return True
    return True


def _answer(talk: Conversation, each_s: float, index: int | None) -> CallResult:
    """Wait for the answer to one call (None: to loading)."""
    while not talk.process.ready and talk.process.pump(talk.process.deadline):
        pass
    started = time.monotonic()
    line = talk.hear(started + each_s)
    took = time.monotonic() - started
    if line is None:
        late = talk.process.ended is False
        ended = talk.end(Outcome.TIMEOUT, f"it did not answer in {each_s:g} s")
        outcome = Outcome.CRASH if ended.outcome is Outcome.PASSED else ended.outcome
        return CallResult(outcome, error=ended.detail if late else ended.detail or _DEAF, wall_s=took)
    try:
        message = wire.load(line)
        if message.get("id") == index and "value" in message:
            return CallResult(Outcome.PASSED, message["value"], wall_s=took)
        kind, text, name = (str(part) for part in message["error"])
    except (wire.WireError, KeyError, ValueError, TypeError, AttributeError) as error:
        ended = talk.end(Outcome.CRASH, f"it returned what is not plain data ({error})")
        return CallResult(Outcome.CRASH, error=ended.detail, wall_s=took)
    outcome = Outcome.MEMORY if kind == "MemoryError" else Outcome.CRASH
    return CallResult(outcome, error=f"{name}: {text}".rstrip(": "), wall_s=took)


def run_check(
    check_source: str,
    entry_point: str,
    solution_source: str,
    limits: SandboxLimits = SandboxLimits(),
    *,
    sandbox: Sandbox | None = None,
    stop: Event | None = None,
) -> ExecResult:
    """Run a check written as code against a solution, each in a sandbox of its own.

    Args:
        check_source: defines `check(candidate)`, or asserts at top level with the entry point's own name. May define
            whatever else it needs (the helpers of a HumanEval prompt); the entry point is replaced by the stand-in.
        entry_point: as in `call_many`.
        solution_source: Python source of the solution; it never sees the check.
        limits: `wall_s` is for the whole check; memory and disk are for each of the two sandboxes.
        sandbox: default: the best of this machine.
        stop: set it from another thread to end everything.

    Returns:
        `passed` only when the check ran to its end. `wrong`: an assertion of the check failed. `sandbox_error`: also
        when the check hands over what cannot cross (a function). Standard output is the solution's.
    """
    sandbox = sandbox or open_sandbox()
    ask = {"mode": "examine", "check": check_source, "entry_point": entry_point.rpartition(".")[2]}
    hold = {"mode": "serve", "solution": solution_source, "entry_point": entry_point}
    with GATE.hold(2 * limits.memory_mb, stop) as free:
        if not free:
            return ExecResult(Outcome.SANDBOX_ERROR, detail=STOPPED)
        try:
            solver = Conversation(sandbox, hold, limits, stop)
            with solver.process:
                examiner = Conversation(sandbox, ask, limits, stop)  # starts while the solution is being loaded
                with examiner.process:
                    loaded = _answer(solver, limits.wall_s, None)
                    if loaded.outcome is not Outcome.PASSED:
                        return _close(solver, loaded.outcome, loaded.error)
                    return _relay(examiner, solver)
        except OSError as error:
            return ExecResult(Outcome.SANDBOX_ERROR, detail=f"the sandbox did not start: {error}")


def _relay(examiner: Conversation, solver: Conversation) -> ExecResult:
    """Carry calls from the check to the solution and answers back, until the check is over."""
    while True:
        line = examiner.hear()
        if line is None:
            how = examiner.end(Outcome.SANDBOX_ERROR, "the check stopped answering")
            return _close(
                solver, Outcome.CRASH if how.outcome is Outcome.PASSED else how.outcome, "check: " + how.detail
            )
        if line.startswith(_VERDICT):
            return _verdict(solver, wire.load(line))
        # Both lines pass unopened: what a stranger's values do when they are built, they do in the examiner's sandbox.
        solver.say(line)
        answer = solver.hear()
        if answer is None:
            return _lost(solver)
        examiner.say(answer)


def _verdict(solver: Conversation, message: Mapping[str, Any]) -> ExecResult:
    said = str(message.get("detail", ""))
    if message["verdict"] == "passed":
        return _close(solver, Outcome.PASSED, "")
    if message["verdict"] == "unsupported":
        return _close(solver, Outcome.SANDBOX_ERROR, said)
    if message["verdict"] == "candidate":
        return _close(solver, Outcome.MEMORY if said.startswith("MemoryError") else Outcome.CRASH, said)
    return _close(solver, Outcome.WRONG, f"{said} at: {message.get('line', '')}")


def _close(solver: Conversation, outcome: Outcome, detail: str) -> ExecResult:
    """End the solution's sandbox and report this outcome with its output."""
    return replace(solver.end(outcome, detail), outcome=outcome, detail=detail)


def _lost(solver: Conversation) -> ExecResult:
    """The solution's sandbox ended in the middle of a call, or its time is over."""
    ended = solver.end(Outcome.TIMEOUT, "its time is over")
    if ended.outcome is Outcome.PASSED:  # status 0 before the check was over proves nothing
        return replace(ended, outcome=Outcome.CRASH, detail=_DEAF)
    return ended


def _request(index: int, arguments: Sequence[Any], named: Mapping[str, Any] | None = None) -> str:
    return wire.dump({"id": index, "args": list(arguments), "kwargs": dict(named or {})})


@functools.cache
def _text(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
