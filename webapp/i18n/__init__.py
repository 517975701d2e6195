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
