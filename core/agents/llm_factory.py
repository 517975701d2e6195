"""Makes an `llm` agent from a pool file's entry, and refuses what a pool file may not decide.

Providers are allow-listed; a server of one's own (`api_base`) takes its key from a `TRINITY_KEY_*` variable only,
so that no pool file can send a provider's key elsewhere; values that name an environment variable the way litellm
reads them are rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from core.agents.capabilities import EFFORTS
from core.agents.catalogue import split_model
from core.agents.llm import LlmAgent, LlmOptions
from core.agents.prices import Price
from core.settings import PROVIDER_KEYS, Secret, Settings
from core.types import Role

PROVIDERS = (*PROVIDER_KEYS.values(), "ollama", "ollama_chat")
_OPTIONS = ("max_tokens", "temperature", "reasoning_effort", "thinking", "repetition_penalty", "capabilities")
FIELDS = ("model", "prompt_style", "api_base", "key", "free", "price", "roles", *_OPTIONS)


def llm_agent(name: str, options: Mapping[str, Any], settings: Settings) -> LlmAgent:
    """The agent of one pool entry. Raises ValueError in plain words."""
    _check(options)
    model = str(options["model"])
    api_base = options.get("api_base")
    key, key_name = _key(model, api_base, options.get("key"), settings)
    chosen: dict[str, Any] = {field: options[field] for field in _OPTIONS if field in options}
    if "roles" in options:
        chosen["roles"] = tuple(Role(role) for role in options["roles"])
    return LlmAgent(
        name,
        model,
        prompt_style=str(options.get("prompt_style", "chat")),
        api_base=str(api_base) if api_base else None,
        key=key,
        key_name=key_name,
        free=bool(options.get("free", False)),
        price=_price(options.get("price")),
        options=LlmOptions(**chosen),
        secrets=settings.secrets(),
    )


def _check(options: Mapping[str, Any]) -> None:
    if stray := sorted(set(options) - set(FIELDS)):
        raise ValueError(f"unknown field {stray[0]!r}; an llm agent has {', '.join(FIELDS)}")
    model = options.get("model")
    if not isinstance(model, str) or "/" not in model:
        raise ValueError("`model` must be a litellm id such as openai/gpt-5-mini")
    if any("environ/" in str(value) for value in options.values()):
        raise ValueError("`…environ/NAME` is not taken; name the variable under `key`")
    provider, _ = split_model(model)
    if provider not in PROVIDERS:
        raise ValueError(
            f"provider {provider!r} is not one of {', '.join(PROVIDERS)}; for another server that speaks the "
            "OpenAI format write openai/MODEL with its `api_base`"
        )
    if options.get("reasoning_effort") not in (None, *EFFORTS):
        raise ValueError(f"`reasoning_effort` must be one of {', '.join(EFFORTS)}")
    if not isinstance(options.get("free", False), bool):
        raise ValueError("`free` must be true or false")
    if options.get("api_base"):
        _check_base(str(options["api_base"]))


def _check_base(address: str) -> None:
    try:
        parts = urlsplit(address)
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:
        port_is_fine = False
    if not port_is_fine or parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise ValueError("`api_base` must be an http(s) address without a user name, such as http://127.0.0.1:8080/v1")


def _key(model: str, api_base: Any, named: Any, settings: Settings) -> tuple[Secret | None, str]:
    """The key and the name of the variable it comes from; ("" where no key is needed)."""
    provider, _ = split_model(model)
    own = next((variable for variable, prefix in PROVIDER_KEYS.items() if prefix == provider), "")
    if named is None:
        name = "" if api_base else own
    else:
        name = str(named)
        if api_base and not name.startswith("TRINITY_KEY_"):
            raise ValueError("with `api_base`, `key` must name a TRINITY_KEY_… variable: keys of providers stay theirs")
        if not api_base and name != own and not name.startswith("TRINITY_KEY_"):
            raise ValueError(f"`key` must be {own} or a TRINITY_KEY_… variable")
    return settings.keys.get(name), name


def _price(value: Any) -> Price | None:
    if value is None:
        return None
    if not isinstance(value, Mapping) or set(value) != {"input", "output"}:
        raise ValueError("`price` must give `input` and `output` in USD per million tokens")
    numbers = [value["input"], value["output"]]
    if any(isinstance(n, bool) or not isinstance(n, int | float) or not 0 <= n < 1e6 for n in numbers):
        raise ValueError("`price` must hold two numbers from 0 up, in USD per million tokens")
    if not any(numbers):
        raise ValueError("a price of 0 says `free: true`")
    return Price.per_million(*map(float, numbers))
