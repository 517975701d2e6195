"""llama.cpp in this process: one model per GGUF file, shared by every agent that speaks with its weights.

The only module that imports xllamacpp. The library also opens an HTTP port on loopback; it gets a random key and
no CORS origin, and nothing here uses it: requests go through the in-process handler, on threads of their own, so
the event loop never waits. The handler's callback returns True to end a generation; asking for prompt progress
makes it run during the reading of a long prompt, too.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import AgentError, AgentPermanent, AgentTransient, PromptTooLong
from core.runtime import prepare_environment
from core.types import Message, Usage

PARALLEL = 4  # sequences decoded together: the four samples of one agreement, or four questions
# Tokens of each sequence. Their keys and values lie apart (380 MB for SmolLM2-135M): in one shared cache the place of
# a sequence changed the last bits, and with them the draw.
CONTEXT = 4096
# Tokens read between two looks at the cancel flag: 0.7 s on one busy core, where llama.cpp's own 2048 took 12 s.
BATCH = 128


@dataclass(frozen=True, slots=True)
class Decoding:
    """How to draw. `temperature` 0 is greedy; `samples` > 1 reads the prompt once and draws that many replies."""

    max_tokens: int
    temperature: float = 0.0
    repeat_penalty: float = 1.1
    seed: int = 0
    samples: int = 1


@dataclass(frozen=True, slots=True)
class Piece:
    """Text of one sample as it is drawn."""

    sample: int
    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of all samples. `finish` is that of sample 0."""

    finish: str
    usage: Usage


class LlamaModel:
    """One GGUF file, loaded at the first use (0.5 s) and kept. Thread-safe; use `shared` to get one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._server: Any = None
        self._active = 0
        self._threads = ThreadPoolExecutor(PARALLEL, thread_name_prefix="llama")

    @property
    def active(self) -> int:
        """Generations in progress: 0 soon after the last one was cancelled."""
        return self._active

    def warm(self) -> None:
        """Load the weights now. Blocking. Raises AgentPermanent when the file is absent or not a model."""
        with self._lock:
            if self._server is None:
                self._server = self._load()

    async def stream(self, messages: Sequence[Message], how: Decoding) -> AsyncIterator[Piece | Ended]:
        """Draw replies to a chat: any number of Piece, then one Ended.

        Raises PromptTooLong, AgentTransient or AgentPermanent. Closing the iterator ends the generation at the next
        token, or at the next `BATCH` tokens of a prompt that is still being read.
        """
        loop, queue, cancelled = asyncio.get_running_loop(), asyncio.Queue[Any](), threading.Event()

        def put(item: Piece | Ended | AgentError) -> None:
            try:
                loop.call_soon_threadsafe(queue.put_nowait, item)
            except RuntimeError:  # the loop is closed: nobody listens any more
                cancelled.set()

        job = self._threads.submit(self._work, _body(messages, how), put, cancelled)
        try:
            while True:
                item = await queue.get()
                if isinstance(item, AgentError):
                    raise item
                yield item
                if isinstance(item, Ended):
                    return
        finally:
            cancelled.set()
            job.cancel()

    def _work(
        self, body: dict[str, Any], put: Callable[[Piece | Ended | AgentError], None], cancelled: threading.Event
    ) -> None:
        """One generation, on a thread."""
        reading = _Reading(put, cancelled)
        try:
            self.warm()
            with self._lock:
                self._active += 1
            try:
                if not cancelled.is_set():
                    self._server.handle_chat_completions(json.dumps(body), reading)
            finally:
                with self._lock:
                    self._active -= 1
            put(reading.end())
        except AgentError as error:
            put(error)
        except Exception as error:  # the library raises RuntimeError and ValueError for requests it cannot read
            put(AgentPermanent(f"llama.cpp refused the request: {error}"))

    def _load(self) -> Any:
        if not self.path.is_file():
            raise AgentPermanent(f"The model file {self.path} is missing; run `trinity backbone install`.")
        prepare_environment()
        import xllamacpp

        try:
            return xllamacpp.Server(_params(xllamacpp, self.path))
        except Exception as error:
            raise AgentPermanent(
                f"The model file {self.path} cannot be loaded ({error}); run `trinity backbone install` again."
            ) from error


_models: dict[Path, LlamaModel] = {}
_models_lock = threading.Lock()


def shared(path: Path) -> LlamaModel:
    """The process's one model for this file. Cheap: nothing is loaded before the first use."""
    with _models_lock:
        return _models.setdefault(path.absolute(), LlamaModel(path.absolute()))


def _params(xllamacpp: Any, path: Path) -> Any:
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_parallel, params.n_ctx, params.kv_unified = PARALLEL, CONTEXT * PARALLEL, False
    params.n_batch = params.n_ubatch = BATCH
    params.cache_ram_mib = 0  # the default keeps up to 8 GiB of old prompts
    params.verbosity, params.warmup = -1, False
    # One thread that does not spin: with the defaults a reply did not end in 10 minutes beside a busy process.
    for cpu in (params.cpuparams, params.cpuparams_batch):
        cpu.n_threads, cpu.poll = 1, 0
    params.api_keys, params.cors_origins = [secrets.token_urlsafe(32)], ""
    params.ui = params.endpoint_slots = params.endpoint_props = False
    params.n_threads_http = 1
    return params


def _body(messages: Sequence[Message], how: Decoding) -> dict[str, Any]:
    return {
        "messages": [{"role": m.role, "content": plain(m.content)} for m in messages],
        "max_tokens": how.max_tokens,
        "temperature": how.temperature,
        "repeat_penalty": how.repeat_penalty,
        "seed": how.seed % 2**31,
        "n": how.samples,
        # A prompt that is read wholly or from a cache differs in the last bits, which is enough to turn a draw.
        "cache_prompt": how.temperature == 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
    }


def plain(text: str) -> str:
    """Text that holds no template token and no lone surrogate: llama.cpp reads `<|im_end|>` in a message as control."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("<|", "< |")


class _Reading:
    """The handler's callback: takes one JSON chunk, passes its text on, returns True to stop."""

    def __init__(self, put: Callable[[Piece | Ended | AgentError], None], cancelled: threading.Event) -> None:
        self._put, self._cancelled = put, cancelled
        self._finish, self._prompt, self._completion, self._pieces = "", 0, 0, 0
        self._error: AgentError | None = None

    def __call__(self, raw: str) -> bool:
        chunk = json.loads(raw)
        if "error" in chunk:
            self._error = _error(chunk["error"])
            return True
        for choice in chunk.get("choices", ()):
            if text := choice["delta"].get("content"):
                self._pieces += 1
                self._put(Piece(choice["index"], text))
            if choice["index"] == 0:
                self._finish = choice.get("finish_reason") or self._finish
        if usage := chunk.get("usage"):
            self._prompt, self._completion = usage["prompt_tokens"], usage["completion_tokens"]
        return self._cancelled.is_set()

    def end(self) -> Ended | AgentError:
        """What the generation came to. llama.cpp counts sample 0 only, so with several their pieces are counted."""
        if self._error is not None:
            return self._error
        usage = Usage(self._prompt, max(self._completion, self._pieces))
        return Ended("length" if self._finish == "length" else "stop", usage)


def _error(error: dict[str, Any]) -> AgentError:
    message = str(error.get("message", error))
    if error.get("type") == "exceed_context_size_error":
        return PromptTooLong(f"The prompt has more tokens than the built-in model's context of {CONTEXT}: {message}")
    kind = AgentTransient if int(error.get("code") or 500) >= 500 else AgentPermanent
    return kind(f"llama.cpp: {message}")
