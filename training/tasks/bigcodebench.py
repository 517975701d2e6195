"""BigCodeBench: functions that use many libraries, checked by unittest (Zhuo et al. 2024). Report only.

The tests patch and inspect the solution's own modules, so both run in one sandbox: a solution could spoof its result.
Therefore it never is a training reward.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from core.errors import ConfigError
from training.graders.base import Grade
from training.graders.code import grade_unittest
from training.tasks.base import TEST, Item, Source
from training.tasks.rows import HubFile, Row
from training.tasks.table import TableTask

_FIELDS = ("task_id", "test", "entry_point", "libs", "instruct_prompt", "complete_prompt")
VERSION = "v0.1.4"
SUBSETS = {
    "full": HubFile("bigcode/bigcodebench", None, VERSION, "b74c0d0bf70d2c0bc459be537895cca163007f1a", _FIELDS),
    "hard": HubFile("bigcode/bigcodebench-hard", None, VERSION, "298d2cc7b96612e15e47313c3603ee124cee0c1f", _FIELDS),
}


class BigCodeBench(TableTask):
    """Version v0.1.4; `mode` is instruct or complete, `subset` full or hard. Absent libraries: "not run"."""

    splits: tuple[str, ...] = (TEST,)

    def __init__(self, data: Path | None = None, mode: str = "instruct", subset: str = "full") -> None:
        if mode not in ("instruct", "complete") or subset not in SUBSETS:
            raise ConfigError("BigCodeBench takes mode instruct or complete, and subset full or hard.")
        super().__init__(data)
        self.name = "bigcodebench" if subset == "full" else "bigcodebench_hard"
        self._mode = mode
        self.files = {TEST: SUBSETS[subset]}
        file = SUBSETS[subset]
        self.source = Source(
            f"BigCodeBench {VERSION} {subset}, {mode}",
            "Apache-2.0",
            file.url,
            file.revision,
            file.how_to_get,
            report_only=True,
        )

    def item(self, row: Row, number: int) -> Item:
        """`libs` is a list, or its Python notation in a text."""
        shown = {"entry_point": str(row["entry_point"]), "libs": _libraries(row["libs"])}
        hidden = {"test": str(row["test"]), "prompt": str(row["complete_prompt"])}
        question = f"{row[f'{self._mode}_prompt']}\n\nReply with all of the code in one code block."
        answer = str(row["complete_prompt"]) + str(row.get("canonical_solution") or "")
        return Item(str(row["task_id"]), self.name, "coding", question, answer, shown, hidden)

    def grade(self, item: Item, reply: str) -> Grade:
        """See Task.grade."""
        return grade_unittest(
            reply, item.hidden["prompt"], item.metadata["entry_point"], item.hidden["test"], item.metadata["libs"]
        )

    def reference(self, item: Item) -> str | None:
        """See Task.reference."""
        return f"```python\n{item.answer}\n```" if item.answer != item.hidden["prompt"] else None


def _libraries(value: Any) -> list[str]:
    """Names of libraries. Raises ValueError when the cell is no list."""
    try:
        found = ast.literal_eval(value) if isinstance(value, str) else value
    except SyntaxError as error:
        raise ValueError(f"libs is not a list ({error.msg})") from None
    return [str(name) for name in found]
