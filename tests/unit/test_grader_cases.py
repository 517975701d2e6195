"""Committed cases for every grader: right, wrong and hostile replies with the reward they must get."""

import functools
import json
from pathlib import Path

import pytest

from training.graders.base import MAX_REPLY_CHARS, Grade, GradeOutcome
from training.graders.choice import grade_choice
from training.graders.code import grade_check
from training.graders.exact import grade_exact
from training.graders.json_fields import grade_json_fields
from training.graders.math import grade_math
from training.graders.numeric import grade_integer, grade_numeric
from training.graders.regex import grade_regex
from training.graders.short import grade_short
from training.graders.term import grade_term
from training.tasks.reasoning_gym import ReasoningGym

CASES = Path(__file__).parent.parent / "data" / "graders"
ADD_PROMPT = 'def add(a, b):\n    """The sum of a and b."""\n'
ADD_TEST = "def check(candidate):\n    assert candidate(1, 2) == 3\n    assert candidate(-4, 4) == 0\n"
GRADERS = {
    "math": lambda case, reply: grade_math(reply, case["answer"]),
    "choice": lambda case, reply: grade_choice(reply, case["answer"], case["options"]),
    "numeric": lambda case, reply: grade_numeric(reply, case["answer"]),
    "integer": lambda case, reply: grade_integer(reply, case["answer"]),
    "short": lambda case, reply: grade_short(reply, case["answer"]),
    "term": lambda case, reply: grade_term(reply, case["answer"], case["vocabulary"], case["aliases"], case["case"]),
    "exact": lambda case, reply: grade_exact(reply, case["answer"], case["accept"]),
    "regex": lambda case, reply: grade_regex(reply, case["answer"]),
    "json_fields": lambda case, reply: grade_json_fields(reply, case["answer"]),
    "gym": lambda case, reply: grade_family(case, reply),
    "code": lambda case, reply: grade_check(reply, ADD_PROMPT, "add", ADD_TEST),
}


@functools.cache
def family(name):
    return ReasoningGym(name, seed=7)


@functools.cache
def family_item(name, index):
    return family(name).find(f"{name}/7/{index}")


def grade_family(case, reply):
    return family(case["family"]).grade(family_item(case["family"], case["index"]), reply)


def load(name):
    lines = (CASES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def reply_of(case):
    reply = case["reply"]
    if isinstance(reply, str):
        return reply
    if "own" in reply:
        return reply["own"].format(family_item(case["family"], case["index"]).answer)
    return reply["repeat"][0] * reply["repeat"][1] + reply.get("then", "")


def test_there_are_at_least_300_cases():
    assert {path.stem for path in CASES.glob("*.jsonl")} == set(GRADERS)
    assert sum(len(load(name)) for name in GRADERS) >= 300


@pytest.mark.parametrize("name", GRADERS)
def test_committed_cases(name):
    wrong = []
    for number, case in enumerate(load(name), 1):
        grade = GRADERS[name](case, reply_of(case))
        assert isinstance(grade, Grade) and grade.reason and grade.reward in (0, 1)
        assert (grade.reward == 1) == (grade.outcome is GradeOutcome.PASSED)
        if grade.reward != case["reward"] or case.get("outcome") not in (None, grade.outcome):
            wrong.append(f"{name}.jsonl:{number} {str(case['reply'])[:80]!r} {case['note']} -> {grade}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", GRADERS)
def test_an_oversized_right_reply_scores_0(name):
    case = next(case for case in load(name) if case["reward"] == 1)
    right = reply_of(case)
    assert GRADERS[name](case, right).reward == 1
    assert GRADERS[name](case, " " * MAX_REPLY_CHARS + right).reward == 0
