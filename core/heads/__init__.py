"""Heads: the tiny map from the coordinator model's hidden state to agent and role logits."""

from core.heads.base import Block, Head
from core.heads.build import build_head, fold
from core.heads.calibration import Calibration, principal_directions
from core.heads.spec import HeadSpec

__all__ = ["Block", "Calibration", "Head", "HeadSpec", "build_head", "fold", "principal_directions"]
