"""What the chat page shows, gathered from store, runs and teams and turned into the components' values."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from core.errors import NotOwner, StoreError
from webapp.asked import Asked, from_run, from_store
from webapp.i18n import say
from webapp.prose import clean
from webapp.timeline import timeline
from webapp.view import chat

if TYPE_CHECKING:
    from webapp.run import Run
    from webapp.site import Site
    from webapp.teams import TeamState

Json = dict[str, Any]

LISTED = 100  # conversations in the history list


@dataclass(frozen=True, slots=True)
class Opened:
    """A conversation as it was read: its questions with their keys, and what to say above them."""

    id: str = ""
    questions: tuple[tuple[str, Asked], ...] = ()
    banner: Json | None = None
    shared: bool = False
    keep_address: bool = False

    @property
    def running(self) -> bool:
        """Whether a question of it was running when it was read."""
        return any(asked.running for _, asked in self.questions)

    def with_run(self, run: Run) -> Opened:
        """The same with `run` in its place: instead of its own row, of the one it asks again, or at the end."""
        asked, ids = from_run(run), (run.record.question_id, run.options.replaces)
        for _, old in self.questions:
            if old.id == asked.id:
                asked = replace(asked, thumb=old.thumb, thumb_reason=old.thumb_reason)
        items = [(key, asked if old.id in ids else old) for key, old in self.questions]
        if not any(old.id in ids for _, old in self.questions):
            items.append((f"q{len(items) + 1}", asked))
        return Opened(run.conversation, tuple(items), self.banner, self.shared)


class ChatData:
    """Reads what a visitor may see. Every read names the owner, and the store checks it."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def open(self, owner: str, conversation: str, lang: str) -> Opened:
        """A conversation of this owner; an unknown or foreign one is an empty page with a note, never an error."""
        run = self._site.runs.latest(owner, conversation)
        try:
            opened = await asyncio.to_thread(self._read, owner, conversation, lang)
        except NotOwner:
            if run is None:
                return Opened(banner={"tone": "info", "text": say(lang, "banner_unknown")}, keep_address=False)
            opened = Opened(conversation)
        except StoreError as error:
            text = say(lang, "banner_store", why=self._site.names.told(str(error)))
            opened = Opened(conversation if run else "", banner={"tone": "bad", "text": text}, keep_address=True)
        for one in (*run.earlier, run) if run is not None else ():
            opened = opened.with_run(one)
        return opened

    def _read(self, owner: str, conversation: str, lang: str) -> Opened:
        stored = self._site.store.conversations.get(owner, conversation)
        latest = {question.position: question for question in stored.questions}
        asked = [(f"q{at}", from_store(question)) for at, question in enumerate(latest.values(), start=1)]
        shares = self._site.store.shares.list(owner, conversation)
        return Opened(
            conversation,
            tuple(asked),
            banner={"tone": "info", "text": say(lang, "banner_elsewhere")} if self._elsewhere(asked) else None,
            shared=any(share.revoked is None for share in shares),
        )

    def _elsewhere(self, asked: list[tuple[str, Asked]]) -> bool:
        """Whether another process is answering one of these questions."""
        return any(one.running and not self._site.runs.knows(one.id) for _, one in asked)

    def chat(self, opened: Opened, lang: str) -> Json:
        """The chat component's value."""
        state = self._site.teams.state()
        banner = opened.banner or _team_banner(state, lang, opened.running)
        return chat(
            lang,
            opened.id,
            opened.questions,
            banner=banner,
            examples=[say(lang, f"example_{n}") for n in range(1, 5)],
            pool_note=self.pool_note(lang),
            keep_address=opened.keep_address,
        )

    def pool_note(self, lang: str) -> str:
        """What to know about the pool in use."""
        team = self._site.teams.state().team
        pool = team.pool_name if team else self._site.names.pool
        if pool == "embedded":
            return say(lang, "pool_note_embedded")
        return clean(" ".join(team.notes)) if team else ""

    def timeline(self, opened: Opened, lang: str, question: str = "") -> Json:
        """The timeline component's value: one question's turns, the latest unless `question` names another."""
        chosen = [item for item in opened.questions if item[1].id == question] or list(opened.questions[-1:])
        return timeline(chosen[0][1], lang, f"{opened.id}.{chosen[0][1].id}") if chosen else timeline(None, lang)

    async def history(self, owner: str, current: Opened, lang: str) -> Json:
        """The history component's value. A store that fails gives the list of what is in memory: nothing."""
        try:
            found = await asyncio.to_thread(self._site.store.conversations.list, owner, limit=LISTED)
        except (StoreError, NotOwner):
            found = ()
        running = {run.conversation for run in self._site.runs.running(owner)}
        return {
            "seq": time.monotonic_ns(),
            "lang": lang,
            "current": current.id,
            "can_share": any(line.id == current.id for line in found),
            "shared": current.shared,
            "conversations": [
                {"id": line.id, "title": clean(line.title), "running": line.id in running}
                for line in found
                if line.questions or line.id == current.id
            ],
        }

    def header(self, lang: str, state: TeamState | None = None) -> Json:
        """The header component's value: which coordinator is at work, or how far it is."""
        state = state or self._site.teams.state()
        value: Json = {"seq": time.monotonic_ns(), "lang": lang, "state": state.kind, "title": clean(state.message)}
        team = state.team
        if team is None:
            return value | {"words": say(lang, f"team_{state.kind}")}
        facts = {"backbone": team.backbone_name, "pool": team.pool_name, "checkpoint": team.checkpoint_name}
        return value | {"words": say(lang, "team_ready", **facts), "title": say(lang, "team_title", **facts)}


def notice(lang: str, text: str = "", *, tone: str = "info", link: str = "") -> Json:
    """The notice component's value: one sentence at the composer, or nothing."""
    return {"seq": time.monotonic_ns(), "lang": lang, "text": clean(text), "tone": tone, "link": link}


def _team_banner(state: TeamState, lang: str, running: bool) -> Json | None:
    if state.kind == "failed":
        return {"tone": "bad", "text": say(lang, "banner_failed", why=clean(state.message))}
    if state.kind == "loading" and not running:
        return {"tone": "info", "text": say(lang, "banner_loading")}
    return None
