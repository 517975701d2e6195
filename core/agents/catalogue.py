"""What litellm's price list says about a model, read from its JSON file without importing litellm (30 ms, not 3 s)."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

_FILE = "model_prices_and_context_window_backup.json"


@cache
def _table() -> dict[str, dict[str, Any]]:
    spec = importlib.util.find_spec("litellm")  # finds the package without running it
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / _FILE
        if path.is_file():
            table: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
            return table
    return {}


def split_model(model: str) -> tuple[str, str]:
    """`provider/rest` as (provider, rest); a bare id has the provider `openai`, as in litellm's default."""
    provider, slash, rest = model.partition("/")
    return (provider, rest) if slash else ("openai", model)


@cache
def entry(model: str) -> Mapping[str, Any]:
    """The list's entry for a litellm model id; empty when it is not listed.

    A bare id counts only for the provider that the entry names: the same weights cost differently elsewhere.
    """
    provider, rest = split_model(model)
    table = _table()
    if model in table:
        return table[model]
    found = table.get(rest)
    return found if found is not None and found.get("litellm_provider") == provider else {}
