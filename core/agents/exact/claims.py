"""What an answer in prose commits to, as trees of the grammar. Pure text work."""

from __future__ import annotations

import re
from typing import Any

from core.agents.exact.grammar import NotAFormula, Tree, parse
from core.agents.exact.spelling import from_words, normalise
from core.agents.exact.tasks import Task

MAX_CHARS = 4_000  # of the end of the answer: conclusions stand there
_NUMBER = r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
_FRACTION = rf"{_NUMBER}(?:\s*/\s*\d+)?"
_BOXED = re.compile(r"\\boxed\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_MARKED = re.compile(
    r"(?:=|≈|->|:|\bis\b|\bare\b|\bequals\b|\bgives?\b|\bget\b|\bbe\b|\bresult\b|\banswer\b|是|为|得到?|等于)\s*"
    r"(?:(?:about|approximately|roughly|exactly|simply|therefore)\s+)?(?P<v>[^=≈:是为\n]+?)"
    r"(?=$|\n|=|≈|[,;。，；]|\.(?!\d)|\s\(|\bis\b|\bso\b|\bor\b|\band\b|\bwhich\b|\bbecause\b)",
    re.IGNORECASE,
)
_HEDGE = re.compile(
    rf"({_FRACTION})\s*,?\s*(?:or|或者?)\s+(?:maybe |perhaps |possibly |even )*({_FRACTION})(?!\w)", re.IGNORECASE
)
_NO = re.compile(r"\b(?:no|not|false|isn't|incorrect|composite|never)\b|不是|不等|否|错|合数", re.IGNORECASE)
_YES = re.compile(r"\b(?:yes|true|correct|indeed|is (?:a )?prime|equals?)\b|是|对|正确|相等", re.IGNORECASE)
_NO_SOLUTION = re.compile(r"\bno (?:real )?solutions?\b|无解|没有解", re.IGNORECASE)
_EVERY = re.compile(
    r"\b(?:every|all|any|infinitely many)\b[^.]*\b(?:values?|solutions?|numbers?)\b|任意", re.IGNORECASE
)
TOO_LARGE = re.compile(r"\btoo (?:large|big|many digits)\b|太大", re.IGNORECASE)
UNDEFINED = re.compile(
    r"\bundefined\b|\bnot defined\b|\bdoes not exist\b|\bno such\b|\bimpossible\b|未定义|不存在", re.IGNORECASE
)


def claims(task: Task, answer: str) -> dict[str, Any]:
    """`truth`, `phrase` and `values` (name -> trees) that the answer commits to; see judging.judge."""
    text = _clean(answer)
    phrase = "no solution" if _NO_SOLUTION.search(text) else "every value is a solution" if _EVERY.search(text) else ""
    return {"truth": _truth(text), "phrase": phrase, "values": _values(task, text)}


def _clean(answer: str) -> str:
    text = answer[-MAX_CHARS:]
    if boxed := _BOXED.findall(text):
        return f"= {boxed[-1]}"
    text = re.sub(r"\*\*([^*\n]+)\*\*", r"\1", text)
    text = re.sub(r"\+\s*O\([^()]*(?:\([^()]*\))?[^()]*\)|\+\s*\.\.\.", "", text)
    return re.sub(r"[`$]|(?<!\d)°", " ", text)


def _truth(text: str) -> bool | None:
    """Yes or no: the first word if it is one, else whichever of the two kinds of words appears alone."""
    first = re.match(r"\s*(yes|no|true|false|不是|是|对|错|不)", text, re.IGNORECASE)
    if first:
        return first.group(1).lower() in ("yes", "true", "是", "对")
    no, yes = bool(_NO.search(text)), bool(_YES.search(text))
    return None if not (no or yes) else not no


def _values(task: Task, text: str) -> dict[str, list[Tree]]:
    if task.kind == "solve":
        named = {name: found for name in task.words if (found := _named(name, text))}
        return named or {"": _numbers(text)}
    if task.kind in ("divisors", "primesbelow"):
        listed = _numbers(re.sub(r"\(\d+ in all\)", "", _after_mark(text)))
        return {"list": listed, "": listed[-1:]}
    if task.kind == "factorise":
        return {"primes": _primes(text)}
    return {"": _committed(text)}


def _named(name: str, text: str) -> list[Tree]:
    """Values after `x =`: the end of each chain of equals signs, and what `or` and `and` add to it."""
    found: list[Tree] = []
    stop = rf"(?=$|\n|;|\.(?!\d)|[,，]\s*[a-z]\s*=|\bor\s+{name}\b|\band\s+[a-z]\s*=|\(|\bwhen\b|\bbecause\b)"
    for match in re.finditer(
        rf"(?<![\w)*^+/-])(?<![-+*/] ){name}\s*(?:=|≈|\bis\b|∈|\bin\b|为|是)\s*(.+?){stop}", text, re.IGNORECASE
    ):
        for part in re.split(r",|\bor\b|\band\b|或|和", match.group(1).split("=")[-1].strip("{}[] ")):
            found += _plus_minus(part.strip())
    return found


def _plus_minus(part: str) -> list[Tree]:
    if re.match(r"±|\+/-|\\pm", part):
        one = _formula(re.sub(r"^(?:±|\+/-|\\pm)\s*", "", part))
        return [one, ["neg", one]] if one else []
    tree = _formula(part)
    return [tree] if tree else []


def _committed(text: str) -> list[Tree]:
    """The one value the answer ends on, or two when it hedges between them."""
    marked = [match for match in _MARKED.finditer(text) if _formula(match["v"])]
    if marked:
        last = marked[-1]
        tail = text[last.start("v") :]
        if (hedge := _HEDGE.match(tail)) and hedge.group(1) != hedge.group(2):
            return [tree for group in hedge.groups() if (tree := _formula(group))]
        return [tree] if (tree := _formula(last["v"])) else []
    if tree := _formula(text.strip().rstrip(".")):
        return [tree]
    return _numbers(text)[-1:]


def _after_mark(text: str) -> str:
    return re.split(r":|\bare\b|是|为|=", text, maxsplit=1)[-1]


def _numbers(text: str) -> list[Tree]:
    # `{1, 2, 3}` is a list: commas without a space join digits only in groups of three.
    return [tree for found in re.findall(_FRACTION, text) if (tree := _formula(found))]


def _primes(text: str) -> list[Tree]:
    after = text.rpartition("=")[2] if "=" in text else _after_mark(text)
    after = re.sub(r"(?:\^|\*\*)\s*[({]?\d+[)}]?|[⁰¹²³⁴⁵⁶⁷⁸⁹]+", " ", after)
    return _numbers(after)


def _formula(text: str) -> Tree | None:
    """The longest leading part that is a formula: `395 apples` is 395."""
    plain = from_words(normalise(text)).strip(" .,:;!?\"'")
    plain = re.sub(r"^(?:about|approximately|roughly|just|only|exactly|the number)\s+", "", plain, flags=re.IGNORECASE)
    for candidate in (plain, plain.rstrip("%"), *_leading_number(plain)):
        try:
            return parse(candidate)
        except (NotAFormula, RecursionError):
            continue
    return None


def _leading_number(text: str) -> list[str]:
    match = re.match(rf"{_FRACTION}(?=\s|$)", text)
    return [match.group()] if match else []
