"""Regular expressions of users' own data: the whole committed text must match."""

from __future__ import annotations

import re

from training.graders.base import Grade, GradeOutcome, failed, passed, too_long
from training.graders.commit import bare, commit
from training.graders.worker import WorkerFailed, workers

SECONDS = 2.0
MAX_COMMITTED = 4_000


def check_pattern(pattern: str) -> None:
    """Raise ValueError when `pattern` is not a regular expression."""
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"not a regular expression: {error}") from None


def grade_regex(reply: str, pattern: str) -> Grade:
    """Reward 1 when `pattern` matches the whole committed text.

    Matching runs in a worker with a deadline: a pattern such as `(a+)+$` can take years on the wrong reply.
    """
    if refused := too_long(reply):
        return refused
    found = commit(reply)
    text = bare(found.text) if found else ""
    if found is None or not text:
        return failed("", "The reply commits to no answer.", GradeOutcome.NO_ANSWER)
    if len(text) > MAX_COMMITTED:
        return failed(text, "The committed text is too long to match.")
    try:
        matched = workers("pattern").ask({"do": "pattern_match", "pattern": pattern, "text": text}, SECONDS)["match"]
    except WorkerFailed as error:
        outcome = GradeOutcome.TIMEOUT if error.kind == "timeout" else GradeOutcome.CRASH
        return failed(text, f"Matching did not end: {error}", outcome)
    if matched:
        return passed(text, f"Committed text matches the pattern ({found.mark}).")
    return failed(text, f"Committed text does not match the pattern ({found.mark}).")
