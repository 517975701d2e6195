"""Whole questions through the coordinator against a provider that fails one request in five."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from dataclasses import replace

import pytest

from core.calls.attempt import TimeLimits
from core.calls.base import Account
from core.events import AttemptFailed, Decided, Finished
from core.export import trace_to_dict, trace_to_markdown
from core.store import new_token
from core.types import Limits, Override, Reason, Role, Status, Usage
from tests.providers import FaultProvider, Seen, Step
from tests.providers.rig import CANARY, PRICE, caller, llm, open_book
from tests.teams import play, scripted_run, trace_of

T, W, V = Role.THINKER, Role.WORKER, Role.VERIFIER
WISHES = [("alpha", T), ("beta", W), ("gamma", V)]

FAULTS = (
    Step(status=429, headers={"Retry-After": "0.02"}),
    Step(status=500),
    Step(status=502, raw=b"<html><body>Bad gateway</body></html>"),
    Step(status=503),
    Step(status=400, message="messages: odd"),
    Step(raw=b'{"choices": [{"mess'),
    Step(cut_after=2),
    Step(eof_after=2),
    Step(error_after=2),
    Step(broken_after=2),
    Step(stall_after=2),
    Step(null_content=True),
    Step(empty_choices=True),
    Step(tool_call=True),
    Step(finish="content_filter"),
    Step(finish="length"),
    Step(usage=None),
    Step(chunks=("naïve ", "😀 你好"), split=1),
)


def role_of(body) -> Role:
    text = json.dumps(body)
    return next(role for role in (V, W, T) if f"You are the {role.capitalize()} of" in text)


def good(body, rng) -> Step:
    if role_of(body) is V:
        verdict = "VERDICT: ACCEPT" if rng.random() < 0.7 else "VERDICT: REVISE"
        return Step(chunks=("It was ", f"checked.\n{verdict}"))
    return Step(chunks=("It is ", "four", "."))


def flaky(seed: int, share: float):
    """A script that fails `share` of all requests, each in a way drawn at random."""
    rng = random.Random(seed)

    def script(_, body):
        return rng.choice(FAULTS) if rng.random() < share else good(body, rng)

    return script


def team(provider):
    return tuple(
        llm(provider, wire, name) for wire, name in (("openai", "alpha"), ("anthropic", "beta"), ("gemini", "gamma"))
    )


def one_question(agents, calls, number: int):
    run = scripted_run(
        agents, WISHES, f"Question {number}: what is 2+2?", caller=calls, limits=Limits(seconds=120.0, usd=50.0)
    )
    return replace(run, id=f"q{number}", account=Account(f"q{number}", 50.0, owner=new_token()), seed=number)


async def answer_many(count: int, provider, store, folder):
    """Traces of `count` questions, eight at a time."""
    limits = TimeLimits(call_s=30.0, stall_s=4.0)
    calls = caller(store, folder, limits, process_usd_per_day=1e6, user_usd_per_day=1e6)
    agents, gate = team(provider), asyncio.Semaphore(8)
    for agent in agents:
        await agent.prepare()

    async def one(number):
        async with gate:
            return await play(one_question(agents, calls, number))

    runs = await asyncio.gather(*(one(number) for number in range(count)))
    calls.flush()
    return runs


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.slow)])
async def test_questions_in_a_row_with_a_fifth_of_all_requests_failing(count, tmp_path, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    with FaultProvider(flaky(count, 0.2)) as provider, open_book(tmp_path) as store:
        runs = await answer_many(count, provider, store, tmp_path)
        traces = [run[-1].trace for run in runs]
        faulty = sum(seen.step in FAULTS for seen in provider.seen)
        assert faulty > 0.1 * len(provider.seen), "the provider did not fail enough to prove anything"

        # No crash, and no text lost: every question that a Worker spoke to has its answer, byte for byte.
        # (With every fifth request failing, now and then all three agents fail one turn; that ends in plain words.)
        nobody = [trace for trace in traces if trace.reason is Reason.POOL_EMPTY and trace.answer is None]
        assert len(nobody) <= max(1, count // 50) and all(trace.note for trace in nobody)
        assert sum(not isinstance(run[-1], Finished) for run in runs) == len(nobody)
        assert all(trace.reason is not Reason.ERROR for trace in traces)
        for trace in traces:
            spoken = [turn.text for turn in trace.turns if turn.role is W and turn.error is None]
            assert trace.answer == (spoken[-1] if spoken else None) and (spoken or trace in nobody)
            assert [turn.index for turn in trace.turns] == list(range(1, len(trace.turns) + 1))

        # The book agrees with the provider's own count to the last call.
        total, seen = store.spend.total(), provider.seen
        assert total.calls == len(seen)
        assert total.failed == sum(not one.step.billed for one in seen)
        reported = [s for s in seen if s.completed and well_formed(s)]
        assert total.settled - total.unreported == len(reported)
        known = len(reported) * PRICE.of(Usage(12, 5))
        worst_each = (total.usd - known) / max(1, total.in_doubt + total.unreported)
        assert 0.4 < worst_each < 0.5, "what is in doubt is counted at its worst case: 4,096 tokens at 100 $/M"
        assert total.in_doubt + total.unreported == sum(s.step.billed for s in seen) - len(reported)

        # What a question is told to have cost is what the book says it cost, where all of it is known.
        for trace in traces:
            line = store.spend.of_question(trace.id)
            if trace.cost_usd is not None:
                assert trace.cost_usd == pytest.approx(line.usd, abs=1e-8)

        # The key is nowhere.
        text = caplog.text + "".join(capfd.readouterr())
        for trace in traces:
            text += json.dumps(trace_to_dict(trace)) + trace_to_markdown(trace)
        stored = b"".join(path.read_bytes() for path in tmp_path.glob("book.sqlite3*"))
        assert CANARY not in text and CANARY.encode() not in stored


def well_formed(seen: Seen) -> bool:
    """Whether the reply ended properly with its usage. (Without choices, only Anthropic's format still can.)"""
    step = seen.step
    breaks = (step.cut_after, step.eof_after, step.stall_after, step.broken_after, step.error_after)
    whole = (
        all(place is None for place in breaks)
        and step.raw is None
        and not (step.empty_choices and seen.wire != "anthropic")
    )
    return whole and step.usage is not None and step.status == 200


async def test_the_next_best_agent_takes_the_turn_and_both_are_shown(tmp_path):
    def script(_, body):
        broken = body.get("model") == "fault-1"
        return Step(status=401, message=f"bad key {CANARY}") if broken else good(body, random.Random(1))

    with FaultProvider(script) as provider, open_book(tmp_path) as store:
        down, up = llm(provider), llm(provider, name="beta", model="openai/fault-2")
        calls = caller(store, tmp_path)
        run = scripted_run((down, up), [("alpha", W), ("alpha", W), ("alpha", V)], caller=calls)
        events = await play(run)
        trace = events[-1].trace
        first = trace.turns[0]
        assert first.agent == "beta" and [attempt.agent for attempt in first.failed] == ["alpha"]
        assert first.decision.head_agent == "alpha" and first.decision.override is Override.FALLBACK
        assert [e.decision.agent for e in events if isinstance(e, Decided)][:2] == ["alpha", "beta"]
        failed = next(e for e in events if isinstance(e, AttemptFailed))
        assert "does not accept the key" in failed.attempt.error and CANARY not in failed.attempt.error
        assert "resting" in trace.turns[1].decision.masked["alpha"], "afterwards it is masked, not asked again"
        assert sum(seen.body["model"] == "fault-1" for seen in provider.seen) == 1


async def test_a_cut_reply_shows_its_text_and_costs_in_the_trace(tmp_path):
    script = [Step(cut_after=3), Step(), Step(chunks=("fine\nVERDICT: ACCEPT",))]
    with FaultProvider(script) as provider, open_book(tmp_path) as store:
        run = scripted_run((llm(provider),), [("alpha", W), ("alpha", V)], caller=caller(store, tmp_path))
        trace = await trace_of(run)
        attempt = trace.turns[0].failed[0]
        assert attempt.text == "It is four" and attempt.cost_usd is None and trace.cost_usd is None
        assert trace.status is Status.ACCEPTED and trace.answer == "It is four."


async def test_all_agents_down_is_a_friendly_end_within_the_deadline(tmp_path):
    with FaultProvider(Step(status=503)) as provider, open_book(tmp_path) as store:
        run = scripted_run(team(provider), WISHES, caller=caller(store, tmp_path), limits=Limits(seconds=30.0))
        trace = await asyncio.wait_for(trace_of(run), 30.0)
        assert (trace.status, trace.reason, trace.answer) == (Status.FAILED, Reason.POOL_EMPTY, None)
        assert trace.note and trace.cost_usd == 0.0


async def test_a_budget_that_pays_nobody_ends_for_money_and_nothing_is_sent(tmp_path):
    with FaultProvider() as provider, open_book(tmp_path) as store:
        run = scripted_run((llm(provider),), [("alpha", W)], caller=caller(store, tmp_path))
        trace = await trace_of(replace(run, account=Account("q1", 0.001)))
        assert trace.reason is Reason.MONEY and provider.seen == []
        assert "could cost up to" in trace.note


async def test_stop_closes_the_providers_stream_and_keeps_the_text(tmp_path):
    with FaultProvider(Step(chunks=("word ",) * 500, pause_s=0.02)) as provider, open_book(tmp_path) as store:
        stop = asyncio.Event()
        run = scripted_run((llm(provider),), [("alpha", W)], caller=caller(store, tmp_path))
        task = asyncio.create_task(trace_of(run, stop))
        assert await asyncio.to_thread(provider.wait_until, lambda: bool(provider.seen), 30.0)
        await asyncio.sleep(1.0)
        stop.set()
        trace = await task
        assert trace.status is Status.STOPPED and trace.answer.startswith("word word")
        assert trace.cost_usd is None, "what was billed for the part that came is not known"
        assert await asyncio.to_thread(provider.wait_until, lambda: provider.seen[0].aborted)
