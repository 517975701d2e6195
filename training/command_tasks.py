"""`trinity tasks list|show|sample|grade`: browse tasks and items, and grade a reply by hand."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from core.errors import ConfigError
from core.terminal import plain
from training.graders.base import MAX_REPLY_CHARS
from training.splits import sample
from training.tasks.base import Item, Task
from training.tasks.catalogue import OFFLINE, TASKS, find_item, open_task
from training.tasks.reasoning_gym import PREFIX, families, unusable_families


def command(argv: list[str]) -> int:
    """Entry point of `trinity tasks`. Returns 0; wrong use and missing data raise TrinityError."""
    parser = _parser()
    options = parser.parse_args(argv)
    result = _ACTIONS[options.action](options)
    if options.json:
        print(json.dumps(result, ensure_ascii=False))
    return 0


def _list(options: argparse.Namespace) -> dict[str, Any]:
    rows = [_described(open_task(name)) for name in TASKS]
    known = {name: kind for name, kind in families().items() if name not in unusable_families()}
    if not options.json:
        for row in rows:
            where = "ships with the program" if row["offline"] else "Hugging Face hub or --data FILE"
            note = "; report only" if row["report_only"] else ""
            _say(f"{row['name']:18} {row['title']}: {', '.join(row['splits'])}; {row['licence']}; {where}{note}")
        _say(f"\n{PREFIX}FAMILY with one of {len(known)} families:\n  {', '.join(sorted(known))}")
        for name, why in unusable_families().items():
            _say(f"  not {name}: {why}")
        _say(
            "\nfile:PATH          your own JSONL or CSV with question and answer (grader, domain, id, split: optional)"
        )
    return {"tasks": rows, "families": known, "unusable_families": dict(unusable_families())}


def _show(options: argparse.Namespace) -> dict[str, Any]:
    task = open_task(options.task, options.data)
    result: dict[str, Any] = _described(task)
    if options.item:
        item = find_item(task, options.item)
        result["item"] = _item(item, options.answers)
    else:
        counts = {split: len(task.items(split)) for split in task.splits}
        result["counts"] = counts
    if not options.json:
        source = task.source
        _say(
            f"{task.name}: {source.title}\nlicence: {source.licence}\nsource: {source.url}\nrevision: {source.revision}"
        )
        if options.item:
            _print_item(result["item"])
        else:
            _say("\n".join(f"{split}: {count} items" for split, count in result["counts"].items()))
    return result


def _sample(options: argparse.Namespace) -> dict[str, Any]:
    task = open_task(options.task, options.data)
    split = options.split or ("test" if "test" in task.splits else task.splits[0])
    items = task.items(split)
    try:
        chosen = sample(items, options.n, options.seed)
    except ValueError as error:
        raise ConfigError(f"{task.name}, {split}: {error}. Ask for fewer with --n.") from None
    rows = [_item(item, options.answers) for item in chosen]
    if not options.json:
        for row in rows:
            _print_item(row)
            _say()
    return {"task": task.name, "split": split, "seed": options.seed, "items": rows}


def _grade(options: argparse.Namespace) -> dict[str, Any]:
    task = open_task(options.task, options.data)
    item = find_item(task, options.item)
    # One character more than is read, so that the grader itself can say that the reply is too long.
    reply = sys.stdin.buffer.read(4 * (MAX_REPLY_CHARS + 1)).decode("utf-8", "replace")
    result = asdict(task.grade(item, reply))
    result["outcome"] = str(result["outcome"])
    if not options.json:
        reward = "not measured" if result["reward"] is None else result["reward"]
        _say(f"reward: {reward}\noutcome: {result['outcome']}")
        _say(f"committed: {result['committed']}\nreason: {result['reason']}")
    return {"task": task.name, "item": item.id, **result}


_ACTIONS: Mapping[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "list": _list,
    "show": _show,
    "sample": _sample,
    "grade": _grade,
}


def _say(text: str = "") -> None:
    """Print without what would act on the terminal: replies, questions and file contents are strangers' text."""
    print(plain(text))


def _described(task: Task) -> dict[str, Any]:
    offline = task.name in OFFLINE or task.name.startswith(PREFIX)
    return {"name": task.name, "splits": list(task.splits), "offline": offline, **asdict(task.source)}


def _item(item: Item, answers: bool) -> dict[str, Any]:
    return {**item.public(), **({"answer": item.answer} if answers else {})}


def _print_item(row: Mapping[str, Any]) -> None:
    _say(f"--- {row['id']} ({row['domain']})\n{row['question']}")
    if "answer" in row:
        _say(f"[answer] {row['answer']}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="trinity tasks", description="Browse tasks and grade replies.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|show|sample|grade")
    listing = actions.add_parser("list", help="all tasks, with licence and source")
    showing = actions.add_parser("show", help="one task's splits, or one item")
    sampling = actions.add_parser("sample", help="some items of a split, without repeats")
    grading = actions.add_parser("grade", help="grade the reply on standard input")
    for sub in (showing, sampling, grading):
        sub.add_argument("task", help="a name from `trinity tasks list`, reasoning_gym:FAMILY or file:PATH")
        sub.add_argument("--data", type=Path, metavar="FILE", help="a local file of the data set's fields")
    showing.add_argument("item", nargs="?", help="an item id")
    grading.add_argument("item", help="an item id")
    for sub in (showing, sampling):
        sub.add_argument("--answers", action="store_true", help="print the hidden answers too")
    sampling.add_argument("--split", help="default: test")
    sampling.add_argument("--n", type=int, default=5, help="how many (default 5)")
    sampling.add_argument("--seed", type=int, default=0, help="which draw (default 0)")
    for sub in (listing, showing, sampling, grading):
        sub.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """For `python -m training.command_tasks`."""
    return command(list(sys.argv[1:] if argv is None else argv))


if __name__ == "__main__":
    sys.exit(main())
