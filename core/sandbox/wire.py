"""Plain values as one line of JSON, with the types that JSON lacks. Standard library only: the sandbox gets this text.

None, booleans, strings, lists and ordinary numbers are written as they are. Everything else is an object with one key
that names the type: `{"tuple": [...]}`, `{"dict": [[key, value], ...]}`, `{"int": "0x..."}`, `{"float": "nan"}`.
What is not plain data arrives as `Opaque`, which equals nothing: an object with an `__eq__` that says yes cannot cross.
"""

import json
import math

MOST_DEPTH = 60
MOST_BYTES = 1 << 20
# Sets and dictionaries are built from a stranger's keys: equal hashes would make that quadratic.
MOST_HASHED = 10_000
_HASH_MODULUS = (1 << 61) - 1
_PLAIN_INT = 1 << 53

TYPE_CHECKING = False  # importing `typing` for real takes 8 ms in every sandboxed process
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class WireError(ValueError):
    """The value is too large or too deep, or the text is not what `dump` writes."""


class Opaque:
    """Stands for a value that is not plain data. Equal to nothing but itself."""

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name

    def __repr__(self) -> str:
        return f"<{self.type_name} object: not plain data>"


def dump(value: "Any") -> str:
    """The value as one line. Raises WireError when it is too large or too deep (or contains itself)."""
    text = json.dumps(_pack(value, 0), allow_nan=False, separators=(",", ":"))
    if len(text) > MOST_BYTES:
        raise WireError(f"the value takes more than {MOST_BYTES} bytes")
    return text


def load(text: str) -> "Any":
    """The value of a line. Raises WireError for any text that `dump` does not write; never anything else."""
    try:
        return _Unpack().value(json.loads(text), 0)
    except WireError:
        raise
    except (ValueError, TypeError, RecursionError, OverflowError, KeyError) as error:
        raise WireError(f"the line is not a plain value ({type(error).__name__})") from None


def _pack(value: "Any", depth: int) -> "Any":
    if depth > MOST_DEPTH:
        raise WireError(f"the value is nested deeper than {MOST_DEPTH}")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        number = int(value)
        return number if -_PLAIN_INT < number < _PLAIN_INT else {"int": hex(number)}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}
    if isinstance(value, str):
        return str(value)
    return _pack_compound(value, depth + 1)


def _pack_compound(value: "Any", depth: int) -> "Any":
    if isinstance(value, list):
        return [_pack(item, depth) for item in value]
    for kind in (tuple, set, frozenset):
        if isinstance(value, kind):
            return {kind.__name__: [_pack(item, depth) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[_pack(key, depth), _pack(item, depth)] for key, item in value.items()]}
    if isinstance(value, bytes | bytearray):
        return {type(value).__name__ if type(value) in (bytes, bytearray) else "bytes": bytes(value).hex()}
    if isinstance(value, complex):
        return {"complex": [_pack(value.real, depth), _pack(value.imag, depth)]}
    if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0:
        return _pack(value.item(), depth)
    return {"opaque": type(value).__name__}


class _Unpack:
    """One message; counts what is hashed."""

    def __init__(self) -> None:
        self._hashed = 0

    def value(self, data: "Any", depth: int) -> "Any":
        if depth > MOST_DEPTH + 1:
            raise WireError(f"the value is nested deeper than {MOST_DEPTH}")
        if isinstance(data, list):
            return [self.value(item, depth + 1) for item in data]
        if not isinstance(data, dict):
            return data
        if len(data) != 1:
            raise WireError("an object of a line has exactly one key, its type")
        ((kind, content),) = data.items()
        return self._compound(kind, content, depth + 1)

    def _compound(self, kind: str, content: "Any", depth: int) -> "Any":
        if kind == "tuple":
            return tuple(self.value(item, depth) for item in _sized(content))
        if kind in ("set", "frozenset"):
            items = [self._key(item, depth) for item in _sized(content)]
            return set(items) if kind == "set" else frozenset(items)
        if kind == "dict":
            return {self._key(key, depth): self.value(item, depth) for key, item in _sized(content)}
        return _atom(kind, content)

    def _key(self, data: "Any", depth: int) -> "Any":
        self._hashed += 1
        key = self.value(data, depth)
        if self._hashed > MOST_HASHED:
            raise WireError(f"more than {MOST_HASHED} keys and set members")
        if isinstance(key, int) and abs(key) >= _HASH_MODULUS:
            raise WireError("a key or set member is too large an integer")
        return key


def _sized(content: "Any") -> "list[Any]":
    if not isinstance(content, list):
        raise WireError("a compound value must be a list")
    return content


def _atom(kind: str, content: "Any") -> "Any":
    if kind == "complex":
        return complex(*(_Unpack().value(part, 0) for part in content))
    if not isinstance(content, str):
        raise WireError(f"{kind} must be text")
    makers: dict[str, Callable[[str], Any]] = {
        "int": lambda text: int(text, 16),
        "float": float,
        "bytes": bytes.fromhex,
        "bytearray": bytearray.fromhex,
        "opaque": Opaque,
    }
    if kind not in makers:
        raise WireError("an object of a line has exactly one key, its type")
    return makers[kind](content)
