"""Short factual questions: which questions are of that kind, and what an answer to one commits to.

Plain rules over English words; pure and fast. Used for wording (`local`) and for comparing samples (`agreement`).
"""

from __future__ import annotations

import re
import unicodedata

_LEAD_IN = re.compile(
    r"^(?:(?:please|hi|hello|hey|ok|okay|so|quick question|question)[\s,:!.-]+)*"
    r"(?:(?:can|could|would|will) you (?:please )?tell me[\s,:]+|do you know[\s,:]+|"
    r"(?:please )?tell me[\s,:]+|i wonder[\s,:]+)?",
    re.IGNORECASE,
)
_OPENS = re.compile(
    r"(?:what|which|who|whom|whose|where|when|name the|"
    r"(?:in|on|at|from|to|by|for|of) (?:what|which|whom)|"
    r"how (?:many|much|old|tall|far|long|high|big|deep|fast|heavy|large|wide|hot|cold))\b|"
    r"(?:what|who|where|when)['’]s\b",
    re.IGNORECASE,
)
# Asks for reasons, lists, tastes, the present day or the speaker: no short fact settles it.
_OPEN_ENDED = re.compile(
    r"\b(?:why|how (?:do|does|did|can|could|should|would|to)|explain|describe|discuss|compare|summari[sz]e|write|list|"
    r"essay|poem|story|joke|song|code|program|function|algorithm|regex|script|example|examples|steps|ways|reasons|"
    r"causes|effects|benefits|advantages|disadvantages|differences?|pros|cons|tips|ideas?|advice|opinions?|think|feel|"
    r"believe|should|best|worst|better|favou?rite|good|bad|recommend|love|happiness|meaning|purpose|"
    r"could|would|today|tonight|tomorrow|yesterday|now|current|currently|latest|newest|recent|weather|"
    r"i|me|my|mine|we|us|our|your|yours|yourself|happen(?:s|ed|ing)?|going on|wrong)\b",
    re.IGNORECASE,
)
_DEFINITION = re.compile(r"what(?:['’]s| is| are) (?:an? )?[\w'’-]+(?: [\w'’-]+)?\s*\??", re.IGNORECASE)
_CODE = re.compile(r"[`{}<>;=\\]|\w\(")
_MAX_CHARS = 200


def asks_short_fact(question: str) -> bool:
    """True for questions that a name, a number or a word or two answers ("What is the capital of France?")."""
    text = question.strip()
    if not text or len(text) > _MAX_CHARS or "\n" in text or _CODE.search(text):
        return False
    text = text[_LEAD_IN.match(text).end() :]  # type: ignore[union-attr]  # the pattern matches the empty text, too
    if not _OPENS.match(text) or _OPEN_ENDED.search(text) or _DEFINITION.fullmatch(text):
        return False
    if re.search(r"\byou\b(?! (?:get|call|say|spell|find|have|need)\b)", text, re.IGNORECASE):
        return False
    return not re.search(r"[.?!]\s+\S", text)  # one sentence


_UP_TO_TWENTY = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen twenty"""
_NUMBERS = {word: str(number) for number, word in enumerate(_UP_TO_TWENTY.split())} | {
    "thirty": "30",
    "forty": "40",
    "fifty": "50",
    "sixty": "60",
    "hundred": "100",
    "thousand": "1000",
}
_FILLERS = """
a an and are as at be been being by called can commonly did do does for from had has have he her his i in is it its
itself known made most name named of on one's or she that the their them there these they this those to was were
which who whose with would you answer correct also just simply often usually about approximately country located
largest"""
_STOP = frozenset(_FILLERS.split())
_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)*\d*", re.UNICODE)
_SENTENCE_END = re.compile(r"(?<=[^\s.][^\s.])[.!?](?=\s|$)|\n")
_MOST_WORDS = 6


def committed(question: str, answer: str) -> frozenset[str]:
    """The words that an answer adds to its question: what it commits to, in a form that can be compared.

    Of the first sentence: its names and numbers if it has any, else its content words. Folded to lower case without
    accents, number words as digits. Empty when it adds nothing, or so much that it is no short answer.
    """
    sentence = _SENTENCE_END.split(answer.strip(), maxsplit=1)[0]
    asked = {_fold(word) for word in _WORD.findall(question)}
    words = [(word, _fold(word)) for word in _WORD.findall(sentence)]
    # "He" is the symbol of helium: two capitalised letters count, except where any sentence would have them.
    symbols = {word for word, _ in words[1:] or words if len(word) <= 2 and word[0].isupper()}
    new = [(word, key) for word, key in words if key not in asked and (key not in _STOP or word in symbols)]
    marked = frozenset(key for word, key in new if key[0].isdigit() or word[0].isupper())
    keys = marked or frozenset(key for _, key in new)
    return keys if len(keys) <= _MOST_WORDS else frozenset()


def agree(one: frozenset[str], other: frozenset[str]) -> bool:
    """True when two commitments name the same thing: neither empty, numbers equal, one inside the other."""
    if not one or not other:
        return False
    numbers = [{key for key in keys if key[0].isdigit()} for keys in (one, other)]
    return numbers[0] == numbers[1] and (one <= other or other <= one)


def _fold(word: str) -> str:
    plain = "".join(c for c in unicodedata.normalize("NFKD", word.lower()) if not unicodedata.combining(c))
    plain = re.sub(r"['’]s$", "", plain)
    if plain[0].isdigit():
        return plain.replace(",", "")
    if word.islower() and len(plain) > 3 and plain.endswith("s") and not plain.endswith("ss"):
        plain = plain[:-1]  # plurals; names keep their s
    return _NUMBERS.get(plain, plain)
