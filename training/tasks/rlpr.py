"""RLPR: general questions with short free-form answers (Yu et al. 2025)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from training.graders.base import Grade
from training.graders.short import grade_short
from training.splits import make_splits
from training.tasks.base import TEST, TRAIN, VALIDATION, Item, Source
from training.tasks.rows import HubFile, Row, hub_rows
from training.tasks.table import TableTask
from training.tasks.wording import SHORT

MAX_ANSWER = 30  # characters: longer references cannot be matched by rule
SEED = 30
SHARES = {TRAIN: 0.9, VALIDATION: 0.05, TEST: 0.05}


class Rlpr(TableTask):
    """The set has one part, shared out by seed 30. Rows with references over 30 characters are left out."""

    name = "rlpr"
    files: Mapping[str, HubFile] = {
        TRAIN: HubFile(
            "openbmb/RLPR-Train-Dataset",
            None,
            "train",
            "922eeb37157ebce90c1ee8233cdf04f04fbad728",
            ("prompt", "reward_model"),
        )
    }
    source = Source("RLPR", "CC BY-NC 4.0", files[TRAIN].url, files[TRAIN].revision, files[TRAIN].how_to_get)

    def item(self, row: Row, number: int) -> Item:
        """`prompt` is a list of chat messages whose last user message is the question, or the question itself."""
        prompt = row["prompt"]
        if isinstance(prompt, Sequence) and not isinstance(prompt, str):
            said = [message["content"] for message in prompt if message.get("role") == "user"]
            if not said:
                raise ValueError("the prompt has no user message")
            prompt = said[-1]
        info = row.get("extra_info") or {}
        item_id = f"rlpr/{info.get('index', number)}" if isinstance(info, dict) else f"rlpr/{number}"
        answer = str(row["reward_model"]["ground_truth"]).strip()
        if not answer:
            raise ValueError("reward_model.ground_truth is empty")
        return Item(item_id, self.name, "reasoning", f"{str(prompt).strip()}\n\n{SHORT}", answer)

    def make(self, rows: Sequence[Row], origin: str) -> list[Item]:
        """Items of the rows with a short reference."""
        return [item for item in super().make(rows, origin) if len(item.answer) <= MAX_ANSWER]

    def _load(self) -> dict[str, list[Item]]:
        if self._data is not None:
            return super()._load()
        return make_splits(self.make(hub_rows(self.files[TRAIN]), self.files[TRAIN].repo), SHARES, SEED)

    def grade(self, item: Item, reply: str) -> Grade:
        """See Task.grade."""
        return grade_short(reply, item.answer)

    def reference(self, item: Item) -> str:
        """See Task.reference."""
        return f"Final answer: {item.answer}"
