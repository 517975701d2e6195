"""Prices: what a call costs, and the most it can cost before it is made. Money is exact in nano-dollars."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from core.agents.catalogue import entry
from core.types import Message, Usage

NANO = 1_000_000_000
_TIER = re.compile(r"input_cost_per_token_above_(\d+)k_tokens")
# What a chat template adds around a message, in tokens: role names and markers. The widest seen is 7.
_PER_MESSAGE = 16


def to_nano(usd: float) -> int:
    """Dollars as whole nano-dollars, rounded up: sums stay exact and never fall short."""
    return math.ceil(round(usd * NANO, 3))


def to_usd(nano: int) -> float:
    """Nano-dollars as dollars."""
    return nano / NANO


@dataclass(frozen=True, slots=True)
class Tier:
    """Other prices for prompts longer than `above` tokens."""

    above: int
    prompt: float
    completion: float


@dataclass(frozen=True, slots=True)
class Price:
    """USD per token. `cached` is the price of prompt tokens that the provider had in its own cache."""

    prompt: float
    completion: float
    cached: float | None = None
    tiers: tuple[Tier, ...] = ()

    @classmethod
    def per_million(cls, prompt: float, completion: float) -> Price:
        """A price as pool files state it: USD per million tokens."""
        return cls(prompt / 1e6, completion / 1e6)

    def _rates(self, prompt_tokens: int) -> tuple[float, float]:
        rates = (self.prompt, self.completion)
        for tier in self.tiers:
            if prompt_tokens > tier.above:
                rates = (tier.prompt, tier.completion)
        return rates

    def of(self, usage: Usage, cached_tokens: int = 0) -> float:
        """What this usage costs, in USD."""
        prompt, completion = self._rates(usage.prompt_tokens)
        cached = min(cached_tokens, usage.prompt_tokens) if self.cached is not None else 0
        fresh = usage.prompt_tokens - cached
        return fresh * prompt + cached * (self.cached or 0.0) + usage.completion_tokens * completion

    def at_most(self, prompt_tokens: int, completion_tokens: int) -> float:
        """The most a call can cost, in USD: no discount, and the dearest tier that the bound reaches."""
        prompt, completion = self._rates(prompt_tokens)
        return prompt_tokens * max(prompt, self.prompt) + completion_tokens * max(completion, self.completion)


FREE = Price(0.0, 0.0)


def listed_price(model: str) -> Price | None:
    """The list price of a litellm model id; None when it is unknown.

    The list has entries with both prices at 0 for models whose price it does not know (Hugging Face, previews):
    those count as unknown. A model that really is free says so in the pool file.
    """
    found = entry(model)
    prompt, completion = found.get("input_cost_per_token"), found.get("output_cost_per_token")
    if not _is_price(prompt) or not _is_price(completion) or not (prompt or completion):
        return None
    cached = found.get("cache_read_input_token_cost")
    return Price(prompt, completion, cached if _is_price(cached) else None, _tiers(found))


def _tiers(found: Mapping[str, Any]) -> tuple[Tier, ...]:
    tiers = []
    for name, prompt in found.items():
        match = _TIER.fullmatch(name)
        completion = found.get(name.replace("input", "output", 1), found.get("output_cost_per_token"))
        if match and _is_price(prompt) and _is_price(completion):
            tiers.append(Tier(int(match[1]) * 1000, prompt, completion))
    return tuple(sorted(tiers, key=lambda tier: tier.above))


def _is_price(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def prompt_bound(messages: tuple[Message, ...]) -> int:
    """A number of tokens that the prompt cannot exceed: its bytes (a token covers at least one) and the frame."""
    return sum(len(m.content.encode("utf-8", "surrogatepass")) + _PER_MESSAGE for m in messages) + _PER_MESSAGE
