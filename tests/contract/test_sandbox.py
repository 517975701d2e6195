"""What every back end must do alike: legitimate programs, outcomes, streams, calls, checks."""

import json
import threading

import pytest

from core.sandbox import Job, Outcome, Sandbox, SandboxLimits, run_many
from core.sandbox.calls import CallResult, call_many, run_check
from core.sandbox.wire import Opaque, WireError

LEGITIMATE = {
    "input": ("print(int(input()) + int(input()))", "2\n3\n", "5\n"),
    "sys.stdin": ("import sys\nprint(sum(map(int, sys.stdin)))", "1\n2\n", "3\n"),
    "stdin.buffer": ("import sys\nprint(len(sys.stdin.buffer.read()))", "é\n", "3\n"),
    "open(0)": ("print(open(0).read().split()[-1])", "a b", "b\n"),
    "os.read": ("import os\nprint(os.read(0, 100))", "xy", "b'xy'\n"),
    "/dev/stdin": ("print(open('/dev/stdin').read())", "xy", "xy\n"),
    "no stdin": ("import sys\nprint(repr(sys.stdin.read()))", "", "''\n"),
    "large stdin": ("import sys\nprint(len(sys.stdin.read()))", "x" * 3_000_000, "3000000\n"),
    "unread stdin": ("print(1)", "x" * 3_000_000, "1\n"),
    "unicode": ("print(input()[::-1])", "天地é\n", "é地天\n"),
    "threads": (
        "import threading\nt = [threading.Thread(target=lambda: print('t')) for _ in range(8)]\n"
        "[x.start() for x in t]; [x.join() for x in t]",
        "",
        "t\n" * 8,
    ),
    "thread left running": ("import threading\nthreading.Timer(0.1, lambda: print('late')).start()", "", "late\n"),
    "thread pool": (
        "from concurrent.futures import ThreadPoolExecutor as P\nwith P(4) as p: print(sum(p.map(abs, [-1, -2])))",
        "",
        "3\n",
    ),
    "recursion in a thread": (
        "import sys, threading\nsys.setrecursionlimit(300000)\nthreading.stack_size(256 << 20)\n"
        "def f(n): return 0 if n == 0 else 1 + f(n - 1)\n"
        "t = threading.Thread(target=lambda: print(f(200000))); t.start(); t.join()",
        "",
        "200000\n",
    ),
    "recursion": (
        "import sys\nsys.setrecursionlimit(10**6)\nimport functools\n@functools.cache\n"
        "def f(n): return 0 if n == 0 else 1 + f(n - 1)\nprint(f(20000))",
        "",
        "20000\n",
    ),
    "asyncio": (
        "import asyncio\nasync def f():\n await asyncio.sleep(0.01)\n return 5\nprint(asyncio.run(f()))",
        "",
        "5\n",
    ),
    "exit": ("print(1)\nexit()\nprint(2)", "", "1\n"),
    "quit": ("quit(0)", "", ""),
    "sys.exit": ("import sys\nprint(1)\nsys.exit()", "", "1\n"),
    "main guard": ("def main():\n print(__name__)\nif __name__ == '__main__':\n main()", "", "__main__\n"),
    "files": (
        "import os, pathlib, shutil, tempfile\npathlib.Path('d').mkdir()\nopen('d/a', 'w').write('x')\n"
        "shutil.copy('d/a', 'd/b'); os.rename('d/b', 'c'); os.chmod('c', 0o600)\n"
        "with tempfile.TemporaryDirectory() as t, tempfile.NamedTemporaryFile('w', dir=t) as f: f.write('y')\n"
        "print(open('c').read(), sorted(os.listdir('d')))\nshutil.rmtree('d')",
        "",
        "x ['a']\n",
    ),
    "dev null": ("print(1, file=open('/dev/null', 'w'))\nimport os\nprint(len(os.urandom(4)))", "", "4\n"),
    "a name that filters reject": ("import re\ndef open_door(system): return re.compile(system)\nprint(1)", "", "1\n"),
    "dataclass and pickle": (
        "import pickle\nfrom dataclasses import dataclass\n@dataclass\nclass A:\n x: int\n"
        "print(pickle.loads(pickle.dumps(A(3))))",
        "",
        "A(x=3)\n",
    ),
    "standard library": (
        "import heapq, bisect, collections, itertools, functools, math, re, json, decimal, fractions, random, string, "
        "datetime, statistics, sqlite3, zlib, lzma, bz2, hashlib, ssl, ctypes, csv, copy, operator, typing, enum, "
        "array, struct, queue, time, uuid, textwrap, unittest, doctest, zoneinfo, subprocess, logging\n"
        "print(hashlib.sha256(b'').hexdigest()[:4], sqlite3.connect(':memory:').execute('select 1').fetchone())",
        "",
        "e3b0 (1,)\n",
    ),
    "much memory": ("x = [0] * (80 << 20)\nprint(len(x) >> 20)", "", "80\n"),
    "big output": ("print('x' * 60000)", "", "x" * 60000 + "\n"),
    "future import": ("from __future__ import annotations\ndef f(x: Nowhere): return 1\nprint(f(0))", "", "1\n"),
    "source encoding": ("s = '天'\nprint(len(s))", "", "1\n"),
}


def test_it_is_a_sandbox(sandbox):
    assert isinstance(sandbox, Sandbox)
    assert sandbox.weaker


@pytest.mark.parametrize("name", LEGITIMATE)
def test_a_legitimate_program_passes(sandbox, name):  # T15
    program, stdin, expected = LEGITIMATE[name]
    result = sandbox.run(program, stdin)
    assert (result.outcome, result.stdout) == (Outcome.PASSED, expected), result.stderr
    assert result.exit_code == 0


def test_packages_only_where_allowed(sandbox):
    from core.sandbox import open_sandbox

    program = "import numpy\nprint(int(numpy.arange(5).sum()), float(numpy.linalg.norm([3, 4])))"
    assert sandbox.run(program).outcome is Outcome.CRASH
    wide = open_sandbox(sandbox.name, libraries=True)
    assert wide.run(program, limits=SandboxLimits(wall_s=20)).stdout == "10 5.0\n"
    assert "PermissionError" in (said := wide.run("open('/etc/passwd')").stderr) or "FileNotFoundError" in said


@pytest.mark.parametrize(
    ("program", "limits", "outcome"),
    [
        ("print(1)", SandboxLimits(), Outcome.PASSED),
        ("raise ValueError('x')", SandboxLimits(), Outcome.CRASH),
        ("while True: pass", SandboxLimits(wall_s=0.3), Outcome.TIMEOUT),
        ("x = bytearray(900 << 20)", SandboxLimits(memory_mb=256), Outcome.MEMORY),
        ("while True: print('x' * 99)", SandboxLimits(output_bytes=1000), Outcome.OUTPUT_LIMIT),
        ("open('f', 'wb').write(bytes(9 << 20))", SandboxLimits(disk_mb=4), Outcome.CRASH),
    ],
)
def test_outcomes(sandbox, program, limits, outcome):
    result = sandbox.run(program, limits=limits)
    assert result.outcome is outcome
    assert bool(result.detail) == (outcome is not Outcome.PASSED)


def test_streams_stay_apart_and_are_cut(sandbox):
    result = sandbox.run("import sys\nprint('out')\nprint('err', file=sys.stderr)")
    assert (result.stdout, result.stderr) == ("out\n", "err\n")
    assert len(sandbox.run("print('x' * 5000)", limits=SandboxLimits(output_bytes=100)).stdout) == 100


def test_an_error_shows_the_program_only(sandbox):
    said = sandbox.run("def f():\n    return 1 / 0\n\nf()").stderr
    assert "return 1 / 0" in said
    assert "main.py" in said
    assert "sandbox" not in said.replace("trinity-box", "")
    assert "core" not in said


def test_many_run_in_order(sandbox):
    jobs = [Job(f"print({number})") for number in range(6)] + [Job("1/0")]
    results = run_many(sandbox, jobs)
    assert [result.stdout for result in results[:6]] == [f"{number}\n" for number in range(6)]
    assert results[6].outcome is Outcome.CRASH


def test_threads_may_share_it(sandbox):
    said = {}

    def one(number):
        said[number] = sandbox.run(f"print(input() * {number})", "ab").stdout

    threads = [threading.Thread(target=one, args=(number,)) for number in range(1, 7)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert said == {number: "ab" * number + "\n" for number in range(1, 7)}


# Calls: values come back with their types.

VALUES = [
    None, True, False, 0, -7, 2**70, -(2**70), 1.0, -0.0, 1e300, "", "é\ud800", [], [1, [2, [3]]], (), (1,),
    (1, [2, (3,)]), {1, 2}, frozenset({"a"}), {}, {"a": 1}, {1: "x", (1, 2): [3]}, b"\x00\xff", 3 + 4j,
]  # fmt: skip


def test_values_cross_with_their_types(sandbox):
    results = call_many("def same(x): return x", "same", [[value] for value in VALUES], sandbox=sandbox)
    assert [result.outcome for result in results] == [Outcome.PASSED] * len(VALUES)
    for value, result in zip(VALUES, results, strict=True):
        assert repr(result.value) == repr(value) or result.value == value
        assert type(result.value) is type(value)


def test_special_floats_cross(sandbox):
    said = call_many("def f(x): return float(x)", "f", [["nan"], ["inf"], ["-inf"]], sandbox=sandbox)
    assert [repr(result.value) for result in said] == ["nan", "inf", "-inf"]


def test_what_is_not_plain_equals_nothing(sandbox):
    code = "class Yes:\n def __eq__(self, other): return True\n def __hash__(self): return 1\ndef f(): return Yes()"
    (result,) = call_many(code, "f", [[]], sandbox=sandbox)
    assert isinstance(result.value, Opaque)
    assert result.value != 3
    assert result.value != "Yes"


def test_arguments_that_are_not_plain_are_refused_here(sandbox):
    deep: list = []
    deep.append(deep)
    with pytest.raises(WireError):
        call_many("def f(x): return x", "f", [[deep]], sandbox=sandbox)


def test_each_call_has_its_own_fate(sandbox):
    code = """
import os, sys, time
def f(kind):
    if kind == "slow": time.sleep(60)
    if kind == "exit": sys.exit(0)
    if kind == "vanish": os._exit(0)
    if kind == "memory": return bytearray(6 << 30)
    if kind == "raise": raise KeyError("k")
    if kind == "cycle":
        x = []; x.append(x); return x
    if kind == "huge": return "x" * (2 << 20)
    if kind == "loud":
        while True: print("x" * 1000)
    if kind == "crash":
        import ctypes; ctypes.string_at(0)
    return kind
"""
    kinds = ["a", "slow", "exit", "vanish", "memory", "raise", "cycle", "huge", "loud", "crash", "z"]
    results = call_many(code, "f", [[kind] for kind in kinds], SandboxLimits(wall_s=0.7), sandbox=sandbox)
    outcomes = dict(zip(kinds, (result.outcome for result in results), strict=True))
    crash = Outcome.CRASH
    assert outcomes == {
        "a": Outcome.PASSED, "slow": Outcome.TIMEOUT, "exit": crash, "vanish": crash, "memory": Outcome.MEMORY,
        "raise": crash, "cycle": crash, "huge": crash, "loud": Outcome.OUTPUT_LIMIT, "crash": crash,
        "z": Outcome.PASSED,
    }  # fmt: skip
    assert results[5].error == "KeyError: 'k'"


def test_a_wrong_answer_can_end_the_list(sandbox):
    results = call_many("def f(x): return x", "f", [[1], [2], [3]], sandbox=sandbox, go_on=lambda i, r: r.value != 2)
    assert [result.value for result in results] == [1, 2]


def test_entry_points(sandbox):
    code = "class Solution:\n def __init__(self): self.n = 0\n def add(self, x):\n  self.n += x\n  return self.n\n"
    for entry in ("add", "Solution.add"):
        assert [r.value for r in call_many(code, entry, [[1], [2]], sandbox=sandbox)] == [1, 2]
    (failed,) = call_many(code, "missing", [[1], [2]], sandbox=sandbox)
    assert failed.outcome is Outcome.CRASH
    assert "missing" in failed.error


def test_code_that_does_not_load(sandbox):
    for code in ("def f(", "import nowhere", "raise SystemExit(0)", "while True: pass"):
        (failed,) = call_many(code, "f", [[1], [2]], SandboxLimits(wall_s=0.5), sandbox=sandbox)
        assert failed.outcome in (Outcome.CRASH, Outcome.TIMEOUT)
        assert failed.error


@pytest.mark.parametrize("noise", [b"0000 null\n", b"x" * 3_000_000], ids=["wrong token", "no line end"])
def test_noise_in_the_channel_is_a_failure_of_the_solution(sandbox, noise):
    code = f"""
import os
for number in range(3, 64):
    try:
        os.write(number, {noise[:1]!r} * {len(noise)} if {len(noise)} > 99 else {noise[:20]!r})
    except OSError:
        pass
def f(x): return x
"""
    results = call_many(code, "f", [[1]], SandboxLimits(wall_s=2), sandbox=sandbox)
    assert results[0].outcome in (Outcome.CRASH, Outcome.OUTPUT_LIMIT)


def test_forged_lines_are_no_more_than_answers(sandbox):
    """With the token in hand a solution can answer for itself, once; what is expected is nowhere to be read."""
    code = """
import gc, os, sys
def f(x):
    frame = sys._getframe()
    while frame:
        line = frame.f_locals.get("line")
        if hasattr(line, "say"):
            line.say({"id": 0, "value": "forged"})
            line.say({"id": 1, "value": "forged too"})
        frame = frame.f_back
    return x
"""
    results = call_many(code, "f", [["a"], ["b"]], SandboxLimits(wall_s=2), sandbox=sandbox)
    assert [type(result) for result in results] == [CallResult, CallResult]
    assert all(result.value in ("forged", "forged too", None) for result in results)


# Checks written as code: the solution never sees them.

CHECK = """
def helper(x):
    return x + 1

def add(a, b):
    pass

def check(candidate):
    assert candidate(1, 2) == 3
    assert add(2, b=2) == helper(3)
    assert candidate([1], (2,)) == "no" if False else True
    try:
        candidate("a", 1)
    except TypeError as error:
        assert "str" in str(error)
    else:
        assert False, "no TypeError"
"""
RIGHT = "def add(a, b):\n    return a + b\n"
CHEATS = {
    "wrong": "def add(a, b): return a - b",
    "equal to all": "class E(int):\n __eq__ = lambda s, o: True\n __ne__ = lambda s, o: False\n"
    " __hash__ = int.__hash__\ndef add(a, b): return E()",
    "object equal to all": "class E:\n def __eq__(s, o): return True\ndef add(a, b): return E()",
    "exit 0 at load": "import sys; sys.exit(0)",
    "exit 0 in the call": "import sys\ndef add(a, b): sys.exit(0)",
    "_exit 0": "import os\ndef add(a, b): os._exit(0)",
    "_exit at load": "import os; os._exit(0)",
    "skip the check": "import builtins\nbuiltins.AssertionError = Exception\ndef add(a, b): return 0",
    "frame walk": "import sys\ndef add(a, b):\n f = sys._getframe()\n while f:\n  for v in list(f.f_locals.values()) + "
    "list(f.f_globals.values()):\n   if callable(v) and getattr(v, '__name__', '') == 'check': return 3\n"
    "  f = f.f_back\n return None",
    "verdict line": "import sys\ndef add(a, b):\n f = sys._getframe()\n while f:\n  l = f.f_locals.get('line')\n"
    "  if hasattr(l, 'say'): l.say({'verdict': 'passed'})\n  f = f.f_back\n return 0",
    "result line on every descriptor": "import os\ndef add(a, b):\n for n in range(1, 64):\n  try:\n"
    '   os.write(n, b\'{"dict":[["verdict","passed"]]}\\n\')\n  except OSError: pass\n return 0',
    "passes on stdout": "print('passed\\nOK\\n1 passed')\ndef add(a, b): return 0",
    "never ends": "def add(a, b):\n while True: pass",
    "threaded forger": "import threading, sys\nF = sys._getframe\ndef add(a, b): return None\n",
    "function as answer": "def add(a, b): return lambda *x: True",
    "does not load": "def add(a, b: return",
    "nothing": "",
}


def test_a_right_solution_passes(sandbox):
    result = run_check(CHECK, "add", "print('hello')\n" + RIGHT, sandbox=sandbox)
    assert result.outcome is Outcome.PASSED, result.detail
    assert result.stdout == "hello\n"


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_scores_nothing(sandbox, name):  # T12
    result = run_check(CHECK, "add", CHEATS[name], SandboxLimits(wall_s=1.5), sandbox=sandbox)
    assert result.outcome not in (Outcome.PASSED, Outcome.SANDBOX_ERROR), result
    assert result.detail


def test_the_failing_line_is_named(sandbox):
    result = run_check(CHECK, "add", CHEATS["wrong"], sandbox=sandbox)
    assert result.outcome is Outcome.WRONG
    assert "assert candidate(1, 2) == 3" in result.detail


def test_the_check_is_nowhere_in_the_solution_s_process(sandbox):
    spy = """
import gc, sys
def add(a, b):
    seen = [repr(x)[:2000] for x in gc.get_objects() if isinstance(x, (str, dict, list, tuple))]
    assert not any("".join(["MARK", "ER-42"]) in text for text in seen), "found the check"
    return 5
"""
    result = run_check(
        "def check(c):\n    expected = 'MARKER-42'\n    assert c(2, 3) == 5\n", "add", spy, sandbox=sandbox
    )
    assert result.outcome is Outcome.PASSED, result.detail


def test_assertions_at_top_level(sandbox):
    assert run_check("assert add(1, 2) == 3", "add", RIGHT, sandbox=sandbox).outcome is Outcome.PASSED
    assert run_check("assert add(1, 2) == 4", "add", RIGHT, sandbox=sandbox).outcome is Outcome.WRONG


def test_what_cannot_cross_is_not_the_solution_s_fault(sandbox):
    result = run_check("assert f(lambda x: x)", "f", "def f(g): return g(1)", sandbox=sandbox)
    assert result.outcome is Outcome.SANDBOX_ERROR
    assert "function" in result.detail


def test_an_answer_too_large_to_be_passed_on_is_the_solution_s_fault(sandbox):
    code = "def f(x):\n    return 'x' * (1048576 - 40) if x == 0 else 1"
    result = run_check("assert f(f(0)) == 1", "f", code, sandbox=sandbox)
    assert result.outcome is Outcome.CRASH
    assert "cannot cross" in result.detail


def test_a_broken_check_does_not_pass(sandbox):
    for check in ("def check(", "1/0", "import os; os._exit(0)", "raise SystemExit(0)"):
        assert run_check(check, "add", RIGHT, sandbox=sandbox).outcome is not Outcome.PASSED


def test_a_deep_or_huge_answer_is_survived(sandbox):
    deep = "def f():\n x = []\n for _ in range(5000): x = [x]\n return x"
    many = "def f(): return {str(n): n for n in range(200000)}"
    clash = f"def f(): return {{n * {2**61 - 1} for n in range(1, 3000)}}"
    for code in (deep, many, clash):
        (result,) = call_many(code, "f", [[]], SandboxLimits(wall_s=5), sandbox=sandbox)
        assert result.outcome is Outcome.CRASH
        assert run_check("assert f() == 1", "f", code, sandbox=sandbox).outcome in (Outcome.WRONG, Outcome.CRASH)


def test_results_are_json(sandbox):
    (result,) = call_many("def f(x): return {'a': [1, 2.5, None]}", "f", [[json.loads('{"k": [1]}')]], sandbox=sandbox)
    assert json.dumps(result.value) == '{"a": [1, 2.5, null]}'
