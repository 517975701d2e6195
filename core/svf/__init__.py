"""Singular-value fine-tuning: a handful of scales on chosen matrices, undone exactly (paper, section 3.2; SVF).

`SvfLayout` says which number scales which singular value; `adapt` gives a backbone with those scales applied;
`population_hidden` reads one transcript under many candidates and shares what they have in common.
"""

from __future__ import annotations

from core.svf.adapted import AdaptedBackbone, adapt, population_hidden
from core.svf.factors import Factors, FactorStore
from core.svf.layout import SvfLayout

__all__ = ["AdaptedBackbone", "FactorStore", "Factors", "SvfLayout", "adapt", "population_hidden"]
