"""What the tests of the call path share: an agent on the fault provider, a caller with a ledger, one question asked."""

from __future__ import annotations

import random
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from core.agents.base import Agent, Delta, Request
from core.agents.llm import LlmAgent
from core.agents.prices import Price
from core.calls.attempt import TIME_LIMITS, TimeLimits
from core.calls.base import Account, Retry, Settled
from core.calls.caller import LedgerCaller
from core.calls.concurrency import Channels
from core.clock import Deadline
from core.settings import Secret, Settings
from core.store import Store, open_store
from core.types import Message, Role, Transcript
from tests.providers.server import FaultProvider
from tests.providers.step import Step

CANARY = "sk-canary-0123456789abcdefghij"
WIRES = {"openai": "openai/fault-1", "anthropic": "anthropic/fault-1", "gemini": "gemini/fault-1"}
PRICE = Price.per_million(10.0, 100.0)


class Quick(random.Random):
    """Jitter without the wait."""

    def uniform(self, a: float, b: float) -> float:
        return b / 100


@cache
def polite_provider() -> FaultProvider:
    """One provider for a whole test run that always answers, ending with a verdict."""
    provider = FaultProvider(Step(chunks=("It is 42, ", "recomputed.\n", "VERDICT: ACCEPT"), reasoning=("6 times 7",)))
    return provider.__enter__()  # its thread is a daemon


def llm(provider: FaultProvider, wire: str = "openai", name: str = "alpha", **fields) -> LlmAgent:
    """An agent on the fault provider. `model`, `price`, `free` and `options` may be given."""
    fields = {"price": PRICE, **fields}
    model = fields.pop("model", WIRES[wire])
    base = provider.base if wire == "openai" else provider.root
    return LlmAgent(name, model, api_base=base, key=Secret(CANARY), **fields)


def request(text: str = "What is 2+2?", *, sample: int = 0, nonce: str = "n0nce", role: Role = Role.WORKER) -> Request:
    messages = (Message("system", f"Answer. {nonce}"), Message("user", text))
    return Request(role, Transcript(text), messages, nonce, 0, 30.0, sample=sample)


def settings(folder: Path, **fields) -> Settings:
    return Settings(data_dir=folder, cache_dir=folder, keys={"OPENAI_API_KEY": Secret(CANARY)}, **fields)


def caller(store: Store, folder: Path, limits: TimeLimits = TIME_LIMITS, **fields) -> LedgerCaller:
    usd = {name: fields.pop(name) for name in list(fields) if name.endswith("_usd_per_day")}
    options = {"rng": Quick(), "channels": Channels(), "remember": False, **fields}
    return LedgerCaller(store, settings(folder, **usd), limits=limits, **options)


def open_book(folder: Path) -> Store:
    return open_store(f"sqlite:///{folder / 'book.sqlite3'}")


@dataclass
class Answer:
    """What one call gave."""

    text: str = ""
    reasoning: str = ""
    retries: list[Retry] = field(default_factory=list)
    settled: Settled | None = None


async def ask(
    to: LedgerCaller,
    agent: Agent,
    what: Request | None = None,
    *,
    seconds: float = 20.0,
    account: Account | None = None,
) -> Answer:
    """One call through the caller, as the coordinator makes it: a Retry voids the text so far."""
    answer = Answer()
    if isinstance(agent, LlmAgent):
        await agent.prepare()  # the library's import is not this call's time
    deadline, payer = Deadline.after(seconds), account or Account("q1", 5.0)
    stream = to.stream(agent, what or request(), deadline=deadline, account=payer)
    async with aclosing(stream) as pieces:
        async for piece in pieces:
            if isinstance(piece, Delta):
                answer.text += piece.text
                answer.reasoning += piece.reasoning
            elif isinstance(piece, Retry):
                answer.retries.append(piece)
                answer.text = answer.reasoning = ""
            else:
                answer.settled = piece
    return answer
