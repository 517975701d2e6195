"""Takes a leading `<think>…</think>` off a stream of text: reasoning is kept apart and never enters the transcript."""

from __future__ import annotations

from core.agents.base import Delta

_OPEN, _CLOSE = "<think>", "</think>"


class ThinkSplitter:
    """Feed pieces as they arrive. Only a block at the very start is reasoning; all other text passes byte for byte.

    Blank space before the block and between the block and the answer belongs to the block.
    """

    def __init__(self) -> None:
        self._state = "start"  # start -> thinking -> gap -> text
        self._held = ""

    def feed(self, text: str) -> Delta:
        """What of `text`, and of what was held back, can be told now."""
        self._held += text
        reasoning = self._reasoning() if self._state in ("start", "thinking") else ""
        return Delta(self._visible(), reasoning)

    def end(self) -> Delta:
        """What is still held when the stream is over."""
        held, self._held = self._held, ""
        return Delta("", held) if self._state == "thinking" else Delta("" if self._state == "gap" else held)

    def _reasoning(self) -> str:
        if self._state == "start":
            head = self._held.lstrip()
            if head.startswith(_OPEN):
                self._state, self._held = "thinking", head[len(_OPEN) :]
            elif not _OPEN.startswith(head):
                self._state = "text"
        if self._state != "thinking":
            return ""
        thought, closed, rest = self._held.partition(_CLOSE)
        if closed:
            self._state, self._held = "gap", rest
            return thought
        keep = _overlap(thought, _CLOSE)  # the tag may be cut in two by a chunk border
        self._held = thought[len(thought) - keep :]
        return thought[: len(thought) - keep]

    def _visible(self) -> str:
        if self._state == "gap" and self._held.strip():
            self._state, self._held = "text", self._held.lstrip()
        if self._state != "text":
            return ""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, tag: str) -> int:
    """How many of the last characters of `text` may be the beginning of `tag`."""
    return next((size for size in range(min(len(text), len(tag) - 1), 0, -1) if tag.startswith(text[-size:])), 0)
