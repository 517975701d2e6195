"""What can be asked: the Task, and one builder per kind of question, from a pattern's match to a Task.

A builder raises NotAFormula when the match is not mathematics after all; the next pattern is tried then.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from core.agents.exact.grammar import NotAFormula, Tree, has_number, parse, show, size, variables
from core.agents.exact.spelling import from_words


@dataclass(frozen=True)
class Task:
    """What to compute. `kind` names a function of the child process; `shown` is the left side of the statement."""

    kind: str
    trees: tuple[Tree, ...]
    words: tuple[str, ...] = ()
    shown: str = ""

    def as_json(self) -> dict[str, object]:
        """The form in which it crosses to the child."""
        return {"kind": self.kind, "trees": list(self.trees), "words": list(self.words)}


Build: TypeAlias = Callable[["re.Match[str]"], Task]


def _formula(text: str) -> Tree:
    return parse(from_words(text))


def _one_variable(*trees: Tree) -> str:
    names = {name for tree in trees for name in variables(tree)}
    if len(names) > 1:
        return "x" if "x" in names else min(names)
    return next(iter(names), "x")


def _number(text: str) -> Tree:
    tree = _formula(text)
    if variables(tree):
        raise NotAFormula("a number is wanted")
    return tree


def _list(text: str) -> list[str]:
    return [part for part in re.split(r"\s*(?:,\s*and\s+|,|;|\band\b|和|与)\s*", text.strip("() ")) if part]


def value(match: re.Match[str]) -> Task:
    """A bare formula, when there is something to compute."""
    tree = _formula(match["e"])
    if variables(tree):
        if re.search(r"\b[aA]\b(?! ?[-+*/^=)])", match["e"]):
            raise NotAFormula("an article")
        if not (has_number(tree) and size(tree) >= 2) or not re.search(r"[a-z]", match["e"]):
            raise NotAFormula("not a sum")
        return Task("simplify", (tree,), (), show(tree))
    if size(tree) == 0 or not has_number(tree) or (tree[0] == "neg" and size(tree) == 1):
        raise NotAFormula("nothing to compute")
    return Task("value", (tree,), (), show(tree))


def call(name: str, least: int = 2) -> Build:
    """A function of a list: `gcd of 12 and 18`."""

    def build(match: re.Match[str]) -> Task:
        parts = _list(match["l"])
        if len(parts) < least:
            raise NotAFormula("too few numbers")
        tree = ["call", name, *(_number(part) for part in parts)]
        return Task("value", (tree,), (), show(tree))

    return build


def fold(sign: str, reverse: bool = False) -> Build:
    """An operation over a list: `sum of 3, 4 and 5`."""

    def build(match: re.Match[str]) -> Task:
        parts = [_number(part) for part in _list(match["l"])]
        if len(parts) < 2 or (reverse and len(parts) != 2):
            raise NotAFormula("too few numbers")
        tree = parts[0]
        for part in parts[1:]:
            tree = [sign, tree, part]
        return Task("value", (tree,), (), show(tree))

    return build


def wrap(template: str) -> Build:
    """A task whose formula is the match's groups put into `template`."""

    def build(match: re.Match[str]) -> Task:
        tree = _number(template.format(*(f"({_words(group)})" for group in match.groups())))
        return Task("value", (tree,), (), show(tree))

    return build


def _words(text: str) -> str:
    return from_words(text).strip()


def derivative(match: re.Match[str]) -> Task:
    """Derivatives of any order, also at a point."""
    found = match.groupdict()
    text, order = found["e"], (found.get("order") or "first").lower()
    times = {"first": 1, "second": 2, "third": 3, "fourth": 4}.get(order) or int(re.sub(r"\D", "", order) or 1)
    tree = _formula(_right_side(text))
    name = found.get("v") or _one_variable(tree)
    at = (_number(found["at"]),) if found.get("at") else ()
    mark = "d" if times == 1 else f"d^{times}"
    shown = f"{mark}/d{name if times == 1 else f'{name}^{times}'} ({show(tree)})"
    return Task("derivative", (tree, *at), (name, str(times)), shown + (f" at {name} = {show(at[0])}" if at else ""))


def _right_side(text: str) -> str:
    """`y = x^2` and `f(x) = x^2` as `x^2`."""
    return re.sub(r"^\s*(?:[a-z]\s*\(\s*[a-z]\s*\)|y)\s*=\s*", "", text, flags=re.IGNORECASE)


def integral(match: re.Match[str]) -> Task:
    """Definite and indefinite integrals."""
    found = match.groupdict()
    name = found.get("v") or ""
    tree = _formula(_right_side(found["e"]))
    name = name or _one_variable(tree)
    bounds = tuple(_number(found[key]) for key in ("a", "b") if found.get(key))
    if len(bounds) == 1:
        raise NotAFormula("one bound is missing")
    where = f" from {show(bounds[0])} to {show(bounds[1])}" if bounds else ""
    return Task("integral", (tree, *bounds), (name,), f"integral of {show(tree)} d{name}{where}")


def limit(match: re.Match[str]) -> Task:
    """Limits at a point or at infinity, from one side or both."""
    found = match.groupdict()
    tree, point, name = _formula(found["e"]), _formula(_infinity(found["a"])), found["v"]
    side = (found.get("side") or "").lower()
    direction = "+" if side in ("right", "above", "+", "右") else "-" if side in ("left", "below", "-", "左") else "+-"
    return Task("limit", (tree, point), (name, direction), f"limit of {show(tree)} as {name} -> {show(point)}")


def _infinity(text: str) -> str:
    return re.sub(
        r"\b(?:positive )?infinity\b|正?无穷(?:大)?", "oo", text.replace("负无穷", "-oo"), flags=re.IGNORECASE
    )


def series(match: re.Match[str]) -> Task:
    """Taylor series about a point."""
    found = match.groupdict()
    tree = _formula(_right_side(found["e"]))
    name = found.get("v") or _one_variable(tree)
    point = _number(found["a"]) if found.get("a") else ["num", "0"]
    order = int(found.get("n") or 5)
    if not 1 <= order <= 20:
        raise NotAFormula("order out of range")
    return Task("series", (tree, point), (name, str(order)), f"series of {show(tree)} at {name} = {show(point)}")


def total(kind: str) -> Build:
    """Sums and products over an index; `kind` is `sum` or `product`."""

    def build(match: re.Match[str]) -> Task:
        found = match.groupdict()
        trees = (_formula(found["e"]), _number(found["a"]), _formula(_infinity(found["b"])))
        shown = f"{kind} of {show(trees[0])} for {found['v']} = {show(trees[1])} to {show(trees[2])}"
        return Task(kind, trees, (found["v"],), shown)

    return build


def first(term: str, start: str = "1", end: str = "({0})") -> Build:
    """`sum of the first n …`: the n-th term is `term`."""

    def build(match: re.Match[str]) -> Task:
        count = _words(match["n"])
        trees = (parse(term), parse(start), _number(end.format(count)))
        return Task("sum", trees, ("k",), f"sum of {term} for k = {start} to {show(trees[2])}")

    return build


def run_of(match: re.Match[str]) -> Task:
    """`sum of the integers from a to b`."""
    trees = (["var", "k"], _number(match["a"]), _number(match["b"]))
    return Task("sum", trees, ("k",), f"sum of the integers from {show(trees[1])} to {show(trees[2])}")


def equations(match: re.Match[str]) -> Task:
    """One or several equations, with or without the names to solve for."""
    found = match.groupdict()
    parts = [part for part in re.split(r"\s*(?:,|;|\band\b|和)\s*", found["e"].strip(" ()")) if part]
    names = re.findall(r"\b(?:theta|alpha|beta|lambda|[a-z])\b", found.get("v") or "")
    trees: list[Tree] = []
    for part in parts:
        if part.count("=") != 1 or re.search("[<>!]", part):
            raise NotAFormula("an equation has one equals sign")
        left, right = part.split("=")
        trees += [_formula(left), _formula(right)]
    unknown = sorted({name for tree in trees for name in variables(tree)})
    if not unknown or not any(map(has_number, trees)) or (not names and len(unknown) > len(parts)):
        raise NotAFormula("nothing to solve for")
    if any(_periodic(tree) for tree in trees):
        raise NotAFormula("infinitely many solutions")
    if any(name not in unknown for name in names):
        raise NotAFormula("solved for a name that does not occur")
    pairs = list(zip(trees[::2], trees[1::2], strict=True))
    shown = ", ".join(f"{show(left)} = {show(right)}" for left, right in pairs)
    return Task("solve", tuple(trees), tuple(names or unknown), shown)


def _periodic(tree: Tree) -> bool:
    """A trigonometric function of a variable."""
    if tree[0] == "call" and tree[1] in ("sin", "cos", "tan", "cot", "sec", "csc") and variables(tree):
        return True
    return any(_periodic(part) for part in tree[1:] if isinstance(part, list))


def roots(match: re.Match[str]) -> Task:
    """`roots of x^2 - 4`."""
    tree = _formula(_right_side(match["e"]))
    if len(variables(tree)) != 1:
        raise NotAFormula("one variable is wanted")
    return Task("solve", (tree, ["num", "0"]), (_one_variable(tree),), f"{show(tree)} = 0")


def integer(kind: str, label: str) -> Build:
    """A task on whole numbers; `label` is how it is shown."""

    def build(match: re.Match[str]) -> Task:
        trees = tuple(_number(group) for group in match.groups())
        return Task(kind, trees, (), label.format(*map(show, trees)))

    return build


def compare(match: re.Match[str]) -> Task:
    """`is 2^10 greater than 1000`."""
    sign = match["r"].strip().lower()
    for word, relation in _RELATIONS:
        if re.fullmatch(word, sign):
            trees = (_number(match["a"]), _number(match["b"]))
            if not any(map(size, trees)) and not all(map(has_number, trees)):
                raise NotAFormula("nothing to compare")
            return Task("compare", trees, (relation,), f"{show(trees[0])} {relation} {show(trees[1])}")
    raise NotAFormula("unknown relation")


_RELATIONS = (
    (r"=|==|equal to|the same as|equals", "="),
    (r"<=|at most|less than or equal to|no more than", "<="),
    (r">=|at least|greater than or equal to|no less than", ">="),
    (r"<|less than|smaller than", "<"),
    (r">|greater than|bigger than|larger than|more than", ">"),
)


def factorise(match: re.Match[str]) -> Task:
    """Prime factors of a number."""
    tree = _number(next(group for group in match.groups() if group))
    return Task("factorise", (tree,), (), show(tree))


def rewrite(match: re.Match[str], kind: str) -> Task:
    """simplify, expand or factor."""
    tree = _formula(match["e"] or match["f"])
    if size(tree) == 0 and tree[0] != "num":
        raise NotAFormula("nothing to rewrite")
    if not variables(tree):
        return Task("factorise" if kind == "factor" else "value", (tree,), (), show(tree))
    return Task(kind, (tree,), (), show(tree))
