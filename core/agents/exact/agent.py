"""The exact-mathematics agent: computes as Worker, recomputes and compares as Verifier."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from core.agents.base import Agent, Delta, Done, Request
from core.agents.exact.claims import TOO_LARGE, UNDEFINED, claims
from core.agents.exact.engine import Engine, shared_engine
from core.agents.exact.questions import understand
from core.agents.exact.tasks import Task
from core.errors import AgentPermanent
from core.types import Role, Transcript, Usage, Verdict


class SympyAgent:
    """Exact mathematics from plain words, LaTeX or formulas: arithmetic, equations, calculus, number theory.

    Plays only where its own grammar reads the whole question, and says so otherwise. It sees a question in words;
    no text is ever evaluated as code (grammar.py, guarded.py).
    """

    model = "sympy"
    fingerprint = "sympy/exact@1"
    prompt_style = "tool"
    free = True

    def __init__(self, name: str = "sympy", engine: Engine | None = None) -> None:
        self.name = name
        self._engine = engine or shared_engine()
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="sympy")

    def warm(self) -> None:
        """Start a child process now (0.5 to 1 s). Blocking."""
        self._engine.warm()

    def unusable(self) -> str | None:
        """See Agent.unusable. It needs nothing that is not installed with the program."""
        return None

    def can_play(self, role: Role, transcript: Transcript) -> str | None:
        """See Agent.can_play. An empty question asks what it can do in general."""
        if role is Role.THINKER:
            return f"{self.name} calculates and checks; it cannot plan"
        if transcript.question and understand(transcript.question) is None:
            return f"{self.name} cannot read this as mathematics"
        return None

    async def reply(self, request: Request) -> AsyncIterator[Delta | Done]:
        """See Agent.reply."""
        task = understand(request.transcript.question)
        if task is None or request.role is Role.THINKER:
            raise AgentPermanent(self.can_play(request.role, request.transcript) or f"{self.name} cannot do this")
        if request.role is Role.VERIFIER:
            text = await self._judge(task, request.transcript)
        else:
            text = statement(task, await self._compute(task.as_json()))
        yield Delta(text)
        yield Done("stop", Usage())

    async def _compute(self, request: dict[str, Any]) -> dict[str, Any]:
        cancelled = threading.Event()
        future = asyncio.get_running_loop().run_in_executor(self._threads, self._engine.compute, request, cancelled)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            cancelled.set()
            future.add_done_callback(lambda done: done.exception())  # nobody else asks for it
            raise

    async def _judge(self, task: Task, transcript: Transcript) -> str:
        answer = transcript.answer
        if answer is None:
            raise AgentPermanent("There is no answer to check yet.")
        reply = await self._compute(task.as_json() | {"claims": claims(task, answer)})
        outcome, true = reply["outcome"], statement(task, reply)
        if (
            outcome != "cannot" and answer.strip() == true
        ):  # also where the value is written in words it cannot read back
            return _verdict(True, f"Recomputed: {true}")
        if outcome in ("too_large", "undefined"):
            right = bool((TOO_LARGE if outcome == "too_large" else UNDEFINED).search(answer))
            return _verdict(right, f"Recomputed: {true}")
        if outcome == "cannot":
            raise AgentPermanent(f"{self.name} could not recompute it ({reply['text']}).")
        if reply["right"] is None:
            return _verdict(False, f"Recomputed: {true} The answer names no value that can be compared.")
        return _verdict(reply["right"], f"Recomputed: {true} The answer {'agrees' if reply['right'] else 'differs'}.")


def statement(task: Task, reply: dict[str, Any]) -> str:
    """One line: what was computed and what came out. Raises AgentPermanent where sympy found no way."""
    outcome = reply["outcome"]
    if outcome == "too_large":
        digits = reply.get("digits") or 0
        about = f" (about {digits:,.0f} digits)" if 0 < digits < 1e15 else ""
        return f"{task.shown} is too large to be written out{about}."
    if outcome == "undefined":
        return f"{task.shown} is undefined: {reply['text']}."
    if outcome == "cannot":
        raise AgentPermanent(f"sympy could not do it: {reply['text']}")
    text: str = reply["text"]
    if reply["own_sentence"]:
        return text
    if task.kind == "solve":
        return f"{text} (from {task.shown})" if "=" in text else f"{task.shown}: {text}."
    if text.startswith(f"{task.shown} (about "):
        return f"{task.shown} is about {text[len(task.shown) + 8 : -1]}"
    if text.startswith(f"{task.shown} = "):
        return text
    joint = {"divisors": ": ", "primesbelow": ": ", "nthprime": " is ", "nextprime": " is "}.get(task.kind, " = ")
    return f"{task.shown}{joint}{text}"


def _verdict(right: bool, reason: str) -> str:
    return f"{reason}\nVERDICT: {Verdict.ACCEPT if right else Verdict.REVISE}"


_conforms: type[Agent] = SympyAgent
