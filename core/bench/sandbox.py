"""What isolation costs: `print(1)` in each back end beside the same interpreter started bare, in turns, as medians."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from typing import Any

from core.errors import SandboxUnavailable
from core.sandbox import Outcome, open_sandbox
from core.sandbox.calls import run_check
from core.sandbox.interpreter import find_interpreter
from core.sandbox.probe import BACKENDS

_PROGRAM = "print(1)"
_CHECK = "def check(candidate):\n    assert candidate(2) == 4\n"
_SOLUTION = "def double(x):\n    return 2 * x\n"


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Fields of `trinity bench sandbox`: milliseconds per run, and the overhead over bare of each back end.

    On a machine busy with other work the medians of all sides grow; the fastest runs tell more there.
    """
    repetitions = args.repetitions or (20 if args.quick else 60)
    sides: dict[str, Callable[[], None]] = {"bare": _bare}
    refused: dict[str, str] = {}
    for name in BACKENDS:
        try:
            sides[name] = _confined(name)
        except SandboxUnavailable as error:
            refused[name] = str(error)
    times = _in_turns(sides, repetitions)
    medians = {name: statistics.median(values) for name, values in times.items()}
    best = {name: min(values) for name, values in times.items()}
    checks = _in_turns({name: _checked(name) for name in sides if name != "bare"}, max(3, repetitions // 4))
    return {
        "repetitions": repetitions,
        "cores": len(os.sched_getaffinity(0)),
        "bare_ms": round(medians["bare"], 1),
        "run_ms": {name: round(value, 1) for name, value in medians.items() if name != "bare"},
        "overhead_ms": {name: round(value - medians["bare"], 1) for name, value in medians.items() if name != "bare"},
        "overhead_of_best_ms": {name: round(value - best["bare"], 1) for name, value in best.items() if name != "bare"},
        "check_ms": {name: round(statistics.median(values), 1) for name, values in checks.items()},
        "refused": refused,
    }


def _in_turns(sides: dict[str, Callable[[], None]], repetitions: int) -> dict[str, list[float]]:
    """Milliseconds of every run. Taking turns makes a busy machine slow all sides alike."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for side in sides.values():
        side()
    for _ in range(repetitions):
        for name, side in sides.items():
            started = time.perf_counter()
            side()
            times[name].append((time.perf_counter() - started) * 1e3)
    return times


def _bare() -> None:
    line = [find_interpreter().executable, "-I", "-S", "-B", "-c", _PROGRAM]
    answer = subprocess.run(line, input=b"", capture_output=True, check=True, timeout=60, start_new_session=True)
    assert answer.stdout == b"1\n"


def _confined(name: str) -> Callable[[], None]:
    sandbox = open_sandbox(name)

    def run() -> None:
        assert sandbox.run(_PROGRAM).stdout == "1\n"

    return run


def _checked(name: str) -> Callable[[], None]:
    sandbox = open_sandbox(name)

    def run() -> None:
        assert run_check(_CHECK, "double", _SOLUTION, sandbox=sandbox).outcome is Outcome.PASSED

    return run
