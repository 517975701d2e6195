"""The two sides of a benchmark: our backbone, and transformers' model with the same weights."""

from __future__ import annotations

import argparse
import inspect
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from core.backbone.huggingface import HuggingFaceBackbone
from core.settings import load_settings

if TYPE_CHECKING:
    import torch

CACHE_BYTES = 1 << 30  # one conversation of 1,900 tokens in float32 takes 435 MB on Qwen3-0.6B


def load(args: argparse.Namespace) -> tuple[HuggingFaceBackbone, str]:
    """The backbone a bench was asked for and its name. `--quick` loads bfloat16."""
    from core.backbone import load_backbone

    settings = load_settings()
    name = args.backbone or settings.backbone
    dtype = "bfloat16" if args.quick else settings.dtype
    loaded = load_backbone(
        name, cache_dir=settings.cache_dir, device=settings.device, dtype=dtype, cache_bytes=CACHE_BYTES
    )
    return loaded, name


def reference(backbone: HuggingFaceBackbone, name: str) -> Any:
    """transformers' causal LM with the backbone's weights. Its LM head is the token table (tied)."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    from core.backbone import shapes
    from core.backbone.load import model_folder
    from core.backbone.weights import read_config

    if name.startswith(shapes.PREFIX):
        config = shapes.shape_config(name.removeprefix(shapes.PREFIX))
    else:
        config = read_config(model_folder(name, load_settings().cache_dir))
    made = AutoConfig.for_model(**{**config, "tie_word_embeddings": True})
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(made, dtype=getattr(torch, backbone.dtype))
    engine: Any = backbone.engine
    inner = {key: engine.matrix(key) for key, _ in model.model.named_parameters()}
    model.model.load_state_dict(inner, assign=True)
    model.lm_head.weight = model.model.embed_tokens.weight
    model.model.rotary_emb = type(model.model.rotary_emb)(made).to(backbone.device)  # buffers are not in the weights
    return model.eval()


def cache_argument(model: Any) -> str:
    """What this version of transformers calls its key-value memory."""
    named = inspect.signature(type(model.model).forward).parameters
    return "cache" if "cache" in named else "past_key_values"


def seconds(work: Callable[[], object], device: str) -> float:
    """Wall-clock of one call, the device's queue included."""
    synchronise(device)
    start = time.perf_counter()
    work()
    synchronise(device)
    return time.perf_counter() - start


def synchronise(device: str) -> None:
    """Wait until an accelerator has done what it was given."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()
    elif device == "mps":
        torch.mps.synchronize()


def median(columns: list[list[float]]) -> list[float]:
    """Median over repetitions of each column, in whole microseconds."""
    return [round(statistics.median(values), 6) for values in zip(*columns, strict=True)]


def random_ids(generator: torch.Generator, vocabulary: int, count: int) -> tuple[int, ...]:
    """Seeded token ids."""
    import torch

    return tuple(torch.randint(vocabulary, (count,), generator=generator).tolist())


def circumstances(backbone: HuggingFaceBackbone, name: str, repetitions: int) -> dict[str, Any]:
    """What a reader needs to judge the figures."""
    import torch

    return {
        "backbone": name,
        "dtype": backbone.dtype,
        "device": backbone.device,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "repetitions": repetitions,
    }
