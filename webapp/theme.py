"""The colours and fonts that Gradio's own widgets use; static/css/trinity.css does the rest."""

from __future__ import annotations

from typing import Any

# System fonts only: a page without internet must not wait for a font, and Chinese needs one that has it.
SANS = ("system-ui", "-apple-system", "Segoe UI", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", "sans-serif")
MONO = ("ui-monospace", "SF Mono", "Cascadia Code", "DejaVu Sans Mono", "monospace")


def trinity_theme() -> Any:
    """Gradio's default theme in indigo (white on it: 6.3:1; the stock orange has 2.8:1) on slate."""
    import gradio as gr

    return gr.themes.Default(primary_hue="indigo", neutral_hue="slate", font=list(SANS), font_mono=list(MONO))
