"""What was spent: sums over the ledger, for the command line and the pool page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, func, select

from core.store.database import Database
from core.store.ledger_tables import CallRow


@dataclass(frozen=True, slots=True)
class SpendLine:
    """Requests of one agent (or of one day, question or run) and what they cost.

    `usd` is what counts as spent: known costs, and the worst case of what is in doubt or was not reported. `in_doubt`
    counts requests that may have been billed; `unreported` answered ones whose provider told no usage.
    """

    name: str
    calls: int
    settled: int
    failed: int
    in_doubt: int
    unreported: int
    prompt_tokens: int
    completion_tokens: int
    usd: float
    usd_in_doubt: float


@dataclass(frozen=True, slots=True)
class DoubtfulCall:
    """A request that may have been billed although its answer never arrived."""

    id: str
    agent: str
    model: str
    question: str
    created: float
    usd: float
    state: str


class SpendBook:
    """Reads the ledger."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def total(self, since: float = 0.0) -> SpendLine:
        """Everything from `since` (seconds since the epoch) on."""
        return self._lines(None, since)[0]

    def by_agent(self, since: float = 0.0) -> tuple[SpendLine, ...]:
        """One line for each agent, dearest first."""
        return self._lines(CallRow.agent, since)

    def by_run(self, since: float = 0.0) -> tuple[SpendLine, ...]:
        """One line for each training run, dearest first; calls outside of runs have the name ''."""
        return self._lines(CallRow.run, since)

    def of_question(self, question: str) -> SpendLine:
        """What one question cost."""
        return self._lines(None, 0.0, CallRow.question == question)[0]

    def doubtful(self, limit: int = 100) -> tuple[DoubtfulCall, ...]:
        """Requests in doubt, newest first; those still open are listed as `reserved`."""
        row = CallRow
        wanted = select(row).where(row.state.in_(("in_doubt", "reserved"))).order_by(row.created.desc()).limit(limit)
        with self._db.reading() as session:
            return tuple(
                DoubtfulCall(r.id, r.agent, r.model, r.question, r.created, r.charged / 1e9, r.state)
                for r in session.scalars(wanted)
            )

    def _lines(self, group: Any, since: float, condition: ColumnElement[bool] | None = None) -> tuple[SpendLine, ...]:
        row = CallRow
        doubtful = row.state.in_(("in_doubt", "reserved"))
        columns: dict[str, Any] = {
            "calls": func.count(),
            "settled": func.count().filter(row.state == "settled"),
            "failed": func.count().filter(row.state == "failed"),
            "in_doubt": func.count().filter(doubtful),
            "unreported": func.count().filter(row.state == "settled", row.cost.is_(None)),
            "prompt_tokens": func.coalesce(func.sum(row.prompt_tokens), 0),
            "completion_tokens": func.coalesce(func.sum(row.completion_tokens), 0),
            "charged": func.coalesce(func.sum(row.charged), 0),
            "doubt": func.coalesce(func.sum(row.charged).filter(doubtful), 0),
        }
        query = select(*([group] if group is not None else []), *columns.values()).where(row.created >= since)
        if condition is not None:
            query = query.where(condition)
        if group is not None:
            query = query.group_by(group).order_by(columns["charged"].desc(), group)
        with self._db.reading() as session:
            found = session.execute(query).all()
        return tuple(_line(["" if group is None else r[0], *r[(0 if group is None else 1) :]], columns) for r in found)


def _line(values: list[Any], columns: Mapping[str, Any]) -> SpendLine:
    name, *numbers = values
    named = dict(zip(columns, map(int, numbers), strict=True))
    charged, doubt = named.pop("charged"), named.pop("doubt")
    return SpendLine(name=name, **named, usd=charged / 1e9, usd_in_doubt=doubt / 1e9)
