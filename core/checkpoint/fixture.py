"""Runs a routing fixture: recorded prompts with the agent and role another implementation chose for each.

Agreement shows that this program computes the same numbers as that implementation, not that the choices are good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from core.checkpoint.container import file_size, strict_json
from core.errors import CheckpointInvalid
from core.transcript import render_messages
from core.types import Message

if TYPE_CHECKING:
    import numpy.typing as npt

    from core.backbone.base import Backbone
    from core.checkpoint.record import Checkpoint

_MOST_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Case:
    """One prompt with the choice to expect, as row numbers: agents from 0, roles in the checkpoint's row order."""

    id: str
    messages: tuple[Message, ...]
    agent: int
    role: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the other implementation computed for a case: logits [L + 3] and the prompt's token count."""

    logits: tuple[float, ...]
    tokens: int | None


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case, run. Margins are the lead of the best logit over the second best; None beside nothing recorded."""

    id: str
    agent: int
    role: int
    expected_agent: int
    expected_role: int
    agent_margin: float
    role_margin: float
    read_token: str
    tokens: int
    logit_difference: float | None
    tokens_agree: bool | None

    @property
    def agrees(self) -> bool:
        """Whether agent and role are those expected."""
        return (self.agent, self.role) == (self.expected_agent, self.expected_role)


@dataclass(frozen=True, slots=True)
class FixtureReport:
    """All cases of one fixture."""

    results: tuple[CaseResult, ...]

    @property
    def agreeing(self) -> int:
        """Cases with the expected agent and role."""
        return sum(result.agrees for result in self.results)

    def to_json(self) -> dict[str, Any]:
        """Plain data: totals and one entry a case."""
        differences = [r.logit_difference for r in self.results if r.logit_difference is not None]
        return {
            "cases": len(self.results),
            "agreeing": self.agreeing,
            "agents_agreeing": sum(r.agent == r.expected_agent for r in self.results),
            "roles_agreeing": sum(r.role == r.expected_role for r in self.results),
            "smallest_agent_margin": min(r.agent_margin for r in self.results),
            "smallest_role_margin": min(r.role_margin for r in self.results),
            "largest_logit_difference": max(differences) if differences else None,
            "token_counts_agreeing": sum(bool(r.tokens_agree) for r in self.results),
            "results": [{**asdict(r), "agrees": r.agrees} for r in self.results],
        }


def run_fixture(
    checkpoint: Checkpoint, backbone: Backbone, cases: Sequence[Case], recorded: Mapping[str, Recorded] | None = None
) -> FixtureReport:
    """Read every case with `backbone` (the checkpoint's offsets already applied) and compare the choices.

    Raises:
        CheckpointInvalid: A case expects a row that the head does not have.
    """
    recorded = recorded or {}
    return FixtureReport(tuple(_run(checkpoint, backbone, case, recorded.get(case.id)) for case in cases))


def load_cases(path: Path) -> tuple[Case, ...]:
    """The cases of a fixture file. Raises CheckpointInvalid naming the case that is malformed."""
    cases = tuple(_case(number, entry) for number, entry in enumerate(_entries(path), 1))
    if len({case.id for case in cases}) != len(cases):
        raise CheckpointInvalid(f"{path.name} has two cases of the same id.")
    return cases


def load_recorded(path: Path) -> dict[str, Recorded]:
    """The recorded logits of a fixture, by case. Raises CheckpointInvalid naming the case that is malformed."""
    recorded = {}
    for number, entry in enumerate(_entries(path), 1):
        try:
            logits = [float(z) for z in (*entry["agent_logits_rounded"], *entry["role_logits_rounded"])]
            tokens = entry.get("token_count")
            recorded[_text(entry["id"])] = Recorded(tuple(logits), None if tokens is None else _row(tokens))
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointInvalid(f"Entry {number} of {path.name} is malformed ({error!r:.80}).") from None
    return recorded


def _run(checkpoint: Checkpoint, backbone: Backbone, case: Case, recorded: Recorded | None) -> CaseResult:
    count = checkpoint.spec.n_agents
    if case.agent >= count or case.role >= 3:
        raise CheckpointInvalid(
            f"Case {case.id} expects agent {case.agent}, role {case.role}; the head has {count}, 3."
        )
    state = backbone.hidden(render_messages(case.messages, backbone))
    z = checkpoint.head.logits(np.asarray(checkpoint.theta), state.vector)
    agents, roles = z[:count], z[count:]
    tokens = state.read_token.index + 2
    return CaseResult(
        id=case.id,
        agent=int(agents.argmax()),
        role=int(roles.argmax()),
        expected_agent=case.agent,
        expected_role=case.role,
        agent_margin=_margin(agents),
        role_margin=_margin(roles),
        read_token=state.read_token.text,
        tokens=tokens,
        logit_difference=None if recorded is None else _difference(z, recorded),
        tokens_agree=None if recorded is None or recorded.tokens is None else recorded.tokens == tokens,
    )


def _margin(logits: npt.NDArray[np.float64]) -> float:
    if len(logits) < 2:
        return 0.0
    second, first = np.sort(logits)[-2:]
    return float(first - second)


def _difference(z: npt.NDArray[np.float64], recorded: Recorded) -> float:
    if len(z) != len(recorded.logits):
        raise CheckpointInvalid(f"The head gives {len(z)} logits; {len(recorded.logits)} are recorded.")
    return float(np.abs(z - np.array(recorded.logits)).max())


def _entries(path: Path) -> list[dict[str, Any]]:
    file_size(path, _MOST_BYTES)
    data = strict_json(path.read_text(encoding="utf-8", errors="replace"), "the fixture")
    if data.get("schema_version") != 1:
        raise CheckpointInvalid(f"{path.name} has the schema {data.get('schema_version')!r:.40}; needed is 1.")
    entries = data.get("cases")
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise CheckpointInvalid(f"{path.name} has no list of cases.")
    return entries


def _case(number: int, entry: dict[str, Any]) -> Case:
    try:
        messages = tuple(Message(_text(m["role"]), _text(m["content"])) for m in entry["messages"])
        expected = entry["expected"]
        case = Case(_text(entry["id"]), messages, _row(expected["agent_id"]), _row(expected["role_id"]))
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointInvalid(f"Case {number} of the fixture is malformed ({error!r:.80}).") from None
    if not messages:
        raise CheckpointInvalid(f"Case {number} of the fixture has no messages.")
    return case


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is not text")
    return value


def _row(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r:.40} is not a row number")
    return value
