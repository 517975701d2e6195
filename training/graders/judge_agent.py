"""A pool agent as judge: asked through the same caller as every other call, so budget, ledger and deadline hold."""

from __future__ import annotations

import asyncio

from core.agents.base import Agent, Delta, Request
from core.calls.base import Account, Caller, Retry
from core.clock import Deadline
from core.types import Message, Role, Transcript
from training.graders.judge import Ask


def ask_agent(agent: Agent, caller: Caller, account: Account, seconds: float = 120.0) -> Ask:
    """A blocking function that puts one prompt to `agent` and returns its visible reply.

    It may be called from any thread that runs no event loop, and raises what the caller raises (AgentError,
    BudgetExceeded, DeadlineExceeded).
    """

    def ask(prompt: str) -> str:
        return asyncio.run(_reply(agent, caller, account, prompt, seconds))

    return ask


async def _reply(agent: Agent, caller: Caller, account: Account, prompt: str, seconds: float) -> str:
    request = Request(
        role=Role.WORKER,
        transcript=Transcript(prompt),
        messages=(Message("user", prompt),),
        nonce="",
        seed=0,
        timeout_s=seconds,
    )
    parts: list[str] = []
    async for piece in caller.stream(agent, request, deadline=Deadline.after(seconds), account=account):
        if isinstance(piece, Retry):
            parts.clear()
        elif isinstance(piece, Delta):
            parts.append(piece.text)
    return "".join(parts)
