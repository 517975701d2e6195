"""The one call path: cache, breaker, budget, retries, each request in the ledger. See core/calls/base.py: Caller.

Order of a call: may this payer use this agent, is its price known -> is the reply remembered -> is the breaker shut
-> then for each request: a place in the provider's channel, the reservation, the stream, the settlement.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING

from core.agents.base import Agent, Delta, Done, Request
from core.calls.attempt import TIME_LIMITS, Attempt, OutOfTime, TimeLimits
from core.calls.base import Account, Caller, Retry, Settled
from core.calls.breaker import Breakers
from core.calls.budget import UNKNOWN_PRICE, Caps, Clock, price_of
from core.calls.cache import ReplyCache, spoken
from core.calls.concurrency import SHARED, Channels
from core.calls.keys import request_key
from core.calls.retry import wait_before_retry
from core.clock import Deadline
from core.errors import AgentError, AgentTransient, BudgetExceeded, Throttled
from core.settings import Settings

if TYPE_CHECKING:
    from core.store import Store


class LedgerCaller:
    """Calls agents for money. One for each team; safe to use from several event loops.

    `process` names whose daily cap counts; `run_usd` is a training run's own cap. `replay` answers every request that
    was made before from memory (training); without it only replies at temperature 0 are, and `remember` False asks
    always.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        process: str = "trinity",
        run_usd: float | None = None,
        replay: bool = False,
        remember: bool = True,
        limits: TimeLimits = TIME_LIMITS,
        channels: Channels = SHARED,
        rng: random.Random | None = None,
        clock: Clock = time.time,
    ) -> None:
        self.breakers = Breakers()
        self.caps = Caps.of(settings, process=process, run_usd=run_usd)
        self._ledger = store.ledger
        self._ledger.recover()
        self._cache = ReplyCache(store.replies, replay=replay) if remember or replay else None
        self._limits = limits
        self._channels = channels
        self._rng = rng or random.Random()  # noqa: S311  # jitter, no secret
        self._clock = clock

    def closed_to(self, agent: Agent, account: Account | None = None) -> str | None:
        """See Caller.closed_to."""
        if account is not None and (barred := self.caps.bars(agent, account)):
            return barred
        return UNKNOWN_PRICE if price_of(agent) is None else self.breakers.closed_to(agent.name)

    async def stream(
        self, agent: Agent, request: Request, *, deadline: Deadline, account: Account
    ) -> AsyncIterator[Delta | Retry | Settled]:
        """See Caller.stream. An AgentError that is raised carries the cost of the last request only: the earlier
        ones were told by Retry."""
        if barred := self.caps.bars(agent, account):
            raise BudgetExceeded(f"{agent.name} {barred}.")
        if price_of(agent) is None:
            raise BudgetExceeded(f"{agent.name} cannot be paid for: {UNKNOWN_PRICE}.")
        if hasattr(agent, "prepare"):
            await agent.prepare()
        key = request_key(agent, request)
        cache = self._cache if self._cache is not None and self._cache.holds(agent, request) else None
        if cache is not None and (reply := await cache.get(key)):
            for piece in spoken(reply):
                yield Settled(piece, tries=0, cached=True) if isinstance(piece, Done) else piece
            return
        tries = 0
        while True:
            self._check_breaker(agent, tries)
            tries += 1
            attempt = self._attempt(agent, request, deadline, account)
            try:
                async with aclosing(attempt.pieces()) as pieces:
                    async for piece in pieces:
                        if isinstance(piece, Delta):
                            yield piece
                            continue
                        self._note_success(agent, attempt)
                        if cache is not None:
                            cache.put(attempt.key, attempt, piece)
                        yield Settled(piece, tries, attempt.first_token_s)
                        return
            except AgentError as error:
                wait = self._note_failure(agent, attempt, error, tries)
                error.tries = tries
                if wait is None or wait >= deadline.left():
                    raise
                again = Retry(str(error), error.partial, wait, tries, error.cost_usd)
            except BaseException:
                self.breakers.abandoned(agent.name)
                raise
            yield again
            await asyncio.sleep(again.wait_s)

    def flush(self) -> None:
        """Wait until ledger and cache are in the database."""
        self._ledger.flush()
        if self._cache is not None:
            self._cache.flush()

    def _attempt(self, agent: Agent, request: Request, deadline: Deadline, account: Account) -> Attempt:
        return Attempt(
            agent,
            request,
            request_key(agent, request),  # again for each try: a parameter may have been dropped since
            self._ledger,
            self._channels[getattr(agent, "channel", agent.name)],
            deadline,
            self._limits,
            caps=self.caps.of_call(account, self._clock()),
            question=account.question,
            owner=account.owner,
            run=account.run,
            process=self.caps.process,
        )

    def _check_breaker(self, agent: Agent, tries: int) -> None:
        why = self.breakers.closed_to(agent.name)
        if why is not None:
            raise AgentTransient(f"{agent.name} is {why}", tries=tries)
        self.breakers.begin(agent.name, self._limits.call_s)

    def _note_success(self, agent: Agent, attempt: Attempt) -> None:
        self.breakers.succeeded(agent.name)
        attempt.channel.succeeded()

    def _note_failure(self, agent: Agent, attempt: Attempt, error: AgentError, tries: int) -> float | None:
        """Tell breaker and channel; seconds until the next try, or None."""
        if isinstance(error, AgentTransient) and error.retry_after == 0.0:
            return wait_before_retry(error, tries, self._rng)  # the provider works; the request was mended
        self.breakers.failed(agent.name, error)
        if isinstance(error, Throttled):
            attempt.channel.throttled(error.retry_after)
        if isinstance(error, OutOfTime) or self.breakers.closed_to(agent.name) is not None:
            return None
        return wait_before_retry(error, tries, self._rng)


if TYPE_CHECKING:

    def _conforms(caller: LedgerCaller) -> Caller:
        return caller
