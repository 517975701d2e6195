"""Your own data: JSONL or CSV with question and answer, and optionally grader, domain, id, split, options."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from core.errors import DataUnavailable
from training.graders.base import Grade
from training.graders.choice import grade_choice, option_letters
from training.graders.code import grade_check
from training.graders.exact import grade_exact
from training.graders.json_fields import grade_json_fields
from training.graders.math import grade_math
from training.graders.numeric import grade_numeric, parse_number
from training.graders.regex import check_pattern, grade_regex
from training.graders.short import grade_short
from training.splits import make_splits
from training.tasks.base import DOMAINS, TEST, TRAIN, VALIDATION, Item, Source
from training.tasks.rows import Row, check_file, numbered_rows, unique_fields
from training.tasks.table import check_split, disjoint
from training.tasks.wording import code_completion, multiple_choice

PREFIX = "file:"
SHARES = {TRAIN: 0.6, VALIDATION: 0.2, TEST: 0.2}
SEED = 0
MAX_QUESTION = 32_000  # characters: what the coordinator takes
MAX_BYTES = 256 << 20  # of a user's file, which is read whole
GRADERS: Mapping[str, Callable[[Item, str], Grade]] = {
    "exact": lambda item, reply: grade_exact(reply, item.answer, item.hidden["accept"]),
    "numeric": lambda item, reply: grade_numeric(reply, item.answer, item.hidden["tolerance"]),
    "math": lambda item, reply: grade_math(reply, item.answer),
    "short": lambda item, reply: grade_short(reply, item.answer),
    "regex": lambda item, reply: grade_regex(reply, item.answer),
    "json": lambda item, reply: grade_json_fields(reply, item.hidden["fields"]),
    "choice": lambda item, reply: grade_choice(reply, item.answer, item.metadata["options"]),
    "code": lambda item, reply: grade_check(
        reply, item.hidden["prompt"], item.metadata["entry_point"], item.hidden["test"]
    ),
}


class Own:
    """A user's file. Rows with a `split` keep it; if no row has one, items are shared out 60 / 20 / 20 by seed 0."""

    splits: tuple[str, ...] = (TRAIN, VALIDATION, TEST)

    def __init__(self, path: Path) -> None:
        self.name = f"{PREFIX}{path}"
        self._path = path
        self._loaded: dict[str, list[Item]] = {}
        self.source = Source(path.name, "the owner's", str(path), _digest(path), "It is your own file.")

    def items(self, split: str) -> list[Item]:
        """See Task.items. The first bad line is named by its number."""
        check_split(self.name, self.splits, split)
        if not self._loaded:
            self._loaded = self._load()
        return self._loaded[split]

    def grade(self, item: Item, reply: str) -> Grade:
        """See Task.grade."""
        return GRADERS[item.metadata["grader"]](item, reply)

    def reference(self, item: Item) -> str | None:
        """See Task.reference. Patterns have no reply of their own."""
        grader = item.metadata["grader"]
        if grader == "regex":
            return None
        if grader == "code":
            return f"```python\n{item.answer}\n```"
        return item.answer if grader == "json" else f"Final answer: {item.answer}"

    def _load(self) -> dict[str, list[Item]]:
        items: dict[str, Item] = {}
        named: dict[str, list[Item]] = {split: [] for split in self.splits}
        for number, row in numbered_rows(self._path, ("question", "answer")):
            try:
                item = self._item(row, number)
                split = str(row.get("split") or "")
                if split and split not in self.splits:
                    raise ValueError(f"split must be one of {', '.join(self.splits)}; it is {split!r}")
            except ValueError as error:
                raise DataUnavailable(f"{self._path}, line {number}: {error}.") from error
            if item.id in items:
                raise DataUnavailable(f"{self._path}, line {number}: the id {item.id!r} was used before.")
            items[item.id] = item
            named.setdefault(split, []).append(item)
        if not items:
            raise DataUnavailable(f"{self._path} has no items: at least one line with question and answer is needed.")
        loose = named.pop("", [])
        if loose and any(named.values()):
            raise DataUnavailable(f"{self._path}: some lines name a split and others do not. Give all or none one.")
        return make_splits(loose, SHARES, SEED) if loose else disjoint(named)

    def _item(self, row: Row, number: int) -> Item:
        grader, domain = str(row.get("grader") or "exact"), str(row.get("domain") or "knowledge")
        if not isinstance(row["question"], str):
            raise ValueError(f"question must be a text; it is {_kind(row['question'])}")
        question, answer = row["question"].strip(), row["answer"]
        name = row.get("id")
        if isinstance(name, bool) or not isinstance(name, str | int | None):
            raise ValueError(f"id must be a text or a whole number; it is {_kind(name)}")
        if grader not in GRADERS:
            raise ValueError(f"grader must be one of {', '.join(GRADERS)}; it is {grader!r}")
        if domain not in DOMAINS:
            raise ValueError(f"domain must be one of {', '.join(DOMAINS)}; it is {domain!r}")
        if not question or len(question) > MAX_QUESTION:
            raise ValueError(f"question must have 1 to {MAX_QUESTION:,} characters; it has {len(question):,}")
        shown: dict[str, Any] = {"grader": grader}
        hidden: dict[str, Any] = {}
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        if not text.strip():
            raise ValueError("answer is empty")
        question = _CHECKS[grader](row, question, text.strip(), shown, hidden)
        shown_id = f"line-{number}" if name in (None, "") else str(name)
        return Item(shown_id, self.name, domain, question, text.strip(), shown, hidden)


def _exact(row: Row, question: str, answer: str, shown: dict[str, Any], hidden: dict[str, Any]) -> str:
    hidden["accept"] = [str(text) for text in _list(row, "accept")]
    return question


def _numeric(row: Row, question: str, answer: str, shown: dict[str, Any], hidden: dict[str, Any]) -> str:
    if parse_number(answer) is None:
        raise ValueError(f"a numeric answer must be one number; it is {answer!r}")
    given = row.get("tolerance")
    try:
        tolerance = 1e-6 if given in (None, "") else float(given) if isinstance(given, str | int | float) else -1.0
    except (ValueError, OverflowError):
        tolerance = -1.0
    if isinstance(given, bool) or not 0 <= tolerance < 1:
        raise ValueError(f"tolerance must be a number from 0 to 1; it is {str(given)[:80]!r}")
    hidden["tolerance"] = tolerance
    return question


def _free(row: Row, question: str, answer: str, shown: dict[str, Any], hidden: dict[str, Any]) -> str:
    return question


def _regex(row: Row, question: str, answer: str, shown: dict[str, Any], hidden: dict[str, Any]) -> str:
    check_pattern(answer)
    return question


def _json(row: Row, question: str, answer: str, shown: dict[str, Any], hidden: dict[str, Any]) -> str:
    try:
        fields = json.loads(answer, object_pairs_hook=unique_fields)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"answer of a json item must be JSON; it is not ({error})") from None
    if not isinstance(fields, dict) or not fields:
        raise ValueError("a json answer must be an object with at least one field")
    hidden["fields"] = fields
    return question


def _choice(row: Row, question: str, answer: str, shown: dict[str, Any], hidden: dict[str, Any]) -> str:
    options = [str(option) for option in _list(row, "options")]
    if not 2 <= len(options) <= 26:
        raise ValueError("a choice needs a list `options` of 2 to 26 texts")
    if len(answer) != 1 or answer not in option_letters(len(options)):
        raise ValueError(f"a choice's answer must be a letter from A to {option_letters(len(options))[-1]}")
    shown["options"] = options
    return multiple_choice(question, options)


def _code(row: Row, question: str, answer: str, shown: dict[str, Any], hidden: dict[str, Any]) -> str:
    entry, test = str(row.get("entry_point") or ""), str(row.get("test") or "")
    if not entry.isidentifier() or "def check(" not in test:
        raise ValueError("code needs `entry_point` (the function's name) and `test` with a function check(candidate)")
    shown["entry_point"] = entry
    hidden |= {"test": test, "prompt": ""}
    return code_completion(question) if question.lstrip().startswith(("def ", "import ", "from ")) else question


_CHECKS = {
    "exact": _exact,
    "numeric": _numeric,
    "math": _free,
    "short": _free,
    "regex": _regex,
    "json": _json,
    "choice": _choice,
    "code": _code,
}


def _list(row: Row, name: str) -> list[Any]:
    """A list field; in CSV files a list is written as JSON."""
    value = row.get(name)
    if value in (None, ""):
        return []
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise ValueError(f"{name} must be a list (in CSV: a JSON list in quotes)") from None
    if not isinstance(value, list):
        raise ValueError(f"{name} must be a list")
    return value


def _kind(value: Any) -> str:
    kinds = {bool: "true or false", list: "a list", dict: "an object", int: "a number", float: "a number"}
    return kinds.get(type(value), type(value).__name__)


def _digest(path: Path) -> str:
    try:
        check_file(path, MAX_BYTES)
        return f"sha256 {hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"
    except OSError:
        raise DataUnavailable(f"There is no readable file {path}.") from None
