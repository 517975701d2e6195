"""Matrices applied as `x V diag(s') Uᵀ`: nothing is rebuilt, so a candidate costs only its own two products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from core.backbone.decoder import Decoder
from core.backbone.linear import Linear
from core.svf.factors import Factors

if TYPE_CHECKING:
    import torch

    Tensor = torch.Tensor


class FactoredGroup:
    """Decompositions of matrices that read the same input, packed once for every candidate.

    The right factors stand side by side, so their common input is read once.
    """

    def __init__(
        self, names: Sequence[str], factors: Sequence[Factors], dtype: torch.dtype, bias: Tensor | None
    ) -> None:
        self.names = tuple(names)
        self.values = [one.values for one in factors]
        self.factors = list(factors)
        self.right = Linear(names, [one.right.to(dtype) for one in factors], None)
        self.left = [Linear([name], [_left(one).to(dtype)], None) for name, one in zip(names, factors, strict=True)]
        self.bias = bias

    def candidate(self, offsets: Sequence[Tensor | None]) -> FactoredLinear:
        """The group under one candidate's offsets, one vector for each matrix; None leaves it as it is."""
        import torch

        pairs = zip(self.factors, offsets, strict=True)
        scaled = torch.cat([one.values if d is None else one.values * one.scales(d) for one, d in pairs])
        return FactoredLinear(self, scaled.to(self.right.weight.dtype))


class FactoredLinear:
    """One candidate's matrices with the call of `core.backbone.linear.Linear`."""

    def __init__(self, group: FactoredGroup, scaled: Tensor) -> None:
        self.names = group.names
        self._group = group
        self._scaled = scaled

    def __call__(self, x: Tensor) -> Tensor:
        """`x` [..., columns] times the transposed, scaled matrices, side by side."""
        import torch

        group = self._group
        inner = torch.split(group.right(x).mul_(self._scaled), list(group.right.sizes), -1)
        parts = [left(part) for left, part in zip(group.left, inner, strict=True)]
        whole = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
        return whole if group.bias is None else whole.add_(group.bias)


def candidate_decoder(decoder: Decoder, groups: dict[str, FactoredGroup], offsets: dict[str, Tensor]) -> Decoder:
    """The decoder with the groups' places taken by one candidate's factored matrices.

    Args:
        decoder: the base; shared, not changed.
        groups: by place, e.g. `26.qkv`.
        offsets: by full matrix name.
    """
    linears: dict[str, Any] = dict(decoder.linears)  # a candidate's decoder only ever calls them
    for place, group in groups.items():
        deltas = [offsets.get(f"{name}.weight") for name in group.names]
        linears[place] = group.candidate(deltas)
    return Decoder(decoder.shape, decoder.vectors, linears)


def _left(factors: Factors) -> Tensor:
    if factors.left is None:
        raise ValueError("a matrix without a stored left factor cannot be applied factored")
    return factors.left
