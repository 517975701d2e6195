"""GPQA-Diamond: 198 graduate-level science questions, four options (Rein et al. 2023). Gated on the hub."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping

from training.graders.base import Grade
from training.graders.choice import grade_choice, option_letters
from training.tasks.base import TEST, Item, Source
from training.tasks.rows import HubFile, Row
from training.tasks.table import TableTask
from training.tasks.wording import multiple_choice


class GpqaDiamond(TableTask):
    """Test only. The file lists the right option first, so each item's options are shuffled, seeded by its text."""

    name = "gpqa_diamond"
    splits: tuple[str, ...] = (TEST,)
    files: Mapping[str, HubFile] = {
        TEST: HubFile(
            "Idavidrein/gpqa",
            "gpqa_diamond",
            "train",
            "633f5ee89ab8ad4522a9f850766b73f62147ffdd",
            ("Question", "Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"),
            gated=True,
        )
    }
    source = Source("GPQA-Diamond", "CC BY 4.0", files[TEST].url, files[TEST].revision, files[TEST].how_to_get)

    def item(self, row: Row, number: int) -> Item:
        """Four options in seeded order."""
        right = str(row["Correct Answer"]).strip()
        options = [right, *(str(row[f"Incorrect Answer {n}"]).strip() for n in (1, 2, 3))]
        stem = str(row["Question"]).strip()
        digest = hashlib.sha256(stem.encode()).hexdigest()
        random.Random(digest).shuffle(options)  # noqa: S311 - a fixed order, not a secret
        letter = option_letters(4)[options.index(right)]
        shown = {"subject": row.get("High-level domain") or "", "options": options}
        item_id = str(row.get("Record ID") or f"gpqa/{digest[:16]}")
        return Item(item_id, self.name, "knowledge", multiple_choice(stem, options), letter, shown)

    def grade(self, item: Item, reply: str) -> Grade:
        """See Task.grade."""
        return grade_choice(reply, item.answer, item.metadata["options"])

    def reference(self, item: Item) -> str:
        """See Task.reference."""
        return f"Answer: {item.answer}"
