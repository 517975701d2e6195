"""The public vector of the paper's authors (19,456 floats for Qwen3-0.6B), read from a file that the user names.

Layout: 9,216 singular-value offsets (nine matrices of 1,024, in the model's own order), then a linear head of 10
rows by 1,024: seven agents, then Worker, Thinker, Verifier. Its licence is not stated, so none is shipped.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from core.checkpoint.container import Entry, file_size, foreign_format, read_container
from core.checkpoint.record import MOST_VALUE, Checkpoint
from core.errors import CheckpointInvalid
from core.heads import HeadSpec
from core.svf.layout import PROJECTIONS
from core.transcript import protocol_id
from core.types import Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

BACKBONE = "Qwen/Qwen3-0.6B"
HIDDEN = 1024
# Names as in the pool preset `paper`, in the vector's slot order.
SLOTS = (
    "gpt-5",
    "claude-sonnet-4",
    "gemini-2.5-pro",
    "deepseek-r1-distill-qwen-32b",
    "gemma-3-27b-it",
    "qwen3-32b-reasoning",
    "qwen3-32b-direct",
)
ROLE_ROWS = (Role.WORKER, Role.THINKER, Role.VERIFIER)
MATRICES = (
    "embed_tokens.weight",
    *(f"layers.26.{name}.weight" for name in PROJECTIONS),
    "lm_head.weight",
)
OFFSETS = len(MATRICES) * HIDDEN
LENGTH = OFFSETS + (len(SLOTS) + len(ROLE_ROWS)) * HIDDEN
_LONGEST_NPY_HEADER = 4096


def import_vector(path: Path, *, name: str, embedding: str, protocol: str = "") -> Checkpoint:
    """The public vector as a checkpoint.

    Args:
        path: The vector as `.npy` or safetensors, float32 or float64, shape [19456].
        name: The checkpoint's name.
        embedding: `tied` lets offsets 8192:9216 rule the shared embedding and leaves 0:1024 dead; `separate`
            lets 0:1024 rule it, which is how the public routing fixture was recorded.
        protocol: A protocol's name; by default `authors` for tied and `fixture` for separate.

    Raises:
        CheckpointInvalid: The file is not that vector.
    """
    from core.svf.layout import SvfLayout

    vector = read_vector(path)
    return Checkpoint(
        name=name,
        protocol=protocol_id(protocol or {"tied": "authors"}.get(embedding, "fixture")),
        backbone=BACKBONE,
        weights_hash="",
        agents=tuple((slot, "") for slot in SLOTS),
        spec=HeadSpec("linear", HIDDEN, len(SLOTS)),
        theta=vector[OFFSETS:],
        roles=ROLE_ROWS,
        svf=SvfLayout("published", embedding, MATRICES, (HIDDEN,) * len(MATRICES)),
        svf_offsets=vector[:OFFSETS],
        summary={"origin": "imported vector", "floats": LENGTH},
        licence="not stated by its publisher; do not redistribute",
        note=f"the paper's public vector, {embedding} embedding",
    )


def export_vector(checkpoint: Checkpoint) -> bytes:
    """Offsets and head of a checkpoint as one flat `.npy`, offsets first, in the checkpoint's own row order."""
    parts = [checkpoint.theta] if checkpoint.svf_offsets is None else [checkpoint.svf_offsets, checkpoint.theta]
    file = io.BytesIO()
    np.save(file, np.concatenate(parts), allow_pickle=False)
    return file.getvalue()


def read_vector(path: Path) -> npt.NDArray[np.floating[Any]]:
    """The 19,456 floats of a file, finite, float32 or float64. Sizes are checked before anything is allocated."""
    path = Path(path)
    size = file_size(path)
    with path.open("rb") as file:
        start = file.read(8)
    try:
        if start.startswith(b"\x93NUMPY"):
            vector = _read_npy(path, size)
        elif kind := foreign_format(start):
            raise CheckpointInvalid(f"It is {kind}; needed is .npy or safetensors.")
        else:
            vector = _read_safetensors(path)
        if not np.isfinite(vector).all():
            raise CheckpointInvalid(f"It holds {int((~np.isfinite(vector)).sum())} values that are not finite.")
        largest = float(vector[np.argmax(np.abs(vector))])
        if abs(largest) > MOST_VALUE:
            raise CheckpointInvalid(f"It holds the value {largest:g}; the most is {MOST_VALUE:g} either way.")
    except CheckpointInvalid as error:
        raise CheckpointInvalid(f"Vector file {path} is refused. {error}") from None
    return vector


def _read_npy(path: Path, size: int) -> npt.NDArray[np.floating[Any]]:
    from numpy.lib import format as npy

    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    with path.open("rb") as file:
        try:
            version = npy.read_magic(file)
            if version not in readers:
                raise CheckpointInvalid(f"It is of npy version {version}; needed is 1.0 or 2.0.")
            shape, _, dtype = readers[version](file, max_header_size=_LONGEST_NPY_HEADER)
        except (CheckpointInvalid, OSError):
            raise
        except Exception as error:  # numpy tokenizes and evaluates the header: what that raises has no list
            raise CheckpointInvalid(f"Its npy header is damaged ({str(error)[:120]}).") from None
        _check_vector(shape, str(dtype), dtype.kind == "f" and dtype.itemsize in (4, 8))
        needed = file.tell() + LENGTH * dtype.itemsize
        if size != needed:
            raise CheckpointInvalid(f"It has {size} bytes; its header announces {needed}.")
        raw = np.frombuffer(file.read(LENGTH * dtype.itemsize), dtype=dtype)
    return raw.astype(np.float32 if dtype.itemsize == 4 else np.float64)


def _read_safetensors(path: Path) -> npt.NDArray[np.floating[Any]]:
    def check(metadata: Mapping[str, str], entries: Mapping[str, Entry]) -> None:
        if len(entries) != 1:
            raise CheckpointInvalid(f"It holds {len(entries)} tensors; needed is 1.")
        (entry,) = entries.values()
        _check_vector(entry.shape, entry.dtype, True)

    _, tensors = read_container(path, check)
    return next(iter(tensors.values()))


def _check_vector(shape: tuple[int, ...], dtype: str, is_float: bool) -> None:
    if not is_float:
        raise CheckpointInvalid(f"It has the dtype {dtype}; needed is float32 or float64.")
    if tuple(shape) != (LENGTH,):
        raise CheckpointInvalid(f"It has the shape {list(shape)}; needed is [{LENGTH}].")
