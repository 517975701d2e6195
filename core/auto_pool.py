"""The `auto` pool: one strong and one fast model of each provider that the environment has a key for, and Ollama's own.

It changes when keys change, so a head cannot be trained on it: `trinity pool freeze auto --name X` writes it down.
"""

from __future__ import annotations

import re
from typing import Any

from core.errors import PoolInvalid
from core.settings import PROVIDER_KEYS, Settings

# Provider prefix -> {agent name: litellm id}. Ids as listed by litellm 1.110 (read 2026-12-01).
MODELS: dict[str, dict[str, str]] = {
    "openai": {"gpt-5.6": "openai/gpt-5.6", "gpt-5.4-mini": "openai/gpt-5.4-mini"},
    "anthropic": {"claude-sonnet-5-5": "anthropic/claude-sonnet-5-5", "claude-haiku-5-5": "anthropic/claude-haiku-5-5"},
    "gemini": {"gemini-3.1-pro": "gemini/gemini-3.1-pro-preview", "gemini-3.8-flash": "gemini/gemini-3.8-flash"},
    "openrouter": {
        "or-claude-sonnet-5-5": "openrouter/anthropic/claude-sonnet-5.5",
        "or-gpt-5.4-mini": "openrouter/openai/gpt-5.4-mini",
    },
    "deepseek": {"deepseek-v4-pro": "deepseek/deepseek-v4-pro", "deepseek-v4-flash": "deepseek/deepseek-v4-flash"},
    "groq": {"gpt-oss-120b": "groq/openai/gpt-oss-120b", "gpt-oss-20b": "groq/openai/gpt-oss-20b"},
    "mistral": {"mistral-large-4": "mistral/mistral-large-4", "mistral-small": "mistral/mistral-small-2603"},
    "deepinfra": {"qwen3-32b": "deepinfra/Qwen/Qwen3-32B", "gemma-3-27b-it": "deepinfra/google/gemma-3-27b-it"},
    "huggingface": {"hf-qwen3-32b": "huggingface/Qwen/Qwen3-32B"},
}
# USD per million tokens where litellm lists none: OpenRouter passes the vendor's list price on; for the routed Hugging
# Face model, the dearest of the hosts that litellm lists for it, since the router may pick any.
PRICES: dict[str, dict[str, float]] = {
    "or-claude-sonnet-5-5": {"input": 2.0, "output": 10.0},
    "or-gpt-5.4-mini": {"input": 0.75, "output": 4.5},
    "hf-qwen3-32b": {"input": 0.9, "output": 0.9},
}
OLLAMA_WAIT_S = 1.0  # a running Ollama answers in milliseconds; a missing one must not hold up the start


def auto_entries(settings: Settings) -> list[dict[str, Any]]:
    """Pool entries for every key present and every model a running Ollama offers (at most four).

    Raises PoolInvalid, naming the variables to set, when nothing is there.
    """
    entries: list[dict[str, Any]] = [
        {"name": name, "kind": "llm", "model": model, **({"price": PRICES[name]} if name in PRICES else {})}
        for variable, provider in PROVIDER_KEYS.items()
        if variable in settings.keys
        for name, model in MODELS.get(provider, {}).items()
    ]
    for model in ollama_models(settings.ollama_base)[:4]:
        name = "ollama-" + re.sub(r"[^a-z0-9._-]+", "-", model.lower()).strip("-")
        entries.append(
            {
                "name": name[:64],
                "kind": "llm",
                "model": f"ollama_chat/{model}",
                "api_base": settings.ollama_base,
                "free": True,
            }
        )
    if not entries:
        raise PoolInvalid(
            f"The pool `auto` is empty: set one of {', '.join(PROVIDER_KEYS)} or start Ollama; "
            "the pool `embedded` needs neither."
        )
    return entries


def ollama_models(base: str) -> list[str]:
    """Names of the models a running Ollama serves; empty when none answers."""
    import httpx

    try:
        reply = httpx.get(f"{base.rstrip('/')}/api/tags", timeout=OLLAMA_WAIT_S)
        reply.raise_for_status()
        return [str(model["name"]) for model in reply.json()["models"]]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError):
        return []
