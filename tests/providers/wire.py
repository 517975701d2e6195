"""The three wire formats: a Step as the frames of a stream, as one body, or as an error body."""

from __future__ import annotations

import json
from typing import Protocol

from tests.providers.step import Step

_ANTHROPIC_FINISH = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal", "tool_calls": "tool_use"}
_GEMINI_FINISH = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}


class Wire(Protocol):
    name: str

    def frames(self, step: Step) -> list[bytes]: ...

    def error_frame(self, step: Step) -> bytes: ...

    def body(self, step: Step) -> bytes: ...

    def error(self, step: Step) -> bytes: ...


def sse(data: object, event: str = "") -> bytes:
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {text}\n\n".encode()


class OpenAI:
    name = "openai"

    def _chunk(self, step: Step, delta: dict, finish: str | None = None) -> bytes:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return sse(
            {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": step.model, "choices": choices}
        )

    def _usage(self, step: Step) -> dict | None:
        if step.usage is None:
            return None
        prompt, completion = step.usage
        total = prompt + completion if isinstance(prompt, int) and isinstance(completion, int) else None
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}

    def frames(self, step: Step) -> list[bytes]:
        if step.empty_choices:
            body = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": step.model, "choices": []}
            return [sse(body), sse("[DONE]")]
        out = [self._chunk(step, {"role": "assistant", "content": None})]
        out += [self._chunk(step, {"reasoning_content": text}) for text in step.reasoning]
        if step.tool_call:
            call = {"index": 0, "id": "t1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
            out.append(self._chunk(step, {"tool_calls": [call]}))
        elif not step.null_content:
            out += [self._chunk(step, {"content": text}) for text in step.chunks]
        out.append(self._chunk(step, {}, "tool_calls" if step.tool_call else step.finish))
        if step.usage is not None:
            tail = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": step.model, "choices": []}
            out.append(sse({**tail, "usage": self._usage(step)}))
        return [*out, sse("[DONE]")]

    def error_frame(self, step: Step) -> bytes:
        return sse({"error": {"message": step.message, "type": "server_error", "code": step.error or "overloaded"}})

    def body(self, step: Step) -> bytes:
        message = {"role": "assistant", "content": None if step.null_content else "".join(step.chunks)}
        choices = [] if step.empty_choices else [{"index": 0, "message": message, "finish_reason": step.finish}]
        body = {"id": "c1", "object": "chat.completion", "created": 1, "model": step.model, "choices": choices}
        return json.dumps({**body, "usage": self._usage(step)}).encode()

    def error(self, step: Step) -> bytes:
        return json.dumps({"error": {"message": step.message, "type": "error", "code": step.error}}).encode()


class Anthropic:
    name = "anthropic"

    def frames(self, step: Step) -> list[bytes]:
        prompt, completion = step.usage or (None, None)
        usage = {} if step.usage is None else {"usage": {"input_tokens": prompt, "output_tokens": 1}}
        message = {"id": "m1", "type": "message", "role": "assistant", "content": [], "model": step.model}
        out = [sse({"type": "message_start", "message": {**message, "stop_reason": None, **usage}}, "message_start")]
        index = 0
        if step.reasoning:
            out += self._block(
                index, {"type": "thinking", "thinking": ""}, "thinking_delta", "thinking", step.reasoning
            )
            index += 1
        if step.tool_call:
            block = {"type": "tool_use", "id": "t1", "name": "run", "input": {}}
            out += self._block(index, block, "input_json_delta", "partial_json", ("{}",))
        elif not (step.null_content or step.empty_choices):
            out += self._block(index, {"type": "text", "text": ""}, "text_delta", "text", step.chunks)
        finish = "tool_use" if step.tool_call else _ANTHROPIC_FINISH[step.finish]
        end = {"type": "message_delta", "delta": {"stop_reason": finish, "stop_sequence": None}}
        tail = {} if step.usage is None else {"usage": {"output_tokens": completion}}
        return [*out, sse({**end, **tail}, "message_delta"), sse({"type": "message_stop"}, "message_stop")]

    def _block(self, index: int, start: dict, kind: str, key: str, pieces: tuple[str, ...]) -> list[bytes]:
        opened = {"type": "content_block_start", "index": index, "content_block": start}
        out = [sse(opened, "content_block_start")]
        for text in pieces:
            delta = {"type": "content_block_delta", "index": index, "delta": {"type": kind, key: text}}
            out.append(sse(delta, "content_block_delta"))
        return [*out, sse({"type": "content_block_stop", "index": index}, "content_block_stop")]

    def error_frame(self, step: Step) -> bytes:
        body = {"type": "error", "error": {"type": step.error or "overloaded_error", "message": step.message}}
        return sse(body, "error")

    def body(self, step: Step) -> bytes:
        content = [] if step.null_content else [{"type": "text", "text": "".join(step.chunks)}]
        message = {"id": "m1", "type": "message", "role": "assistant", "content": content, "model": step.model}
        prompt, completion = step.usage or (0, 0)
        end = {
            "stop_reason": _ANTHROPIC_FINISH[step.finish],
            "usage": {"input_tokens": prompt, "output_tokens": completion},
        }
        return json.dumps({**message, **end}).encode()

    def error(self, step: Step) -> bytes:
        return json.dumps({"type": "error", "error": {"type": step.error, "message": step.message}}).encode()


class Gemini:
    name = "gemini"

    def _frame(self, parts: list[dict], finish: str | None = None, usage: dict | None = None) -> bytes:
        candidate: dict = {"content": {"role": "model", "parts": parts}, "index": 0}
        if finish:
            candidate["finishReason"] = finish
        body: dict = {"candidates": [candidate], "modelVersion": "fault-1"}
        if usage:
            body["usageMetadata"] = usage
        return sse(body)

    def _usage(self, step: Step) -> dict | None:
        if step.usage is None:
            return None
        prompt, completion = step.usage
        both = isinstance(prompt, int) and isinstance(completion, int)
        total = prompt + completion if both else None
        return {"promptTokenCount": prompt, "candidatesTokenCount": completion, "totalTokenCount": total}

    def frames(self, step: Step) -> list[bytes]:
        if step.empty_choices:
            return [sse({"candidates": [], "usageMetadata": self._usage(step) or {}})]
        out = [self._frame([{"text": text, "thought": True}]) for text in step.reasoning]
        if step.tool_call:
            out.append(self._frame([{"functionCall": {"name": "run", "args": {}}}]))
        elif not step.null_content:
            out += [self._frame([{"text": text}]) for text in step.chunks]
        finish = "STOP" if step.tool_call else _GEMINI_FINISH[step.finish]
        return [*out, self._frame([{"text": ""}], finish, self._usage(step))]

    def error_frame(self, step: Step) -> bytes:
        return sse({"error": {"code": 503, "message": step.message, "status": "UNAVAILABLE"}})

    def body(self, step: Step) -> bytes:
        parts = [{"text": "".join(step.chunks)}]
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": _GEMINI_FINISH[step.finish]}
        return json.dumps({"candidates": [candidate], "usageMetadata": self._usage(step)}).encode()

    def error(self, step: Step) -> bytes:
        return json.dumps({"error": {"code": step.status, "message": step.message, "status": step.error}}).encode()


def wire_of(path: str) -> Wire:
    """The format that a request path belongs to."""
    if "generateContent" in path or "streamGenerateContent" in path:
        return Gemini()
    return Anthropic() if path.endswith("/messages") else OpenAI()
