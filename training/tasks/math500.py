"""MATH-500: competition problems with LaTeX answers (Hendrycks et al. 2021; the 500 of Lightman et al. 2023)."""

from __future__ import annotations

from collections.abc import Mapping

from training.graders.base import Grade
from training.graders.commit import commit
from training.graders.math import grade_math
from training.splits import make_splits
from training.tasks.base import TEST, TRAIN, VALIDATION, Item, Source
from training.tasks.rows import HubFile, Row, hub_rows
from training.tasks.table import TableTask, disjoint
from training.tasks.wording import BOXED

SEED = 500
SHARES = {TRAIN: 0.9, VALIDATION: 0.1}


class Math500(TableTask):
    """Test: the 500. Train and validation: the 12,500 of the MATH set without them, shared out by seed 500."""

    name = "math500"
    files: Mapping[str, HubFile] = {
        TEST: HubFile(
            "HuggingFaceH4/MATH-500",
            None,
            "test",
            "6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be",
            ("problem", "answer"),
        ),
        TRAIN: HubFile(
            "qwedsacf/competition_math",
            None,
            "train",
            "e839825f9ec5c6cfa585c654a59610969ec13993",
            ("problem", "solution"),
        ),
    }
    source = Source(
        title="MATH-500",
        licence="MIT",
        url=files[TEST].url,
        revision=files[TEST].revision,
        how_to_get=files[TEST].how_to_get,
    )

    def item(self, row: Row, number: int) -> Item:
        """Rows of the train source have a worked solution instead of an answer: its last box is the answer."""
        answer = row.get("answer")
        if answer is None:
            found = commit(str(row["solution"]))
            answer = found.text if found and found.mark == "boxed" else ""
        if not str(answer).strip():
            raise ValueError("the row has no answer")
        shown = {"subject": row.get("subject") or row.get("type") or "", "level": str(row.get("level") or "")}
        item_id = str(row.get("unique_id") or f"{'math500' if 'answer' in row else 'competition_math'}/{number}")
        return Item(item_id, self.name, "mathematics", f"{row['problem']}\n\n{BOXED}", str(answer), shown)

    def _load(self) -> dict[str, list[Item]]:
        if self._data is not None:
            return super()._load()
        test = self.make(hub_rows(self.files[TEST]), "MATH-500")
        rows = [row for row in hub_rows(self.files[TRAIN]) if "\\boxed" in str(row["solution"])]
        rest = disjoint({"rest": self.make(rows, self.files[TRAIN].repo), TEST: test})
        return {**make_splits(rest["rest"], SHARES, SEED), TEST: test}

    def grade(self, item: Item, reply: str) -> Grade:
        """See Task.grade."""
        return grade_math(reply, item.answer)

    def reference(self, item: Item) -> str:
        """See Task.reference."""
        return f"\\boxed{{{item.answer}}}"
