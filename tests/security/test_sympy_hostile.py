"""Questions made to run code, to hang, or to eat the machine."""

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest

from core.agents.base import Delta, Request
from core.agents.exact import SympyAgent
from core.agents.exact.engine import Engine, TimedOut
from core.agents.exact.questions import understand
from core.errors import AgentError, AgentPermanent
from core.types import Role, Transcript, Turn

CODE = (
    "__import__('os').system('touch {})",
    "().__class__.__base__.__subclasses__()",
    "exec('open({!r}, \"w\")')",
    "eval(1+1)",
    "lambda: 1",
    "sin.__globals__",
    "x.__class__",
    "1 + __import__",
    "solve x = __import__('os').getpid() for x",
    "derivative of open('{}') with respect to x",
    "simplify getattr(x, 'y')",
    "f'{{1}}' + 1",
    "1; import os",
    "1\nimport os",
)
TOO_LARGE = (
    "9**9**9",
    "9**9**9**9**9**9",
    "10**10**10!",
    "10!!",
    "factorial(10**9)",
    "(((99999^9999)^999)^999)^999",
    "2^(10^10)",
    "binomial(10^9, 10^8)",
    "fibonacci(10^9)",
    "expand (x+1)^100000",
    "1e3000^1000",
    "product of k for k = 1 to 1000000",
)


async def say(question, role=Role.WORKER, answer=None, agent=None):
    turns = (Turn(1, Role.WORKER, "other", 1, "m", answer),) if answer is not None else ()
    request = Request(role, Transcript(question, turns), (), "n", 0, 30.0)
    return "".join([p.text async for p in (agent or SympyAgent()).reply(request) if isinstance(p, Delta)])


@pytest.mark.parametrize("text", CODE)
async def test_code_in_a_question_is_not_mathematics(text, tmp_path):
    assert understand(text.replace("{}", str(tmp_path / "mark"))) is None
    with pytest.raises(AgentPermanent):
        await say(text)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", CODE)
async def test_code_in_an_answer_is_only_a_wrong_answer(text, tmp_path):
    verdict = await say("What is 2+2?", Role.VERIFIER, text.replace("{}", str(tmp_path / "mark")))
    assert verdict.endswith("VERDICT: REVISE")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", TOO_LARGE)
async def test_too_large_is_said_at_once(text):
    await say("1 + 1")  # a warm child
    start = time.monotonic()
    assert "too large to be written out" in await say(text)
    assert time.monotonic() - start < 4.0


async def test_a_claim_can_be_too_large_too():
    assert (await say("What is 2+2?", Role.VERIFIER, "It is 9**9**9**9")).endswith("VERDICT: REVISE")


def test_a_task_that_hangs_is_killed_and_the_next_one_works():
    engine = Engine(workers=1, task_s=0.5)
    slow = understand("prime factorization of 123456789101112131415161718192021222324252627282930313233343536373839")
    engine.warm()
    victim = engine._idle[0].pid
    start = time.monotonic()
    with pytest.raises(TimedOut, match=r"0\.5 seconds"):
        engine.compute(slow.as_json())
    assert time.monotonic() - start < 10
    assert not _alive(victim)
    calm = Engine(workers=1)
    assert calm.compute(understand("What is 2+2?").as_json())["text"] == "4"
    calm.close()
    engine.close()


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_stop_kills_the_child():
    engine, stop = Engine(workers=1), threading.Event()
    engine.warm()
    victim = engine._idle[0].pid
    threading.Timer(0.3, stop.set).start()
    slow = understand("prime factorization of 123456789101112131415161718192021222324252627282930313233343536373839")
    with pytest.raises(AgentPermanent, match="stopped"):
        engine.compute(slow.as_json(), stop)
    assert not _alive(victim)


async def test_cancelling_the_reply_kills_the_child():
    engine = Engine(workers=1)
    engine.warm()
    victim, agent = engine._idle[0].pid, SympyAgent("sympy", engine)
    slow = "prime factorization of 123456789101112131415161718192021222324252627282930313233343536373839"
    task = asyncio.create_task(say(slow, agent=agent))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(5):
        while _alive(victim):  # noqa: ASYNC110  # a process has no event to wait for
            await asyncio.sleep(0.02)


def test_the_child_holds_no_environment_and_few_rights(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    engine = Engine(workers=1)
    engine.warm()
    pid = engine._idle[0].pid
    try:
        assert b"canary" not in Path(f"/proc/{pid}/environ").read_bytes()
        limits = Path(f"/proc/{pid}/limits").read_text()
        assert "1073741824" in next(line for line in limits.splitlines() if line.startswith("Max address space"))
    except FileNotFoundError:
        pytest.skip("no /proc here")
    finally:
        engine.close()


def test_a_dead_child_is_replaced():
    engine = Engine(workers=1)
    engine.warm()
    os.kill(engine._idle[0].pid, 9)
    time.sleep(0.2)
    assert engine.compute(understand("What is 2+2?").as_json())["text"] == "4"
    engine.close()


@pytest.mark.parametrize(
    "text",
    ["?" * 400, "= ? " * 100, "derivative of " * 28 + "x", "1+" * 199 + "1", "(" * 199 + "1" + ")" * 199,
     "-" * 399 + "1",
     "x = 1, " * 50, "2^" * 190 + "2", "\\frac{" * 60, "十" * 399, "one hundred and " * 24 + "1", "9" * 400],
)  # fmt: skip
async def test_long_and_nested_questions_are_read_quickly_and_break_nothing(text):
    understand.cache_clear()
    start = time.perf_counter()
    understand(text)
    assert time.perf_counter() - start < 0.25  # 1 to 6 ms on a quiet machine
    try:
        assert await say(text)
    except AgentError as error:
        assert str(error)
