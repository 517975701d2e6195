"""The child process: one JSON request a line on stdin, one JSON reply a line on stdout. It holds no secret.

It limits itself before sympy is imported: memory, no files, no core dumps, and an alarm that ends it if a single
task outlives the parent's own limit. The parent kills it at will and starts another.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

MEMORY_BYTES = 1 << 30
ALARM_S = 8.0  # above the parent's limit; it counts when the parent is gone


def main() -> None:
    """Serve until stdin ends."""
    _limit()
    import sympy  # noqa: F401  # the slow import, before the first task's clock starts

    out = sys.stdout.buffer
    out.write(b'{"ready": true}\n')
    out.flush()
    for line in sys.stdin.buffer:
        signal.setitimer(signal.ITIMER_REAL, ALARM_S)
        out.write(json.dumps(serve(json.loads(line))).encode() + b"\n")
        out.flush()
        signal.setitimer(signal.ITIMER_REAL, 0)


def _limit() -> None:
    import resource

    for what, limit in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 64),
    ):
        try:
            resource.setrlimit(what, (limit, limit))
        except (ValueError, OSError):  # macOS refuses some; the parent's clock still holds
            continue
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    sys.setrecursionlimit(4_000)
    sys.set_int_max_str_digits(20_000)


def serve(request: dict[str, Any]) -> dict[str, Any]:
    """The reply to one request: `text` and, when claims came along, what they are worth."""
    from core.agents.exact.guarded import TooLarge, Undefined
    from core.agents.exact.judging import judge
    from core.agents.exact.solver import solve_task

    try:
        result = solve_task(request["kind"], request["trees"], request["words"])
        reply = {"outcome": "done", "text": result.text, "own_sentence": result.truth is not None}
        return reply | judge(result, request["claims"], request["trees"]) if "claims" in request else reply
    except TooLarge as error:
        return {"outcome": "too_large", "digits": error.digits}
    except Undefined as error:
        return {"outcome": "undefined", "text": str(error)}
    except MemoryError:
        return {"outcome": "memory"}
    except Exception as error:  # sympy raises many kinds for what it cannot do
        return {"outcome": "cannot", "text": f"{type(error).__name__}: {error}"[:300]}
