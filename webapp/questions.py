"""What a visitor may send, and refusals that name their sentence in the message catalogues."""

from __future__ import annotations

import re

from core.coordinator import QUESTION_CHARS, check_question
from core.errors import QuestionInvalid, TrinityError

_HALF = re.compile("[\ud800-\udfff]")


class Refused(TrinityError):
    """A request that is not begun. `code` is a key of webapp/i18n, `values` fill its places."""

    def __init__(self, code: str, **values: object) -> None:
        super().__init__(code)
        self.code = code
        self.values = values


def problem_of(question: str) -> Refused | None:
    """None for a question that can be asked, else why not; the visitor's text stays in the composer.

    The core decides what a question is; here its refusal only gets the sentence in the visitor's language.
    """
    try:
        check_question(question)
    except QuestionInvalid:
        if len(question) > QUESTION_CHARS:
            return Refused("question_long", count=len(question), limit=QUESTION_CHARS)
        if "\x00" in question:
            return Refused("question_nul")
        return Refused("question_half" if _HALF.search(question) else "question_empty")
    return None
