"""Heads that are one matrix product: linear, block-diagonal, projected."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from core.heads.arrays import Array, like
from core.heads.base import Block, Head, layout


class Linear(Head):
    """z = W h (paper, section 3.1): n·d parameters, plus n with the `bias` option, which folding needs."""

    def _layout(self) -> tuple[Block, ...]:
        n = self.spec.n_logits
        weight = ("weight", (n, self.spec.hidden_size), True)
        return layout(weight, ("bias", (n,), True)) if self.spec.options["bias"] else layout(weight)

    def _map(self, parts: Mapping[str, Array], x: Array, noise: Array | None) -> Array:
        z = x @ parts["weight"].swapaxes(-1, -2)
        return z + parts["bias"][..., None, :] if "bias" in parts else z


class BlockDiagonal(Head):
    """B proportional blocks: logits are dealt to the blocks evenly, and each block's share of h is that of its logits.

    At d = 1024 and n = 10 this gives 5,120 parameters for B = 2 and 1,024 for B = 10 (paper, table of heads).
    """

    def _layout(self) -> tuple[Block, ...]:
        return layout(
            *((f"block{i}", (len(rows), len(columns)), True) for i, (rows, columns) in enumerate(self._cut()))
        )

    def _map(self, parts: Mapping[str, Array], x: Array, noise: Array | None) -> Array:
        cuts = self._cut()
        lead = parts["block0"].shape[:-2]
        z = like(np.zeros((*lead, x.shape[0], self.spec.n_logits)), x)
        for i, (rows, columns) in enumerate(cuts):
            z[..., rows.start : rows.stop] = x[:, columns.start : columns.stop] @ parts[f"block{i}"].swapaxes(-1, -2)
        return z

    def _cut(self) -> list[tuple[range, range]]:
        """Rows and columns of each block."""
        n, d, count = self.spec.n_logits, self.spec.hidden_size, int(self.spec.options["blocks"])
        rows = [i * n // count for i in range(count + 1)]
        columns = [row * d // n for row in rows]
        return [(range(rows[i], rows[i + 1]), range(columns[i], columns[i + 1])) for i in range(count)]


class Projected(Head):
    """z = A f, where f is h on p fixed directions, and a constant 1 with the option `constant`: n·(p + 1) parameters.

    The directions come from unlabelled states (`principal_directions`). The constant is a bias, which raw h has
    in its large common part and bare directions lack.
    """

    def _layout(self) -> tuple[Block, ...]:
        width = int(self.spec.options["directions"]) + bool(self.spec.options["constant"])
        return layout(("weight", (self.spec.n_logits, width), True))

    def features(self, h: Array) -> Array:
        """Calibrated h [B, d] on the directions, float [B, p] or [B, p+1]."""
        f = super().features(h)
        f = f @ like(self.directions, f).swapaxes(-1, -2)
        if not self.spec.options["constant"]:
            return f
        ones = like(np.ones((f.shape[0], 1)), f)
        if isinstance(f, np.ndarray):
            return np.concatenate([f, ones], axis=1)
        import torch

        return torch.cat([f, ones], dim=1)

    def _map(self, parts: Mapping[str, Array], x: Array, noise: Array | None) -> Array:
        return x @ parts["weight"].swapaxes(-1, -2)
