"""Cuts a transcript to the coordinator model's context: question and newest turns stay, the middle goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from core.types import Message

Count = Callable[[str], int]

CUT_MARK = "\n[... {n} characters left out ...]\n"
TURNS_MARK = "\n\n[Turns {first} to {last} left out.]"
_MARK_TOKENS = 24  # room for either mark under any tokeniser that is no worse than two characters a token
_MESSAGE_TOKENS = 8  # what a chat template puts around one message (ChatML: 5)


@dataclass(frozen=True, slots=True)
class Block:
    """One turn as text: `header` ends with a newline and is never cut, `body` may lose its middle."""

    header: str
    body: str

    @property
    def text(self) -> str:
        """The whole block."""
        return self.header + self.body


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
    if cap is not None:
        history = tuple(Message(m.role, cut(m.content, cap, count)) for m in history)
        blocks = tuple(Block(b.header, cut(b.body, cap, count)) for b in blocks)
    whole = question
    # A long question leaves a quarter for the turns, however many there are: it must not shrink as they come.
    question = cut(question, budget - max(budget // 4, min(4 * _MARK_TOKENS, budget // 2)), count)
    left = budget - count(question)
    texts = _newest_blocks(blocks, left, count)
    kept = _newest_messages(history, left - sum(map(count, texts)), count)
    truncated = question != whole or texts != tuple(b.text for b in blocks) or len(kept) < len(history)
    return Fitted(kept, question, texts, truncated)


def _newest_blocks(blocks: tuple[Block, ...], budget: int, count: Count) -> tuple[str, ...]:
    texts = tuple(block.text for block in blocks)
    costs = [count(text) for text in texts]
    if sum(costs) <= budget:
        return texts
    budget -= _MARK_TOKENS
    first = len(texts)
    while first and sum(costs[first - 1 :]) <= budget:
        first -= 1
    if first == len(texts):  # not even the newest fits as it is
        first -= 1
        last = blocks[-1]
        texts = (*texts[:-1], last.header + cut(last.body, max(0, budget - count(last.header)), count))
    mark = (TURNS_MARK.format(first=1, last=first),) if first else ()
    return (*mark, *texts[first:])


def _newest_messages(history: tuple[Message, ...], budget: int, count: Count) -> tuple[Message, ...]:
    first = len(history)
    while first and (budget := budget - count(history[first - 1].content) - _MESSAGE_TOKENS) >= 0:
        first -= 1
    if first:  # a conversation that lost its beginning must still open with a question
        while first < len(history) and history[first].role == "assistant":
            first += 1
    return history[first:]


def cut(text: str, limit: int, count: Count) -> str:
    """`text` in at most about `limit` tokens: itself if it fits, else its head and its tail around a mark."""
    # A byte-level token is at least one byte: short texts need no count.
    if len(text) * 4 <= limit or _longest(text, limit, count) == len(text):
        return text
    inner = max(0, limit - _MARK_TOKENS)
    head = _longest(text, inner // 2, count)
    tail = _longest(text, inner - inner // 2, count, from_end=True)
    if head + tail >= len(text):
        return text
    return text[:head] + CUT_MARK.format(n=len(text) - head - tail) + text[len(text) - tail :]


def _longest(text: str, limit: int, count: Count, *, from_end: bool = False) -> int:
    """Length of the longest head (or tail) of `text` in at most `limit` tokens.

    Grows from a small guess, so that a megabyte costs what its first few thousand tokens cost.
    """

    def fits(n: int) -> bool:
        return count(text[len(text) - n :] if from_end else text[:n]) <= limit

    low, high = 0, min(len(text), max(16, limit * 4))
    while fits(high):
        if high == len(text):
            return high
        low, high = high, min(len(text), high * 2)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
