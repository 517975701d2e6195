"""Short free-form answers (RLPR): a normalised match of the whole committed text, numbers within 1e-3."""

from __future__ import annotations

import re

from training.graders.base import Grade, GradeOutcome, failed, passed, too_long
from training.graders.commit import bare, commit, plain, tail
from training.graders.doubt import denies, offers, taken_back
from training.graders.numeric import close, is_factorial, numbers_in, parse_number, statement

RELATIVE = 1e-3
MAX_COMMITTED = 300  # characters; references are at most 30
_ALTERNATIVES = re.compile(r"\s/\s|;|\|")
_ASIDE = re.compile(r"\s\([^()]{1,200}\)$")
_LATEX = re.compile(
    r"\\(?:text|mathrm|mathbf|textbf|mathit|rm|left|right|displaystyle|,|;|!|:|quad)(?![a-zA-Z])|[{}$]|\\(?=[%&#_])"
)


def grade_short(reply: str, answer: str) -> Grade:
    """Reward 1 when the committed text is the answer: same words, or the same number and no other unit."""
    if refused := too_long(reply):
        return refused
    found = commit(reply)
    text = bare(found.text) if found else ""
    if found is None or not normalised(text):
        return failed("", "The reply commits to no answer.", GradeOutcome.NO_ANSWER)
    if len(text) > MAX_COMMITTED:
        return failed(text, "The committed text is too long for a short answer.")
    same = normalised(text) == normalised(answer)
    if taken_back(found) or (is_factorial(found.text) and not is_factorial(answer)):
        return failed(text, "The reply adds another answer, or takes its own back.", GradeOutcome.AMBIGUOUS)
    if not same and denies(text, answer):
        return failed(text, "The committed text denies an answer.", GradeOutcome.NO_ANSWER)
    if not same and _alternatives(text, answer):
        return failed(text, "The committed text lists alternatives.", GradeOutcome.AMBIGUOUS)
    if same or normalised(tail(text)) == normalised(answer):
        return passed(text, f"Committed text equals the answer ({found.mark}).")
    if _same_quantity(statement(found), answer):
        return passed(text, f"Committed number equals the answer within {RELATIVE:g} ({found.mark}).")
    return failed(text, f"Committed text differs from the answer ({found.mark}).")


def normalised(text: str) -> str:
    """Lower case without LaTeX wrappers, leading articles, spaces around signs and closing punctuation."""
    clean = bare(_LATEX.sub("", plain(text))).casefold()
    clean = re.sub(r"^(?:the|an|a)\s+", "", clean)
    return re.sub(r"\s+", " ", re.sub(r"\s*([-+*/^=,()<>])\s*", r"\1", clean)).strip()


def _alternatives(text: str, answer: str) -> bool:
    if offers(text, answer) or (_ALTERNATIVES.search(text) and not _ALTERNATIVES.search(answer)):
        return True
    if _ASIDE.search(text) and parse_number(answer) is None:  # "Paris (London)": the brackets may hold another answer
        return True
    return "," not in answer and len(numbers_in(text)) > 1 and parse_number(answer) is not None


def _same_quantity(text: str, answer: str) -> bool:
    value, gold = parse_number(text), parse_number(answer)
    if value is None or gold is None or not close(value, gold, RELATIVE):
        return False
    unit, wanted = _unit(text), _unit(answer)
    return not unit or not wanted or unit == wanted


def _unit(text: str) -> str:
    """The words after a number: "m/s" of "5 m/s"; empty when there are none or other words surround it."""
    found = re.search(r"\d[\d.,/]*\s*([^\d\s].*)?$", _LATEX.sub("", plain(text)))
    return re.sub(r"[\s.]+", "", (found[1] or "")).casefold() if found else ""
