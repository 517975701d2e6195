"""Takes the key that was sent out of a reply's own text, should a provider repeat it there."""

from __future__ import annotations

_LEAST = 6  # characters: a shorter key would blank ordinary words
_CUT = 12  # characters of a key that a reply breaks off in


class KeyMask:
    """Replaces one exact key by `***` in a text that comes in pieces; everything else passes byte for byte.

    What may be the beginning of the key is held back until the next piece shows whether it is.
    """

    def __init__(self, key: str) -> None:
        self._key = key if len(key) >= _LEAST else ""
        self._held = ""

    def feed(self, text: str) -> str:
        """What of `text`, and of what was held back, can be told now."""
        if not self._key:
            return text
        text = (self._held + text).replace(self._key, "***")
        longest = min(len(text), len(self._key) - 1)
        keep = next((size for size in range(longest, 0, -1) if self._key.startswith(text[-size:])), 0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def end(self) -> str:
        """What is still held when the stream is over; most of a key is masked like the whole."""
        held, self._held = self._held, ""
        return "***" if len(held) >= max(_CUT, len(self._key) // 2) else held
