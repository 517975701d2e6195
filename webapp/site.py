"""What one server has: its settings, store, teams, runs and the pages that look at them."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from webapp.archive import Archive
from webapp.names import Names
from webapp.runs import Runs
from webapp.security import LOOPBACK
from webapp.teams import Loader, Teams

if TYPE_CHECKING:
    from core.settings import Settings
    from core.store import Store

log = logging.getLogger(__name__)

LOAD_AFTER_S = 0.5  # importing torch holds the interpreter; the first page goes first


class Viewers:
    """Which view of each open page is the current one.

    A page that opens another conversation must not be drawn over by the stream of the former one: every change of view
    takes a ticket, and a stream ends when its ticket is no longer the page's newest.
    """

    def __init__(self, most: int = 10_000) -> None:
        self._newest: OrderedDict[str, int] = OrderedDict()
        self._most = most
        self._count = 0

    def enter(self, page: str) -> tuple[str, int]:
        """A new ticket for this page; older ones end."""
        self._count += 1
        self._newest[page] = self._count
        self._newest.move_to_end(page)
        while len(self._newest) > self._most:
            self._newest.popitem(last=False)
        return page, self._count

    def current(self, ticket: tuple[str, int]) -> bool:
        """Whether no newer ticket was taken for the page."""
        page, count = ticket
        return self._newest.get(page, count) == count


@dataclass
class Site:
    """Everything the pages share."""

    settings: Settings
    store: Store
    teams: Teams
    runs: Runs
    names: Names
    viewers: Viewers = field(default_factory=Viewers)

    @classmethod
    def of(cls, settings: Settings, store: Store, loader: Loader) -> Site:
        """Assemble a site around a store and a way to load teams."""
        public = is_public(settings)
        names = Names.of(settings, public=public)
        teams = Teams(loader, told=names.told)
        runs = Runs(teams, Archive(store, names.told), default_pool=names.pool, public=public)
        return cls(settings, store, teams, runs, names)

    def pools(self) -> list[str]:
        """The pools a visitor may choose: all presets on one's own machine, the server's one anywhere else."""
        from core.pool import preset_names

        mine = self.names.pool
        others = [] if is_public(self.settings) else preset_names()
        return [mine, *(name for name in others if name != mine)]

    def heads(self) -> list[tuple[str, str]]:
        """The heads a visitor may choose, as (label, name); the empty name is the pool's own."""
        from core.checkpoint import known_checkpoints

        mine = self.names.head
        others = [] if is_public(self.settings) else sorted(known_checkpoints(self.settings.data_dir))
        return [(mine or "auto", mine), *((name, name) for name in others if name != mine)]

    def offered(self, pool: object, head: object) -> tuple[str, str]:
        """The pool and head asked for, if this server offers them; empty where it is the server's or the pool's own."""
        chosen = pool if isinstance(pool, str) and pool in self.pools() and pool != self.names.pool else ""
        own = self.names.head or chosen or self.names.pool
        known = [name for _, name in self.heads()]
        return chosen, head if isinstance(head, str) and head in known and head != own else ""

    async def open(self) -> None:
        """At the start: end what a crash cut off, and begin to load the team a moment after the page is there."""
        cut = await asyncio.to_thread(self.store.questions.interrupt_unfinished)
        if cut:
            log.warning("%d questions were cut off by the last stop; they can be retried", cut)
        asyncio.get_running_loop().call_later(LOAD_AFTER_S, self.teams.state)

    async def close(self) -> None:
        """At the end: stop the runs, write them down, close the database."""
        await self.runs.close()
        await asyncio.to_thread(self.teams.close)
        await asyncio.to_thread(self.store.close)


def is_public(settings: Settings) -> bool:
    """Whether strangers can reach this server: a Space, a public address, or a socket beyond loopback."""
    public_name = urlsplit(settings.public_url).hostname if settings.public_url else None
    named = bool(settings.space_host) or (public_name is not None and public_name not in LOOPBACK)
    return named or settings.host not in LOOPBACK
