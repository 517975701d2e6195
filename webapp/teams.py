"""The teams this server runs, loaded in threads of their own so that the page is there before the models are."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from core.errors import ConfigError, TrinityError
from core.runtime import without_secrets
from core.types import Limits, Message, Role

if TYPE_CHECKING:
    from core.calls.base import Account
    from core.events import Event

log = logging.getLogger(__name__)

MAX_TEAMS = 2  # the default one and one that a visitor chose: each holds a coordinator model of its own
CLOSE_AFTER_S = 330.0  # a team that makes room may still be answering; its longest question lasts 300 s


class AgentFacts(Protocol):
    """What the page shows of a pool's member."""

    @property
    def name(self) -> str:
        """The agent's name in its pool."""
        ...

    @property
    def model(self) -> str:
        """The model or tool behind the name."""
        ...

    @property
    def roles(self) -> Sequence[Role]:
        """The roles it can ever play."""
        ...

    @property
    def unusable(self) -> str | None:
        """Why it cannot be called at all, or None."""
        ...

    @property
    def free(self) -> bool:
        """Whether its calls cost nothing."""
        ...


class TeamLike(Protocol):
    """What the web app needs of `core.team.Team`; tests bring their own."""

    @property
    def pool_name(self) -> str:
        """The pool's name."""
        ...

    @property
    def checkpoint_name(self) -> str:
        """The head's name."""
        ...

    @property
    def backbone_name(self) -> str:
        """The coordinator model's name."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """Sentences a visitor should see."""
        ...

    @property
    def agents(self) -> Sequence[AgentFacts]:
        """The members in their fixed order."""
        ...

    def run(
        self,
        question: str,
        *,
        question_id: str,
        history: tuple[Message, ...] = (),
        limits: Limits = Limits(),
        exclude: Sequence[str] | Mapping[str, str] = (),
        account: Account | None = None,
        stop: asyncio.Event | None = None,
        seed: int = 0,
    ) -> AsyncIterator[Event]:
        """One question's events."""
        ...


Loader = Callable[[str, str], TeamLike]
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class TeamState:
    """How far a team is: `message` says what went wrong when `failed`."""

    kind: Literal["loading", "ready", "failed"]
    team: TeamLike | None = None
    message: str = ""


class _Loading:
    """One team on its way: a thread, and the state it leaves behind."""

    def __init__(self, key: Key, loader: Loader, told: Callable[[str], str]) -> None:
        self.state = TeamState("loading")
        self._told = told
        self.settled: Future[TeamState] = Future()
        self.used = time.monotonic()
        # A daemon thread: a SIGTERM while torch is being imported must not wait for it.
        threading.Thread(target=self._load, args=(key, loader), name="load-team", daemon=True).start()

    def close(self) -> None:
        """End the team's helper processes and threads, if it has any."""
        close = getattr(self.state.team, "close", None)
        if close is not None:
            close()

    def _load(self, key: Key, loader: Loader) -> None:
        try:
            self.state = TeamState("ready", loader(*key))
        except TrinityError as error:
            self.state = TeamState("failed", message=self._told(without_secrets(str(error))))
        except Exception as error:  # a broken library must become a visible state, not a page that waits for ever
            log.exception("the team could not be loaded")
            why = self._told(without_secrets(f"{type(error).__name__}: {error}"))
            self.state = TeamState("failed", message=f"The team could not be loaded: {why}")
        finally:
            self.settled.set_result(self.state)


class Teams:
    """Teams by (pool, checkpoint); empty names mean the settings' own. Loading starts at the first mention."""

    def __init__(self, loader: Loader, told: Callable[[str], str] = str) -> None:
        """`told` makes an error's text fit for visitors."""
        self._loader = loader
        self._told = told
        self._known: dict[Key, _Loading] = {}
        self._lock = threading.Lock()

    def state(self, pool: str = "", checkpoint: str = "") -> TeamState:
        """How far this team is; begins to load it when it was never asked for, or failed the last time."""
        return self._entry((pool, checkpoint), again=False).state

    def is_ready(self, pool: str = "", checkpoint: str = "") -> bool:
        """Whether this team can answer at once. Begins nothing."""
        entry = self._known.get((pool, checkpoint))
        return entry is not None and entry.state.kind == "ready"

    async def settled(self, pool: str = "", checkpoint: str = "") -> TeamState:
        """How the loading of this team ended: `ready` or `failed`."""
        return await self._settled(self._entry((pool, checkpoint), again=False))

    async def get(self, pool: str = "", checkpoint: str = "") -> TeamLike:
        """The team, once it is loaded; one that failed is tried again. Raises ConfigError when it cannot be loaded."""
        state = await self._settled(self._entry((pool, checkpoint), again=True))
        if state.team is None:
            raise ConfigError(state.message)
        return state.team

    async def _settled(self, entry: _Loading) -> TeamState:
        # Shielded: a page that is closed while it waits must not cancel the loading for the others.
        return await asyncio.shield(asyncio.wrap_future(entry.settled))

    def close(self) -> None:
        """End the helper processes and threads of every loaded team."""
        for entry in self._known.values():
            entry.close()

    def _entry(self, key: Key, *, again: bool) -> _Loading:
        with self._lock:
            entry = self._known.get(key)
            if entry is None or (again and entry.state.kind == "failed"):
                self._make_room(key)
                entry = self._known[key] = _Loading(key, self._loader, self._told)
            entry.used = time.monotonic()
            return entry

    def _make_room(self, key: Key) -> None:
        """Forget the team unused for longest, never the default one."""
        others = [k for k in self._known if k not in (key, ("", ""))]
        if key != ("", "") and len(others) >= MAX_TEAMS - 1:
            oldest = self._known.pop(min(others, key=lambda k: self._known[k].used))
            later = threading.Timer(CLOSE_AFTER_S, oldest.close)
            later.daemon = True
            later.start()
