"""From a name in the settings to a Backbone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from core.backbone import install, shapes
from core.backbone.build import build_decoder
from core.backbone.chunks import Engine
from core.backbone.huggingface import HuggingFaceBackbone, Identity
from core.backbone.prefix import DEFAULT_CACHE_BYTES, PrefixCache
from core.backbone.shape import Shape, unsupported
from core.backbone.text import load_text
from core.backbone.weights import read_config, read_weights, weight_files, weights_hash
from core.errors import BackboneMissing, ConfigError

if TYPE_CHECKING:
    import torch

EMBEDDED = "embedded"
_HUB_FILES = ["*.json", "*.safetensors", "*.jinja"]


def load_backbone(
    name: str,
    *,
    cache_dir: Path,
    device: str = "auto",
    dtype: str = "auto",
    cache_bytes: int = DEFAULT_CACHE_BYTES,
) -> HuggingFaceBackbone:
    """Load the coordinator model.

    Args:
        name: `embedded`, a Hugging Face id (`Qwen/Qwen3-0.6B`), a local model folder, or `shape:NAME`.
        cache_dir: where converted weights and hashes are kept.
        device: `auto` takes cuda, then mps, then cpu.
        dtype: `float32` (`auto`) or `bfloat16`. h moves with the dtype, so a head is used with the one it was
            made with; float32 is the same on every device.
        cache_bytes: bound of the prefix cache.

    Raises:
        BackboneMissing: files are absent; the text names the command or the folder.
        ConfigError: the model, the device or the dtype cannot be used.
    """
    from core.runtime import prepare_environment

    prepare_environment()
    import torch

    place, kind = _device(device), _dtype(dtype)
    cache = PrefixCache(cache_bytes)
    label = str(kind).removeprefix("torch.")
    if name.startswith(shapes.PREFIX):
        config = shapes.shape_config(name.removeprefix(shapes.PREFIX))
        identity = Identity(name, shapes.recipe_hash(config), label, place)
        engine: Engine = shapes.random_decoder(config, kind, place)
        return HuggingFaceBackbone(identity, shapes.byte_text(), engine, cache=cache, folder=cache_dir)
    with torch.inference_mode():
        folder = model_folder(name, cache_dir)
        shown = install.MODEL_NAME if name == EMBEDDED else name
        identity = Identity(shown, weights_hash(folder, cache_dir), label, place)
        text, engine = load_text(folder), load_engine(folder, kind, place)
    return HuggingFaceBackbone(identity, text, engine, cache=cache, folder=cache_dir)


def load_engine(folder: Path, dtype: torch.dtype, device: str) -> Engine:
    """The fast forward pass where it knows the architecture, else the one of transformers."""
    config = read_config(folder)
    if unsupported(config):
        from core.backbone.transformers_engine import TransformersEngine

        return TransformersEngine.load(folder, dtype, device)
    try:
        return build_decoder(Shape.of(config), read_weights(folder, dtype, device))
    except (KeyError, ValueError, TypeError) as error:
        raise ConfigError(f"{folder}: config.json and weights do not fit ({error}). Fetch the model again.") from error


def model_folder(name: str, cache_dir: Path) -> Path:
    """The folder of a model that is no shape, fetched from the hub when it must be. Raises BackboneMissing."""
    if name == EMBEDDED:
        return install.require(cache_dir)
    local = Path(name).expanduser()
    if name and local.is_dir():
        weight_files(local)
        return local
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise BackboneMissing(
            f"There is no model folder {name!r}. Give a folder, a Hugging Face id (owner/name) or `embedded`."
        )
    return _from_hub(name)


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, allow_patterns=_HUB_FILES, local_files_only=True))
    except LocalEntryNotFoundError:
        pass  # not fetched before
    try:
        return Path(snapshot_download(name, allow_patterns=_HUB_FILES))
    except Exception as error:  # the hub client raises a dozen unrelated types
        why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise BackboneMissing(
            f"{name} is not on this machine and could not be fetched ({why}). Check the id and the network, "
            "or set TRINITY_BACKBONE=embedded."
        ) from error


def _device(wanted: str) -> str:
    import torch

    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if wanted == "auto":
        return next(name for name, there in present.items() if there)
    if not present.get(wanted):
        have = ", ".join(name for name, there in present.items() if there)
        raise ConfigError(f"TRINITY_DEVICE={wanted} is not available here; there is {have}. Use `auto`.")
    return wanted


def _dtype(wanted: str) -> torch.dtype:
    import torch

    known = {"auto": torch.float32, "float32": torch.float32, "bfloat16": torch.bfloat16}
    if wanted not in known:
        raise ConfigError(f"TRINITY_DTYPE must be one of {', '.join(known)}; it is {wanted!r}.")
    return known[wanted]
