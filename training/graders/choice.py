"""Multiple choice: the one letter the reply commits to."""

from __future__ import annotations

import re
from collections.abc import Sequence

from training.graders.base import Grade, GradeOutcome, failed, passed, too_long
from training.graders.commit import Commitment, bare, commit, plain
from training.graders.doubt import denies, offers, taken_back

_WRAP = re.compile(r"\\(?:text|textbf|mathbf|mathrm|mathit|mathsf|bf|rm|operatorname|left|right)(?![a-zA-Z])\*?")
MAX_COMMITTED = 2_000  # characters of a committed text that are read
_NEGATED = re.compile(r"(?i)\b(?:but|no)\b|非")
_REASON = re.compile(r"(?i),?\s(?:because|since)\s")
_CONTRAST = re.compile(  # "C, not B" commits to C
    r"(?<=[A-Z)\]])\s*[,;(–—-]?\s*(?:and\s+|but\s+)?(?:(?i:not|rather\s+than|instead\s+of))"
    r"\s+(?:(?i:option|choice)\s+)?\(?[A-Z]\)?(?![\w'’])(?:\s*(?:or|nor|,)\s*\(?[A-Z]\)?(?![\w'’]))*"
)
_CONCLUSION = re.compile(
    r"(?i)\b(?:so|therefore|thus|hence|which\s+leaves|leaving)\b[\s,:]*"
    r"(?:(?:it|the\s+(?:answer|option|choice))\s+(?:is|must\s+be)\s+|it's\s+|option\s+)?((?-i:\(?[A-Z]\)?))\W*$"
)


def grade_choice(reply: str, answer: str, options: Sequence[str]) -> Grade:
    """Reward 1 when the reply commits to the letter `answer` of `options` (texts in order A, B, …).

    A letter counts at the reply's mark ("answer: C", a box), alone, bracketed or emphasised on its last line, or
    before the option's own text; the option's full text alone counts too. Digits are not letters, an article is not
    an option, and two letters are none.
    """
    if refused := too_long(reply):
        return refused
    found = commit(reply)
    if found is None or not found.text:
        return failed("", "The reply commits to no option.", GradeOutcome.NO_ANSWER)
    if taken_back(found):
        return failed(found.text, "The reply adds another answer or takes its own back.", GradeOutcome.AMBIGUOUS)
    letters = _listed(reply, options) if found.mark == "last line" else set()
    letters = letters if len(letters) > 1 else _letters(found, options)
    if len(letters) > 1:
        listed = ", ".join(sorted(letters))
        return failed(listed, f"The reply names several options ({listed}).", GradeOutcome.AMBIGUOUS)
    if not letters:
        return failed(found.text, "The committed text holds no option letter.", GradeOutcome.NO_ANSWER)
    (letter,) = letters
    if letter == answer.strip().upper():
        return passed(letter, f"Committed {letter} ({found.mark}), the right option.")
    return failed(letter, f"Committed {letter} ({found.mark}), not the right option.")


def option_letters(count: int) -> str:
    """The letters of `count` options."""
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:count]


def _letters(found: Commitment, options: Sequence[str]) -> set[str]:
    text = _stripped(found.text[:MAX_COMMITTED])
    if by_text := _same_option(text, options):
        return {by_text}
    letters = option_letters(len(options))
    lead = re.match(rf"\(?\[?([{letters}{letters.lower()}])(?:[\)\].:,、]+\s*|\s+[-–—]\s+|$)(.*)", text, re.DOTALL)
    if lead and _same_option(lead[2], options) == lead[1].upper():
        return {lead[1].upper()}
    text = _CONTRAST.sub("", _REASON.split(text)[0])
    if _NEGATED.search(text) or denies(text):
        return _concluded(found, letters)
    return _standalone(text, letters, found.mark)


def _concluded(found: Commitment, letters: str) -> set[str]:
    """The letter at the end of a line that first denies others: "It is not A, so C"."""
    end = _CONCLUSION.search(_stripped((found.line or found.text)[:MAX_COMMITTED]))
    letter = end[1].strip("()") if end else ""
    return {letter} if letter and letter in letters else set()


def _listed(reply: str, options: Sequence[str]) -> set[str]:
    """Letters that begin a line of the reply: repeating the options is no answer."""
    lines = re.findall(rf"^[ \t*(]*([{option_letters(len(options))}])[).:][ \t]+\S", plain(reply), re.MULTILINE)
    return set(lines)


def _standalone(text: str, letters: str, mark: str) -> set[str]:
    """Letters that stand as options, not as words."""
    if re.fullmatch(rf"\(?\[?[{letters.lower()}]\]?\)?", text):
        return {text.strip("()[]").upper()}
    # At a mark "A" is an option unless a word follows ("A dog"); elsewhere it must be set off from the prose.
    marked = {m[1] for m in re.finditer(rf"[(\[*_]\s*([{letters}])\s*[)\]*_]", text)}
    alone = {m[1] for m in re.finditer(rf"(?<![\w'])([{letters}])(?![\w'])(?!\s+[a-z]{{3,}})", text)}
    also = {m[1] for m in re.finditer(rf"(?<![\w'])([{letters}])(?=\s*(?:or|and|或|和)\s)", text)}
    option = {m[1] for m in re.finditer(rf"(?i:option|choice|选项?)\s*(?:is\s+)?\(?([{letters}])(?![a-zA-Z])", text)}
    if offers(text) and len(marked | alone | also | option) == 1:  # "any of C", "C or maybe another"
        return set()
    if mark == "last line" and len(text.split()) > 6:
        return marked | option
    return marked | alone | also | option


def _same_option(text: str, options: Sequence[str]) -> str | None:
    """The letter of the one option whose text this is, if any."""
    wanted = _key(text)
    same = [
        letter for letter, option in zip(option_letters(len(options)), options, strict=False) if _key(option) == wanted
    ]
    return same[0] if wanted and len(same) == 1 else None


def _key(text: str) -> str:
    return " ".join(bare(plain(text)).casefold().split())


def _stripped(text: str) -> str:
    """The committed text without LaTeX wrappers and emphasis."""
    return bare(
        _WRAP.sub("", text).replace("{", "").replace("}", "").replace("$", "").replace("\\", "").replace("**", "")
    )
