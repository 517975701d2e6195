"""The key of a request: a hash of everything that was asked, so that the same key means the same question."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from core.agents.base import Agent, Request


def request_key(agent: Agent, request: Request) -> str:
    """SHA-256 over agent, parameters, full messages and sample number.

    The nonce of the fences is random and says nothing: it is replaced by a constant, so that the same conversation
    has the same key in every process.
    """
    what = {"agent": agent.name, "fingerprint": agent.fingerprint, "sample": request.sample, **_asked(agent, request)}
    text = json.dumps(what, sort_keys=True, default=str)
    if request.nonce:
        text = text.replace(request.nonce, "nonce")
    return hashlib.sha256(text.encode()).hexdigest()


def is_repeatable(agent: Agent, request: Request) -> bool:
    """Whether asking again would give the same reply: a provider's model at temperature 0.

    Agents in this process are not remembered: they cost nothing, and a new answer after a mended tool is wanted.
    """
    return hasattr(agent, "asked") and _asked(agent, request).get("temperature") == 0


def _asked(agent: Agent, request: Request) -> dict[str, Any]:
    """What the agent sends; for agents of this process, all that they may read."""
    if hasattr(agent, "asked"):
        sent: dict[str, Any] = agent.asked(request)
        return sent
    talk = request.transcript
    return {
        "role": request.role,
        "messages": [[m.role, m.content] for m in request.messages],
        "question": talk.question,
        "history": [[m.role, m.content] for m in talk.history],
        "turns": [[turn.role, turn.agent, turn.text] for turn in talk.turns],
        "max_tokens": request.max_tokens,
        "seed": request.seed,
    }
