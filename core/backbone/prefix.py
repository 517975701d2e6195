"""The bounded cache of key-value memories that conversations share."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    Tensor = torch.Tensor

DEFAULT_CACHE_BYTES = 256 * 1024 * 1024


@dataclass(slots=True, eq=False)
class Entry:
    """A transcript that has been read: for each chunk its chained key, where it ends, and what was read behind it."""

    store: Any
    keys: list[bytes] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    states: list[Tensor] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        """Bytes of the memory and of the states."""
        return int(self.store.nbytes) + sum(int(state.nbytes) for state in self.states)

    def add(self, key: bytes, state: Tensor, length: int) -> None:
        """Note a chunk of `length` tokens that was appended to the store."""
        self.keys.append(key)
        self.ends.append((self.ends[-1] if self.ends else 0) + length)
        self.states.append(state)

    def first_notes(self, chunks: int) -> Entry:
        """The notes about the first `chunks` chunks, still without a memory of their own."""
        return Entry(None, self.keys[:chunks], self.ends[:chunks], self.states[:chunks])

    def first(self, chunks: int, capacity: int) -> Entry:
        """An entry of its own that holds the first `chunks` chunks."""
        notes = self.first_notes(chunks)
        notes.store = self.store.copy(self.ends[chunks - 1] if chunks else 0, capacity)
        return notes


def chain(chunks: Iterable[Sequence[int]], seed: bytes = b"") -> list[bytes]:
    """One key for each chunk, standing for it and everything before it."""
    keys, previous = [], seed
    for chunk in chunks:
        previous = hashlib.blake2b(array("q", chunk).tobytes(), key=previous[:64], digest_size=32).digest()
        keys.append(previous)
    return keys


def shared(left: Sequence[bytes], right: Sequence[bytes]) -> int:
    """How many chunks two chains have in common from the start."""
    for count, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return count
    return min(len(left), len(right))


class PrefixCache:
    """Least-recently-used transcripts, never more than `limit` bytes together.

    An entry is taken out while it is being extended, so a failure in between loses that entry and nothing else.
    """

    def __init__(self, limit: int = DEFAULT_CACHE_BYTES) -> None:
        self.limit = limit
        self.hits = 0  # tokens that did not have to be read again
        self._entries: list[Entry] = []  # least recently used first

    @property
    def nbytes(self) -> int:
        """Bytes held now."""
        return sum(entry.nbytes for entry in self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, keys: Sequence[bytes]) -> Entry | None:
        """An entry that passed through exactly these chunks; it may go on behind them."""
        entry, count = self.match(keys)
        if entry is None or count < len(keys):
            return None
        self._touch(entry)
        self.hits += entry.ends[count - 1]
        return entry

    def match(self, keys: Sequence[bytes]) -> tuple[Entry | None, int]:
        """The entry that shares most chunks with `keys`, and how many; (None, 0) when none does."""
        best, most = None, 0
        for entry in reversed(self._entries):
            if (count := shared(entry.keys, keys)) > most:
                best, most = entry, count
        return best, most

    def take(self, keys: Sequence[bytes], capacity: int) -> Entry | None:
        """The best match cut to what it shares, with room for `capacity` tokens, or None.

        An entry that is a prefix of `keys` is handed over and grows in place; one that continues differently is
        copied, so that both branches stay.
        """
        best, common = self.match(keys)
        if best is None:
            return None
        self.hits += best.ends[common - 1]
        if common == len(best.keys):
            self._entries.remove(best)
            if best.store.capacity >= capacity:
                return best
        return best.first(common, max(capacity, best.store.capacity))

    def put(self, entry: Entry) -> None:
        """Store an entry as the most recent one and make room; one that alone is too large keeps its beginning."""
        if entry.nbytes > self.limit:
            entry = self._fitting(entry)
        if entry.keys:
            self._entries.append(entry)
        while self.nbytes > self.limit:
            self._entries.pop(0)

    def _touch(self, entry: Entry) -> None:
        self._entries.remove(entry)
        self._entries.append(entry)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()

    def _fitting(self, entry: Entry) -> Entry:
        per_token = entry.store.nbytes / max(1, entry.store.capacity)
        states = sum(state.nbytes for state in entry.states)
        room = int((self.limit - states) / per_token) if states < self.limit else 0
        chunks = sum(end <= room for end in entry.ends)
        return entry.first(chunks, entry.ends[chunks - 1] if chunks else 1)
