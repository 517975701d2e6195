"""One request: a place in the channel, a reservation, the stream under its time limits, the settlement."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import cast

from core.agents.base import Agent, Delta, Done, Request
from core.agents.prices import prompt_bound, to_nano
from core.calls.budget import hashed, price_of, refusal_text
from core.calls.concurrency import Channel
from core.clock import Deadline
from core.errors import AgentAmbiguous, AgentError, AgentPermanent, BudgetExceeded, DeadlineExceeded
from core.store.ledger import Cap, Entry, Ledger, Outcome, Refusal

log = logging.getLogger(__name__)
DEFAULT_MAX_TOKENS = 4096
# A server that ignores max_tokens must not fill the memory: eight characters a token are more than any prose has.
CHARS_PER_TOKEN, LEAST_CHARS = 8, 400_000


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Seconds. `call_s` bounds one request; `stall_s` the silence between two pieces of a provider's stream."""

    call_s: float = 120.0
    stall_s: float = 60.0


TIME_LIMITS = TimeLimits()


class OutOfTime(AgentAmbiguous):
    """One request took longer, or said more, than any may. It is not made again; another agent takes the turn."""


@dataclass(slots=True)
class Attempt:
    """A request about to be made. `text` is what has arrived, also when it fails."""

    agent: Agent
    request: Request
    key: str
    ledger: Ledger
    channel: Channel
    deadline: Deadline
    limits: TimeLimits
    caps: tuple[Cap, ...] = ()
    question: str = ""
    owner: str = ""
    run: str = ""
    process: str = ""
    text: str = ""
    reasoning: str = ""
    first_token_s: float | None = None

    async def pieces(self) -> AsyncGenerator[Delta | Done]:
        """The stream, ending with Done. Raises AgentError, BudgetExceeded (nothing was sent) or DeadlineExceeded.

        However this ends, the ledger knows: what may have been billed stays reserved.
        """
        async with self.channel.slot(self.deadline):
            entry = self._entry()
            await self._reserve(entry)
            started = time.perf_counter()
            outcome = self._lost("Stopped", entry)
            replies = self.agent.reply(replace(self.request, timeout_s=self.deadline.left(self.limits.call_s)))
            try:
                async for piece in self._timed(replies):
                    if isinstance(piece, Done):
                        outcome = self._answered(piece, entry)
                        yield piece
                        return
                    self.text, self.reasoning = self.text + piece.text, self.reasoning + piece.reasoning
                    self._check_size()
                    if self.first_token_s is None:
                        self.first_token_s = time.perf_counter() - started
                    yield piece
                raise AgentAmbiguous(f"{self.agent.name} ended its reply without the closing message", cost_usd=None)
            except AgentError as error:
                error.partial = error.partial or self.text
                outcome = self._failed(error, entry)
                raise
            except DeadlineExceeded:
                outcome = self._lost("DeadlineExceeded", entry)
                raise
            finally:
                self._settle(entry, outcome)
                await replies.aclose()  # type: ignore[attr-defined]  # every agent's reply is an async generator

    async def _timed(self, replies: AsyncIterator[Delta | Done]) -> AsyncIterator[Delta | Done]:
        """The agent's pieces, each under the time that is left; the clock stands while a piece is with its reader."""
        end = Deadline.after(self.limits.call_s)
        silence = self.limits.stall_s if hasattr(self.agent, "channel") else self.limits.call_s
        while True:
            try:
                async with asyncio.timeout(self.deadline.left(end.left(silence))) as timer:
                    piece = await anext(replies)
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                if not timer.expired():
                    raise AgentAmbiguous(f"{self.agent.name} timed out", cost_usd=None) from error
                raise self._too_slow(end) from None
            except (AgentError, BudgetExceeded, DeadlineExceeded):
                raise
            except Exception as error:
                log.exception("%s raised what no agent may raise", self.agent.name)
                raise AgentPermanent(f"{self.agent.name} broke ({type(error).__name__})", cost_usd=None) from None
            yield piece

    def _check_size(self) -> None:
        size = len(self.text) + len(self.reasoning)
        if size > LEAST_CHARS and size > (most := max(LEAST_CHARS, self._bound()[1] * CHARS_PER_TOKEN)):
            kept, self.text = self.text[: LEAST_CHARS // 10], ""
            raise OutOfTime(f"{self.agent.name} would not stop: over {most:,} characters", partial=kept, cost_usd=None)

    def _too_slow(self, end: Deadline) -> Exception:
        name, seconds = self.agent.name, self.limits
        if self.deadline.left() <= 0.001:
            return DeadlineExceeded(f"{name} did not finish in time")
        if end.left() <= 0.001:
            return OutOfTime(f"{name} did not finish within {seconds.call_s:.0f} s", cost_usd=None)
        return AgentAmbiguous(f"{name} fell silent for {seconds.stall_s:.0f} s", cost_usd=None)

    def _entry(self) -> Entry:
        prompt, completion = self._bound()
        price = price_of(self.agent)
        reserved = 0 if self.agent.free or price is None else to_nano(price.at_most(prompt, completion))
        return Entry(
            key=self.key,
            agent=self.agent.name,
            model=self.agent.model,
            channel=self.channel.name,
            question=self.question,
            owner_hash=hashed(self.owner),
            run=self.run,
            process=self.process,
            reserved=reserved,
            caps=() if self.agent.free else self.caps,
        )

    def _bound(self) -> tuple[int, int]:
        if hasattr(self.agent, "bound"):
            return cast(tuple[int, int], self.agent.bound(self.request))
        return prompt_bound(self.request.messages), self.request.max_tokens or DEFAULT_MAX_TOKENS

    async def _reserve(self, entry: Entry) -> None:
        if self.agent.free:
            return
        reservation = self.ledger.reserve(entry)
        try:
            async with asyncio.timeout(self.deadline.left()):
                refusal = await asyncio.shield(asyncio.wrap_future(reservation))
        except (asyncio.CancelledError, TimeoutError) as error:
            reservation.add_done_callback(lambda done: self._give_back(entry, done))
            if isinstance(error, TimeoutError):
                raise DeadlineExceeded("The database was busy until the time for this question was over") from error
            raise
        if refusal is not None:
            raise BudgetExceeded(refusal_text(self.agent, entry.reserved, refusal))

    def _give_back(self, entry: Entry, done: Future[Refusal | None]) -> None:
        """Nothing was sent: what was reserved in the meantime is freed."""
        if done.exception() is None and done.result() is None:
            self.ledger.settle(entry, Outcome("failed", 0, 0, error="Stopped"))

    def _settle(self, entry: Entry, outcome: Outcome) -> None:
        if self.agent.free:
            self.ledger.record(entry, outcome)
        else:
            self.ledger.settle(entry, outcome)

    def _answered(self, done: Done, entry: Entry) -> Outcome:
        usage = done.usage
        if done.cost_usd is None:  # no usage was reported: counted at its worst case
            return Outcome("settled", entry.reserved)
        cost = 0 if self.agent.free else to_nano(done.cost_usd)
        return Outcome("settled", cost, cost, usage.prompt_tokens, usage.completion_tokens)

    def _failed(self, error: AgentError, entry: Entry) -> Outcome:
        name = type(error).__name__
        if error.cost_usd is None:
            return self._lost(name, entry)
        cost = 0 if self.agent.free else to_nano(error.cost_usd)
        return Outcome("settled" if cost else "failed", cost, cost, error=name)

    def _lost(self, error: str, entry: Entry) -> Outcome:
        if self.agent.free:
            return Outcome("failed", 0, 0, error=error)
        return Outcome("in_doubt", entry.reserved, error=error)
