"""The parts of the call path one by one, with a clock in hand: retry, breaker, channel, caps, keys."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from dataclasses import replace

import pytest

from core.agents.base import Delta, Request
from core.agents.llm import LlmAgent, LlmOptions
from core.agents.prices import Price
from core.agents.scripted import Fail, Hang, Say, ScriptedAgent
from core.calls.attempt import TimeLimits
from core.calls.base import Account, Caller
from core.calls.breaker import FAILURES, OPEN_S, Breakers
from core.calls.budget import Caps
from core.calls.caller import LedgerCaller
from core.calls.concurrency import COOLDOWN_S, MOST, Channel, Channels
from core.calls.keys import is_repeatable, request_key
from core.calls.retry import LONGEST_WAIT_S, wait_before_retry
from core.clock import Deadline
from core.errors import (
    AgentAmbiguous,
    AgentPermanent,
    AgentTransient,
    AuthFailed,
    DeadlineExceeded,
    EmptyReply,
    QuotaExhausted,
    StoreError,
)
from core.types import Message, Role, Transcript, Turn, Usage
from tests.providers.rig import ask, caller, open_book, request, settings


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


# -- retry -----------------------------------------------------------------------------------------------------


def test_jitter_doubles_its_bound_and_stays_below_it():
    rng = random.Random(1)
    for tries, bound in ((1, 1.0), (2, 2.0), (3, 4.0)):
        waits = [wait_before_retry(AgentTransient("x"), tries, rng) for _ in range(300)]
        assert 0 <= min(waits) < bound * 0.1 and bound * 0.9 < max(waits) <= bound


def test_a_retry_after_is_the_least_wait_and_too_long_a_one_is_none():
    rng = random.Random(1)
    assert all(wait_before_retry(AgentTransient("x", retry_after=5.0), 1, rng) >= 5.0 for _ in range(20))
    assert wait_before_retry(AgentTransient("x", retry_after=LONGEST_WAIT_S + 1), 1, rng) is None
    assert wait_before_retry(AgentTransient("x", retry_after=0.0), 3, rng) == 0.0


def test_who_is_tried_again_and_how_often():
    rng = random.Random(1)
    assert wait_before_retry(AgentTransient("x"), 3, rng) is not None
    assert wait_before_retry(AgentTransient("x"), 4, rng) is None
    assert wait_before_retry(AgentAmbiguous("x"), 1, rng) is not None
    assert wait_before_retry(AgentAmbiguous("x"), 2, rng) is None
    for error in (AgentPermanent("x"), AuthFailed("x"), EmptyReply("x")):
        assert wait_before_retry(error, 1, rng) is None


# -- breaker ---------------------------------------------------------------------------------------------------


def test_the_breaker_opens_after_failures_in_a_row_and_lets_one_probe_through():
    clock = Clock()
    breakers = Breakers(clock)
    for _ in range(FAILURES):
        assert breakers.closed_to("a") is None
        breakers.failed("a", AgentTransient("503"))
    assert "resting for 30 s" in breakers.closed_to("a") and breakers.closed_to("b") is None
    clock.now += OPEN_S
    assert breakers.closed_to("a") is None
    breakers.begin("a", 60.0)
    assert "being tried again" in breakers.closed_to("a")
    breakers.failed("a", AgentTransient("503"))
    assert "resting" in breakers.closed_to("a"), "one failed probe is enough to rest again"
    clock.now += OPEN_S
    breakers.begin("a", 60.0)
    breakers.succeeded("a")
    assert breakers.closed_to("a") is None and breakers.state("a").failures == 0


def test_a_success_forgets_failures_and_a_refused_request_proves_life():
    breakers = Breakers(Clock())
    for _ in range(FAILURES - 1):
        breakers.failed("a", AgentAmbiguous("cut"))
    breakers.failed("a", EmptyReply("nothing"))
    for _ in range(FAILURES - 1):
        breakers.failed("a", AgentTransient("503"))
    assert breakers.closed_to("a") is None


@pytest.mark.parametrize(
    "error", [AuthFailed("key"), QuotaExhausted("empty"), AgentTransient("429", retry_after=100.0)]
)
def test_what_cannot_get_better_soon_opens_at_once(error):
    clock = Clock()
    breakers = Breakers(clock)
    breakers.failed("a", error)
    assert breakers.closed_to("a") is not None
    assert breakers.state("a").seconds == max(OPEN_S, error.retry_after or 0)


def test_a_stopped_probe_leaves_room_for_the_next():
    clock = Clock()
    breakers = Breakers(clock)
    breakers.failed("a", AuthFailed("key"))
    clock.now += OPEN_S
    breakers.begin("a", 60.0)
    breakers.abandoned("a")
    assert breakers.closed_to("a") is None


def test_a_probe_that_never_reports_does_not_close_for_ever():
    clock = Clock()
    breakers = Breakers(clock)
    breakers.failed("a", AuthFailed("key"))
    clock.now += OPEN_S
    breakers.begin("a", 60.0)
    clock.now += 61
    assert breakers.closed_to("a") is None


# -- channel ---------------------------------------------------------------------------------------------------


async def test_a_channel_never_holds_more_than_its_limit_and_serves_in_order():
    channel, order, most = Channel("p", start=3), [], 0

    async def one(number):
        nonlocal most
        async with channel.slot(Deadline.after(5)):
            order.append(number)
            most = max(most, channel.active)
            await asyncio.sleep(0.005)

    await asyncio.gather(*(one(number) for number in range(12)))
    assert most == 3 and order == list(range(12)) and channel.active == 0


async def test_a_waiter_that_gives_up_takes_no_place():
    channel = Channel("p", start=1)
    async with channel.slot(Deadline.after(5)):
        with pytest.raises(DeadlineExceeded, match="busy"):
            async with channel.slot(Deadline.after(0.05)):
                pass
        slot = channel.slot(Deadline.after(5))
        waiting = asyncio.create_task(slot.__aenter__())
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert channel.active == 0
    async with channel.slot(Deadline.after(0.05)):
        assert channel.active == 1


async def test_a_place_handed_to_one_who_was_cancelled_goes_on_to_the_next():
    channel = Channel("p", start=1)
    slots = [channel.slot(Deadline.after(5)) for _ in range(3)]
    first = slots[0]
    await first.__aenter__()
    second, third = (asyncio.create_task(slot.__aenter__()) for slot in slots[1:])
    await asyncio.sleep(0.01)
    await first.__aexit__(None, None, None)  # hands over on the next tick …
    second.cancel()  # … to one who leaves in the meantime
    await asyncio.wait_for(third, 1.0)
    assert channel.active == 1


def test_a_clean_round_doubles_and_a_burst_of_refusals_cuts_once():
    clock = Clock()
    channel = Channel("p", clock, start=10)
    for _ in range(10):
        channel.succeeded()
    assert channel.limit == 20
    channel.active = 20
    for _ in range(5):
        channel.throttled(None)
    assert channel.limit == 16
    for _ in range(100):
        channel.succeeded()
    assert channel.limit == 16, "no growth while it cools"
    clock.now += COOLDOWN_S
    for _ in range(16):
        channel.succeeded()
    assert channel.limit == 32
    for _ in range(10_000):
        channel.succeeded()
    assert channel.limit == MOST


async def test_a_pause_that_outlasts_the_deadline_is_a_failure_now():
    channel = Channel("p")
    channel.throttled(20.0)
    with pytest.raises(AgentTransient, match="pause"):
        async with channel.slot(Deadline.after(0.5)):
            pass


async def test_a_channel_is_shared_between_threads():
    channel, seen = Channel("p", start=2), []

    async def many():
        async def one():
            async with channel.slot(Deadline.after(10)):
                seen.append(channel.active)
                await asyncio.sleep(0.001)

        await asyncio.gather(*(one() for _ in range(20)))

    await asyncio.gather(*(asyncio.to_thread(asyncio.run, many()) for _ in range(3)))
    assert len(seen) == 60 and max(seen) <= 2 and channel.active == 0


# -- caps and keys -----------------------------------------------------------------------------------------------


def test_which_caps_count_for_whom():
    caps = Caps(2.0, 10.0, 1.0, process="serve")
    names = {
        "local": Account("q", 0.5),
        "owner": Account("q", 0.5, owner="ann", address="10.0.0.1"),
        "visitor": Account("q", 0.5, owner="x", address="10.0.0.1", public=True),
        "run": Account("q", 0.5, run="r1"),
    }
    scopes = {who: [cap.scope for cap in caps.of_call(account, 86_400.0 * 3)] for who, account in names.items()}
    assert scopes == {
        "local": ["question", "process_day"],
        "owner": ["question", "owner_day", "process_day"],
        "visitor": ["question", "owner_day", "public_day", "address_day", "process_day"],
        "run": ["question", "run", "process_day"],
    }


def test_no_owner_and_no_address_is_in_a_caps_key_and_days_differ():
    caps, account = Caps(2.0, 10.0, 1.0), Account("q", 0.5, owner="ann", address="198.51.100.7", public=True)
    today, tomorrow = (caps.of_call(account, 86_400.0 * day) for day in (3, 4))
    keys = [cap.key for cap in today]
    assert not any("ann" in key or "198.51" in key for key in keys)
    assert {c.key for c in today if c.scope.endswith("_day")}.isdisjoint(c.key for c in tomorrow)


def talk(text="q", **fields) -> Request:
    return Request(Role.WORKER, Transcript(text), (Message("user", text),), "", 0, 1.0, **fields)


def test_the_key_holds_everything_that_was_asked_and_nothing_random():
    agent = LlmAgent("a", "openai/x")
    key = request_key(agent, request())
    assert key == request_key(agent, request(nonce="other")) == request_key(agent, replace(request(), timeout_s=1.0))
    other_agents = [
        LlmAgent("b", "openai/x"),
        LlmAgent("a", "openai/y"),
        LlmAgent("a", "openai/x", api_base="http://h"),
    ]
    other_agents.append(LlmAgent("a", "openai/x", options=LlmOptions(temperature=0.5)))
    keys = [request_key(other, request()) for other in other_agents]
    keys += [request_key(agent, other) for other in (request("other"), request(sample=1))]
    keys.append(request_key(agent, replace(request(), max_tokens=7)))
    keys.append(request_key(agent, replace(request(), messages=(*request().messages, Message("user", "more")))))
    assert len({key, *keys}) == 1 + len(keys)


def test_a_tools_key_holds_the_transcript_it_reads():
    tool = ScriptedAgent("tool", "x")
    turn = Turn(1, Role.WORKER, "a", 1, "m", "text")
    with_turn = replace(talk(), transcript=Transcript("q", (turn,)))
    other_turn = replace(talk(), transcript=Transcript("q", (replace(turn, text="other"),)))
    keys = {request_key(tool, what) for what in (talk(), with_turn, other_turn, talk(sample=1))}
    assert len(keys) == 4


def test_only_a_providers_model_at_temperature_0_is_repeatable():
    assert is_repeatable(LlmAgent("a", "openai/x"), request())
    assert not is_repeatable(LlmAgent("a", "openai/x", options=LlmOptions(temperature=None)), request())
    assert not is_repeatable(LlmAgent("a", "openai/x", options=LlmOptions(temperature=0.7)), request())
    assert not is_repeatable(ScriptedAgent("tool", "x"), request())


def test_text_that_is_not_text_still_has_a_key():
    assert len(request_key(LlmAgent("a", "openai/x"), request("half a \ud83d and \x00"))) == 64


# -- the caller around agents of this process ----------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    with open_book(tmp_path) as book:
        yield book


def test_the_caller_is_one(store, tmp_path):
    assert isinstance(LedgerCaller(store, settings(tmp_path)), Caller)


async def test_free_agents_take_the_same_path_at_no_cost(store, tmp_path):
    calls = caller(store, tmp_path)
    answer = await ask(calls, ScriptedAgent("tool", Say(("4", "2"), usage=Usage(3, 2))))
    calls.flush()
    total = store.spend.total()
    assert answer.text == "42" and answer.settled.first_token_s is not None
    assert (total.calls, total.settled, total.usd, total.completion_tokens) == (1, 1, 0.0, 2)


async def test_an_agent_that_breaks_the_rules_is_a_failure_not_a_crash(store, tmp_path, caplog):
    class Broken(ScriptedAgent):
        async def reply(self, request):
            yield Delta("half")
            raise ZeroDivisionError("oops")

    with pytest.raises(AgentPermanent, match="ZeroDivisionError") as caught:
        await ask(caller(store, tmp_path), Broken("tool", "x"))
    assert caught.value.partial == "half" and "oops" in caplog.text


async def test_a_reply_without_its_end_is_ambiguous(store, tmp_path):
    class Unfinished(ScriptedAgent):
        async def reply(self, request):
            yield Delta("half")

    with pytest.raises(AgentAmbiguous, match="without the closing message"):
        await ask(caller(store, tmp_path), Unfinished("tool", "x"))


async def test_silence_of_a_tool_is_bounded_by_the_call_and_closes_it(store, tmp_path):
    tool = ScriptedAgent("tool", Hang(("so far",)))
    with pytest.raises(AgentAmbiguous, match="did not finish within") as caught:
        await ask(caller(store, tmp_path, TimeLimits(call_s=0.1, stall_s=0.01)), tool)
    assert caught.value.partial == "so far" and tool.cancelled == 1


async def test_a_slow_reader_costs_the_agent_nothing(store, tmp_path):
    calls = caller(store, tmp_path, TimeLimits(call_s=0.5, stall_s=0.05))
    stream = calls.stream(
        ScriptedAgent("tool", Say(("a", "b"))), request(), deadline=Deadline.after(5), account=Account("q", 1.0)
    )
    pieces = []
    async for piece in stream:
        pieces.append(piece)
        await asyncio.sleep(0.1)
    assert [p.text for p in pieces[:2]] == ["a", "b"]


async def test_retries_are_told_with_what_had_arrived(store, tmp_path):
    tool = ScriptedAgent("tool", [Fail(AgentTransient("busy"), first=("half",)), "whole"])
    answer = await ask(caller(store, tmp_path), tool)
    assert answer.text == "whole" and [(r.partial, r.tries) for r in answer.retries] == [("half", 1)]
    assert answer.settled.tries == 2


async def test_a_database_that_fails_stops_paid_calls_before_they_are_sent(store, tmp_path, monkeypatch):
    agent = ScriptedAgent("paid", "x", free=False)
    agent.price = Price.per_million(1.0, 1.0)

    def broken(_):
        raise StoreError("disk full")

    monkeypatch.setattr(store.ledger, "_transact", broken)
    with pytest.raises(StoreError, match="disk full"):
        await ask(caller(store, tmp_path), agent)
    assert agent.calls == 0


async def test_stopping_while_reserving_gives_the_money_back(store, tmp_path, monkeypatch):
    agent, gate = ScriptedAgent("paid", "x", free=False), threading.Event()
    agent.price = Price.per_million(1.0, 1.0)
    write = store.ledger._transact
    monkeypatch.setattr(store.ledger, "_transact", lambda moves: gate.wait(5) and write(moves))
    calls = caller(store, tmp_path)
    task = asyncio.create_task(ask(calls, agent))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.set()
    await asyncio.sleep(0.1)
    calls.flush()
    total = store.spend.total()
    assert (total.calls, total.failed, total.usd, agent.calls) == (1, 1, 0.0, 0)


async def test_a_database_that_stays_busy_does_not_hold_a_question_past_its_time(store, tmp_path, monkeypatch):
    agent, gate = ScriptedAgent("paid", "x", free=False), threading.Event()
    agent.price = Price.per_million(1.0, 1.0)
    write = store.ledger._transact
    monkeypatch.setattr(store.ledger, "_transact", lambda moves: gate.wait(5) and write(moves))
    calls = caller(store, tmp_path)
    with pytest.raises(DeadlineExceeded, match="database was busy"):
        await ask(calls, agent, seconds=0.2)
    gate.set()
    await asyncio.sleep(0.1)
    calls.flush()
    assert (store.spend.total().failed, store.spend.total().usd, agent.calls) == (1, 0.0, 0)


def test_channels_report_for_the_pool_page():
    channels = Channels()
    assert channels["p"] is channels["p"] and channels["q"] is not channels["p"]
    assert set(channels.report()) == {"p", "q"}


async def test_a_memory_that_fails_or_hangs_costs_the_saving_not_the_answer(store, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("core.calls.cache.LOOKUP_S", 0.1)

    def broken(key):
        raise StoreError("disk full")

    def hangs(key):
        time.sleep(0.5)

    for lookup in (broken, hangs):
        monkeypatch.setattr(store.replies, "get", lookup)
        answer = await ask(caller(store, tmp_path, replay=True), ScriptedAgent("tool", "four"))
        assert answer.text == "four" and not answer.settled.cached
    assert "disk full" in caplog.text and "busy" in caplog.text
