"""The one way to call an agent: the Protocol, whose account pays, and the plain implementation for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from core.agents.base import Agent, Delta, Done, Request
from core.clock import Deadline
from core.errors import AgentAmbiguous, BudgetExceeded, DeadlineExceeded


@dataclass(frozen=True, slots=True)
class Account:
    """Who pays for a call: caps are kept per question, per owner and day, per training run and per process.

    `public` marks an anonymous visitor of a server that others can reach: such a visitor gets free agents only,
    unless the settings set money aside for visitors (`TRINITY_PUBLIC_USD_PER_DAY`). `scope` says what `question`
    and `limit_usd` stand for: a question, or one look at all agents by the canary.
    """

    question: str
    limit_usd: float
    owner: str = ""
    address: str = ""
    run: str = ""
    public: bool = False
    scope: Literal["question", "look"] = "question"


@dataclass(frozen=True, slots=True)
class Retry:
    """The call failed and is made again after `wait_s`; text streamed so far is void (kept in `partial`).

    `tries` counts the requests so far; `cost_usd` is what this one may have cost (None: unknown).
    """

    error: str
    partial: str
    wait_s: float
    tries: int
    cost_usd: float | None = 0.0


@dataclass(frozen=True, slots=True)
class Settled:
    """The end of a call that succeeded. `done.cost_usd` is the last request's; failed ones were reported as Retry.

    `cached`: the reply was remembered, no request was made.
    """

    done: Done
    tries: int = 1
    first_token_s: float | None = None
    cached: bool = False


@runtime_checkable
class Caller(Protocol):
    """Deadline, retries, breaker, budget and ledger around any agent."""

    def stream(
        self, agent: Agent, request: Request, *, deadline: Deadline, account: Account
    ) -> AsyncIterator[Delta | Retry | Settled]:
        """Stream one reply: Delta and Retry in any number, then one Settled.

        Raises AgentError (with `partial`), BudgetExceeded before anything is sent, or DeadlineExceeded. Closing the
        iterator ends the provider's work.
        """
        ...

    def closed_to(self, agent: Agent, account: Account | None = None) -> str | None:
        """None when the agent may be called now, else why not (breaker open until …, over a cap).

        With an `account`, also whether this payer may use the agent at all.
        """
        ...


class DirectCaller:
    """No retries, no ledger: one request under the deadline, to free agents only. For tests and measurements."""

    async def stream(
        self, agent: Agent, request: Request, *, deadline: Deadline, account: Account
    ) -> AsyncIterator[Delta | Retry | Settled]:
        """See Caller.stream."""
        if barred := self.closed_to(agent):
            raise BudgetExceeded(f"{agent.name}: {barred}")
        started, first = deadline.left(), None
        replies = agent.reply(request)
        try:
            async with asyncio.timeout(deadline.left()):
                async for piece in replies:
                    if isinstance(piece, Done):
                        yield Settled(piece, first_token_s=first)
                        return
                    if first is None:
                        first = started - deadline.left()
                    yield piece
            raise AgentAmbiguous(f"{agent.name}: the reply ended without its closing message")
        except TimeoutError as error:
            raise DeadlineExceeded(f"{agent.name} did not finish in time") from error
        finally:
            await replies.aclose()  # type: ignore[attr-defined]  # every agent's reply is an async generator

    def closed_to(self, agent: Agent, account: Account | None = None) -> str | None:
        """See Caller.closed_to."""
        return None if agent.free else "costs money, and there is no ledger here to count it in"
