"""Facts: which one term of a closed vocabulary (all capitals, all elements …) does the reply commit to?"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence

from training.graders.base import Grade, GradeOutcome, failed, passed, too_long
from training.graders.commit import commit, plain, tail, without_reasoning
from training.graders.doubt import denies, taken_back

MIN_SCANNED = 3  # shorter terms are words too ("He", "In"), as are all symbols: they must stand alone to count
MAX_SCANNED_CHARS = 4_000


def grade_term(
    reply: str, answer: str, vocabulary: Sequence[str], aliases: Mapping[str, str] | None = None, case: bool = False
) -> Grade:
    """Reward 1 when the reply commits to `answer` and to no other term of `vocabulary` (which includes it).

    The committed text may be the bare term or a sentence around it ("The capital of France is Paris."). Naming two
    terms, or denying one, is no answer. `aliases` maps other spellings to terms. With `case`, upper and lower case
    differ (chemical symbols).
    """
    if refused := too_long(reply):
        return refused
    found = commit(reply)
    if found is None:
        return failed("", "The reply is empty.", GradeOutcome.NO_ANSWER)
    keys = {_key(alias, case): term for alias, term in (aliases or {}).items()}
    keys |= {_key(term, case): term for term in vocabulary}
    wanted = _key(answer, case)
    marked = found.mark not in ("last line", "list")
    named = _scan((found.line or found.text) if marked else without_reasoning(reply), keys, case)
    if len(named) > 1:
        listed = ", ".join(sorted(named))
        return failed(listed, f"The reply names several terms ({listed}).", GradeOutcome.AMBIGUOUS)
    if taken_back(found):
        return failed(found.text, "The reply adds another answer or takes its own back.", GradeOutcome.AMBIGUOUS)
    ends = () if denies(found.text) else (tail(found.text), _last_words(found.text))
    for text in (found.text, found.line, *ends):
        if (said := _key(text, case)) in keys:
            return _verdict(keys[said], _key(keys[said], case) == wanted, found.mark)
    if not named or denies(reply[:MAX_SCANNED_CHARS]):
        return failed(found.text, "The reply commits to no known term.", GradeOutcome.NO_ANSWER)
    (term,) = named
    return _verdict(term, _key(term, case) == wanted, found.mark)


def _verdict(term: str, right: bool, mark: str) -> Grade:
    if right:
        return passed(term, f"Committed {term} ({mark}), the right term.")
    return failed(term, f"Committed {term} ({mark}), another term than the answer.")


def _scan(text: str, keys: dict[str, str], case: bool) -> set[str]:
    """Terms named in a text; a term inside a longer named one ("Guinea" in "Guinea-Bissau") is not counted."""
    body = f" {_key(text[:MAX_SCANNED_CHARS], case)} "
    if case:
        return set()
    named = {key: term for key, term in keys.items() if len(key) >= MIN_SCANNED and f" {key} " in body}
    whole = {key for key in named if not any(key != other and f" {key} " in f" {other} " for other in named)}
    return {named[key] for key in whole}


def _last_words(text: str) -> str:
    """The tail of a text without a leading article or preposition."""
    return re.sub(r"(?i)^(?:the|a|an|called|named)\s+", "", tail(text))


def _key(text: str, case: bool) -> str:
    """Words only, without accents and LaTeX wrappers, in one case unless `case`."""
    clean = re.sub(r"\\(?:text|mathrm|mathbf)(?![a-zA-Z])", " ", plain(text))
    clean = "".join(c for c in unicodedata.normalize("NFD", clean) if not unicodedata.combining(c))
    clean = " ".join(re.sub(r"[^\w]+|_+", " ", clean).split())
    return clean if case else clean.casefold()
