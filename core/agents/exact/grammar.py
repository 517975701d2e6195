"""A small grammar of formulas: text in, a tree of plain lists out. Nothing is ever evaluated here.

    ["num", "17"]  ["name", "pi"]  ["var", "x"]  ["neg", a]  ["+", a, b]  ["-", a, b]  ["*", a, b]  ["/", a, b]
    ["^", a, b]  ["mod", a, b]  ["!", a]  ["call", "sin", a, …]

The tree is what the child process gets as JSON: a closed set of words, so no text of a question can become code.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

Tree: TypeAlias = list[Any]


def _each(names: str, least: int, most: int) -> dict[str, tuple[int, int]]:
    return dict.fromkeys(names.split(), (least, most))


# Name in a question -> number of arguments (least, most).
FUNCTIONS: dict[str, tuple[int, int]] = {
    **_each("sin cos tan cot sec csc asin acos atan sinh cosh tanh exp ln sqrt cbrt abs", 1, 1),
    **_each("factorial floor ceiling fibonacci totient isqrt degrees", 1, 1),
    "log": (1, 2),
    "root": (2, 2),
    **_each("binomial permutations mod", 2, 2),
    **_each("gcd lcm max min mean median", 1, 50),
}
_ALIASES = {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "ceil": "ceiling", "choose": "binomial", "ncr": "binomial",
    "npr": "permutations", "lg": "log", "hcf": "gcd", "gcf": "gcd", "average": "mean", "fib": "fibonacci",
}  # fmt: skip
CONSTANTS = frozenset({"pi", "e", "i", "oo"})
_VARIABLES = frozenset("abcdfghjklmnopqrstuvwxyz") | {"theta", "alpha", "beta", "lambda"}

MAX_TOKENS = 400
MAX_DEPTH = 60

_TOKEN = re.compile(
    r"\s*(?:(?P<num>\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d,])|\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+(?!\w))?|\.\d+)|(?P<word>[A-Za-z]+)"
    r"|(?P<op>\*\*|[-+*/^!%(),]))"
)
_ARGUMENT = re.compile(r"\s*(?P<num>\d[\d_]*(?:\.\d+)?|\.\d+)")  # between commas that separate arguments


class NotAFormula(ValueError):
    """The text is not a formula of this grammar."""


def parse(text: str) -> Tree:
    """The tree of one expression. Raises NotAFormula."""
    tokens = _tokens(text)
    reader = _Reader(tokens)
    tree = reader.sum(0)
    if reader.at < len(tokens):
        raise NotAFormula(f"cannot read {tokens[reader.at][1]!r}")
    return tree


def variables(tree: Tree) -> set[str]:
    """Names of the free variables."""
    if tree[0] == "var":
        return {tree[1]}
    return {name for part in tree[1:] if isinstance(part, list) for name in variables(part)}


def size(tree: Tree) -> int:
    """Number of operators and calls."""
    if tree[0] in ("num", "var", "name"):
        return 0
    return 1 + sum(size(part) for part in tree[1:] if isinstance(part, list))


def has_number(tree: Tree) -> bool:
    """True when a number stands somewhere in it."""
    return tree[0] == "num" or any(has_number(part) for part in tree[1:] if isinstance(part, list))


def show(tree: Tree, parent: int = 0) -> str:
    """The expression in plain notation, for the answer's left side."""
    kind = tree[0]
    if kind in ("num", "var", "name"):
        return str(tree[1])
    if kind == "call":
        return f"{tree[1]}({', '.join(show(part) for part in tree[2:])})"
    if kind == "neg":
        text, level = f"-{show(tree[1], 3)}", 1
    elif kind == "!":
        text, level = f"{show(tree[1], 6)}!", 5
    else:
        level = {"+": 1, "-": 1, "*": 2, "/": 2, "mod": 2, "^": 4}[kind]
        sign = {"+": " + ", "-": " - ", "mod": " mod "}.get(kind, kind)
        left = show(tree[1], 5 if kind == "^" else level)
        right = show(tree[2], level if kind in "+*^" else level + 1)
        text = f"{left}{sign}{right}"
    return f"({text})" if level < parent else text


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    at, text, calls = 0, text.strip(), [False]
    while at < len(text):
        match = (_ARGUMENT.match(text, at) if calls[-1] else None) or _TOKEN.match(text, at)
        if not match or len(tokens) >= MAX_TOKENS:
            raise NotAFormula(f"cannot read {text[at : at + 12]!r}" if not match else "too long")
        kind = str(match.lastgroup)
        value = match.group(kind)
        if value == "(":
            calls.append(bool(tokens) and tokens[-1][0] == "word" and tokens[-1][1] in FUNCTIONS)
        elif value == ")" and len(calls) > 1:
            calls.pop()
        tokens += _words(value) if kind == "word" else [(kind, "^" if value == "**" else value)]
        at = match.end()
    return tokens


def _words(word: str) -> list[tuple[str, str]]:
    lower = _ALIASES.get(word.lower(), word.lower())
    if lower in FUNCTIONS or lower in CONSTANTS or lower in _VARIABLES:
        return [("word", lower)]
    if lower == "mod":
        return [("op", "mod")]
    if set(word) <= set("xyz"):  # xy is x times y; other letters together are a word, not a product
        return [("word", letter) for letter in word]
    raise NotAFormula(f"unknown word {word!r}")


class _Reader:
    """Recursive descent over the tokens."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens, self.at, self._depth = tokens, 0, 0

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self.at] if self.at < len(self._tokens) else ("end", "")

    def _take(self, *values: str) -> str | None:
        kind, value = self._peek()
        if value in values and kind in ("op", "word"):
            self.at += 1
            return value
        return None

    def sum(self, depth: int) -> Tree:
        """sum := product (("+" | "-") product)*"""
        if depth > MAX_DEPTH:
            raise NotAFormula("nested too deeply")
        tree = self._product(depth + 1)
        while sign := self._take("+", "-"):
            tree = [sign, tree, self._product(depth + 1)]
        return tree

    def _product(self, depth: int) -> Tree:
        tree = self._signed(depth)
        while True:
            if sign := self._take("*", "/"):
                tree = [sign, tree, self._signed(depth)]
            elif self._peek()[1] == "mod" and self._follows_mod():
                self.at += 1
                tree = ["mod", tree, self._signed(depth)]
            elif self._peek() == ("op", "%"):
                self.at += 1
                tree = ["mod", tree, self._signed(depth)] if self._operand() else ["/", tree, ["num", "100"]]
            elif self._operand() and not (self._peek()[0] == "num" and tree[0] == "num"):
                tree = ["*", tree, self._power(depth)]  # 2x, 3(4 + 5), (x + 1)(x - 1)
            else:
                return tree

    def _follows_mod(self) -> bool:
        """`17 mod 5` is an operator; `mod(17, 5)` stands where an operand does."""
        return self.at + 1 < len(self._tokens)

    def _operand(self) -> bool:
        kind, value = self._peek()
        return (kind in ("num", "word") and value != "mod") or value == "("

    def _signed(self, depth: int) -> Tree:
        if depth > MAX_DEPTH:
            raise NotAFormula("nested too deeply")
        if self._take("-"):
            return ["neg", self._signed(depth + 1)]
        if self._take("+"):
            return self._signed(depth + 1)
        return self._power(depth)

    def _power(self, depth: int) -> Tree:
        base = self._postfix(depth)
        return ["^", base, self._signed(depth + 1)] if self._take("^") else base

    def _postfix(self, depth: int) -> Tree:
        tree = self._atom(depth)
        while self._take("!"):
            tree = ["!", tree]
        return tree

    def _atom(self, depth: int) -> Tree:
        kind, value = self._peek()
        self.at += 1
        if kind == "num":
            return ["num", value.replace(",", "").replace("_", "")]
        if value == "(":
            tree = self.sum(depth + 1)
            self._close()
            return tree
        if value in FUNCTIONS and kind == "word":
            return self._call(value, depth)
        if kind == "word":
            return ["name", value] if value in CONSTANTS else ["var", value]
        raise NotAFormula("something is missing" if kind == "end" else f"cannot read {value!r}")

    def _call(self, name: str, depth: int) -> Tree:
        least, most = FUNCTIONS[name]
        if self._take("("):
            arguments = [self.sum(depth + 1)]
            while self._take(","):
                arguments.append(self.sum(depth + 1))
            self._close()
        elif self._take("^"):  # sin^2 x
            exponent = self._atom(depth + 1)
            return ["^", self._call(name, depth + 1), exponent]
        elif most == 1 or name == "log":
            arguments = [self._bare(depth + 1)]
        else:
            raise NotAFormula(f"{name} needs its arguments in brackets")
        if not least <= len(arguments) <= most:
            raise NotAFormula(f"{name} does not take {len(arguments)} arguments")
        return ["call", name, *arguments]

    def _bare(self, depth: int) -> Tree:
        """The argument of a function without brackets: `sin 2x`, `sqrt 9`."""
        tree = self._power(depth)
        while tree[0] in ("num", "*") and self._peek()[0] == "word" and self._peek()[1] not in FUNCTIONS:
            if self._peek()[1] == "mod":
                break
            tree = ["*", tree, self._power(depth)]
        return tree

    def _close(self) -> None:
        if not self._take(")"):
            raise NotAFormula("a bracket is not closed")
