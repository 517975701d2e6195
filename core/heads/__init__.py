"""Heads: the tiny map from the coordinator model's hidden state to agent and role logits."""

from core.heads.base import Block, Head
from core.heads.calibration import Calibration, fold, principal_directions
from core.heads.spec import HeadSpec, build_head

__all__ = ["Block", "Calibration", "Head", "HeadSpec", "build_head", "fold", "principal_directions"]
