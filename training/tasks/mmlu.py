"""MMLU: four-way multiple choice over 57 subjects (Hendrycks et al. 2021)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from training.graders.base import Grade
from training.graders.choice import grade_choice, option_letters
from training.tasks.base import TEST, TRAIN, VALIDATION, Item, Source
from training.tasks.rows import HubFile, Row
from training.tasks.table import TableTask
from training.tasks.wording import multiple_choice

_REPO, _REVISION = "cais/mmlu", "c30699e8356da336a370243923dbaf21066bb9fe"
_FIELDS = ("question", "choices", "answer")


class Mmlu(TableTask):
    """Train is the auxiliary set; what also stands in validation or test is taken out of it."""

    name = "mmlu"
    files: Mapping[str, HubFile] = {
        TRAIN: HubFile(_REPO, "all", "auxiliary_train", _REVISION, _FIELDS),
        VALIDATION: HubFile(_REPO, "all", "validation", _REVISION, _FIELDS),
        TEST: HubFile(_REPO, "all", "test", _REVISION, _FIELDS),
    }
    source = Source("MMLU", "MIT", files[TEST].url, _REVISION, files[TEST].how_to_get)

    def item(self, row: Row, number: int) -> Item:
        """`answer` is the index of the right option, 0 to 3; the id is made of the text, as rows have none."""
        options = [str(option) for option in row["choices"]]
        if len(options) != 4:
            raise ValueError(f"a row needs four choices, this one has {len(options)}")
        index = int(row["answer"])
        if not 0 <= index < 4:
            raise ValueError(f"the answer must be an index from 0 to 3, it is {index}")
        question = multiple_choice(str(row["question"]), options)
        digest = hashlib.sha256(f"{question}|{index}|{number}".encode()).hexdigest()[:16]
        shown = {"subject": row.get("subject") or "", "options": options}
        return Item(f"mmlu/{digest}", self.name, "knowledge", question, option_letters(4)[index], shown)

    def grade(self, item: Item, reply: str) -> Grade:
        """See Task.grade."""
        return grade_choice(reply, item.answer, item.metadata["options"])

    def reference(self, item: Item) -> str:
        """See Task.reference."""
        return f"Answer: {item.answer}"
