"""Reads a transcript chunk by chunk through an engine, starting from what the prefix cache holds.

Every chunk (opening, question, one chunk for each turn) is evaluated in a forward pass of its own, always with the
template's closing tokens behind it, which are then forgotten. So a decision costs one pass over the new tokens, and
what is read has the same bits whatever was remembered, forgotten or read before in another order: moving chunk
boundaries alone shifts h by 1e-5 in float32 and by 0.25 to 0.5 in bfloat16.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from core.backbone.kv import Store
from core.backbone.prefix import Entry, PrefixCache, chain
from core.backbone.text import Tokens

if TYPE_CHECKING:
    import torch

    Tensor = torch.Tensor

# Spare room for the turns to come, so that a conversation's memory rarely moves; untouched pages cost nothing. A
# long transcript gets none: its spare room would count against the cache's bound.
_SPARE, _ROUND, _LONG = 1.5, 256, 4_096


class Engine(Protocol):
    """The forward pass of one model. `core.backbone.decoder` and `core.backbone.transformers_engine` are two."""

    hidden_size: int
    context_length: int
    caches: bool  # False: nothing can be remembered between two transcripts
    batches: bool  # True: stores of several rows, and `gather`

    def new_store(self, capacity: int, rows: int = 1) -> Store:
        """Empty memory."""
        ...

    def extend(self, store: Any, ids: Sequence[Sequence[int]], closing: Sequence[int]) -> Tensor:
        """Append a chunk; return what stands at the last closing token, one row for each transcript."""
        ...

    @property
    def layers(self) -> int:
        """Layers of the whole model."""
        ...

    def size_of(self, name: str) -> tuple[int, int]:
        """Rows and columns of a matrix by its `state_dict` name. Raises KeyError."""
        ...

    def matrix(self, name: str) -> Tensor:
        """A copy of one weight by its `state_dict` name. Raises KeyError."""
        ...

    def with_weights(self, changed: Mapping[str, Tensor]) -> Engine:
        """The same model with some matrices replaced; this one is left as it is."""
        ...


@dataclass(frozen=True, slots=True)
class Passage:
    """A transcript that was read: `state` [1, …] behind its last chunk, and the memory, valid up to `length`."""

    state: Tensor
    store: Any
    length: int


class ChunkReader:
    """An engine with its share of a prefix cache. One thread at a time.

    Args:
        engine: the forward pass.
        cache: shared between readers; `seed` keeps their keys apart.
        seed: names the weights, so that no reader finds what other weights computed.
    """

    def __init__(self, engine: Engine, cache: PrefixCache, seed: bytes = b"") -> None:
        self.engine = engine
        self.cache = cache
        self._seed = hashlib.blake2b(seed, digest_size=32).digest()

    def read(self, tokens: Tokens) -> Passage:
        """Run what the cache does not hold."""
        if not tokens.closing or not self.engine.caches:
            return self._read_whole(tokens)
        keys = chain(tokens.chunks, self._seed)
        entry = self.cache.find(keys)
        if entry is None:
            entry = self.cache.take(keys, tokens.total) or self._empty(tokens.total)
            for index in range(len(entry.keys), len(keys)):
                ids = tokens.chunks[index]
                entry.add(keys[index], self.engine.extend(entry.store, [ids], _closing(tokens, index)), len(ids))
            self.cache.put(entry)
        return Passage(entry.states[len(keys) - 1], entry.store, entry.ends[len(keys) - 1])

    def read_batch(self, tokens: Sequence[Tokens]) -> list[Tensor]:
        """States [1, …] of several transcripts; those whose chunks have equal lengths run as rows of one pass."""
        groups: dict[tuple[int, ...], dict[tuple[tuple[int, ...], ...], Tokens]] = defaultdict(dict)
        for one in tokens:
            groups[(*map(len, one.chunks), len(one.closing))][one.chunks] = one
        states: dict[tuple[tuple[int, ...], ...], Tensor] = {}
        for group in groups.values():
            members = [one for one in group.values() if not self._known(one)]
            if len(members) > 1 and members[0].closing and self.engine.batches and self.engine.caches:
                states |= self._read_group(members)
        return [states[one.chunks] if one.chunks in states else self.read(one).state for one in tokens]

    def _read_group(self, group: Sequence[Tokens]) -> dict[tuple[tuple[int, ...], ...], Tensor]:
        """Transcripts of equal chunk lengths together, from the first chunk that any of them lacks."""
        chains = [chain(one.chunks, self._seed) for one in group]
        held = [self.cache.match(keys) for keys in chains]
        done = min(count for _, count in held)
        total, engine = group[0].total, self.engine
        store: Any = engine.new_store(self._capacity(total), len(group))
        if done:
            store.fill([entry.store for entry, _ in held if entry is not None], sum(map(len, group[0].chunks[:done])))
        states = []
        for index in range(done, len(chains[0])):
            ids = [one.chunks[index] for one in group]
            states.append(engine.extend(store, ids, _closing(group[0], index)))
        for row, (one, keys, (entry, _)) in enumerate(zip(group, chains, held, strict=True)):
            kept = entry.first_notes(done) if entry is not None and done else Entry(None)
            kept.store = store.row(row)
            for index, state in zip(range(done, len(keys)), states, strict=True):
                kept.add(keys[index], state[row : row + 1].clone(), len(one.chunks[index]))
            self.cache.put(kept)
        return {one.chunks: states[-1][row : row + 1].clone() for row, one in enumerate(group)}

    def _known(self, tokens: Tokens) -> bool:
        return bool(tokens.closing) and self.cache.match(chain(tokens.chunks, self._seed))[1] == len(tokens.chunks)

    def _empty(self, total: int) -> Entry:
        return Entry(self.engine.new_store(self._capacity(total)))

    def _capacity(self, total: int) -> int:
        if total > _LONG:
            return total
        return max(total, min(-(-int(total * _SPARE) // _ROUND) * _ROUND, self.engine.context_length))

    def _read_whole(self, tokens: Tokens) -> Passage:
        """One pass over everything up to the read position, nothing remembered."""
        ids = [token for part in (*tokens.chunks, tokens.closing) for token in part][: tokens.read_index + 1]
        store = self.engine.new_store(len(ids))
        state = self.engine.extend(store, [ids[:-1]], ids[-1:])
        return Passage(state, store, len(ids) - 1)


def _closing(tokens: Tokens, index: int) -> tuple[int, ...]:
    """What runs behind a chunk: the closing up to the read position; nothing behind the opening, which nobody reads."""
    return tokens.closing[:-1] if index else ()
