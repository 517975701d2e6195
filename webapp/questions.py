"""What a visitor may send, and refusals that name their sentence in the message catalogues."""

from __future__ import annotations

import re

from core.errors import TrinityError

MAX_CHARS = 32_000
_HALF = re.compile("[\ud800-\udfff]")


class Refused(TrinityError):
    """A request that is not begun. `code` is a key of webapp/i18n, `values` fill its places."""

    def __init__(self, code: str, **values: object) -> None:
        super().__init__(code)
        self.code = code
        self.values = values


def problem_of(question: str) -> Refused | None:
    """None for a question that can be asked, else why not; the visitor's text stays in the composer."""
    if not question.strip():
        return Refused("question_empty")
    if len(question) > MAX_CHARS:
        return Refused("question_long", count=len(question), limit=MAX_CHARS)
    if "\x00" in question:
        return Refused("question_nul")
    if _HALF.search(question):
        return Refused("question_half")
    return None
