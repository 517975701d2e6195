"""How many requests one provider gets at once: learned from its own 429s, shared by all questions of the process.

Additive thinking does not fit here: after a clean round the limit doubles, a 429 cuts it by a fifth and holds it for a
while (the same rule as congestion control, with the provider's Retry-After as the clock).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from core.clock import Deadline
from core.errors import AgentTransient, DeadlineExceeded

# Fifty questions at once must pass an unhindered provider without queueing: only its own 429s narrow it.
START = 64
MOST = 512
CUT = 0.8
COOLDOWN_S = 15.0
LONGEST_PAUSE_S = 30.0


class Channel:
    """The way to one provider. Waiters are served in order; event loops of several threads may share it."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic, start: int = START) -> None:
        self.name = name
        self.limit = start
        self.active = 0
        self._clock = clock
        self._clean = 0
        self._cool_until = 0.0
        self._paused_until = 0.0
        self._waiters: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()
        self._lock = threading.Lock()

    @asynccontextmanager
    async def slot(self, deadline: Deadline) -> AsyncIterator[None]:
        """Hold one place. Raises DeadlineExceeded when none comes free in time, AgentTransient when the provider
        asked for a pause that outlasts the deadline."""
        await self._enter(deadline)
        try:
            yield
        finally:
            self._leave()

    def succeeded(self) -> None:
        """A request was answered: a full clean round doubles the limit."""
        with self._lock:
            if self._clock() < self._cool_until:
                return
            self._clean += 1
            if self._clean >= self.limit:
                self._clean, self.limit = 0, min(MOST, self.limit * 2)

    def throttled(self, retry_after: float | None) -> None:
        """A 429: fewer at once, none before the provider's Retry-After, no growth for a while."""
        with self._lock:
            now, pause = self._clock(), min(retry_after or 0.0, LONGEST_PAUSE_S)
            self._clean = 0
            if now >= self._cool_until:  # one cut for a whole burst of refusals
                self.limit = max(1, int(min(self.limit, self.active + 1) * CUT))
            self._cool_until = max(self._cool_until, now + max(COOLDOWN_S, pause))
            self._paused_until = max(self._paused_until, now + pause)

    async def _enter(self, deadline: Deadline) -> None:
        await self._wait_out_pause(deadline)
        with self._lock:
            if self.active < self.limit and not self._waiters:
                self.active += 1
                return
            loop = asyncio.get_running_loop()
            place: asyncio.Future[None] = loop.create_future()
            self._waiters.append((loop, place))
        try:
            async with asyncio.timeout(deadline.left()):
                await place
        except BaseException as error:
            self._give_up(place)
            if isinstance(error, TimeoutError):
                raise DeadlineExceeded(f"{self.name} is busy, and the time for this question is over") from error
            raise

    async def _wait_out_pause(self, deadline: Deadline) -> None:
        while (pause := self._paused_until - self._clock()) > 0:
            if pause >= deadline.left():
                raise AgentTransient(f"{self.name} asked for a pause of {pause:.0f} s", retry_after=pause)
            await asyncio.sleep(pause)

    def _leave(self) -> None:
        with self._lock:
            self.active -= 1
            while self._waiters and self.active < self.limit:
                loop, place = self._waiters.popleft()
                self.active += 1
                loop.call_soon_threadsafe(self._hand_over, place)

    def _hand_over(self, place: asyncio.Future[None]) -> None:
        if place.done():
            self._leave()  # its owner gave up in the meantime
        else:
            place.set_result(None)

    def _give_up(self, place: asyncio.Future[None]) -> None:
        if place.done() and not place.cancelled():
            self._leave()
            return
        place.cancel()
        with self._lock:
            self._waiters = deque(waiter for waiter in self._waiters if waiter[1] is not place)


class Channels:
    """The channels of one process, by name."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._channels: dict[str, Channel] = {}
        self._lock = threading.Lock()

    def __getitem__(self, name: str) -> Channel:
        with self._lock:
            if name not in self._channels:
                self._channels[name] = Channel(name, self._clock)
            return self._channels[name]

    def report(self) -> dict[str, dict[str, int]]:
        """Channel -> its limit and how many requests are under way, for the pool page."""
        with self._lock:
            return {name: {"limit": c.limit, "active": c.active} for name, c in self._channels.items()}


SHARED = Channels()
