"""The forward pass of Llama-, Qwen2- and Qwen3-like decoders, written for reading one position of a growing text.

Why not call transformers here: importing one of its models takes 2.4 s on top of torch's 1.0 s (2 cores), which alone
breaks the start-up budget; and the coordinator needs less than a general forward: no LM head, the last layer at one
position only, key-value memory that is extended in place, packed matrices, and layers below the adapted one shared by
a population. Other architectures go through `core.backbone.transformers_engine`; tests hold both to the same results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from core.backbone.kv import KeyValues
from core.backbone.linear import Linear
from core.backbone.shape import Shape

if TYPE_CHECKING:
    import torch

    Tensor = torch.Tensor
    Rotary = tuple[Tensor, Tensor]

# Rows evaluated at once. Longer chunks are cut into blocks, counted from the chunk's own start and shorter far into a
# transcript, so that the cut depends on the transcript alone and never on what was cached. It bounds activations and
# the attention mask (128 x 30,000 x 4 B = 15 MB); 128 rows multiply as fast as 512.
BLOCK, FAR, FAR_BLOCK = 512, 8_192, 128


class Decoder:
    """Weights and forward pass of layers `0 … depth-1`. Made by `build_decoder`.

    Args:
        shape: dimensions.
        vectors: the token table, norms: tensors by `state_dict` name without the `model.` prefix.
        linears: matrices by layer and place: `3.qkv` (in the last layer `q` and `kv`), `3.o`, `3.gate_up`, `3.down`.
        depth: how many layers to run; all of them when None. A decoder of fewer layers is a trunk: it returns the
            residual stream of the rows instead of a normalised state.
    """

    caches = True
    batches = True

    def __init__(
        self, shape: Shape, vectors: Mapping[str, Tensor], linears: Mapping[str, Linear], depth: int | None = None
    ) -> None:
        self.shape = shape
        self.vectors = vectors
        self.linears = linears
        self.depth = shape.layers if depth is None else depth
        self.hidden_size = shape.hidden
        self.context_length = shape.context_length
        self._table: Rotary | None = None

    @property
    def embedding(self) -> Tensor:
        """The token table [vocabulary, hidden]."""
        return self.vectors["embed_tokens.weight"]

    @property
    def nbytes(self) -> int:
        """Bytes of all weights."""
        return sum(v.nbytes for v in self.vectors.values()) + sum(m.nbytes for m in self.linears.values())

    def matrix(self, name: str) -> Tensor:
        """A copy of one weight by its full name, e.g. `layers.3.mlp.up_proj.weight`. Raises KeyError."""
        if name in self.vectors:
            return self.vectors[name].clone()
        bare = name.removesuffix(".weight")
        for linear in self.linears.values():
            if bare in linear.names:
                return linear.dense(bare)
        raise KeyError(name)

    @property
    def layers(self) -> int:
        """Layers of the whole model."""
        return self.shape.layers

    def size_of(self, name: str) -> tuple[int, int]:
        """Rows and columns of a matrix by its full name. Raises KeyError."""
        if name == "embed_tokens.weight":
            return int(self.embedding.shape[0]), self.shape.hidden
        kind, index, inner = name.removesuffix(".weight").split(".", 2)
        if kind != "layers" or int(index) >= self.shape.layers:
            raise KeyError(name)
        return self.shape.matrices()[inner]

    def with_weights(self, changed: Mapping[str, Tensor]) -> Decoder:
        """The same model with some matrices replaced, sharing all others; this one is left as it is."""
        known = {f"{bare}.weight" for linear in self.linears.values() for bare in linear.names} | set(self.vectors)
        if unknown := set(changed) - known:
            raise KeyError(", ".join(sorted(unknown)))
        bare = {name.removesuffix(".weight"): tensor for name, tensor in changed.items()}
        linears = {place: linear.replaced(bare) for place, linear in self.linears.items()}
        vectors = {name: changed.get(name, vector) for name, vector in self.vectors.items()}
        return Decoder(self.shape, vectors, linears, self.depth)

    def trunk(self, depth: int) -> Decoder:
        """The first `depth` layers, sharing these weights."""
        return Decoder(self.shape, self.vectors, self.linears, depth)

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
            at = 0
            while at < length + tail:
                stop = at + (BLOCK if store.length < FAR else FAR_BLOCK)
                last = stop >= length
                stop = length + tail if last else stop
                out = self._block(store, rows[:, at:stop], tail if last else 0)
                at = stop
        store.length -= tail
        return out

    def _block(self, store: KeyValues, ids: Tensor, reads: int) -> Tensor:
        """Run one block of rows; `reads` is how many rows at its end are closing tokens."""
        from torch.nn import functional

        past, count = store.length, ids.shape[1]
        x = functional.embedding(ids, self.embedding)
        rotary, mask = self.rotary(past, past + count), self.mask(past, count)
        for index in range(self.depth):
            last = index == self.shape.layers - 1
            x = self.last_layer(index, x, rotary, store) if last else self.layer(index, x, rotary, mask, store)
        if store.tap is not None:
            store.tap[:, past : past + count] = x
        store.length = past + count
        if not reads:
            return x[:, :0]
        # A copy: what is read must not keep the whole block alive.
        return x[:, -reads:].clone() if self.depth < self.shape.layers else self.final_norm(x[:, -1])

    def tail(self, x: Tensor, first: int) -> Tensor:
        """Run the layers from `first` on over a whole transcript and return h [rows, hidden] of its last row.

        Args:
            x: residual stream [rows, n, hidden] in front of layer `first`, as a trunk of that depth returns it.
            first: index of the first layer to run.
        """
        import torch

        shape = self.shape
        lead = (shape.layers - first, 2, x.shape[0], shape.kv_heads)
        with torch.inference_mode():
            store = KeyValues.empty(lead, x.shape[1], shape.head_dim, 0, dtype=x.dtype, device=x.device, first=first)
            for start in range(0, x.shape[1], BLOCK):
                rows = x[:, start : start + BLOCK]
                rotary, mask = self.rotary(start, start + rows.shape[1]), self.mask(start, rows.shape[1])
                for index in range(first, shape.layers - 1):
                    rows = self.layer(index, rows, rotary, mask, store)
                rows = self.last_layer(shape.layers - 1, rows, rotary, store)
                store.length += min(BLOCK, x.shape[1] - start)
            return self.final_norm(rows[:, -1])

    def layer(self, index: int, x: Tensor, rotary: Rotary, mask: Tensor | None, store: KeyValues) -> Tensor:
        """One decoder layer on `x` [rows, n, hidden], writing its keys and values behind `store.length`."""
        import torch

        shape, past, stop = self.shape, store.length, store.length + x.shape[1]
        widths = [heads * shape.head_dim for heads in (shape.heads, shape.kv_heads, shape.kv_heads)]
        normed = self.norm(x, f"layers.{index}.input_layernorm.weight")
        query, keys, values = torch.split(self.linears[f"{index}.qkv"](normed), widths, -1)
        self._remember(index, keys, values, rotary, store)
        query = rotate(self.heads(query, f"layers.{index}.self_attn.q_norm.weight"), *rotary)
        mixed = self.attend(query, *store.read(index, stop), mask, causal=past == 0 and x.shape[1] > 1)
        return self._rest(index, x, mixed)

    def last_layer(self, index: int, x: Tensor, rotary: Rotary, store: KeyValues) -> Tensor:
        """The last decoder layer: keys and values of all rows, but only the last row goes on; nobody reads others."""
        import torch

        stop, width = store.length + x.shape[1], self.shape.kv_heads * self.shape.head_dim
        normed = self.norm(x, f"layers.{index}.input_layernorm.weight")
        keys, values = torch.split(self.linears[f"{index}.kv"](normed), width, -1)
        self._remember(index, keys, values, rotary, store)
        query = self.heads(self.linears[f"{index}.q"](normed[:, -1:]), f"layers.{index}.self_attn.q_norm.weight")
        query = rotate(query, rotary[0][-1:], rotary[1][-1:])
        return self._rest(index, x[:, -1:], self.attend(query, *store.read(index, stop), None, causal=False))

    def _remember(self, index: int, keys: Tensor, values: Tensor, rotary: Rotary, store: KeyValues) -> None:
        heads = self.heads(keys, f"layers.{index}.self_attn.k_norm.weight")
        store.write(index, 0, rotate(heads, *rotary), store.length)
        store.write(index, 1, self.heads(values), store.length)

    def _rest(self, index: int, x: Tensor, mixed: Tensor) -> Tensor:
        """What follows attention in a layer: output projection and the gated MLP, each added to the stream."""
        from torch.nn import functional

        x = x + self.linears[f"{index}.o"](mixed.transpose(1, 2).flatten(2))
        normed = self.norm(x, f"layers.{index}.post_attention_layernorm.weight")
        gate, up = self.linears[f"{index}.gate_up"](normed).chunk(2, -1)
        return x + self.linears[f"{index}.down"](functional.silu(gate).mul_(up))

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, *, causal: bool) -> Tensor:
        """Scaled dot-product attention over [rows, heads, n, head_dim], groups of heads sharing keys."""
        from torch.nn import functional

        return functional.scaled_dot_product_attention(
            query, keys, values, attn_mask=mask, is_causal=causal, enable_gqa=self.shape.heads != self.shape.kv_heads
        )

    def final_norm(self, x: Tensor) -> Tensor:
        """The norm behind the last layer."""
        return self.norm(x, "norm.weight")

    def norm(self, x: Tensor, name: str) -> Tensor:
        """Root-mean-square norm with the named weight."""
        from torch.nn import functional

        weight = self.vectors[name]
        return functional.rms_norm(x, (weight.shape[0],), weight, self.shape.epsilon)

    def heads(self, x: Tensor, norm: str = "") -> Tensor:
        """[rows, n, heads * head_dim] -> [rows, heads, n, head_dim], with Qwen3's per-head norm if there is one."""
        split = x.reshape(*x.shape[:-1], -1, self.shape.head_dim)
        if norm in self.vectors:
            split = self.norm(split, norm)
        return split.transpose(1, 2)

    def rotary(self, start: int, stop: int) -> Rotary:
        """Cosine and signed sine [n, head_dim] of positions start … stop-1, computed in float32 (RoPE)."""
        import torch

        if self._table is None or self._table[0].shape[0] < stop:
            device, half = self.embedding.device, self.shape.head_dim // 2
            steps = torch.arange(0, self.shape.head_dim, 2, dtype=torch.int64, device=device).float()
            inverse = 1.0 / self.shape.rope_theta ** (steps / self.shape.head_dim)
            places = torch.arange(max(stop, 2_048), device=device).float()
            angles = torch.outer(places, inverse).repeat(1, 2)
            sine = angles.sin()
            sine[:, :half].neg_()  # the sign of "rotate half", folded into the table
            self._table = (angles.cos().to(self.embedding.dtype), sine.to(self.embedding.dtype))
        return self._table[0][start:stop], self._table[1][start:stop]

    def mask(self, past: int, count: int) -> Tensor | None:
        """Additive mask [count, past + count]: all of the past, the block causally. None where a flag says the same."""
        if past == 0 or count == 1:
            return None
        mask = self.embedding.new_zeros((count, past + count))
        mask[:, past:].fill_(float("-inf")).triu_(1)
        return mask


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary position embedding: `x` times the cosine plus its swapped halves times the signed sine."""
    return (x * cosine).addcmul_(x.roll(x.shape[-1] // 2, -1), sine)
