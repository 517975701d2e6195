"""The database: conversations, questions, turns, shares, feedback, checkpoints, pools, and the ledger of calls.

`open_store(url)` brings the schema up to date and returns a `Store`. Everything is synchronous: call it through
`asyncio.to_thread` from the event loop. SQLite by default, PostgreSQL by URL.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

from core.store.canary_book import CanaryBook
from core.store.checkpoints import Checkpoints
from core.store.conversations import Conversations
from core.store.database import Database, connect
from core.store.feedback import FeedbackBook
from core.store.ledger import Ledger
from core.store.owners import new_id, new_token, owner_hash
from core.store.pools import Pools
from core.store.questions import Questions
from core.store.replies import Replies
from core.store.schema import upgrade
from core.store.shares import Shares
from core.store.spend import SpendBook

__all__ = ["Store", "new_id", "new_token", "open_store", "owner_hash"]


@dataclass(frozen=True, slots=True)
class Store:
    """One open database. Made by `open_store`; safe to use from several threads."""

    database: Database
    revision: str
    conversations: Conversations
    questions: Questions
    shares: Shares
    feedback: FeedbackBook
    checkpoints: Checkpoints
    pools: Pools
    ledger: Ledger
    replies: Replies
    spend: SpendBook
    canary: CanaryBook

    @property
    def label(self) -> str:
        """Which database this is, without a password."""
        return self.database.label

    def close(self) -> None:
        """Write what the ledger still holds and close every connection."""
        self.ledger.flush()
        self.database.engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_store(url: str) -> Store:
    """Open the database at a SQLAlchemy URL, upgrading it when it is older than this program.

    A SQLite file is copied beside itself before it is upgraded. Raises ConfigError when the URL is wrong, StoreError
    when the database is unreachable, read-only, damaged, or newer than this program.
    """
    database = connect(url)
    try:
        revision = upgrade(database)
        with database.writing() as session:
            session.connection()  # begins to write: a read-only file is noticed now, not when a question is lost
    except BaseException:
        database.engine.dispose()
        raise
    return Store(
        database,
        revision,
        Conversations(database),
        Questions(database),
        Shares(database),
        FeedbackBook(database),
        Checkpoints(database),
        Pools(database),
        Ledger(database),
        Replies(database),
        SpendBook(database),
        CanaryBook(database),
    )
