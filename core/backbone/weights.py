"""Weights of a model folder: read from safetensors only, and identified by a hash of what they hold."""

from __future__ import annotations

import hashlib
import json
import mmap
import struct
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import ConfigError

if TYPE_CHECKING:
    import torch


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a folder. Raises ConfigError when there are none (pickles are never read)."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ConfigError(f"{folder} holds no *.safetensors file. Only that format is read; convert the model first.")
    return files


def read_config(folder: Path) -> dict[str, Any]:
    """config.json of a folder. Raises ConfigError when it is missing or no JSON object."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{folder / 'config.json'} cannot be read ({error}). Point to a model folder.") from error
    if not isinstance(config, dict):
        raise ConfigError(f"{folder / 'config.json'} is not a JSON object. Point to a model folder.")
    return config


def read_weights(folder: Path, dtype: torch.dtype, device: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors by name without the `model.` prefix and without the LM head, which is never used.

    On the CPU in the stored dtype they are views of the mapped file: copy what is to stay.
    """
    from safetensors import SafetensorError, safe_open

    for file in weight_files(folder):
        try:
            with safe_open(file, framework="pt", device="cpu") as opened:
                for name in opened.keys():  # noqa: SIM118 - it is no mapping
                    if not name.startswith("lm_head."):
                        yield name.removeprefix("model."), opened.get_tensor(name).to(device=device, dtype=dtype)
        except (SafetensorError, OSError) as error:
            raise ConfigError(f"{file} is damaged ({error}). Fetch the model again.") from error


def weights_hash(folder: Path, cache_dir: Path) -> str:
    """SHA-256 over names, dtypes, shapes and bytes of the tensors, in order of name.

    Stable across machines and file layouts. Hashing 538 MB takes 0.4 s, so the result is kept in the cache folder
    under the files' sizes and times of change.
    """
    files = weight_files(folder)
    facts = [(str(file.absolute()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    note = cache_dir / "hashes" / hashlib.sha256(repr(facts).encode()).hexdigest()
    with suppress(OSError):
        if len(known := note.read_text(encoding="ascii").strip()) == 64:
            return known
    found = _hash(files)
    with suppress(OSError):  # a read-only cache folder only costs time
        note.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=note.parent, delete=False) as part:
            part.write(found)
        Path(part.name).replace(note)
    return found


def _hash(files: list[Path]) -> str:
    tensors = [tensor for file in files for tensor in _tensors(file)]
    digest = hashlib.sha256()
    for name, kind, path, begin, end in sorted(tensors):
        digest.update(f"{name}\0{kind}\0".encode())
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            digest.update(memoryview(view)[begin:end])
    return digest.hexdigest()


def _tensors(path: Path) -> Iterator[tuple[str, str, Path, int, int]]:
    """(name, dtype and shape, file, first byte, last byte) of every tensor but the LM head."""
    try:
        with path.open("rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(size))
        for name, entry in header.items():
            if name != "__metadata__" and not name.startswith("lm_head."):
                begin, end = entry["data_offsets"]
                kind = f"{entry['dtype']}{entry['shape']}"
                yield name.removeprefix("model."), kind, path, 8 + size + begin, 8 + size + end
    except (OSError, ValueError, KeyError, TypeError, struct.error, MemoryError) as error:
        raise ConfigError(f"{path} is not a safetensors file ({error}). Fetch the model again.") from error
