r"""Numbers: one committed number, compared exactly or within a tolerance."""

from __future__ import annotations

import re
from fractions import Fraction

from training.graders.base import Grade, GradeOutcome, failed, passed, too_long
from training.graders.commit import Commitment, commit, plain, tail
from training.graders.doubt import denies, offers, taken_back

MAX_DIGITS = 400  # of a number, and as the size of its power of ten
_NUMBER = re.compile(
    r"(?<![\w.])(?P<sign>[+-]?)\s?(?P<whole>\d{1,3}(?:,\d{3})+(?!\d)|\d+)?(?P<dec>\.\d+)?"
    r"(?:[eE](?P<exp>[+-]?\d+)|\s*(?:\*|×|x|\\times)\s*10\s?(?:\^|\*\*)\s?\{?(?P<pow>[+-]?\d+)\}?)?(?![a-zA-Z]*\d)"
)
_NOISE = re.compile(
    r"\\[!,;: ]|\\(?:text|mathrm|textbf|mathbf|left|right|displaystyle|approx|quad)(?![a-zA-Z])"
    r"|\^\{?\\circ\}?|°|[${}]|\\\$|\*\*|[€£¥元]"
)
_FRACTION = re.compile(r"\\[dt]?frac\s*\{\s*(-?\d+)\s*\}\s*\{\s*(-?\d+)\s*\}|\\[dt]?frac(\d)(\d)")
# "5 million" and "5k" are other numbers than 5. A single letter counts only where it touches the digits: 5 k, 5 M and
# 5 B may be units.
_SCALE = re.compile(
    r"\s*(?:(?i:(?P<word>hundred|thousand|million|billion|trillion|dozen)s?(?![a-z]))|(?P<sign>万|萬|亿|億))"
    r"|(?P<letter>k|K|M|bn|B)(?![\w/^])"
)
_SCALES = {"hundred": 100, "thousand": 1_000, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12}
_SCALES |= {
    "万": 10**4,
    "萬": 10**4,
    "亿": 10**8,
    "億": 10**8,
    "k": 1_000,
    "K": 1_000,
    "M": 10**6,
    "bn": 10**9,
    "B": 10**9,
}
_FACTORIAL = re.compile(r"[+-]?\d+\s*!+")
_ASIDE = re.compile(r"\s\(([^()]{1,40})\)\W*$")


def parse_number(text: str) -> Fraction | None:
    r"""The one number that `text` states, or None when it states none, several, or a tuple.

    Read: signs, `1,000`, `1{,}000`, decimals, `1e3`, `1.5 × 10^3`, `3/4`, `\frac{3}{4}`, a leading `x =`, currency,
    degrees, per cent signs and units, which are dropped; "5 million" is 5,000,000.
    """
    numbers = numbers_in(text)
    return numbers[0] if len(numbers) == 1 else None


def numbers_in(text: str) -> list[Fraction]:
    """Every number of a short text; a fraction is one number. Texts over 1,000 characters hold none."""
    clean = plain(text).strip()
    if len(clean) > 1_000 or re.match(r"^\s*\(\s*\d{1,3}(,\s?\d{3})+\s*\)\s*$", clean):  # (1,000) is a pair
        return []
    clean = clean.replace("{,}", ",")
    clean = _FRACTION.sub(lambda m: f" {m[1] or m[3]}/{m[2] or m[4]} ", clean)
    clean = re.sub(r"^\s*[a-zA-Z]\w{0,10}\s*=\s*", "", _NOISE.sub(" ", clean)).strip()
    ratio = re.fullmatch(r"([+-]?\s?[\d.,]+)\s*/\s*([\d.,]+)(?:\s+[^\d]*)?", clean)
    if ratio:
        top, bottom = _single(ratio[1]), _single(ratio[2])
        return [top / bottom] if top is not None and bottom else []
    found = ((_value(m), _scale(clean, m.end())) for m in _NUMBER.finditer(clean) if m["whole"] or m["dec"])
    return [value * scale for value, scale in found if value is not None]


def grade_numeric(reply: str, answer: str, relative: float = 1e-6) -> Grade:
    """Reward 1 when the committed number equals `answer`: integers exactly, other numbers within `relative`.

    Raises ValueError when `answer` itself is not one number: the data are wrong, not the reply.
    """
    gold = parse_number(answer)
    if gold is None:
        raise ValueError(f"the reference answer {answer!r} is not one number")
    if refused := too_long(reply):
        return refused
    found = commit(reply)
    if found is None or not found.text:
        return failed("", "The reply commits to no number.", GradeOutcome.NO_ANSWER)
    text = statement(found)
    numbers = numbers_in(text)
    aside = _ASIDE.search(found.text)  # "5 (6)" names two; "3 (from 2x = 6)" explains one
    if len({*numbers, *_only_number(aside[1] if aside else "")}) > 1:
        return failed(text, "The committed text holds several numbers.", GradeOutcome.AMBIGUOUS)
    if taken_back(found) or offers(found.text, answer):
        return failed(text, "The committed text leaves alternatives open.", GradeOutcome.AMBIGUOUS)
    if not numbers or denies(found.text, answer) or is_factorial(found.text):
        return failed(text, "The committed text states no number.", GradeOutcome.NO_ANSWER)
    if close(numbers[0], gold, relative):
        return passed(text, f"Committed a number equal to the answer ({found.mark}).")
    return failed(text, f"Committed another number than the answer ({found.mark}).")


def grade_integer(reply: str, answer: str, low: int = 0, high: int = 999) -> Grade:
    """AIME: the committed number must be an integer from `low` to `high` and equal `answer`; `005` is 5."""
    grade = grade_numeric(reply, answer)
    value = parse_number(grade.committed) if grade.reward == 0 and grade.outcome is GradeOutcome.WRONG else None
    if value is not None and (value.denominator != 1 or not low <= value <= high):
        return failed(grade.committed, f"The answer must be an integer from {low} to {high}.")
    return grade


def statement(found: Commitment) -> str:
    """The committed text; of an unmarked last line only what stands after its last "=", ":" or "is"."""
    return tail(found.text) if found.mark in ("last line", "answer", "final answer") else found.text


def close(value: Fraction, gold: Fraction, relative: float) -> bool:
    """Equal, or within `relative` of a gold value that is not an integer."""
    if gold.denominator == 1:
        return value == gold
    return abs(value - gold) <= abs(gold) * Fraction(relative)


def is_factorial(text: str) -> bool:
    """True for a number and an exclamation mark alone: "5!" is 120; in prose the mark is an exclamation."""
    return _FACTORIAL.fullmatch(_NOISE.sub(" ", plain(text)).strip(" .")) is not None


def _only_number(text: str) -> list[Fraction]:
    value = _single(text)
    return [] if value is None else [value]


def _single(text: str) -> Fraction | None:
    found = _NUMBER.fullmatch(text.strip())
    return _value(found) if found and (found["whole"] or found["dec"]) else None


def _scale(text: str, at: int) -> int:
    found = _SCALE.match(text, at)
    if not found:
        return 1
    return _SCALES[found["word"].lower() if found["word"] else found["sign"] or found["letter"]]


def _value(found: re.Match[str]) -> Fraction | None:
    digits = (found["whole"] or "0").replace(",", "") + (found["dec"] or "")
    power = found["exp"] or found["pow"] or "0"
    if len(digits) > MAX_DIGITS or len(power) > 4 or abs(int(power)) > MAX_DIGITS:
        return None
    value = Fraction(digits) * Fraction(10) ** int(power)
    return -value if found["sign"] == "-" else value
