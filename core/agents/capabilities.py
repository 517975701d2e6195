"""What a model accepts: from litellm's list, overruled by the pool file, corrected by what the provider refuses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from core.agents.catalogue import entry, split_model

EFFORTS = ("none", "minimal", "low", "medium", "high")
_SILENT_IS_LEAST = ("anthropic", "deepseek")  # thinking is off, or cannot be turned down, unless asked for
_REFUSAL = re.compile(
    r"unsupported|n[o']t support|unrecognized|unknown (?:name|parameter|field)|not allowed|unexpected|only the default|"
    r"extra inputs|not permitted|deprecated|use '?max_completion_tokens|cannot both",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Which optional parameters a model takes.

    `effort` is the least reasoning it can be asked for, None when nothing should be said about it.
    `context_length` and `max_output` are in tokens, None when not known.
    """

    temperature: bool = True
    effort: str | None = None
    system_role: bool = True
    max_tokens_name: str = "max_tokens"
    context_length: int | None = None
    max_output: int | None = None

    def without(self, name: str) -> Capabilities:
        """What is left after the provider refused a parameter."""
        if name == "temperature":
            return replace(self, temperature=False)
        if name == "reasoning_effort":
            return replace(self, effort=None)
        if name == "system":
            return replace(self, system_role=False)
        other = "max_completion_tokens" if self.max_tokens_name == "max_tokens" else "max_tokens"
        return replace(self, max_tokens_name=other)


FIELDS = tuple(Capabilities.__dataclass_fields__)


def capabilities_of(model: str, overrides: Mapping[str, Any] | None = None) -> Capabilities:
    """The capabilities of a litellm model id. Raises ValueError naming an override that is not one."""
    found = entry(model)
    known = Capabilities(
        effort=_least_effort(model, found),
        system_role=found.get("supports_system_messages") is not False,
        context_length=_count(found.get("max_input_tokens")),
        max_output=_count(found.get("max_output_tokens")),
    )
    chosen = dict(overrides or {})
    if stray := sorted(set(chosen) - set(FIELDS)):
        raise ValueError(f"capabilities: {stray[0]!r} is not one of {', '.join(FIELDS)}")
    if chosen.get("effort") not in (None, *EFFORTS):
        raise ValueError(f"capabilities: effort must be one of {', '.join(EFFORTS)}, or null")
    if chosen.get("max_tokens_name", "max_tokens") not in ("max_tokens", "max_completion_tokens"):
        raise ValueError("capabilities: max_tokens_name must be max_tokens or max_completion_tokens")
    return replace(known, **chosen)


def _least_effort(model: str, found: Mapping[str, Any]) -> str | None:
    """The paper's setting is minimal reasoning effort; each provider spells the least of it differently."""
    provider, _ = split_model(model)
    if not found.get("supports_reasoning") or provider in _SILENT_IS_LEAST:
        return None
    if isinstance(levels := found.get("reasoning_effort_levels"), list) and levels:
        return next((effort for effort in EFFORTS if effort in levels), None)
    if found.get("supports_minimal_reasoning_effort"):
        return "minimal"
    if found.get("supports_none_reasoning_effort"):
        return "none"
    return {"gemini": "minimal", "openai": "low"}.get(provider)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def refused_parameter(message: str) -> str | None:
    """The optional parameter that a provider's 400 names as the trouble, or None."""
    if not _REFUSAL.search(message):
        return None
    lowered = message.lower()
    if "max_tokens" in lowered or "max_completion_tokens" in lowered:
        return "max_tokens"
    for name, words in _WORDS.items():
        if any(word in lowered for word in words):
            return name
    return None


_WORDS = {
    "temperature": ("temperature",),
    "reasoning_effort": ("reasoning_effort", "reasoning.effort", "thinking", "reasoning effort"),
    "system": ("system role", "role 'system'", "system message", "system instruction", "developer instruction"),
}
