"""Words that deny an answer, add another one, or take it back: a committed text that holds them commits to nothing."""

from __future__ import annotations

import re

from training.graders.commit import Commitment

DENIED = re.compile(
    r"(?i)\b(?:not|cannot|cant|[a-z]+n['’]t|never|neither|nor|except|excluding|unlikely|wrong|incorrect|false"
    r"|(?:anything|everything|all|anyone|any\s+\w+)\s+but|other\s+than|rules?\s+out|ruled\s+out)\b|不是|并非|不能|不可能|不对|错"
)
OPEN = re.compile(
    r"(?i)\b(?:or|and/or|either|alternatively|maybe|perhaps|possibly|any\s+of|one\s+of|some\s+of|if\s+not)\b|或|也许|可能是"
)
_SAME = r"(?!\s+(?:equivalently|in\s+other\s+words|simply|rather,?\s+in\s+words)\b)"
_TAKEN_BACK = re.compile(
    rf"(?i)[\s.,;:!?。！？*_)\"'-]*(?:or\b{_SAME}|and/or\b|alternatively\b|maybe\b|perhaps\b|possibly\b|actually\b|wait\b"
    r"|no\s*[,.!:;-]|no\s+wait\b|not\s+really\b|not\s+at\s+all\b|(?:this|that|it|which)\s+is\s+(?:wrong|incorrect|false)\b"
    r"|(?:this|that|it)\s+is\s+not\b|on\s+second\s+thoughts?\b|或|不对|也可能)"
)


def denies(text: str, answer: str = "") -> bool:
    """True when `text` denies something and `answer` does not."""
    return bool(DENIED.search(text)) and not DENIED.search(answer)


def offers(text: str, answer: str = "") -> bool:
    """True when `text` leaves alternatives open and `answer` does not."""
    return bool(OPEN.search(text)) and not OPEN.search(answer)


def taken_back(found: Commitment) -> bool:
    """True when what follows the committed words offers another answer or withdraws them ("C? No, D")."""
    return _TAKEN_BACK.match(found.after) is not None
