"""One breaker for each agent: after failures it closes the agent off, then lets one probe through."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from core.calls.retry import LONGEST_WAIT_S
from core.errors import AgentAmbiguous, AgentError, AgentTransient, AuthFailed, ModelUnknown, QuotaExhausted

FAILURES = 5
OPEN_S = 30.0
LONGEST_OPEN_S = 3600.0
_AT_ONCE = (AuthFailed, QuotaExhausted, ModelUnknown)


@dataclass(slots=True)
class _State:
    failures: int = 0
    open_until: float = 0.0
    probing_until: float = 0.0
    why: str = ""


@dataclass(frozen=True, slots=True)
class BreakerState:
    """For the pool page: `closed` (in use), `open` (masked for `seconds` more) or `probing`."""

    state: str
    failures: int
    seconds: float
    why: str


class Breakers:
    """The breakers of all agents, by name. Safe to use from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._states: dict[str, _State] = {}
        self._lock = threading.Lock()

    def closed_to(self, agent: str) -> str | None:
        """None when the agent may be asked, else the reason."""
        state = self.state(agent)
        if state.state == "open":
            return f"resting for {state.seconds:.0f} s after it failed ({state.why})"
        return f"being tried again after it failed ({state.why})" if state.state == "probing" else None

    def state(self, agent: str) -> BreakerState:
        """How the breaker of an agent stands."""
        with self._lock:
            found, now = self._states.get(agent, _State()), self._clock()
            name = "open" if now < found.open_until else "probing" if now < found.probing_until else "closed"
            return BreakerState(name, found.failures, max(0.0, found.open_until - now), found.why)

    def begin(self, agent: str, seconds: float) -> None:
        """A request begins. After a rest it is the one probe; others wait for it, `seconds` at most."""
        with self._lock:
            state = self._states.get(agent)
            if state is not None and state.open_until:
                state.open_until, state.probing_until = 0.0, self._clock() + seconds

    def succeeded(self, agent: str) -> None:
        """A request was answered: forget earlier failures."""
        with self._lock:
            self._states.pop(agent, None)

    def abandoned(self, agent: str) -> None:
        """A request was stopped from our side: it proves nothing, and another probe may go."""
        with self._lock:
            if agent in self._states:
                self._states[agent].probing_until = 0.0

    def failed(self, agent: str, error: AgentError) -> None:
        """A request failed. An empty account, a wrong key, or a long Retry-After opens the breaker at once."""
        rests = isinstance(error, _AT_ONCE)
        pause = error.retry_after or 0.0
        with self._lock:
            if not rests and not isinstance(error, AgentTransient | AgentAmbiguous):
                self._states.pop(agent, None)  # it answered, if only to refuse this very request
                return
            state = self._states.setdefault(agent, _State())
            probe_failed, state.probing_until = state.probing_until > 0.0, 0.0
            state.failures += 1
            state.why = str(error)
            if rests or probe_failed or state.failures >= FAILURES or pause > LONGEST_WAIT_S:
                state.open_until = self._clock() + min(LONGEST_OPEN_S, max(OPEN_S, pause))
