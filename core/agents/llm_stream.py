"""Reads one litellm stream: text and reasoning as they come, and at the end what the provider really reported."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, TypeGuard

from core.agents.base import Delta
from core.agents.llm_mask import KeyMask
from core.agents.think import ThinkSplitter
from core.types import Usage


@dataclass(slots=True)
class Reply:
    """What has arrived. `finish` is empty until the provider itself said why it ended; `usage` None: not reported."""

    text: str = ""
    finish: str = ""
    usage: Usage | None = None
    cached_tokens: int = 0
    model: str | None = None
    spoke: bool = False  # whether any text or reasoning came


async def read_stream(stream: Any, reply: Reply, *, key: str = "") -> AsyncGenerator[Delta]:
    """Yield the pieces and fill `reply`. Closing this iterator closes the provider's connection.

    `key` is the one that was sent; where the provider repeats it, the pieces hold `***` instead.
    """
    think, visible, hidden = ThinkSplitter(), KeyMask(key), KeyMask(key)
    try:
        native = await _native_finish(stream)
        try:
            async for chunk in stream:
                reply.model = reply.model or _served_model(chunk, stream)
                for choice in chunk.choices[:1]:
                    piece = think.feed(choice.delta.content or "")
                    thought = (getattr(choice.delta, "reasoning_content", None) or "") + piece.reasoning
                    reply.spoke = reply.spoke or bool(piece.text or thought)
                    told = Delta(visible.feed(piece.text), hidden.feed(thought))
                    reply.text += told.text
                    if told.text or told.reasoning:
                        yield told
                reply.finish = _finish(stream, native)
        except Exception:
            if not reply.finish:
                raise  # else the answer is whole, and what is held back of it is still to be told
        last = think.end()
        reply.spoke = reply.spoke or bool(last.text or last.reasoning)
        text = visible.feed(last.text) + visible.end()
        last = Delta(text, hidden.feed(last.reasoning) + hidden.end())
        reply.text += last.text
        if last.text or last.reasoning:
            yield last
        reply.finish = _finish(stream, native)
    finally:
        reply.text += visible.end()  # of a reply that broke off
        reply.usage, reply.cached_tokens = _usage(stream, reply.spoke)
        await stream.aclose()


def _finish(stream: Any, native: list[str] | None) -> str:
    """The finish reason as received. The wrapper itself says "stop" at any end of the stream, so it is not asked."""
    received = stream.received_finish_reason or stream.intermittent_finish_reason or ""
    return "" if native == [] else received


async def _native_finish(stream: Any) -> list[str] | None:
    """A list that fills with Gemini's own finish reasons; None for other providers.

    litellm gives every Gemini chunk the finish reason "stop", so a cut stream cannot be told from a whole one
    (measured, 1.110); the raw chunk can.
    """
    if stream.custom_llm_provider not in ("gemini", "vertex_ai", "vertex_ai_beta"):
        return None
    source = await stream.fetch_stream()
    parse = getattr(source, "chunk_parser", None)
    if parse is None:
        return None
    seen: list[str] = []

    def spy(chunk: dict[str, Any]) -> Any:
        seen.extend(c["finishReason"] for c in chunk.get("candidates") or () if c.get("finishReason"))
        if (chunk.get("promptFeedback") or {}).get("blockReason"):
            seen.append("BLOCKED")
        return parse(chunk)

    source.chunk_parser = spy
    return seen


def _usage(stream: Any, spoke: bool) -> tuple[Usage | None, int]:
    """Token counts that came over the wire. litellm makes up its own where there were none: those do not count.

    Nor does a count of nothing beside a reply that said something: it cannot be, and would be charged as free.
    """
    for chunk in reversed(getattr(stream, "chunks", None) or ()):
        usage = getattr(chunk, "usage", None)
        if usage is None:
            continue
        prompt, completion = getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None)
        if not _is_count(prompt) or not _is_count(completion):
            return None, 0
        if spoke and not (prompt and completion):
            return None, 0
        cached = getattr(getattr(usage, "prompt_tokens_details", None), "cached_tokens", None)
        return Usage(prompt, completion), cached if _is_count(cached) else 0
    return None, 0


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 100_000_000


def _served_model(chunk: Any, stream: Any) -> str | None:
    name = getattr(stream, "_provider_response_model", None) or getattr(chunk, "model", None)
    return name[:200] if isinstance(name, str) and name and name.isprintable() else None
