"""Key-value memory of a transcript, and the bounded cache of them that conversations share."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

    Tensor = torch.Tensor

DEFAULT_CACHE_BYTES = 256 * 1024 * 1024


class Store(Protocol):
    """What an engine remembers of the tokens it has read."""

    length: int

    @property
    def capacity(self) -> int:
        """Tokens that fit."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes held, spare capacity included."""
        ...

    def copy(self, length: int, capacity: int) -> Any:
        """A memory of its own with the first `length` tokens and room for `capacity`."""
        ...


class KeyValues:
    """Keys and values of every layer in one tensor [layers, 2, rows, kv_heads, capacity, head_dim].

    `tap` [rows, capacity, hidden] keeps the residual stream behind a trunk, or is None. `length` counts the tokens
    that are valid; what lies behind is spare.
    """

    __slots__ = ("length", "pairs", "tap")

    def __init__(self, pairs: Tensor, tap: Tensor | None, length: int) -> None:
        self.pairs = pairs
        self.tap = tap
        self.length = length

    @classmethod
    def empty(
        cls, lead: tuple[int, int, int, int], capacity: int, head_dim: int, tap: int, *, dtype: Any, device: Any
    ) -> KeyValues:
        """Fresh memory. Pages are only touched when tokens are written."""
        import torch

        pairs = torch.empty((*lead, capacity, head_dim), dtype=dtype, device=device)
        return cls(pairs, torch.empty((lead[2], capacity, tap), dtype=dtype, device=device) if tap else None, 0)

    @property
    def capacity(self) -> int:
        """Tokens that fit."""
        return int(self.pairs.shape[-2])

    @property
    def nbytes(self) -> int:
        """Bytes held, spare capacity included."""
        return int(self.pairs.nbytes) + (0 if self.tap is None else int(self.tap.nbytes))

    def write(self, layer: int, which: int, values: Tensor, start: int) -> None:
        """Store keys (0) or values (1) [rows, kv_heads, n, head_dim] from position `start`."""
        self.pairs[layer, which, :, :, start : start + values.shape[2]] = values

    def read(self, layer: int, stop: int) -> tuple[Tensor, Tensor]:
        """Keys and values of the first `stop` positions, as views."""
        pair = self.pairs[layer, :, :, :, :stop]
        return pair[0], pair[1]

    def copy(self, length: int, capacity: int) -> KeyValues:
        """A memory of its own with the first `length` tokens and room for `capacity`."""
        layers, two, rows, heads, _, head_dim = self.pairs.shape
        width = 0 if self.tap is None else self.tap.shape[-1]
        lead = (layers, two, rows, heads)
        fresh = KeyValues.empty(lead, capacity, head_dim, width, dtype=self.pairs.dtype, device=self.pairs.device)
        fresh.pairs[..., :length, :] = self.pairs[..., :length, :]
        if fresh.tap is not None and self.tap is not None:
            fresh.tap[:, :length] = self.tap[:, :length]
        fresh.length = length
        return fresh


@dataclass(slots=True)
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

    def add(self, key: bytes, state: Tensor) -> None:
        """Note a chunk that was just appended to the store."""
        self.keys.append(key)
        self.ends.append(self.store.length)
        self.states.append(state)

    def first(self, chunks: int, capacity: int) -> Entry:
        """An entry of its own that holds the first `chunks` chunks."""
        length = self.ends[chunks - 1] if chunks else 0
        copied = self.store.copy(length, capacity)
        return Entry(copied, self.keys[:chunks], self.ends[:chunks], self.states[:chunks])


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

    def find(self, keys: Sequence[bytes]) -> Tensor | None:
        """What was read behind exactly these chunks, if any entry passed through them."""
        for entry in reversed(self._entries):
            if len(keys) <= len(entry.keys) and entry.keys[len(keys) - 1] == keys[-1]:
                self._entries.remove(entry)
                self._entries.append(entry)
                return entry.states[len(keys) - 1]
        return None

    def take(self, keys: Sequence[bytes], capacity: int) -> Entry | None:
        """The entry that shares most chunks with `keys`, cut to them, with room for `capacity` tokens.

        An entry that is a prefix of `keys` is handed over and grows in place; one that continues differently is
        copied, so that both branches stay.
        """
        best = max(self._entries, key=lambda entry: shared(entry.keys, keys), default=None)
        common = shared(best.keys, keys) if best else 0
        if best is None or common == 0:
            return None
        self.hits += best.ends[common - 1]
        if common == len(best.keys):
            self._entries.remove(best)
            if best.store.capacity >= capacity:
                return best
        return best.first(common, capacity)

    def put(self, entry: Entry) -> None:
        """Store an entry as the most recent one and make room; one that alone is too large keeps its beginning."""
        if entry.nbytes > self.limit:
            entry = self._fitting(entry)
        if entry.keys:
            self._entries.append(entry)
        while self.nbytes > self.limit:
            self._entries.pop(0)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()

    def _fitting(self, entry: Entry) -> Entry:
        per_token = entry.store.nbytes / max(1, entry.store.capacity)
        states = sum(state.nbytes for state in entry.states)
        room = int((self.limit - states) / per_token) if states < self.limit else 0
        chunks = sum(end <= room for end in entry.ends)
        return entry.first(chunks, entry.ends[chunks - 1] if chunks else 1)
