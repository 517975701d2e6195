"""Checkpoint files: where they lie, how they are written, and the strict way back.

One safetensors file: the tensors `theta`, and as needed `calibration.mean`, `calibration.scale`, `directions`
and `svf_offsets`; one metadata text `trinity` with everything else as JSON.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from core.assets import SHIPPED_CHECKPOINTS
from core.checkpoint.container import Entry, read_container, strict_json
from core.checkpoint.record import NAME, Checkpoint
from core.errors import CheckpointInvalid, ConfigError
from core.files import atomic_write
from core.heads import Calibration, HeadSpec, build_head
from core.transcript import PROTOCOLS, protocol_id
from core.types import ROLES, Role

if TYPE_CHECKING:
    import numpy.typing as npt

    from core.svf.layout import SvfLayout

FORMAT = 1
_MATRIX = re.compile(r"layers\.\d{1,4}\.[a-z_.]{1,80}\.weight|embed_tokens\.weight|lm_head\.weight")
SUFFIX = ".safetensors"
_KEYS = {
    "format",
    "name",
    "protocol",
    "backbone",
    "weights_hash",
    "agents",
    "roles",
    "head",
    "svf",
    "summary",
    "licence",
    "note",
}


def save_checkpoint(checkpoint: Checkpoint, path: Path) -> None:
    """Write a checkpoint to `path`, whole or not at all. Makes the folder. Raises OSError."""
    from safetensors.numpy import save

    tensors: dict[str, npt.NDArray[np.floating[Any]] | None] = {
        "theta": checkpoint.theta,
        "directions": checkpoint.directions,
        "svf_offsets": checkpoint.svf_offsets,
    }
    if checkpoint.calibration is not None:
        tensors["calibration.mean"] = checkpoint.calibration.mean
        tensors["calibration.scale"] = checkpoint.calibration.scale
    text = json.dumps({"format": FORMAT, **checkpoint.metadata()}, ensure_ascii=True, allow_nan=False)
    data = save(
        {name: np.ascontiguousarray(values) for name, values in tensors.items() if values is not None},
        {"trinity": text},
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, data)


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint strictly.

    Raises:
        CheckpointInvalid: Anything is missing, unknown, misshapen, not finite, too large, damaged, of another
            format or of another transcript wording; the text holds the two values that differ.
    """
    path = Path(path)
    found: dict[str, Any] = {}

    def check(metadata: Mapping[str, str], entries: Mapping[str, Entry]) -> None:
        found.update(_metadata(metadata))
        _check_tensors(found, entries)

    try:
        _, tensors = read_container(path, check)
        return _build(found, tensors)
    except CheckpointInvalid as error:
        raise CheckpointInvalid(f"Checkpoint file {path} is refused. {error}") from None


def known_checkpoints(data_dir: Path) -> dict[str, Path]:
    """Names and files of all checkpoints, own ones before shipped ones of the same name."""
    folders = (SHIPPED_CHECKPOINTS, data_dir / "checkpoints")
    return {file.stem: file for folder in folders for file in sorted(folder.glob(f"*{SUFFIX}")) if file.is_file()}


def find_checkpoint(name_or_path: str, data_dir: Path) -> Path:
    """The file of a checkpoint: a path when it has a slash or the suffix, else a known name.

    Raises:
        CheckpointInvalid: There is no such file; lists the known names.
    """
    is_path = "/" in name_or_path or "\\" in name_or_path or name_or_path.endswith(SUFFIX)
    known = known_checkpoints(data_dir)
    if not is_path and name_or_path in known:
        return known[name_or_path]
    with contextlib.suppress(OSError, ValueError):  # a name that no file system takes is no file
        if is_path and Path(name_or_path).is_file():
            return Path(name_or_path)
    raise CheckpointInvalid(
        f"There is no checkpoint {name_or_path!r:.200}; there are: {', '.join(sorted(known)) or 'none yet'}."
    )


def own_path(name: str, data_dir: Path) -> Path:
    """Where a checkpoint of this name is kept. Raises CheckpointInvalid for a name that is no name."""
    if not NAME.fullmatch(name):
        raise CheckpointInvalid(
            f"A checkpoint's name is 1 to 64 letters, digits, dots, dashes and underscores, not {name!r:.80}."
        )
    return data_dir / "checkpoints" / f"{name}{SUFFIX}"


def _metadata(metadata: Mapping[str, str]) -> dict[str, Any]:
    if set(metadata) != {"trinity"}:
        raise CheckpointInvalid(
            f"Its metadata must be `trinity`, not {', '.join(metadata)[:80] or 'empty'}: "
            "it is no checkpoint of this program."
        )
    data = strict_json(metadata["trinity"], "its metadata")
    if type(data.get("format")) is not int or data["format"] != FORMAT:  # true and 1.0 equal 1
        raise CheckpointInvalid(f"Its format is {data.get('format')!r:.20}; this program reads format {FORMAT}.")
    if set(data) != _KEYS:
        odd = sorted(set(data) ^ _KEYS)
        raise CheckpointInvalid(f"Its metadata lacks or has beside the known ones: {', '.join(odd)[:200]}.")
    _check_protocol(data["protocol"])
    return data


def _check_protocol(found: Any) -> None:
    name = found.partition("@")[0] if isinstance(found, str) else ""
    ours = protocol_id(name) if name in PROTOCOLS else f"only {', '.join(map(protocol_id, PROTOCOLS))}"
    if found != ours:
        raise CheckpointInvalid(
            f"It was trained on the transcript protocol {found!r:.80}; this program renders {ours}. Train a new head."
        )


def _check_tensors(data: Mapping[str, Any], entries: Mapping[str, Entry]) -> None:
    """Names, dtypes and shapes against the metadata, before any value is read."""
    spec = HeadSpec.from_json(data["head"])
    d = spec.hidden_size
    needed: dict[str, tuple[int, ...]] = {}
    blank = None
    if spec.kind == "projected":
        needed["directions"] = (int(spec.options["directions"]), d)
        blank = np.broadcast_to(np.float32(0), needed["directions"])  # takes no memory, whatever its size
    needed["theta"] = (build_head(spec, directions=blank).n_params,)
    if data["svf"] is not None:
        needed["svf_offsets"] = (_layout(data["svf"]).size,)
    if "calibration.mean" in entries or "calibration.scale" in entries:
        needed |= {"calibration.mean": (d,), "calibration.scale": (d,)}
    if set(entries) != set(needed):
        raise CheckpointInvalid(
            f"It holds the tensors {', '.join(sorted(entries))[:200] or 'none'}; "
            f"needed are {', '.join(sorted(needed))}."
        )
    for name, shape in needed.items():
        if entries[name].shape != shape:
            raise CheckpointInvalid(f"{name} has the shape {list(entries[name].shape)}; needed is {list(shape)}.")
        if name.startswith(("calibration", "directions")) and entries[name].dtype != "F32":
            raise CheckpointInvalid(f"{name} has the dtype {entries[name].dtype}; needed is F32.")


def _layout(data: Any) -> SvfLayout:
    from core.svf.layout import SvfLayout

    keys = {"kind", "mode", "names", "counts"}
    if not isinstance(data, dict) or set(data) != keys:
        raise CheckpointInvalid(f"An SVF layout is described by {', '.join(sorted(keys))}.")
    names, counts = data["names"], data["counts"]
    if not isinstance(names, list) or not all(isinstance(n, str) and _MATRIX.fullmatch(n) for n in names):
        raise CheckpointInvalid(f"SVF names must be those of weight matrices, not {names!r:.80}.")
    if data["kind"] == "layer" and not all(name.startswith("layers.") for name in names):
        raise CheckpointInvalid(f"An SVF layout of kind layer names matrices of layers only, not {names!r:.80}.")
    if len(set(names)) != len(names):
        raise CheckpointInvalid("An SVF layout names each matrix once.")
    if not isinstance(counts, list) or not all(type(count) is int and 0 < count <= 1_000_000 for count in counts):
        raise CheckpointInvalid(f"SVF counts must be whole numbers above 0, not {counts!r:.80}.")
    try:
        return SvfLayout(data["kind"], data["mode"], tuple(names), tuple(counts))
    except (ConfigError, TypeError) as error:
        raise CheckpointInvalid(str(error)) from None


def _build(data: Mapping[str, Any], tensors: Mapping[str, npt.NDArray[np.floating[Any]]]) -> Checkpoint:
    agents, roles = data["agents"], data["roles"]
    if not isinstance(agents, list) or not all(isinstance(agent, list) and len(agent) == 2 for agent in agents):
        raise CheckpointInvalid("agents must be a list of [name, fingerprint].")
    if not isinstance(roles, list) or not all(isinstance(role, str) and role in list(ROLES) for role in roles):
        raise CheckpointInvalid(f"roles must be {', '.join(ROLES)} in some order, not {roles!r:.80}.")
    if not isinstance(data["summary"], dict):
        raise CheckpointInvalid("summary must be a JSON object.")
    mean = tensors.get("calibration.mean")
    return Checkpoint(
        name=data["name"],
        protocol=data["protocol"],
        backbone=data["backbone"],
        weights_hash=data["weights_hash"],
        agents=tuple((name, fingerprint) for name, fingerprint in agents),
        spec=HeadSpec.from_json(data["head"]),
        theta=tensors["theta"],
        roles=tuple(Role(role) for role in roles),
        calibration=None if mean is None else Calibration(mean, tensors["calibration.scale"]),
        directions=tensors.get("directions"),
        svf=None if data["svf"] is None else _layout(data["svf"]),
        svf_offsets=tensors.get("svf_offsets"),
        summary=data["summary"],
        licence=data["licence"],
        note=data["note"],
    )
