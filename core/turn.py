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
from core.errors import AgentError, BudgetExceeded, DeadlineExceeded, EmptyReply, PoolEmpty
from core.events import AttemptFailed, Decided, Event, TextDelta, TurnDone
from core.roles import prompt, read_suggestion, read_verdict
from core.rules import rules_for
from core.tally import Tally
from core.types import Attempt, Decision, Role, Transcript, Turn

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
        self.turn: Turn | None = None  # the turn as far as it is spoken

    async def play(self) -> AsyncGenerator[Event, None]:
        """Decide and call until an agent has spoken.

        Raises PoolEmpty when nobody can, BudgetExceeded when only agents that cost too much are left, and
        DeadlineExceeded or CancelledError after the text that had arrived was kept in a TurnDone.
        """
        while True:
            try:
                decision = await self._decide()
            except PoolEmpty as error:
                if self.failed:
                    yield TurnDone(self.index, self._nobody_spoke(str(error)))
                if self.too_dear and not self.failed:
                    raise BudgetExceeded("; ".join(self.too_dear.values())) from error
                raise
            agent = self.run.pool[decision.agent]
            yield Decided(self.index, decision, agent.model)
            try:
                async with aclosing(self._call(agent, decision)) as events:
                    async for event in events:
                        yield event
                return
            except BudgetExceeded as error:
                self.too_dear[agent.name] = str(error)
            except AgentError as error:
                yield AttemptFailed(self.index, self._note_failure(agent, error), None)
            except (asyncio.CancelledError, DeadlineExceeded) as error:
                cut = self._cut_short("stopped" if isinstance(error, asyncio.CancelledError) else "cut")
                if cut is not None:
                    yield TurnDone(self.index, cut)
                raise

    async def _decide(self) -> Decision:
        run = self.run
        rules = rules_for(
            self.transcript,
            run.pool.agents,
            masked={**run.masked(), **self.too_dear},
            failed=[attempt.agent for attempt in self.failed],
            last_turn=self.index == run.limits.max_turns,
            suggestion=self.suggestion,
            different_verifier=run.pool.different_verifier,
        )
        try:
            async with asyncio.timeout(self.deadline.left()):
                return await run.policy.decide(self.transcript, rules, run.seed)
        except TimeoutError as error:
            raise DeadlineExceeded("The coordinator model did not decide in time") from error

    async def _call(self, agent: Agent, decision: Decision) -> AsyncGenerator[Event, None]:
        run, started = self.run, time.perf_counter()
        nonce = self._derive("nonce")
        messages = prompt(decision.role, self.transcript, nonce, agent.prompt_style)
        request = Request(
            role=decision.role,
            transcript=self.transcript,
            messages=messages,
            nonce=nonce,
            seed=int(self._derive(agent.name)[:8], 16),
            timeout_s=self.deadline.left(),
        )
        turn = Turn(self.index, decision.role, agent.name, run.pool.slot(agent.name), agent.model, text="",
                    prompt=messages, decision=decision, failed=tuple(self.failed))  # fmt: skip
        self.turn = turn
        stream = run.caller.stream(agent, request, deadline=self.deadline, account=run.account)
        async with aclosing(stream) as pieces:  # type: ignore[type-var]  # callers are async generators
            async for piece in pieces:
                if isinstance(piece, Delta):
                    turn = replace(turn, text=turn.text + piece.text, reasoning=turn.reasoning + piece.reasoning)
                    yield TextDelta(self.index, piece.text, piece.reasoning)
                elif isinstance(piece, Retry):
                    attempt = Attempt(agent.name, agent.model, piece.error, piece.partial, cost_usd=piece.cost_usd)
                    turn = replace(turn, text="", reasoning="", failed=(*turn.failed, attempt))
                    self.tally.add(attempt)
                    yield AttemptFailed(self.index, attempt, piece.wait_s)
                else:
                    turn = _settled(turn, piece)
                self.turn = replace(turn, latency_s=time.perf_counter() - started)
        if not turn.text.strip():
            raise EmptyReply(f"{agent.name} said nothing", tries=turn.tries, cost_usd=turn.cost_usd)
        yield TurnDone(self.index, self._finish(_read(self.turn)))

    def _finish(self, turn: Turn) -> Turn:
        self.tally.add(turn)
        self.turn = None
        return turn

    def _note_failure(self, agent: Agent, error: AgentError) -> Attempt:
        spoken = self.turn
        earlier = spoken.failed[len(self.failed) :] if spoken else ()
        attempt = Attempt(
            agent.name,
            agent.model,
            str(error),
            error.partial or (spoken.text if spoken else ""),
            usage=spoken.usage if spoken else Attempt("", "", "").usage,
            cost_usd=error.cost_usd,
            tries=error.tries,
        )
        self.tally.add(attempt)
        self.failed += [*earlier, attempt]
        self.turn = None
        return attempt

    def _nobody_spoke(self, why: str) -> Turn:
        last = self.failed[-1]
        slot = self.run.pool.slot(last.agent)
        return Turn(self.index, Role.WORKER, last.agent, slot, last.model, text="", finish="cut", error=why,
                    cost_usd=0.0, failed=tuple(self.failed))  # fmt: skip

    def _cut_short(self, finish: str) -> Turn | None:
        """The turn as far as it came, or None when the agent had not been asked yet."""
        if self.turn is None:
            return None
        note = "stopped by you" if finish == "stopped" else "the time for this question was over"
        # The provider bills what it had written, and nobody tells how much that was.
        cost = 0.0 if self.run.pool[self.turn.agent].free else None
        return self._finish(replace(self.turn, finish=finish, error=note, cost_usd=cost))

    def _derive(self, purpose: str) -> str:
        """A hex string that is a function of the run's key, the transcript and `purpose`: repeatable, not guessable."""
        text = "\x1f".join([purpose, self.transcript.question, *(turn.text for turn in self.transcript.turns)])
        key = self.run.pool.nonce_key
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=8).hexdigest()


def _settled(turn: Turn, piece: Settled) -> Turn:
    done = piece.done
    return replace(
        turn,
        finish=done.finish,
        usage=done.usage,
        cost_usd=done.cost_usd,
        model=done.model or turn.model,
        tries=piece.tries,
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
