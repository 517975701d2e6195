"""What every head has in common: a flat vector of parameters in named blocks, and logits from it.

A head keeps no parameters: optimisers own the flat vector `theta`, and a population is a matrix of them. All
maths is duck-typed, so the same lines serve numpy arrays (in float64, whatever comes in, so that one transcript
and a batch agree) and torch tensors (in theta's own dtype, with gradients).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from core.errors import CheckpointInvalid
from core.heads.arrays import Array, like

if TYPE_CHECKING:
    import numpy.typing as npt

    from core.heads.calibration import Calibration
    from core.heads.spec import HeadSpec


@dataclass(frozen=True, slots=True)
class Block:
    """A named part of theta. `trained_by_gradient` is False where the map has steps."""

    name: str
    shape: tuple[int, ...]
    start: int
    trained_by_gradient: bool = True

    @property
    def stop(self) -> int:
        """Where the block ends in theta."""
        return self.start + prod(self.shape)


class Head(ABC):
    """h [..., d] and theta [n] -> logits [..., L+3]: the agents in order, then the three roles.

    Args:
        spec: Kind and sizes.
        calibration: Fixed mean and scale applied to h first, or None.
        directions: Fixed rows float32 [p, d] for the `projected` head, or None.
    """

    def __init__(
        self, spec: HeadSpec, calibration: Calibration | None = None, directions: npt.NDArray[np.float32] | None = None
    ) -> None:
        self.spec = spec
        self.calibration = calibration
        self.directions = directions
        self.blocks = self._layout()
        self.n_params = self.blocks[-1].stop

    @abstractmethod
    def _layout(self) -> tuple[Block, ...]:
        """The blocks of theta, in order and without gaps."""

    @abstractmethod
    def _map(self, parts: Mapping[str, Array], x: Array, noise: Array | None) -> Array:
        """Logits [..., B, n] from blocks with any leading axes and features [B, k]."""

    def initial(self, rng: np.random.Generator) -> npt.NDArray[np.float64]:
        """Where training starts, float64 [n]: zero, as the paper's search does, unless zero is a dead point."""
        return np.zeros(self.n_params)

    def noise(self, rng: np.random.Generator) -> npt.NDArray[np.float64] | None:
        """What one training step draws beside theta; None for heads that draw nothing."""
        return None

    def logits(self, theta: Array, h: Array, noise: Array | None = None) -> Array:
        """Logits of one theta.

        Args:
            theta: Parameters [n].
            h: Hidden states [..., d].
            noise: A draw of `noise` while training; None at inference.

        Returns:
            [..., L+3], float64 for numpy input.
        """
        theta, h = self._checked(theta, h)
        flat = self._map(self.unflatten(theta), self.features(h.reshape(-1, h.shape[-1])), noise)
        return flat.reshape(*h.shape[:-1], self.spec.n_logits)

    def population(self, thetas: Array, h: Array) -> Array:
        """Logits of P candidates on the same B states: [P, n] and [B, d] -> [P, B, L+3], in one product."""
        thetas, h = self._checked(thetas, h)
        return self._map(self.unflatten(thetas), self.features(h), None)

    def features(self, h: Array) -> Array:
        """What the map sees of h [B, d]: calibrated."""
        return h if self.calibration is None else self.calibration.apply(h)

    def unflatten(self, theta: Array) -> dict[str, Array]:
        """theta [..., n] -> its blocks by name, each [..., *shape]; views, not copies."""
        lead = theta.shape[:-1]
        return {b.name: theta[..., b.start : b.stop].reshape(*lead, *b.shape) for b in self.blocks}

    def flatten(self, parts: Mapping[str, Array]) -> npt.NDArray[np.float64]:
        """Blocks by name -> theta [n]. Raises CheckpointInvalid on a missing, unknown or misshapen block."""
        if set(parts) != {b.name for b in self.blocks}:
            raise CheckpointInvalid(
                f"A {self.spec.kind} head has the blocks {', '.join(b.name for b in self.blocks)}; "
                f"given are {', '.join(sorted(parts)) or 'none'}."
            )
        for block in self.blocks:
            if tuple(parts[block.name].shape) != block.shape:
                raise CheckpointInvalid(
                    f"Block {block.name} has the shape {list(parts[block.name].shape)}; needed is {list(block.shape)}."
                )
        return np.concatenate([np.asarray(parts[b.name], dtype=np.float64).ravel() for b in self.blocks])

    def _checked(self, theta: Array, h: Array) -> tuple[Array, Array]:
        if theta.shape[-1] != self.n_params:
            raise CheckpointInvalid(f"theta has {theta.shape[-1]} parameters; this head has {self.n_params}.")
        if h.shape[-1] != self.spec.hidden_size:
            raise CheckpointInvalid(
                f"h has {h.shape[-1]} dimensions; this head reads {self.spec.hidden_size}. "
                "It was made for another coordinator model."
            )
        if isinstance(theta, np.ndarray):
            return theta.astype(np.float64, copy=False), np.asarray(h, dtype=np.float64)
        return theta, like(h, theta)


def layout(*parts: tuple[str, tuple[int, ...], bool]) -> tuple[Block, ...]:
    """Blocks one after the other from (name, shape, trained by gradient)."""
    blocks: list[Block] = []
    for name, shape, smooth in parts:
        blocks.append(Block(name, shape, blocks[-1].stop if blocks else 0, smooth))
    return tuple(blocks)
