"""LiveCodeBench: contest problems with public and private tests (Jain et al. 2024)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from training.graders.base import Grade
from training.graders.code import CallTest, StdinTest, grade_calls, grade_stdin
from training.tasks.base import TEST, TRAIN, Item, Source
from training.tasks.rows import HubFile, Row
from training.tasks.safe_pickle import packed_string
from training.tasks.table import TableTask
from training.tasks.wording import code_problem

_REPO, _REVISION = "livecodebench/code_generation_lite", "0fe84c3912ea0c4d4a78037083943e8f0c4dd505"
_FIELDS = ("question_content", "starter_code", "public_test_cases", "private_test_cases", "metadata", "question_id")
TEST_S = 6.0


class LiveCodeBench(TableTask):
    """Train: release v1 (400). Test: only the problems that version 6 added (175, January to April 2025).

    The hub's file test6.jsonl holds the new ones alone; the tag release_v6 would be cumulative.
    """

    name = "livecodebench"
    splits: tuple[str, ...] = (TRAIN, TEST)
    files: Mapping[str, HubFile] = {
        TRAIN: HubFile(_REPO, None, "train", _REVISION, _FIELDS, ("test.jsonl",)),
        TEST: HubFile(_REPO, None, "train", _REVISION, _FIELDS, ("test6.jsonl",)),
    }
    source = Source("LiveCodeBench v6", "CC (contest statements)", files[TEST].url, _REVISION, files[TEST].how_to_get)

    def item(self, row: Row, number: int) -> Item:
        """Tests stay hidden; `metadata.func_name` makes a problem functional, else it reads standard input."""
        info = json.loads(row["metadata"]) if isinstance(row["metadata"], str) else dict(row["metadata"])
        tests = [*_tests(row["public_test_cases"]), *_tests(row["private_test_cases"])]
        if not tests:
            raise ValueError("the problem has no tests")
        kinds = {str(test["testtype"]) for test in tests}
        if len(kinds) != 1 or not kinds <= {"stdin", "functional"}:
            raise ValueError(f"tests must all be stdin or all functional; they are {', '.join(sorted(kinds))}")
        func = info.get("func_name")
        if kinds == {"functional"} and not (isinstance(func, str) and func.isidentifier()):
            raise ValueError("a functional problem needs metadata.func_name")
        shown = {
            "platform": row.get("platform") or "",
            "difficulty": row.get("difficulty") or "",
            "contest_date": str(row.get("contest_date") or ""),
            "kind": kinds.pop(),
            "func_name": func or "",
        }
        starter = str(row["starter_code"])
        hidden = {"tests": tests, "in_class": "class Solution" in starter}
        question = code_problem(str(row["question_content"]), starter)
        return Item(str(row["question_id"]), self.name, "coding", question, "", shown, hidden)

    def grade(self, item: Item, reply: str) -> Grade:
        """All public and private tests must pass, 6 s each."""
        tests = item.hidden["tests"]
        if item.metadata["kind"] == "stdin":
            return grade_stdin(reply, [StdinTest(t["input"], t["output"]) for t in tests], TEST_S)
        calls = [CallTest(_arguments(t["input"]), json.loads(t["output"])) for t in tests]
        return grade_calls(reply, item.metadata["func_name"], calls, TEST_S, in_class=item.hidden["in_class"])

    def reference(self, item: Item) -> None:
        """The set has no solutions."""
        return


def _tests(packed: Any) -> list[Mapping[str, Any]]:
    """Test cases: a JSON text, or the same packed by base64, zlib and pickle. Raises ValueError when malformed."""
    text = str(packed)
    try:
        tests = json.loads(text)
    except ValueError:
        tests = json.loads(packed_string(text))
    if not isinstance(tests, list) or not all(isinstance(t, dict) and {"input", "output"} <= t.keys() for t in tests):
        raise ValueError("test cases must be a list of objects with input and output")
    for test in tests:
        test.setdefault("testtype", "stdin")
        if test["testtype"] == "functional":
            _arguments(test["input"])
            json.loads(test["output"])
    return tests


def _arguments(text: str) -> list[Any]:
    """The arguments of a functional test: one JSON value a line."""
    return [json.loads(line) for line in text.splitlines() if line.strip()]
