"""`trinity spend`: what was spent on whom, and what is in doubt."""

from __future__ import annotations

import argparse
import json
import time
from datetime import UTC, datetime
from typing import Any

from core.calls.report import spend_report
from core.settings import load_settings, prepare_folders
from core.store import open_store
from core.store.spend import SpendLine
from core.terminal import one_line


def command(argv: list[str]) -> int:
    """Run `trinity spend`."""
    parser = argparse.ArgumentParser(prog="trinity spend", description="What calls to agents have cost.")
    parser.add_argument("--days", type=_days, default=None, help="only the last N days (default: everything)")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    args = parser.parse_args(argv)
    settings = load_settings()
    prepare_folders(settings)
    with open_store(settings.url) as store:
        store.ledger.recover()
        since = 0.0 if args.days is None else time.time() - args.days * 86_400
        report = spend_report(store, since=since)
    print(json.dumps(report) if args.json else as_text(report))
    return 0


def as_text(report: dict[str, Any]) -> str:
    """The report as a table for a terminal."""
    lines = [f"{'agent':<28}{'calls':>8}{'failed':>8}{'in doubt':>10}{'tokens in':>12}{'out':>10}{'USD':>12}"]
    lines += [_row(SpendLine(**line)) for line in report["agents"]]
    lines.append(_row(SpendLine(**{**report["total"], "name": "together"})))
    if report["total"]["unreported"]:
        lines.append(f"{report['total']['unreported']} answers came without usage: counted at their worst case.")
    for call in report["in_doubt"][:20]:
        when = datetime.fromtimestamp(call["created"], UTC).strftime("%Y-%m-%d %H:%M")
        who = one_line(f"{call['agent']} ({call['model']})")
        what = "may have been billed" if call["state"] == "in_doubt" else "is under way"
        lines.append(f"in doubt: {when} UTC  {who}  up to ${call['usd']:.4f}; it {what}")
    cache = report["cache"]
    lines.append(f"remembered replies: {cache['kept']}, used {cache['hits']} times, saved ${cache['saved_usd']:.4f}")
    return "\n".join(lines)


def _row(line: SpendLine) -> str:
    return (
        f"{one_line(line.name):<28}{line.calls:>8,}{line.failed:>8,}{line.in_doubt:>10,}"
        f"{line.prompt_tokens:>12,}{line.completion_tokens:>10,}{line.usd:>12.4f}"
    )


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if not 0 < days <= 36_500:
        raise argparse.ArgumentTypeError("must be a number of days above 0")
    return days
