"""Grading workers: deadlines, death, hostile jobs, threads and processes."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from training.graders import worker_child
from training.graders.base import GradeOutcome
from training.graders.math import grade_math
from training.graders.worker import WorkerFailed, WorkerPool, workers

ROOT = Path(__file__).resolve().parents[2]
HANG = {"do": "pattern_match", "pattern": "(a+)+$", "text": "a" * 40 + "b"}
FINE = {"do": "pattern_match", "pattern": "a+", "text": "aaa"}


@pytest.fixture
def pool():
    made = WorkerPool("pattern", size=1)
    yield made
    made.close()


def test_a_job_that_hangs_is_killed_and_the_next_one_works(pool):
    start = time.monotonic()
    with pytest.raises(WorkerFailed, match="too long") as caught:
        pool.ask(HANG, 0.5)
    assert caught.value.kind == "timeout" and time.monotonic() - start < 20
    assert pool.ask(FINE, 10) == {"match": True}


def test_a_job_that_raises_says_so_and_the_worker_lives(pool):
    with pytest.raises(WorkerFailed, match="error") as caught:
        pool.ask({"do": "pattern_match", "pattern": "(", "text": ""}, 10)
    assert caught.value.kind == "raised"
    worker = pool._slots.get()
    pool._slots.put(worker)
    assert worker is not None and worker.alive()


def test_a_worker_that_died_is_replaced(pool):
    pool.ask(FINE, 10)
    worker = pool._slots.get()
    worker._process.kill()
    worker._process.wait()
    pool._slots.put(worker)
    assert pool.ask(FINE, 10) == {"match": True}


def test_many_threads_share_a_pool(pool):
    jobs = [{"do": "pattern_match", "pattern": str(n), "text": str(n % 7)} for n in range(40)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda job: pool.ask(job, 10)["match"], jobs))
    assert found == [n < 7 for n in range(40)]


def test_a_worker_inherits_no_secret(pool, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-workers")
    pool.ask(FINE, 10)
    worker = pool._slots.get()
    pool._slots.put(worker)
    environ = Path(f"/proc/{worker._process.pid}/environ").read_bytes()
    assert b"PYTHONHASHSEED=0" in environ and b"sk-not" not in environ


def test_workers_end_with_their_parent():
    code = (
        "from training.graders.worker import workers\n"
        f"workers('pattern').ask({FINE!r}, 10)\n"
        "w = workers('pattern')._slots.get(); print(w._process.pid)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr
    pid = int(done.stdout)
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split(")")[1][:3]:
            return
        time.sleep(0.05)
    os.kill(pid, 9)
    pytest.fail("the worker outlived its parent")


def test_formulas_that_never_end_score_0_in_time(monkeypatch):
    monkeypatch.setattr("training.graders.math.SECONDS", 1.0)
    start = time.monotonic()
    grade = grade_math("\\boxed{\\sum_{n=1}^{10^{9}} \\sin(n)^{n}}", "3")
    assert grade.reward == 0
    assert time.monotonic() - start < 60


def test_math_works_off_the_main_thread():
    with ThreadPoolExecutor(3) as threads:
        grades = list(threads.map(lambda n: grade_math(f"\\boxed{{(x+{n})^2}}", "x^2+4x+4"), range(4)))
    assert [grade.reward for grade in grades] == [0, 0, 1, 0]


def test_undecided_formulas_are_named(monkeypatch):
    def fails(kind):
        def ask(job, seconds):
            raise WorkerFailed(kind, kind)

        return ask

    for kind, outcome in (
        ("timeout", GradeOutcome.TIMEOUT),
        ("memory", GradeOutcome.MEMORY),
        ("crash", GradeOutcome.CRASH),
        ("raised", GradeOutcome.WRONG),
    ):
        monkeypatch.setattr(workers("math"), "ask", fails(kind))
        grade = grade_math("\\boxed{x+1}", "1+x+0")
        assert grade.reward == 0 and grade.outcome is outcome and grade.reason


@pytest.mark.parametrize(
    "text",
    [
        "oracle_answer",
        "entry['answer']",
        "__import__('os')",
        "[x for x in (1,)]",
        "open('/etc/passwd')",
        "2**9**9",
        "f'{1}'",
        "[" * 500,
        "-" * 30_000,
        "[[[[[[[[[1]]]]]]]]]",
    ],
)
def test_no_code_reaches_scorers_that_evaluate(text):
    assert not worker_child.is_literal(text)
    for family in worker_child.EVALUATED:
        assert worker_child.unsafe(family, text) is not None


@pytest.mark.parametrize(
    ("text", "fine"),
    [
        ("x**2/2 + C", True),
        ("2*sin(x) - exp(-x)", True),
        ("(3 + 4) * 6", True),
        ("x^3", True),
        ("-Integral(x**2*cos(x), x) + C", True),
        ("9**9**9", False),
        ("x**100000", False),
        ("().__class__", False),
        ("open('x')", False),
        ("exec(1)", False),
        ("lambda: 1", False),
        ("x.y", False),
        ("[1]", False),
        ("sin(x=1)", False),
        ("Symbol", False),
        ("99999999999999999", False),
        ("", False),
        ("(" * 300, False),
    ],
)
def test_only_plain_formulas_reach_scorers_that_parse(text, fine):
    assert worker_child.is_formula(text) is fine
