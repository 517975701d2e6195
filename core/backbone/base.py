"""What a backbone is: rendered transcript in, hidden state at the penultimate position out.

The backbone never writes a word: no LM-head logits are computed (paper, section 3.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from core.types import HiddenState, Message


@dataclass(frozen=True, slots=True)
class Rendered:
    """A transcript as the coordinator model reads it, cut where the text grows.

    `messages` opens the chat (system text and earlier questions); `segments` are the parts of the open user
    message, in order: the question, then one block per turn. The backbone closes the message with its own chat
    template (generation prompt on, thinking off), so that the read token is a constant slot. Segments are
    tokenised one by one: a transcript that grows by a turn grows by whole tokens at the end, and chunk
    boundaries are turn boundaries. `plain` protocols (`fixture`) bypass the chat template: segments are joined as
    they are. All text is already neutralised (core/transcript.py).
    """

    protocol: str
    messages: tuple[Message, ...]
    segments: tuple[str, ...]
    plain: bool = False
    truncated: bool = False  # the context was too short: parts of the transcript were left out


@runtime_checkable
class Backbone(Protocol):
    """A small language model read at position -2."""

    name: str  # hub id or folder name
    weights_hash: str  # of the weights as loaded: heads are bound to it
    hidden_size: int
    context_length: int
    dtype: str
    device: str

    def special_tokens(self) -> tuple[str, ...]:
        """Every token string of the vocabulary that has a control meaning; user text must not contain one."""
        ...

    def count_tokens(self, text: str) -> int:
        """Number of tokens of plain text."""
        ...

    def hidden(self, rendered: Rendered) -> HiddenState:
        """h of one transcript, float32 [hidden_size]. Raises NonFiniteState. Blocking: call it off the event loop."""
        ...

    def hidden_batch(self, rendered: Sequence[Rendered]) -> list[HiddenState]:
        """h of several transcripts, equal to `hidden` of each."""
        ...
