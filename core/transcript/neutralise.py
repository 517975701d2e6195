"""Makes text that people and agents wrote harmless inside a rendered transcript: it is data, never protocol.

Our own markup is sought in a view of the text in which compatibility forms are plain letters (full-width "Ｔ" is
"T") and marks nobody sees are gone; the view is made character by character. No pattern looks at what stands around
its match. So a piece of neutralised text is neutralised too, and the middle of a long text can be cut out afterwards
without bringing markup back to life.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

UNKNOWN = "\ufffd"
"""What stands in for a character that has no business in a text."""

_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")
_HARMFUL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff]")

# Blank or invisible characters and Markdown marks that a reader does not see between two words. The bound keeps
# matching linear in the text's length.
_GAP = r"[\s\u200b-\u200f\u2060\ufeff*_#`]{0,16}"
_COMMA = "[,，、﹐︐]"


# What our own markup looks like in any of the protocols and role prompts, which of its characters are replaced, and
# by what.
_MARKUP: tuple[tuple[re.Pattern[str], re.Pattern[str], str], ...] = (
    (
        re.compile(
            rf"turn{_GAP}\d+{_GAP}{_COMMA}{_GAP}(?:thinker|worker|verifier){_GAP}{_COMMA}{_GAP}agent{_GAP}\d+", re.I
        ),
        re.compile(_COMMA),
        ";",
    ),
    (re.compile(rf"reference{_GAP}thought{_GAP}\d+{_GAP}[:：]", re.I), re.compile("[:：]"), ";"),
    (re.compile(r"<(?=/?suggested_role)", re.I), re.compile("<"), "< "),
    (re.compile(r"\[(?=\.\.\. \d+ characters left out|Turns \d+ to \d+ left out)", re.I), re.compile(r"\["), "("),
    (re.compile(r"--- \w+ (?:begin|end) ---", re.I), re.compile("-"), "~"),
)


def neutralise(text: str, special_tokens: Sequence[str] = ()) -> str:
    """`text` without the power to act on the protocol; ordinary text comes back unchanged.

    Every line end becomes a newline; NUL, other control characters and lone surrogates become U+FFFD; the text
    is NFC, as some tokenisers make it anyway, so that nothing turns into a template token later. A template
    token gets a space after its first character, a turn header gets semicolons for commas, our own tags and marks
    are broken likewise. Idempotent, and closed under taking a piece.

    Args:
        text: What a person or an agent wrote.
        special_tokens: Token strings with a control meaning (`Backbone.special_tokens`).

    Returns:
        The text to put into a segment or message.
    """
    text = _HARMFUL.sub(UNKNOWN, _LINE_ENDS.sub("\n", text))
    text = unicodedata.normalize("NFC", text)
    text = _without_markup(text)
    specials = _special_pattern(tuple(special_tokens))
    if specials is None:
        return text
    text = specials.sub(lambda match: _broken(match.group()), text)
    # A vocabulary in which the broken form is again a token: give the letters up.
    while specials.search(text):
        text = specials.sub(UNKNOWN, text)
    return text


def _without_markup(text: str) -> str:
    view, origin = _view(text)
    edits: dict[int, str] = {}
    for pattern, old, new in _MARKUP:
        for match in pattern.finditer(view):
            edits |= {origin[found.start()]: new for found in old.finditer(view, *match.span())}
    if not edits:
        return text
    return "".join(edits.get(at, char) for at, char in enumerate(text))


def _view(text: str) -> tuple[str, Sequence[int]]:
    """The text as it is searched, and for each of its characters the index in `text` that it came from."""
    if text.isascii():
        return text, range(len(text))
    folded = [_folded(char) for char in text]
    return "".join(folded), [at for at, part in enumerate(folded) for _ in part]


@lru_cache(maxsize=4096)
def _folded(char: str) -> str:
    """One character in plain letters, without accents; empty for marks that show nothing of their own (Cf, Mn, Me)."""
    if char.isascii():
        return char
    parts = unicodedata.normalize("NFKD", char)
    return "".join(part for part in parts if unicodedata.category(part) not in ("Cf", "Mn", "Me"))


def _broken(token: str) -> str:
    return UNKNOWN if len(token) == 1 else f"{token[0]} {token[1:]}"


@lru_cache(maxsize=32)
def _special_pattern(tokens: tuple[str, ...]) -> re.Pattern[str] | None:
    """One pattern of all tokens, longest first; upper and lower case alike. Blank tokens have no control meaning."""
    words = sorted({token for token in tokens if token.strip()} - {UNKNOWN}, key=lambda token: (-len(token), token))
    return re.compile("|".join(map(re.escape, words)), re.IGNORECASE) if words else None
