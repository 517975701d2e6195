"""What can be learned about h without labels: its mean and scale per dimension, and its principal directions.

Beyond the paper: with inputs prepared so, the same search finds far better heads in the same number of episodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from core.errors import CheckpointInvalid
from core.heads.arrays import Array, like

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class Calibration:
    """x = (h - mean) / scale, float32 [d] each. Raises CheckpointInvalid unless finite and the scale positive."""

    mean: npt.NDArray[np.float32]
    scale: npt.NDArray[np.float32]

    def __post_init__(self) -> None:
        if self.mean.ndim != 1 or self.mean.shape != self.scale.shape:
            raise CheckpointInvalid(
                f"Calibration mean has the shape {list(self.mean.shape)}, scale {list(self.scale.shape)}; "
                "both must be one vector of the same length."
            )
        if not (np.isfinite(self.mean).all() and np.isfinite(self.scale).all() and (self.scale > 0).all()):
            raise CheckpointInvalid("Calibration values must be finite, and every scale above 0.")

    @classmethod
    def of(cls, states: npt.NDArray[np.floating]) -> Calibration:
        """Mean and standard deviation of unlabelled states [N, d]; constant dimensions keep a scale of 1."""
        states = np.asarray(states, dtype=np.float64)
        if states.ndim != 2 or len(states) < 2 or not np.isfinite(states).all():
            raise CheckpointInvalid("Calibration needs at least two hidden states, all finite, as a matrix [N, d].")
        spread = states.std(axis=0)
        flat = spread <= 1e-6 * max(1e-12, float(np.abs(states).max()))
        return cls(states.mean(axis=0).astype(np.float32), np.where(flat, 1.0, spread).astype(np.float32))

    def apply(self, h: Array) -> Array:
        """Calibrated h, same shape; numpy or torch."""
        return (h - like(self.mean, h)) / like(self.scale, h)


def principal_directions(
    states: npt.NDArray[np.floating], count: int, calibration: Calibration | None = None, *, whiten: bool = False
) -> npt.NDArray[np.float32]:
    """The first principal directions of unlabelled states, as rows for a `projected` head.

    Args:
        states: Hidden states [N, d].
        count: How many directions; at most min(N - 1, d).
        calibration: Applied to the states first, as the head will do.
        whiten: Give each direction unit variance; otherwise one scale for all makes the mean variance 1.

    Returns:
        float32 [count, d]. The sign of each row is fixed: its largest entry is positive.
    """
    x = np.asarray(states, dtype=np.float64)
    x = x if calibration is None else calibration.apply(x)
    if not 1 <= count <= min(len(x) - 1, x.shape[1]):
        raise CheckpointInvalid(f"{len(x)} states of {x.shape[1]} dimensions have no {count} principal directions.")
    _, singular, rows = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    rows, spread = rows[:count], singular[:count] / np.sqrt(len(x))
    if spread[-1] <= 1e-6 * max(spread[0], 1e-300):
        raise CheckpointInvalid(f"These states do not spread along {count} directions; ask for fewer.")
    signs = np.sign(rows[np.arange(count), np.abs(rows).argmax(axis=1)])
    divisor = spread[:, None] if whiten else np.sqrt(np.mean(spread**2))
    directions: npt.NDArray[np.float32] = (rows * signs[:, None] / divisor).astype(np.float32)
    return directions
