"""MT-Bench: 80 two-turn conversations marked by a judge model (Zheng et al. 2023). Report only, never a reward."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from core.errors import DataUnavailable
from training.graders.base import Grade, GradeOutcome, missing
from training.graders.judge import Ask, grade_by_judge
from training.tasks.base import TEST, Item, Source
from training.tasks.rows import Row, read_rows
from training.tasks.table import check_split

DOMAINS: Mapping[str, str] = {
    "coding": "coding",
    "math": "mathematics",
    "reasoning": "reasoning",
    "writing": "writing",
    "roleplay": "dialogue",
}


class MtBench:
    """Items come from a local file. Each question has both turns; a reply is marked from 1 to 10 by a named judge."""

    name = "mt_bench"
    splits: tuple[str, ...] = (TEST,)
    source = Source(
        title="MT-Bench",
        licence="Apache-2.0",
        url="https://github.com/lm-sys/FastChat/tree/main/fastchat/llm_judge/data/mt_bench",
        revision="the local file's own",
        how_to_get="Pass FastChat's llm_judge/data/mt_bench/question.jsonl with --data FILE (fields turns, category).",
        report_only=True,
    )

    def __init__(self, data: Path | None = None, judge: Ask | None = None, judge_name: str = "") -> None:
        self._data = data
        self._judge = judge
        self._judge_name = judge_name

    def items(self, split: str) -> list[Item]:
        """See Task.items."""
        check_split(self.name, self.splits, split)
        if self._data is None:
            raise DataUnavailable(f"MT-Bench is read from a local file. {self.source.how_to_get}")
        rows = read_rows(self._data, ("turns", "category"))
        return [self._item(row, number) for number, row in enumerate(rows)]

    def grade(self, item: Item, reply: str) -> Grade:
        """A mark from the judge; `not_run` when there is none."""
        if self._judge is None:
            return missing("MT-Bench needs a judge model; none was given.", GradeOutcome.NOT_RUN, reply)
        return grade_by_judge(reply, item.question, item.answer, self._judge, self._judge_name)

    def reference(self, item: Item) -> None:
        """No reply is known to be right."""
        return

    def _item(self, row: Row, number: int) -> Item:
        turns = row["turns"]
        if not isinstance(turns, list) or not turns or not all(isinstance(turn, str) for turn in turns):
            raise DataUnavailable(f"{self._data}, row {number + 1}: turns must be a list of texts.")
        category = str(row["category"])
        references = row.get("reference") or []
        shown = {"category": category, "turns": turns}
        question = (
            "\n\n".join(f"Question {n}: {turn}" for n, turn in enumerate(turns, 1)) if len(turns) > 1 else turns[0]
        )
        item_id = f"mt_bench/{row.get('question_id', number)}"
        answer = "\n\n".join(str(reference) for reference in references)
        return Item(item_id, self.name, DOMAINS.get(category, "knowledge"), question, answer, shown)
