"""`trinity ask`: one question, answered by the team, with every turn shown as it is spoken."""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import signal
import sys
from collections.abc import Sequence

from core.coordinator import check_question
from core.errors import ConfigError
from core.events import AttemptFailed, Decided, Event, Failed, Finished, TextDelta, TurnDone, VerdictGiven
from core.export import trace_to_dict
from core.settings import Settings, load_settings, prepare_folders
from core.team import Team
from core.terminal import one_line, plain
from core.types import Limits, Status, Trace


def command(argv: list[str]) -> int:
    """Run `trinity ask`. Exit code 0 with an answer, 1 without, 130 when stopped."""
    parser = argparse.ArgumentParser(prog="trinity ask", description="Ask the team one question.")
    add_options(parser)
    args = parser.parse_args(argv)
    question = check_question(read_question(args.question))
    settings = load_settings()
    prepare_folders(settings)
    trace = asyncio.run(_ask(settings, question, args))
    if args.json:
        print(json.dumps(trace_to_dict(trace)))
    else:
        _print_ending(trace)
    if trace.status is Status.STOPPED:
        return 130
    return 0 if trace.answer is not None and trace.status is not Status.FAILED else 1


def read_question(words: Sequence[str]) -> str:
    """The question from the command line, or from standard input when it is `-` or absent."""
    text = " ".join(words)
    return sys.stdin.read() if text in ("", "-") and not sys.stdin.isatty() else text


def add_options(parser: argparse.ArgumentParser) -> None:
    """The question and everything that says how it is answered; shared by `ask` and `route`."""
    parser.add_argument("question", nargs="*", help="the question; `-` or nothing reads standard input")
    parser.add_argument("--pool", default=None, help="a preset, a frozen pool, or a .yaml file")
    parser.add_argument("--checkpoint", default=None, help="a checkpoint by name or path")
    parser.add_argument("--max-turns", type=int, default=5, metavar="K", help="at most K turns (5)")
    parser.add_argument("--max-usd", type=float, default=None, metavar="USD", help="at most this much money (0.50)")
    parser.add_argument("--max-seconds", type=float, default=300.0, metavar="S", help="at most this long (300)")
    parser.add_argument("--exclude", action="append", default=[], metavar="AGENT", help="leave an agent out")
    parser.add_argument("--seed", type=int, default=0, help="settles ties and local agents' draws (0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")


def limits_of(args: argparse.Namespace, settings: Settings) -> Limits:
    """The limits asked for. Raises ConfigError when one makes no sense."""
    usd = settings.question_usd if args.max_usd is None else args.max_usd
    if args.seed < 0:
        raise ConfigError("--seed must not be negative.")
    try:
        return Limits(max_turns=args.max_turns, seconds=args.max_seconds, usd=usd)
    except ValueError as error:
        raise ConfigError(f"{error}.") from error


async def _ask(settings: Settings, question: str, args: argparse.Namespace) -> Trace:
    from core.store import open_store
    from core.team import load_team

    limits, stop = limits_of(args, settings), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
    store = await asyncio.to_thread(open_store, settings.url)
    team: Team = await asyncio.to_thread(load_team, settings, pool=args.pool, checkpoint=args.checkpoint, store=store)
    try:
        events = team.run(
            question,
            question_id=secrets.token_urlsafe(12),
            limits=limits,
            exclude=args.exclude,
            stop=stop,
            seed=args.seed,
        )
        printer = None if args.json else _Printer()
        async for event in events:
            if printer:
                printer.show(event)
            if isinstance(event, Finished | Failed):
                return event.trace
    finally:
        team.close()
    raise AssertionError("a run ends with Finished or Failed")


class _Printer:
    """Shows a run on a terminal."""

    def show(self, event: Event) -> None:
        """Print one event."""
        if isinstance(event, Decided):
            choice = event.decision
            share = choice.agent_probs[choice.agent] * choice.role_probs[choice.role]
            note = f", {choice.override.value.replace('_', ' ')}" if choice.override else ""
            print(f"\n── turn {event.index} · {choice.role} · {one_line(choice.agent)} ({share:.0%}{note})", flush=True)
        elif isinstance(event, TextDelta):
            print(plain(event.text), end="", flush=True)
        elif isinstance(event, AttemptFailed):
            print(f"\n   {one_line(event.attempt.agent)} failed: {one_line(event.attempt.error)}")
        elif isinstance(event, VerdictGiven):
            print(f"\n   {event.verdict}", end="")
        elif isinstance(event, TurnDone):
            print()


def _print_ending(trace: Trace) -> None:
    cost = "cost unknown" if trace.cost_usd is None else f"${trace.cost_usd:.4f}"
    print("\n══ answer\n" + (plain(trace.answer) if trace.answer is not None else "(none)"))
    ending = trace.status.value + (f", {one_line(trace.note)}" if trace.note else "")
    turns = "1 turn" if len(trace.turns) == 1 else f"{len(trace.turns)} turns"
    print(f"\n{ending}\n{turns} · {trace.elapsed_s:.1f} s · {trace.usage.total_tokens} tokens · {cost}"
          f" · head {one_line(trace.checkpoint)}")  # fmt: skip
