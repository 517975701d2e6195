"""Where a reply commits itself, and how numbers and code are read from it."""

from fractions import Fraction

import pytest

from training.graders.base import MAX_SHOWN_CHARS, GradeOutcome, failed, missing, passed
from training.graders.code import commit_code, complete, same_output, same_value
from training.graders.commit import commit, sentence_end, tail, without_reasoning
from training.graders.numeric import numbers_in, parse_number


@pytest.mark.parametrize(
    ("reply", "text", "mark"),
    [
        ("so \\boxed{1} but then \\boxed{2}", "2", "boxed"),
        ("\\boxed{1} or \\boxed{2}", "1, 2", "boxed"),
        ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}", "boxed"),
        ("\\boxed{1", "", "boxed"),
        ("\\boxed{}", "", "boxed"),
        ("\\boxed{1}. Final answer: 2", "2", "final answer"),
        ("Final answer: 2. See \\boxed{1}", "1", "boxed"),
        ("<answer> x </answer>", "x", "answer tag"),
        ("a\n#### 12.", "12", "hashes"),
        ("The answer to the question is 5. Good.", "5", "answer"),
        ("**Answer:** *5*", "5", "answer"),
        ("Answer:\n\n5", "5", "answer"),
        ("最终答案：五。", "五", "final answer"),
        ("so it goes\n\nlast", "last", "last line"),
        ("a\nb\nc", "", "list"),
    ],
)
def test_the_mark_that_counts(reply, text, mark):
    found = commit(reply)
    assert (found.text, found.mark) == (text, mark)


def test_no_text_no_commitment():
    assert commit("") is commit(" \n ") is commit("<think>\\boxed{1}") is None


def test_reasoning_is_only_what_leads():
    assert without_reasoning("<think>a</think> b") == " b"
    assert without_reasoning("b <think>a</think>") == "b <think>a</think>"


def test_sentences_and_tails():
    assert sentence_end("**5** because 2 + 3. And so on") == "5"
    assert tail("the sum 2 + 3 = 5.") == "5"
    assert tail("it is Paris") == "Paris"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234.5", Fraction(12345, 10)),
        ("-3/4", Fraction(-3, 4)),
        ("\\frac{1}{3}", Fraction(1, 3)),
        ("2.5e-3 kg", Fraction(25, 10_000)),
        ("x = 007", Fraction(7)),
        ("(1,000)", None),
        ("1/0", None),
        ("v2.0beta3", None),
        ("", None),
        ("1 2", None),
        ("9" * 500, None),
    ],
)
def test_numbers(text, value):
    assert parse_number(text) == value


def test_a_long_text_holds_no_number():
    assert numbers_in("1 " * 501) == []


def test_code_blocks():
    assert commit_code("```py\na\n```\ntext\n````\nb\n```\nc\n````") == "b\n```\nc"
    assert commit_code("```json\n{}\n```") == ""
    assert commit_code("```python\na\n```\n```bash\nls\n```") == "a"
    assert commit_code("no fence") == "no fence"
    assert commit_code("```python\r\na = 1\r\n```") == "a = 1"


def test_completion_of_bodies_and_of_whole_functions():
    prompt = "import math\n\n\ndef f(x):\n    '''Doc.'''\n"
    assert complete("    return x", prompt, "f") == f"{prompt}\n    return x"
    assert complete("def f(x):\n    return x", prompt, "f") == "import math\n\n\n\ndef f(x):\n    return x"
    assert complete("f = abs", prompt, "f").endswith("\nf = abs")


def test_outputs_and_values_compare():
    assert same_output("1 2 \r\n3\n\n", "1 2\n3") and same_output("0.1 x", "0.10000000000001 x")
    assert not same_output("1", "1.0") and not same_output("1\n2", "1 2") and not same_output("1", "1\n1")
    assert same_value((1, [2.0]), [1, [2]]) and same_value({"a": None}, {"a": None}) and same_value(0.1 + 0.2, 0.3)
    for a, b in ((True, 1), ("1", 1), ([1], [1, 2]), ({"a": 1}, {"b": 1}), (None, False), (float("nan"), 1.0)):
        assert not same_value(a, b)


def test_a_remark_in_brackets_at_the_end_is_left_out():
    assert tail("v = 73 (from 84*v + 118 = 6250)") == "73"
    assert tail("9604/16996 = 343/607 (about 0.565)") == "343/607"
    assert tail("(1,000)") == "(1,000)"


def test_values_beyond_the_range_of_floats_are_compared():
    huge = 10**400
    assert same_value(huge, huge) and same_value([huge], [huge])
    for found, expected in ((huge, 1.5), (1.5, huge), (huge, huge + 1), ([huge], [2.5]), (huge, float("inf"))):
        assert not same_value(found, expected)
    assert not same_value(10**12, 10**12 + 1)
    assert same_value(1.0, 1) and same_value(0.1 + 0.2, 0.3)


def test_what_follows_the_commitment_is_kept_apart():
    assert commit("Answer: C? No, D").after == "? No, D"
    assert commit("Paris. Or London.").after == ". Or London."
    assert commit("\\boxed{C}. Or D").after == ""


def test_reasons_and_committed_texts_are_short_and_can_be_written():
    for grade in (
        passed("x", "a\ud800" * 50_000),
        failed("x", "b" * 100_000),
        missing("c" * 900, GradeOutcome.NOT_RUN),
    ):
        assert len(grade.reason) <= MAX_SHOWN_CHARS
        grade.reason.encode("utf-8")
