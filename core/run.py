"""One question with everything it needs to be answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from core.calls.base import Account, Caller
from core.policy import Policy
from core.pool import Pool
from core.rules import Rules, rules_for
from core.types import Limits, Message, Role, Transcript


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

    def rules(
        self,
        transcript: Transcript,
        index: int,
        *,
        failed: Iterable[str] = (),
        too_dear: Mapping[str, str] | None = None,
        suggestion: Role | None = None,
    ) -> Rules:
        """Who may speak in turn `index`, and in which role."""
        return rules_for(
            transcript,
            self.pool.agents,
            masked={**self.masked(), **(too_dear or {})},
            failed=failed,
            last_turn=index == self.limits.max_turns,
            suggestion=suggestion,
            different_verifier=self.pool.different_verifier,
        )

    def masked(self) -> dict[str, str]:
        """Agents that cannot be called now, with the reason in plain words."""
        closed = self.pool.closed(self.caller, self.account)
        return {**self.policy.head.unknown, **self.pool.unusable(), **closed, **self.exclude}
