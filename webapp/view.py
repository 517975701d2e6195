"""A conversation -> plain JSON for the chat component (`static/js/chat.js`)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from core.types import Reason, Status
from webapp.asked import Asked
from webapp.i18n import count_of, say
from webapp.live import LiveTurn
from webapp.prose import clean, prose
from webapp.timeline import summary

Json = dict[str, Any]

MAX_DRAFT_MARKDOWN = 8_000  # characters; a longer draft is shown plain, it is parsed anew at every update
_TONES = {
    Status.ACCEPTED: "ok",
    Status.UNVERIFIED: "neutral",
    Status.BUDGET_EXHAUSTED: "warn",
    Status.STOPPED: "stopped",
    Status.FAILED: "bad",
}
# Endings whose cause is only in the note, written by whoever saw it.
_TOLD = {Reason.MONEY, Reason.POOL_EMPTY, Reason.ERROR}


def chat(
    lang: str,
    conversation: str,
    questions: Sequence[tuple[str, Asked]],
    *,
    banner: Json | None = None,
    examples: Sequence[str] = (),
    pool_note: str = "",
    keep_address: bool = False,
) -> Json:
    """The value of the chat component: the questions with their keys, oldest first.

    `banner` is {tone, text}; `keep_address` leaves the page's address alone (an unknown conversation).
    """
    return {
        "seq": time.monotonic_ns(),
        "lang": lang,
        "conversation": conversation,
        "questions": [_question(key, asked, lang) for key, asked in questions],
        "banner": banner,
        "examples": list(examples),
        "pool_note": pool_note,
        "keep_address": keep_address,
    }


def _question(key: str, asked: Asked, lang: str) -> Json:
    plain = clean(asked.answer or "")
    return {
        "key": key,
        "id": asked.id,
        "text": clean(asked.text),
        "running": asked.running,
        "draft": asked.running and bool(plain),
        "step": _step(asked, lang) if asked.running else "",
        "answer": _answer(plain, draft=asked.running),
        "plain": plain,
        "tone": _TONES[asked.status] if asked.status else "running",
        "headline": "" if asked.running else headline(asked, lang),
        "detail": clean(asked.note) if asked.reason in _TOLD else "",
        "summary": summary(asked),
        "unsaved": say(lang, "unsaved", why=clean(asked.unsaved)) if asked.unsaved else "",
        "saved": not asked.unsaved,
        "thumb": asked.thumb,
        "thumb_reason": clean(asked.thumb_reason),
    }


def _answer(plain: str, *, draft: bool) -> list[Any]:
    if not plain:
        return []
    if draft and len(plain) > MAX_DRAFT_MARKDOWN:
        return [["p", {}, plain]]
    return prose(plain)


def headline(asked: Asked, lang: str) -> str:
    """How the question ended, in one short sentence."""
    turns = sum(1 for live in asked.turns if live.turn is not None)
    key = f"end_{asked.status}"
    if asked.status is Status.BUDGET_EXHAUSTED:
        key = f"end_{asked.reason}" if asked.reason else key
        if asked.reason is Reason.TURNS and not _judge(asked):
            key = "end_turns_unchecked"
    elif asked.reason is Reason.INTERRUPTED:
        key = "end_interrupted"
    elif asked.status is Status.FAILED and asked.reason is Reason.POOL_EMPTY:
        key = "end_pool_empty"
    return say(lang, key, turns=count_of(lang, "turn", turns), agent=_judge(asked))


def _judge(asked: Asked) -> str:
    """The agent that gave the last verdict."""
    return next((live.turn.agent for live in reversed(asked.turns) if live.turn and live.turn.verdict), "")


def _step(asked: Asked, lang: str) -> str:
    """What is going on right now."""
    if asked.stopping:
        return say(lang, "step_stopping")
    if asked.loading:
        return say(lang, "step_loading")
    last = asked.turns[-1] if asked.turns else None
    if last is None or last.decision is None or last.turn is not None:
        return say(lang, "step_choosing")
    return _speaking(last, lang)


def _speaking(live: LiveTurn, lang: str) -> str:
    assert live.decision is not None
    role = say(lang, f"role_{live.decision.role.value}")
    waits = not live.text and not live.reasoning and time.monotonic() - live.started > 10
    key = "step_still" if waits else "step_speaking"
    return say(lang, key, n=live.index, role=role, agent=live.decision.agent)
