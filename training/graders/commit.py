r"""What a reply commits to: one place in the text, found the same way by every grader.

Strong marks are a `\boxed{…}`, an `<answer>` element, a line `#### …` and "final answer"; the last of them counts.
Without any, the last "answer is/:" counts; without that, the last line, unless all lines are short and so make a list.
Nothing else of the reply is read.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass

_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20, 0x2212: 0x2D}
_BOXED = re.compile(r"\\(?:boxed|fbox)(?![a-zA-Z])")
_TAG = re.compile(r"<answer>(.{0,4000}?)</answer>", re.IGNORECASE | re.DOTALL)
_HASHES = re.compile(r"^####[ \t]*(\S[^\n]*)", re.MULTILINE)
_LINK = r"[ \t*_`]*(?:(?<![a-z])is(?![a-z])|是|为|應為|应为|[:=])[ \t*_`:]*"
_FINAL = re.compile(rf"(?:final[ \t]+answer|最终答案|最終答案){_LINK}", re.IGNORECASE)
_WEAK = re.compile(rf"(?:(?<![a-z])answer|答案)(?:[ \t]+to[ \t][^\n:]{{0,200}}?)?{_LINK}", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?:[.!?](?=\s)|[。！？\n]|,?\s(?:because|since|as|so|therefore|which)\s)", re.IGNORECASE)
_FILLER = re.compile(r"[\s,;$.、，*]*(?:and|or|和|或)?[\s,;$.、，*]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Commitment:
    """The committed text and which mark it stood at: boxed, answer tag, hashes, final answer, answer, last line, list.

    `line` is the whole line at the mark, for graders whose answers may hold full stops ("J. R. R. Tolkien").
    `after` is what follows the first sentence there, at most 200 characters; empty for marks that close themselves.
    """

    text: str
    mark: str
    line: str = ""
    after: str = ""


def plain(text: str) -> str:
    """Full-width letters, digits and punctuation as ASCII, and the minus sign as a hyphen; nothing else changes."""
    return text.translate(_FULL_WIDTH)


def without_reasoning(reply: str) -> str:
    """The reply after a leading `<think>…</think>`; empty when the thinking never ends."""
    body = reply.lstrip()
    if not body.startswith("<think>"):
        return reply
    _, closed, rest = body.partition("</think>")
    return rest if closed else ""


def commit(reply: str) -> Commitment | None:
    """The reply's commitment, or None when there is no text. An empty box gives a Commitment with empty text."""
    body = plain(without_reasoning(reply))
    if not body.strip():
        return None
    strong = [found for found in (_boxed(body), _tagged(body), _hashes(body), _final(body)) if found is not None]
    if strong:
        return max(strong, key=lambda pair: pair[0])[1]
    if weak := _last(_WEAK, body):
        return _statement(body, weak.end(), "answer")
    lines = [line.strip() for line in body.strip().splitlines() if line.strip()]
    return Commitment("", "list") if _is_list(lines) else Commitment(lines[-1], "last line", after=_after(lines[-1]))


def sentence_end(text: str) -> str:
    """`text` up to the end of its first sentence or clause of reason, without emphasis and closing punctuation."""
    end = _SENTENCE_END.search(text)
    return bare(text[: end.start()] if end else text)


def bare(text: str) -> str:
    """`text` without surrounding space, emphasis, quotes and closing punctuation."""
    return text.strip().strip("*_`\"'“”‘’「」").strip().rstrip(".。!！?？,，;；").strip("*_`\"'“”‘’「」 \t")


def tail(text: str) -> str:
    """What a one-line statement says at its end: after the last "=", ":" or " is ", else all of it.

    A remark in brackets at the end is left out: "x = 3 (from 2x = 6)" says 3.
    """
    line = re.sub(r"(?<=\S)\s+\([^()]{1,200}\)$", "", sentence_end(text))
    parts = re.split(r"=|:|：|(?<![\w])(?:is|are|equals|是|为)(?![\w])", line)
    return bare(parts[-1])


def _boxed(body: str) -> tuple[int, Commitment] | None:
    starts = list(_BOXED.finditer(body))[-12:]
    if not starts:
        return None
    boxes = [(m.start(), *_group(body, m.end())) for m in starts]
    start, _, text = boxes[-1]
    if text is None:  # a brace that never closes: a reply cut off inside its answer commits to nothing
        return start, Commitment("", "boxed")
    texts = [text]
    for earlier_start, earlier_end, earlier in reversed(boxes[:-1]):
        if earlier is None or earlier_end > start:
            break
        if start - earlier_end > 40 or not _FILLER.fullmatch(body, earlier_end, start):
            break
        texts.insert(0, earlier)
        start = earlier_start
    distinct = list(dict.fromkeys(texts))
    return boxes[-1][0], Commitment(", ".join(distinct).strip(), "boxed")


def _group(body: str, at: int) -> tuple[int, str | None]:
    """End and content of the brace group (or single token) at `at`; content None when the group never closes."""
    rest = body[at : at + 20_000]
    lead = len(rest) - len(rest.lstrip())
    if not rest[lead:].startswith("{"):
        token = re.match(r"\\?[^\s{}\\$.,;]+", rest[lead:])
        return (at + lead + token.end(), token.group()) if token else (at, "")
    depth = 0
    for offset, char in enumerate(rest[lead:], lead):
        if char in "{}" and not (offset and rest[offset - 1] == "\\"):
            depth += 1 if char == "{" else -1
            if depth == 0:
                return at + offset + 1, rest[lead + 1 : offset].strip()
    return at + len(rest), None


def _tagged(body: str) -> tuple[int, Commitment] | None:
    # Matching from the last opening tag keeps the search linear on a text of a million tags.
    at = body.lower().rfind("<answer>")
    found = _TAG.match(body, at) if at >= 0 else None
    return (at, Commitment(found.group(1).strip(), "answer tag")) if found else None


def _hashes(body: str) -> tuple[int, Commitment] | None:
    found = _last(_HASHES, body)
    return (found.start(), Commitment(bare(found.group(1)), "hashes")) if found else None


def _final(body: str) -> tuple[int, Commitment] | None:
    found = _last(_FINAL, body)
    return (found.start(), _statement(body, found.end(), "final answer")) if found else None


def _is_list(lines: list[str]) -> bool:
    """Three or more short lines without a mark are alternatives: the last of them is no commitment."""
    return len(lines) > 2 and all(len(line) < 60 and len(line.split()) <= 4 for line in lines)


def _last(pattern: re.Pattern[str], body: str) -> re.Match[str] | None:
    return next(iter(deque(pattern.finditer(body), maxlen=1)), None)


def _statement(body: str, at: int, mark: str) -> Commitment:
    """What stands at a mark: the rest of its line, or the next line that holds something; cut at the sentence's end."""
    lines = [line for line in body[at : at + 4_000].splitlines() if line.strip(" \t*_`$:")]
    if not lines:
        return Commitment("", mark)
    return Commitment(sentence_end(lines[0]), mark, bare(lines[0]), _after("\n".join(lines)))


def _after(text: str) -> str:
    end = _SENTENCE_END.search(text)
    return text[end.start() : end.start() + 200] if end else ""
