"""The one door to litellm: imported on first use, quietened, and never allowed to fetch anything at import.

litellm takes 2-3 s and 200 MB to import; its own retries repeat what must not be repeated and its default
time-out is 100 minutes (measured), so every call here passes its own.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from functools import cache
from typing import Any

from core.runtime import prepare_environment

_LOCK = threading.Lock()


@cache
def _import() -> Any:
    prepare_environment()
    import litellm

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.drop_params = False
    litellm.num_retries = 0
    litellm.turn_off_message_logging = True
    litellm.disable_streaming_logging = True
    # A table or a row of dashes repeats one chunk a hundred times; max_tokens bounds a model that loops.
    litellm.REPEATED_STREAMING_CHUNK_LIMIT = 1_000_000
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    first = threading.Thread(target=lambda: asyncio.run(_rehearse(litellm)))
    first.start()
    first.join()
    return litellm


async def _rehearse(litellm: Any) -> None:
    """One mock call. The first call of a process imports 70 modules more and would hold the event loop for a second."""
    stream = await litellm.acompletion(
        model="openai/rehearsal",
        messages=[{"role": "user", "content": "x"}],
        mock_response="x",
        api_key="none",
        max_retries=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    async for _ in stream:
        pass


def library() -> Any:
    """The litellm module. Blocks 3-4 s on the first call of a process."""
    with _LOCK:
        return _import()


async def library_async() -> Any:
    """The same without blocking the event loop."""
    if _import.cache_info().currsize:
        return _import()
    return await asyncio.to_thread(library)
