"""What a grade is, and the words for how grading can end."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MAX_REPLY_CHARS = 200_000  # longer replies score 0 unread: no answer of these benchmarks needs a tenth of it
MAX_SHOWN_CHARS = 400  # a committed answer and a reason are cut to this in a grade


class GradeOutcome(StrEnum):
    """How grading one reply ended. The words of code execution are those of `core.sandbox.base.Outcome`."""

    PASSED = "passed"
    WRONG = "wrong"
    NO_ANSWER = "no_answer"  # the reply commits to nothing
    AMBIGUOUS = "ambiguous"  # the reply commits to several alternatives
    TIMEOUT = "timeout"
    MEMORY = "memory"
    CRASH = "crash"
    OUTPUT_LIMIT = "output_limit"
    SANDBOX_ERROR = "sandbox_error"  # infrastructure: missing data, never a 0
    NOT_RUN = "not_run"  # a library or a judge is absent: missing data, never a 0
    JUDGED = "judged"  # report only: `score` holds the judge's mark


@dataclass(frozen=True, slots=True)
class Grade:
    """The result of grading one reply.

    `reward` is 1 or 0, or None when nothing could be measured (`sandbox_error`, `not_run`, `judged`): such an
    episode is missing data. `score` is a judge's mark from 1 to 10, for reports only.
    """

    reward: int | None
    committed: str
    outcome: GradeOutcome
    reason: str
    score: float | None = None


def passed(committed: str, reason: str) -> Grade:
    """Reward 1."""
    return Grade(1, shown(committed), GradeOutcome.PASSED, shown(reason))


def failed(committed: str, reason: str, outcome: GradeOutcome = GradeOutcome.WRONG) -> Grade:
    """Reward 0."""
    return Grade(0, shown(committed), outcome, shown(reason))


def missing(reason: str, outcome: GradeOutcome, committed: str = "") -> Grade:
    """No reward: the reply could not be measured, and nobody may count it as wrong."""
    return Grade(None, shown(committed), outcome, shown(reason))


def shown(text: str) -> str:
    """`text` cut for display, without lone surrogates that no terminal or database can write."""
    clean = text.encode("utf-8", "replace").decode("utf-8")
    return clean if len(clean) <= MAX_SHOWN_CHARS else clean[: MAX_SHOWN_CHARS - 1] + "…"


def too_long(reply: str) -> Grade | None:
    """A grade of 0 for a reply over the limit, else None."""
    if len(reply) <= MAX_REPLY_CHARS:
        return None
    return failed("", f"The reply has {len(reply):,} characters; at most {MAX_REPLY_CHARS:,} are read.")
