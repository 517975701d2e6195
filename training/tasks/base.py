"""What a task is: named items in splits, and a grade for any reply to one of them."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from training.graders.base import Grade

DOMAINS = ("coding", "mathematics", "knowledge", "reasoning", "writing", "dialogue")
TRAIN, VALIDATION, TEST = "train", "validation", "test"


@dataclass(frozen=True, slots=True)
class Item:
    """One question with its hidden answer.

    Agents see `question` alone. `answer` and `hidden` (tests, accepted spellings) never enter a prompt, a transcript
    or a log of an agent; `metadata` holds what may be shown (subject, level, family). `group` names what must not be
    split up: items of one group always share a split.
    """

    id: str
    task: str
    domain: str
    question: str
    answer: str = field(repr=False)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    hidden: Mapping[str, Any] = field(default_factory=dict, repr=False)
    group: str = ""

    @property
    def text_hash(self) -> str:
        """SHA-256 of the normalised question: the same text has the same hash in every data set."""
        return text_hash(self.question)

    def public(self) -> dict[str, Any]:
        """What may be shown to anyone: no answer, no tests."""
        return {
            "id": self.id,
            "task": self.task,
            "domain": self.domain,
            "question": self.question,
            "metadata": dict(self.metadata),
            "text_hash": self.text_hash,
        }


@dataclass(frozen=True, slots=True)
class Source:
    """Where a task's items come from, and on what terms."""

    title: str
    licence: str
    url: str
    revision: str  # commit, package version or file hash
    how_to_get: str  # one sentence for a reader without the data
    report_only: bool = False  # never a training reward


@runtime_checkable
class Task(Protocol):
    """A benchmark. Implementations run through tests/contract/test_task.py."""

    name: str
    source: Source
    splits: tuple[str, ...]

    def items(self, split: str) -> list[Item]:
        """All items of a split in a fixed order. Raises DataUnavailable or ConfigError (unknown split)."""
        ...

    def grade(self, item: Item, reply: str) -> Grade:
        """Grade a reply. Never raises for anything in the reply. Thread-safe, blocking."""
        ...

    def reference(self, item: Item) -> str | None:
        """A reply that this task grades 1, or None when none is known. For simulations and self-checks only."""
        ...


def normalise_text(text: str) -> str:
    """The form in which two questions count as the same: compatible Unicode, one case, words only."""
    return " ".join(re.findall(r"\w+|[^\w\s]", unicodedata.normalize("NFKC", text).casefold()))


def text_hash(text: str) -> str:
    """SHA-256 (hexadecimal) of the normalised text."""
    return hashlib.sha256(normalise_text(text).encode("utf-8", "replace")).hexdigest()
