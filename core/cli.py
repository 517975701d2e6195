"""The `trinity` command: finds a command by name and turns errors into one clear line and an exit code.

Commands register in the entry-point group `trinity.commands` (core, webapp and training each name theirs in
pyproject.toml), so that core never imports the others. Exit codes: 0 done, 1 failed, 2 configuration or usage,
130 stopped by the user.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points

from core.errors import ConfigError, TrinityError

GROUP = "trinity.commands"

# What `trinity` prints about each command; one it does not know is still listed, without a line.
ABOUT = {
    "serve": "start the web app",
    "ask": "answer one question with the team",
    "route": "show what the coordinator would choose, without calling anyone",
    "doctor": "check backbone, pool, keys, database and sandbox",
    "backbone": "install or show the coordinator model",
    "pool": "list and show pools, freeze `auto`",
    "checkpoints": "list, show, import, export and verify heads",
    "tasks": "browse benchmark items and grade replies",
    "bench": "measure speed and quality",
    "spend": "what was spent, by agent and day",
    "canary": "ask each model a small probe set and report what moved",
    "fit-embedded": "fit the shipped head of the embedded pool on generated prompts",
}


def commands() -> dict[str, Callable[[list[str]], int]]:
    """Every registered command by name; the value loads its module when called."""

    def runner(point: object) -> Callable[[list[str]], int]:
        return lambda argv: int(point.load()(argv) or 0)  # type: ignore[attr-defined]

    return {point.name: runner(point) for point in sorted(entry_points(group=GROUP), key=lambda p: p.name)}


def usage() -> str:
    """The text of `trinity --help`."""
    lines = [f"  {name:<14}{ABOUT.get(name, '')}".rstrip() for name in sorted(commands())]
    return "usage: trinity COMMAND [options]\n\n" + "\n".join(lines) + "\n\n`trinity COMMAND --help` tells more.\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the console script's entry."""
    args = list(sys.argv[1:] if argv is None else argv)
    if not args or args[0] in ("-h", "--help", "help"):
        print(usage(), end="")
        return 0 if args else 2
    known = commands()
    if args[0] not in known:
        print(f"trinity: there is no command {args[0]!r}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    from core.runtime import prepare_environment

    prepare_environment()
    try:
        code = known[args[0]](args[1:])
        sys.stdout.flush()
        return code
    except TrinityError as error:
        from core.runtime import without_secrets
        from core.terminal import one_line

        print(f"trinity {args[0]}: {one_line(without_secrets(str(error)))}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `trinity … | head`: whoever read has enough; nothing more may be flushed at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


if __name__ == "__main__":
    sys.exit(main())
