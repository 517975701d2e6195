"""When a failed request is made again, and after how long."""

from __future__ import annotations

import random

from core.errors import AgentAmbiguous, AgentError, AgentTransient

TRIES = 4
AMBIGUOUS_TRIES = 2  # the first may have been billed: one more, both counted
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0  # a provider that asks for more has closed: the breaker opens, another agent takes the turn


def wait_before_retry(error: AgentError, tries: int, rng: random.Random) -> float | None:
    """Seconds until the next try after `tries` requests, or None when there is none.

    Full jitter: a uniform draw up to a bound that doubles, never less than the provider's own Retry-After.
    """
    if isinstance(error, AgentTransient):
        allowed = TRIES
    elif isinstance(error, AgentAmbiguous):
        allowed = AMBIGUOUS_TRIES
    else:
        return None
    if tries >= allowed or (error.retry_after or 0.0) > LONGEST_WAIT_S:
        return None
    if error.retry_after == 0.0:
        return 0.0
    jitter = rng.uniform(0.0, min(LONGEST_WAIT_S, FIRST_WAIT_S * 2**tries))
    return max(error.retry_after or 0.0, jitter)
