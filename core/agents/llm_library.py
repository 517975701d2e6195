"""The one door to litellm: imported on first use, quietened, and never allowed to fetch anything at import.

litellm takes 2-3 s and 200 MB to import; its own retries repeat what must not be repeated and its default
time-out is 100 minutes (measured), so every call here passes its own.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from functools import cache, wraps
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
    _follow_no_redirects(litellm)
    first = threading.Thread(target=lambda: asyncio.run(_rehearse(litellm)))
    first.start()
    first.join()
    return litellm


def _follow_no_redirects(litellm: Any) -> None:
    """Keep keys at home: followed redirects carried `x-api-key` and `x-goog-api-key` to another host (measured, 1.110).

    litellm has no switch for it, so the two places that make its HTTP clients get one.
    """
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler
    from litellm.llms.openai.common_utils import BaseOpenAILLM

    def staying(make: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(make)
        def made(*args: Any, **options: Any) -> Any:
            client = make(*args, **options)
            client.follow_redirects = False
            return client

        return made

    AsyncHTTPHandler.create_client = staying(AsyncHTTPHandler.create_client)
    BaseOpenAILLM._get_async_http_client = staticmethod(staying(BaseOpenAILLM._get_async_http_client))
    litellm.module_level_aclient.client.follow_redirects = False  # made at import


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
