"""Strangers' text on a terminal: one cleaner for everything that the commands print."""

from __future__ import annotations

import re

# Colour codes and cursor moves in a stranger's text would act on the terminal.
# Half a character (a lone surrogate) could not be written at all.
_CONTROL = re.compile(r"[\ud800-\udfff]|\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b.|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def plain(text: str) -> str:
    """`text` without terminal control sequences; line breaks and tabs stay."""
    return _CONTROL.sub("", text)


def one_line(text: object) -> str:
    """The same on one line: a name or a reason must not add lines to a table that look like the program's own."""
    return " ".join(plain(str(text)).splitlines()).replace("\t", " ")


def is_plain(text: str) -> bool:
    """Whether `text` holds nothing that `plain` would take out."""
    return _CONTROL.search(text) is None
