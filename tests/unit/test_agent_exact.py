"""The exact agent end to end, in its child process."""

import pytest

from core.agents.base import Delta, Request
from core.agents.exact import SympyAgent
from core.errors import AgentPermanent
from core.types import Role, Transcript, Turn

AGENT = SympyAgent()


async def say(question, role=Role.WORKER, answer=None):
    turns = (Turn(1, Role.WORKER, "other", 1, "m", answer),) if answer is not None else ()
    request = Request(role, Transcript(question, turns), (), "n", 0, 30.0)
    return "".join([piece.text async for piece in AGENT.reply(request) if isinstance(piece, Delta)])


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is 17*23+4?", "17*23 + 4 = 395"),
        ("compute 3/4 + 5/6", "3/4 + 5/6 = 19/12 (about 1.58333)"),
        ("What is 0.1 + 0.2?", "0.1 + 0.2 = 0.3"),
        ("What is the square root of 2?", "sqrt(2) is about 1.41421"),
        ("Solve x^2 - 5x + 6 = 0", "x = 2 or x = 3 (from x^2 - 5*x + 6 = 0)"),
        ("解方程组 x+y=5, x-y=1", "x = 3, y = 2 (from x + y = 5, x - y = 1)"),
        ("2x + 3 = 2x", "2*x + 3 = 2*x: no solution."),
        ("x^2 + 1 = 0", "x = -i or x = i (from x^2 + 1 = 0)"),
        ("derivative of x^2 at x = 3", "d/dx (x^2) at x = 3 = 6"),
        ("integral of 2x", "integral of 2*x dx = x^2 + C"),
        (r"\sum_{i=1}^{10} i^2", "sum of i^2 for i = 1 to 10 = 385"),
        ("limit of sin(x)/x as x -> 0", "limit of sin(x)/x as x -> 0 = 1"),
        ("prime factorization of 360", "360 = 2^3 * 3^2 * 5"),
        ("is 91 prime?", "No, 91 is not prime: 91 = 7 * 13."),
        ("expand (x+1)^3", "(x + 1)^3 = x^3 + 3*x^2 + 3*x + 1"),
        ("What is 1/0?", "1/0 is undefined: division by zero."),
        ("2^100000 mod 7", "2^100000 mod 7 = 2"),
        ("series of cos(x) around 0 up to order 4", "series of cos(x) at x = 0 = 1 - x^2/2 + x^4/24 + O(x^5)"),
    ],
)
async def test_worker(question, answer):
    assert await say(question) == answer
    assert (await say(question, Role.VERIFIER, answer)).endswith("VERDICT: ACCEPT"), "its own answer"


@pytest.mark.parametrize(
    ("question", "answer", "accepted"),
    [
        ("What is 17*23+4?", "395", True),
        ("What is 17*23+4?", "17*23 = 391, and 391 + 4 = 395.", True),
        ("What is 17*23+4?", "The answer is **395**.", True),
        ("What is 17*23+4?", r"\boxed{395}", True),
        ("What is 17*23+4?", "It is 395.0", True),
        ("What is 17*23+4?", "395 apples", True),
        ("What is 17*23+4?", "It is 396.", False),
        ("What is 17*23+4?", "17*23 + 4 = 17*23 + 4", False),
        ("What is 17*23+4?", "It is 395 or 396.", False),
        ("What is 17*23+4?", "I do not know.", False),
        ("What is 17*23+4?", "First 395, but no, the answer is 400.", False),
        ("What is 17*23+4?", "", False),
        ("compute 3/4 + 5/6", "It is about 1.58.", True),
        ("compute 3/4 + 5/6", "It is 1.59.", False),
        ("compute 3/4 + 5/6", "It is 2.", False),
        ("Solve x^2 - 5x + 6 = 0", "The solutions are x = 3 and x = 2.", True),
        ("Solve x^2 - 5x + 6 = 0", "x = 2", False),
        ("Solve x^2 - 5x + 6 = 0", "x = 2, x = 3 or x = 4", False),
        ("x^2 = 9", "x = ±3", True),
        ("Solve the system x + y = 5, x - y = 1", "y = 2 and x = 3", True),
        ("Solve the system x + y = 5, x - y = 1", "x = 2, y = 3", False),
        ("derivative of sin(x)^2", "2 sin(x) cos(x)", True),
        ("derivative of x^3", "The derivative is 3x^3.", False),
        ("integral of x^2", "x^3/3 + 7", True),
        ("factorise x^2 - 1", "(x-1)(x+1)", True),
        ("factorise x^2 - 1", "x^2 - 1", False),
        ("is 97 prime?", "Yes, it is.", True),
        ("is 91 prime?", "Yes, 91 is prime.", False),
        ("is 91 prime?", "It is not a prime number.", True),
        ("prime factorization of 12", "2 * 2 * 3", True),
        ("prime factorization of 12", "2 * 6", False),
        ("17乘以23加4等于多少？", "答案是395。", True),
        ("17乘以23加4等于多少？", "等于396", False),
        ("9**9**9", "That is too large to write out.", True),
        ("9**9**9", "It is 196627050475552913618075908526912116283103450944214766927315415537966391196809.", False),
        ("What is 1/0?", "Division by zero is undefined.", True),
        ("What is 1/0?", "0", False),
    ],
)
async def test_verifier(question, answer, accepted):
    if not answer:
        with pytest.raises(AgentPermanent, match="no answer"):
            await say(question, Role.VERIFIER, answer)
        return
    text = await say(question, Role.VERIFIER, answer)
    assert text.endswith("VERDICT: ACCEPT" if accepted else "VERDICT: REVISE"), text
    assert text.startswith("Recomputed: ")


async def test_what_it_cannot_read_is_an_error_that_says_so():
    with pytest.raises(AgentPermanent, match="cannot read this as mathematics"):
        await say("What is love?")
