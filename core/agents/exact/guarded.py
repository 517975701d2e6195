"""Trees of the grammar to sympy objects, with every step checked before it is taken. Runs in the child process only.

sympy evaluates `Integer(9)**Integer(387420489)` on sight, so the size of a result is estimated first; nothing of a
question ever reaches `sympify` or `parse_expr`, which execute code.
"""

from __future__ import annotations

import math
from typing import Any

from core.agents.exact.grammar import Tree

MAX_BITS = 12_000  # about 3,600 digits: more than anyone reads
MAX_EXPONENT = 200  # of a symbolic base: (x + 1)^200 still expands in the time limit


class TooLarge(ValueError):
    """The exact result has too many digits to be written out. `digits` is an estimate, or 0 when unknown."""

    def __init__(self, digits: float = 0) -> None:
        super().__init__("too large")
        self.digits = digits


class Undefined(ValueError):
    """There is no such number; the message says why."""


def build(tree: Tree, bound: frozenset[str] = frozenset()) -> Any:
    """The sympy object of a tree. `bound` are names that are variables here even if they could be constants (`i`)."""
    import sympy

    kind = tree[0]
    if kind == "num":
        return _number(str(tree[1]))
    if kind == "var" or (kind == "name" and tree[1] in bound):
        return sympy.Symbol(tree[1])
    if kind == "name":
        return {"pi": sympy.pi, "e": sympy.E, "i": sympy.I, "oo": sympy.oo}[tree[1]]
    if kind == "mod" and tree[1][0] == "^":
        return _power_mod(tree, bound)
    if kind == "call":
        return _checked(_call(tree[1], [build(part, bound) for part in tree[2:]]))
    return _checked(_operation(kind, *(build(part, bound) for part in tree[1:])))


def _number(text: str) -> Any:
    import sympy

    mantissa, _, exponent = text.lower().partition("e")
    if len(mantissa) > 2_000 or abs(int(exponent or 0)) > 3_000:
        raise TooLarge
    return sympy.Rational(mantissa) * sympy.Integer(10) ** int(exponent or 0)


def _operation(kind: str, left: Any, right: Any = None) -> Any:
    if kind == "neg":
        return -left
    if kind == "!":
        return _factorial(left)
    if kind == "^":
        return _power(left, right)
    if kind == "/" and right.is_zero:
        raise Undefined("division by zero")
    if kind == "mod":
        if right.is_zero:
            raise Undefined("division by zero")
        return left % right
    return (
        left + right if kind == "+" else left - right if kind == "-" else left * right if kind == "*" else left / right
    )


def bits(value: Any) -> int:
    """Bits of the largest integer inside a number; 1 for symbols."""
    return max((max(int(r.p).bit_length(), int(r.q).bit_length()) for r in value.atoms() if r.is_Rational), default=1)


def _checked(value: Any) -> Any:
    import sympy

    if value.has(sympy.zoo, sympy.nan):
        raise Undefined("there is no such number")
    if bits(value) > MAX_BITS:
        raise TooLarge(bits(value) * math.log10(2))
    return value


def _power(base: Any, exponent: Any) -> Any:
    if base.is_zero and exponent.is_negative:
        raise Undefined("division by zero")
    if exponent.is_Rational and base not in (0, 1, -1):
        if base.is_number:
            size = abs(exponent.p) * bits(base) // exponent.q
            if size > MAX_BITS:
                # float() of a giant integer overflows; its own bits are enough for "too large"
                raise TooLarge(size * math.log10(2) if size.bit_length() < 900 else 0)
        elif abs(exponent) > MAX_EXPONENT:
            raise TooLarge
    return base**exponent


def _power_mod(tree: Tree, bound: frozenset[str]) -> Any:
    """`2^100000 mod 7` without the power itself."""
    import sympy

    base, exponent, modulus = (build(part, bound) for part in (*tree[1][1:], tree[2]))
    if all(value.is_Integer for value in (base, exponent, modulus)) and exponent >= 0 and modulus > 0:
        return sympy.Integer(pow(int(base), int(exponent), int(modulus)))
    return _checked(_operation("mod", _power(base, exponent), modulus))


def _factorial(n: Any) -> Any:
    import sympy

    if n.is_number and not (n.is_Integer and n >= 0):
        raise Undefined("the factorial is defined for whole numbers from 0 up")
    if n.is_Integer and n > 1_500:
        size = float(n) if n.p.bit_length() < 900 else 0.0
        raise TooLarge(size * (math.log10(size) - 0.434) if size else 0)
    return sympy.factorial(n)


def _call(name: str, a: list[Any]) -> Any:
    import sympy

    if name in ("gcd", "lcm", "fibonacci", "totient", "isqrt", "binomial", "permutations") and all(
        x.is_number for x in a
    ):
        return _whole(name, a)
    special = {
        "factorial": lambda: _factorial(a[0]),
        "log": lambda: _log(*a),
        "ln": lambda: _log(a[0]),
        "root": lambda: _power(a[0], 1 / a[1]) if a[1] != 0 else _operation("/", a[0], a[1]),
        "cbrt": lambda: sympy.real_root(a[0], 3) if a[0].is_number else sympy.cbrt(a[0]),
        "degrees": lambda: a[0] * sympy.pi / 180,
        "mod": lambda: _operation("mod", *a),
        "exp": lambda: _power(sympy.E, a[0]),
        "mean": lambda: sum(a) / len(a),
        "median": lambda: _median(a),
        "max": lambda: sympy.Max(*a),
        "min": lambda: sympy.Min(*a),
        "abs": lambda: sympy.Abs(a[0]),
    }
    return special[name]() if name in special else getattr(sympy, _SYMPY[name])(*a)


# Only these attributes of sympy can be named by a question.
_NAMES = """
sin cos tan cot sec csc asin acos atan sinh cosh tanh sqrt floor ceiling gcd lcm fibonacci totient binomial"""
_SYMPY = {name: name for name in _NAMES.split()}


def _log(value: Any, base: Any = None) -> Any:
    import sympy

    if value.is_zero or (base is not None and (base.is_zero or base == 1)):
        raise Undefined("this logarithm does not exist")
    return sympy.log(value) if base is None else sympy.simplify(sympy.log(value, base))


def _median(values: list[Any]) -> Any:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _whole(name: str, a: list[Any]) -> Any:
    """Functions of whole numbers, with a bound on the result where it can be large."""
    import sympy

    if not all(x.is_Integer for x in a):
        raise Undefined(f"{name} is defined for whole numbers")
    n, k = int(a[0]), int(a[-1])
    if name == "gcd":
        return sympy.Integer(math.gcd(*map(int, a)))
    if name == "lcm":
        return sympy.Integer(math.lcm(*map(int, a)))
    if n < 0:
        raise Undefined(f"{name} is defined for whole numbers from 0 up")
    if name == "fibonacci":
        if n > MAX_BITS:
            raise TooLarge(n * 0.209 if n.bit_length() < 900 else 0)
        return sympy.fibonacci(n)
    if name == "isqrt":
        return sympy.Integer(math.isqrt(n))
    if name == "totient":
        return sympy.totient(n)
    if k < 0 or (name == "permutations" and k > n):
        return sympy.Integer(0)
    few = min(k, n - k) if name == "binomial" else k
    if few > 0 and few * n.bit_length() > MAX_BITS:
        raise TooLarge
    return sympy.Integer(math.comb(n, k) if name == "binomial" else math.perm(n, k))
