"""Splits: seeded, stored, disjoint by id, by normalised text and by group."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from core.errors import DataUnavailable
from training.tasks.base import Item


def make_splits(items: Iterable[Item], sizes: Mapping[str, float], seed: int) -> dict[str, list[Item]]:
    """Share `items` out to named splits, the same way for the same seed whatever order they come in.

    `sizes` gives each split's share; shares add up to at most 1 and the rest is left out. Items with the same
    normalised text or the same group always land together, so counts may miss the share by a group's size; of items
    with the same text only the first id is kept.
    """
    if not sizes or any(share < 0 for share in sizes.values()) or sum(sizes.values()) > 1 + 1e-9:
        raise ValueError("shares of splits must not be negative and must add up to at most 1")
    kept = _unique(items)
    groups: dict[str, list[Item]] = {}
    for item in kept:
        groups.setdefault(item.group or item.text_hash, []).append(item)
    order = sorted(groups, key=lambda name: hashlib.sha256(f"{seed}|{name}".encode()).hexdigest())
    queue = [item for name in order for item in sorted(groups[name], key=lambda i: i.id)]
    splits: dict[str, list[Item]] = {name: [] for name in sizes}
    start, edge = 0, 0.0
    for name, share in sizes.items():
        edge += share
        stop = round(edge * len(queue))
        while 0 < stop < len(queue) and _same_group(queue[stop - 1], queue[stop]):
            stop += 1
        splits[name] = queue[start:stop]
        start = max(start, stop)
    check_disjoint(splits)
    return splits


def without_overlap(items: Iterable[Item], *others: Iterable[Item]) -> list[Item]:
    """`items` less repeats and less all that shares an id, a normalised text or a group with any of `others`."""
    ids, texts, groups = _names([item for other in others for item in other])
    kept = _unique(items)
    return [i for i in kept if i.id not in ids and i.text_hash not in texts and (not i.group or i.group not in groups)]


def check_disjoint(splits: Mapping[str, Sequence[Item]]) -> None:
    """Raise ValueError naming the two splits and the item when they share an id, a normalised text or a group."""
    seen: dict[str, str] = {}
    for split, items in splits.items():
        for item in items:
            for name in filter(None, (f"id {item.id}", f"text {item.text_hash}", item.group and f"group {item.group}")):
                if seen.setdefault(name, split) != split:
                    raise ValueError(f"splits {seen[name]!r} and {split!r} share the {name} (item {item.id})")


def sample(items: Sequence[Item], count: int, seed: int) -> list[Item]:
    """`count` distinct items, as equal a number from each domain as there are; the same for the same seed.

    Raises ValueError when there are fewer than `count`: nothing is drawn twice.
    """
    if count > len(items):
        raise ValueError(f"{count} items asked for, but there are only {len(items)}; items are never drawn twice")
    rng = random.Random(seed)  # noqa: S311 - a reproducible draw, not a secret
    piles: dict[str, list[Item]] = {}
    for item in sorted(items, key=lambda i: i.id):
        piles.setdefault(item.domain, []).append(item)
    for pile in piles.values():
        rng.shuffle(pile)
    chosen: list[Item] = []
    while len(chosen) < count:
        names = [name for name in sorted(piles) if piles[name]]
        rng.shuffle(names)
        chosen.extend(piles[name].pop() for name in names[: count - len(chosen)])
    return chosen


def save_splits(path: Path, splits: Mapping[str, Sequence[Item]], definition: Mapping[str, object]) -> None:
    """Write the splits as JSON: the definition they were made with, and each item's id with its text's hash."""
    stored = {name: {item.id: item.text_hash[:16] for item in items} for name, items in splits.items()}
    path.write_text(json.dumps({"definition": dict(definition), "splits": stored}, indent=1) + "\n", encoding="utf-8")


def load_splits(path: Path, items: Iterable[Item]) -> dict[str, list[Item]]:
    """The stored splits filled with `items`. Raises DataUnavailable when an item is missing or its text changed."""
    stored = stored_ids(path)
    by_id = {item.id: item for item in items}
    splits: dict[str, list[Item]] = {}
    for name, hashes in stored.items():
        for item_id, digest in hashes.items():
            if item_id not in by_id:
                raise DataUnavailable(f"{path.name} lists the item {item_id}, which its source does not have. {ADVICE}")
            if not by_id[item_id].text_hash.startswith(digest):
                raise DataUnavailable(f"The text of {item_id} is not the one {path.name} was made with. {ADVICE}")
        splits[name] = [by_id[item_id] for item_id in hashes]
    return splits


ADVICE = "Install the package versions of constraints.txt."


def stored_ids(path: Path) -> dict[str, dict[str, str]]:
    """Split -> item id -> first 16 digits of the text hash, as stored."""
    splits: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))["splits"]
    return splits


def _unique(items: Iterable[Item]) -> list[Item]:
    by_text: dict[str, Item] = {}
    for item in sorted(items, key=lambda i: i.id):
        by_text.setdefault(item.text_hash, item)
    return list(by_text.values())


def _names(items: Sequence[Item]) -> tuple[set[str], set[str], set[str]]:
    return {i.id for i in items}, {i.text_hash for i in items}, {i.group for i in items if i.group}


def _same_group(a: Item, b: Item) -> bool:
    return bool(a.group) and a.group == b.group
