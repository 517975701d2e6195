"""GPU against CPU on a random-weight Qwen3-0.6B shape: h, decisions, batches, SVF, and the price of a decision.

Tolerances: float32 on the GPU against float32 on the CPU 1e-3 (other summation order over 28 layers; h is about 1
each dimension); bfloat16 against float32: relative error of h 5 % and the same decision on at least 90 % of
transcripts, since near ties may fall the other way. A decision on cached turns may cost at most 1.5 times the bare
forward pass of transformers over the same new tokens on its own cache.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

TRANSCRIPTS, LOGITS, TURNS, NEW, QUESTION = 40, 10, 5, 400, 300


def main(shape: str) -> int:
    """Run all checks; 0 when all hold or when there is no GPU."""
    import torch

    if not torch.cuda.is_available():
        print("skipped: no CUDA device")
        return 0
    from core.backbone import load_backbone

    folder = Path(tempfile.mkdtemp())
    loaded = {
        key: load_backbone(shape, cache_dir=folder, device=device, dtype=dtype, cache_bytes=1 << 32)
        for key, device, dtype in (
            ("cpu", "cpu", "float32"),
            ("gpu32", "cuda", "float32"),
            ("gpu16", "cuda", "bfloat16"),
        )
    }
    facts: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "shape": shape}
    facts |= agreement(loaded) | population(loaded)
    for key in ("gpu32", "gpu16"):
        facts |= {f"{name}_{key}": value for name, value in decision_cost(loaded[key], shape).items()}
    limits = {
        "h_error_gpu32": (facts["h_error_gpu32"], 1e-3),
        "h_relative_gpu16": (facts["h_relative_gpu16"], 0.05),
        "batch_error_gpu32": (facts["batch_error_gpu32"], 1e-3),
        "population_error_gpu32": (facts["population_error_gpu32"], 1e-3),
        "decisions_differ_gpu32": (facts["decisions_differ_gpu32"], 0.0),
        "decisions_differ_gpu16": (facts["decisions_differ_gpu16"], 0.1),
        "over_floor_gpu32": (facts["over_floor_gpu32"], 1.5),
        "over_floor_gpu16": (facts["over_floor_gpu16"], 1.5),
    }
    failed = {name: {"found": found, "limit": limit} for name, (found, limit) in limits.items() if not found <= limit}
    print(json.dumps({**facts, "ok": not failed, "failed": failed}))
    return 1 if failed else 0


def transcripts(count: int) -> list[Any]:
    """Seeded transcripts of one to four parts; every other one has equal chunk lengths, so that rows form."""
    from core.backbone.base import Rendered
    from core.types import Message

    rng = np.random.default_rng(0)
    made = []
    for index in range(count):
        sizes = [40, 20] if index % 2 else rng.integers(1, 200, rng.integers(1, 5)).tolist()
        parts = ("".join(rng.choice(list("abcdefgh 0123456789+?"), size)) for size in sizes)
        made.append(Rendered("paper@1", (Message("system", "You choose who speaks next."),), tuple(parts)))
    return made


def agreement(loaded: dict[str, Any]) -> dict[str, float]:
    """Largest differences of h to the CPU, and the share of decisions that differ."""
    asked = transcripts(TRANSCRIPTS)
    single = {key: np.stack([one.hidden(text).vector for text in asked]) for key, one in loaded.items()}
    head = np.random.default_rng(1).normal(0, 0.03, (LOGITS, single["cpu"].shape[1]))
    choose = {key: _choices(h @ head.T) for key, h in single.items()}
    facts: dict[str, float] = {}
    for key in ("gpu32", "gpu16"):
        loaded[key].cache.clear()
        batched = np.stack([state.vector for state in loaded[key].hidden_batch(asked)])
        facts[f"h_error_{key}"] = float(np.abs(single[key] - single["cpu"]).max())
        norms = np.linalg.norm(single["cpu"], axis=1)
        facts[f"h_relative_{key}"] = float((np.linalg.norm(single[key] - single["cpu"], axis=1) / norms).max())
        facts[f"batch_error_{key}"] = float(np.abs(batched - single[key]).max())
        facts[f"decisions_differ_{key}"] = float((choose[key] != choose["cpu"]).any(axis=1).mean())
    return facts


def _choices(logits: Any) -> Any:
    return np.stack([logits[:, :7].argmax(1), logits[:, 7:].argmax(1)], axis=1)


def population(loaded: dict[str, Any]) -> dict[str, float]:
    """SVF candidates on the GPU against the CPU."""
    from core.svf import SvfLayout, population_hidden

    text, found = transcripts(1)[0], {}
    for key in ("cpu", "gpu32"):
        layout = SvfLayout.layer(loaded[key])
        offsets = np.random.default_rng(2).normal(0, 0.05, (4, layout.size)).astype(np.float32)
        found[key] = population_hidden(loaded[key], layout, offsets, text)
    return {"population_error_gpu32": float(np.abs(found["gpu32"] - found["cpu"]).max())}


def decision_cost(backbone: Any, shape: str) -> dict[str, float]:
    """Milliseconds of a five-turn conversation's decisions and of transformers' bare forward passes."""
    import torch
    from transformers import DynamicCache

    from core.backbone.chunks import ChunkReader
    from core.backbone.text import Tokens
    from core.bench.models import cache_argument, reference

    model = reference(backbone, shape)
    rng, closing = np.random.default_rng(3), backbone.text.closing
    head = rng.normal(0, 0.03, (LOGITS, backbone.hidden_size)).astype(np.float32)
    decisions, floors = [], []
    with torch.inference_mode():
        for _ in range(4):  # the first one warms up
            backbone.cache.clear()
            reader, memory = ChunkReader(backbone.engine, backbone.cache, b"gpu"), DynamicCache(config=model.config)
            chunks = [tuple(rng.integers(0, 4_096, n).tolist()) for n in (QUESTION, *[NEW] * (TURNS - 1))]
            spent = [0.0, 0.0]
            for turn in range(TURNS):
                tokens = Tokens(((), *chunks[: turn + 1]), closing)
                new = torch.tensor([[*chunks[turn], *closing[:-1]]], device=backbone.device)
                start = _now()
                np.argmax(head @ reader.read(tokens).state[0].float().cpu().numpy())
                middle = _now()
                model.model(new, **{cache_argument(model): memory}, use_cache=True)
                spent = [spent[0] + middle - start, spent[1] + _now() - middle]
                memory.crop(-(len(closing) - 1))
            decisions.append(spent[0])
            floors.append(spent[1])
    decision, floor = statistics.median(decisions[1:]), statistics.median(floors[1:])
    return {"decision_ms": 1e3 * decision / TURNS, "floor_ms": 1e3 * floor / TURNS, "over_floor": decision / floor}


def _now() -> float:
    import torch

    torch.cuda.synchronize()
    return time.perf_counter()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "shape:qwen3-0.6b"))
