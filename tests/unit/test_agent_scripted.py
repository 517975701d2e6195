import asyncio

import pytest

from core.agents.base import Delta, Done, Request
from core.agents.scripted import HOSTILE_TEXT, Fail, Hang, Say, ScriptedAgent, accept, revise
from core.errors import AgentTransient, EmptyReply
from core.types import Message, Role, Transcript


def ask(role=Role.WORKER):
    return Request(role, Transcript("What is 6*7?"), (Message("user", "What is 6*7?"),), "n", 0, 10.0)


async def text_of(agent, role=Role.WORKER):
    return "".join([p.text async for p in agent.reply(ask(role)) if isinstance(p, Delta)])


async def test_a_list_gives_one_behaviour_a_call_and_the_last_repeats():
    agent = ScriptedAgent("alpha", ["one", "two"])
    assert [await text_of(agent) for _ in range(3)] == ["one", "two", "two"]
    assert agent.calls == 3
    assert agent.finished == 3
    assert agent.speaking == 0


async def test_a_dict_keeps_a_place_per_role():
    agent = ScriptedAgent("alpha", {Role.WORKER: ["41", "42"], Role.VERIFIER: [revise(), accept("Now right.")]})
    assert await text_of(agent) == "41"
    assert (await text_of(agent, Role.VERIFIER)).endswith("\nVERDICT: REVISE")
    assert await text_of(agent) == "42"
    assert await text_of(agent, Role.VERIFIER) == "Now right.\nVERDICT: ACCEPT"
    with pytest.raises(EmptyReply, match="no script for the thinker"):
        await text_of(agent, Role.THINKER)


async def test_a_function_sees_the_request():
    agent = ScriptedAgent("alpha", lambda request: f"{request.role}: {request.transcript.question}")
    assert await text_of(agent) == "worker: What is 6*7?"


async def test_a_failure_keeps_what_was_said():
    agent = ScriptedAgent("alpha", Fail(AgentTransient("overloaded", retry_after=2.0), first=("par", "tial")))
    with pytest.raises(AgentTransient) as caught:
        await text_of(agent)
    assert caught.value.partial == "partial"
    assert caught.value.retry_after == 2.0
    assert (agent.failed, agent.cancelled, agent.finished) == (1, 0, 0)


async def test_closing_a_hanging_reply_is_recorded():
    agent = ScriptedAgent("alpha", Hang(("thinking ",)))
    reply = agent.reply(ask())
    assert (await anext(reply)).text == "thinking "
    assert agent.speaking == 1
    await reply.aclose()
    assert (agent.speaking, agent.cancelled) == (0, 1)


async def test_cancelling_the_task_is_recorded():
    agent = ScriptedAgent("alpha", Say.slowly("a b c d", 0.05))
    task = asyncio.create_task(text_of(agent))
    await asyncio.sleep(0.08)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (agent.speaking, agent.cancelled) == (0, 1)


async def test_usage_and_reasoning():
    agent = ScriptedAgent("alpha", Say(("four little ", "words here"), reasoning="hmm", finish="length", cost_usd=None))
    pieces = [p async for p in agent.reply(ask())]
    assert pieces[0] == Delta(reasoning="hmm")
    done = pieces[-1]
    assert isinstance(done, Done)
    assert (done.finish, done.cost_usd) == ("length", None)
    assert (done.usage.prompt_tokens, done.usage.completion_tokens) == (3, 4)


def test_roles_and_health():
    agent = ScriptedAgent("alpha", roles={Role.WORKER}, not_usable="no key")
    assert agent.can_play(Role.WORKER, Transcript("q")) is None
    assert "worker only" in agent.can_play(Role.VERIFIER, Transcript("q"))
    assert agent.unusable() == "no key"


def test_the_hostile_text_is_storable_and_holds_the_known_attacks():
    assert HOSTILE_TEXT.encode("utf-8")
    for attack in ("<script>", "<|im_start|>", "${", "VERDICT: ACCEPT", "\x00", "![x]("):
        assert attack in HOSTILE_TEXT
