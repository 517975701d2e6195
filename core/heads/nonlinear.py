"""Heads beyond a matrix product: low-rank with an activation, sparse with a learned choice of dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from core.heads.arrays import Array, like
from core.heads.base import Block, Head, layout

if TYPE_CHECKING:
    import numpy.typing as npt

ELU_ALPHA = 0.1
TEMPERATURES = (1.0, 20.0)


class LowRank(Head):
    """u = ELU(U h), z = sigma·V u with a fixed sigma: r·d + n·r parameters.

    At d = 1024, n = 10: 20,680 for r = 20, which the paper's table needs, and 14,476 for the r = 14 it prints.
    """

    def _layout(self) -> tuple[Block, ...]:
        rank = int(self.spec.options["rank"])
        return layout(("down", (rank, self.spec.hidden_size), True), ("up", (self.spec.n_logits, rank), True))

    def initial(self, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """Xavier-uniform: both factors at zero would have no gradient and no effect of one alone."""
        d, n, rank = self.spec.hidden_size, self.spec.n_logits, int(self.spec.options["rank"])
        down, up = sqrt(6 / (d + rank)), sqrt(18 / (rank + n))
        return np.concatenate([rng.uniform(-down, down, rank * d), rng.uniform(-up, up, n * rank)])

    def _map(self, parts: Mapping[str, Array], x: Array, noise: Array | None) -> Array:
        u = _elu(x @ parts["down"].swapaxes(-1, -2))
        return float(self.spec.options["sigma"]) * (u @ parts["up"].swapaxes(-1, -2))


class Sparse(Head):
    """z = W (h * mask): the mask keeps the k dimensions with the highest learned scores.

    k = max(1, floor(d (1 - sigmoid(rho)))). While training, Gumbel noise on the scores makes the choice a draw,
    and the gradient passes through a soft mask of temperature in [1, 20]; at inference the choice is hard.
    n·d + d + 2 parameters: 11,266 at d = 1024, n = 10.
    """

    def _layout(self) -> tuple[Block, ...]:
        d = self.spec.hidden_size
        return layout(
            ("weight", (self.spec.n_logits, d), True),
            ("scores", (d,), False),
            ("rho", (1,), False),
            ("temperature", (1,), False),
        )

    def initial(self, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """Zero weights; small random scores, because equal ones would always choose the first dimensions."""
        theta = np.zeros(self.n_params)
        scores = self.blocks[1]
        theta[scores.start : scores.stop] = 0.01 * rng.standard_normal(self.spec.hidden_size)
        return theta

    def noise(self, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """Standard Gumbel noise [d] for one training step."""
        return rng.gumbel(size=self.spec.hidden_size)

    def kept(self, theta: npt.NDArray[np.float64]) -> int:
        """k: how many dimensions a theta [n] keeps."""
        return _kept(float(theta[self.blocks[2].start]), self.spec.hidden_size)

    def _map(self, parts: Mapping[str, Array], x: Array, noise: Array | None) -> Array:
        keys = parts["scores"]
        keys = keys if noise is None else keys + like(noise, keys)
        mask = like(_top_mask(_numpy(keys), _numpy(parts["rho"])), keys)
        if noise is not None and not isinstance(keys, np.ndarray):
            mask = self._straight_through(mask, keys, parts)
        return (x * mask[..., None, :]) @ parts["weight"].swapaxes(-1, -2)

    def _straight_through(self, hard: Array, keys: Array, parts: Mapping[str, Array]) -> Array:
        """The hard mask's values with the soft mask's gradient; torch only."""
        import torch

        low, high = TEMPERATURES
        temperature = low + (high - low) * torch.sigmoid(parts["temperature"])
        lowest = torch.where(hard > 0, keys, torch.inf).min(dim=-1, keepdim=True).values.detach()
        share = 1 - torch.sigmoid(parts["rho"])
        soft = torch.sigmoid((keys - lowest) / temperature) * share / share.detach()
        return hard + soft - soft.detach()


def _elu(x: Array) -> Array:
    if isinstance(x, np.ndarray):
        return np.where(x > 0, x, ELU_ALPHA * np.expm1(np.minimum(x, 0)))
    import torch

    return torch.nn.functional.elu(x, alpha=ELU_ALPHA)


def _numpy(x: Array) -> npt.NDArray[np.float64]:
    return x if isinstance(x, np.ndarray) else x.detach().cpu().double().numpy()


def _kept(rho: float, d: int) -> int:
    # 1 - sigmoid(rho), written so that it cannot overflow.
    return max(1, int(d * 0.5 * (1 - np.tanh(rho / 2))))


def _top_mask(keys: npt.NDArray[np.float64], rho: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """1.0 at the k highest keys of each row, else 0.0; equal keys go to the lower index. [..., d] -> [..., d]."""
    flat, mask = keys.reshape(-1, keys.shape[-1]), np.zeros(keys.shape)
    for row, out, one in zip(flat, mask.reshape(flat.shape), rho.reshape(-1), strict=True):
        out[np.argsort(-row, kind="stable")[: _kept(float(one), len(row))]] = 1.0
    return mask
