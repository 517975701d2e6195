"""Python code in a reply: the last complete block that is meant to be run."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator

_FENCE = re.compile(r"^[ \t>]{0,12}(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^`\n]*$")
_PYTHON = frozenset({"python", "py", "python3", "py3"})
_LONGEST_FENCE = 200
_LONGEST = 100_000  # characters that are parsed; a longer untagged text is not taken for code
_DOES_SOMETHING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Call)


@functools.lru_cache(maxsize=256)
def last_code(text: str) -> str | None:
    """The last Python block of `text`, or None.

    A block tagged `python` counts as it is; one without a tag counts when it parses as Python and does something; a
    text without any fence counts as a whole on the same terms. Backticks inside the code are left alone. A fence that
    is never closed (a reply cut short) counts only when there is no complete block.
    """
    complete: str | None = None
    cut: str | None = None
    fenced = False
    for language, body, closed in _blocks(text):
        fenced = True
        if language in _PYTHON or (not language and is_code(body)):
            if closed:
                complete = body
            else:
                cut = body
    if complete is not None or cut is not None:
        return complete if complete is not None else cut
    return text if not fenced and is_code(text) else None


def is_code(text: str) -> bool:
    """Whether the text parses as Python and calls, imports or defines something (`42` and `yes` do not)."""
    if len(text) > _LONGEST:
        return False
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return any(isinstance(node, _DOES_SOMETHING) for node in ast.walk(tree))


def _blocks(text: str) -> Iterator[tuple[str, str, bool]]:
    """Fenced blocks as language, body and whether the fence was closed."""
    fence, language, lines = "", "", list[str]()
    for line in text.splitlines():
        found = _FENCE.match(line) if len(line) <= _LONGEST_FENCE else None
        if not fence and found:
            fence, language, lines = found[1], found[2].lower(), []
        elif fence and found and found[1].startswith(fence) and not found[2]:
            yield language, _dedented(lines), True
            fence = ""
        elif fence:
            lines.append(line)
    if fence:
        yield language, _dedented(lines), False


def _dedented(lines: list[str]) -> str:
    """The block without the indentation of the list item that it stands in."""
    import textwrap

    return textwrap.dedent("\n".join(lines)) + "\n"
