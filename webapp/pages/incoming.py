"""What the page sends, made into what the handlers take. A request written by hand can hold anything."""

from __future__ import annotations

from webapp.i18n import known_language as language
from webapp.prose import clean

__all__ = ["action", "language", "word"]

MAX_WORD = 400  # characters of a name or token; our own have at most 60


def word(given: object) -> str:
    """A name or token as text that can be stored and sent; empty for whatever is none."""
    return clean(given).replace("\x00", "\ufffd")[:MAX_WORD] if isinstance(given, str) else ""


def action(given: object) -> dict[str, str]:
    """The fields of an action under an answer or in the history list: texts only, whatever else is left out."""
    fields = given if isinstance(given, dict) else {}
    return {
        str(name): clean(value).replace("\x00", "\ufffd") for name, value in fields.items() if isinstance(value, str)
    }
