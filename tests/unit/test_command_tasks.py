"""`trinity tasks`: what is printed, as text and as JSON, and what is refused."""

import io
import json
import sys

import pytest

from core.errors import ConfigError, DataUnavailable
from training.command_tasks import command

OWN = [
    {"id": "sum", "question": "2+2?", "answer": "4", "grader": "numeric", "domain": "mathematics", "split": "test"},
    {"id": "sky", "question": "Colour of the sky?", "answer": "blue", "split": "test"},
    {"id": "sea", "question": "Colour of the sea?", "answer": "blue", "split": "train"},
]


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in OWN), encoding="utf-8")
    return f"file:{path}"


def run(capsys, *argv):
    assert command([*argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def give(monkeypatch, reply):
    data = reply if isinstance(reply, bytes) else reply.encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_list_names_every_task_with_licence_and_source(capsys):
    found = run(capsys, "list")
    names = {task["name"]: task for task in found["tasks"]}
    assert {"math500", "mmlu", "rlpr", "livecodebench", "aime2025", "bigcodebench", "mt_bench", "gpqa_diamond"} <= set(
        names
    )
    assert all(task["licence"] and task["url"] and task["revision"] for task in names.values())
    assert names["offline4"]["offline"] and not names["mmlu"]["offline"]
    assert names["mt_bench"]["report_only"] and len(found["families"]) > 100
    assert "composite" in found["unusable_families"] and "composite" not in found["families"]
    assert command(["list"]) == 0
    assert "reasoning_gym:FAMILY" in capsys.readouterr().out


def test_show_counts_items_and_hides_answers(capsys, own):
    assert run(capsys, "show", own)["counts"] == {"train": 1, "validation": 0, "test": 2}
    item = run(capsys, "show", own, "sky")["item"]
    assert item["question"] == "Colour of the sky?" and "answer" not in item
    assert run(capsys, "show", own, "sky", "--answers")["item"]["answer"] == "blue"
    assert command(["show", own, "sky"]) == 0
    assert "blue" not in capsys.readouterr().out


def test_sample_is_seeded_and_never_repeats(capsys, own):
    first = run(capsys, "sample", own, "--n", "2")
    assert first == run(capsys, "sample", own, "--n", "2") and first["split"] == "test"
    assert {item["id"] for item in first["items"]} == {"sum", "sky"}
    with pytest.raises(ConfigError, match=r"never drawn twice.*--n"):
        command(["sample", own, "--n", "3"])


@pytest.mark.parametrize(
    ("item", "reply", "reward", "outcome"),
    [
        ("sum", "The answer is 4.", 1, "passed"),
        ("sum", "5", 0, "wrong"),
        ("sum", "", 0, "no_answer"),
        ("sum", "4 or 5", 0, "ambiguous"),
        ("sky", b"\xff\xfe", 0, "wrong"),
        ("sky", "blue " * 100_000, 0, "wrong"),
    ],
)
def test_grade_prints_reward_committed_outcome_and_reason(capsys, monkeypatch, own, item, reply, reward, outcome):
    give(monkeypatch, reply)
    found = run(capsys, "grade", own, item)
    assert (found["reward"], found["outcome"], found["item"]) == (reward, outcome, item)
    assert found["reason"] and "committed" in found


def test_grade_of_code_runs_it(capsys, monkeypatch):
    give(monkeypatch, "```python\ndef truncate_number(number):\n    return number % 1.0\n```")
    assert run(capsys, "grade", "humaneval", "HumanEval/2")["outcome"] == "passed"
    give(monkeypatch, "```python\ndef truncate_number(number):\n    return number\n```")
    assert command(["grade", "humaneval", "HumanEval/2"]) == 0
    assert "outcome: wrong" in capsys.readouterr().out


def test_what_does_not_exist_is_refused(own):
    for argv in (["show", "nope"], ["show", own, "nope"], ["sample", own, "--split", "nope"], ["grade", own, "nope"]):
        with pytest.raises(ConfigError):
            command(argv)
    with pytest.raises(DataUnavailable, match="no readable file"):
        command(["show", "file:/nowhere.csv"])
    with pytest.raises(SystemExit):
        command(["fly"])


def test_a_reply_cannot_act_on_the_terminal(capsys, monkeypatch, own):
    give(monkeypatch, "\x1b[2J\x1b]0;title\x07red\x9b31m")
    assert command(["grade", own, "sky"]) == 0
    shown = capsys.readouterr().out
    assert "outcome: wrong" in shown and not {"\x1b", "\x07", "\x9b"} & set(shown)
