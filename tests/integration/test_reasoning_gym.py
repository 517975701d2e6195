"""reasoning-gym families: own answers score 1, others what the family's scorer says; broken families are listed."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from training.graders.gym import LENIENT
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


def hostile(name):
    """Lists of alternatives that hold the right answer, and the grades they got, which must all be 0."""
    task = ReasoningGym(name)
    items = task.generate(0, 2 if name == "knight_swap" else 4)
    accepted = []
    for item in items:
        words = ("Yes", "No", "True", "False", "0", "1", "2")
        others = [other.answer for other in items if other.answer != item.answer] or [
            w for w in words if w != item.answer
        ]
        for separator in (", ", "\n", " or ", " "):
            for listed in ([item.answer, *others], [*others, item.answer]):
                grade = task.grade(item, separator.join(listed))
                if item.answer and grade.reward != 0:
                    accepted.append((item.id, separator.join(listed)[:200], grade))
    return accepted


UNIVERSAL = (
    "True",
    "Yes",
    "0",
    "1",
    "[]",
    "{}",
    "()",
    "None",
    "null",
    "nan",
    "inf",
    "nan+nanj",
    "x",
    "C",
    "answer",
    "_",
)


def universal(name):
    """Replies that score 1 on several items with different answers, none of which they are."""
    task = ReasoningGym(name)
    items = task.generate(0, 2 if name == "knight_swap" else 5)
    if len({item.answer for item in items}) < 3:  # yes-or-no families: any word is right now and then
        return []
    return [
        (reply, item.id)
        for reply in UNIVERSAL
        for item in items
        if reply != item.answer and task.grade(item, reply).reward != 0
    ]


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


@pytest.mark.parametrize("name", sorted(LENIENT))
def test_a_lenient_scorer_gives_nothing_to_a_list(name):
    assert hostile(name) == []
    check(name)


@pytest.mark.parametrize("name", ["complex_arithmetic", "coin_flip", "chain_sum", "pool_matrix"])
def test_no_reply_is_right_for_every_item(name):
    assert universal(name) == []
    check(name)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_family_has_a_reply_that_is_always_right():
    found = {
        name: right for name in sorted(families()) if name not in unusable_families() and (right := universal(name))
    }
    assert not found, found


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_family_gives_a_reward_to_a_list_of_alternatives():
    # A list of integrals can be one right integral: the other variable's terms are constants.
    skipped = {*unusable_families(), *NO_REFERENCE, "simple_integration"}
    found = {name: accepted for name in sorted(families()) if name not in skipped and (accepted := hostile(name))}
    assert not found, found


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
