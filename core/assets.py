"""Files that ship with the program: style sheets, scripts, checkpoints, sample data."""

from __future__ import annotations

from pathlib import Path

# `static/` lies beside `core/` both in a checkout and in an installed wheel (pyproject packages it so).
STATIC = Path(__file__).resolve().parent.parent / "static"
SHIPPED_CHECKPOINTS = STATIC / "checkpoints"
