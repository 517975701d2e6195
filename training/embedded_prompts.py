"""Questions for fitting the embedded pool's head: five families from seeded templates, in English and Chinese.

The family says who should work on it; it is known because the template is, never guessed from the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

TEMPLATES = Path(__file__).with_name("embedded_prompts.yaml")
FAMILIES = ("sum", "fact", "story", "free", "code")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A question and its family: sum, fact, story, free or code."""

    text: str
    family: str


def prompts(per_family: int, seed: int) -> list[Prompt]:
    """`per_family` different questions of each family (fewer when its templates give no more), shuffled.

    The same for the same seed.
    """
    import yaml

    data = yaml.safe_load(TEMPLATES.read_text(encoding="utf-8"))
    rng = Random(seed)  # noqa: S311 (sampling, not secrecy)
    made: list[Prompt] = []
    for family in FAMILIES:
        texts: dict[str, None] = {}
        for _ in range(per_family * 50):
            texts.setdefault(_fill(_template(family, data["templates"], rng), _values(data, rng)))
            if len(texts) == per_family:
                break
        made += [Prompt(text, family) for text in texts]
    rng.shuffle(made)
    return made


def _template(family: str, templates: Mapping[str, list[str]], rng: Random) -> str:
    if family == "fact" and rng.random() < 1 / 3:  # facts that belong to no list of countries or elements
        return rng.choice(templates["general_fact"])
    return rng.choice(templates[family])


def _values(data: Mapping[str, Any], rng: Random) -> dict[str, str]:
    """One draw for every brace: words from the lists, and numbers small enough to be asked by a person."""
    plural, above, singular = rng.choice(data["kinds"])
    name, other = rng.sample(data["values"]["name"], 2)
    first, second, root = rng.randint(1, 9), rng.randint(1, 9), rng.randint(2, 40)
    numbers = {
        "a": rng.randint(12, 990),
        "b": rng.randint(3, 97),
        "c": rng.randint(2, 30),
        "d": rng.randint(2, 9),
        "d2": rng.randint(2, 8),
        "e": rng.randint(31, 99),
        "p": rng.choice([5, 10, 12, 15, 20, 25, 40]),
        "sq": root * root,
        "s": first + second,  # sum and product of two roots: x^2 - s x + q has whole solutions
        "q": first * second,
    }
    words = {key: rng.choice(words) for key, words in data["values"].items()}
    words |= {"name": name, "other": other, "x": plural, "y": above, "x1": singular}
    return {**words, **{key: str(number) for key, number in numbers.items()}}


def _fill(template: str, values: Mapping[str, str]) -> str:
    for key, value in values.items():
        template = template.replace("{" + key + "}", value)
    return template
