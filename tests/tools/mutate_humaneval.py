"""One wrong operator in each HumanEval reference solution: does the grader see what the tests can see?

    python tests/tools/mutate_humaneval.py [--limit N]

What the tests can see is measured apart from the grader: solution and tests run together in one sandbox, and the exit
status tells. A mutant that fails there must get reward 0 from the grader; one that survives there is equivalent, or
not covered by the tests.
"""

from __future__ import annotations

import argparse
import ast
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from core.sandbox import open_sandbox
from core.sandbox.outcome import Outcome, SandboxLimits
from training.tasks.base import Item
from training.tasks.humaneval import HumanEval

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True)
class Result:
    """One mutant: seen by the tests run plainly, and the reward the grader gave."""

    item: str
    visible: bool
    reward: int | None


def mutate(source: str, entry_point: str, seed: str) -> str | None:
    """`source` with one operator of the entry point swapped, or None when it has none."""
    tree = ast.parse(source)
    places = [
        (node, field)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and function.name == entry_point
        for node in ast.walk(function)
        for field in ("op", "ops")
        if _swappable(node, field)
    ]
    if not places:
        return None
    node, field = random.Random(seed).choice(places)
    if field == "op":
        node.op = SWAPS[type(node.op)]()
    else:
        node.ops[0] = SWAPS[type(node.ops[0])]()
    return ast.unparse(tree)


def _swappable(node: ast.AST, field: str) -> bool:
    if field == "ops":
        return isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS
    return isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp) and type(node.op) in SWAPS


def judge(task: HumanEval, item: Item) -> Result | None:
    """Mutate one item's solution and grade it both ways; None when it has no operator."""
    name = item.metadata["entry_point"]
    mutant = mutate(item.answer, name, item.id)
    if mutant is None:
        return None
    whole = f"{item.hidden['prompt']}\n{mutant}\n{item.hidden['test']}\ncheck({name})\n"
    plain = open_sandbox().run(whole, "", SandboxLimits(wall_s=10.0))
    grade = task.grade(item, f"```python\n{mutant}\n```")
    return Result(item.id, plain.outcome is not Outcome.PASSED, grade.reward)


def judge_all(limit: int | None = None) -> list[Result]:
    """All mutants, two at a time."""
    task = HumanEval()
    items = task.all_items()[:limit]
    with ThreadPoolExecutor(2) as threads:
        return [result for result in threads.map(lambda item: judge(task, item), items) if result]


def main() -> None:
    """Print the counts, and every mutant on which the two ways differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int)
    results = judge_all(parser.parse_args().limit)
    seen = [result for result in results if result.visible]
    caught = sum(result.reward == 0 for result in seen)
    print(f"{len(results)} mutants; the tests can see {len(seen)}; of these the grader fails {caught}")
    print(f"survivors: {', '.join(r.item for r in results if not r.visible)}")
    for result in results:
        if (result.reward == 0) != result.visible:
            print(f"differs: {result}")


if __name__ == "__main__":
    main()
