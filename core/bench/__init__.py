"""`trinity bench NAME`: measurements that anyone can repeat, each ending with one JSON object."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

# name -> "module:function"; the function takes parsed arguments and returns the JSON object's fields.
BENCHES: dict[str, str] = {
    "calls": "core.bench.calls:measure",
    "decision": "core.bench.decision:measure",
    "population": "core.bench.population:measure",
    "sandbox": "core.bench.sandbox:measure",
    "verifier": "core.bench.verifier:measure",
}


def parser() -> argparse.ArgumentParser:
    """The arguments that every bench takes."""
    made = argparse.ArgumentParser(prog="trinity bench", description="Measure, and print one JSON object.")
    made.add_argument("name", choices=sorted(BENCHES))
    made.add_argument("--backbone", default="", help="embedded, shape:qwen3-0.6b, a Hugging Face id or a folder")
    made.add_argument("--quick", action="store_true", help="bfloat16, one repetition, under 90 seconds")
    made.add_argument("--json", action="store_true", help="print the JSON object alone")
    made.add_argument("--repetitions", type=int, default=0, help="default 3; 1 with --quick")
    made.add_argument("--seed", type=int, default=0)
    return made


def command(argv: list[str]) -> int:
    """`trinity bench decision|population|…`."""
    args = parser().parse_args(argv)
    module, _, function = BENCHES[args.name].partition(":")
    measure: Callable[[argparse.Namespace], dict[str, Any]] = getattr(import_module(module), function)
    result = measure(args)
    if not args.json:
        for key, value in result.items():
            print(f"{key:>20}  {value}")
    print(json.dumps({"bench": args.name, **result}))
    return 0
