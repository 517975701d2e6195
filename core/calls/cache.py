"""The reply cache: at temperature 0 an answer is asked for once; in replay, every draw of a training run is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from core.agents.base import Agent, Delta, Done, Request
from core.agents.prices import to_nano
from core.calls.attempt import Attempt
from core.calls.keys import is_repeatable
from core.errors import StoreError
from core.store.replies import Remembered, Replies
from core.types import Usage

log = logging.getLogger(__name__)
LOOKUP_S = 2.0  # asking again costs less than waiting longer


class ReplyCache:
    """Looks up and remembers. `replay` also keeps replies drawn at random, one for each sample number."""

    def __init__(self, replies: Replies, *, replay: bool = False) -> None:
        self._replies = replies
        self._replay = replay
        # Its own thread: a lookup must not queue behind the sandbox in the default pool.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="replies")

    def holds(self, agent: Agent, request: Request) -> bool:
        """Whether replies to this kind of request are remembered at all."""
        return self._replay or is_repeatable(agent, request)

    async def get(self, key: str) -> Remembered | None:
        """The reply under a key. A database that fails costs the saving, not the answer."""
        try:
            async with asyncio.timeout(LOOKUP_S):
                return await asyncio.get_running_loop().run_in_executor(self._thread, self._replies.get, key)
        except (StoreError, TimeoutError) as error:
            log.warning("reply cache: %s", str(error) or "the database was busy")
            return None

    def put(self, key: str, attempt: Attempt, done: Done) -> None:
        """Remember a complete reply; returns at once. Empty, cut and unpriced ones are not kept."""
        if done.finish != "stop" or not attempt.text.strip() or done.cost_usd is None:
            return
        reply = Remembered(
            attempt.agent.name,
            done.model or attempt.agent.model,
            attempt.text,
            attempt.reasoning,
            done.finish,
            done.usage.prompt_tokens,
            done.usage.completion_tokens,
            to_nano(done.cost_usd),
        )
        self._thread.submit(self._put, key, attempt.question, reply, bool(attempt.owner))

    def _put(self, key: str, question: str, reply: Remembered, stored: bool) -> None:
        try:
            self._replies.put(key, question, reply, stored=stored)
        except StoreError as error:
            log.warning("reply cache: %s", error)

    def flush(self) -> None:
        """Wait until everything given so far is stored."""
        self._thread.submit(lambda: None).result()


def spoken(reply: Remembered) -> Iterator[Delta | Done]:
    """A remembered reply as a stream: at no cost, with the tokens that it had."""
    yield Delta(reply.text, reply.reasoning)
    yield Done(reply.finish, Usage(reply.prompt_tokens, reply.completion_tokens), 0.0, reply.model)
