"""Dimensions of a decoder, and which architectures the fast forward pass knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_KNOWN = ("llama", "qwen2", "qwen3")


@dataclass(frozen=True, slots=True)
class Shape:
    """What the forward pass must know of a model's config.json."""

    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    epsilon: float
    rope_theta: float
    context_length: int

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Shape:
        """Read a config.json, old (`rope_theta`) or new (`rope_parameters`). Raises KeyError, ValueError, TypeError."""
        heads = int(config["num_attention_heads"])
        rope = config.get("rope_parameters") or {}
        return cls(
            hidden=int(config["hidden_size"]),
            inner=int(config["intermediate_size"]),
            layers=int(config["num_hidden_layers"]),
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or config["hidden_size"] // heads),
            epsilon=float(config.get("rms_norm_eps", 1e-6)),
            rope_theta=float(rope.get("rope_theta") or config.get("rope_theta") or 10_000.0),
            context_length=int(config.get("max_position_embeddings") or 2_048),
        )

    def matrices(self) -> dict[str, tuple[int, int]]:
        """Rows and columns of the seven projections of a layer, by name inside the layer, in `state_dict` order."""
        query, pair = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return {
            "self_attn.q_proj": (query, self.hidden),
            "self_attn.k_proj": (pair, self.hidden),
            "self_attn.v_proj": (pair, self.hidden),
            "self_attn.o_proj": (self.hidden, query),
            "mlp.gate_proj": (self.inner, self.hidden),
            "mlp.up_proj": (self.inner, self.hidden),
            "mlp.down_proj": (self.hidden, self.inner),
        }

    def places(self, layer: int) -> dict[str, tuple[str, ...]]:
        """Which projections of a layer are evaluated side by side: place -> full names.

        In the last layer queries stand apart: they are wanted of one row only.
        """
        q, k, v, o, gate, up, down = (f"layers.{layer}.{name}" for name in self.matrices())
        attention = {"q": (q,), "kv": (k, v)} if layer == self.layers - 1 else {"qkv": (q, k, v)}
        places = {**attention, "o": (o,), "gate_up": (gate, up), "down": (down,)}
        return {f"{layer}.{place}": names for place, names in places.items()}


def unsupported(config: Mapping[str, Any]) -> str | None:
    """None when the fast forward pass can run the model, else the first reason why not."""
    kind = config.get("model_type")
    if kind not in _KNOWN:
        return f"model type {kind}"
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if rope.get("rope_type", rope.get("type", "default")) != "default":
        return "scaled rotary positions"
    if config.get("use_sliding_window") or "sliding_attention" in (config.get("layer_types") or ()):
        return "sliding-window layers"
    if config.get("hidden_act", "silu") != "silu":
        return f"activation {config['hidden_act']}"
    if float(rope.get("partial_rotary_factor") or config.get("partial_rotary_factor") or 1.0) != 1.0:
        return "partial rotary positions"
    if "quantization_config" in config:
        return "quantised weights"
    return None
