"""What the exact agent takes for mathematics, and what not."""

import pytest

from core.agents.exact import SympyAgent
from core.agents.exact.grammar import NotAFormula, parse, show
from core.agents.exact.questions import understand
from core.types import Role, Transcript

READ = {
    "What is 17*23+4?": "17*23 + 4",
    "what's 12 percent of 250": "12/100*250",
    "compute 3/4 + 5/6": "3/4 + 5/6",
    "(2^10 - 24) / 8": "(2^10 - 24)/8",
    "What is 1,234,567 + 1?": "1234567 + 1",
    "12 × 9": "12*9",
    "84 ÷ 7": "84/7",
    "5² + 1": "5^2 + 1",
    "7 − 2": "7 - 2",
    "twelve times nine": "12*9",
    "What is one hundred and five minus twenty-three?": "105 - 23",
    "What is the square root of 2?": "sqrt(2)",
    "What is 10 factorial?": "10!",
    "17 mod 5": "17 mod 5",
    "17 % 5": "17 mod 5",
    "3 x 4": "3*4",
    "log base 2 of 8": "log(8, 2)",
    "2 to the 10th power": "2^10",
    "Solve 2x + 3 = 7": "2*x + 3 = 7",
    "What is x if 3x = 12?": "3*x = 12",
    "Solve the system x + y = 5, x - y = 1": "x + y = 5, x - y = 1",
    "roots of x^2 - 4": "x^2 - 4 = 0",
    "What is the derivative of x^3 + 2x with respect to x?": "d/dx (x^3 + 2*x)",
    "d/dx x^2": "d/dx (x^2)",
    "integrate x^2 from 0 to 1": "integral of x^2 dx from 0 to 1",
    "limit of sin(x)/x as x -> 0": "limit of sin(x)/x as x -> 0",
    "taylor series of e^x": "series of e^x at x = 0",
    "What is the greatest common divisor of 48 and 36?": "gcd(48, 36)",
    "is 91 a prime number?": "is 91 prime",
    "the 10th prime": "prime number 10",
    "sum of the first 100 natural numbers": "sum of k for k = 1 to 100",
    "average of 3, 4 and 5": "mean(3, 4, 5)",
    "25% off 80": "80*(1 - 25/100)",
    "17乘以23加4等于多少？": "17*23 + 4",
    "十二乘以九是多少": "12*9",
    "求x^2的导数": "d/dx (x^2)",
    "解方程 2x+3=7": "2*x + 3 = 7",
    "12和18的最大公约数": "gcd(12, 18)",
    r"$\frac{3}{4} + \frac{5}{6}$": "3/4 + 5/6",
    r"\int_0^1 x^2 dx": "integral of x^2 dx from 0 to 1",
    r"\lim_{x \to 0} \frac{\sin x}{x}": "limit of sin(x)/x as x -> 0",
    r"\sum_{i=1}^{10} i^2": "sum of i^2 for i = 1 to 10",
    r"\binom{5}{2}": "binomial(5, 2)",
    r"2 \times 3": "2*3",
    "9**9**9": "9^9^9",
    "Is 2^10 greater than 1000?": "2^10 > 1000",
}

NOT_READ = """What is the capital of France?|What is love?|covid-19|2024-12-01|12/25/2024
555-123-4567|call me at 555-1234
Room 12-14|for (int i = 0; i < 10; i++) { x += i; }|i++|C++|hello|What is 5?|42|pi|x|Who wrote 1984?|10.0.0.1
Write a two-line poem about rain.|What is H2O?|F-16|GPT-4|What is an F-16?|at 12:30|What is a prime number?|x += 1
print(2+2)|def f(x): return x+1|How many legs does a spider have?|Windows 11|7-Eleven|24/7|9/11|50-50|3D
What is a 401k?
John has 3 apples and buys 4 more. How many apples has he?|+1 555 123 4567|法国的首都是哪里|写一首诗|one|I am 30
roots of the French revolution|sum of all fears|limit of human endurance|factors of production|T-800|x-ray|and/or
solve sin(x) = 0|__import__('os').system('id')|().__class__.__bases__|lambda: 0
open('/etc/passwd')|exec(1)
1 if 2 else 3""".replace("\n", "|").split("|")


@pytest.mark.parametrize(("question", "shown"), READ.items())
def test_read(question, shown):
    task = understand(question)
    assert task is not None
    assert task.shown == shown


@pytest.mark.parametrize("question", NOT_READ)
def test_not_read(question):
    assert understand(question) is None


@pytest.mark.parametrize(
    "text", ["", "(", "1 +", "1 2", "sin", "foo(1)", "1 ; 2", "a.b", "x[0]", "gcd(", "f'(1)", "(" * 500 + "1", "1 @ 2"]
)
def test_the_grammar_refuses(text):
    with pytest.raises(NotAFormula):
        parse(text)


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("1 + 2*3", ["+", ["num", "1"], ["*", ["num", "2"], ["num", "3"]]]),
        ("2^3^2", ["^", ["num", "2"], ["^", ["num", "3"], ["num", "2"]]]),
        ("-2^2", ["neg", ["^", ["num", "2"], ["num", "2"]]]),
        ("2x", ["*", ["num", "2"], ["var", "x"]]),
        ("gcd(12,180)", ["call", "gcd", ["num", "12"], ["num", "180"]]),
        ("12,180 + 1", ["+", ["num", "12180"], ["num", "1"]]),
        ("50%", ["/", ["num", "50"], ["num", "100"]]),
    ],
)
def test_trees(text, tree):
    assert parse(text) == tree
    assert parse(show(tree)) == tree


def test_roles():
    agent = SympyAgent()
    asked, other = Transcript("What is 2+2?"), Transcript("What is love?")
    assert agent.can_play(Role.WORKER, asked) is None
    assert agent.can_play(Role.VERIFIER, asked) is None
    assert "cannot plan" in agent.can_play(Role.THINKER, asked)
    assert "cannot read" in agent.can_play(Role.WORKER, other)
    assert agent.can_play(Role.WORKER, Transcript("")) is None
