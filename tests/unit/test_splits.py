"""Splits: seeded, disjoint by id, text and group, stored with hashes."""

import json
import random

import pytest

from core.errors import DataUnavailable
from training.splits import check_disjoint, load_splits, make_splits, sample, save_splits, without_overlap
from training.tasks.base import Item, normalise_text, text_hash


def item(name, question=None, group="", domain="knowledge"):
    return Item(name, "t", domain, question or f"question {name}", "x", group=group)


ITEMS = [item(str(n)) for n in range(100)]
SIZES = {"train": 0.5, "validation": 0.2, "test": 0.3}


def test_same_seed_same_splits_whatever_the_order():
    shuffled = random.Random(1).sample(ITEMS, len(ITEMS))
    first, second = make_splits(ITEMS, SIZES, 3), make_splits(shuffled, SIZES, 3)
    assert first == second
    assert {name: len(items) for name, items in first.items()} == {"train": 50, "validation": 20, "test": 30}
    assert make_splits(ITEMS, SIZES, 4) != first


def test_same_text_in_other_writing_is_one_item():
    twins = [item("a", "What is  2+2 ?"), item("b", "what is 2+2?"), item("c", "ＷＨＡＴ is 2+2?"), item("d", "Other?")]
    splits = make_splits(twins, {"train": 0.5, "test": 0.5}, 0)
    assert sorted(i.id for items in splits.values() for i in items) == ["a", "d"]


def test_groups_stay_together():
    rows = [item(f"{n}/{side}", group=str(n)) for n in range(30) for side in "ab"]
    splits = make_splits(rows, SIZES, 0)
    for items in splits.values():
        for one in items:
            assert {f"{one.group}/a", f"{one.group}/b"} <= {i.id for i in items}


def test_shares_must_be_shares():
    for sizes in ({}, {"train": 1.2}, {"train": -0.1, "test": 0.5}):
        with pytest.raises(ValueError, match="shares"):
            make_splits(ITEMS, sizes, 0)


def test_overlap_is_found_and_taken_out():
    train = [item("a"), item("b"), item("c", "same text"), item("d", group="g")]
    test = [item("a", "new text"), item("z", "Same  TEXT"), item("y", group="g")]
    assert [i.id for i in without_overlap(train, test)] == ["b"]
    for clash in (train[0], train[2], train[3]):
        with pytest.raises(ValueError, match="share the"):
            check_disjoint({"train": [clash], "test": test})


def test_stored_splits_come_back_and_changed_texts_are_refused(tmp_path):
    path = tmp_path / "s.json"
    splits = make_splits(ITEMS, SIZES, 3)
    save_splits(path, splits, {"seed": 3})
    assert json.loads(path.read_text())["definition"] == {"seed": 3}
    assert load_splits(path, reversed(ITEMS)) == splits
    with pytest.raises(DataUnavailable, match="which its source does not have"):
        load_splits(path, ITEMS[1:])
    changed = [item("0", "another question"), *ITEMS[1:]]
    with pytest.raises(DataUnavailable, match="The text of 0 is not the one"):
        load_splits(path, changed)


def test_samples_are_balanced_seeded_and_never_repeat():
    rows = [item(f"{d}{n}", domain=d) for d in ("coding", "knowledge", "reasoning") for n in range(20)]
    drawn = sample(rows, 12, seed=5)
    assert drawn == sample(list(reversed(rows)), 12, seed=5) != sample(rows, 12, seed=6)
    assert [sum(i.domain == d for i in drawn) for d in ("coding", "knowledge", "reasoning")] == [4, 4, 4]
    assert len({i.id for i in sample(rows, 60, seed=1)}) == 60
    with pytest.raises(ValueError, match="never drawn twice"):
        sample(rows, 61, seed=1)


def test_normalised_texts():
    assert normalise_text("  Straße,\tＡ b ") == "strasse , a b"
    assert text_hash("A  b") == text_hash("a b") != text_hash("ab")
