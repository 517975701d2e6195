"""AIME 2025: 30 problems with integer answers from 0 to 999 (Mathematical Association of America)."""

from __future__ import annotations

from collections.abc import Mapping

from training.graders.base import Grade
from training.graders.numeric import grade_integer, parse_number
from training.tasks.base import TEST, Item, Source
from training.tasks.rows import HubFile, Row
from training.tasks.table import TableTask
from training.tasks.wording import BOXED


class Aime2025(TableTask):
    """Test only. With n = 30 a score needs at least 8 repeats and its interval."""

    name = "aime2025"
    splits: tuple[str, ...] = (TEST,)
    files: Mapping[str, HubFile] = {
        TEST: HubFile("math-ai/aime25", None, "test", "563bb8404243c5f09de6ec262f2db674fe5bce9b", ("problem", "answer"))
    }
    source = Source("AIME 2025", "Apache-2.0", files[TEST].url, files[TEST].revision, files[TEST].how_to_get)

    def item(self, row: Row, number: int) -> Item:
        """The answer must be an integer from 0 to 999."""
        value = parse_number(str(row["answer"]))
        if value is None or value.denominator != 1 or not 0 <= value <= 999:
            raise ValueError(f"the answer must be an integer from 0 to 999, it is {row['answer']!r}")
        return Item(
            f"aime25/{row.get('id', number)}", self.name, "mathematics", f"{row['problem']}\n\n{BOXED}", str(int(value))
        )

    def grade(self, item: Item, reply: str) -> Grade:
        """See Task.grade."""
        return grade_integer(reply, item.answer)

    def reference(self, item: Item) -> str:
        """See Task.reference."""
        return f"\\boxed{{{item.answer}}}"
