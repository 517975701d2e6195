"""What was spent, as data for the command line and the web app."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from core.store import Store


def spend_report(store: Store, *, since: float = 0.0) -> dict[str, Any]:
    """Everything the command and the web app show, as JSON data; money in USD, times in seconds since the epoch.

    Keys: `total`, `agents` and `runs` (lines as in core.store.spend.SpendLine), `in_doubt` (requests that may have
    been billed although no answer came), `cache` (replies kept, hits, USD saved).
    """
    book, kept = store.spend, store.replies.statistics()
    return {
        "since": since,
        "total": asdict(book.total(since)),
        "agents": [asdict(line) for line in book.by_agent(since)],
        "runs": [asdict(line) for line in book.by_run(since) if line.name],
        "in_doubt": [asdict(call) for call in book.doubtful()],
        "cache": {"kept": kept.kept, "hits": kept.hits, "saved_usd": kept.saved / 1e9},
    }
