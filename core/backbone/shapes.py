"""Backbones of a known architecture with random weights, made on the spot: for benchmarks and tests, no download.

`shape:qwen3-0.6b` has the dimensions of the paper's coordinator model. The tokenizer is byte-level (one token a byte)
with a chat template of the Qwen3 kind, so h is read at `</think>`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from core.backbone.build import build_decoder
from core.backbone.decoder import Decoder
from core.backbone.shape import Shape
from core.backbone.text import ChatText
from core.errors import ConfigError

if TYPE_CHECKING:
    import torch

PREFIX = "shape:"
_SPREAD = 0.02  # standard deviation of every matrix, the usual initialiser range
_RECIPE = "shape@1"

_QWEN3: dict[str, Any] = {
    "model_type": "qwen3",
    "vocab_size": 151_936,
    "hidden_size": 1_024,
    "intermediate_size": 3_072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1_000_000.0,
    "max_position_embeddings": 40_960,
    "tie_word_embeddings": True,
}

SHAPES: dict[str, dict[str, Any]] = {
    "qwen3-0.6b": _QWEN3,
    "qwen3-4layer": {**_QWEN3, "num_hidden_layers": 4, "vocab_size": 4_096},
    "slim-4layer": {  # small enough to read 30,000 tokens in a test
        **_QWEN3,
        "vocab_size": 32_768,
        "hidden_size": 512,
        "intermediate_size": 1_024,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "head_dim": 64,
    },
    "tiny": {
        **_QWEN3,
        "vocab_size": 300,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 4_096,
    },
}

_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n<think>\n\n</think>\n\n"
)


def shape_config(name: str) -> dict[str, Any]:
    """config.json of a shape, e.g. `qwen3-0.6b`. Raises ConfigError naming the shapes there are."""
    if name not in SHAPES:
        raise ConfigError(f"There is no shape {name!r}; there are {', '.join(SHAPES)}.")
    return dict(SHAPES[name])


def random_weights(config: dict[str, Any], dtype: torch.dtype, seed: int = 0) -> Iterator[tuple[str, torch.Tensor]]:
    """Seeded normal matrices and norms of ones by name, in `state_dict` order of a Qwen3-like model (on the CPU)."""
    import torch

    shape = Shape.of(config)
    generator = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return torch.empty(rows, columns).normal_(0.0, _SPREAD, generator=generator).to(dtype)

    yield "embed_tokens.weight", matrix(int(config["vocab_size"]), shape.hidden)
    for index in range(shape.layers):
        for name, size in shape.matrices().items():
            yield f"layers.{index}.{name}.weight", matrix(*size)
        for norm, width in (("self_attn.q_norm", shape.head_dim), ("self_attn.k_norm", shape.head_dim)):
            yield f"layers.{index}.{norm}.weight", torch.ones(width, dtype=dtype)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"layers.{index}.{norm}.weight", torch.ones(shape.hidden, dtype=dtype)
    yield "norm.weight", torch.ones(shape.hidden, dtype=dtype)


def random_decoder(config: dict[str, Any], dtype: torch.dtype, device: str, seed: int = 0) -> Decoder:
    """A decoder with the weights of `random_weights`."""
    weights = ((name, tensor.to(device)) for name, tensor in random_weights(config, dtype, seed))
    return build_decoder(Shape.of(config), weights)


def recipe_hash(config: dict[str, Any], seed: int = 0) -> str:
    """Stands for the weights: they follow from the configuration, the seed and the recipe alone."""
    return hashlib.sha256(json.dumps([_RECIPE, seed, config], sort_keys=True).encode()).hexdigest()


def byte_text() -> ChatText:
    """A byte-level tokenizer with a Qwen3-like chat template."""
    from tokenizers import AddedToken, Tokenizer
    from tokenizers.decoders import ByteLevel as ByteDecoder
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel

    letters = sorted(ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE(vocab={letter: index for index, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = ByteDecoder()
    tokenizer.add_special_tokens([AddedToken("<|im_start|>"), AddedToken("<|im_end|>")])
    tokenizer.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    return ChatText(tokenizer, _TEMPLATE, {})
