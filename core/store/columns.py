"""Column types that give back exactly what was put in, on SQLite and PostgreSQL alike.

Models may say anything: NUL characters, which PostgreSQL refuses in text, and lone surrogates, which UTF-8 cannot
hold. Both are stored losslessly: each such character becomes U+FDD0 followed by four hexadecimal digits. U+FDD0 is a
Unicode noncharacter, legal in UTF-8 and never part of real text; where it does occur it is escaped the same way.
"""

from __future__ import annotations

import json
import re
from typing import Any

from sqlalchemy import Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

_MARK = "\ufdd0"
_UNSAFE = re.compile("[\x00\ud800-\udfff\ufdd0]")
_ESCAPED = re.compile(_MARK + "([0-9a-f]{4})")


def escape(text: str) -> str:
    """Text that every database takes; `unescape` gives the original back."""
    return _UNSAFE.sub(lambda match: f"{_MARK}{ord(match[0]):04x}", text)


def unescape(text: str) -> str:
    """The original of an escaped text."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


class ExactText(TypeDecorator[str]):
    """Any Python string, losslessly."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Escape on the way in."""
        return None if value is None else escape(value)

    def process_result_value(self, value: Any | None, dialect: Dialect) -> str | None:
        """Unescape on the way out."""
        return None if value is None else unescape(value)


class JsonText(TypeDecorator[Any]):
    """JSON values as text; NaN and infinities included, strings as exact as in `ExactText`.

    Not the databases' own JSON types: those refuse NUL, and ASCII-escaped JSON would join two lone surrogates.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any | None, dialect: Dialect) -> str | None:
        """Encode on the way in."""
        return None if value is None else escape(json.dumps(value, ensure_ascii=False, separators=(",", ":")))

    def process_result_value(self, value: Any | None, dialect: Dialect) -> Any | None:
        """Decode on the way out."""
        return None if value is None else json.loads(unescape(value))
