"""Which mathematical task a question states, or None. Pure text work: no mathematics library, well under 5 ms.

Every pattern must account for the whole question; what is left over must be a formula of the grammar. So a date,
a telephone number, a room number or a product name is not taken for a sum.
"""

from __future__ import annotations

import re
from functools import lru_cache

from core.agents.exact.grammar import NotAFormula
from core.agents.exact.patterns import PATTERNS
from core.agents.exact.spelling import from_words, normalise
from core.agents.exact.tasks import Task

MAX_CHARS = 400


@lru_cache(maxsize=256)
def understand(question: str) -> Task | None:
    """The task, or None when the question is not one of exact mathematics (or not one this grammar reads)."""
    if not question or len(question) > MAX_CHARS:
        return None
    text = _bare(normalise(question))
    if not text or not _HINT.search(from_words(text)) or _LOOKS_LIKE_A_LABEL.search(text):
        return None
    for pattern, build in PATTERNS:
        if match := pattern.fullmatch(text):
            try:
                return build(match)
            except (NotAFormula, RecursionError):
                continue
    return None


# 2024-12-01, 12/05/2024, 555-123-4567, 555-1234, 10.0.0.1, 12:30
_LOOKS_LIKE_A_LABEL = re.compile(
    r"(?<![\w.])(?:\d{1,4}([-/.])\d{1,4}\1\d{1,5}|\+\d{1,3}[- ]\d{2,}|\d{3}-\d{4}|\d{1,2}:\d{2})(?![\w.])"
)
_OPENING = re.compile(
    r"^(?:(?:please|hi|hello|hey|ok|so|now|then|question|q|exercise|problem)\b[\s,:.!-]*)*"
    r"(?:(?:can|could|would|will) you (?:please )?|i (?:want|need) to |help me (?:to )?)?"
    r"(?:(?:tell me|give me|show me|do you know|say|write|state|let me know)\s+)?"
    r"(?:(?:(?:please )?(?:calculate|compute|evaluate|determine|work out|find out|find|give|get|solve for|do)\b|"
    r"what(?= [-\d(])|"
    r"what(?:'s| is| are| does| do| will| would)|whats|how (?:much|many) (?:is|are|does|do)|how (?:much|many)|"
    r"请问|请|帮我|麻烦|计算一下|计算|算一下|算出|算算|算|求出|求值)[\s,:]*)*"
    r"(?:the )?(?:exact )?(?:(?:value|result|answer|outcome|number|output) (?:of|to|for)\s+(?=[-\d(+.]|\w+\())?",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"(?:^|(?<=[\s,]))(?:equals?(?: to)?(?: what)?|be|come to|make|is what|is how much|is|please|thanks|thank you|"
    r"answer (?:briefly|in a few words)|(?:give|show|reply with|answer with) (?:me )?(?:only|just) the [a-z ]{3,45})$",
    re.IGNORECASE,
)
# "24/7", "9/11", "12-14": without a word that asks for it, two numbers and a dash or slash are a label.
_BARE_PAIR = re.compile(r"\w+[-/]\w+")
# Cheap first look: no digit, no sign and no word of mathematics means no task.
_HINT = re.compile(
    r"\d|[=^*]|\b(?:derivative|differentiate|integra\w+|antiderivative|limit|lim|series|solve|simplify|expand|"
    r"factor\w*|roots?|zero\w*|gcd|lcm|prime|sqrt|d/d)\b|积分|导|极限|展开|化简|分解",
    re.IGNORECASE,
)


def _bare(text: str) -> str:
    """Without the courtesies around it. `solve`, `derivative of` and the like stay: they name the task."""
    stripped = text.strip().rstrip(" =?.")
    asked = stripped != text.strip()
    for _ in range(3):
        stripped = _CLOSING.sub("", stripped).rstrip(" =?.,")
    opened = _OPENING.sub("", stripped, count=1).strip(" ,:\"'")
    if opened == stripped and not asked and _BARE_PAIR.fullmatch(opened):
        return ""
    return opened
