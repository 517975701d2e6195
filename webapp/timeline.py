"""Turns -> plain JSON for the timeline (`static/js/timeline.js`): numbers and text, never markup.

A card is one turn: role, agent, model, seconds, tokens, cost, verdict, what was said, the probabilities of the
choice and of the runner-up, and plain sentences for whatever was out of the ordinary.
"""

from __future__ import annotations

import time
from typing import Any

from core.tally import Tally
from core.types import Decision, Role, Status, Turn
from webapp.asked import Asked
from webapp.i18n import count_of, say
from webapp.live import LiveTurn
from webapp.prose import clean

PREVIEW_CHARS = 280
Json = dict[str, Any]


def timeline(asked: Asked | None, lang: str, key: str = "") -> Json:
    """The value of the timeline component. `key` is the same for the whole life of a question on a page."""
    if asked is None:
        return {
            "seq": time.monotonic_ns(),
            "lang": lang,
            "cards": [],
            "summary": None,
            "running": False,
            "announce": "",
        }
    cards = [_card(live, asked, lang, f"{key}.{live.index}") for live in asked.turns]
    return {
        "seq": time.monotonic_ns(),
        "lang": lang,
        "question": asked.id,
        "running": asked.running,
        "cards": cards,
        "summary": summary(asked),
        "announce": _announce(asked, cards, lang),
    }


def summary(asked: Asked) -> Json | None:
    """The sums at the root: turns, seconds, tokens (None: unknown), dollars (None: unknown price)."""
    if asked.running and not asked.turns:
        return None
    return {
        "turns": sum(1 for live in asked.turns if live.turn is not None or not asked.running),
        "seconds": round(asked.seconds, 3),
        "tokens": None if _uncounted(asked) else asked.usage.total_tokens,
        "cost": asked.cost_usd,
        "checkpoint": clean(asked.checkpoint),
    }


def _uncounted(asked: Asked) -> bool:
    """Whether all that is known of the tokens is that a stopped reply, which had begun, never told its own."""
    cut = any(live.turn is not None and live.turn.finish == "stopped" and live.turn.text for live in asked.turns)
    return cut and asked.usage.total_tokens == 0


def _card(live: LiveTurn, asked: Asked, lang: str, key: str) -> Json:
    turn = live.turn
    decision = turn.decision if turn else live.decision
    role = turn.role if turn else (decision.role if decision else None)
    text = clean(turn.text if turn else live.text)
    moving = turn is None and asked.running
    return {
        "key": key,
        "index": live.index,
        "state": _state(live, asked),
        "live": moving,
        "role": role.value if role else None,
        "agent": turn.agent if turn else (decision.agent if decision else None),
        "model": clean(turn.model if turn else live.model),
        "seconds": round(_seconds(live, moving=moving), 3) if moving or turn else None,
        "draft": asked.running and role is Role.WORKER and bool(text),
        "text": text,
        "preview": _preview(text, role, turn),
        "reasoning": clean(turn.reasoning if turn else live.reasoning),
        "prompt": [{"role": m.role, "content": clean(m.content)} for m in (turn.prompt if turn else ())],
        **_figures(turn),
        **_verdict(turn),
        **_chances(decision),
        "failed": _failed(live),
        "notes": _notes(live, decision, asked, lang),
    }


def _state(live: LiveTurn, asked: Asked) -> str:
    """choosing | speaking | retrying while it runs; done | stopped | cut | error afterwards."""
    if live.turn is not None:
        if live.turn.finish == "stopped":
            return "stopped"
        if live.turn.error:
            return "cut" if live.turn.text else "error"
        return "done"
    if not asked.running:
        return "stopped" if asked.status is Status.STOPPED else "cut"
    if live.waiting:
        return "retrying"
    return "speaking" if live.decision else "choosing"


def _seconds(live: LiveTurn, *, moving: bool) -> float:
    if live.turn is None:
        return time.monotonic() - live.started if moving else 0.0
    deciding = live.turn.decision.elapsed_s if live.turn.decision else 0.0
    return live.turn.latency_s + deciding


def _preview(text: str, role: Role | None, turn: Turn | None) -> str:
    """The beginning of what was said; of a Verifier nothing once its verdict says it."""
    if role is Role.VERIFIER and turn is not None and turn.verdict is not None:
        return ""
    short = text.strip()
    return short if len(short) <= PREVIEW_CHARS else short[:PREVIEW_CHARS].rstrip() + "…"


def _figures(turn: Turn | None) -> Json:
    """Tokens, cost and times. Failed attempts count: the cards of a question sum up to its total."""
    if turn is None:
        return {"tokens": None, "cost": None, "tries": 1, "first_token": None, "finish": ""}
    tally = Tally.of([turn])
    uncounted = turn.finish == "stopped" and turn.text and tally.usage.total_tokens == 0
    tokens = {"prompt": tally.usage.prompt_tokens, "completion": tally.usage.completion_tokens}
    return {
        "tokens": None if uncounted else tokens,
        "cost": tally.cost_usd,
        "tries": turn.tries,
        "first_token": None if turn.first_token_s is None else round(turn.first_token_s, 3),
        "finish": turn.finish,
    }


def _verdict(turn: Turn | None) -> Json:
    if turn is None or turn.verdict is None:
        return {"verdict": None, "verdict_reason": "", "unparsed_verdict": False}
    return {
        "verdict": turn.verdict.value,
        "verdict_reason": clean(turn.verdict_reason),
        "unparsed_verdict": turn.unparsed_verdict,
    }


def _chances(decision: Decision | None) -> Json:
    """The head's two softmaxes, the probability of the chosen agent, and the agent that came next."""
    if decision is None:
        return {"agents": [], "roles": [], "choice": None, "runner_up": None, "decided_in": None, "read_token": ""}
    agents: list[Json] = [
        {"name": name, "p": float(p), "chosen": name == decision.agent, "masked": clean(decision.masked.get(name, ""))}
        for name, p in decision.agent_probs.items()
    ]
    others = [agent for agent in agents if not agent["chosen"] and agent["p"] > 0]
    runner_up = max(others, key=lambda agent: agent["p"], default=None)
    return {
        "agents": agents,
        "roles": [
            {"name": role.value, "p": float(p), "chosen": role is decision.role}
            for role, p in decision.role_probs.items()
        ],
        "choice": {"name": decision.agent, "p": float(decision.agent_probs.get(decision.agent, 0.0))},
        "runner_up": {"name": runner_up["name"], "p": runner_up["p"]} if runner_up else None,
        "decided_in": round(decision.elapsed_s, 4),
        "read_token": clean(decision.hidden.read_token.text) if decision.hidden else "",
    }


def _failed(live: LiveTurn) -> list[Json]:
    attempts = live.turn.failed if live.turn else tuple(attempt for attempt, _ in live.failed)
    return [{"agent": a.agent, "model": a.model, "error": clean(a.error), "text": clean(a.text)} for a in attempts]


def _notes(live: LiveTurn, decision: Decision | None, asked: Asked, lang: str) -> list[Json]:
    """Sentences for what was out of the ordinary, most serious first."""
    turn = live.turn
    notes = [{"kind": "error", "text": text} for text in _failure_notes(live, lang)]
    if turn is not None and turn.finish == "stopped":
        notes.append({"kind": "info", "text": say(lang, "note_stopped")})
    elif turn is not None and turn.error and (turn.text or not turn.failed):
        notes.append({"kind": "error", "text": clean(turn.error)})
    if turn is not None and turn.tries == 0:
        notes.append({"kind": "info", "text": say(lang, "note_remembered")})
    if turn is not None and turn.finish == "length":
        notes.append({"kind": "info", "text": say(lang, "note_length")})
    if turn is not None and turn.unparsed_verdict:
        notes.append({"kind": "info", "text": say(lang, "note_unparsed")})
    if decision is not None and decision.override is not None:
        notes.append({"kind": "info", "text": _override_note(decision, lang)})
    if decision is not None and decision.hidden is not None and decision.hidden.truncated:
        notes.append({"kind": "info", "text": say(lang, "note_truncated")})
    if turn is not None and turn.suggestion is not None:
        role = say(lang, f"role_{turn.suggestion.value}")
        notes.append({"kind": "info", "text": say(lang, "note_suggests", role=role)})
    return notes


def _failure_notes(live: LiveTurn, lang: str) -> list[str]:
    """What failed and what happens next, one sentence an attempt."""
    if live.turn is None:
        return [
            say(lang, "failed_retry", agent=a.agent, error=clean(a.error), seconds=f"{wait:.0f}", n=at + 1)
            if wait is not None
            else say(lang, "failed_next", agent=a.agent, error=clean(a.error))
            for at, (a, wait) in enumerate(live.failed)
        ]
    nobody = live.turn.error is not None and not live.turn.text
    after = [*(a.agent for a in live.turn.failed[1:]), "" if nobody else live.turn.agent]
    return [
        say(lang, _what_next(a.agent, next_one), agent=a.agent, error=clean(a.error), next=next_one)
        for a, next_one in zip(live.turn.failed, after, strict=False)
    ]


def _what_next(agent: str, next_one: str) -> str:
    if not next_one:
        return "failed_end"
    return "failed_again" if next_one == agent else "failed_handed"


def _override_note(decision: Decision, lang: str) -> str:
    return say(
        lang,
        f"override_{decision.override}",
        agent=decision.agent,
        role=say(lang, f"role_{decision.role.value}"),
        head_agent=decision.head_agent,
        head_role=say(lang, f"role_{decision.head_role.value}"),
    )


def _announce(asked: Asked, cards: list[Json], lang: str) -> str:
    """One sentence for a screen reader, changing with the state and never with the text."""
    if not asked.running:
        return say(
            lang, "announce_end", status=say(lang, f"status_{asked.status}"), turns=count_of(lang, "turn", len(cards))
        )
    if not cards:
        return say(lang, "announce_begin")
    last = cards[-1]
    role = say(lang, f"role_{last['role']}") if last["role"] else ""
    return say(lang, f"announce_{last['state']}", n=last["index"], role=role, agent=last["agent"] or "")
