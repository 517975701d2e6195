"""reasoning-gym: over 100 seeded generators with scorers of their own (Stojanovski et al. 2025). Works offline.

The library lives in worker processes only: some generators and scorers take seconds, print, or evaluate the reply.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from core.errors import ConfigError, DataUnavailable
from training.graders.base import Grade
from training.graders.gym import grade_gym
from training.graders.worker import WorkerFailed, workers
from training.splits import check_disjoint
from training.tasks.base import TEST, TRAIN, VALIDATION, Item, Source
from training.tasks.table import check_split, disjoint
from training.tasks.wording import ANSWER_ONLY

PREFIX = "reasoning_gym:"
SEED = 2025
RANGES = {TRAIN: (0, 120), VALIDATION: (120, 160), TEST: (160, 240)}  # indices of the generator's endless stream
CHUNK = 10  # items generated in one call, each call at most CHUNK_S
CHUNK_S = 120.0
BROKEN_FILE = Path(__file__).with_name("reasoning_gym_broken.json")

# The library's categories -> our domains.
_DOMAINS = {
    "arithmetic": "mathematics",
    "algebra": "mathematics",
    "geometry": "mathematics",
    "probability": "mathematics",
    "code": "coding",
}


class ReasoningGym:
    """One family. An item's id is FAMILY/SEED/INDEX: it alone says how to make the item again."""

    splits: tuple[str, ...] = (TRAIN, VALIDATION, TEST)

    def __init__(self, family: str, seed: int = SEED, config: Mapping[str, Any] | None = None) -> None:
        known = families()
        if family not in known:
            close = ", ".join(sorted(name for name in known if name[:3] == family[:3])) or "see `trinity tasks list`"
            raise ConfigError(f"reasoning-gym has no family {family!r}; close ones: {close}.")
        if family in unusable_families():
            raise ConfigError(f"The family {family!r} cannot be used: {unusable_families()[family]}.")
        self.name = PREFIX + family
        self.family = family
        self.domain = _DOMAINS.get(known[family], "reasoning")
        self._seed = seed
        self._config = dict(config or {})
        self._loaded: dict[str, list[Item]] = {}
        self.source = Source(
            title=f"reasoning-gym: {family}",
            licence="Apache-2.0",
            url="https://pypi.org/project/reasoning-gym/",
            revision=f"reasoning-gym {_version()}",
            how_to_get="pip install reasoning-gym",
        )

    def items(self, split: str) -> list[Item]:
        """See Task.items. A question that the stream repeats is kept in one split only."""
        check_split(self.name, self.splits, split)
        if not self._loaded:
            raw = {name: self.generate(*bounds) for name, bounds in RANGES.items()}
            self._loaded = disjoint(raw)
            check_disjoint(self._loaded)
        return self._loaded[split]

    def generate(self, start: int, stop: int) -> list[Item]:
        """Items `start` … `stop`-1 of the stream. Raises DataUnavailable when the generator fails."""
        items: list[Item] = []
        for at in range(start, stop, CHUNK):
            job = {"do": "gym_items", **self._stream(), "start": at, "stop": min(at + CHUNK, stop)}
            try:
                made = workers("gym").ask(job, CHUNK_S)["items"]
            except WorkerFailed as error:
                raise DataUnavailable(f"The generator {self.family} failed at item {at}: {error}") from error
            items += [self._item(at + offset, entry) for offset, entry in enumerate(made)]
        return items

    def find(self, item_id: str) -> Item:
        """The item of an id, generated alone. Raises ConfigError when the id is not one of this stream."""
        family, _, rest = item_id.partition("/")
        seed, _, index = rest.partition("/")
        if family != self.family or seed != str(self._seed) or not index.isdecimal() or int(index) >= 10_000:
            raise ConfigError(f"{item_id!r} is no item of {self.name}; ids look like {self.family}/{self._seed}/0.")
        return self.generate(int(index), int(index) + 1)[0]

    def grade(self, item: Item, reply: str) -> Grade:
        """The family's own scorer on the committed text; 0.99 or more is a reward of 1."""
        return grade_gym(reply, {**self._stream(), "index": item.hidden["index"]}, item.answer)

    def reference(self, item: Item) -> str | None:
        """See Task.reference. Five families score replies without having an answer of their own."""
        return item.answer or None

    def _stream(self) -> dict[str, Any]:
        return {"family": self.family, "seed": self._seed, "config": self._config}

    def _item(self, index: int, entry: Mapping[str, Any]) -> Item:
        question = f"{str(entry['question']).strip()}\n\n{ANSWER_ONLY}"
        answer = "" if entry["answer"] is None else str(entry["answer"])
        item_id = f"{self.family}/{self._seed}/{index}"
        return Item(item_id, self.name, self.domain, question, answer, {"family": self.family}, {"index": index})


@functools.cache
def families() -> Mapping[str, str]:
    """Every registered family with its category, as the installed library says.

    Raises DataUnavailable when the library is absent.
    """
    _version()
    found: dict[str, str] = workers("gym").ask({"do": "gym_families"}, CHUNK_S)["families"]
    return found


@functools.cache
def unusable_families() -> Mapping[str, str]:
    """Families that cannot be used, with the reason (committed file)."""
    listed: dict[str, str] = json.loads(BROKEN_FILE.read_text(encoding="utf-8"))["cannot_use"]
    return listed


def _version() -> str:
    try:
        return version("reasoning-gym")
    except PackageNotFoundError:
        raise DataUnavailable("The package reasoning-gym is not installed. Run: pip install reasoning-gym") from None
