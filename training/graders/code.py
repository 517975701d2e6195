"""Code: the reply's last code block runs in the sandbox; this process compares, and expected values stay in it."""

from __future__ import annotations

import functools
import json
import math
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import SandboxUnavailable
from core.sandbox import open_sandbox
from core.sandbox.calls import CallResult, call_many, run_check
from core.sandbox.outcome import ExecResult, Outcome, SandboxLimits
from training.graders.base import Grade, GradeOutcome, failed, missing, passed, shown, too_long
from training.graders.commit import without_reasoning

MAX_CODE = 65_536  # characters
CHECK_LIMITS = SandboxLimits(wall_s=10.0, memory_mb=1024)
UNITTEST_LIMITS = SandboxLimits(wall_s=60.0, memory_mb=2048, disk_mb=64)
_OPEN = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^`\n]*$")
_PYTHON = {"", "python", "py", "python3", "py3", "python2", "ipython", "pycon"}
PRELUDE = (  # what contest sites import for the solver
    "import sys, math, re, collections, itertools, functools, heapq, bisect, string, operator, random, copy\n"
    "from typing import *\nfrom collections import *\nfrom itertools import *\nfrom functools import *\n"
    "from heapq import *\nfrom bisect import *\nfrom math import *\n"
)


@dataclass(frozen=True, slots=True)
class StdinTest:
    """A program's input and what it must print."""

    stdin: str
    stdout: str


@dataclass(frozen=True, slots=True)
class CallTest:
    """Arguments of a function call and the value it must return."""

    arguments: list[Any]
    result: Any


def commit_code(reply: str) -> str:
    """The last complete fenced Python block, else the text after an unclosed last fence, else the whole reply.

    Fences inside strings or comments of a block do not end it: only a line that is a fence of the same kind does.
    """
    body = without_reasoning(reply).replace("\r\n", "\n")
    blocks: list[tuple[str, str]] = []
    fence, tag = "", ""
    lines: list[str] = []
    for line in body.split("\n"):
        mark = _OPEN.match(line)
        if not fence:
            if mark:
                fence, tag, lines = mark[1], mark[2].casefold(), []
        elif mark and not mark[2] and mark[1][0] == fence[0] and len(mark[1]) >= len(fence):
            blocks.append((tag, "\n".join(lines)))
            fence = ""
        else:
            lines.append(line)
    python = [text for tag, text in blocks if tag in _PYTHON and text.strip()]
    if python:
        return python[-1]
    if fence:
        return "\n".join(lines)
    return "" if blocks else body


def grade_check(reply: str, prompt: str, entry_point: str, test: str) -> Grade:
    """HumanEval-style: `test` defines `check(candidate)`, which must not raise for the reply's `entry_point`.

    The check runs in one sandbox and the solution in another; they exchange plain values only.
    """
    code = _code(reply)
    if isinstance(code, Grade):
        return code
    solution = complete(code, prompt, entry_point)
    check = f"{prompt}\n{test}"
    result = attempt(lambda: run_check(check, entry_point, solution, CHECK_LIMITS))
    return _failure(code, result, "") or passed(code, "All checks passed.")


def complete(code: str, prompt: str, entry_point: str) -> str:
    """A whole module: the prompt's imports and helpers, then the code; or the prompt continued by a bare body."""
    if re.search(
        rf"^(?:async\s+)?(?:def|class)\s+{re.escape(entry_point)}\b|^{re.escape(entry_point)}\s*=", code, re.MULTILINE
    ):
        return f"{header(prompt, entry_point)}\n{code}"
    if prompt and (code[:1] in " \t" or not re.search(r"^\S", code, re.MULTILINE)):
        return f"{prompt}\n{code}"
    return f"{header(prompt, entry_point)}\n{code}"


def header(prompt: str, entry_point: str) -> str:
    """What stands before the function in its prompt: imports and helpers that a solution may use."""
    found = re.search(rf"^(?:async\s+)?def\s+{re.escape(entry_point)}\b", prompt, re.MULTILINE)
    return prompt[: found.start()] if found else ""


def grade_stdin(reply: str, tests: Sequence[StdinTest], seconds: float) -> Grade:
    """Programs on standard input: every test's output must agree, line by line, up to space at line ends."""
    code = _code(reply)
    if isinstance(code, Grade):
        return code
    program = f"{PRELUDE}\n{code}"
    for number, test in enumerate(tests, 1):
        limits = SandboxLimits(wall_s=seconds, output_bytes=max(65_536, 2 * len(test.stdout.encode())))
        result = attempt(functools.partial(_run, program, test.stdin, limits))
        if grade := _failure(code, result, f"Test {number} of {len(tests)}: "):
            return grade
        if not same_output(result.stdout, test.stdout):
            return failed(code, f"Test {number} of {len(tests)}: the output differs.")
    return passed(code, f"All {len(tests)} tests passed.")


def grade_calls(
    reply: str, entry_point: str, tests: Sequence[CallTest], seconds: float, in_class: bool = False
) -> Grade:
    """Functional problems: values come back from the sandbox by value and are compared here.

    `in_class`: the function is a method of `class Solution`. The first call that goes wrong ends the run.
    """
    code = _code(reply)
    if isinstance(code, Grade):
        return code
    entry = f"Solution.{entry_point}" if in_class else entry_point

    def right(index: int, result: CallResult) -> bool:
        return result.outcome is Outcome.PASSED and same_value(result.value, tests[index].result)

    arguments = [test.arguments for test in tests]
    limits = SandboxLimits(wall_s=seconds)
    try:
        results = call_many(f"{PRELUDE}\n{code}", entry, arguments, limits, go_on=right)
    except SandboxUnavailable as error:
        return missing(f"Not measured: {error}", GradeOutcome.SANDBOX_ERROR, code)
    last = len(results) - 1
    if len(results) == len(tests) and right(last, results[last]):
        return passed(code, f"All {len(tests)} tests passed.")
    where = f"Test {last + 1} of {len(tests)}: "
    ended = ExecResult(results[last].outcome, detail=results[last].error)
    return _failure(code, ended, where) or failed(code, f"{where}the returned value differs.")


def grade_unittest(reply: str, prompt: str, entry_point: str, test: str, libraries: Sequence[str]) -> Grade:
    """BigCodeBench-style: a unittest file and the solution in ONE sandbox. Spoofable, so for reports only.

    A library that the sandbox lacks makes the item `not_run`.
    """
    code = _code(reply)
    if isinstance(code, Grade):
        return code
    absent = attempt(lambda: _absent(tuple(libraries)))
    if absent.outcome is not Outcome.PASSED:
        return missing(absent.detail, GradeOutcome.SANDBOX_ERROR, code)
    if names := json.loads(absent.stdout):
        return missing(f"Not run: the sandbox lacks {', '.join(names)}.", GradeOutcome.NOT_RUN, code)
    token = secrets.token_hex(8)
    program = f"{complete(code, prompt, entry_point)}\n{test}\n{_UNITTEST.format(token=token)}"
    result = attempt(functools.partial(_run, program, "", UNITTEST_LIMITS))
    if grade := _failure(code, result, ""):
        return grade
    if result.stdout.strip().endswith(token):
        return passed(code, "All unit tests passed (solution and tests share one sandbox: spoofable).")
    return failed(code, "A unit test failed.")


def same_output(found: str, expected: str) -> bool:
    """Equal line by line, ignoring space at line ends and empty lines at the end; numbers within 1e-9 of each other."""
    lines, wanted = (_lines(text) for text in (found, expected))
    return len(lines) == len(wanted) and all(_same_line(a, b) for a, b in zip(lines, wanted, strict=True))


def same_value(found: Any, expected: Any) -> bool:
    """Equal values: tuples count as lists, whole numbers exactly, floats within 1e-9, True is not 1."""
    if isinstance(found, bool) or isinstance(expected, bool):
        return found is expected
    if isinstance(found, int | float) and isinstance(expected, int | float):
        return found == expected or _near(found, expected)
    if isinstance(found, list | tuple) and isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(same_value(a, b) for a, b in zip(found, expected, strict=True))
    if isinstance(found, dict) and isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same_value(found[name], expected[name]) for name in expected)
    return type(found) is type(expected) and bool(found == expected)


def _near(found: float, expected: float) -> bool:
    if isinstance(found, int) and isinstance(expected, int):
        return False
    try:
        return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)
    except OverflowError:  # a whole number beyond the range of floats is near none of them
        return False


def attempt(run: Callable[[], ExecResult]) -> ExecResult:
    """Run once, and once more when the sandbox itself failed; no sandbox at all is a `sandbox_error`."""
    try:
        result = run()
        return run() if result.outcome is Outcome.SANDBOX_ERROR else result
    except SandboxUnavailable as error:
        return ExecResult(Outcome.SANDBOX_ERROR, detail=str(error))


_UNITTEST = """
import sys as _s, unittest as _u
_t = _u.defaultTestLoader.loadTestsFromModule(_s.modules["__main__"])
_r = _u.TextTestRunner(stream=open("/dev/null", "w")).run(_t)
print("" if _r.testsRun == 0 or not _r.wasSuccessful() else "\\n{token}")
"""


@functools.cache
def _absent(libraries: tuple[str, ...]) -> ExecResult:
    """Prints the list of `libraries` that cannot be imported inside the sandbox."""
    program = (
        "import importlib.util as u, json\n"
        f"print(json.dumps([n for n in {list(libraries)!r} if u.find_spec(n.split('.')[0]) is None]))"
    )
    return _run(program, "", SandboxLimits())


def _run(program: str, stdin: str, limits: SandboxLimits) -> ExecResult:
    return open_sandbox().run(program, stdin, limits)


def _code(reply: str) -> str | Grade:
    if refused := too_long(reply):
        return refused
    code = commit_code(reply)
    if not code.strip():
        return failed("", "The reply holds no Python code.", GradeOutcome.NO_ANSWER)
    if len(code) > MAX_CODE or "\0" in code:
        return failed(code, f"The code is longer than {MAX_CODE:,} characters or not text.")
    return code


def _failure(code: str, result: ExecResult, where: str) -> Grade | None:
    """The grade of a run that did not end well, or None."""
    if result.outcome is Outcome.PASSED:
        return None
    outcome = GradeOutcome(result.outcome.value)
    if result.outcome is Outcome.SANDBOX_ERROR:
        return missing(f"Not measured: {result.detail}", outcome, code)
    last = result.stderr.strip().splitlines()[-1:] or [result.outcome.value]
    return failed(code, f"{where}{result.detail or shown(last[0])}", outcome)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.replace("\r\n", "\n").rstrip().split("\n")]


def _same_line(found: str, expected: str) -> bool:
    if found == expected:
        return True
    a, b = found.split(), expected.split()
    return len(a) == len(b) and all(x == y or _same_float(x, y) for x, y in zip(a, b, strict=True))


def _same_float(found: str, expected: str) -> bool:
    """Decimal numbers within 1e-9; whole numbers must be written alike."""
    decimal = r"-?\d+\.\d+(?:[eE][+-]?\d+)?"
    if not (re.fullmatch(decimal, found) and re.fullmatch(decimal, expected)):
        return False
    return math.isclose(float(found), float(expected), rel_tol=1e-9, abs_tol=1e-9)
