"""Writing runs down: the store, called in threads, with its failures turned into a sentence for the page.

A database that fails must not cost an answer: the run goes on in memory and says that it is not saved.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

from core.errors import StoreError
from core.types import Message, Trace, Turn

if TYPE_CHECKING:
    from core.store import Store
    from webapp.options import Options

log = logging.getLogger(__name__)

UNSAVED = "unsaved-"  # begins the name of a conversation that only lives in memory


class Record:
    """One question on its way into the store. `problem` is empty while everything could be saved."""

    def __init__(
        self,
        store: Store,
        owner: str,
        conversation: str,
        replaces: str | None = None,
        told: Callable[[str], str] = str,
    ) -> None:
        self._store = store
        self._told = told
        self._owner = owner
        self._replaces = replaces
        self.conversation = conversation
        self.question_id = secrets.token_urlsafe(16)
        self.history: tuple[Message, ...] = ()
        self.problem = ""
        self._kept = False  # the question has its row: turns can be added

    async def open(self, question: str, pool: str, options: Options) -> None:
        """Give the question its row, making the conversation when there is none, and read what was said before.

        Raises NotOwner. A store that fails costs the record, not the question: `problem` then says why.
        """
        try:
            if self.conversation.startswith(UNSAVED):
                raise StoreError("its conversation could not be saved either.")
            await asyncio.to_thread(self._open, question, pool, options)
            self._kept = True
        except StoreError as error:
            self._failed(error)
            self.conversation = self.conversation or f"{UNSAVED}{secrets.token_urlsafe(16)}"

    def _open(self, question: str, pool: str, options: Options) -> None:
        if self.conversation:
            self.history = self._store.questions.history(self._owner, self.conversation, before=self._replaces)
        else:
            self.conversation = self._store.conversations.create(self._owner)
        self._store.questions.start(
            self._owner,
            self.conversation,
            question,
            id=self.question_id,
            replaces=self._replaces,
            pool=pool,
            checkpoint=options.checkpoint,  # checkpoint, backbone and protocol are known at the end, in the trace
            backbone="",
            protocol="",
            limits=options.limits,
            exclude=options.exclude,
        )

    async def add_turn(self, turn: Turn) -> None:
        """Commit one finished turn."""
        if self._kept:
            try:
                await asyncio.to_thread(self._store.questions.add_turn, self.question_id, turn)
            except StoreError as error:
                self._failed(error)

    async def finish(self, trace: Trace) -> None:
        """Commit the ending."""
        if self._kept:
            try:
                await asyncio.to_thread(self._store.questions.finish, self.question_id, trace)
            except StoreError as error:
                self._failed(error)

    def _failed(self, error: StoreError) -> None:
        log.error("a question could not be saved: %s", error)
        self.problem = self._told(str(error))


class Archive:
    """Makes records. One for the whole server."""

    def __init__(self, store: Store, told: Callable[[str], str] = str) -> None:
        """`told` makes an error's text fit for visitors."""
        self._store = store
        self._told = told

    def record(self, owner: str, conversation: str, replaces: str | None = None) -> Record:
        """A record for one question of one owner; `replaces` is the question that is asked again."""
        return Record(self._store, owner, conversation, replaces, self._told)
