"""How the page calls what the command line may have given as a file: by its name, never by its path."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.errors import TrinityError

if TYPE_CHECKING:
    from core.settings import Settings

# An absolute path of two parts or more; not the tail of a web address.
_PATH = re.compile(r"(?:(?<=sqlite:)///|(?<![\w/.]))/(?:[^\s/'\":,;()]+/)+([^\s/'\":,;()]*)")


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the server's pool and head, and what to hide in sentences that visitors see."""

    pool: str
    head: str  # empty: the pool's own
    _files: tuple[tuple[str, str], ...]
    _public: bool

    @classmethod
    def of(cls, settings: Settings, *, public: bool) -> Names:
        """The names for these settings; a file that cannot be read is called by its own name."""
        pool = _pool_name(settings)
        head = Path(settings.checkpoint).stem if _is_path(settings.checkpoint) else settings.checkpoint
        given = ((settings.pool, pool), (settings.checkpoint, head))
        return cls(pool, head, tuple((path, name) for path, name in given if path != name), public)

    def told(self, text: str) -> str:
        """`text` with the server's files by name; for strangers, with no folder of this machine at all."""
        for path, name in self._files:
            text = text.replace(path, name)
        return _PATH.sub(lambda found: found[1] or "…", text) if self._public else text


def _is_path(name: str) -> bool:
    return "/" in name or "\\" in name or name.endswith((".yaml", ".yml", ".safetensors"))


def _pool_name(settings: Settings) -> str:
    from core.pool import load_pool

    if not _is_path(settings.pool):
        return settings.pool
    try:
        return load_pool(settings.pool, settings).name
    except TrinityError:  # the team's own loading says what is wrong with it
        return Path(settings.pool).stem
