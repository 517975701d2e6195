"""The small language model that reads the conversation: `load_backbone(name, cache_dir=…)` -> a Backbone."""

from __future__ import annotations

from core.backbone.load import load_backbone

__all__ = ["load_backbone"]
