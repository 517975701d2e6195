"""HumanEval through the sandbox: reference solutions pass, wrong ones fail, cheats gain nothing."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from core.errors import SandboxUnavailable
from core.sandbox import open_sandbox
from tests.conftest import missing
from tests.tools.mutate_humaneval import judge, judge_all, mutate
from training.graders import code
from training.graders.base import GradeOutcome
from training.tasks.humaneval import HumanEval


@pytest.fixture(scope="module")
def task():
    try:
        open_sandbox()
    except SandboxUnavailable as error:
        missing(f"a sandbox ({error})")
    return HumanEval()


def grades(task, items):
    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(lambda item: task.grade(item, task.reference(item)), items))


# The sample holds checks with helpers of the prompt (32, 38, 50) and with tolerances (2, 4, 45).
SAMPLE = (0, 2, 4, 32, 38, 45, 50, 53, 93, 115, 140, 163)


def test_a_sample_of_reference_solutions_passes(task):
    items = task.all_items()
    found = grades(task, [items[n] for n in SAMPLE])
    assert [grade.reason for grade in found if grade.reward != 1] == []


def test_a_sample_of_mutants_fails(task):
    items = task.all_items()
    results = [result for n in (0, 2, 4, 32) if (result := judge(task, items[n]))]
    assert len(results) == 4 and all(result.visible and result.reward == 0 for result in results)


def test_mutation_changes_one_operator_the_same_way_each_time():
    source = "def f(a, b):\n    return a + b < 3 and a in b\n"
    assert mutate(source, "f", "1") == mutate(source, "f", "1") != source
    assert mutate("def f(a):\n    return a\n", "f", "1") is None


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_all_164_reference_solutions_pass(task):
    items = task.all_items()
    found = grades(task, items)
    assert len(found) == 164
    bad = {item.id: grade.reason for item, grade in zip(items, found, strict=True) if grade.reward != 1}
    assert not bad, bad


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_mutant_that_the_tests_can_see_fails(task):
    results = judge_all()
    seen = [result for result in results if result.visible]
    print(f"{len(results)} mutants, {len(seen)} visible")
    assert len(seen) >= 130
    assert all(result.reward == 0 for result in seen)
    assert all(result.reward == 1 for result in results if not result.visible)


@pytest.mark.parametrize("reply", ["", "x8f3kq9zlw7tq0vbn2m4c6r1d5s8e", "```python\npass\n```", "I cannot help."])
def test_empty_and_random_replies_fail(task, reply):
    for item in task.items("test")[:3]:
        assert task.grade(item, reply).reward == 0


def test_a_solution_that_returns_an_object_equal_to_everything_fails(task):
    body = "class E(int):\n    def __eq__(self, other): return True\n    def __lt__(self, other): return True\n"
    for item in task.items("test")[:3]:
        reply = f"```python\n{body}\ndef {item.metadata['entry_point']}(*args): return E()\n```"
        assert task.grade(item, reply).reward == 0


def test_without_a_sandbox_nothing_is_measured(task, monkeypatch):
    def refuse(*args, **kwargs):
        raise SandboxUnavailable("no back end passed")

    monkeypatch.setattr(code, "run_check", refuse)
    monkeypatch.setattr(code, "open_sandbox", refuse)
    monkeypatch.setattr(code, "call_many", refuse)
    item = task.items("test")[0]
    found = [
        task.grade(item, task.reference(item)),
        code.grade_stdin("```python\nprint(1)\n```", [code.StdinTest("", "1")], 1.0),
        code.grade_calls("```python\ndef f(): return 1\n```", "f", [code.CallTest([], 1)], 1.0),
    ]
    for grade in found:
        assert grade.reward is None and grade.outcome is GradeOutcome.SANDBOX_ERROR and "no back end" in grade.reason
