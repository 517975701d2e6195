"""What a question has used so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from core.clock import Deadline
from core.types import Attempt, Limits, Reason, Turn, Usage


@dataclass(slots=True)
class Tally:
    """Running sums over turns and failed attempts. `cost_usd` becomes None once a price is unknown."""

    usage: Usage = Usage()
    known_usd: float = 0.0
    unknown_price: bool = False

    @property
    def cost_usd(self) -> float | None:
        """What was spent, or None when some call's price is unknown."""
        return None if self.unknown_price else self.known_usd

    @classmethod
    def of(cls, turns: Iterable[Turn]) -> Tally:
        """The sum over finished turns and the failed attempts in them."""
        tally = cls()
        for turn in turns:
            tally.add(turn)
            for attempt in turn.failed:
                tally.add(attempt)
        return tally

    def add(self, item: Turn | Attempt) -> None:
        """Count one turn (without its failed attempts) or one failed attempt."""
        self.usage = self.usage + item.usage
        self.unknown_price = self.unknown_price or item.cost_usd is None
        self.known_usd += item.cost_usd or 0.0

    def over(self, limits: Limits, deadline: Deadline) -> Reason | None:
        """The limit that is reached, or None. Money that is exactly used up still allows free agents."""
        if deadline.left() <= 0:
            return Reason.SECONDS
        if self.usage.total_tokens >= limits.tokens:
            return Reason.TOKENS
        if self.known_usd > limits.usd:
            return Reason.MONEY
        return None
