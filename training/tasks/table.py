"""The common part of tasks made of rows: split names, errors, overlap removed, items remembered."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from core.errors import ConfigError, DataUnavailable
from training.graders.base import Grade
from training.splits import check_disjoint, without_overlap
from training.tasks.base import TEST, TRAIN, VALIDATION, Item, Source
from training.tasks.rows import HubFile, Row, load_rows

ItemMaker = Callable[[Row, int], Item]


class TableTask:
    """A task whose splits are hub files, or one local file that then stands for every split it is asked for.

    Later splits win: what `test` holds is taken out of `validation` and `train`, by id and by normalised text.
    """

    name: str
    source: Source
    splits: tuple[str, ...] = (TRAIN, VALIDATION, TEST)
    files: Mapping[str, HubFile] = MappingProxyType({})

    def __init__(self, data: Path | None = None) -> None:
        self._data = data
        self._loaded: dict[str, list[Item]] = {}
        self._lock = threading.Lock()
        if data is not None:
            self.splits = (TEST,)

    def item(self, row: Row, number: int) -> Item:
        """The item of one row; `number` counts from 0. Raises ValueError when a value is malformed."""
        raise NotImplementedError

    def grade(self, item: Item, reply: str) -> Grade:
        """See Task.grade."""
        raise NotImplementedError

    def items(self, split: str) -> list[Item]:
        """See Task.items."""
        check_split(self.name, self.splits, split)
        with self._lock:
            if not self._loaded:
                self._loaded = self._load()
            return self._loaded[split]

    def _load(self) -> dict[str, list[Item]]:
        if self._data is not None:
            file = self.files.get(TEST) or next(iter(self.files.values()))
            return {TEST: self.make(load_rows(file, self._data), str(self._data))}
        raw = {split: self.make(load_rows(self.files[split], None), self.files[split].repo) for split in self.splits}
        return disjoint(raw)

    def make(self, rows: Sequence[Row], origin: str) -> list[Item]:
        """Items of rows. Raises DataUnavailable naming the row that is malformed or whose id is not unique."""
        items: dict[str, Item] = {}
        for number, row in enumerate(rows):
            try:
                item = self.item(row, number)
            except (ValueError, TypeError, KeyError, IndexError) as error:
                raise DataUnavailable(f"{origin}, row {number + 1}: {error}. This is not {self.name} data.") from error
            if item.id in items:
                raise DataUnavailable(f"{origin}, row {number + 1}: the id {item.id!r} appears twice.")
            items[item.id] = item
        return list(items.values())


def disjoint(raw: dict[str, list[Item]]) -> dict[str, list[Item]]:
    """The splits with overlaps taken out of the earlier ones; order inside a split is kept."""
    done: dict[str, list[Item]] = {}
    for split in reversed(raw):
        keep = {item.id for item in without_overlap(raw[split], *done.values())}
        done[split] = [item for item in raw[split] if item.id in keep]
    check_disjoint(done)
    return {split: done[split] for split in raw}


def check_split(name: str, splits: Sequence[str], split: str) -> None:
    """Raise ConfigError when a task has no such split."""
    if split not in splits:
        raise ConfigError(f"The task {name} has no split {split!r}; it has {', '.join(splits)}.")
