"""Checkpoints: a trained head with everything it is bound to, in one strictly checked safetensors file."""

from core.checkpoint.files import find_checkpoint, known_checkpoints, load_checkpoint, save_checkpoint
from core.checkpoint.record import Checkpoint, uniform_checkpoint

__all__ = [
    "Checkpoint",
    "find_checkpoint",
    "known_checkpoints",
    "load_checkpoint",
    "save_checkpoint",
    "uniform_checkpoint",
]
