"""Facts: capitals, elements, authors and other tables that ship with the program, as short answers and as options."""

from __future__ import annotations

import csv
import functools
import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.errors import ConfigError
from training.graders.base import Grade
from training.graders.choice import grade_choice, option_letters
from training.graders.numeric import grade_numeric, parse_number
from training.graders.term import grade_term
from training.splits import make_splits
from training.tasks.base import TEST, TRAIN, VALIDATION, Item, Source
from training.tasks.table import check_split
from training.tasks.wording import multiple_choice

TABLES = Path(__file__).with_name("facts")
SEED = 4
SHARES = {TRAIN: 0.5, VALIDATION: 0.15, TEST: 0.35}


@dataclass(frozen=True, slots=True)
class Relation:
    """One kind of question: `ask` is filled from column `given`; the answer stands in column `wanted` of `table`."""

    name: str
    table: str
    given: str
    wanted: str
    ask: str
    case: bool = False
    options: bool = True  # also asked as multiple choice


RELATIONS = (
    Relation("capital", "capitals", "country", "capital", "What is the capital of {}?"),
    Relation("state_capital", "states", "state", "capital", "What is the capital of the US state of {}?"),
    Relation("element", "elements", "symbol", "element", "Which chemical element has the symbol {}?"),
    Relation("symbol", "elements", "element", "symbol", "What is the chemical symbol for {}?", case=True),
    Relation("atomic_number", "elements", "element", "number", "What is the atomic number of {}?", options=False),
    Relation("author", "authors", "work", "author", "Who wrote {}?"),
    Relation("currency", "currencies", "country", "currency", "What is the currency of {}?"),
    Relation("sides", "polygons", "shape", "sides", "How many sides does a polygon called {} have?", options=False),
    Relation("young", "young", "animal", "young", "What is the young of the {} called?"),
    Relation("si_unit", "units", "quantity", "unit", "What is the SI unit of {}?"),
)


class Facts:
    """Both forms of a fact, and both directions of a row, always share a split."""

    name = "facts"
    splits: tuple[str, ...] = (TRAIN, VALIDATION, TEST)
    source = Source(
        title="Facts",
        licence="Apache-2.0",
        url="training/tasks/facts",
        revision="as shipped",
        how_to_get="It ships with the program.",
    )

    def __init__(self) -> None:
        self._loaded: dict[str, list[Item]] = {}

    def items(self, split: str) -> list[Item]:
        """See Task.items."""
        check_split(self.name, self.splits, split)
        if not self._loaded:
            self._loaded = make_splits(all_items(), SHARES, SEED)
        return self._loaded[split]

    def grade(self, item: Item, reply: str) -> Grade:
        """Options by letter, numbers by value, terms against the closed vocabulary of their column."""
        if "options" in item.metadata:
            return grade_choice(reply, item.answer, item.metadata["options"])
        if parse_number(item.answer) is not None:
            return grade_numeric(reply, item.answer)
        relation = relations()[item.metadata["relation"]]
        terms, aliases = vocabulary(relation.table, relation.wanted)
        return grade_term(reply, item.answer, terms, aliases, relation.case)

    def reference(self, item: Item) -> str:
        """See Task.reference."""
        return f"Answer: {item.answer}"


@functools.cache
def all_items() -> tuple[Item, ...]:
    """Every fact as a short answer, and most as multiple choice too."""
    items: list[Item] = []
    for relation in RELATIONS:
        for row in table(relation.table):
            short = _short(relation, row)
            items.append(short)
            if relation.options:
                items.append(_choice(relation, row, short))
    return tuple(items)


def relations() -> Mapping[str, Relation]:
    """Relations by name."""
    return {relation.name: relation for relation in RELATIONS}


@functools.cache
def table(name: str) -> tuple[Mapping[str, str], ...]:
    """The rows of one fact table. Raises ConfigError when the shipped file is damaged."""
    path = TABLES / f"{name}.csv"
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return tuple(csv.DictReader(file, strict=True))
    except (OSError, csv.Error, UnicodeDecodeError) as error:
        raise ConfigError(f"The fact table {path.name} cannot be read ({error}). Install the program again.") from error


@functools.cache
def vocabulary(name: str, column: str) -> tuple[Sequence[str], Mapping[str, str]]:
    """All terms of a column, and their other spellings (column `accept`, separated by "/") -> term."""
    rows = table(name)
    spelled = column in ("capital", "author", "currency", "element", "unit")
    aliases = {a: r[column] for r in rows if spelled for a in (r.get("accept") or "").split("/") if a}
    if column == "unit":  # "measured in coulombs"
        aliases |= {f"{row[column]}s": row[column] for row in rows}
    return tuple(row[column] for row in rows), aliases


def _short(relation: Relation, row: Mapping[str, str]) -> Item:
    given = row[relation.given]
    item_id = f"{relation.name}/{given.casefold().replace(' ', '_')}"
    shown = {"relation": relation.name}
    group = f"{relation.table}/{next(iter(row.values()))}"
    question = relation.ask.format(given)
    return Item(item_id, Facts.name, "knowledge", question, row[relation.wanted], shown, group=group)


def _choice(relation: Relation, row: Mapping[str, str], short: Item) -> Item:
    rng = random.Random(hashlib.sha256(short.id.encode()).hexdigest())  # noqa: S311 - a fixed order, not a secret
    others = [r[relation.wanted] for r in table(relation.table) if r is not row]
    options = [short.answer, *rng.sample(others, 3)]
    rng.shuffle(options)
    letter = option_letters(4)[options.index(short.answer)]
    shown = {"relation": relation.name, "options": options}
    question = multiple_choice(short.question, options)
    return Item(f"{short.id}/options", Facts.name, "knowledge", question, letter, shown, group=short.group)
