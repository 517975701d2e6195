"""A backbone without weights, for tests: a toy tokeniser, and h made of hashes of the tokens read.

h depends on every token up to the read position and on their order, is the same in every process, and texts that
share words get similar states, so that a head can learn something from it. Unlike a real backbone it takes control
tokens in segments for what they say: a test sees at once whether text was neutralised.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from core.backbone.base import Backbone, Rendered
from core.errors import QuestionInvalid
from core.types import HiddenState, ReadToken

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SPECIAL_TOKENS = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>")
_TOKEN = re.compile("|".join(map(re.escape, SPECIAL_TOKENS)) + r"|\w{1,8}|\n| +|.", re.DOTALL)
_FADE = 0.99  # weight of a token against the one after it: recent words count more, and order matters


class FakeBackbone:
    """Deterministic stand-in for a small language model; h has a norm of about the square root of `hidden_size`."""

    def __init__(self, hidden_size: int = 32, context_length: int = 8192, name: str = "fake") -> None:
        self.name = name
        self.weights_hash = hashlib.sha256(f"{name}:{hidden_size}".encode()).hexdigest()
        self.hidden_size = hidden_size
        self.context_length = context_length
        self.dtype = "float32"
        self.device = "cpu"
        self.reads = 0  # transcripts read so far, for tests that count forward passes

    def special_tokens(self) -> tuple[str, ...]:
        """The ChatML tokens and the two thinking marks."""
        return SPECIAL_TOKENS

    def count_tokens(self, text: str) -> int:
        """Words of up to eight letters, runs of blanks and single marks count one each."""
        return len(_TOKEN.findall(text))

    def hidden(self, rendered: Rendered) -> HiddenState:
        """h of one transcript, float32 [hidden_size]. Raises QuestionInvalid when it is longer than the context."""
        tokens = self.tokens(rendered)
        if len(tokens) > self.context_length:
            raise QuestionInvalid(
                f"The transcript has {len(tokens)} tokens and {self.name} reads at most {self.context_length}; "
                "shorten it."
            )
        self.reads += 1
        index = max(0, len(tokens) - 2)
        return HiddenState(
            vector=self._state(tokens[: index + 1]),
            read_token=ReadToken(id=_token_id(tokens[index]), text=tokens[index], index=index),
            backbone=self.name,
            protocol=rendered.protocol,
            dtype=self.dtype,
            truncated=rendered.truncated,
        )

    def hidden_batch(self, rendered: Sequence[Rendered]) -> list[HiddenState]:
        """h of several transcripts, one by one."""
        return [self.hidden(one) for one in rendered]

    def tokens(self, rendered: Rendered) -> list[str]:
        """The tokens of a rendered transcript, its chat template included, in ChatML."""
        if rendered.plain:
            return _TOKEN.findall("".join(rendered.segments))
        opening = "".join(f"<|im_start|>{m.role}\n{m.content}<|im_end|>\n" for m in rendered.messages)
        parts = (opening + "<|im_start|>user\n", *rendered.segments, "<|im_end|>\n<|im_start|>assistant\n")
        return [token for part in parts for token in _TOKEN.findall(part)]

    def _state(self, tokens: Sequence[str]) -> npt.NDArray[np.float32]:
        import numpy as np

        tokens = tokens[-2048:]
        weights = _FADE ** np.arange(len(tokens) - 1, -1, -1)
        rows = np.stack([_direction(token, self.hidden_size) for token in tokens])
        state: npt.NDArray[np.float32] = (weights @ rows / np.sqrt(np.sum(weights**2))).astype(np.float32)
        return state


def _token_id(token: str) -> int:
    return int.from_bytes(hashlib.blake2b(token.encode("utf-8", "replace"), digest_size=4).digest(), "big")


@lru_cache(maxsize=50_000)
def _direction(token: str, size: int) -> npt.NDArray[np.float64]:
    import numpy as np

    seed = hashlib.blake2b(token.encode("utf-8", "replace"), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(seed, "big")).standard_normal(size)


if TYPE_CHECKING:
    _: Backbone = FakeBackbone()
