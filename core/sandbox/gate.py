"""How many sandboxed programs run at once, in this whole process: bounded by processor cores and by memory."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SHARE_OF_MEMORY = 0.6


class Gate:
    """A queue in front of the processor. One program always passes, however large, when nothing else runs."""

    def __init__(self, slots: int, memory_mb: int) -> None:
        self.slots, self.memory_mb = max(1, slots), memory_mb
        self._running, self._memory = 0, 0
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, memory_mb: int, stop: threading.Event | None = None) -> Iterator[bool]:
        """Wait for a place. Yields False when `stop` was set first; then nothing may be run."""
        with self._changed:
            while not (fits := self._fits(memory_mb)) and not (stop and stop.is_set()):
                self._changed.wait(0.1 if stop else None)
            if fits:
                self._running, self._memory = self._running + 1, self._memory + memory_mb
        try:
            yield fits
        finally:
            if fits:
                with self._changed:
                    self._running, self._memory = self._running - 1, self._memory - memory_mb
                    self._changed.notify_all()

    def _fits(self, memory_mb: int) -> bool:
        if self._running == 0:
            return True
        return self._running < self.slots and self._memory + memory_mb <= self.memory_mb


def machine_gate() -> Gate:
    """The bounds of this machine: all cores but one, and 60 % of the memory that is there."""
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1 << 20)
    return Gate(cores - 1, int(memory * _SHARE_OF_MEMORY))


GATE = machine_gate() if hasattr(os, "sched_getaffinity") else Gate(1, 1024)
