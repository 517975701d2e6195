"""What a decision costs: a five-turn conversation, question of 300 tokens, 400 new tokens a turn.

Side by side in one process, turn by turn, so that a busy machine slows all sides alike:
- `incremental_s`: the coordinator's decision, cache lookup and head included;
- `full_s`: transformers' model without LM head reading the whole text again;
- `floor_s`: transformers' own forward of the same new tokens on its own cache;
- `lm_head_s`: a causal-LM forward with logits over the whole text, last turn only.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from core.backbone.chunks import ChunkReader
from core.backbone.text import Tokens
from core.bench import models

QUESTION, NEW, TURNS = 300, 400, 5
LOGITS = 10  # seven agents and three roles


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Fields of `trinity bench decision`."""
    import torch

    backbone, name = models.load(args)
    model = models.reference(backbone, name)
    repetitions = args.repetitions or (1 if args.quick else 3)
    generator = torch.Generator().manual_seed(args.seed)
    vocabulary = int(model.config.vocab_size)
    runs = []
    with torch.inference_mode():
        _warm_up(backbone, model)
        for _ in range(repetitions):
            chunks = [models.random_ids(generator, vocabulary, n) for n in (QUESTION, *[NEW] * (TURNS - 1))]
            runs.append(_conversation(backbone, model, chunks))
    return {**models.circumstances(backbone, name, repetitions), **_summary(runs)}


def _warm_up(backbone: Any, model: Any) -> None:
    import torch

    ids = torch.ones((1, 64), dtype=torch.long, device=backbone.device)
    model.model(ids, use_cache=False)
    backbone.engine.extend(backbone.engine.new_store(64), [[1] * 60], [1] * 4)


def _conversation(backbone: Any, model: Any, chunks: list[tuple[int, ...]]) -> dict[str, list[float]]:
    """Seconds of each side for every turn of one conversation."""
    import torch
    from transformers import DynamicCache

    backbone.cache.clear()
    reader = ChunkReader(backbone.engine, backbone.cache, b"bench")
    head = np.random.default_rng(0).normal(0, 0.03, (LOGITS, backbone.hidden_size)).astype(np.float32)
    closing, device, memory = backbone.text.closing, backbone.device, DynamicCache(config=model.config)
    times: dict[str, list[float]] = {"full_s": [], "incremental_s": [], "floor_s": [], "lm_head_s": []}
    for turn in range(len(chunks)):
        # The opening is empty: the question of 300 tokens stands for all that is read on the first turn.
        tokens = Tokens(((), *chunks[: turn + 1]), closing)
        whole = torch.tensor([[i for chunk in tokens.chunks for i in chunk] + list(closing)], device=device)
        new = torch.tensor([[*chunks[turn], *closing[:-1]]], device=device)

        def decide(tokens: Tokens = tokens) -> None:
            np.argmax(head @ reader.read(tokens).state[0].float().cpu().numpy())

        def floor(new: torch.Tensor = new) -> None:
            model.model(new, **{models.cache_argument(model): memory}, use_cache=True)

        times["full_s"].append(
            models.seconds(lambda whole=whole: model.model(whole, use_cache=False), device)  # type: ignore[misc]
        )
        times["incremental_s"].append(models.seconds(decide, device))
        times["floor_s"].append(models.seconds(floor, device))
        memory.crop(-(len(closing) - 1))
    times["lm_head_s"].append(models.seconds(lambda: model(whole, use_cache=False), device))
    return times


def _summary(runs: list[dict[str, list[float]]]) -> dict[str, Any]:
    """Medians over repetitions, and ratios of them."""
    found: dict[str, Any] = {key: models.median([run[key] for run in runs]) for key in runs[0]}
    total = sum(found["incremental_s"])
    return {
        **found,
        "ratio_total": round(sum(found["full_s"]) / total, 3),
        "ratio_last": round(found["full_s"][-1] / found["incremental_s"][-1], 3),
        "over_floor": round(total / sum(found["floor_s"]), 3),
        "ratio_lm_head": round(found["lm_head_s"][-1] / found["incremental_s"][-1], 3),
    }
