"""Examples that a question gives of what its program must do: doctest lines, equations, Input/Output blocks."""

from __future__ import annotations

import ast
import builtins
import doctest
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MOST = 12  # examples of one question that are run

_EQUATION = re.compile(
    r"^\W*(?:(?:assert|(?i:for))\s+)?([A-Za-z_]\w*\(.*\))\s*"
    r"(?:==>|=>|==?|-{1,2}>|➞|→|⇒|#\s*(?:=>|returns?:?)|returns?:?|should (?:return|be))\s*(\S.*)$"
)
_HEADER = re.compile(
    r"^[\W_]*(sample|example)?s?\s*(input|output)s?\s*#?\s*\d*\s*[*_]*\s*([:：]?)[*_]*[-\s]*(.*)$", re.IGNORECASE
)
_SECTION = re.compile(r"^[\W_]*(sample|example)s?\s*\d*[\W_]*$", re.IGNORECASE)
_ASIDE = re.compile(r"^[\W_]*(explanation|note|constraints|example|sample)\b", re.IGNORECASE)
_WORDS = {"true": "True", "false": "False", "null": "None"}


@dataclass(frozen=True, slots=True)
class Snippet:
    """Source to evaluate beside the code, and what an interactive session would show."""

    source: str
    want: str
    error: str = ""  # `ValueError: text` when an exception is expected


@dataclass(frozen=True, slots=True)
class InOut:
    """Standard input and output of a program; `arguments` when both also read as a function's arguments and value."""

    stdin: str
    want: str
    arguments: tuple[Any, ...] | None = None


Example = Snippet | InOut


@functools.lru_cache(maxsize=128)
def find_examples(question: str) -> tuple[Example, ...]:
    """The examples in a question, in order, at most `MOST`. Never raises; an unclear one is left out."""
    found: list[Example] = [*_doctests(question)]
    if not found:
        found += _equations(question)
    found += _in_out(question)
    return tuple(found[:MOST])


def _doctests(question: str) -> Iterator[Snippet]:
    if ">>>" not in question:
        return
    # Docstring quotes on the line after an answer are not part of it.
    text = re.sub(r'^[ \t]*("""|\'\'\'|```).*$', "", question, flags=re.MULTILINE)
    for block in re.split(r"\n\s*\n", text):
        try:
            parsed = doctest.DocTestParser().get_examples(block)
        except ValueError:  # uneven indentation
            continue
        for example in parsed:
            if example.want or example.exc_msg or _is_statement(example.source):
                yield Snippet(example.source, example.want, (example.exc_msg or "").strip())


def _is_statement(source: str) -> bool:
    """Set-up lines such as `>>> x = [3, 1]` have nothing to show but are needed by the next one."""
    try:
        return not isinstance(ast.parse(source).body[0], ast.Expr)
    except (SyntaxError, ValueError, IndexError, MemoryError, RecursionError):
        return False


def _equations(question: str) -> Iterator[Snippet]:
    """Lines such as `add(2, 3) == 5`, `add(2, 3) ==> 5`, `assert add(2, 3) == 5`, `add(2, 3) # returns 5`."""
    for line in question.splitlines():
        if "(" not in line or len(line) > 2_000:
            continue
        if asserted := _asserted(line.strip()):
            yield Snippet(*asserted)
            continue
        found = _EQUATION.match(line)
        if found and _is_plain_call(found[1]) and (want := literal(found[2].strip().rstrip(".,;"))) is not None:
            yield Snippet(found[1] + "\n", want[0] + "\n")


def _asserted(line: str) -> tuple[str, str] | None:
    """`assert add(2, 3) == 5, "why"` as the call and what it shows."""
    if not line.startswith("assert "):
        return None
    try:
        made = ast.parse(line).body[0]
    except (SyntaxError, ValueError, IndexError, MemoryError, RecursionError):
        return None
    if not isinstance(made, ast.Assert) or not isinstance(made.test, ast.Compare) or len(made.test.ops) != 1:
        return None
    call, want = ast.unparse(made.test.left), literal(ast.unparse(made.test.comparators[0]))
    equal = isinstance(made.test.ops[0], ast.Eq | ast.Is)
    return (call + "\n", want[0] + "\n") if equal and want and _is_plain_call(call) else None


def _is_plain_call(source: str) -> bool:
    """A call of a function that is not built in, with literal arguments."""
    try:
        call = ast.parse(source, mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or hasattr(builtins, call.func.id):
            return False
        for part in (*call.args, *(keyword.value for keyword in call.keywords)):
            ast.literal_eval(part)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return False
    return True


def literal(text: str) -> tuple[str, Any] | None:
    """The text as Python would show it, and its value; JSON's true, false and null are understood."""
    text = text.strip().strip("`").strip()
    for spelling in (text, re.sub(r"\b(true|false|null)\b", lambda word: _WORDS[word[0]], text)):
        try:
            value = ast.literal_eval(spelling)
            return repr(value), value
        except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
            continue
    return None


def _in_out(question: str) -> Iterator[InOut]:
    """Pairs of an input and the output that follows it."""
    waiting: tuple[str, bool] | None = None
    for kind, body, sure in _sections(question):
        if kind == "input":
            waiting = body, sure
        elif waiting is not None:
            given, given_sure = waiting
            if all(known or _looks_like_data(text) for text, known in ((given, given_sure), (body, sure))):
                yield _pair(given, body)
            waiting = None


def _looks_like_data(text: str) -> bool:
    """`5 3` or `nums = [1, 2]`, not `The first line contains n`: at most two words a line."""
    return all(len(re.findall(r"[A-Za-z]{2,}", line)) <= 2 for line in text.splitlines()) or literal(text) is not None


def _pair(given: str, want: str) -> InOut:
    arguments = _arguments(given)
    return InOut(given + "\n", want, arguments if literal(want) is not None else None)


def _arguments(text: str) -> tuple[Any, ...] | None:
    """`nums = [1, 2], k = 3`, or one value or `name: value` a line, as the values in order; None when it is neither."""
    lines = (re.sub(r"^\s*([A-Za-z_]\w*)\s*:\s", r"\1=", line.rstrip(" ,")) for line in text.splitlines())
    joined = ", ".join(line for line in lines if line.strip())
    named = re.sub(r"\b(true|false|null)\b", lambda word: _WORDS[word[0]], joined)
    try:
        call = ast.parse(f"f({named})", mode="eval").body
        assert isinstance(call, ast.Call)
        if call.args and call.keywords:
            return None
        return tuple(ast.literal_eval(part) for part in (*call.args, *(keyword.value for keyword in call.keywords)))
    except (SyntaxError, ValueError, TypeError, AssertionError, MemoryError, RecursionError):
        return None


def _sections(question: str) -> Iterator[tuple[str, str, bool]]:
    """Blocks under an Input or Output header, as kind, text, and whether it is surely an example.

    A header is one that says sample or example, ends in a colon, stands in an Examples section, or has a fence under
    it: a bare `Input` elsewhere introduces the description of the format.
    """
    lines = question.splitlines()
    in_examples = False
    for number, line in enumerate(lines):
        if len(line) > 2_000:
            continue
        in_examples = in_examples or bool(_SECTION.match(line))
        found = _HEADER.match(line)
        if not found:
            continue
        rest, fenced = found[4].strip(" *`"), _fence_follows(lines, number + 1)
        marked = bool(found[1] or found[3]) or ((in_examples or fenced) and not rest)
        if marked and (rest == "" or found[3]):
            body = rest or _body(lines, number + 1)
            if body.strip():
                yield found[2].lower(), body, bool(found[1] or in_examples or fenced)


def _fence_follows(lines: list[str], start: int) -> bool:
    following = next((line for line in lines[start : start + 3] if line.strip()), "")
    return following.lstrip().startswith("```")


def _body(lines: list[str], start: int) -> str:
    """The text under a header: the fenced block, else everything to the next blank line, header or aside."""
    while start < len(lines) and not lines[start].strip():
        start += 1
    fenced = start < len(lines) and lines[start].lstrip().startswith("```")
    kept: list[str] = []
    for line in lines[start + fenced :]:
        if line.lstrip().startswith("```"):
            break
        if not fenced and (not line.strip() or _HEADER.match(line) or _ASIDE.match(line)):
            break
        kept.append(line.rstrip())
    return "\n".join(kept)
