"""What a population of 32 costs on one transcript of 1,024 tokens.

`heads_cost_ratio`: reading and 32 heads over reading and one head. `svf_passes`: 32 SVF candidates, shared trunk
included, in units of one full pass of the same engine (32 would be no sharing at all; 4 is an eighth of it).
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from core.backbone.base import Rendered
from core.bench import models

CANDIDATES, TOKENS, LOGITS = 32, 1_024, 10


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Fields of `trinity bench population`."""
    from core.svf import SvfLayout, population_hidden

    backbone, name = models.load(args)
    repetitions = args.repetitions or (1 if args.quick else 3)
    rng = np.random.default_rng(args.seed)
    rendered = _transcript(backbone, rng)
    layout = SvfLayout.layer(backbone)
    offsets = rng.normal(0, 0.05, (CANDIDATES, layout.size)).astype(np.float32)
    population_hidden(backbone, layout, offsets[:1], rendered)  # decompose and pack, once for all runs

    def full() -> None:
        backbone.cache.clear()
        backbone.hidden(rendered)

    def candidates() -> None:
        backbone.cache.clear()
        population_hidden(backbone, layout, offsets, rendered)

    full()
    passes = [models.seconds(full, backbone.device) for _ in range(2 * repetitions + 1)]
    populations = [models.seconds(candidates, backbone.device) for _ in range(repetitions)]
    one, many = _heads(backbone.hidden(rendered).vector, rng, backbone.device)
    read = statistics.median(passes)
    return {
        **models.circumstances(backbone, name, repetitions),
        "tokens": backbone.tokens(rendered).total,
        "candidates": CANDIDATES,
        "full_s": round(read, 6),
        "one_head_s": round(one, 8),
        "heads_s": round(many, 8),
        "heads_cost_ratio": round((read + many) / (read + one), 4),
        "svf_s": round(statistics.median(populations), 6),
        "svf_passes": round(statistics.median(populations) / read, 3),
    }


def _transcript(backbone: Any, rng: np.random.Generator) -> Rendered:
    """A question whose transcript has close to TOKENS tokens."""
    letters = np.array(list("abcdefgh "))
    text = "".join(rng.choice(letters, 8 * TOKENS))
    low, high = 0, len(text)
    while high - low > 1:
        middle = (low + high) // 2
        fits = backbone.text.tokens(Rendered("paper@1", (), (text[:middle],))).total <= TOKENS
        low, high = (middle, high) if fits else (low, middle)
    return Rendered("paper@1", (), (text[:low],))


def _heads(h: Any, rng: np.random.Generator, device: str) -> tuple[float, float]:
    """Seconds of one head and of all heads on a hidden state: medians of 50 calls."""
    weights = rng.normal(0, 0.03, (CANDIDATES, LOGITS, h.size)).astype(np.float32)

    def timed(work: Callable[[], object]) -> float:
        return statistics.median(models.seconds(work, device) for _ in range(50))

    return timed(lambda: weights[0] @ h), timed(lambda: (weights @ h).argmax(-1))
