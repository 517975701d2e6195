"""The forward pass of Llama-, Qwen2- and Qwen3-like decoders, written for reading one position of a growing text.

Why not call transformers here: importing one of its models takes 2.4 s on top of torch's 1.0 s (2 cores), which alone
breaks the start-up budget; and the coordinator needs less than a general forward: no LM head, the last layer at one
position only, key-value memory that is extended in place, and layers below the adapted one shared by a population.
Other architectures go through `core.backbone.transformers_engine`. tests/contract/test_backbone.py holds both to the
same results, and tests/integration compares this file with transformers on the real model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.backbone.kv import KeyValues

if TYPE_CHECKING:
    import torch

    Tensor = torch.Tensor

# Rows evaluated at once. Longer chunks are cut into blocks of this length, counted from the chunk's own start, so
# that the cut depends on nothing but the chunk; it bounds activations and the attention mask (512 x 30,000 x 4 B).
BLOCK = 512

_KNOWN = ("llama", "qwen2", "qwen3")


@dataclass(frozen=True, slots=True)
class Shape:
    """What the forward pass must know of a model's config.json."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    epsilon: float
    rope_theta: float
    context_length: int

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Shape:
        """Read a config.json, old (`rope_theta`) or new (`rope_parameters`)."""
        heads = int(config["num_attention_heads"])
        rope = config.get("rope_parameters") or {}
        return cls(
            hidden=int(config["hidden_size"]),
            layers=int(config["num_hidden_layers"]),
            heads=heads,
            kv_heads=int(config.get("num_key_value_heads") or heads),
            head_dim=int(config.get("head_dim") or config["hidden_size"] // heads),
            epsilon=float(config.get("rms_norm_eps", 1e-6)),
            rope_theta=float(rope.get("rope_theta") or config.get("rope_theta") or 10_000.0),
            context_length=int(config.get("max_position_embeddings") or 2_048),
        )


def unsupported(config: Mapping[str, Any]) -> str | None:
    """None when this file can run the model, else the first reason why not."""
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
    return None


class Decoder:
    """Weights and forward pass of layers `0 … depth-1`.

    Args:
        shape: dimensions.
        weights: tensors by `state_dict` name without the `model.` prefix, e.g. `layers.3.self_attn.q_proj.weight`.
        depth: how many layers to run; all of them when None. A decoder of fewer layers is a trunk: it returns the
            residual stream of the rows instead of a normalised state.
    """

    caches = True

    def __init__(self, shape: Shape, weights: Mapping[str, Tensor], depth: int | None = None) -> None:
        self.shape = shape
        self.weights = dict(weights)
        self.depth = shape.layers if depth is None else depth
        self.hidden_size = shape.hidden
        self.context_length = shape.context_length
        self._table: tuple[Tensor, Tensor] | None = None

    @property
    def embedding(self) -> Tensor:
        """The token table [vocabulary, hidden]."""
        return self.weights["embed_tokens.weight"]

    def check(self) -> None:
        """Raise KeyError or ValueError when a matrix is absent or does not fit the shape."""
        shape = self.shape
        query, pair = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        wanted = {"self_attn.q_proj": query, "self_attn.k_proj": pair, "self_attn.v_proj": pair}
        for index in range(self.depth):
            for name, rows in wanted.items():
                size = tuple(self.weights[f"layers.{index}.{name}.weight"].shape)
                if size != (rows, shape.hidden):
                    raise ValueError(f"layers.{index}.{name} is {size}, config.json says {(rows, shape.hidden)}")
            for name in ("self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"):
                _ = self.weights[f"layers.{index}.{name}.weight"]
        _ = self.weights["norm.weight"]

    def with_weights(self, changed: Mapping[str, Tensor]) -> Decoder:
        """The same model with some matrices replaced; this one is left as it is."""
        return Decoder(self.shape, {**self.weights, **changed}, self.depth)

    def trunk(self, depth: int) -> Decoder:
        """The first `depth` layers, sharing these weights."""
        return Decoder(self.shape, self.weights, depth)

    def new_store(self, capacity: int, rows: int = 1) -> KeyValues:
        """Empty key-value memory for `capacity` tokens of `rows` transcripts of equal length."""
        table, shape = self.embedding, self.shape
        tap = shape.hidden if self.depth < shape.layers else 0
        return KeyValues.empty(
            (self.depth, 2, rows, shape.kv_heads), capacity, shape.head_dim, tap, dtype=table.dtype, device=table.device
        )

    def extend(self, store: KeyValues, ids: Sequence[Sequence[int]], closing: Sequence[int]) -> Tensor:
        """Append a chunk to `store` and return what stands at the end of the closing tokens behind it.

        Args:
            store: memory of everything before; its length grows by the chunk, not by the closing tokens.
            ids: the chunk, one row for each transcript, all of one length.
            closing: ids run behind the chunk and forgotten; the last one is the position to read.

        Returns:
            [rows, hidden] after the final norm; for a trunk [rows, len(closing), hidden] of the residual stream.
            Without closing tokens nothing is read, and the tensor is empty.
        """
        import torch

        length, tail = len(ids[0]), len(closing)
        rows = torch.tensor([[*row, *closing] for row in ids], dtype=torch.long).to(self.embedding.device)
        out = self.embedding.new_empty((len(ids), 0))
        with torch.inference_mode():
            for start in range(0, max(length, 1), BLOCK):
                stop = start + BLOCK if start + BLOCK < length else length + tail
                reads = tail if stop == length + tail else 0
                out = self._block(store, rows[:, start:stop], reads)
        store.length -= tail
        return out

    def _block(self, store: KeyValues, ids: Tensor, reads: int) -> Tensor:
        """Run one block of rows; `reads` is how many rows at its end are closing tokens."""
        from torch.nn import functional

        past, count = store.length, ids.shape[1]
        x = functional.embedding(ids, self.embedding)
        cosine, sine = self._rotary(past, past + count)
        mask = self._mask(past, count)
        for index in range(self.depth):
            narrow = index == self.shape.layers - 1
            x = self.layer(index, x, (cosine, sine), mask, store, last_row_only=narrow)
        if store.tap is not None:
            store.tap[:, past : past + count] = x
        store.length = past + count
        if not reads:
            return x[:, :0]
        return x[:, -reads:] if self.depth < self.shape.layers else self.final_norm(x[:, -1])

    def layer(
        self,
        index: int,
        x: Tensor,
        rotary: tuple[Tensor, Tensor],
        mask: Tensor | None,
        store: KeyValues,
        *,
        last_row_only: bool = False,
    ) -> Tensor:
        """One decoder layer on `x` [rows, n, hidden], writing its keys and values behind `store.length`.

        With `last_row_only` keys and values of all rows are stored, and only the last row goes on: nobody reads the
        others behind the last layer.
        """
        from torch.nn import functional

        normed = self._norm(x, f"layers.{index}.input_layernorm.weight")
        prefix, past, count = f"layers.{index}.self_attn.", store.length, x.shape[1]
        keys = self._heads(normed, prefix + "k_proj", prefix + "k_norm")
        store.write(index, 0, _rotate(keys, *rotary), past)
        store.write(index, 1, self._heads(normed, prefix + "v_proj"), past)
        if last_row_only:
            x, normed, mask = x[:, -1:], normed[:, -1:], None
            rotary = (rotary[0][-1:], rotary[1][-1:])
        query = _rotate(self._heads(normed, prefix + "q_proj", prefix + "q_norm"), *rotary)
        seen_keys, seen_values = store.read(index, past + count)
        mixed = functional.scaled_dot_product_attention(
            query,
            seen_keys,
            seen_values,
            attn_mask=mask,
            is_causal=mask is None and count > 1 and not last_row_only,
            enable_gqa=self.shape.heads != self.shape.kv_heads,
        )
        x = x + self.linear(mixed.transpose(1, 2).flatten(2), prefix + "o_proj")
        normed = self._norm(x, f"layers.{index}.post_attention_layernorm.weight")
        prefix = f"layers.{index}.mlp."
        gated = functional.silu(self.linear(normed, prefix + "gate_proj"), inplace=True)
        return x + self.linear(gated.mul_(self.linear(normed, prefix + "up_proj")), prefix + "down_proj")

    def linear(self, x: Tensor, name: str) -> Tensor:
        """`x` times the named matrix, plus its bias if it has one."""
        from torch.nn import functional

        return functional.linear(x, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias"))

    def final_norm(self, x: Tensor) -> Tensor:
        """The norm behind the last layer."""
        return self._norm(x, "norm.weight")

    def _norm(self, x: Tensor, name: str) -> Tensor:
        from torch.nn import functional

        weight = self.weights[name]
        return functional.rms_norm(x, (weight.shape[0],), weight, self.shape.epsilon)

    def _heads(self, x: Tensor, projection: str, norm: str = "") -> Tensor:
        """Project to [rows, heads, n, head_dim], with the per-head norm of Qwen3 where there is one."""
        flat = self.linear(x, projection)
        split = flat.view(*flat.shape[:-1], -1, self.shape.head_dim)
        if f"{norm}.weight" in self.weights:
            split = self._norm(split, f"{norm}.weight")
        return split.transpose(1, 2)

    def _rotary(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Cosine and signed sine [n, head_dim] of positions start … stop-1, computed in float32 (RoPE)."""
        import torch

        if self._table is None or self._table[0].shape[0] < stop:
            device, half = self.embedding.device, self.shape.head_dim // 2
            steps = torch.arange(0, self.shape.head_dim, 2, dtype=torch.int64, device=device).float()
            inverse = 1.0 / self.shape.rope_theta ** (steps / self.shape.head_dim)
            places = torch.arange(max(stop, 2_048), device=device).float()
            angles = torch.outer(places, inverse).repeat(1, 2)
            sine = angles.sin()
            sine[:, :half].neg_()  # the sign of rotate_half, folded into the table
            dtype = self.embedding.dtype
            self._table = (angles.cos().to(dtype), sine.to(dtype))
        return self._table[0][start:stop], self._table[1][start:stop]

    def _mask(self, past: int, count: int) -> Tensor | None:
        """Additive mask [count, past + count]: all of the past, the block causally. None where a flag says the same."""
        import torch

        if past == 0 or count == 1:
            return None
        table = self.embedding
        mask = torch.zeros((count, past + count), dtype=table.dtype, device=table.device)
        mask[:, past:].fill_(float("-inf")).triu_(1)
        return mask


def _rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary position embedding: halves swapped, times the signed sine."""
    return (x * cosine).addcmul_(x.roll(x.shape[-1] // 2, -1), sine)
