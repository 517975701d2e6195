"""Caps: who may spend how much, and the sentence that says which cap is in the way."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from core.agents.base import Agent
from core.agents.prices import FREE, Price, to_nano, to_usd
from core.calls.base import Account
from core.settings import Settings
from core.store.ledger import Cap, Refusal

_WHOSE = {
    "question": "for this question",
    "look": "for this look at the agents",
    "owner_day": "a day for each user",
    "address_day": "a day for each address",
    "public_day": "a day for all visitors together",
    "run": "for this training run",
    "process_day": "a day for this program",
}
_ADVICE = {
    "question": "Raise the limit of the question, or leave this agent out.",
    "look": "Raise --max-usd, or choose fewer agents with --agent.",
    "run": "Raise --max-usd to go on.",
    "process_day": "It is renewed at midnight UTC; TRINITY_PROCESS_USD_PER_DAY raises it.",
}
_RENEWED = "It is renewed at midnight UTC."


@dataclass(frozen=True, slots=True)
class Caps:
    """The caps of one process, in USD. `process` names it: a restart does not begin a new day.

    `run_usd` caps a training run by its own explicit figure; the daily cap of the process then only counts.
    """

    owner_usd_per_day: float
    process_usd_per_day: float
    public_usd_per_day: float
    run_usd: float | None = None
    process: str = "trinity"

    @classmethod
    def of(cls, settings: Settings, *, process: str = "trinity", run_usd: float | None = None) -> Caps:
        """The caps that the settings name."""
        return cls(
            settings.user_usd_per_day, settings.process_usd_per_day, settings.public_usd_per_day, run_usd, process
        )

    def bars(self, agent: Agent, account: Account) -> str | None:
        """Why this payer may not use this agent at all, or None."""
        if agent.free:
            return None
        if account.public and not self.public_usd_per_day:
            return "costs money, and visitors get free agents only"
        if account.run and self.run_usd is None:
            return "costs money, and a training run on priced agents needs --max-usd"
        return None

    def of_call(self, account: Account, now: float) -> tuple[Cap, ...]:
        """The caps that a paid call of this account counts against. `now` in seconds since the epoch."""
        day = str(int(now // 86_400))
        caps = [Cap(account.scope, account.question, to_nano(account.limit_usd))]
        if account.run:
            caps.append(Cap("run", account.run, to_nano(self.run_usd or 0.0)))
        if account.owner and not account.run:
            caps.append(Cap("owner_day", f"{day}:{hashed(account.owner)}", to_nano(self.owner_usd_per_day)))
        if account.public:
            caps.append(Cap("public_day", day, to_nano(self.public_usd_per_day)))
            if account.address:
                # The day is hashed, too: addresses are few enough to try, and days must not be linked.
                caps.append(Cap("address_day", hashed(f"{day}:{account.address}"), to_nano(self.owner_usd_per_day)))
        limit = None if account.run else to_nano(self.process_usd_per_day)
        return (*caps, Cap("process_day", f"{day}:{self.process}", limit))


def hashed(text: str) -> str:
    """SHA-256 in hexadecimal; '' stays ''."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() if text else ""


def price_of(agent: Agent) -> Price | None:
    """What the agent costs; None when nobody knows."""
    return FREE if agent.free else getattr(agent, "price", None)


def refusal_text(agent: Agent, reserved: int, refusal: Refusal) -> str:
    """Which cap is in the way, in one or two sentences."""
    cap = refusal.cap
    limit, left, most = to_usd(cap.limit or 0), to_usd(refusal.left), to_usd(reserved)
    return (
        f"{agent.name} could cost up to ${most:.4f} now, and ${left:.4f} of the ${limit:.2f} {_WHOSE[cap.scope]} is "
        f"left. {_ADVICE.get(cap.scope, _RENEWED)}"
    )


UNKNOWN_PRICE = "its price is not known: give `price` in the pool file, or say `free: true`"

Clock = Callable[[], float]
