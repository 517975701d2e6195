"""A model in Hugging Face format as a Backbone: text in, h at position -2 out (paper, section 3.1)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.backbone.base import Backbone, Rendered
from core.backbone.chunks import ChunkReader, Engine
from core.backbone.prefix import DEFAULT_CACHE_BYTES, PrefixCache
from core.backbone.text import ChatText, Tokens
from core.errors import NonFiniteState, QuestionInvalid
from core.types import HiddenState, ReadToken

if TYPE_CHECKING:
    import torch


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
        cache: shared by everything that reads with these weights or weights derived from them.
        folder: where derived matrices (SVD factors) may be kept, or None.

    `batching` runs transcripts of equal chunk lengths as rows of one pass. It is off on the CPU: a row's bits then
    depend on how many rows there are, and 8 transcripts of 78 new tokens gain only 12 to 20 %.
    """

    def __init__(
        self,
        identity: Identity,
        text: ChatText,
        engine: Engine,
        *,
        cache: PrefixCache | None = None,
        folder: Path | None = None,
    ) -> None:
        self.identity = identity
        self.text = text
        self.engine = engine
        self.cache = cache if cache is not None else PrefixCache(DEFAULT_CACHE_BYTES)
        self.folder = folder
        self.batching = engine.batches and identity.device != "cpu"
        self.name = identity.name
        self.weights_hash = identity.weights_hash
        self.dtype = identity.dtype
        self.device = identity.device
        self.hidden_size = engine.hidden_size
        self.context_length = engine.context_length
        self._reader = ChunkReader(engine, self.cache, identity.weights_hash.encode())
        self.lock = threading.Lock()  # held while the engine runs
        self._trunks: dict[int, ChunkReader] = {}

    def special_tokens(self) -> tuple[str, ...]:
        """See Backbone.special_tokens."""
        return self.text.special_tokens()

    def count_tokens(self, text: str) -> int:
        """See Backbone.count_tokens."""
        return self.text.count(text)

    def hidden(self, rendered: Rendered) -> HiddenState:
        """See Backbone.hidden. Raises QuestionInvalid when the transcript is longer than the context."""
        tokens = self.tokens(rendered)
        with self.lock:
            state = self._reader.read(tokens).state
        return self.state(rendered, tokens, state[0])

    def hidden_batch(self, rendered: Sequence[Rendered]) -> list[HiddenState]:
        """See Backbone.hidden_batch. Transcripts with chunks of equal lengths run together, never padded."""
        tokens = [self.tokens(one) for one in rendered]
        with self.lock:
            if self.batching:
                states = self._reader.read_batch(tokens)
            else:
                states = [self._reader.read(one).state for one in tokens]
        return [self.state(one, ids, state[0]) for one, ids, state in zip(rendered, tokens, states, strict=True)]

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

    def trunk(self, depth: int) -> ChunkReader:
        """A reader of the first `depth` layers that keeps their residual stream, in the same cache.

        Only engines with `trunk` have one (`core.backbone.decoder`). Hold `lock` while reading.
        """
        if depth not in self._trunks:
            engine: Any = self.engine
            seed = f"{self.weights_hash}, {depth} layers".encode()
            self._trunks[depth] = ChunkReader(engine.trunk(depth), self.cache, seed)
        return self._trunks[depth]

    def state(self, rendered: Rendered, tokens: Tokens, vector: torch.Tensor) -> HiddenState:
        """Wrap h [hidden] with where it came from. Raises NonFiniteState."""
        import numpy as np

        values = vector.float().cpu().numpy().copy()
        token = ReadToken(tokens.read_id, self.text.piece(tokens.read_id), tokens.read_index)
        if not np.isfinite(values).all():
            raise NonFiniteState(
                f"{self.name} gave a hidden state that is not finite (NaN or infinity) at token {token.index}. "
                "Check the weights, or use dtype float32."
            )
        return HiddenState(values, token, self.name, rendered.protocol, self.dtype, rendered.truncated)


def _satisfies(backbone: HuggingFaceBackbone) -> Backbone:
    return backbone
