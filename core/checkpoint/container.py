"""Reads a safetensors file that nobody vouches for: every size is checked before anything is allocated.

Not covered: what the numbers do. A well-formed head from a stranger routes as the stranger likes.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import CheckpointInvalid

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MOST_BYTES = 16 * 2**20
MOST_HEADER = 512 * 2**10
_WIDTH = {"F32": 4, "F64": 8}
_MAGIC = {
    b"PK\x03\x04": "a zip archive",
    b"\x80\x02": "a pickle",
    b"\x80\x03": "a pickle",
    b"\x80\x04": "a pickle",
    b"\x80\x05": "a pickle",
    b"\x93NUMPY": "a numpy file",
    b"\x1f\x8b": "a gzip file",
    b"GGUF": "a GGUF model",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor as the header announces it. `dtype` is F32 or F64."""

    dtype: str
    shape: tuple[int, ...]


Check = Callable[[Mapping[str, str], Mapping[str, Entry]], None]


def read_container(path: Path, check: Check) -> tuple[dict[str, str], dict[str, npt.NDArray[np.floating[Any]]]]:
    """Metadata and tensors of a safetensors file.

    Args:
        path: A regular file.
        check: Called with metadata and announced tensors before any data is read; raises to refuse.

    Returns:
        The metadata strings, and float32 or float64 arrays by name.

    Raises:
        CheckpointInvalid: Not such a file, damaged, too large, or refused by `check`.
    """
    size = file_size(path)
    try:
        with path.open("rb") as file:
            head = file.read(8)
            length = _header_length(path, head, size)
            raw = file.read(length)
            metadata, entries = _parse(raw, size - 8 - length)
            check(metadata, entries)
            data = head + raw + file.read(size - 8 - length)
    except OSError as error:
        raise CheckpointInvalid(f"{path} cannot be read ({error.strerror}).") from error
    if len(data) != size:
        raise CheckpointInvalid(f"{path.name} shrank while it was read, from {size} to {len(data)} bytes.")
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return metadata, load(data)
    except (SafetensorError, ValueError) as error:
        raise CheckpointInvalid(f"{path.name} is damaged: {error}.") from None


def file_size(path: Path, most: int = MOST_BYTES) -> int:
    """Size in bytes of a regular file of at most `most` bytes, else CheckpointInvalid."""
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        raise CheckpointInvalid(f"{path} cannot be read ({getattr(error, 'strerror', error)}).") from None
    if not stat.S_ISREG(found.st_mode):
        raise CheckpointInvalid(f"{path} is not a file.")
    if found.st_size > most:
        raise CheckpointInvalid(f"{path.name} has {found.st_size} bytes; the most is {most}.")
    return found.st_size


def foreign_format(head: bytes) -> str | None:
    """What kind of other file these first bytes belong to, or None."""
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


def _header_length(path: Path, head: bytes, size: int) -> int:
    if kind := foreign_format(head):
        raise CheckpointInvalid(f"{path.name} is {kind}, not a safetensors checkpoint.")
    if len(head) < 8:
        raise CheckpointInvalid(f"{path.name} has {size} bytes; that is too short for a safetensors file.")
    length = int.from_bytes(head, "little")
    if length > MOST_HEADER:
        raise CheckpointInvalid(f"{path.name} announces a header of {length} bytes; the most is {MOST_HEADER}.")
    if length > size - 8:
        raise CheckpointInvalid(
            f"{path.name} announces a header of {length} bytes but holds {size - 8}: it is cut off."
        )
    return length


def _parse(raw: bytes, data_bytes: int) -> tuple[dict[str, str], dict[str, Entry]]:
    header = strict_json(raw.decode("utf-8", "replace"), "the header")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise CheckpointInvalid("The header's metadata must be texts by name.")
    entries: dict[str, Entry] = {}
    spans: list[tuple[int, int]] = []
    for name, value in header.items():
        entries[name], span = _entry(name, value)
        spans.append(span)
    end = 0
    for start, stop in sorted(spans):
        if start != end:
            raise CheckpointInvalid(f"Tensor data begins at byte {start}; it must follow on at byte {end}.")
        end = stop
    if end != data_bytes:
        raise CheckpointInvalid(f"The header announces {end} bytes of data; the file holds {data_bytes}.")
    return metadata, entries


def _entry(name: str, value: Any) -> tuple[Entry, tuple[int, int]]:
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise CheckpointInvalid(f"Tensor {name[:80]!r} must be described by dtype, shape and data_offsets.")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if dtype not in ("F32", "F64"):
        raise CheckpointInvalid(f"Tensor {name[:80]!r} has the dtype {dtype!r:.40}; allowed are F32 and F64.")
    if not (_sizes(shape) and len(shape) <= 2 and _sizes(offsets) and len(offsets) == 2):
        raise CheckpointInvalid(f"Tensor {name[:80]!r} has no proper shape or offsets.")
    needed = prod(shape) * _WIDTH[dtype]
    if offsets[1] - offsets[0] != needed:
        raise CheckpointInvalid(
            f"Tensor {name[:80]!r} of shape {shape} needs {needed} bytes; its offsets span {offsets[1] - offsets[0]}."
        )
    return Entry(dtype, tuple(shape)), (offsets[0], offsets[1])


def _sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 2**40 for value in values)


def strict_json(text: str, label: str) -> dict[str, Any]:
    """A JSON object without repeated names, NaN or infinity; `label` names it in the error."""

    def no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in pairs}) != len(pairs):
            raise ValueError("a name stands there twice")
        return dict(pairs)

    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not a number")

    try:
        value = json.loads(text, object_pairs_hook=no_repeats, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise CheckpointInvalid(f"{label.capitalize()} is not proper JSON: {str(error)[:120]}.") from None
    if not isinstance(value, dict):
        raise CheckpointInvalid(f"{label.capitalize()} must be a JSON object.")
    return value
