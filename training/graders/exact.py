"""Exact text: the committed answer equals one of the accepted spellings, up to case, space and closing marks."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from training.graders.base import Grade, GradeOutcome, failed, passed, too_long
from training.graders.commit import bare, commit, plain


def grade_exact(reply: str, answer: str, accept: Sequence[str] = ()) -> Grade:
    """Reward 1 when the committed text equals `answer` or one of `accept`."""
    if refused := too_long(reply):
        return refused
    found = commit(reply)
    if found is None or not key(found.text):
        return failed("", "The reply commits to no answer.", GradeOutcome.NO_ANSWER)
    if key(found.text) in {key(answer), *map(key, accept)}:
        return passed(found.text, f"Committed text equals the answer ({found.mark}).")
    return failed(found.text, f"Committed text differs from the answer ({found.mark}).")


def key(text: str) -> str:
    """The form in which texts are compared: ASCII width, one case, single spaces, no closing marks."""
    return " ".join(bare(plain(unicodedata.normalize("NFC", text))).casefold().split())
