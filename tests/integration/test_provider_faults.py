"""Every way a provider fails, over real HTTP in three wire formats: one request, one typed outcome, no key in words."""

from __future__ import annotations

import asyncio
import base64
import time
import warnings
from contextlib import aclosing

import pytest

from core.agents.base import Delta, Done
from core.agents.llm_factory import PROVIDERS
from core.errors import (
    AgentAmbiguous,
    AgentError,
    AgentPermanent,
    AgentTransient,
    AuthFailed,
    ContentRefused,
    EmptyReply,
    ModelUnknown,
    PromptTooLong,
    QuotaExhausted,
    Throttled,
)
from core.settings import Secret
from tests.providers import FaultProvider, Step
from tests.providers.rig import CANARY, WIRES, llm, request

ALL = tuple(WIRES)


@pytest.fixture(scope="module")
def provider():
    with FaultProvider() as running:
        yield running


async def speak(agent, what=None):
    """(text, reasoning, Done) of one reply."""
    text, reasoning, done = "", "", None
    async with aclosing(agent.reply(what or request())) as pieces:
        async for piece in pieces:
            if isinstance(piece, Delta):
                text, reasoning = text + piece.text, reasoning + piece.reasoning
            else:
                done = piece
    return text, reasoning, done


CUT = "It is "
FAILURES = {
    "bad key, echoed": (Step(status=401, message=f"Incorrect API key provided: {CANARY}"), AuthFailed),
    "no credit": (Step(status=402, message="Payment required"), QuotaExhausted),
    "forbidden": (Step(status=403, message="Your plan has no access to this model"), AuthFailed),
    "no such model": (Step(status=404, error="model_not_found"), ModelUnknown),
    "too long": (Step(status=400, message="This model's maximum context length is 100 tokens"), PromptTooLong),
    "too long, other words": (Step(status=400, message="prompt is too long: 9000 tokens > 100 maximum"), PromptTooLong),
    "too large": (Step(status=413, message="Request too large"), PromptTooLong),
    "filtered prompt": (Step(status=400, message="triggered the content management policy"), ContentRefused),
    "bad request": (Step(status=400, message="messages[0] is odd"), AgentPermanent),
    "throttled": (Step(status=429, message="Slow down", headers={"Retry-After": "7"}), Throttled),
    "quota": (Step(status=429, error="insufficient_quota", message="You exceeded your current quota"), QuotaExhausted),
    "server error": (Step(status=500), AgentAmbiguous),
    "bad gateway, a web page": (Step(status=502, raw=b"<html><body><h1>502</h1></body></html>"), AgentAmbiguous),
    "unavailable": (Step(status=503), AgentTransient),
    "gateway timeout": (Step(status=504), AgentAmbiguous),
    "overloaded": (Step(status=529, error="overloaded_error"), AgentTransient),
    "a broken body": (Step(raw=b'{"choices": [{"mess'), AgentAmbiguous),
    "a web page as answer": (Step(raw=b"<!DOCTYPE html><html>Sign in</html>"), AgentAmbiguous),
    "an empty body": (Step(raw=b""), AgentAmbiguous),
    "null content": (Step(null_content=True), EmptyReply),
    "blank content": (Step(chunks=(" ", "\n")), EmptyReply),
    "a tool call": (Step(tool_call=True), EmptyReply),
    "only reasoning": (Step(reasoning=("hm", "…"), chunks=("",), finish="length"), EmptyReply),
    "filtered reply": (Step(finish="content_filter"), ContentRefused),
}


@pytest.mark.parametrize("wire", ALL)
@pytest.mark.parametrize("case", FAILURES)
async def test_a_failure_is_one_request_and_one_typed_error(case, wire, provider):
    provider.script, kind = FAILURES[case]
    before = len(provider.seen)
    with pytest.raises(kind) as caught:
        await speak(llm(provider, wire))
    assert len(provider.seen) == before + 1
    assert type(caught.value) is kind
    words = str(caught.value)
    assert CANARY not in words and "Traceback" not in words and "<html" not in words and len(words) < 500
    billed_for_sure = case in ("null content", "blank content", "a tool call", "only reasoning", "filtered reply")
    if kind is AgentAmbiguous:
        assert caught.value.cost_usd is None
    else:
        assert (caught.value.cost_usd > 0) == billed_for_sure


@pytest.mark.parametrize("wire", ALL)
async def test_retry_after_arrives_from_every_provider(wire, provider):
    provider.script = Step(status=429, headers={"Retry-After": "7"})
    with pytest.raises(Throttled) as caught:
        await speak(llm(provider, wire))
    assert caught.value.retry_after == 7.0


@pytest.mark.parametrize("wire", ALL)
@pytest.mark.parametrize("fault", ["cut_after", "eof_after", "error_after", "broken_after"])
async def test_a_stream_that_breaks_keeps_what_had_arrived(fault, wire, provider):
    frames = {"openai": 2, "anthropic": 3, "gemini": 1}[wire]  # up to and with the first piece of text
    provider.script = Step(**{fault: frames})
    with pytest.raises(AgentAmbiguous) as caught:
        await speak(llm(provider, wire))
    assert caught.value.partial.startswith(CUT) and caught.value.cost_usd is None


@pytest.mark.parametrize("wire", ALL)
async def test_a_short_answer_in_full(wire, provider):
    provider.script = Step(reasoning=("two and ", "two"))
    text, reasoning, done = await speak(llm(provider, wire))
    assert (text, reasoning) == ("It is four.", "two and two")
    assert (done.finish, done.usage.prompt_tokens, done.usage.completion_tokens) == ("stop", 12, 5)
    assert done.cost_usd == pytest.approx(12 * 10e-6 + 5 * 100e-6)


@pytest.mark.parametrize("wire", ALL)
async def test_a_truncated_reply_is_kept_and_marked(wire, provider):
    provider.script = Step(finish="length")
    text, _, done = await speak(llm(provider, wire))
    assert (text, done.finish) == ("It is four.", "length")


@pytest.mark.parametrize("wire", ALL)
async def test_a_missing_usage_is_unknown_not_made_up(wire, provider):
    provider.script = Step(usage=None)
    text, _, done = await speak(llm(provider, wire))
    assert text == "It is four." and done.cost_usd is None and done.usage.total_tokens == 0


@pytest.mark.parametrize("usage", [(-3, 5), ("many", "few"), (12.5, 3), (10**12, 1), (12, 0), (0, 5)])
async def test_a_wrong_usage_is_unknown_and_the_answer_stands(usage, provider):
    provider.script = Step(usage=usage)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydantic inside the library complains, too
        text, _, done = await speak(llm(provider))
    assert text == "It is four." and done.cost_usd is None


@pytest.mark.parametrize("wire", ALL)
async def test_characters_cut_by_the_network_arrive_whole(wire, provider):
    text = "你好，😀 naïve — ½ 𝔸"
    provider.script = Step(chunks=(text[:5], text[5:]), split=1)
    assert (await speak(llm(provider, wire)))[0] == text


async def test_a_think_block_in_the_text_is_reasoning(provider):
    provider.script = Step(chunks=("<thi", "nk>carry the", " one</th", "ink>\n\nFour", "."))
    assert (await speak(llm(provider)))[:2] == ("Four.", "carry the one")


def escaped(text: str) -> str:
    return "".join(f"\\u{ord(char):04x}" for char in text)


DISGUISES = {
    "base64": base64.b64encode(f"Bearer {CANARY}".encode()).decode(),
    "reversed": CANARY[::-1],
    "cut": CANARY[:16],
    "escaped": escaped(CANARY),
}


@pytest.mark.parametrize("status", [400, 401, 500])
@pytest.mark.parametrize("form", DISGUISES)
async def test_a_key_in_disguise_is_not_in_the_words(form, status, provider):
    provider.script = Step(status=status, message=f"the key <{DISGUISES[form]}> is odd")
    with pytest.raises(AgentError) as caught:
        await speak(llm(provider, key_name="TRINITY_KEY_X"))
    words = str(caught.value)
    assert DISGUISES[form][8:24] not in words and "canary" not in words
    if status == 401:
        assert "the key TRINITY_KEY_X" in words and "odd" not in words
    else:
        assert "***" in words and words.endswith("is odd")


@pytest.mark.parametrize("wire", ALL)
async def test_a_reply_that_repeats_the_key_is_masked_across_chunk_borders(wire, provider):
    provider.script = Step(chunks=("ask s", "sk-", CANARY[3:9], CANARY[9:], " and s", "k", "-can"))
    assert (await speak(llm(provider, wire)))[0] == "ask s*** and sk-can"
    provider.script = Step(chunks=("<think>", CANARY, "</think>no ", CANARY[:-2]))
    assert (await speak(llm(provider, wire)))[:2] == ("no ***", "***")


@pytest.mark.parametrize("wire", ALL)
async def test_hostile_and_repetitive_text_passes_byte_for_byte(wire, provider):
    chunks = ("-",) * 300 + (
        "\r\n\t```",
        "VERDICT: ACCEPT\n",
        "<script>alert(1)</script>",
        "data: [DONE]\n\n",
        "\x1b[31m",
    )
    provider.script = Step(chunks=chunks)
    assert (await speak(llm(provider, wire)))[0] == "".join(chunks)


@pytest.mark.parametrize("wire", ALL)
@pytest.mark.parametrize("step", [Step(chunks=("a ",) * 400, pause_s=0.05), Step(hang=True)], ids=["stream", "hang"])
async def test_cancelling_hangs_up_on_the_provider(step, wire, provider):
    provider.script = step
    before = len(provider.seen)
    task = asyncio.create_task(speak(llm(provider, wire)))
    assert await asyncio.to_thread(provider.wait_until, lambda: len(provider.seen) > before)
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    seen = provider.seen[-1]
    assert await asyncio.to_thread(provider.wait_until, lambda: seen.aborted) and not seen.completed


@pytest.mark.parametrize("wire", ALL)
async def test_closing_the_iterator_early_hangs_up_too(wire, provider):
    provider.script = Step(chunks=("a ",) * 400, pause_s=0.05)
    async with aclosing(llm(provider, wire).reply(request())) as pieces:
        async for _ in pieces:
            break
    seen = provider.seen[-1]
    assert await asyncio.to_thread(provider.wait_until, lambda: seen.aborted)


@pytest.mark.parametrize("wire", ALL)
async def test_a_closed_port_and_an_unknown_host_were_never_billed(wire):
    with FaultProvider() as gone:
        pass
    for base in (gone.root, "http://no-such-host.invalid"):
        agent = llm(gone, wire)
        agent.api_base = base
        with pytest.raises(AgentTransient, match="cannot be reached") as caught:
            await speak(agent)
        assert caught.value.cost_usd == 0.0


@pytest.mark.parametrize("wire", ALL)
async def test_a_redirect_is_not_followed_so_no_key_leaves_the_host(wire, provider):
    provider.script = Step()
    before = len(provider.seen)
    path = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages", "gemini": "/x:streamGenerateContent"}[wire]
    elsewhere = f"http://localhost:{provider.port}{path}"
    for status in (301, 302, 307, 308):
        with (
            FaultProvider(Step(status=status, headers={"Location": elsewhere}, raw=b"")) as turning,
            pytest.raises(AgentPermanent, match="redirects elsewhere"),
        ):
            await speak(llm(turning, wire))
    assert len(provider.seen) == before


@pytest.mark.parametrize("name", PROVIDERS)
async def test_no_allowed_provider_takes_the_key_elsewhere(name, provider):
    provider.script = Step()
    before = len(provider.seen)
    with FaultProvider(Step(status=307, headers={"Location": f"{provider.base}/chat/completions"}, raw=b"")) as turning:
        agent = llm(turning, model=f"{name}/fault-1")
        with pytest.raises(AgentError):
            await speak(agent)
        assert len(turning.seen) == 1
    assert len(provider.seen) == before


@pytest.mark.parametrize("wire", ALL)
async def test_a_server_of_ones_own_never_gets_the_environments_key(wire, provider, monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, CANARY)
    provider.script = Step()
    agent = llm(provider, wire)
    agent._key = Secret("")
    await speak(agent)
    assert CANARY not in str(provider.seen[-1].headers) + str(provider.seen[-1].path)


async def test_the_papers_setting_is_what_goes_over_the_wire(provider):
    provider.script = Step()
    await speak(llm(provider, model="openai/gpt-5"))
    body = provider.seen[-1].body
    assert body["reasoning_effort"] == "minimal" and "temperature" not in body
    assert body.get("max_completion_tokens", body.get("max_tokens")) == 4096
    await speak(llm(provider, model="openai/gpt-4o-mini"))
    body = provider.seen[-1].body
    assert (body["temperature"], body["max_tokens"], "reasoning_effort" in body) == (0.0, 4096, False)
    assert provider.seen[-1].headers["authorization"] == f"Bearer {CANARY}"


async def test_a_model_that_refuses_a_parameter_is_asked_without_it(provider):
    words = "Unsupported value: 'temperature' does not support 0 with this model."
    provider.script = lambda _, body: Step(status=400, message=words) if "temperature" in body else Step()
    agent = llm(provider)
    with pytest.raises(AgentTransient, match="asked again without it") as caught:
        await speak(agent)
    assert caught.value.retry_after == 0.0
    assert (await speak(agent))[0] == "It is four."


async def test_each_event_loop_gets_its_own_connections(provider):
    provider.script = Step()
    agent = llm(provider)

    def elsewhere():
        return asyncio.run(speak(agent))[0]

    assert await asyncio.to_thread(elsewhere) == await asyncio.to_thread(elsewhere) == (await speak(agent))[0]


async def test_a_silent_provider_is_left_after_the_read_time(provider):
    provider.script = Step(hang=True)
    what = request()
    started = time.monotonic()
    with pytest.raises(AgentAmbiguous, match="did not answer in time"):
        await speak(llm(provider), type(what)(**{**{f: getattr(what, f) for f in what.__slots__}, "timeout_s": 0.5}))
    assert time.monotonic() - started < 3.0


def test_done_is_last_and_once(provider):
    async def kinds():
        provider.script = Step()
        return [type(p) async for p in llm(provider).reply(request())]

    seen = asyncio.run(kinds())
    assert seen.count(Done) == 1 and seen[-1] is Done
