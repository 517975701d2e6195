"""Backbones of a known architecture with random weights, made on the spot: for benchmarks and tests, no download.

`shape:qwen3-0.6b` has the dimensions of the paper's coordinator model. The tokenizer is byte-level (one token a byte)
with a chat template of the Qwen3 kind, so h is read at `</think>`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from core.backbone.decoder import Decoder, Shape
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


def matrices(config: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of every weight of a Qwen3-like model, in `state_dict` order."""
    shape, inner = Shape.of(config), int(config["intermediate_size"])
    query, pair = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    yield "embed_tokens.weight", (int(config["vocab_size"]), shape.hidden)
    for index in range(shape.layers):
        layer = f"layers.{index}."
        yield f"{layer}self_attn.q_proj.weight", (query, shape.hidden)
        yield f"{layer}self_attn.k_proj.weight", (pair, shape.hidden)
        yield f"{layer}self_attn.v_proj.weight", (pair, shape.hidden)
        yield f"{layer}self_attn.o_proj.weight", (shape.hidden, query)
        yield f"{layer}self_attn.q_norm.weight", (shape.head_dim,)
        yield f"{layer}self_attn.k_norm.weight", (shape.head_dim,)
        yield f"{layer}mlp.gate_proj.weight", (inner, shape.hidden)
        yield f"{layer}mlp.up_proj.weight", (inner, shape.hidden)
        yield f"{layer}mlp.down_proj.weight", (shape.hidden, inner)
        yield f"{layer}input_layernorm.weight", (shape.hidden,)
        yield f"{layer}post_attention_layernorm.weight", (shape.hidden,)
    yield "norm.weight", (shape.hidden,)


def random_decoder(config: dict[str, Any], dtype: torch.dtype, device: str, seed: int = 0) -> Decoder:
    """A decoder with seeded normal weights; norms are ones."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, size in matrices(config):
        if name.endswith("norm.weight"):
            tensor = torch.ones(size)
        else:
            tensor = torch.empty(size).normal_(0.0, _SPREAD, generator=generator)
        weights[name] = tensor.to(device=device, dtype=dtype)
    return Decoder(Shape.of(config), weights)


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
