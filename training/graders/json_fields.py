"""JSON fields: the reply's last JSON object must hold the expected fields with the expected values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from training.graders.base import Grade, GradeOutcome, failed, passed, too_long
from training.graders.commit import without_reasoning
from training.graders.exact import key

MAX_DEPTH = 40


class _Repeated(ValueError):
    """One field twice in an object: two alternatives."""


def grade_json_fields(reply: str, expected: Mapping[str, Any]) -> Grade:
    """Reward 1 when every field of `expected` is in the reply's last object with an equal value and type.

    Numbers compare by value, texts up to case and space, lists in order; further fields do not matter. A field that
    appears twice counts as several alternatives.
    """
    if refused := too_long(reply):
        return refused
    source = last_object(without_reasoning(reply))
    if source is None:
        return failed("", "The reply holds no complete JSON object.", GradeOutcome.NO_ANSWER)
    try:
        found = json.loads(source, object_pairs_hook=_pairs, parse_constant=_no_constant)
    except _Repeated as error:
        return failed(source, f"The field {error} appears twice in the object.", GradeOutcome.AMBIGUOUS)
    except (ValueError, RecursionError):
        return failed(source, "The last object of the reply is not valid JSON.", GradeOutcome.NO_ANSWER)
    for name, value in expected.items():
        if name not in found:
            return failed(source, f"The field {name!r} is missing.")
        if not same(found[name], value):
            return failed(source, f"The field {name!r} has another value.")
    return passed(source, "Every expected field has the expected value.")


def last_object(text: str) -> str | None:
    """The last balanced top-level `{…}` of a text, found in one pass, or None."""
    depth, start, found, quoted, escaped = 0, 0, None, False, False
    for at, char in enumerate(text):
        if quoted:
            escaped, quoted = (char == "\\" and not escaped), not (char == '"' and not escaped)
        elif char == '"' and depth:
            quoted = True
        elif char == "{":
            start = at if depth == 0 else start
            depth += 1
            if depth > MAX_DEPTH:
                return None
        elif char == "}" and depth:
            depth -= 1
            found = text[start : at + 1] if depth == 0 else found
    return found


def same(found: Any, expected: Any) -> bool:
    """Equal in value and kind; True is not 1."""
    if isinstance(found, bool) or isinstance(expected, bool):
        return found is expected
    if isinstance(found, str) and isinstance(expected, str):
        return key(found) == key(expected)
    if isinstance(found, int | float) and isinstance(expected, int | float):
        return found == expected
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(same(a, b) for a, b in zip(found, expected, strict=True))
    if isinstance(found, dict) and isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[name], expected[name]) for name in expected)
    return found is None and expected is None


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for name, value in pairs:
        if name in seen:
            raise _Repeated(repr(name))
        seen[name] = value
    return seen


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
