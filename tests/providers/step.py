"""What the provider does with one request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Step:
    """One scripted reply. The default is a short, well-formed answer of three chunks.

    `chunks` are the pieces of visible text; `pause_s` stands before each frame, `delay_s` before the status line.
    `error` is the provider's own error code, put into the wire format's error body.
    """

    chunks: tuple[str, ...] = ("It is ", "four", ".")
    reasoning: tuple[str, ...] = ()
    finish: str = "stop"
    usage: tuple[object, object] | None = (12, 5)  # prompt and completion tokens; None: not reported
    model: str = "fault-1"
    status: int = 200
    error: str = ""
    message: str = "the provider failed on purpose"
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None  # this body instead of a well-formed one
    delay_s: float = 0.0
    pause_s: float = 0.0
    hang: bool = False  # take the request, never answer
    drip_s: float = 0.0  # one byte at a time, this long apart
    split: int = 0  # write at most this many bytes at once: cuts characters in two
    cut_after: int | None = None  # frames, then the connection is reset
    eof_after: int | None = None  # frames, then a well-formed end without a closing message
    stall_after: int | None = None  # frames, then silence
    broken_after: int | None = None  # frames, then one that is not JSON
    error_after: int | None = None  # frames, then an error event
    empty_choices: bool = False
    null_content: bool = False
    tool_call: bool = False

    @property
    def billed(self) -> bool:
        """Whether this provider would charge for the request: it did the work, or began to."""
        return self.status == 200 or (self.status >= 500 and self.status != 503)
