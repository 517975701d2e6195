r"""Mathematics: the committed formula equals the reference, as math-verify sees it.

Cheap and certain comparisons come first; math-verify works in a process that is killed after `SECONDS`.
"""

from __future__ import annotations

import re

from training.graders.base import Grade, GradeOutcome, failed, passed, too_long
from training.graders.commit import Commitment, commit, plain, tail
from training.graders.doubt import denies, offers
from training.graders.numeric import parse_number
from training.graders.worker import WorkerFailed, workers

SECONDS = 5.0
MAX_COMMITTED = 1_000  # characters; the longest reference of MATH-500 has 159
_SIZES = re.compile(r"\\(?:left|right|bigg?l?r?|Bigg?l?r?|bigl|bigr|Bigl|Bigr|biggl|biggr|Biggl|Biggr)(?![a-zA-Z])")
_SPACES = re.compile(r"\\[!,;: ]|\\(?:quad|qquad|displaystyle)(?![a-zA-Z])|~")
_ROOT = re.compile(r"√\s*(\d+|[a-zA-Z]|\([^()]*\)|\{[^{}]*\})")
_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf|textit|mbox)\s*\{([^{}]*)\}")
_WORDS = re.compile(r"[A-Za-z][A-Za-z' -]+")
# Signs that make a statement of a formula. `=` is dealt with apart: x = 3 states 3.
_RELATION = re.compile(
    r"\\(?:not|neq?|equiv|n?[Rr]ightarrow|n?[Ll]eftarrow|[Ll]eftrightarrow|[Ll]ong\w*arrow|implies|impliedby|iff|to|mapsto"
    r"|n?mid|sim|simeq|n?cong|asymp|n?geq?(?:slant|q)?|n?leq?(?:slant|q)?|lt|gt|ll|gg|lesssim|gtrsim|notin|in|ni|n?subset\w*"
    r"|n?supset\w*|propto|n?prec\w*|n?succ\w*|doteq|triangleq|divides|parallel|perp|therefore|because|lnot|neg)(?![a-zA-Z])"
    r"|[<>≠≡⇒⇔→←↔↦∼≃≅≈∣∤∈∉⊂⊆⊃⊇∝≲≳≪≫¬]|!=|=="
)
_SET = re.compile(r"[\[(].*,.*[\])]|\\cup|\\infty|\\mathbb|\\\{")
_MEMBER = re.compile(r"^[a-zA-Z]\s*(?:\\in(?![a-zA-Z])|∈)\s*")
_NAMED = re.compile(r"\\[a-zA-Z]+|(?P<name>[a-zA-Z])")
_SIGNS = {
    "π": r"\pi ",
    "∞": r"\infty ",
    "×": r"\times ",
    "·": r"\cdot ",
    "÷": r"\div ",
    "≤": r"\le ",
    "≥": r"\ge ",
    r"\varnothing": r"\emptyset",
}
_SUPERSCRIPTS = {"²": "^2", "³": "^3", "°": r"^\circ", "½": r"\frac{1}{2}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}"}


def grade_math(reply: str, answer: str) -> Grade:
    r"""Reward 1 when the reply's committed formula is equal to `answer` (LaTeX without delimiters).

    `x=3` equals 3, `90^{\circ}` equals 90 and `1{,}000` equals 1000; a list of alternatives, a set against a number
    and a pair against thousands differ. Never raises on any reply; formulas that cannot be decided in time score 0.
    """
    if refused := too_long(reply):
        return refused
    found = commit(reply)
    if found is None or not _TEXT.sub(r"\1", clean_latex(found.text)).strip():
        return failed("", "The reply commits to no formula.", GradeOutcome.NO_ANSWER)
    said = _said(found)
    if len(said) > MAX_COMMITTED:
        return failed(said, "The committed formula is too long.")
    gold = clean_latex(answer)
    if _squeezed(said) == _squeezed(gold):
        return passed(said, f"Committed formula equals the answer ({found.mark}).")
    if said.count("=") > max(1, gold.count("=")):
        return failed(said, "The committed text is a chain of several values.", GradeOutcome.AMBIGUOUS)
    if problem := _several(said, gold):
        return failed(said, problem, GradeOutcome.AMBIGUOUS)
    if _is_words(gold) or _is_words(said):
        return _compare_words(said, gold, found.mark)
    number, wanted = parse_number(said), parse_number(gold)
    if _is_number(said) and _is_number(gold) and number is not None and wanted is not None:
        verdict = number == wanted
    else:
        try:
            verdict = all(_equal(gold, part) for part in _stated(said, gold))
        except WorkerFailed as error:
            return _undecided(said, error)
    if verdict:
        return passed(said, f"Committed formula equals the answer ({found.mark}).")
    return failed(said, f"Committed formula differs from the answer ({found.mark}).")


def _several(said: str, gold: str) -> str | None:
    """Why a text states more, or something else, than one value; None when it does not."""
    words, wanted = (_TEXT.sub(r" \1 ", text) for text in (said, gold))
    if offers(words, wanted):
        return "The committed text lists alternatives."
    if denies(words, wanted):
        return "The committed text denies a value."
    inside = any(re.search(r"\d", text) for text in _TEXT.findall(said))
    if inside and r"\text" not in gold and re.search(r"\d", _TEXT.sub("", said)):
        return "The committed text holds numbers in a remark too."
    if _RELATION.search(_MEMBER.sub("", said)) and not _RELATION.search(gold) and not _SET.search(gold):
        return "The committed text is a relation, not a value."
    return None


def _stated(said: str, gold: str) -> list[str]:
    """What must be equal to the reference: the formula, and of `2+1=3` the side without unknowns too."""
    left, sign, right = said.partition("=")
    if not sign or "=" in gold or any(m["name"] for m in _NAMED.finditer(_TEXT.sub("", left))) or not left.strip():
        return [said]
    return [left.strip(), right.strip()]


def _equal(gold: str, said: str) -> bool:
    return bool(workers("math").ask({"do": "math_equal", "gold": gold, "said": said}, SECONDS)["equal"])


def clean_latex(text: str) -> str:
    r"""LaTeX without delimiters, sizes, spacing, currency and closing punctuation; Unicode signs as commands."""
    out = plain(text).strip()
    out = re.sub(r"^\\[(\[](.*)\\[)\]]$", r"\1", out, flags=re.DOTALL)
    out = (
        out.replace(r"\$", "")
        .replace("$", "")
        .replace("{,}", ",")
        .replace(r"\dfrac", r"\frac")
        .replace(r"\tfrac", r"\frac")
    )
    out = _SPACES.sub(" ", _SIZES.sub("", out)).replace(", ", ",")
    for sign, command in {**_SIGNS, **_SUPERSCRIPTS}.items():
        out = out.replace(sign, command)
    out = _ROOT.sub(lambda m: rf"\sqrt{{{m[1].strip('(){}')}}}", out)
    return " ".join(out.split()).strip('*`"“” ').rstrip(".,;:。，").strip()


def _said(found: Commitment) -> str:
    """The committed formula. Outside a box, only what follows the last "is" or ":" of the statement."""
    if found.mark in ("boxed", "answer tag", "hashes"):
        return clean_latex(found.text)
    inner = re.findall(r"\$([^$]+)\$|\\\((.+?)\\\)", found.text)
    if len(inner) == 1:
        return clean_latex(inner[0][0] or inner[0][1])
    text = re.split(r":|(?<![\w])(?:is|are|equals)(?![\w])", found.text)[-1]
    return clean_latex(text if re.match(r"\s*\\?\$?[a-zA-Z]\s*=", text) else tail(text))


def _squeezed(text: str) -> str:
    return _TEXT.sub(r"\1", text).replace(" ", "")


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?\d[\d,]*(?:\.\d+)?", text) is not None


def _is_words(text: str) -> bool:
    r"""True for names (`\text{Evelyn}`, `east`), which math-verify would read as products of letters."""
    inner = _TEXT.sub(r"\1", text).strip("() ")
    return bool(_WORDS.fullmatch(inner)) and (r"\text" in text or len(inner) >= 3)


def _compare_words(said: str, gold: str, mark: str) -> Grade:
    keys = [re.sub(r"[^a-z0-9]", "", _TEXT.sub(r"\1", text).casefold()) for text in (said, gold)]
    if keys[0] == keys[1]:
        return passed(said, f"Committed words equal the answer ({mark}).")
    return failed(said, f"Committed words differ from the answer ({mark}).")


def _undecided(said: str, error: WorkerFailed) -> Grade:
    outcomes = {"timeout": GradeOutcome.TIMEOUT, "memory": GradeOutcome.MEMORY, "crash": GradeOutcome.CRASH}
    if error.kind in outcomes:
        return failed(said, f"The comparison did not end: {error}", outcomes[error.kind])
    return failed(said, "The committed text is not a formula that can be read.")
