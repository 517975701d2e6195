"""reasoning-gym families: own answers score 1, others what the family's scorer says; broken families are listed."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from training.graders.worker import workers
from training.tasks.reasoning_gym import BROKEN_FILE, ReasoningGym, families, unusable_families

SAMPLE = (
    *("chain_sum", "gcd", "fraction_simplification", "syllogism", "knights_knaves", "word_sorting", "sudoku"),
    *("string_insertion", "polynomial_multiplication", "needle_haystack", "arc_1d", "caesar_cipher"),
)
NO_REFERENCE = json.loads(BROKEN_FILE.read_text(encoding="utf-8"))["no_reference"]
ITEMS = 3


def shuffled(text):
    letters = list(text)
    random.Random(1).shuffle(letters)
    return "".join(letters)


def scorer_says(task, item, reply):
    """The score of the family's own scorer, asked directly."""
    job = {"do": "gym_score", "family": task.family, "seed": 2025, "config": {}, "index": item.hidden["index"]}
    return workers("gym").ask({**job, "reply": reply}, 60)["score"]


def check(name):
    """Items whose own, empty and shuffled answers are graded as the scorer says."""
    task = ReasoningGym(name)
    for item in task.generate(0, ITEMS):
        if name in NO_REFERENCE:
            assert task.reference(item) is None
        else:
            grade = task.grade(item, task.reference(item))
            assert grade.reward == 1, (item.id, grade)
        assert task.grade(item, "").reward == 0 and task.grade(item, " \n").reward == 0
        mixed = shuffled(item.answer)
        if mixed.strip() and scorer_says(task, item, mixed) < 0.99 and scorer_says(task, item, mixed.strip()) < 0.99:
            grade = task.grade(item, mixed)
            assert grade.reward == 0, (item.id, mixed, grade)


@pytest.mark.parametrize("name", SAMPLE)
def test_a_family_of_the_sample(name):
    check(name)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_family_that_loads():
    wrong = {}
    for name in sorted(families()):
        if name in unusable_families():
            continue
        try:
            check(name)
        except AssertionError as error:
            wrong[name] = str(error)[:300]
    assert not wrong, wrong


def test_broken_families_are_listed_with_their_reason():
    listed = json.loads(BROKEN_FILE.read_text(encoding="utf-8"))
    assert set(listed["cannot_use"]) | set(listed["no_reference"]) <= set(families())
    assert all(len(reason) > 10 for part in ("cannot_use", "no_reference") for reason in listed[part].values())
    assert len(families()) > 100


def test_items_do_not_depend_on_the_process():
    """Five families change with the hash seed of strings; the workers fix it."""
    code = (
        "from training.tasks.reasoning_gym import ReasoningGym\n"
        "for name in ('polynomial_multiplication', 'ransom_note', 'isomorphic_strings'):\n"
        "    print([item.text_hash + item.answer for item in ReasoningGym(name).generate(0, 2)])\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).resolve().parents[2],
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1 and next(iter(outputs)).count("\n") == 3


def test_an_item_is_made_again_from_its_id():
    task = ReasoningGym("chain_sum")
    assert task.find("chain_sum/2025/7") == task.generate(0, 8)[7]


def test_splits_hold_no_question_twice():
    task = ReasoningGym("gcd")
    texts = [item.text_hash for split in task.splits for item in task.items(split)]
    assert len(texts) == len(set(texts)) > 150


@pytest.mark.parametrize(
    ("name", "replies"),
    [
        ("chain_sum", ["The answer is {}.", "\\boxed{{{}}}", "1 + 1 = {}", "Answer: **{}**", "<answer>{}</answer>"]),
        ("knights_knaves", ["Final answer: {}", "<answer>{}</answer>", "```\n{}\n```", "<think>hm</think>{}"]),
        ("sudoku", ["Here it is:\n```\n{}\n```", "<answer>\n{}\n</answer>"]),
    ],
)
def test_right_answers_in_other_words_are_found(name, replies):
    task = ReasoningGym(name)
    item = task.find(f"{name}/2025/0")
    for reply in replies:
        grade = task.grade(item, reply.format(item.answer))
        assert grade.reward == 1, (reply, grade)
