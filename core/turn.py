"""One turn: decide, call, and hand over to the next best agent when the chosen one fails."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING

from core.agents.base import Agent, Delta, Request
from core.calls.base import Retry, Settled
from core.clock import Deadline
from core.errors import AgentError, BudgetExceeded, DeadlineExceeded, EmptyReply, PoolEmpty, TrinityError
from core.events import AttemptFailed, Decided, Event, TextDelta, TurnDone
from core.roles import prompt, read_suggestion, read_verdict
from core.tally import Tally
from core.types import Attempt, Decision, Role, Transcript, Turn, Usage

if TYPE_CHECKING:
    from core.run import Run


class TurnPlayer:
    """Plays turn `index` of a run. `play` yields its events; the last one is TurnDone unless nothing was said."""

    def __init__(
        self, run: Run, transcript: Transcript, index: int, deadline: Deadline, tally: Tally, suggestion: Role | None
    ) -> None:
        self.run = run
        self.transcript = transcript
        self.index = index
        self.deadline = deadline
        self.tally = tally
        self.suggestion = suggestion
        self.failed: list[Attempt] = []
        self.too_dear: dict[str, str] = {}
        self.decision: Decision | None = None
        self.turn: Turn | None = None  # the turn as far as it is spoken

    async def play(self) -> AsyncGenerator[Event, None]:
        """Decide and call until an agent has spoken.

        Raises PoolEmpty when nobody can, BudgetExceeded when only agents that cost too much are left, DeadlineExceeded
        or CancelledError; but first a TurnDone keeps what had arrived, be it only failed attempts.
        """
        try:
            while True:
                decision = self.decision = await self._decide()
                agent = self.run.pool[decision.agent]
                yield Decided(self.index, decision, agent.model)
                try:
                    async with aclosing(self._call(agent, decision)) as events:
                        async for event in events:
                            yield event
                    return
                except BudgetExceeded as error:
                    self.turn = None
                    self.too_dear[agent.name] = str(error)
                except AgentError as error:
                    yield AttemptFailed(self.index, self._fail(agent, error), None)
        except (asyncio.CancelledError, Exception) as error:
            if (closing := self._cut_short(error)) is not None:
                yield TurnDone(self.index, closing)
            if isinstance(error, PoolEmpty) and self.too_dear and not self.failed:
                raise BudgetExceeded("; ".join(self.too_dear.values())) from error
            raise

    async def _decide(self) -> Decision:
        run = self.run
        rules = run.rules(
            self.transcript,
            self.index,
            failed=[attempt.agent for attempt in self.failed],
            too_dear=self.too_dear,
            suggestion=self.suggestion,
        )
        try:
            async with asyncio.timeout(self.deadline.left()):
                return await run.policy.decide(self.transcript, rules, run.seed)
        except TimeoutError as error:
            raise DeadlineExceeded("The coordinator model did not decide in time") from error

    async def _call(self, agent: Agent, decision: Decision) -> AsyncGenerator[Event, None]:
        run, started = self.run, time.perf_counter()
        nonce = _digest(self.transcript, "nonce", key=run.pool.nonce_key)
        messages = prompt(decision.role, self.transcript, nonce, agent.prompt_style)
        request = Request(
            role=decision.role,
            transcript=self.transcript,
            messages=messages,
            nonce=nonce,
            seed=int(_digest(self.transcript, str(run.seed), agent.name)[:8], 16),
            timeout_s=self.deadline.left(),
        )
        turn = Turn(self.index, decision.role, agent.name, run.pool.slot(agent.name), agent.model, text="",
                    prompt=messages, decision=decision)  # fmt: skip
        self.turn = turn
        stream = run.caller.stream(agent, request, deadline=self.deadline, account=run.account)
        async with aclosing(stream) as pieces:  # type: ignore[type-var]  # callers are async generators
            async for piece in pieces:
                if isinstance(piece, Delta):
                    turn = replace(turn, text=turn.text + piece.text, reasoning=turn.reasoning + piece.reasoning)
                    yield TextDelta(self.index, piece.text, piece.reasoning)
                elif isinstance(piece, Retry):
                    turn = replace(turn, text="", reasoning="")
                    attempt = Attempt(agent.name, agent.model, piece.error, piece.partial, cost_usd=piece.cost_usd)
                    yield AttemptFailed(self.index, self._note(attempt), piece.wait_s)
                else:
                    turn = _settled(turn, piece)
                self.turn = replace(turn, latency_s=time.perf_counter() - started)
        if not turn.text.strip():
            raise EmptyReply(f"{agent.name} said nothing", cost_usd=turn.cost_usd)
        yield TurnDone(self.index, self._finish(_read(self.turn)))

    def _finish(self, turn: Turn) -> Turn:
        self.tally.add(turn)
        self.turn = None
        return replace(turn, failed=tuple(self.failed), tries=len(self.failed) + turn.tries)

    def _note(self, attempt: Attempt) -> Attempt:
        self.tally.add(attempt)
        self.failed.append(attempt)
        return attempt

    def _fail(self, agent: Agent, error: AgentError) -> Attempt:
        """The last request of a call that is given up, with the text that had arrived."""
        spoken, self.turn = self.turn, None
        text = error.partial or (spoken.text if spoken else "")
        usage = spoken.usage if spoken else Usage()
        return self._note(Attempt(agent.name, agent.model, str(error), text, usage, error.cost_usd))

    def _cut_short(self, error: BaseException) -> Turn | None:
        """The turn as far as it came; None when nothing was said and nothing failed."""
        note = _why_cut(error)
        finish = "stopped" if isinstance(error, asyncio.CancelledError) else "cut"
        if self.turn is not None:
            # The provider bills what it had written, and nobody tells how much that was.
            cost = 0.0 if self.run.pool[self.turn.agent].free else None
            return self._finish(replace(self.turn, finish=finish, error=note, cost_usd=cost))
        if not self.failed or self.decision is None:
            return None
        last, slot = self.failed[-1], self.run.pool.slot(self.failed[-1].agent)
        return Turn(self.index, self.decision.role, last.agent, slot, last.model, text="", finish=finish, error=note,
                    tries=len(self.failed), failed=tuple(self.failed), decision=self.decision)  # fmt: skip


def _why_cut(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "stopped by you"
    if isinstance(error, DeadlineExceeded):
        return "the time for this question was over"
    return str(error) if isinstance(error, TrinityError) else "something broke inside"


def _digest(transcript: Transcript, *parts: str, key: bytes = b"") -> str:
    """16 hex digits, a function of the transcript and `parts`; with a key nobody without it can guess them."""
    text = "\x1f".join([*parts, transcript.question, *(turn.text for turn in transcript.turns)])
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=8).hexdigest()


def _settled(turn: Turn, piece: Settled) -> Turn:
    done = piece.done
    return replace(
        turn,
        finish=done.finish,
        usage=done.usage,
        cost_usd=done.cost_usd,
        model=done.model or turn.model,
        tries=min(piece.tries, 1),  # the one that succeeded, or none for a remembered reply
        first_token_s=piece.first_token_s,
    )


def _read(turn: Turn) -> Turn:
    """Read what a Thinker suggests or a Verifier judges out of the finished text."""
    if turn.role is Role.THINKER:
        return replace(turn, suggestion=read_suggestion(turn.text))
    if turn.role is Role.VERIFIER:
        judged = read_verdict(turn.text)
        return replace(turn, verdict=judged.verdict, verdict_reason=judged.reason, unparsed_verdict=not judged.parsed)
    return turn
