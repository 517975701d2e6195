"""The tasks, done with sympy: one function per kind. Runs in the child process only."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from core.agents.exact.grammar import Tree
from core.agents.exact.guarded import TooLarge, Undefined, build

MAX_LISTED = 200


@dataclass
class Result:
    """What came out. `values` by name (`""` for the one value of most tasks); `text` is the right side to show.

    `truth` is set for questions of yes or no; their `text` is a sentence of its own.
    """

    text: str
    values: dict[str, list[Any]] = field(default_factory=dict)
    truth: bool | None = None
    family: str = ""  # variable along which indefinite integrals may differ by a constant
    product: bool = False  # a factorised form was asked for


def solve_task(kind: str, trees: list[Tree], words: list[str]) -> Result:
    """The result of a task. Raises TooLarge or Undefined."""
    bound = frozenset(words) if kind in ("sum", "product") else frozenset[str]()
    return _KINDS[kind]([build(tree, bound) for tree in trees], words, trees)


def _value(items: list[Any], words: list[str], trees: list[Tree]) -> Result:
    import sympy

    value = items[0]
    if value.is_number and not value.is_Rational:
        value = sympy.nsimplify(sympy.radsimp(sympy.simplify(value)))
    return Result(number(value, _has_decimals(trees)), {"": [value]})


def _has_decimals(trees: Any) -> bool:
    if isinstance(trees, list):
        return (len(trees) == 2 and trees[0] == "num" and "." in trees[1]) or any(map(_has_decimals, trees))
    return False


def number(value: Any, decimals: bool = False) -> str:
    """A number for people: exact, with a decimal value beside it where that helps."""
    import sympy

    if not value.is_number or value.is_Integer or value.is_infinite:
        return show(value)
    if value.is_Rational and (text := _terminating(value)):
        if decimals:
            return text
        if len(text) <= 9:
            return f"{show(value)} = {text}"
    if not value.is_real:
        return show(value)
    if value.has(sympy.CRootOf):  # a root of a polynomial that has no formula
        return f"{_decimal(value)} (rounded)"
    return f"{show(value)} (about {_decimal(value)})"


def _decimal(value: Any) -> str:
    """Six significant digits, in plain notation where that is short."""
    import sympy

    text = f"{float(value):.6g}" if abs(value) < 10**15 else str(sympy.N(value, 6))
    return text.replace("e+", "e")


def _terminating(value: Any) -> str:
    q, places = value.q, 0
    while q % 10 == 0 or q % 2 == 0 or q % 5 == 0:
        q = q // 10 if q % 10 == 0 else q // 2 if q % 2 == 0 else q // 5
        places += 1
    if q != 1 or places > 40:
        return ""
    scaled = abs(value) * 10**places
    digits = str(scaled.p).rjust(places + 1, "0")
    whole, fraction = digits[: len(digits) - places], digits[len(digits) - places :].rstrip("0")
    return ("-" if value < 0 else "") + whole + (f".{fraction}" if fraction else "")


def show(value: Any) -> str:
    """sympy's own text in the notation of the questions."""
    import sympy

    text = sympy.sstr(value).replace("**", "^")
    return re.sub(r"\boo\b", "infinity", re.sub(r"\b[EI]\b", lambda m: m.group().lower(), text))


def _expression(change: Callable[[Any], Any], product: bool = False) -> Callable[..., Result]:
    def run(items: list[Any], words: list[str], trees: list[Tree]) -> Result:
        value = change(items[0])
        return Result(show(value), {"": [value]}, product=product and bool(value.is_Mul or value.is_Pow))

    return run


def _lazy(name: str) -> Callable[[Any], Any]:
    def change(value: Any) -> Any:
        import sympy

        return getattr(sympy, name)(value)

    return change


def _derivative(items: list[Any], words: list[str], trees: list[Tree]) -> Result:
    import sympy

    name = sympy.Symbol(words[0])
    value = sympy.simplify(sympy.diff(items[0], name, int(words[1])))
    if len(items) > 1:
        value = value.subs(name, items[1])
        return Result(number(value), {"": [value]})
    return Result(show(value), {"": [value]})


def _integral(items: list[Any], words: list[str], trees: list[Tree]) -> Result:
    import sympy

    name = sympy.Symbol(words[0])
    if len(items) == 3:
        value = sympy.simplify(sympy.integrate(items[0], (name, items[1], items[2])))
        _must_be_done(value, sympy.Integral)
        return Result(number(value), {"": [value]})
    value = sympy.integrate(items[0], name)
    _must_be_done(value, sympy.Integral)
    return Result(f"{show(value)} + C", {"": [value]}, family=words[0])


def _must_be_done(value: Any, unfinished: Any) -> None:
    import sympy

    if value.has(unfinished):
        raise Undefined("it has no closed form that could be found")
    if value.has(sympy.zoo, sympy.nan):
        raise Undefined("it does not converge")


def _limit(items: list[Any], words: list[str], trees: list[Tree]) -> Result:
    import sympy

    sides = "+-" if words[1] == "+-" and items[1].is_finite else ("+" if words[1] == "+-" else words[1])
    try:
        value = sympy.limit(items[0], sympy.Symbol(words[0]), items[1], sides)
    except (ValueError, NotImplementedError) as error:
        raise Undefined("the two one-sided limits differ" if "left" in str(error) else "no limit was found") from error
    if isinstance(value, sympy.AccumBounds):
        raise Undefined("it oscillates and has no limit")
    _must_be_done(value, sympy.Limit)
    return Result(number(value), {"": [value]})


def _series(items: list[Any], words: list[str], trees: list[Tree]) -> Result:
    import sympy

    value = sympy.series(items[0], sympy.Symbol(words[0]), items[1], int(words[1]) + 1)
    return Result(show(value), {"": [value.removeO()]})


def _total(product: bool) -> Callable[..., Result]:
    def run(items: list[Any], words: list[str], trees: list[Tree]) -> Result:
        import sympy

        span = (sympy.Symbol(words[0]), items[1], items[2])
        if product and (not items[2].is_Integer or items[2] - items[1] > 1_000):
            raise TooLarge
        value = (sympy.product if product else sympy.summation)(items[0], span)
        _must_be_done(value, sympy.Product if product else sympy.Sum)
        value = sympy.factor(value) if value.free_symbols else value
        return Result(number(value), {"": [value]})

    return run


def _solve(items: list[Any], words: list[str], trees: list[Tree]) -> Result:
    import sympy

    names = [sympy.Symbol(word) for word in words]
    equations = [sympy.Eq(left, right) for left, right in zip(items[::2], items[1::2], strict=True)]
    if all(equation is sympy.true for equation in equations):
        return Result("every value is a solution")
    if any(equation is sympy.false for equation in equations):
        return Result("no solution")
    if len(equations) == len(names) == 1:
        solutions = _one_unknown(items[0] - items[1], names[0])
    else:
        solutions = sympy.solve(equations, names, dict=True)
        if not solutions and not all(sympy.Poly(x, *names).total_degree() <= 1 for x in map(_difference, equations)):
            raise Undefined("no solution was found")  # only for linear systems does that prove there is none
    if not solutions:
        return Result("no solution")
    if len(solutions) > MAX_LISTED:
        raise TooLarge
    real = [one for one in solutions if all(value.is_real is not False for value in one.values())]
    return _solutions(real or solutions, names)


def _difference(equation: Any) -> Any:
    return equation.lhs - equation.rhs


def _one_unknown(expression: Any, name: Any) -> list[dict[Any, Any]]:
    """Solutions of expression = 0. An empty list is a proof that there is none."""
    import sympy

    solutions = sympy.solve(expression, name)
    if not solutions and sympy.solveset(expression, name, sympy.S.Complexes) is not sympy.S.EmptySet:
        raise Undefined("no solution was found")
    return [{name: value} for value in solutions]


def _solutions(solutions: list[dict[Any, Any]], names: list[Any]) -> Result:
    values: dict[str, list[Any]] = {}
    for one in solutions:
        for name, value in one.items():
            values.setdefault(str(name), []).append(value)
    texts = [", ".join(f"{name} = {number(one[name])}" for name in names if name in one) for one in solutions]
    return Result(" or ".join(texts), values)


def _factorise(items: list[Any], words: list[str], trees: list[Tree]) -> Result:
    import sympy

    n = _whole(items[0], 2)
    factors = sympy.factorint(n)
    text = " * ".join(f"{p}^{k}" if k > 1 else str(p) for p, k in factors.items())
    listed = [sympy.Integer(p) for p in factors]
    return Result(text if sum(factors.values()) > 1 else f"{n}, a prime number", {"primes": listed})


def _whole(value: Any, least: int = 1) -> int:
    if not value.is_Integer or value < least:
        raise Undefined(f"a whole number from {least} up is wanted")
    return int(value)


def _isprime(items: list[Any], words: list[str], trees: list[Tree]) -> Result:
    import sympy

    if not items[0].is_Integer:
        return Result(f"No, {show(items[0])} is not a whole number.", truth=False)
    n = int(items[0])
    if sympy.isprime(n):
        return Result(f"Yes, {n} is prime.", truth=True)
    smallest = next((p for p in sympy.primerange(2, 10_000) if n > 1 and n % p == 0), None)
    because = f": {n} = {smallest} * {n // smallest}" if smallest else ""
    return Result(f"No, {n} is not prime{because}.", truth=False)


def _divisors(items: list[Any], words: list[str], trees: list[Tree]) -> Result:
    import sympy

    return _listed(sympy.divisors(_whole(items[0])))


def _listed(numbers: list[int]) -> Result:
    import sympy

    if len(numbers) > MAX_LISTED:
        raise TooLarge
    return Result(", ".join(map(str, numbers)) or "none", {"list": [sympy.Integer(n) for n in numbers]})


def _nthprime(items: list[Any], words: list[str], trees: list[Tree]) -> Result:
    import sympy

    n = _whole(items[0])
    if n > 10**9:
        raise TooLarge
    value = sympy.Integer(sympy.prime(n))
    return Result(str(value), {"": [value]})


def _nextprime(items: list[Any], words: list[str], trees: list[Tree]) -> Result:
    import sympy

    value = sympy.Integer(sympy.nextprime(int(sympy.floor(items[0]))))
    return Result(str(value), {"": [value]})


def _primesbelow(items: list[Any], words: list[str], trees: list[Tree]) -> Result:
    import sympy

    if items[0] > 2_000:
        count = sympy.Integer(sympy.primepi(int(sympy.ceiling(items[0])) - 1))
        return Result(f"there are {count}", {"": [count]})
    result = _listed(list(sympy.primerange(2, int(sympy.ceiling(items[0])))))
    result.text += f" ({len(result.values['list'])} in all)"
    return result


def _compare(items: list[Any], words: list[str], trees: list[Tree]) -> Result:
    import sympy

    left, right = items
    difference = sympy.simplify(left - right)
    sign = 0 if difference.equals(0) else int(sympy.sign(sympy.N(difference, 30)))
    truth = {"=": sign == 0, "<": sign < 0, ">": sign > 0, "<=": sign <= 0, ">=": sign >= 0}[words[0]]
    actual = "=" if sign == 0 else "<" if sign < 0 else ">"
    return Result(f"{'Yes' if truth else 'No'}: {show(left)} {actual} {show(right)}.", truth=truth)


_KINDS: dict[str, Callable[[list[Any], list[str], list[Tree]], Result]] = {
    "value": _value,
    "simplify": _expression(_lazy("simplify")),
    "expand": _expression(_lazy("expand")),
    "factor": _expression(_lazy("factor"), product=True),
    "derivative": _derivative,
    "integral": _integral,
    "limit": _limit,
    "series": _series,
    "sum": _total(product=False),
    "product": _total(product=True),
    "solve": _solve,
    "factorise": _factorise,
    "isprime": _isprime,
    "divisors": _divisors,
    "nthprime": _nthprime,
    "nextprime": _nextprime,
    "primesbelow": _primesbelow,
    "compare": _compare,
}
