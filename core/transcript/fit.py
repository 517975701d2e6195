"""Cuts a transcript to the coordinator model's context: question and newest turns stay, the middle goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from core.types import Message

Count = Callable[[str], int]

CUT_MARK = "\n[... {n} characters left out ...]\n"
TURNS_MARK = "\n\n[Turns {first} to {last} left out.]"
_MARK_TOKENS = 24  # room for either mark under any tokeniser that is no worse than two characters a token
_CLOSE = 12  # tokens by which a cut may fall short of its limit
_MESSAGE_TOKENS = 8  # what a chat template puts around one message (ChatML: 5)


@dataclass(frozen=True, slots=True)
class Block:
    """One turn as text: `header` ends with a newline and is never cut, `body` may lose its middle."""

    header: str
    body: str


@dataclass(frozen=True, slots=True)
class Fitted:
    """The parts that fit. `truncated` tells that the context was too short for all of them."""

    history: tuple[Message, ...]
    question: str
    blocks: tuple[str, ...]
    truncated: bool


def fit(
    history: tuple[Message, ...],
    question: str,
    blocks: tuple[Block, ...],
    *,
    budget: int,
    cap: int | None,
    count: Count,
) -> Fitted:
    """Choose what the coordinator model sees of a transcript.

    Every turn and every earlier message is cut to `cap` tokens, head and tail, whatever the context: that depends
    on the turn alone, so a transcript that grows keeps its earlier text. Only when the whole is longer than
    `budget` do the question's middle, the oldest messages of the conversation and then the oldest turns go.

    Args:
        history: Earlier questions and answers, oldest first, neutralised.
        question: The question, neutralised.
        blocks: The turns so far, oldest first, neutralised.
        budget: Tokens for all of it.
        cap: Tokens for one turn's body or one earlier message, or None for no cap.
        count: Tokens of a text.

    Returns:
        The parts to render, in order.
    """
    sized = [cut(m.content, cap, count) for m in history]
    shown = [_Sized(b.header, *cut(b.body, cap, count), count(b.header) + 1) for b in blocks]
    # A long question leaves a quarter for the turns, however many there are: it must not shrink as they come.
    asked, tokens = cut(question, budget - max(budget // 4, min(4 * _MARK_TOKENS, budget // 2)), count)
    texts, left = _newest_blocks(shown, budget - tokens, count)
    first = _first_message(history, [tokens for _, tokens in sized], left)
    kept = tuple(Message(m.role, text) for m, (text, _) in zip(history[first:], sized[first:], strict=True))
    whole = asked == question and len(texts) == len(blocks) and left >= 0 and first == 0
    return Fitted(kept, asked, texts, truncated=not whole)


@dataclass(frozen=True, slots=True)
class _Sized:
    """A block with its tokens: of the body, and of the header with one to spare for the seam."""

    header: str
    body: str
    body_tokens: int
    header_tokens: int

    @property
    def tokens(self) -> int:
        return self.body_tokens + self.header_tokens

    @property
    def text(self) -> str:
        return self.header + self.body


def _newest_blocks(blocks: list[_Sized], budget: int, count: Count) -> tuple[tuple[str, ...], int]:
    """The newest blocks that fit, and the tokens left over (below 0: some text had to go)."""
    total = sum(block.tokens for block in blocks)
    if total <= budget:
        return tuple(block.text for block in blocks), budget - total
    budget -= _MARK_TOKENS
    first = len(blocks)
    while first and (total := sum(block.tokens for block in blocks[first - 1 :])) <= budget:
        first -= 1
    texts = tuple(block.text for block in blocks[first:])
    if first == len(blocks):  # not even the newest fits as it is
        first -= 1
        newest = blocks[first]
        texts = (newest.header + cut(newest.body, max(0, budget - newest.header_tokens), count)[0],)
    return ((TURNS_MARK.format(first=1, last=first),) if first else ()) + texts, -1


def _first_message(history: tuple[Message, ...], tokens: list[int], left: int) -> int:
    """Index of the oldest earlier message that still fits; a conversation never opens with an answer."""
    first = len(history)
    while first and (left := left - tokens[first - 1] - _MESSAGE_TOKENS) >= 0:
        first -= 1
    while 0 < first < len(history) and history[first].role == "assistant":
        first += 1
    return first


def cut(text: str, limit: int | None, count: Count) -> tuple[str, int]:
    """`text` with its number of tokens: itself if it fits `limit`, else its head and its tail around a mark."""
    if limit is None:
        return text, count(text)
    length, tokens = _longest(text, limit, count)
    if length == len(text):
        return text, tokens
    inner = max(0, limit - _MARK_TOKENS)
    head, head_tokens = _longest(text, inner // 2, count)
    tail, tail_tokens = _longest(text, inner - inner // 2, count, from_end=True)
    mark = CUT_MARK.format(n=len(text) - head - tail)
    return text[:head] + mark + text[len(text) - tail :], head_tokens + tail_tokens + _MARK_TOKENS


def _longest(text: str, limit: int, count: Count, *, from_end: bool = False) -> tuple[int, int]:
    """Length and tokens of about the longest head (or tail) of `text` in at most `limit` tokens.

    Grows from a small guess, so that a megabyte costs what its first few thousand tokens cost, then closes in by
    proportion: three or four counts where halving needs a dozen.
    """

    def tokens_of(n: int) -> int:
        return count(text[len(text) - n :] if from_end else text[:n])

    low, low_tokens = 0, 0
    high = min(len(text), max(16, limit * 4))
    while (high_tokens := tokens_of(high)) <= limit:
        if high == len(text):
            return high, high_tokens
        low, low_tokens, high = high, high_tokens, min(len(text), high * 2)
    for step in range(12):
        if high - low <= 1 or limit - low_tokens <= min(_CLOSE, limit // 8):
            break
        share = (limit - low_tokens) / max(1, high_tokens - low_tokens) if step < 8 else 0.5
        middle = min(high - 1, max(low + 1, low + int((high - low) * share)))
        tokens = tokens_of(middle)
        if tokens <= limit:
            low, low_tokens = middle, tokens
        else:
            high, high_tokens = middle, tokens
    return low, low_tokens
