"""Drift guard: a closed model changes silently, so each agent answers a small stored probe set now and then.

The first look is the baseline (each probe several times, so that ordinary variation is known); later looks are
compared with it: answers, output length, latency, list price, and the model that the provider says it served.
"""

from __future__ import annotations

import json
import re
import statistics
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from core.agents.base import Agent, Delta, Request
from core.agents.catalogue import entry
from core.assets import STATIC
from core.calls.base import Account, Caller, Settled
from core.calls.budget import price_of
from core.clock import Deadline
from core.errors import TrinityError
from core.roles import prompt
from core.types import Role, Transcript

if TYPE_CHECKING:
    from core.store import Store

REPEATS = 3  # of the baseline
PROBE_S = 60.0
# Tokens that a probe may use, and so what it reserves at the most: the answers have a line or two. A model that may
# think first needs room for that, or its looks would end without an answer.
PROBE_TOKENS, THINKING_TOKENS = 96, 1024
# What counts as moved. Answers: more than a quarter of the probes changed. Length: half as long again, or a third
# shorter. Latency: twice as slow and at least half a second more; providers vary by less within a day.
ANSWER_SHARE = 0.25
LENGTH = (0.67, 1.5)
LATENCY, LATENCY_S = 2.0, 0.5
_SAME_ENOUGH = 0.5  # of the least likeness that the baseline's own repeats had


@dataclass(frozen=True, slots=True)
class Probe:
    """A fixed question, and a piece of text that a right answer holds."""

    id: str
    ask: str
    expect: str


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer to one probe."""

    text: str
    tokens: int
    seconds: float
    model: str


@dataclass(frozen=True, slots=True)
class Look:
    """All probes asked of one agent: probe id -> replies. `error` says why there are none."""

    agent: str
    fingerprint: str
    replies: dict[str, list[Reply]] = field(default_factory=dict)
    price: tuple[float, float] | None = None  # USD per million tokens, in and out
    error: str = ""

    @classmethod
    def of(cls, agent: str, fingerprint: str, data: dict[str, Any]) -> Look:
        """A stored look."""
        replies = {probe: [Reply(**reply) for reply in many] for probe, many in data["replies"].items()}
        return cls(agent, fingerprint, replies, tuple(data["price"]) if data["price"] else None, data["error"])

    def data(self) -> dict[str, Any]:
        """As JSON data."""
        return {key: value for key, value in asdict(self).items() if key not in ("agent", "fingerprint")}


@dataclass(frozen=True, slots=True)
class Drift:
    """What moved: names among answers, length, latency, price, model; `notes` say it in plain words."""

    moved: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()  # ids of the probes whose answers changed


def load_probes() -> tuple[Probe, ...]:
    """The stored probe set."""
    lines = (STATIC / "probes" / "canary.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(Probe(**json.loads(line)) for line in lines if line.strip())


async def look_at(
    agent: Agent, caller: Caller, account: Account, *, repeats: int = 1, probes: Sequence[Probe] = ()
) -> Look:
    """Ask one agent every probe, `repeats` times. A failure ends the look and is its `error`."""
    price = price_of(agent)
    rates = (round(price.prompt * 1e6, 6), round(price.completion * 1e6, 6)) if price else None
    replies: dict[str, list[Reply]] = {}
    try:
        for probe in probes or load_probes():
            replies[probe.id] = [await _ask(agent, caller, account, probe, repeat) for repeat in range(repeats)]
    except TrinityError as error:
        return Look(agent.name, agent.fingerprint, price=rates, error=str(error))
    return Look(agent.name, agent.fingerprint, replies, rates)


async def _ask(agent: Agent, caller: Caller, account: Account, probe: Probe, repeat: int) -> Reply:
    talk = Transcript(probe.ask)
    messages = prompt(Role.WORKER, talk, "canary", agent.prompt_style)
    request = Request(Role.WORKER, talk, messages, "canary", repeat, PROBE_S, _tokens(agent), sample=repeat)
    text, started, tokens, model = "", time.perf_counter(), 0, agent.model
    stream = caller.stream(agent, request, deadline=Deadline.after(PROBE_S), account=account)
    async with aclosing(stream) as pieces:  # type: ignore[type-var]  # callers are async generators
        async for piece in pieces:
            if isinstance(piece, Delta):
                text += piece.text
            elif isinstance(piece, Settled):
                tokens, model = piece.done.usage.completion_tokens, piece.done.model or agent.model
            else:
                text, started = "", time.perf_counter()
    return Reply(text, tokens, round(time.perf_counter() - started, 3), model)


def _tokens(agent: Agent) -> int:
    options = getattr(agent, "options", None)
    thinks = getattr(options, "thinking", None) or getattr(options, "reasoning_effort", None)
    listed = entry(agent.model)
    return THINKING_TOKENS if thinks or not listed or listed.get("supports_reasoning") else PROBE_TOKENS


def compare(before: Look, now: Look, probes: Sequence[Probe] = ()) -> Drift:
    """What moved between a baseline and a later look."""
    findings: dict[str, str] = {}
    known = [probe for probe in probes or load_probes() if probe.id in before.replies and probe.id in now.replies]
    changed = tuple(p.id for p in known if _answer_changed(p, before.replies[p.id], now.replies[p.id]))
    if len(changed) > ANSWER_SHARE * len(known):
        findings["answers"] = f"{len(changed)} of {len(known)} answers changed ({', '.join(changed)})"
    old, new = _everything(before, known), _everything(now, known)
    if known and old and new:
        findings |= _numbers(old, new)
    if before.price != now.price:
        findings["price"] = f"list price {_rates(before.price)} -> {_rates(now.price)}"
    return Drift(tuple(findings), tuple(findings.values()), changed)


def _numbers(old: list[Reply], new: list[Reply]) -> dict[str, str]:
    found: dict[str, str] = {}
    length, length_now = (statistics.median(r.tokens for r in side) for side in (old, new))
    if length and length_now and not LENGTH[0] <= length_now / length <= LENGTH[1]:
        found["length"] = f"median answer {length:.0f} -> {length_now:.0f} tokens"
    latency, latency_now = (statistics.median(r.seconds for r in side) for side in (old, new))
    if latency_now > LATENCY * latency and latency_now - latency > LATENCY_S:
        found["latency"] = f"median answer after {latency:.1f} -> {latency_now:.1f} s"
    models, models_now = ({r.model for r in side} for side in (old, new))
    if not models_now & models:
        found["model"] = f"served model {', '.join(sorted(models))} -> {', '.join(sorted(models_now))}"
    return found


def _answer_changed(probe: Probe, before: list[Reply], now: list[Reply]) -> bool:
    """A right answer that is now wrong, or a text unlike any of the baseline's, given how those vary themselves."""
    old, new = [_plain(reply.text) for reply in before], [_plain(reply.text) for reply in now]
    expect = _plain(probe.expect)
    if all(expect in text for text in old):
        return not all(expect in text for text in new)
    own = min((_likeness(a, b) for i, a in enumerate(old) for b in old[i + 1 :]), default=1.0)
    return any(max(_likeness(text, other) for other in old) < _SAME_ENOUGH * own for text in new)


def _plain(text: str) -> str:
    return re.sub(r"\s+", "", text).casefold()


def _likeness(a: str, b: str) -> float:
    return SequenceMatcher(None, a[:2000], b[:2000], autojunk=False).ratio()


def _everything(look: Look, known: list[Probe]) -> list[Reply]:
    return [reply for probe in known for reply in look.replies[probe.id]]


def _rates(price: tuple[float, float] | None) -> str:
    return "unknown" if price is None else f"${price[0]:g}/${price[1]:g} per million"


def canary_report(store: Store) -> list[dict[str, Any]]:
    """The newest look at each agent beside its baseline, for the pool page: name, when, what moved, notes, error."""
    return [_line(store, kept.agent, kept.fingerprint, kept.created, kept.data) for kept in store.canary.latest()]


def _line(store: Store, agent: str, fingerprint: str, created: float, data: dict[str, Any]) -> dict[str, Any]:
    base = store.canary.baseline(agent, fingerprint)
    now = Look.of(agent, fingerprint, data)
    drift = Drift()
    if base is not None and not now.error:
        drift = compare(Look.of(agent, fingerprint, base.data), now)
    return {
        "agent": agent,
        "fingerprint": fingerprint,
        "looked": created,
        "baseline": base.created if base else None,
        "moved": list(drift.moved),
        "notes": list(drift.notes),
        "changed": list(drift.changed),
        "error": now.error,
    }
