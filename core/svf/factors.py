"""Thin singular value decompositions of a backbone's matrices, kept on disk under the hash of its weights."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from core.backbone.huggingface import HuggingFaceBackbone

    Tensor = torch.Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """`W = left @ diag(values) @ right` in float32: left [m, r], values [r] descending, right [r, n], r = min(m, n).

    A token table keeps no `left` (622 MB for Qwen3-0.6B): it is `W @ right.T / values`, so products are made from W.
    """

    values: Tensor
    right: Tensor
    left: Tensor | None

    def scales(self, offsets: Tensor) -> Tensor:
        """Factors on the singular directions, so that their sum stays: (1+δ) · ΣS / Σ(S(1+δ)).

        Raises ValueError when the offsets send the sum to zero or make it infinite.
        """
        scaled = self.values * (1.0 + offsets)
        total = scaled.double().sum()
        if not bool(total.isfinite()) or float(total.abs()) < 1e-12:
            raise ValueError("the offsets leave no singular value to scale to (their sum is zero or not finite)")
        ratio = self.values.double().sum() / total
        return ((1.0 + offsets).double() * ratio).float()

    def rebuild(self, offsets: Tensor, weight: Tensor) -> Tensor:
        """`W' = U diag(S(1+δ)) Vᵀ · ΣS / Σ(S(1+δ))` in float32. `weight` is W itself."""
        scales = self.scales(offsets)
        if self.left is None:
            return weight.float() @ ((self.right.T * scales) @ self.right)
        return (self.left * (self.values * scales)) @ self.right


def decompose(weight: Tensor) -> Factors:
    """Thin SVD of a matrix [m, n], computed in float32.

    Very tall matrices go through the eigenvectors of WᵀW in float64: 152,000 x 1,024 takes seconds instead of
    minutes, and double precision keeps singular values down to 1e-6 of the largest.
    """
    import torch

    matrix = weight.detach().float()
    rows, columns = matrix.shape
    if rows < 8 * columns:
        left, values, right = torch.linalg.svd(matrix, full_matrices=False)
        return Factors(values, right.contiguous(), left.contiguous())
    gram = torch.zeros((columns, columns), dtype=torch.float64, device=matrix.device)
    for block in torch.split(matrix, 16_384):
        gram += block.double().T @ block.double()
    squares, vectors = torch.linalg.eigh(gram)
    values = squares.flip(0).clamp_min(0.0).sqrt().float()
    return Factors(values, vectors.flip(1).T.float().contiguous(), None)


class FactorStore:
    """Decompositions of one backbone, computed once and remembered in memory and on disk.

    Args:
        backbone: whose matrices are decomposed.
        folder: where files are kept; None keeps them in memory only.
    """

    def __init__(self, backbone: HuggingFaceBackbone, folder: Path | None) -> None:
        self._engine: Any = backbone.engine
        self._key = f"{backbone.weights_hash[:32]}-{backbone.dtype}"
        self._folder = None if folder is None else folder / "svd" / self._key
        self._known: dict[str, Factors] = {}

    def get(self, name: str) -> Factors:
        """Factors of a matrix by its full name."""
        import torch

        if name not in self._known:
            with torch.inference_mode():
                weight = self._engine.matrix(name)
                factors = self._read(name, weight.shape, str(weight.device))
                if factors is None:
                    factors = decompose(weight)
                    self._write(name, factors)
            self._known[name] = factors
        return self._known[name]

    def _read(self, name: str, shape: Any, device: str) -> Factors | None:
        """Factors from disk, or None when they are absent, damaged or of another matrix."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        if self._folder is None:
            return None
        try:
            mapped = load_file(self._folder / f"{name}.safetensors")
            # Copies: a mapped file that somebody shortens would kill the process (SIGBUS).
            tensors = {key: tensor.to(device, copy=True) for key, tensor in mapped.items()}
            values, right, left = tensors["values"], tensors["right"], tensors.get("left")
        except (OSError, SafetensorError, KeyError):
            return None
        rank = min(shape)
        fits = tuple(values.shape) == (rank,) and tuple(right.shape) == (rank, shape[1])
        fits = fits and (left is None or tuple(left.shape) == (shape[0], rank))
        return Factors(values, right, left) if fits else None

    def _write(self, name: str, factors: Factors) -> None:
        """Keep factors on disk, whole or not at all; a full or read-only disk only costs the next start some time."""
        from safetensors.torch import save

        if self._folder is None:
            return
        tensors = {"values": factors.values, "right": factors.right}
        if factors.left is not None:
            tensors["left"] = factors.left
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._folder, prefix="part-", delete=False) as part:
                part.write(save({key: tensor.cpu() for key, tensor in tensors.items()}))
                part.flush()
                os.fsync(part.fileno())
            Path(part.name).replace(self._folder / f"{name}.safetensors")
