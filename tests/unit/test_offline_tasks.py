"""The shipped tasks: fact tables, and the offline4 mixture with its stored splits."""

import itertools
import json
from collections import Counter

import pytest

from core.errors import DataUnavailable
from training.tasks import facts, offline4
from training.tasks.facts import RELATIONS, Facts, all_items, table, vocabulary
from training.tasks.offline4 import SIZES, SPLITS_FILE, Offline4, build_splits


@pytest.fixture(scope="module")
def mixture():
    task = Offline4()
    return task, {split: task.items(split) for split in task.splits}


def test_every_cell_of_the_tables_is_filled_and_every_key_unique():
    for relation in RELATIONS:
        rows = table(relation.table)
        keys = [row[relation.given] for row in rows]
        assert len(keys) == len(set(keys)) >= 10
        assert all(row[relation.given].strip() and row[relation.wanted].strip() for row in rows)


def test_no_other_spelling_belongs_to_two_terms():
    for relation in RELATIONS:
        terms, aliases = vocabulary(relation.table, relation.wanted)
        clash = {alias for alias in aliases if alias in terms and aliases[alias] != alias}
        assert not clash


def test_all_facts_are_graded_right_when_said_in_a_sentence():
    task = Facts()
    for item in all_items():
        if "options" not in item.metadata:
            sentence = f"{item.question.rstrip('?')}: it is {item.answer}."
            assert task.grade(item, item.answer).reward == 1, item
            assert task.grade(item, sentence).reward == 1, (sentence, task.grade(item, sentence))


def test_units_may_stand_in_the_plural():
    task = Facts()
    item = next(item for item in all_items() if item.id == "si_unit/electric_charge")
    assert task.grade(item, "Electric charge is measured in coulombs (C).").reward == 1


def test_every_other_term_of_the_table_is_wrong():
    task = Facts()
    for relation in RELATIONS:
        items = [i for i in all_items() if i.metadata["relation"] == relation.name and "options" not in i.metadata]
        for item, other in itertools.pairwise(items[:13]):
            if item.answer != other.answer:
                assert task.grade(item, other.answer).reward == 0, (item.id, other.answer)
                assert task.grade(item, f"{item.answer} or {other.answer}").reward == 0, (item.id, other.answer)


def test_options_hold_the_answer_once_and_their_letters_are_spread():
    items = [item for item in all_items() if "options" in item.metadata]
    letters = Counter(item.answer for item in items)
    assert set(letters) == set("ABCD") and min(letters.values()) > len(items) / 8
    assert all(len(set(item.metadata["options"])) == 4 for item in items)


def test_both_forms_of_a_fact_share_a_split():
    task = Facts()
    where = {item.group: split for split in task.splits for item in task.items(split)}
    for split in task.splits:
        assert all(where[item.group] == split for item in task.items(split))


def test_the_mixture_has_the_sizes_of_its_definition(mixture):
    _, splits = mixture
    for split, items in splits.items():
        assert Counter(item.domain for item in items) == {domain: sizes[split] for domain, sizes in SIZES.items()}
        assert {item.domain for item in items[:16]} == set(SIZES)


def test_the_stored_splits_are_those_of_the_definition(mixture):
    """Making them again gives the file, id by id: nothing was moved by hand."""
    _, splits = mixture
    again = build_splits()
    assert {name: [i.id for i in items] for name, items in again.items()} == {
        name: [i.id for i in items] for name, items in splits.items()
    }


def test_no_id_text_or_fact_is_in_two_splits(mixture):
    _, splits = mixture
    for key in ("id", "text_hash", "group"):
        homes = {}
        for split, items in splits.items():
            for item in items:
                value = getattr(item, key)
                assert not value or homes.setdefault(value, split) == split


def test_another_version_of_a_generator_is_refused(monkeypatch, tmp_path):
    stored = json.loads(SPLITS_FILE.read_text(encoding="utf-8"))
    name = next(name for name in stored["splits"]["test"] if name.startswith("chain_sum/"))
    stored["splits"]["test"][name] = "0" * 16
    changed = tmp_path / "splits.json"
    changed.write_text(json.dumps(stored), encoding="utf-8")
    monkeypatch.setattr(offline4, "SPLITS_FILE", changed)
    with pytest.raises(DataUnavailable, match=f"The text of {name} is not the one.*constraints.txt"):
        Offline4().items("test")


def test_a_damaged_table_is_named(monkeypatch, tmp_path):
    (tmp_path / "capitals.csv").write_bytes(b"\xff\xfe")
    monkeypatch.setattr(facts, "TABLES", tmp_path)
    table.cache_clear()
    try:
        with pytest.raises(Exception, match=r"capitals\.csv cannot be read"):
            table("capitals")
    finally:
        table.cache_clear()


@pytest.mark.parametrize("family", ["chain_sum", "products", "decimal_chain_sum", "gcd", "lcm", "simple_equations"])
def test_the_exact_solver_reads_the_arithmetic_families(family):
    """The embedded pool has an agent for these: their wording must reach it."""
    from core.agents.exact.questions import understand

    items = offline4.family_items(family)
    assert sum(understand(item.question) is not None for item in items) >= 0.9 * len(items)
