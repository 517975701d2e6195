"""How often the embedded Verifiers err: on a committed list of 100 answers, half of them wrong.

False accept: a wrong answer accepted. False revise: a right answer refused. Each rate comes with its Wilson 95 %
interval (Wilson 1927). Ten of the wrong facts are answers that the embedded model gives itself: the harder case.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from core.agents.agreement import AgreementAgent
from core.agents.base import Agent, Delta, Request
from core.agents.exact import SympyAgent
from core.assets import STATIC
from core.backbone.install import gguf_path
from core.errors import AgentError
from core.roles import read_verdict
from core.settings import load_settings
from core.types import Role, Transcript, Turn, Verdict

PROBES = STATIC / "probes" / "embedded_verifier.jsonl"


@dataclass(frozen=True, slots=True)
class Probe:
    """One answer to judge."""

    id: str
    kind: str  # fact | sum
    question: str
    answer: str
    correct: bool
    source: str  # common knowledge | arithmetic | common mistake | SmolLM2


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of a probe. `agent` is empty when no Verifier could play; `accepted` is None then."""

    probe: Probe
    agent: str
    accepted: bool | None
    seconds: float


def read_probes() -> list[Probe]:
    """The committed list."""
    return [Probe(**json.loads(line)) for line in PROBES.read_text(encoding="utf-8").splitlines()]


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """The bench: every probe, or every fifth with --quick."""
    gguf = gguf_path(load_settings().cache_dir)
    verifiers: list[Agent] = [SympyAgent("sympy"), AgreementAgent("agreement", gguf)]
    probes = read_probes()[:: 5 if args.quick else 1]
    judged = asyncio.run(judge_all(probes, verifiers, args.seed))
    groups = {"all": judged} | {v.name: [j for j in judged if j.agent == v.name] for v in verifiers}
    own = [j for j in judged if j.probe.source == "SmolLM2"]
    return {
        "probes": len(probes),
        "not_judged": sum(j.accepted is None for j in judged),
        **{name: rates(group) for name, group in groups.items()},
        "false_accept_of_own_mistakes": _rate(own, lambda j: j.accepted is True),
        "errors": [j.probe.id for j in judged if j.accepted is not None and j.accepted != j.probe.correct],
    }


async def judge_all(probes: Iterable[Probe], verifiers: list[Agent], seed: int) -> list[Judged]:
    """Each probe by the first Verifier that can play it."""
    return [await _judge(probe, verifiers, seed + place) for place, probe in enumerate(probes)]


async def _judge(probe: Probe, verifiers: list[Agent], seed: int) -> Judged:
    asked = Transcript(probe.question, (Turn(1, Role.WORKER, "probe", 1, "probe", probe.answer),))
    agent = next((v for v in verifiers if v.can_play(Role.VERIFIER, asked) is None), None)
    if agent is None:
        return Judged(probe, "", None, 0.0)
    start = time.perf_counter()
    request = Request(Role.VERIFIER, asked, (), "", seed, 60.0)
    try:
        text = "".join([piece.text async for piece in agent.reply(request) if isinstance(piece, Delta)])
    except AgentError:
        return Judged(probe, agent.name, None, time.perf_counter() - start)
    return Judged(probe, agent.name, read_verdict(text).verdict is Verdict.ACCEPT, time.perf_counter() - start)


def rates(judged: list[Judged]) -> dict[str, Any]:
    """False-accept and false-revise rates with intervals, and the median time of a verdict in seconds."""
    seconds = sorted(j.seconds for j in judged if j.accepted is not None)
    return {
        "n": len(seconds),
        "false_accept": _rate([j for j in judged if not j.probe.correct], lambda j: j.accepted is True),
        "false_revise": _rate([j for j in judged if j.probe.correct], lambda j: j.accepted is False),
        "median_s": round(seconds[len(seconds) // 2], 3) if seconds else None,
    }


def _rate(judged: list[Judged], wrong: Any) -> dict[str, Any]:
    done = [j for j in judged if j.accepted is not None]
    count = sum(map(wrong, done))
    low, high = wilson(count, len(done))
    rate = round(count / len(done), 3) if done else None
    return {"count": count, "n": len(done), "rate": rate, "low": round(low, 3), "high": round(high, 3)}


def wilson(count: int, n: int, z: float = 1.959964) -> tuple[float, float]:
    """The 95 % interval of a proportion; (0, 1) when nothing was counted."""
    if n == 0:
        return 0.0, 1.0
    p, spread = count / n, z * z / n
    centre = (p + spread / 2) / (1 + spread)
    half = z * math.sqrt(p * (1 - p) / n + spread / (4 * n)) / (1 + spread)
    return max(0.0, centre - half), min(1.0, centre + half)
