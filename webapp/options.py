"""Who asks a question, and how it is to be answered."""

from __future__ import annotations

from dataclasses import dataclass

from core.types import Limits


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks: the browser's token and the network address."""

    owner: str
    address: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    """How a question is to be answered. Empty names mean the server's defaults."""

    limits: Limits = Limits()
    exclude: tuple[str, ...] = ()
    pool: str = ""
    checkpoint: str = ""
    replaces: str | None = None  # the question of the same conversation that this one asks again


STANDARD = Options()
