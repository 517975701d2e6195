"""Whether the values an answer commits to are the right ones. Runs in the child process only."""

from __future__ import annotations

from typing import Any

from core.agents.exact.grammar import Tree, show
from core.agents.exact.guarded import build
from core.agents.exact.solver import Result


def judge(result: Result, claims: dict[str, Any], asked: list[Tree]) -> dict[str, Any]:
    """`right` true or false, or null when the answer commits to nothing that can be compared.

    `claims` holds `truth` (bool or null) and `values`: name -> list of trees. `asked` are the trees of
    the question: to repeat one of them is no answer.
    """
    if result.truth is not None:
        truth = claims.get("truth")
        return {"right": None if truth is None else truth == result.truth}
    if not result.values:  # "no solution", "every value": the words were compared by the parent
        return {"right": claims.get("phrase") == result.text}
    claimed = _by_name(result, claims.get("values", {}))
    if claimed is None:
        return {"right": None}
    matches = [_same(result, result.values[name], claimed[name], asked) for name in result.values]
    return {"right": all(matches)}


def _by_name(result: Result, values: dict[str, list[Tree]]) -> dict[str, list[Tree]] | None:
    """The claims under the result's names; an unnamed list serves when there is one name only."""
    if set(result.values) <= set(values):
        return {name: values[name] for name in result.values}
    if len(result.values) == 1 and values.get(""):
        return dict.fromkeys(result.values, values[""])
    return None


def _same(result: Result, expected: list[Any], claimed: list[Tree], asked: list[Tree]) -> bool:
    """Both ways: every right value is claimed in a finished form, and nothing else is claimed."""
    built = [(tree, build(tree)) for tree in claimed]
    return all(
        any(_finished(want, result, tree, asked) and _equal(result, want, tree, claim) for tree, claim in built)
        for want in expected
    ) and all(any(_equal(result, want, *one) for want in expected) for one in built)


def _finished(want: Any, result: Result, tree: Tree, asked: list[Tree]) -> bool:
    """True unless the claim leaves the work to the reader: `17*23 + 4`, or the question once more."""
    if want.is_Rational:
        parts = tree[1:] if tree[0] in ("neg", "/") else [tree]
        return all(part[0] == "num" or (part[0] == "neg" and part[1][0] == "num") for part in parts) and (
            tree not in asked or tree[0] in ("num", "neg")
        )
    return tree not in asked or result.text.startswith(show(tree))


def _equal(result: Result, want: Any, tree: Tree, claim: Any) -> bool:
    import sympy

    if result.product and tree[0] in ("+", "-"):
        return False  # asked to factorise, and answered with a sum
    if result.family:
        name = sympy.Symbol(result.family)
        return bool(sympy.simplify(sympy.diff(want - claim, name)) == 0)
    if want == claim or _rounded(want, tree, claim):
        return True
    if want.is_infinite or claim.is_infinite:
        return False
    return bool(sympy.simplify(want - claim) == 0)


def _rounded(want: Any, tree: Tree, claim: Any) -> bool:
    """True for a decimal that is the right value rounded to the places it shows (two at least, or 1 % off at most)."""
    import sympy

    text = tree[1] if tree[0] == "num" else tree[1][1] if tree[0] == "neg" and tree[1][0] == "num" else ""
    if "." not in text or not want.is_real or want.is_Integer:
        return False
    places = len(text.partition(".")[2])
    off = abs(sympy.N(want, 40) - claim)
    return bool(off <= sympy.Rational(501, 1000) / 10**places and off * 100 <= abs(want))
