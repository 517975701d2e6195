"""One question with everything it needs to be answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.calls.base import Account, Caller
from core.policy import Policy
from core.pool import Pool
from core.types import Limits, Message


@dataclass(frozen=True, slots=True)
class Run:
    """A question, who decides, who may speak, who calls and pays.

    `exclude` maps agents left out by the user to the reason shown; `seed` settles ties and local agents' draws.
    """

    id: str
    question: str
    policy: Policy
    pool: Pool
    caller: Caller
    account: Account
    limits: Limits = Limits()
    history: tuple[Message, ...] = ()
    exclude: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0

    def masked(self) -> dict[str, str]:
        """Agents that cannot be called now, with the reason in plain words."""
        return {**self.pool.unusable(), **self.pool.closed(self.caller, self.account), **self.exclude}
