"""A head's kind and sizes as plain data, to and from JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from core.errors import CheckpointInvalid
from core.types import ROLES

if TYPE_CHECKING:
    pass

Option: TypeAlias = bool | int | float

# Every option of every kind with its default. The default's type is the option's type.
OPTIONS: dict[str, dict[str, Option]] = {
    "linear": {"bias": False},
    "low_rank": {"rank": 20, "sigma": 1.0},
    "sparse": {},
    "block_diagonal": {"blocks": 2},
    "projected": {"directions": 8, "constant": True},
}
_MOST = {"hidden_size": 65_536, "n_agents": 1_000}


@dataclass(frozen=True)
class HeadSpec:
    """Kind, sizes and options of a head; missing options take their defaults.

    `hidden_size` is d of the coordinator model, `n_agents` is L. Raises CheckpointInvalid on anything unknown.
    """

    kind: str
    hidden_size: int
    n_agents: int
    options: Mapping[str, Option] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in OPTIONS:
            raise CheckpointInvalid(f"There is no head kind {self.kind!r}; there are: {', '.join(OPTIONS)}.")
        for name, most in _MOST.items():
            _check_int(name, getattr(self, name), most)
        object.__setattr__(self, "options", self._complete(self.options))

    @property
    def n_logits(self) -> int:
        """L agents and three roles."""
        return self.n_agents + len(ROLES)

    def to_json(self) -> dict[str, Any]:
        """Plain data for a checkpoint's metadata."""
        return {
            "kind": self.kind,
            "hidden_size": self.hidden_size,
            "n_agents": self.n_agents,
            "options": dict(self.options),
        }

    @classmethod
    def from_json(cls, data: Any) -> HeadSpec:
        """The inverse of `to_json`; every key is needed and no other is allowed."""
        keys = ("kind", "hidden_size", "n_agents", "options")
        if not isinstance(data, dict) or set(data) != set(keys):
            raise CheckpointInvalid(f"A head is described by {', '.join(keys)}; found {_shown(data)}.")
        return cls(**data)

    def _complete(self, given: Any) -> dict[str, Option]:
        known = OPTIONS[self.kind]
        if not isinstance(given, Mapping) or not set(given) <= set(known):
            raise CheckpointInvalid(
                f"A {self.kind} head has the options {', '.join(known) or 'none'}; found {_shown(given)}."
            )
        options = {**known, **given}
        for name, value in options.items():
            default = known[name]
            if isinstance(default, float) and type(value) is int:
                options[name] = float(value)
            elif type(value) is not type(default):
                raise CheckpointInvalid(f"Option {name} must be a {type(default).__name__}, not {value!r:.40}.")
        self._check_ranges(options)
        return options

    def _check_ranges(self, options: dict[str, Option]) -> None:
        most = {"rank": self.hidden_size, "blocks": self.n_logits, "directions": self.hidden_size}
        for name in most.keys() & options.keys():
            _check_int(name, options[name], most[name])
        sigma = options.get("sigma", 1.0)
        if not 0 < sigma < 1e6:
            raise CheckpointInvalid(f"Option sigma must be above 0 and below 1e6, not {sigma!r}.")


def _check_int(name: str, value: Any, most: int) -> None:
    if type(value) is not int or not 1 <= value <= most:
        raise CheckpointInvalid(f"{name} must be a whole number from 1 to {most}, not {value!r:.40}.")


def _shown(value: Any) -> str:
    return ", ".join(map(str, value))[:120] if isinstance(value, Mapping) else repr(value)[:120]
