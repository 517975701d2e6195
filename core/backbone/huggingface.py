"""A model in Hugging Face format as a Backbone: text in, h at position -2 out.

Every chunk of a transcript (opening, question, one chunk for each turn) is evaluated in a forward pass of its own,
always with the template's closing tokens behind it, which are then forgotten. So a decision costs one pass over the
new tokens, and h has the same bits whatever was remembered, forgotten or read before in another order: moving chunk
boundaries alone shifts h by 1e-5 in float32 and by 0.25 to 0.5 in bfloat16.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from core.backbone.base import Backbone, Rendered
from core.backbone.kv import DEFAULT_CACHE_BYTES, Entry, PrefixCache, Store, chain
from core.backbone.text import ChatText, Tokens
from core.errors import NonFiniteState, QuestionInvalid
from core.types import HiddenState, ReadToken

if TYPE_CHECKING:
    import torch

# Spare room for the turns to come, so that a conversation's memory rarely moves; untouched pages cost nothing.
_SPARE = 1.5
_ROUND = 256


class Engine(Protocol):
    """The forward pass of one model. `core.backbone.decoder` and `core.backbone.transformers_engine` are two."""

    hidden_size: int
    context_length: int
    caches: bool  # False: nothing is remembered between two transcripts

    def new_store(self, capacity: int, rows: int = 1) -> Store:
        """Empty memory."""
        ...

    def extend(self, store: Any, ids: Sequence[Sequence[int]], closing: Sequence[int]) -> torch.Tensor:
        """Append a chunk; return h [rows, hidden] at the last closing token."""
        ...


@dataclass(frozen=True, slots=True)
class Identity:
    """What a hidden state says about where it came from."""

    name: str
    weights_hash: str
    dtype: str
    device: str


class HuggingFaceBackbone:
    """Tokenizer, engine and prefix cache of one model. Safe to call from several threads; they wait for each other.

    Args:
        identity: name, hash of the weights, dtype, device.
        text: tokenizer and chat template.
        engine: the forward pass.
        cache_bytes: bound of the prefix cache over all conversations.
    """

    def __init__(
        self, identity: Identity, text: ChatText, engine: Engine, *, cache_bytes: int = DEFAULT_CACHE_BYTES
    ) -> None:
        self.identity = identity
        self.text = text
        self.engine = engine
        self.cache = PrefixCache(cache_bytes)
        self.name = identity.name
        self.weights_hash = identity.weights_hash
        self.dtype = identity.dtype
        self.device = identity.device
        self.hidden_size = engine.hidden_size
        self.context_length = engine.context_length
        self._lock = threading.Lock()

    def special_tokens(self) -> tuple[str, ...]:
        """See Backbone.special_tokens."""
        return self.text.special_tokens()

    def count_tokens(self, text: str) -> int:
        """See Backbone.count_tokens."""
        return self.text.count(text)

    def hidden(self, rendered: Rendered) -> HiddenState:
        """See Backbone.hidden. Raises QuestionInvalid when the transcript is longer than the context."""
        tokens = self.tokens(rendered)
        with self._lock:
            vector = self.read(tokens)
        return self._state(rendered, tokens, vector)

    def hidden_batch(self, rendered: Sequence[Rendered]) -> list[HiddenState]:
        """See Backbone.hidden_batch. Transcripts with chunks of equal lengths run together, never padded."""
        tokens = [self.tokens(one) for one in rendered]
        with self._lock:
            vectors = self._read_many(tokens)
        return [self._state(*triple) for triple in zip(rendered, tokens, vectors, strict=True)]

    def tokens(self, rendered: Rendered) -> Tokens:
        """Ids of a transcript, checked against the context length."""
        tokens = self.text.tokens(rendered)
        if tokens.total > self.context_length:
            raise QuestionInvalid(
                f"The transcript has {tokens.total} tokens and {self.name} reads at most {self.context_length}; "
                "shorten it."
            )
        if tokens.total == 0:
            raise QuestionInvalid("The transcript is empty; ask something.")
        return tokens

    def read(self, tokens: Tokens) -> torch.Tensor:
        """h [hidden] in the model's dtype. Reads only what the cache does not hold."""
        if not tokens.closing or not self.engine.caches:
            return self._read_whole(tokens)
        keys = chain(tokens.chunks)
        known = self.cache.find(keys)
        if known is not None:
            return known[0]
        entry = self.cache.take(keys, tokens.total) or Entry(self.engine.new_store(self._capacity(tokens.total)))
        for index in range(len(entry.keys), len(keys)):
            # The opening is read for its memory only; h exists from the question on.
            closing = tokens.closing[:-1] if index else ()
            entry.add(keys[index], self.engine.extend(entry.store, [tokens.chunks[index]], closing))
        state = entry.states[-1][0]
        self.cache.put(entry)
        return state

    def _capacity(self, total: int) -> int:
        rounded = -(-int(total * _SPARE) // _ROUND) * _ROUND
        return max(total, min(rounded, self.context_length))

    def _read_whole(self, tokens: Tokens) -> torch.Tensor:
        """One pass over everything up to the read position, nothing remembered."""
        ids = [token for part in (*tokens.chunks, tokens.closing) for token in part][: tokens.read_index + 1]
        return self.engine.extend(self.engine.new_store(len(ids)), [ids[:-1]], ids[-1:])[0]

    def _read_many(self, tokens: Sequence[Tokens]) -> list[torch.Tensor]:
        groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for index, one in enumerate(tokens):
            groups[tuple(map(len, one.chunks))].append(index)
        found: dict[int, torch.Tensor] = {}
        for members in groups.values():
            for index in members:
                found[index] = self.read(tokens[index])
        return [found[index] for index in range(len(tokens))]

    def _state(self, rendered: Rendered, tokens: Tokens, vector: torch.Tensor) -> HiddenState:
        values = vector.float().cpu().numpy().copy()
        token = ReadToken(tokens.read_id, self.text.piece(tokens.read_id), tokens.read_index)
        if not all_finite(values):
            raise NonFiniteState(
                f"{self.name} gave a hidden state that is not finite (NaN or infinity) at token {token.index}. "
                "Check the weights, or use dtype float32."
            )
        return HiddenState(values, token, self.name, rendered.protocol, self.dtype, rendered.truncated)


def all_finite(values: Any) -> bool:
    """True when an array holds neither NaN nor infinity."""
    import numpy as np

    return bool(np.isfinite(values).all())


def _satisfies(backbone: HuggingFaceBackbone) -> Backbone:
    return backbone
