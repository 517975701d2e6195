"""Your own JSONL and CSV: every grader, and the first bad line named by its number."""

import json
import os

import pytest

from core.errors import DataUnavailable
from training.tasks import own as own_module
from training.tasks.own import GRADERS, Own

BASE = {"question": "q", "answer": "a"}


def own(tmp_path, *rows, name="own.jsonl"):
    path = tmp_path / name
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), encoding="utf-8"
    )
    return Own(path)


def only(task):
    return [item for split in task.splits for item in task.items(split)]


@pytest.mark.parametrize(
    ("row", "right", "wrong"),
    [
        ({"grader": "exact", "answer": "blue", "accept": ["azure"]}, "azure", "red"),
        ({"grader": "numeric", "answer": "3.14", "tolerance": 0.01}, "3.15", "3.2"),
        ({"grader": "numeric", "answer": 42}, "42", "43"),
        ({"grader": "math", "answer": "x^2"}, "\\boxed{x \\cdot x}", "\\boxed{2x}"),
        ({"grader": "short", "answer": "5 m/s"}, "5 m/s", "5 km"),
        ({"grader": "regex", "answer": "\\d{4}"}, "2024", "24"),
        ({"grader": "json", "answer": {"a": [1]}}, '{"a": [1]}', '{"a": [2]}'),
        ({"grader": "json", "answer": '{"a": 1}'}, '{"a": 1}', "{}"),
        ({"grader": "choice", "answer": "B", "options": ["x", "y"]}, "B", "A"),
        (
            {"grader": "code", "answer": "-", "entry_point": "f", "test": "def check(c):\n    assert c(1) == 2"},
            "```python\ndef f(x): return x + 1\n```",
            "```python\ndef f(x): return x\n```",
        ),
    ],
)
def test_every_grader(tmp_path, row, right, wrong):
    task = own(tmp_path, {**BASE, **row})
    (item,) = only(task)
    assert task.grade(item, right).reward == 1
    assert task.grade(item, wrong).reward == 0


def test_the_list_of_graders_is_covered():
    assert set(GRADERS) == {"exact", "numeric", "math", "short", "regex", "json", "choice", "code"}


def test_csv_with_a_list_in_a_cell(tmp_path):
    task = own(tmp_path, "question,answer,grader,options,id", 'Which?,B,choice,"[""x"", ""y""]",one', name="own.csv")
    (item,) = only(task)
    assert item.id == "one" and item.metadata["options"] == ["x", "y"] and "A. x" in item.question


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "q"}, "the field 'answer' is missing"),
        ({**BASE, "answer": " "}, "answer is empty"),
        ({**BASE, "question": " "}, "question must have 1 to 32,000"),
        ({**BASE, "question": "q" * 32_001}, "question must have 1 to 32,000"),
        ({**BASE, "grader": "vibes"}, "grader must be one of"),
        ({**BASE, "domain": "cooking"}, "domain must be one of"),
        ({**BASE, "split": "dev"}, "split must be one of"),
        ({**BASE, "grader": "numeric"}, "must be one number"),
        ({**BASE, "grader": "numeric", "answer": "1", "tolerance": 2}, "tolerance must be"),
        (
            {**BASE, "grader": "numeric", "answer": "1", "tolerance": "x"},
            "tolerance must be a number from 0 to 1; it is 'x'",
        ),
        ({**BASE, "grader": "numeric", "answer": "1", "tolerance": [1]}, "tolerance must be a number"),
        ({**BASE, "grader": "numeric", "answer": "1", "tolerance": True}, "tolerance must be a number"),
        ({**BASE, "grader": "numeric", "answer": "1", "tolerance": float("nan")}, "tolerance must be a number"),
        ({**BASE, "grader": "json", "answer": "{a"}, "answer of a json item must be JSON"),
        ({**BASE, "grader": "json", "answer": '{"a": 1, "a": 2}'}, "the field 'a' appears twice"),
        ('{"question": "q", "answer": "a", "answer": "b"}', "the field 'answer' appears twice"),
        ({**BASE, "id": {"a": 1}}, "id must be a text or a whole number; it is an object"),
        ({**BASE, "id": True}, "id must be a text or a whole number; it is true or false"),
        ({**BASE, "question": ["q"]}, "question must be a text; it is a list"),
        ({**BASE, "question": 7}, "question must be a text; it is a number"),
        ({**BASE, "grader": "regex", "answer": "("}, "not a regular expression"),
        ({**BASE, "grader": "json"}, "line 2"),
        ({**BASE, "grader": "json", "answer": "[]"}, "must be an object"),
        ({**BASE, "grader": "choice"}, "2 to 26 texts"),
        ({**BASE, "grader": "choice", "answer": "C", "options": ["x", "y"]}, "a letter from A to B"),
        ({**BASE, "grader": "choice", "options": "x"}, "options must be a list"),
        ({**BASE, "accept": {"a": 1}}, "accept must be a list"),
        ({**BASE, "grader": "code"}, "entry_point"),
        ({**BASE, "id": "line-1"}, "was used before"),
        ("nonsense", "not a JSON object"),
    ],
)
def test_a_bad_line_is_named_by_its_number(tmp_path, row, message):
    with pytest.raises(DataUnavailable, match=message) as caught:
        only(own(tmp_path, BASE, row))
    assert "line 2" in str(caught.value) and "own.jsonl" in str(caught.value)


def test_empty_files_and_mixed_splits_are_refused(tmp_path):
    with pytest.raises(DataUnavailable, match="has no items"):
        only(own(tmp_path))
    with pytest.raises(DataUnavailable, match="Give all or none"):
        only(own(tmp_path, {**BASE, "split": "test"}, {**BASE, "question": "other"}))


def test_a_question_in_train_and_test_stays_in_test_only(tmp_path):
    task = own(tmp_path, {**BASE, "split": "train"}, {**BASE, "question": " Q ", "split": "test"})
    assert task.items("train") == [] and len(task.items("test")) == 1


def test_only_plain_files_of_a_sane_size_are_read(tmp_path, monkeypatch):
    pipe, link = tmp_path / "pipe.jsonl", tmp_path / "link.jsonl"
    os.mkfifo(pipe)
    link.symlink_to("/dev/zero")
    for path in (pipe, link, tmp_path):
        with pytest.raises(DataUnavailable, match="is no plain file"):
            Own(path)
    monkeypatch.setattr(own_module, "MAX_BYTES", 10)
    with pytest.raises(DataUnavailable, match="at most 10 are read"):
        own(tmp_path, BASE)


def test_a_tolerance_of_0_is_kept(tmp_path):
    task = own(tmp_path, {**BASE, "grader": "numeric", "answer": "0.5", "tolerance": 0})
    (item,) = only(task)
    assert task.grade(item, "0.5").reward == 1 and task.grade(item, "0.5000001").reward == 0
