"""Builds a head from its spec; the one table of kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from core.errors import CheckpointInvalid
from core.heads.affine import BlockDiagonal, Linear, Projected
from core.heads.base import Head
from core.heads.calibration import Calibration
from core.heads.nonlinear import LowRank, Sparse
from core.heads.spec import HeadSpec

if TYPE_CHECKING:
    import numpy.typing as npt

KINDS: dict[str, type[Head]] = {
    "linear": Linear,
    "low_rank": LowRank,
    "sparse": Sparse,
    "block_diagonal": BlockDiagonal,
    "projected": Projected,
}
_MOST_PARAMETERS = 1_000_000


def build_head(
    spec: HeadSpec, *, calibration: Calibration | None = None, directions: npt.NDArray[np.float32] | None = None
) -> Head:
    """The head of a spec.

    Args:
        spec: Kind and sizes.
        calibration: Fixed mean and scale of h, or None for raw h.
        directions: float32 [p, d], needed by (and only by) the `projected` kind.

    Raises:
        CheckpointInvalid: A size does not fit the others, or the head is unreasonably large.
    """
    if calibration is not None and len(calibration.mean) != spec.hidden_size:
        raise CheckpointInvalid(
            f"The calibration has {len(calibration.mean)} dimensions; the head reads {spec.hidden_size}."
        )
    needed = (spec.options["directions"], spec.hidden_size) if spec.kind == "projected" else None
    given = None if directions is None else directions.shape
    if needed != given:
        raise CheckpointInvalid(f"This {spec.kind} head needs directions of shape {needed}; given is {given}.")
    head = KINDS[spec.kind](spec, calibration, directions)
    if head.n_params > _MOST_PARAMETERS:
        raise CheckpointInvalid(f"A head of {head.n_params} parameters; the most is {_MOST_PARAMETERS}.")
    return head


def fold(head: Head, theta: npt.NDArray[np.floating]) -> tuple[HeadSpec, npt.NDArray[np.float64]]:
    """An affine head with its calibration and directions as a plain linear head with a bias: same logits.

    Args:
        head: A linear, block_diagonal or projected head.
        theta: Its parameters [n].

    Returns:
        The spec of the linear head and its theta, float64.

    Raises:
        CheckpointInvalid: The head is not affine, so no matrix equals it.
    """
    if head.spec.kind not in ("linear", "block_diagonal", "projected"):
        raise CheckpointInvalid(f"A {head.spec.kind} head cannot be folded into one matrix.")
    d = head.spec.hidden_size
    spec = HeadSpec("linear", d, head.spec.n_agents, {"bias": True})
    # Read the matrix off the map itself: the image of 0 is the bias, the image of a unit vector one column.
    images = head.logits(np.asarray(theta), np.concatenate([np.zeros((1, d)), np.eye(d)]))
    bias = images[0]
    return spec, build_head(spec).flatten({"weight": (images[1:] - bias).T, "bias": bias})
