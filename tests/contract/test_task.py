"""Every task through one suite: items, splits, grades. Hub sets are exercised on small local files of their schema."""

import base64
import json
import pickle
import zlib

import pytest

from core.errors import ConfigError, DataUnavailable
from training.graders.base import Grade, GradeOutcome
from training.splits import check_disjoint
from training.tasks.base import DOMAINS, Task
from training.tasks.bigcodebench import BigCodeBench
from training.tasks.catalogue import TASKS, find_item, open_task, open_tasks
from training.tasks.mt_bench import MtBench

MATH = [{"problem": f"What is ${n}+1$?", "answer": str(n + 1), "subject": "Algebra", "level": 1} for n in range(4)]
MMLU = [
    {"question": f"Which is {n}?", "choices": [f"{n}", f"{n + 1}", f"{n + 2}", f"{n + 3}"], "answer": 0, "subject": "s"}
    for n in range(3)
]
RLPR = [
    {
        "prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": f"How fast is {n}?"}],
        "reward_model": {"ground_truth": truth, "style": "rule"},
    }
    for n, truth in enumerate(("5 m/s", "copper", "x" * 31))
]
AIME = [{"id": n, "problem": f"Find {n}.", "answer": str(n)} for n in (0, 7, 999)]
GPQA = [
    {
        "Question": f"Which particle is number {n}?",
        "Correct Answer": "electron",
        "Incorrect Answer 1": "muon",
        "Incorrect Answer 2": "tau",
        "Incorrect Answer 3": "quark",
        "Record ID": f"rec{n}",
    }
    for n in range(6)
]


def packed(tests):
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(tests)))).decode()


LCB = [
    {
        "question_id": "a1",
        "question_content": "Print twice the number.",
        "starter_code": "",
        "public_test_cases": json.dumps([{"input": "2\n", "output": "4\n", "testtype": "stdin"}]),
        "private_test_cases": packed([{"input": "-5\n", "output": "-10", "testtype": "stdin"}]),
        "metadata": "{}",
    },
    {
        "question_id": "b2",
        "question_content": "Return the mean.",
        "starter_code": "class Solution:\n    def mean(self, xs: List[int]) -> float:\n        ",
        "public_test_cases": json.dumps([{"input": "[1, 2]", "output": "1.5", "testtype": "functional"}]),
        "private_test_cases": packed(
            [{"input": "[1, 1, 2]", "output": "1.3333333333333333", "testtype": "functional"}]
        ),
        "metadata": json.dumps({"func_name": "mean"}),
    },
]
LCB_RIGHT = {
    "a1": "```python\nprint(2 * int(input()))\n```",
    "b2": "```python\nclass Solution:\n    def mean(self, xs):\n        return sum(xs) / len(xs)\n```",
}
BCB_TEST = (
    "import unittest\nclass T(unittest.TestCase):\n"
    "    def test_it(self):\n        self.assertEqual(task_func([1]), '[1]')\n"
)
BCB = [
    {
        "task_id": f"BigCodeBench/{n}",
        "complete_prompt": "import json\ndef task_func(x):\n    '''As JSON.'''\n",
        "instruct_prompt": f"Write task_func, version {n}.",
        "canonical_solution": "    return json.dumps(x)\n",
        "test": BCB_TEST,
        "entry_point": "task_func",
        "libs": libs,
    }
    for n, libs in enumerate(("['json']", ["json", "a_library_nobody_has"]))
]
MT = [{"question_id": 81, "category": "writing", "turns": ["Write a haiku.", "Now in German."], "reference": []}]
HUMAN = [
    {
        "task_id": "Mini/0",
        "prompt": "def add(a, b):\n    '''Sum.'''\n",
        "entry_point": "add",
        "canonical_solution": "    return a + b\n",
        "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
    }
]
OWN = [
    {"question": "2+2?", "answer": "4", "grader": "numeric"},
    {"question": "Colour of the sky?", "answer": "blue", "accept": ["azure"]},
    {"question": "1/2 as a fraction?", "answer": "\\frac{1}{2}", "grader": "math"},
    {"question": "A city?", "answer": "Paris", "grader": "short"},
    {"question": "A year?", "answer": "\\d{4}", "grader": "regex"},
    {"question": "As JSON?", "answer": {"a": 1}, "grader": "json"},
    {"question": "Which?", "answer": "B", "grader": "choice", "options": ["x", "y"]},
    {
        "question": "Write add.",
        "answer": "def add(a, b):\n    return a + b",
        "grader": "code",
        "entry_point": "add",
        "test": "def check(candidate):\n    assert candidate(1, 2) == 3",
    },
]
ROWS = {
    "math500": MATH,
    "mmlu": MMLU,
    "rlpr": RLPR,
    "aime2025": AIME,
    "gpqa_diamond": GPQA,
    "livecodebench": LCB,
    "bigcodebench": BCB,
    "bigcodebench_hard": BCB,
    "mt_bench": MT,
    "humaneval": HUMAN,
}
SHIPPED = ("offline4", "facts", "reasoning_gym:chain_sum", "reasoning_gym:boxnet")


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    tasks = {name: open_task(name, write(folder / f"{name}.jsonl", rows)) for name, rows in ROWS.items()}
    tasks |= {name: open_task(name) for name in SHIPPED}
    tasks["file"] = open_task(f"file:{write(folder / 'own.jsonl', OWN)}")
    return tasks


NAMES = (*ROWS, *SHIPPED, "file")


def test_every_task_of_the_catalogue_is_tested():
    assert set(TASKS) <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_items_are_whole_and_splits_disjoint(opened, name):
    task = opened[name]
    assert isinstance(task, Task)
    splits = {split: task.items(split) for split in task.splits}
    for items in splits.values():
        assert len({item.id for item in items}) == len(items)
        for item in items:
            assert item.question.strip() and item.domain in DOMAINS
            assert item.text_hash == item.text_hash.lower() and len(item.text_hash) == 64
            json.dumps(item.public())
    assert any(splits.values())
    check_disjoint(splits)
    assert all(task.source.__getattribute__(name) for name in ("title", "licence", "url", "revision", "how_to_get"))


@pytest.mark.parametrize("name", NAMES)
def test_answers_and_tests_stay_hidden(opened, name):
    task = opened[name]
    for split in task.splits:
        for item in task.items(split)[:20]:
            shown = json.dumps(item.public()) + repr(item)
            for secret in (item.hidden.get("test"), item.hidden.get("tests"), item.hidden.get("fields")):
                assert secret is None or json.dumps(secret) not in shown
            assert "answer" not in item.public()


@pytest.mark.parametrize("name", NAMES)
def test_a_reference_reply_is_graded_1_and_bad_replies_0(opened, name):
    task = opened[name]
    items = [item for split in task.splits for item in task.items(split)]
    for item in items[:: max(1, len(items) // 24)]:
        reference = task.reference(item)
        if reference is not None and not task.source.report_only:
            grade = task.grade(item, reference)
            assert grade.reward == 1 and grade.outcome is GradeOutcome.PASSED, (item.id, grade)
        for reply in (
            "",
            "  \n",
            "I do not know.",
            "x8f3kq9zlw7tq0vbn2m4c6r1d5s8e",
            "A B C D, all of them",
            "\\boxed{}",
        ):
            grade = task.grade(item, reply)
            assert isinstance(grade, Grade) and grade.reason
            assert grade.reward in ((0, None) if task.source.report_only else (0,)), (item.id, reply, grade)


@pytest.mark.parametrize("name", NAMES)
def test_unknown_splits_and_items_are_named(opened, name):
    with pytest.raises(ConfigError, match="no split 'nope'"):
        opened[name].items("nope")
    with pytest.raises(ConfigError, match=r"no item|is no item"):
        find_item(opened[name], "nope")


def test_livecodebench_runs_both_kinds_of_problem(opened):
    task = opened["livecodebench"]
    for item in task.items("test"):
        assert task.grade(item, LCB_RIGHT[item.id]).reward == 1
        assert "private" not in item.question and "-10" not in json.dumps(item.public())
    wrong = task.grade(find_item(task, "a1"), "```python\nprint(int(input()) * int(input()[0:0] or 2) + 1)\n```")
    assert wrong.reward == 0
    half = task.grade(find_item(task, "a1"), "```python\nn = int(input())\nprint(4 if n == 2 else 0)\n```")
    assert half.reward == 0 and "Test 2 of 2" in half.reason


def test_livecodebench_never_unpickles(tmp_path):
    class Evil:
        def __reduce__(self):
            return (print, ("unpickled",))

    row = {**LCB[0], "private_test_cases": base64.b64encode(zlib.compress(pickle.dumps(Evil()))).decode()}
    with pytest.raises(DataUnavailable, match="row 1: private tests hold the pickle instruction"):
        open_task("livecodebench", write(tmp_path / "x.jsonl", [row])).items("test")


def test_bigcodebench_without_a_library_is_not_run(opened):
    task = opened["bigcodebench"]
    with_json, without = task.items("test")
    assert task.grade(with_json, task.reference(with_json)).reward == 1
    grade = task.grade(without, task.reference(without))
    assert grade.reward is None and grade.outcome is GradeOutcome.NOT_RUN and "a_library_nobody_has" in grade.reason


def test_bigcodebench_modes_ask_differently(tmp_path):
    file = write(tmp_path / "b.jsonl", BCB)
    complete = BigCodeBench(file, mode="complete").items("test")[0]
    assert "As JSON" in complete.question and "version 0" in BigCodeBench(file).items("test")[0].question
    with pytest.raises(ConfigError, match="mode instruct or complete"):
        BigCodeBench(file, mode="other")


def test_gpqa_options_are_shuffled_the_same_way_each_time(opened):
    letters = [item.answer for item in opened["gpqa_diamond"].items("test")]
    assert len(set(letters)) > 1
    assert letters == [item.answer for item in opened["gpqa_diamond"].items("test")]


def test_rlpr_leaves_out_long_references(opened):
    assert [item.answer for item in opened["rlpr"].items("test")] == ["5 m/s", "copper"]


def test_mt_bench_needs_a_judge_and_names_it(tmp_path):
    file = write(tmp_path / "mt.jsonl", MT)
    (item,) = MtBench(file).items("test")
    assert "Question 2: Now in German." in item.question
    assert MtBench(file).grade(item, "A haiku").outcome is GradeOutcome.NOT_RUN
    graded = MtBench(file, lambda prompt: "Fine.\nMARK: 8", "judge-1").grade(item, "A haiku. MARK: 10")
    assert graded.reward is None and graded.score == 8.0 and "judge-1" in graded.reason


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("math500", {"problem": "x"}, "line 1: the field 'answer' is missing"),
        ("math500", {"problem": "x", "answer": " "}, "row 1: the row has no answer"),
        ("mmlu", {**MMLU[0], "answer": 4}, "index from 0 to 3"),
        ("mmlu", {**MMLU[0], "choices": ["a"]}, "four choices"),
        ("aime2025", {"problem": "x", "answer": "1000"}, "integer from 0 to 999"),
        ("rlpr", {"prompt": [], "reward_model": {"ground_truth": "x"}}, "no user message"),
        ("rlpr", {"prompt": "q", "reward_model": {}}, "row 1"),
        ("livecodebench", {**LCB[1], "metadata": "{}"}, "metadata.func_name"),
        ("livecodebench", {**LCB[0], "private_test_cases": "!!"}, "base64"),
        ("bigcodebench", {**BCB[0], "libs": "[1"}, "row 1"),
    ],
)
def test_malformed_rows_are_named(tmp_path, name, row, message):
    with pytest.raises(DataUnavailable, match=message.replace("[", r"\[")):
        open_task(name, write(tmp_path / "bad.jsonl", [row])).items("test")


def test_repeated_ids_are_refused(tmp_path):
    rows = [{**row, "Record ID": "same"} for row in GPQA[:2]]
    with pytest.raises(DataUnavailable, match="row 2: the id 'same' appears twice"):
        open_task("gpqa_diamond", write(tmp_path / "g.jsonl", rows)).items("test")


def test_names_that_do_not_exist():
    with pytest.raises(ConfigError, match="no task 'nope'"):
        open_task("nope")
    with pytest.raises(ConfigError, match=r"no family 'chain_sums'.*chain_sum"):
        open_task("reasoning_gym:chain_sums")
    with pytest.raises(ConfigError, match="composite"):
        open_task("reasoning_gym:composite")
    with pytest.raises(DataUnavailable, match="no readable file"):
        open_task("file:/nowhere/x.jsonl")
    with pytest.raises(ConfigError, match="takes no data file"):
        open_task("facts", "x.jsonl")
    with pytest.raises(ConfigError, match="No task was named"):
        open_tasks(" , ")
    assert [task.name for task in open_tasks("facts, humaneval,facts")] == ["facts", "humaneval"]
