"""What happens on the chat page: open, ask, stop, and the actions of the history list and of an answer.

Every handler checks whose conversation it is; ids that come from the page are names, not credentials.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.errors import NotOwner, StoreError
from core.types import Limits
from webapp.i18n import choose_language, count_of, say
from webapp.limits import client_address
from webapp.options import Asker, Options
from webapp.ownership import is_owner, new_owner
from webapp.pages.chat_data import ChatData, Opened, notice
from webapp.prose import clean
from webapp.questions import Refused
from webapp.run import Run

if TYPE_CHECKING:
    import gradio as gr

    from webapp.site import Site
    from webapp.teams import TeamState

log = logging.getLogger(__name__)
Json = dict[str, Any]
Ticket = tuple[str, int]

MAX_TURNS_OFFERED = 10


@dataclass
class Update:
    """New values of the page's components; what is None stays as it is."""

    chat: Json | None = None
    timeline: Json | None = None
    history: Json | None = None
    header: Json | None = None
    notice: Json | None = None
    download: Json | None = None
    place: str | None = None  # the conversation that is open
    lang: str | None = None
    owner: str | None = None
    typed: str | None = None  # the composer's text
    running: bool | None = None  # whether the composer shows Stop
    team: TeamState | None = None  # a team whose agents can now be chosen from


class ChatHandlers:
    """The handlers, free of components: they take plain values and yield `Update`s."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._data = ChatData(site)

    async def load(self, owner: str, stored: str, request: gr.Request) -> AsyncIterator[Update]:
        """The page was opened or reloaded: show its conversation, and follow what runs in it."""
        ticket = self._site.viewers.enter(_page(request))
        query = request.query_params
        lang = choose_language(query.get("lang"), stored, request.headers.get("accept-language", ""))
        owner = owner if is_owner(owner) else new_owner()
        opened = await self._first(owner, str(query.get("c") or ""), lang)
        first = await self._whole(owner, opened, lang)
        first.header, first.lang, first.owner = self._data.header(lang), lang, owner
        state = self._site.teams.state()
        first.team = state if state.team else None
        yield first
        if state.kind == "loading":
            async for update in self._until_ready(ticket, opened, lang):
                yield update
        async for update in self._follow(ticket, owner, opened, lang):
            yield update

    async def ask(
        self, owner: str, place: str, lang: str, text: str, options: Options | Refused, request: gr.Request
    ) -> AsyncIterator[Update]:
        """Send: begin the question and follow it. `options` is the refusal when they do not fit."""
        try:
            if not is_owner(owner):
                raise Refused("not_yours")
            if isinstance(options, Refused):
                raise options
            run = await self._site.runs.ask(Asker(owner, self._address(request)), place, text, options)
        except (Refused, NotOwner) as error:
            yield Update(notice=_refusal(error, lang))
            return
        ticket = self._site.viewers.enter(_page(request))
        opened = await self._data.open(owner, run.conversation, lang)
        update = self._picture(opened, lang)
        update.notice, update.place, update.running = notice(lang), run.conversation, opened.running
        if options.replaces is None:
            update.typed = ""
        yield update
        yield Update(history=await self._data.history(owner, opened, lang))
        async for update in self._follow(ticket, owner, opened, lang):
            yield update

    async def stop(self, owner: str, place: str) -> None:
        """Stop: the run ends by itself and its followers show it. On the event loop, where the run lives."""
        try:
            self._site.runs.stop(owner, place)
        except NotOwner:
            log.warning("a stranger tried to stop a question")

    async def history_action(
        self, owner: str, place: str, lang: str, event: Json, request: gr.Request
    ) -> AsyncIterator[Update]:
        """New, open, rename, delete, delete all, share, end sharing."""
        action, target = str(event.get("action", "")), str(event.get("id", ""))
        try:
            if action in ("new", "open"):
                async for update in self._switch(owner, target if action == "open" else "", lang, request):
                    yield update
            else:
                async for update in self._change(action, target, owner, place, lang, event, request):
                    yield update
        except NotOwner as error:
            yield Update(notice=_refusal(error, lang))
        except StoreError as error:
            yield Update(
                notice=notice(lang, say(lang, "store_failed", why=self._site.names.told(str(error))), tone="bad")
            )

    async def chat_action(
        self, owner: str, place: str, lang: str, event: Json, request: gr.Request
    ) -> AsyncIterator[Update]:
        """Actions under an answer: show its turns, ask it again, export it, a thumb on it."""
        action, question = str(event.get("action", "")), str(event.get("id", ""))
        try:
            opened = await self._data.open(owner, place, lang)
            asked = next((asked for _, asked in opened.questions if asked.id == question), None)
            if asked is None:
                raise Refused("not_yours")
            if action == "trace":
                yield Update(timeline=self._data.timeline(opened, lang, question))
            elif action == "export":
                yield Update(download=await asyncio.to_thread(self._export, owner, place, question, event))
            elif action == "thumb":
                await asyncio.to_thread(self._thumb, owner, question, event)
                opened = await self._data.open(owner, place, lang)
                yield Update(chat=self._data.chat(opened, lang))
            elif action == "retry":
                options = await self._again(owner, question)
                async for update in self.ask(owner, place, lang, asked.text, options, request):
                    yield update
        except (Refused, NotOwner) as error:
            yield Update(notice=_refusal(error, lang))
        except StoreError as error:
            yield Update(
                notice=notice(lang, say(lang, "store_failed", why=self._site.names.told(str(error))), tone="bad")
            )

    async def team(self, pool: str, checkpoint: str, lang: str) -> AsyncIterator[Update]:
        """Another pool or head was chosen: show how far its team is, then its agents."""
        yield Update(header=self._data.header(lang, self._site.teams.state(pool, checkpoint)))
        state = await self._site.teams.settled(pool, checkpoint)
        failed = notice(lang, say(lang, "banner_failed", why=state.message), tone="bad")
        yield Update(
            header=self._data.header(lang, state), team=state, notice=failed if state.kind == "failed" else notice(lang)
        )

    async def _first(self, owner: str, conversation: str, lang: str) -> Opened:
        """What a fresh page opens: the conversation of its address, else one that is running, else nothing."""
        if conversation:
            return await self._data.open(owner, conversation, lang)
        running = self._site.runs.running(owner)
        return await self._data.open(owner, running[-1].conversation, lang) if running else Opened()

    async def _switch(self, owner: str, conversation: str, lang: str, request: gr.Request) -> AsyncIterator[Update]:
        ticket = self._site.viewers.enter(_page(request))
        opened = await self._data.open(owner, conversation, lang) if conversation else Opened()
        update = await self._whole(owner, opened, lang)
        update.notice = notice(lang)
        yield update
        async for update in self._follow(ticket, owner, opened, lang):
            yield update

    async def _change(
        self, action: str, target: str, owner: str, place: str, lang: str, event: Json, request: gr.Request
    ) -> AsyncIterator[Update]:
        store, said = self._site.store, notice(lang)
        if action == "rename":
            await asyncio.to_thread(store.conversations.rename, owner, target, str(event.get("title", "")))
        elif action == "share":
            token = await asyncio.to_thread(store.shares.create, owner, target)
            said = notice(lang, say(lang, "shared_note"), link=f"s/{token}")
        elif action == "unshare":
            await asyncio.to_thread(store.shares.revoke, owner, target)
            said = notice(lang, say(lang, "unshared_note"))
        elif action == "delete":
            self._site.runs.forget(owner, target)
            await asyncio.to_thread(store.conversations.delete, owner, target)
        elif action == "delete_all":
            self._site.runs.forget_all(owner)
            count = await asyncio.to_thread(store.conversations.delete_all, owner)
            said = notice(lang, say(lang, "deleted_all", conversations=count_of(lang, "conversation", count)))
        if action == "delete_all" or (action == "delete" and target == place):
            async for update in self._switch(owner, "", lang, request):
                update.notice = said
                yield update
            return
        opened = await self._data.open(owner, place, lang) if place else Opened()
        yield Update(notice=said, history=await self._data.history(owner, opened, lang))

    async def _follow(self, ticket: Ticket, owner: str, opened: Opened, lang: str) -> AsyncIterator[Update]:
        """Draw the conversation's running question until it ends or the page looks elsewhere."""
        run = self._site.runs.latest(owner, opened.id)
        if run is None or not opened.running:  # as it was drawn: a run that has ended since must still be drawn
            return
        async with aclosing(self._site.runs.follow(run)) as changes:
            async for _ in changes:
                if not self._site.viewers.current(ticket):
                    return
                yield self._picture(opened.with_run(run), lang)
        yield await self._ending(ticket, owner, opened, run, lang)

    async def _ending(self, ticket: Ticket, owner: str, opened: Opened, run: Run, lang: str) -> Update:
        opened = opened.with_run(run)
        history = await self._data.history(owner, opened, lang)
        if not self._site.viewers.current(ticket):
            return Update()
        update = self._picture(opened, lang)
        update.history, update.running, update.header = history, False, self._data.header(lang)
        return update

    async def _until_ready(self, ticket: Ticket, opened: Opened, lang: str) -> AsyncIterator[Update]:
        """Wait for the team beside whatever else the page does; a running question shows its own waiting."""
        state = await self._site.teams.settled()
        update = Update(header=self._data.header(lang, state), team=state if state.team else None)
        if self._site.viewers.current(ticket):
            update.chat = self._data.chat(opened, lang)
        yield update

    async def _whole(self, owner: str, opened: Opened, lang: str) -> Update:
        """Everything that depends on which conversation is open."""
        update = self._picture(opened, lang)
        update.history = await self._data.history(owner, opened, lang)
        update.place, update.running = opened.id, opened.running
        return update

    def _picture(self, opened: Opened, lang: str) -> Update:
        return Update(chat=self._data.chat(opened, lang), timeline=self._data.timeline(opened, lang))

    async def _again(self, owner: str, question: str) -> Options:
        """The options of a question that is asked again: those it had, and its place in the conversation."""
        try:
            stored = await asyncio.to_thread(self._site.store.questions.get, owner, question)
        except NotOwner:  # it never reached the database
            return Options()
        pool, head = self._site.offered(stored.pool, stored.checkpoint)
        return Options(stored.limits, stored.excluded, pool=pool, checkpoint=head, replaces=stored.id)

    def _thumb(self, owner: str, question: str, event: Json) -> None:
        value = str(event.get("value") or "") or None
        self._site.store.feedback.set(owner, question, value, str(event.get("reason") or ""))

    def _export(self, owner: str, place: str, question: str, event: Json) -> Json:
        from core.export import trace_to_dict, trace_to_markdown

        run = self._site.runs.latest(owner, place)
        if run is not None and run.record.question_id == question and run.live.trace is not None:
            trace = run.live.trace
        else:
            trace = self._site.store.questions.get(owner, question).trace()
        markdown = event.get("format") == "md"
        text = trace_to_markdown(trace) if markdown else json.dumps(trace_to_dict(trace), ensure_ascii=True, indent=2)
        return {
            "seq": time.monotonic_ns(),
            "name": "trinity-answer.md" if markdown else "trinity-answer.json",
            "mime": "text/markdown" if markdown else "application/json",
            "text": text.encode("utf-8", "replace").decode(),
        }

    def _address(self, request: gr.Request) -> str:
        peer = request.client.host if request.client else None
        return client_address(peer, request.headers, behind_proxy=bool(self._site.settings.space_host))


def options_of(
    turns: object, usd: object, exclude: object, team: tuple[str, str], *, most_usd: float
) -> Options | Refused:
    """The options as the page sent them, checked; or the refusal that says what does not fit. `team`: pool and head."""
    count, money = _number(turns), _number(usd)
    if not (1 <= count <= MAX_TURNS_OFFERED and count.is_integer()):  # NaN fits nowhere
        return Refused("bad_turns", most=MAX_TURNS_OFFERED)
    if not 0 <= money <= most_usd:
        return Refused("bad_usd", most=f"{most_usd:.2f}")
    limits = Limits(max_turns=int(count), usd=money)
    names = tuple(clean(str(name))[:64] for name in exclude[:64]) if isinstance(exclude, list) else ()
    return Options(limits=limits, exclude=names, pool=team[0], checkpoint=team[1])


def _number(given: object) -> float:
    """A number of the page's options; NaN for whatever else was sent."""
    try:
        return float(given) if isinstance(given, int | float | str) else math.nan
    except (ValueError, OverflowError):
        return math.nan


def _page(request: gr.Request) -> str:
    return str(request.session_hash or "")


def _refusal(error: Refused | NotOwner, lang: str) -> Json:
    if isinstance(error, NotOwner):
        return notice(lang, say(lang, "not_yours"), tone="bad")
    return notice(lang, say(lang, error.code, **error.values), tone="bad")
