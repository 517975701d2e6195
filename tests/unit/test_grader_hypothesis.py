"""No text makes a grader raise: hostile and random replies against every grader.

500 texts in the default run, 20,000 in the acceptance run. Texts mix arbitrary Unicode with the marks that graders
look for, because purely random letters would never reach them.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from training.graders.base import Grade
from training.graders.choice import grade_choice
from training.graders.code import commit_code
from training.graders.commit import commit
from training.graders.exact import grade_exact
from training.graders.gym import committed
from training.graders.json_fields import grade_json_fields
from training.graders.judge import read_mark
from training.graders.math import grade_math
from training.graders.numeric import grade_integer, grade_numeric, numbers_in
from training.graders.regex import grade_regex
from training.graders.short import grade_short
from training.graders.term import grade_term
from training.graders.worker_child import is_formula, is_literal

PIECES = (
    *("\\boxed{", "\\boxed", "}", "{", "\\frac{", "\\text{", "$", "\\(", "\\left(", "\\sqrt", "^", "_", "\\\\", "\\"),
    *(
        "Answer: ",
        "final answer is ",
        "####",
        "<answer>",
        "</answer>",
        "<think>",
        "</think>",
        "答案：",
        "**",
        "`",
        "```",
    ),
    *("```python\n", "\n", "\r\n", "\x00", "\ud800", "1,000", "1e9", "1/0", "-", "=", "x=", "A", "(B)", "or", "not"),
    *(
        '{"a": 1}',
        '{"a":',
        "[",
        "]",
        '"',
        "０",
        "Ａ",
        "π",
        "√2",
        "9^9^9",
        "nan",
        "Paris",
        "°",
        "%",
        "½",
        "\u202e",
        "😀",
    ),
)
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=12)), max_size=14).map("".join)


def survive(reply):
    grades = [
        grade_choice(reply, "A", ["Paris", "London", "12", "x = 3"]),
        grade_numeric(reply, "12"),
        grade_numeric(reply, "0.5"),
        grade_integer(reply, "7"),
        grade_short(reply, "5 m/s"),
        grade_exact(reply, "Paris", ["paris"]),
        grade_json_fields(reply, {"a": 1}),
        grade_term(reply, "Paris", ["Paris", "London", "Au"], {"Lutetia": "Paris"}),
    ]
    for grade in grades:
        assert isinstance(grade, Grade) and grade.reward in (0, 1) and grade.reason
        grade.committed.encode("utf-8")
    commit(reply)
    commit_code(reply)
    committed(reply, "12")
    numbers_in(reply)
    read_mark(reply)
    is_formula(reply)
    is_literal(reply)


def survive_workers(reply):
    for grade in (grade_math(reply, "\\frac{1}{2}"), grade_regex(reply, "[a-z]+")):
        assert isinstance(grade, Grade) and grade.reward in (0, 1) and grade.reason


QUICK = settings(max_examples=500, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
FULL = settings(QUICK, max_examples=20_000)


@QUICK
@given(TEXTS)
def test_no_text_makes_a_grader_raise(reply):
    survive(reply)


@settings(QUICK, max_examples=120)
@given(TEXTS)
def test_no_text_makes_a_worker_grader_raise(reply):
    survive_workers(reply)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@FULL
@given(TEXTS)
def test_20000_texts(reply):
    survive(reply)
    survive_workers(reply)


@pytest.mark.parametrize(
    "unit", ["\\boxed{", "(", "[", "{", "answer is ", "<answer>", "#### x\n", "`", "```\n", "A ", "9"]
)
def test_long_repetitions_are_graded_in_linear_time(unit):
    """A grader that is quadratic in the reply would take minutes on these."""
    reply = unit * (190_000 // len(unit))
    survive(reply)
    survive(" " * 190_000 + unit)
