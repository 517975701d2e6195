"""The kinds of agent a pool file can name, and how each is made. To add one: a module, a line here, a contract test.

A factory takes the agent's name, its other fields, the agents before it in the pool, and the settings; it raises
ValueError in plain words for a field that is wrong or unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from core.agents.base import Agent
from core.settings import Settings

Factory: TypeAlias = Callable[[str, Mapping[str, Any], Sequence[Agent], Settings], Agent]


def _llm(name: str, options: Mapping[str, Any], earlier: Sequence[Agent], settings: Settings) -> Agent:
    from core.agents.llm_factory import llm_agent

    return llm_agent(name, options, settings)


def _local(name: str, options: Mapping[str, Any], earlier: Sequence[Agent], settings: Settings) -> Agent:
    from core.agents.local import LocalAgent
    from core.backbone.install import gguf_path

    _only(options, "style")
    return LocalAgent(name, gguf_path(settings.cache_dir), style=str(options.get("style", "short")))


def _sympy(name: str, options: Mapping[str, Any], earlier: Sequence[Agent], settings: Settings) -> Agent:
    from core.agents.exact import SympyAgent

    _only(options)
    return SympyAgent(name)


def _agreement(name: str, options: Mapping[str, Any], earlier: Sequence[Agent], settings: Settings) -> Agent:
    from core.agents.agreement import AgreementAgent
    from core.backbone.install import gguf_path

    _only(options)
    return AgreementAgent(name, gguf_path(settings.cache_dir))


def _python(name: str, options: Mapping[str, Any], earlier: Sequence[Agent], settings: Settings) -> Agent:
    from core.agents.python import PythonAgent

    _only(options)
    return PythonAgent(name)


def _only(options: Mapping[str, Any], *fields: str) -> None:
    if stray := sorted(set(options) - set(fields)):
        raise ValueError(f"unknown field {stray[0]!r}" + (f"; there are {', '.join(fields)}" if fields else ""))


FACTORIES: dict[str, Factory] = {
    "llm": _llm,
    "local": _local,
    "sympy": _sympy,
    "agreement": _agreement,
    "python": _python,
}
