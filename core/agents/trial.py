"""Code tried on the examples of a question: what ran, what came out, what was expected. Comparing is done here."""

from __future__ import annotations

import ast
import doctest
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any

from core.agents.examples import Example, InOut, Snippet, literal
from core.sandbox import Outcome, Sandbox, SandboxLimits
from core.sandbox.calls import call_many
from core.sandbox.wire import WireError

_SHOWN = 160  # characters of a value in a report
_ENTRY = "_trinity_example"
# Appended to the code: evaluates a snippet beside it as an interactive session would, and returns what it shows.
_SESSION = f"""

def {_ENTRY}(source):
    import contextlib, io
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        try:
            exec(compile(source, "<example>", "single"), globals())
        except Exception as error:
            return [shown.getvalue(), f"{{type(error).__name__}}: {{error}}"]
    return [shown.getvalue(), ""]
"""


@dataclass(frozen=True, slots=True)
class Try:
    """One example and how it went."""

    asked: str
    passed: bool
    got: str
    want: str
    silent: bool = False  # a set-up line: not counted, unless it fails


@dataclass(frozen=True, slots=True)
class Report:
    """All examples. `broken` is set when the sandbox, not the code, failed."""

    tries: tuple[Try, ...]
    broken: str = ""

    @property
    def all_pass(self) -> bool:
        """Every example passed, and there was at least one that says something."""
        return all(item.passed for item in self.tries) and any(not item.silent for item in self.tries)

    def text(self) -> str:
        """One line for each example. No line of it can be taken for a verdict: all foreign text is quoted inside."""
        counted = [item for item in self.tries if not (item.silent and item.passed)]
        good = sum(item.passed for item in counted)
        lines = [f"Ran the code on the question's examples: {good} of {len(counted)} passed."]
        for item in counted:
            end = "passed" if item.passed else f"expected {_short(item.want)}, got {_short(item.got)}"
            lines.append(f"- {_short(item.asked)}: {end}")
        return "\n".join(lines)


def try_examples(
    sandbox: Sandbox,
    code: str,
    examples: Sequence[Example],
    question: str,
    limits: SandboxLimits,
    stop: Event | None = None,
) -> Report:
    """Run the code on every example. What is expected stays here; only inputs go into the sandbox."""
    snippets = [example for example in examples if isinstance(example, Snippet)]
    pairs = [example for example in examples if isinstance(example, InOut)]
    calls, programs = (pairs, []) if _is_function(pairs, code) else ([], pairs)
    tries: list[Try] = []
    for part in (
        _try_snippets(sandbox, code, snippets, limits, stop),
        _try_calls(sandbox, code, calls, question, limits, stop),
        _try_programs(sandbox, code, programs, limits, stop),
    ):
        if isinstance(part, str):
            return Report(tuple(tries), part)
        tries += part
    return Report(tuple(tries))


def _try_snippets(
    sandbox: Sandbox, code: str, snippets: Sequence[Snippet], limits: SandboxLimits, stop: Event | None
) -> list[Try] | str:
    if not snippets:
        return []
    results = call_many(
        code + _SESSION, _ENTRY, [[item.source] for item in snippets], limits, sandbox=sandbox, stop=stop
    )
    tries = []
    for number, item in enumerate(snippets):
        result = results[min(number, len(results) - 1)]
        if result.outcome is Outcome.SANDBOX_ERROR:
            return result.error
        shown, error = "", result.error
        if result.outcome is Outcome.PASSED and _is_pair_of_text(result.value):
            shown, error = result.value
        wanted = item.error or item.want
        passed = result.outcome is Outcome.PASSED and (
            _same_error(item.error, error) if item.error else not error and _same_shown(item.want, shown)
        )
        silent = not wanted
        tries.append(Try(item.source.strip(), passed, (error or shown).strip(), wanted.strip() or "no error", silent))
    return tries


def _try_calls(
    sandbox: Sandbox, code: str, calls: Sequence[InOut], question: str, limits: SandboxLimits, stop: Event | None
) -> list[Try] | str:
    if not calls:
        return []
    entry = entry_point(code, question) or "main"
    try:
        asked = [list(item.arguments or ()) for item in calls]
        results = call_many(code, entry, asked, limits, sandbox=sandbox, stop=stop)
    except WireError as error:
        return str(error)
    tries = []
    for number, item in enumerate(calls):
        result = results[min(number, len(results) - 1)]
        if result.outcome is Outcome.SANDBOX_ERROR:
            return result.error
        ran = result.outcome is Outcome.PASSED
        value = literal(item.want)
        passed = ran and value is not None and same_value(value[1], result.value)
        got = _shown_value(result.value) if ran else result.error
        tries.append(Try(f"{entry}: {item.stdin.strip()}", passed, got, item.want))
    return tries


def _try_programs(
    sandbox: Sandbox, code: str, programs: Sequence[InOut], limits: SandboxLimits, stop: Event | None
) -> list[Try] | str:
    tries = []
    for item in programs:
        result = sandbox.run(code, item.stdin, limits, stop=stop)
        if result.outcome is Outcome.SANDBOX_ERROR:
            return result.detail
        ran = result.outcome is Outcome.PASSED
        last_words = (result.stderr.strip().splitlines() or [result.detail])[-1]
        got = result.stdout.strip() if ran else last_words
        passed = ran and same_output(item.want, result.stdout)
        tries.append(Try(f"input {item.stdin.strip()}", passed, got, item.want.strip()))
    return tries


def entry_point(code: str, question: str) -> str | None:
    """The function that examples without a name call: a method of Solution, the one the question names, or the last."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == "Solution":
            functions = [item.name for item in node.body if isinstance(item, ast.FunctionDef)]
    functions = [name for name in functions if not name.startswith("_")]
    named = [name for name in functions if re.search(rf"\b{re.escape(name)}\b", question)]
    return next(iter(named or functions[-1:]), None)


def same_value(want: Any, got: Any) -> bool:
    """Equal by type and value; numbers with a fraction within 1e-6; a tuple counts as a list, as JSON has no tuples."""
    if isinstance(want, bool) or isinstance(got, bool) or want is None or got is None:
        return want is got
    if isinstance(want, float) or isinstance(got, float):
        both = isinstance(want, int | float) and isinstance(got, int | float)
        return both and math.isclose(want, got, rel_tol=1e-6, abs_tol=1e-9)
    if isinstance(want, list | tuple) and isinstance(got, list | tuple):
        return len(want) == len(got) and all(map(same_value, want, got))
    return type(want) is type(got) and bool(want == got)


def same_output(want: str, got: str) -> bool:
    """Equal line by line but for space at the ends and empty lines; numbers with a fraction within 1e-6."""
    wanted, gotten = ([line.split() for line in text.splitlines() if line.strip()] for text in (want, got))
    if [len(line) for line in wanted] != [len(line) for line in gotten]:
        return False
    return all(_same_word(*pair) for lines in zip(wanted, gotten, strict=True) for pair in zip(*lines, strict=True))


def _same_word(want: str, got: str) -> bool:
    if want == got:
        return True
    try:
        return "." in want and math.isclose(float(want), float(got), rel_tol=1e-6, abs_tol=1e-9)
    except ValueError:
        return False


def _same_shown(want: str, shown: str) -> bool:
    """As doctest compares, or equal as values (quotes and the order of a set do not matter). None shows nothing."""
    if want.strip() == "None" and not shown:
        return True
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    if doctest.OutputChecker().check_output(want, shown, flags):
        return True
    try:
        return same_value(ast.literal_eval(want.strip()), ast.literal_eval(shown.strip()))
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return False


def _same_error(want: str, got: str) -> bool:
    """The type decides when the example gives no more; else the text too."""
    return got == want or (":" not in want and got.partition(":")[0] == want)


def _is_function(pairs: Sequence[InOut], code: str) -> bool:
    """Whether the pairs are a function's arguments and values: all read so, and the code takes no standard input."""
    reads = re.search(r"\binput\s*\(|\bstdin\b|\bopen\s*\(\s*0\s*[,)]", code)
    return not reads and all(pair.arguments is not None for pair in pairs) and entry_point(code, "") is not None


def _shown_value(value: Any) -> str:
    try:
        return repr(value)
    except (ValueError, RecursionError):  # an integer of more than 4,300 digits
        return f"a very large {type(value).__name__}"


def _is_pair_of_text(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(part, str) for part in value)


def _short(text: str) -> str:
    """On one line, in quotes, at most so long."""
    shown = repr(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…")
    return shown if len(shown) <= 3 * _SHOWN else shown[: 3 * _SHOWN] + "…'"
