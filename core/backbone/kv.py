"""Key-value memory of transcripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

    Tensor = torch.Tensor


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

    `first` is the index of its first layer. `tap` [rows, capacity, hidden] keeps the residual stream behind a trunk,
    or is None. `length` counts the tokens that are valid; what lies behind is spare.
    """

    __slots__ = ("first", "length", "pairs", "tap")

    def __init__(self, pairs: Tensor, tap: Tensor | None, length: int, first: int = 0) -> None:
        self.pairs = pairs
        self.tap = tap
        self.length = length
        self.first = first

    @classmethod
    def empty(
        cls,
        lead: tuple[int, int, int, int],
        capacity: int,
        head_dim: int,
        tap: int,
        *,
        dtype: Any,
        device: Any,
        first: int = 0,
    ) -> KeyValues:
        """Fresh memory. Pages are only touched when tokens are written."""
        import torch

        pairs = torch.empty((*lead, capacity, head_dim), dtype=dtype, device=device)
        return cls(pairs, torch.empty((lead[2], capacity, tap), dtype=dtype, device=device) if tap else None, 0, first)

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
        self.pairs[layer - self.first, which, :, :, start : start + values.shape[2]] = values

    def read(self, layer: int, stop: int) -> tuple[Tensor, Tensor]:
        """Keys and values of the first `stop` positions, as views."""
        pair = self.pairs[layer - self.first, :, :, :, :stop]
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

    def fill(self, stores: Sequence[KeyValues], length: int) -> None:
        """Take over the first `length` tokens of one store for each row."""
        for row, store in enumerate(stores):
            self.pairs[:, :, row, :, :length] = store.pairs[:, :, 0, :, :length]
            if self.tap is not None and store.tap is not None:
                self.tap[row, :length] = store.tap[0, :length]
        self.length = length

    def row(self, index: int) -> KeyValues:
        """A memory of its own for one row, with the same capacity."""
        tap = None if self.tap is None else self.tap[index : index + 1].clone()
        return KeyValues(self.pairs[:, :, index : index + 1].clone(), tap, self.length, self.first)
