"""A pool: named agents in a fixed order, read from a YAML preset or made from what the environment has keys for.

The order is part of the head: row k of a head means agent k. Presets are read-only.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.agents.base import Agent
from core.agents.kinds import FACTORIES
from core.calls.base import Account, Caller
from core.errors import AgentError, PoolInvalid
from core.settings import Settings
from core.types import ROLES, Role, Transcript

PRESETS = Path(__file__).parent / "pools"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
LARGEST_FILE = 1_000_000  # bytes
_FIELDS = {"name", "about", "note", "note_zh", "different_verifier", "agents"}


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """What a page or a list says about an agent. `unusable` is None, or why it cannot be called."""

    slot: int
    name: str
    model: str
    fingerprint: str
    free: bool
    roles: tuple[Role, ...]
    unusable: str | None


@dataclass(frozen=True, slots=True)
class Pool:
    """Agents in order. `note` is shown wherever the pool is used; `different_verifier` bars self-judgement."""

    name: str
    agents: tuple[Agent, ...]
    version: int = 1
    note: str = ""
    note_zh: str = ""
    different_verifier: bool = False
    # Keys the fences around other agents' text: repeatable in one process, not guessable by any model.
    nonce_key: bytes = field(default_factory=lambda: secrets.token_bytes(16), repr=False)

    def __getitem__(self, name: str) -> Agent:
        return self.agents[self.slot(name) - 1]

    def slot(self, name: str) -> int:
        """The 1-based place of an agent."""
        return next(place for place, agent in enumerate(self.agents, start=1) if agent.name == name)

    def describe(self) -> tuple[AgentInfo, ...]:
        """The members in order, with the roles they can play in general."""
        asked = Transcript("")
        return tuple(
            AgentInfo(
                slot=slot,
                name=agent.name,
                model=agent.model,
                fingerprint=agent.fingerprint,
                free=agent.free,
                roles=tuple(role for role in ROLES if agent.can_play(role, asked) is None),
                unusable=agent.unusable(),
            )
            for slot, agent in enumerate(self.agents, start=1)
        )

    def unusable(self) -> dict[str, str]:
        """Agents that cannot be called at all (no key, no sandbox), with the reason."""
        return {agent.name: why for agent in self.agents if (why := agent.unusable())}

    def warm(self) -> None:
        """Let every usable agent get ready, each on a thread of its own; returns at once."""

        def ready(agent: Agent) -> None:
            with contextlib.suppress(AgentError):  # the first question will meet it and say so
                if agent.unusable() is None:
                    agent.warm()

        for agent in self.agents:
            threading.Thread(target=ready, args=(agent,), name=f"warm-{agent.name}", daemon=True).start()

    def closed(self, caller: Caller, account: Account | None = None) -> dict[str, str]:
        """Agents that the caller does not let through at the moment (breaker open, cap reached)."""
        return {agent.name: why for agent in self.agents if (why := caller.closed_to(agent, account))}


def preset_names() -> list[str]:
    """The pools that ship with the program."""
    return sorted([path.stem for path in PRESETS.glob("*.yaml")] + ["auto"])


def load_pool(name: str, settings: Settings) -> Pool:
    """A preset by name, a pool frozen into the data folder, or a YAML file by path. Raises PoolInvalid."""
    if name == "auto":
        from core.auto_pool import auto_entries

        return build_pool({"name": "auto", "agents": auto_entries(settings)}, settings, where="auto")
    if name.endswith((".yaml", ".yml")):
        return read_pool(Path(name), settings)
    for folder in (PRESETS, settings.data_dir / "pools"):
        if _NAME.fullmatch(name) and (folder / f"{name}.yaml").is_file():
            return read_pool(folder / f"{name}.yaml", settings)
    raise PoolInvalid(f"There is no pool {name!r}; there are {', '.join(preset_names())}, or give a .yaml file.")


def read_pool(path: Path, settings: Settings) -> Pool:
    """Read one YAML file. Raises PoolInvalid naming the file and the field that is wrong."""
    import yaml

    try:
        if not path.is_file() or path.stat().st_size > LARGEST_FILE:
            raise PoolInvalid(f"Pool file {path} is not there, or no plain file of at most {LARGEST_FILE:,} bytes.")
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise PoolInvalid(f"Pool file {path} cannot be read: {' '.join(str(error).split())[:300]}") from error
    return build_pool(data, settings, where=str(path))


def build_pool(data: Any, settings: Settings, where: str = "pool") -> Pool:
    """A pool from plain data. Raises PoolInvalid."""
    if not isinstance(data, Mapping):
        raise PoolInvalid(f"{where}: a pool is a mapping with `name` and `agents`.")
    if stray := sorted(set(map(str, data)) - _FIELDS):
        raise PoolInvalid(f"{where}: unknown field {stray[0]!r}; a pool has {', '.join(sorted(_FIELDS))}.")
    entries = data.get("agents")
    if not isinstance(entries, Sequence) or isinstance(entries, str) or not entries:
        raise PoolInvalid(f"{where}: `agents` must be a list with at least one agent.")
    agents: list[Agent] = []
    for place, entry in enumerate(entries, start=1):
        agent = _build_agent(entry, agents, settings, f"{where}, agent {place}")
        if any(agent.name == other.name for other in agents):
            raise PoolInvalid(f"{where}: the name {agent.name!r} stands twice; names tie a head to its agents.")
        agents.append(agent)
    return Pool(
        name=_name(data, where),
        agents=tuple(agents),
        note=str(data.get("note", "")),
        note_zh=str(data.get("note_zh", "")),
        different_verifier=_flag(data, "different_verifier", where),
    )


def _build_agent(entry: Any, earlier: Sequence[Agent], settings: Settings, where: str) -> Agent:
    if not isinstance(entry, Mapping):
        raise PoolInvalid(f"{where}: an agent is a mapping with `name` and `kind`.")
    options = {str(key): value for key, value in entry.items()}
    name, kind = _name(options, where), options.pop("kind", None)
    options.pop("name")
    if not isinstance(kind, str) or kind not in FACTORIES:
        raise PoolInvalid(f"{where}: kind {kind!r:.80} is not known; there are {', '.join(FACTORIES)}.")
    try:
        return FACTORIES[kind](name, options, earlier, settings)
    except (TypeError, ValueError, KeyError) as error:
        raise PoolInvalid(f"{where} ({name}): {error}") from error


def _flag(data: Mapping[str, Any], field: str, where: str) -> bool:
    value = data.get(field, False)
    if not isinstance(value, bool):
        raise PoolInvalid(f"{where}: `{field}` must be true or false; it is {value!r}.")
    return value


def _name(data: Mapping[str, Any], where: str) -> str:
    name = data.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise PoolInvalid(f"{where}: `name` must be lower-case letters, digits, dots and dashes; it is {name!r:.80}.")
    return name
