"""The call path over real HTTP: retries, deadlines, breaker, caps, cache, and the ledger's figures against the
provider's own."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from email.utils import formatdate

import pytest

from core.calls.attempt import TimeLimits
from core.calls.base import Account
from core.calls.concurrency import Channels
from core.errors import (
    AgentAmbiguous,
    AgentTransient,
    AuthFailed,
    BudgetExceeded,
    DeadlineExceeded,
    EmptyReply,
    PromptTooLong,
    QuotaExhausted,
)
from tests.providers import FaultProvider, Step
from tests.providers.rig import CANARY, PRICE, ask, caller, llm, open_book, request

COST = 12 * 10e-6 + 5 * 100e-6  # of the provider's standard answer


@pytest.fixture
def store(tmp_path):
    with open_book(tmp_path) as book:
        yield book


@pytest.fixture
def provider():
    with FaultProvider() as running:
        yield running


def spent(store, calls) -> float:
    calls.flush()
    return store.spend.total().usd


# -- retries ---------------------------------------------------------------------------------------------------


async def test_429_with_retry_after_is_waited_out(provider, store, tmp_path):
    provider.script = [Step(status=429, headers={"Retry-After": "1"}), Step()]
    calls = caller(store, tmp_path)
    answer = await ask(calls, llm(provider))
    first, second = provider.seen
    assert answer.text == "It is four." and answer.settled.tries == 2
    assert second.at - first.at >= 1.0 and answer.retries[0].wait_s >= 1.0
    assert spent(store, calls) == pytest.approx(COST)


async def test_retry_after_as_a_date(provider, store, tmp_path):
    provider.script = [Step(status=503, headers={"Retry-After": formatdate(time.time() + 2, usegmt=True)}), Step()]
    answer = await ask(caller(store, tmp_path), llm(provider))
    assert 0.5 < answer.retries[0].wait_s <= 2.0 and answer.text == "It is four."


async def test_retry_after_of_an_hour_rests_the_agent_instead_of_sleeping(provider, store, tmp_path):
    provider.script = Step(status=429, headers={"Retry-After": "3600"})
    calls, agent = caller(store, tmp_path), llm(provider)
    with pytest.raises(AgentTransient):
        await ask(calls, agent)
    assert len(provider.seen) == 1 and "resting for" in calls.closed_to(agent)
    assert calls.breakers.state("alpha").seconds > 3000


async def test_a_wait_that_outlasts_the_deadline_is_not_begun(provider, store, tmp_path):
    provider.script = Step(status=429, headers={"Retry-After": "20"})
    started = time.monotonic()
    with pytest.raises(AgentTransient):
        await ask(caller(store, tmp_path), llm(provider), seconds=5.0)
    assert time.monotonic() - started < 5.0 and len(provider.seen) == 1


async def test_transient_failures_are_tried_four_times(provider, store, tmp_path):
    provider.script = Step(status=503)
    with pytest.raises(AgentTransient) as caught:
        await ask(caller(store, tmp_path), llm(provider))
    assert len(provider.seen) == 4 and caught.value.tries == 4


async def test_quota_is_asked_once_and_masks_the_agent(provider, store, tmp_path):
    provider.script = Step(status=429, error="insufficient_quota", message="You exceeded your current quota")
    calls, agent = caller(store, tmp_path), llm(provider)
    with pytest.raises(QuotaExhausted):
        await ask(calls, agent)
    assert len(provider.seen) == 1 and "no credit" in calls.closed_to(agent)
    with pytest.raises(AgentTransient, match="resting"):
        await ask(calls, agent)
    assert len(provider.seen) == 1


async def test_a_wrong_key_is_asked_once_and_never_shown(provider, store, tmp_path, caplog):
    provider.script = Step(status=401, message=f"Incorrect API key provided: {CANARY}")
    calls, agent = caller(store, tmp_path), llm(provider)
    with pytest.raises(AuthFailed) as caught:
        await ask(calls, agent)
    calls.flush()
    stored = (tmp_path / "book.sqlite3").read_bytes() + (tmp_path / "book.sqlite3-wal").read_bytes()
    assert len(provider.seen) == 1
    assert CANARY not in str(caught.value) + calls.closed_to(agent) + caplog.text and CANARY.encode() not in stored


@pytest.mark.parametrize("fault", [{"cut_after": 3}, {"eof_after": 3}, {"error_after": 3}, {"stall_after": 3}])
async def test_a_cut_stream_is_retried_once_and_both_are_counted(fault, provider, store, tmp_path):
    provider.script = [Step(**fault), Step()]
    calls = caller(store, tmp_path, TimeLimits(stall_s=0.5))
    answer = await ask(calls, llm(provider))
    calls.flush()
    total = store.spend.total()
    assert answer.text == "It is four." and answer.retries[0].partial == "It is four"
    assert answer.retries[0].cost_usd is None
    assert (total.calls, total.in_doubt, len(provider.seen)) == (2, 1, 2)
    assert total.usd > COST and total.usd_in_doubt == pytest.approx(total.usd - COST)


async def test_an_ambiguous_failure_is_not_tried_a_third_time(provider, store, tmp_path):
    provider.script = Step(cut_after=3)
    calls = caller(store, tmp_path)
    with pytest.raises(AgentAmbiguous) as caught:
        await ask(calls, llm(provider))
    calls.flush()
    assert len(provider.seen) == 2 and caught.value.partial == "It is four"
    assert store.spend.total().in_doubt == 2


async def test_a_prompt_that_is_too_long_and_an_empty_reply_are_not_retried(provider, store, tmp_path):
    calls = caller(store, tmp_path)
    provider.script = Step(status=400, message="This model's maximum context length is 100 tokens")
    with pytest.raises(PromptTooLong):
        await ask(calls, llm(provider))
    assert spent(store, calls) == 0.0
    provider.script = Step(null_content=True)
    with pytest.raises(EmptyReply):
        await ask(calls, llm(provider))
    assert len(provider.seen) == 2 and spent(store, calls) == pytest.approx(COST)


async def test_a_refused_parameter_costs_one_more_request_and_no_rest(provider, store, tmp_path):
    words = "Unsupported value: 'temperature' does not support 0 with this model."
    provider.script = lambda _, body: Step(status=400, message=words) if "temperature" in body else Step()
    calls, agent = caller(store, tmp_path), llm(provider)
    answer = await ask(calls, agent)
    assert answer.settled.tries == 2 and calls.breakers.state("alpha").failures == 0
    assert (await ask(calls, agent)).settled.tries == 1


# -- time ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step", [Step(hang=True), Step(drip_s=0.4), Step(stall_after=2)], ids=["hang", "drip", "stall"]
)
async def test_the_deadline_holds_whatever_the_provider_does(step, provider, store, tmp_path):
    provider.script = step
    calls = caller(store, tmp_path)
    await llm(provider).prepare()  # the library's import is not the provider's time
    started = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        await ask(calls, llm(provider), seconds=1.5)
    assert time.monotonic() - started < 2.5
    calls.flush()
    assert store.spend.total().in_doubt == 1
    assert await asyncio.to_thread(provider.wait_until, lambda: provider.seen[-1].aborted)


async def test_one_call_may_not_eat_the_whole_question(provider, store, tmp_path):
    provider.script = Step(chunks=("a ",) * 1000, pause_s=0.05)
    calls = caller(store, tmp_path, TimeLimits(call_s=0.7))
    with pytest.raises(AgentAmbiguous, match="did not finish within") as caught:
        await ask(calls, llm(provider), seconds=30.0)
    assert caught.value.partial.startswith("a a") and len(provider.seen) == 1


async def test_an_endless_reply_is_cut_and_its_provider_left(provider, store, tmp_path):
    provider.script = Step(chunks=("x" * 50_000,) * 100)
    with pytest.raises(AgentAmbiguous, match="would not stop") as caught:
        await ask(caller(store, tmp_path), llm(provider))
    assert len(provider.seen) == 1 and len(caught.value.partial) == 40_000


async def test_stopping_ends_the_stream_and_stays_reserved(provider, store, tmp_path):
    provider.script = Step(chunks=("a ",) * 1000, pause_s=0.05)
    calls = caller(store, tmp_path)
    task = asyncio.create_task(ask(calls, llm(provider)))
    await asyncio.to_thread(provider.wait_until, lambda: bool(provider.seen))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(provider.wait_until, lambda: provider.seen[-1].aborted)
    calls.flush()
    total = store.spend.total()
    assert (total.calls, total.in_doubt) == (1, 1) and total.usd > 0


# -- breaker and channels ----------------------------------------------------------------------------------------


async def test_five_failures_in_a_row_rest_the_agent_and_one_probe_brings_it_back(provider, store, tmp_path):
    provider.script = Step(status=503)
    calls, agent = caller(store, tmp_path), llm(provider)
    for _ in range(2):
        with pytest.raises(AgentTransient):
            await ask(calls, agent)
    assert len(provider.seen) == 5 and calls.breakers.state("alpha").state == "open"
    provider.script = Step()
    calls.breakers._states["alpha"].open_until = time.monotonic() - 1  # the rest is over
    assert calls.closed_to(agent) is None
    assert (await ask(calls, agent)).text == "It is four."
    assert calls.breakers.state("alpha").failures == 0


async def test_parallel_questions_share_the_providers_pause(provider, store, tmp_path):
    provider.script = lambda index, _: Step(status=429, headers={"Retry-After": "1"}) if index == 0 else Step()
    channels = Channels()
    calls = [caller(store, tmp_path, channels=channels) for _ in range(2)]
    agent = llm(provider)
    first = asyncio.create_task(ask(calls[0], agent))
    await asyncio.to_thread(provider.wait_until, lambda: bool(provider.seen) and provider.seen[0].completed)
    await asyncio.sleep(0.1)
    await asyncio.gather(first, *(ask(calls[i % 2], agent) for i in range(4)))
    assert min(seen.at for seen in provider.seen[1:]) - provider.seen[0].at >= 0.95


async def test_fifty_calls_to_a_one_second_provider_run_together(provider, store, tmp_path):
    provider.script = Step(delay_s=1.0)
    calls, agent = caller(store, tmp_path, process_usd_per_day=100.0), llm(provider)
    await agent.prepare()
    account = Account("q", 100.0)
    started = time.monotonic()
    answers = await asyncio.gather(*(ask(calls, agent, account=account) for _ in range(50)))
    elapsed = time.monotonic() - started
    assert {answer.text for answer in answers} == {"It is four."}
    assert max(seen.at for seen in provider.seen) - min(seen.at for seen in provider.seen) < 1.0, "not all at once"
    assert elapsed < 6.0  # under 2 s on a quiet machine (`trinity bench calls`); neighbours are allowed for here


# -- caps --------------------------------------------------------------------------------------------------------


async def test_a_call_that_could_cost_more_than_is_left_is_not_sent(provider, store, tmp_path):
    calls = caller(store, tmp_path)
    with pytest.raises(BudgetExceeded, match=r"could cost up to \$0\.4.* \$0\.0100 of the \$0\.01 for this question"):
        await ask(calls, llm(provider), account=Account("q", 0.01))
    assert provider.seen == [] and spent(store, calls) == 0.0


async def test_fifty_parallel_questions_cannot_overshoot_a_cap(provider, store, tmp_path):
    provider.script = Step(delay_s=0.05)
    agent = llm(provider)
    worst = PRICE.at_most(*agent.bound(request()))
    calls = caller(store, tmp_path, process_usd_per_day=3.5 * worst)
    results = await asyncio.gather(
        *(ask(calls, agent, account=Account(f"q{i}", 5.0)) for i in range(50)), return_exceptions=True
    )
    answered = [r for r in results if not isinstance(r, BaseException)]
    assert len(answered) == len(provider.seen) == 3
    assert all(isinstance(r, BudgetExceeded) for r in results if isinstance(r, BaseException))
    assert spent(store, calls) == pytest.approx(3 * COST)


@pytest.mark.parametrize(
    ("caps", "account", "whose"),
    [
        ({"user_usd_per_day": 0.6}, Account("q", 5.0, owner="ann"), "a day for each user"),
        ({"process_usd_per_day": 0.6}, Account("q", 5.0), "a day for this program"),
        ({"public_usd_per_day": 0.6}, Account("q", 5.0, owner="ann", public=True), "a day for all visitors"),
        (
            {"public_usd_per_day": 5.0, "user_usd_per_day": 0.6},
            Account("q", 5.0, address="203.0.113.9", public=True),
            "a day for each address",
        ),
    ],
)
async def test_every_cap_counts_and_says_whose_it_is(caps, account, whose, provider, store, tmp_path):
    provider.script = Step(usage=None)  # every call counts at its worst case
    calls, agent = caller(store, tmp_path, **caps), llm(provider)
    await ask(calls, agent, account=account)
    with pytest.raises(BudgetExceeded, match=whose):
        await ask(calls, agent, account=replace(account, question="q2"))
    other = replace(account, question="q3", owner="bob", address="203.0.113.10")
    if "user" in whose or "address" in whose:
        await ask(calls, agent, account=other)  # another visitor is not in the way
    else:
        with pytest.raises(BudgetExceeded, match=whose):
            await ask(calls, agent, account=other)


async def test_visitors_get_free_agents_only_unless_money_is_set_aside(provider, store, tmp_path):
    calls, visitor = caller(store, tmp_path), Account("q", 5.0, owner="x", public=True)
    paid, free = llm(provider), llm(provider, free=True, price=None)
    assert "free agents only" in calls.closed_to(paid, visitor)
    assert calls.closed_to(free, visitor) is None and calls.closed_to(paid, Account("q", 5.0)) is None
    with pytest.raises(BudgetExceeded, match="visitors"):
        await ask(calls, paid, account=visitor)
    assert provider.seen == []
    assert (await ask(calls, free, account=visitor)).text == "It is four."
    calls.flush()
    assert (store.spend.total().calls, store.spend.total().usd) == (1, 0.0)


async def test_a_run_on_priced_agents_needs_its_own_cap(provider, store, tmp_path):
    account = Account("q", 5.0, run="r1")
    with pytest.raises(BudgetExceeded, match="--max-usd"):
        await ask(caller(store, tmp_path), llm(provider), account=account)
    provider.script = Step(usage=None)
    calls = caller(store, tmp_path, run_usd=0.6, process_usd_per_day=0.0)
    await ask(calls, llm(provider), account=account)
    with pytest.raises(BudgetExceeded, match="for this training run"):
        await ask(calls, llm(provider), account=replace(account, question="q2"))
    assert store.spend.by_run()[0].name == "r1"


async def test_an_unknown_price_is_refused_before_anything_is_sent(provider, store, tmp_path):
    calls, agent = caller(store, tmp_path), llm(provider, price=None)
    assert "price is not known" in calls.closed_to(agent)
    with pytest.raises(BudgetExceeded, match="price"):
        await ask(calls, agent)
    assert provider.seen == []


async def test_a_usage_that_was_not_reported_counts_at_its_worst_case(provider, store, tmp_path):
    provider.script = Step(usage=None)
    calls, agent = caller(store, tmp_path), llm(provider)
    answer = await ask(calls, agent)
    assert answer.settled.done.cost_usd is None
    assert spent(store, calls) == pytest.approx(PRICE.at_most(*agent.bound(request())), abs=1e-8)
    assert store.spend.total().unreported == 1


# -- cache -------------------------------------------------------------------------------------------------------


async def test_a_repeated_question_at_temperature_0_is_answered_from_memory(provider, store, tmp_path):
    provider.script = Step(reasoning=("hm",))
    calls, agent = caller(store, tmp_path, remember=True), llm(provider)
    first = await ask(calls, agent)
    calls.flush()
    again = await ask(calls, agent, request(nonce="another"))
    assert (again.text, again.reasoning, len(provider.seen)) == (first.text, first.reasoning, 1)
    assert again.settled.cached and again.settled.tries == 0 and again.settled.done.cost_usd == 0.0
    assert spent(store, calls) == pytest.approx(COST)
    kept = store.replies.statistics()
    assert (kept.kept, kept.hits) == (1, 1) and kept.saved / 1e9 == pytest.approx(COST)


@pytest.mark.parametrize(
    "change",
    [
        {"what": request("What is 2+3?")},
        {"name": "beta"},
        {"model": "openai/fault-2"},
    ],
)
async def test_anything_that_was_asked_differently_is_asked_again(change, provider, store, tmp_path):
    calls = caller(store, tmp_path, remember=True)
    await ask(calls, llm(provider))
    calls.flush()
    what = change.pop("what", None)
    await ask(calls, llm(provider, **change), what)
    assert len(provider.seen) == 2


@pytest.mark.parametrize(
    "step", [Step(finish="length"), Step(usage=None), Step(status=503), Step(null_content=True), Step(cut_after=3)]
)
async def test_incomplete_replies_are_never_remembered(step, provider, store, tmp_path):
    provider.script = step
    calls = caller(store, tmp_path, remember=True)
    await asyncio.gather(ask(calls, llm(provider)), return_exceptions=True)
    calls.flush()
    assert store.replies.statistics().kept == 0


async def test_random_draws_are_not_remembered_when_serving(provider, store, tmp_path):
    calls, agent = caller(store, tmp_path, remember=True), warm(provider)
    for _ in range(2):
        await ask(calls, agent)
        calls.flush()
    assert len(provider.seen) == 2


async def test_replay_gives_each_sample_its_own_draw_and_asks_for_none_twice(provider, store, tmp_path):
    provider.script = lambda index, _: Step(chunks=(f"draw {index}",))
    calls, agent = caller(store, tmp_path, replay=True), warm(provider)
    draws = [(await ask(calls, agent, request(sample=k))).text for k in range(3)]
    calls.flush()
    again = caller(store, tmp_path, replay=True)
    assert (
        [(await ask(again, agent, request(sample=k))).text for k in range(3)] == draws == ["draw 0", "draw 1", "draw 2"]
    )
    assert len(provider.seen) == 3


def warm(provider):
    from core.agents.llm import LlmOptions

    return llm(provider, options=LlmOptions(temperature=0.8))
