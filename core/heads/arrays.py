"""Arrays that may be numpy's or torch's: the maths of heads is the same lines for both."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any
"""A numpy array or a torch tensor."""


def like(array: Array, reference: Array) -> Array:
    """`array` as numpy float64, or as a torch tensor of the reference's dtype and device."""
    if isinstance(reference, np.ndarray):
        return np.asarray(array, dtype=np.float64)
    import torch

    return torch.as_tensor(array, dtype=reference.dtype, device=reference.device)
