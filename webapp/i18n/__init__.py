"""The words of the page, one catalogue a language, with equal keys (tests/unit/test_webapp_i18n.py)."""

from __future__ import annotations

import re

from webapp.i18n.en import EN
from webapp.i18n.zh import ZH

CATALOGUES: dict[str, dict[str, str]] = {"en": EN, "zh": ZH}
DEFAULT = "en"
_PLACE = re.compile(r"\{(\w+)\}")


def say(lang: str, key: str, **values: object) -> str:
    """The sentence of `key` in `lang`, its {places} filled. Values are inserted as they are, once: never expanded."""
    text = CATALOGUES.get(lang, EN)[key]
    return _PLACE.sub(lambda place: str(values.get(place[1], place[0])), text)


def count_of(lang: str, noun: str, count: int) -> str:
    """ "1 turn" or "3 turns": the catalogues hold `one_{noun}` and `n_{noun}s`."""
    return say(lang, f"one_{noun}" if count == 1 else f"n_{noun}s", n=count)


def known_language(given: object) -> str:
    """`given` if the page speaks it, else the default: what a request names as its language can be anything."""
    return given if isinstance(given, str) and given in CATALOGUES else DEFAULT


def choose_language(wanted: object, stored: object, accepted: str) -> str:
    """The page's language: `?lang=`, else what this browser chose before, else the first it accepts that we have."""
    for given in (wanted, stored):
        if isinstance(given, str) and given[:2].lower() in CATALOGUES:
            return given[:2].lower()
    for part in accepted.split(","):
        tag = part.split(";")[0].strip()[:2].lower()
        if tag in CATALOGUES:
            return tag
    return DEFAULT
