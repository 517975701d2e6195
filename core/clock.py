"""One wall-clock deadline, passed down from the question to the last read."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in monotonic time, in seconds."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """The deadline `seconds` from now."""
        return cls(time.monotonic() + seconds)

    def left(self, at_most: float | None = None) -> float:
        """Seconds left, never negative, cut at `at_most`."""
        left = max(0.0, self.at - time.monotonic())
        return left if at_most is None else min(left, at_most)
