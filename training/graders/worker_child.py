"""The program inside a grading worker: one JSON request a line in, one JSON answer a line out.

Run as a file of its own (`python worker_child.py KIND`), so it imports nothing of this project. Libraries that may
hang, print or leak live here: math-verify, reasoning-gym, and `re` on patterns written by users. The parent kills
the process at its deadline; an alarm signal is the second line of defence when the parent itself has died.
"""

from __future__ import annotations

import ast
import copy
import json
import os
import re
import resource
import signal
import sys
import warnings
from typing import Any

MEMORY_BYTES = 3 << 30
MAX_LITERAL_DEPTH = 6
_DATASETS: dict[str, Any] = {}
_ENTRIES: dict[str, Any] = {}

# reasoning-gym 0.1.25 calls eval() on the reply in these scorers; only literals may pass.
EVALUATED = {"string_insertion", "spiral_matrix", "binary_matrix", "n_queens"}
# … and sympy's parse_expr, which evaluates Python, in these; only plain formulas may pass.
PARSED = {"simple_integration", "intermediate_integration", "polynomial_multiplication", "puzzle24", "countdown"}
FUNCTIONS = {
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "log", "ln", "sqrt", "Abs"),
    *("sec", "csc", "cot", "pi", "Integral"),
}


def math_equal(job: dict[str, Any]) -> dict[str, Any]:
    """Does math-verify find the committed text equal to the reference? Both are LaTeX without delimiters."""
    from math_verify import parse, verify
    from math_verify.parser import ExprExtractionConfig, LatexExtractionConfig

    configs = [LatexExtractionConfig(), ExprExtractionConfig()]
    gold = parse(f"${job['gold']}$", configs, parsing_timeout=None)
    said = parse(f"\\boxed{{{job['said']}}}", configs, parsing_timeout=None)
    return {"equal": bool(verify(gold, said, timeout_seconds=None)), "read": bool(said)}


def pattern_match(job: dict[str, Any]) -> dict[str, Any]:
    """Does a user's regular expression match the whole committed text?"""
    return {"match": re.fullmatch(job["pattern"], job["text"]) is not None}


def gym_items(job: dict[str, Any]) -> dict[str, Any]:
    """Generate items `start` … `stop`-1 of one family."""
    data = _dataset(job)
    entries = (data[index] for index in range(job["start"], job["stop"]))
    return {"items": [{"question": entry["question"], "answer": entry["answer"]} for entry in entries]}


def gym_score(job: dict[str, Any]) -> dict[str, Any]:
    """The family's own score of one reply. A scorer that raises on a reply has refused it."""
    data, entry = _dataset(job), _entry(job)
    reply = job["reply"]
    if (refusal := unsafe(job["family"], reply)) and reply != entry["answer"]:
        return {"score": 0.0, "refused": refusal}
    try:
        return {"score": float(data.score_answer(reply, entry))}
    except MemoryError:
        raise
    except Exception as error:
        return {"score": 0.0, "refused": f"the scorer rejects it ({type(error).__name__})"}


def unsafe(family: str, reply: str) -> str | None:
    """Why a reply may not reach a scorer that evaluates it, or None."""
    if family in EVALUATED and not is_literal(reply):
        # Boards and strings of these families use few signs, none of which names anything in the scorers' scope.
        return None if re.fullmatch(r"[\d\sA-EQ_]*", reply) else "it is not a plain list"
    if family in PARSED and not is_formula(reply):
        return "it is not a plain formula"
    return None


def is_literal(text: str) -> bool:
    """True for lists, numbers and strings, nested at most `MAX_LITERAL_DEPTH` deep."""
    if len(text) > 20_000 or text.count("[") + text.count("(") > 400 or "**" in text:
        return False
    try:
        return _depth(ast.literal_eval(text.strip())) <= MAX_LITERAL_DEPTH
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False


def is_formula(text: str) -> bool:
    """True for numbers, single-letter names, known functions, + - * / ** and brackets; small numbers only."""
    if len(text) > 2_000 or not re.fullmatch(r"[\w\s+\-*/().,^=]*", text) or "_" in text:
        return False
    warnings.simplefilter("ignore", SyntaxWarning)  # "invalid decimal literal": it is refused below
    try:
        tree = ast.parse(text.strip().replace("^", "**").removeprefix("="), mode="eval")
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False
    return all(_allowed(node) for node in ast.walk(tree))


def _allowed(node: ast.AST) -> bool:
    if isinstance(node, ast.Name):
        return len(node.id) == 1 or node.id in FUNCTIONS
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):  # 9**9**9**9 would run until it is killed
        return not any(isinstance(part, ast.Pow | ast.Call) for part in ast.walk(node.right)) and _small(node.right)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and abs(node.value) < 1e12
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS and not node.keywords
    kinds = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.USub, ast.UAdd)
    return isinstance(node, (*kinds, ast.Load))


def _small(node: ast.AST) -> bool:
    numbers = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
    return all(isinstance(n, int | float) and abs(n) <= 1_000 for n in numbers)


def _depth(value: Any) -> int:
    return 1 + max((_depth(part) for part in value), default=0) if isinstance(value, list | tuple | set) else 0


def _dataset(job: dict[str, Any]) -> Any:
    import reasoning_gym

    name = json.dumps([job["family"], job["seed"], job["config"]], sort_keys=True)
    if name not in _DATASETS:
        if len(_DATASETS) >= 16:
            _DATASETS.clear()
        size = 10_000  # the virtual size; items are generated one by one, and word_ladder allows 20,000
        _DATASETS[name] = reasoning_gym.create_dataset(job["family"], seed=job["seed"], size=size, **job["config"])
    return _DATASETS[name]


def _entry(job: dict[str, Any]) -> Any:
    """The item to be scored, made once and copied for each reply: scorers get their own to change."""
    name = json.dumps([job["family"], job["seed"], job["config"], job["index"]], sort_keys=True)
    if name not in _ENTRIES:
        if len(_ENTRIES) >= 512:
            _ENTRIES.clear()
        _ENTRIES[name] = _dataset(job)[job["index"]]
    return copy.deepcopy(_ENTRIES[name])


def gym_families(_: dict[str, Any]) -> dict[str, Any]:
    """Names of all registered families with their category, and the library's version."""
    from importlib.metadata import version

    from reasoning_gym.factory import DATASETS

    found = {name: kind.__module__.split(".")[1] for name, (kind, _) in DATASETS.items()}
    return {"families": found, "version": version("reasoning-gym")}


JOBS = {
    "math_equal": math_equal,
    "pattern_match": pattern_match,
    "gym_items": gym_items,
    "gym_score": gym_score,
    "gym_families": gym_families,
}
IMPORTS = {"math": "math_verify", "gym": "reasoning_gym", "pattern": "re"}


def answer(line: bytes) -> dict[str, Any]:
    """Do one request; every failure becomes an `error` word the parent understands."""
    try:
        job = json.loads(line)
        signal.alarm(int(job["seconds"]) + 5)
        return JOBS[job["do"]](job)
    except MemoryError:
        return {"error": "memory"}
    except RecursionError:
        return {"error": "recursion"}
    except Exception as error:  # the boundary of the process: the parent decides what a failure means
        return {"error": "raised", "detail": f"{type(error).__name__}: {str(error)[:300]}"}
    finally:
        signal.alarm(0)


def main() -> None:
    """Import the library, say ready, serve until the parent closes the pipe. Stray prints go nowhere."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    channel = os.fdopen(os.dup(1), "wb", buffering=0)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    __import__(IMPORTS[sys.argv[1]])
    channel.write(b'{"ready": true}\n')
    for line in sys.stdin.buffer:
        reply = json.dumps(answer(line), ensure_ascii=True).encode()
        channel.write(reply + b"\n")


if __name__ == "__main__":
    main()
