"""The run manager: runs outlive pages, stop cleanly, are written down, and stay within bounds."""

import asyncio
import itertools
import time
from dataclasses import replace

import pytest

from core.coordinator import QUESTION_CHARS
from core.errors import ConfigError, NotOwner, StoreError
from core.events import Finished, TextDelta, TurnStarted
from core.types import Limits, Status
from tests.e2e.scripted import SCRIPTS, ScriptedTeam
from tests.web_suite import site_in
from webapp import runs as runs_module
from webapp.asked import from_run
from webapp.limits import Buckets
from webapp.options import Asker, Options
from webapp.ownership import new_owner
from webapp.questions import Refused


@pytest.fixture
def team():
    return ScriptedTeam(SCRIPTS)


@pytest.fixture
async def site(tmp_path, team):
    site = site_in(tmp_path, team)
    yield site
    await site.close()


ME, OTHER = new_owner(), new_owner()


async def finished(site, run):
    async for _ in site.runs.follow(run):
        pass
    assert run.done
    return run.live.trace


async def test_a_question_is_answered_and_kept(site):
    run = await site.runs.ask(Asker(ME), "", "What is 17*23+4?")
    trace = await finished(site, run)
    assert trace.status is Status.ACCEPTED and "395" in trace.answer
    stored = site.store.conversations.get(ME, run.conversation)
    (question,) = stored.questions
    assert question.answer == trace.answer and len(question.turns) == 3
    assert question.checkpoint == "scripted-1" and question.cost_usd == pytest.approx(trace.cost_usd)


async def test_the_run_goes_on_without_followers_and_is_joined_in_the_middle(site):
    run = await site.runs.ask(Asker(ME), "", "steady please")
    async for _ in site.runs.follow(run):
        if run.live.draft:
            break
    await asyncio.sleep(0.05)
    assert not run.done and run.followers == 0
    assert site.runs.latest(ME, run.conversation) is run and site.runs.running(ME) == [run]
    traces = await asyncio.gather(*(finished(site, run) for _ in range(3)))
    assert {trace.status for trace in traces} == {Status.ACCEPTED}
    assert site.runs.running(ME) == []


async def test_updates_are_coalesced(site):
    run = await site.runs.ask(Asker(ME), "", "steady please")  # 30 words, 80 ms apart, then a verdict
    times = []
    async for _ in site.runs.follow(run):
        times.append(time.monotonic())
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert min(gaps) >= runs_module.UPDATE_S * 0.9
    assert len(times) < 60


async def test_each_turn_is_written_as_it_ends(site):
    run = await site.runs.ask(Asker(ME), "", "slow please")
    async for _ in site.runs.follow(run):
        if len(run.live.turns) == 2:
            break
    (question,) = site.store.conversations.get(ME, run.conversation).questions
    assert question.status is None and [turn.agent for turn in question.turns] == ["planner"]
    site.runs.stop(ME, run.conversation)
    await finished(site, run)


async def test_stop_reaches_the_team_and_keeps_the_text(site, team):
    run = await site.runs.ask(Asker(ME), "", "slow please")
    async for _ in site.runs.follow(run):
        if run.live.draft and len(run.live.draft) > 20:
            break
    began = time.monotonic()
    site.runs.stop(ME, run.conversation)
    trace = await finished(site, run)
    assert time.monotonic() - began < 2
    assert trace.status is Status.STOPPED and trace.answer.startswith("word0 word1") and team.stopped == 1
    assert site.store.questions.get(ME, run.record.question_id).status is Status.STOPPED


async def test_a_team_that_does_not_stop_is_cancelled(site, team, monkeypatch):
    monkeypatch.setattr(runs_module, "STOP_GRACE_S", 0.2)

    async def deaf(question, **_):
        from core.events import TurnStarted

        yield TurnStarted(1)
        await asyncio.sleep(600)

    team.run = deaf
    run = await site.runs.ask(Asker(ME), "", "hello")
    await asyncio.sleep(0.05)
    site.runs.stop(ME, run.conversation)
    trace = await finished(site, run)
    assert trace.status is Status.STOPPED and trace.answer is None
    assert site.store.questions.get(ME, run.record.question_id).status is Status.STOPPED


async def test_a_second_question_waits_its_turn_and_sees_the_first(site, team):
    first = await site.runs.ask(Asker(ME), "", "steady please")
    with pytest.raises(Refused) as refused:
        await site.runs.ask(Asker(ME), first.conversation, "another")
    assert refused.value.code == "busy_conversation"
    await finished(site, first)
    second = await site.runs.ask(Asker(ME), first.conversation, "and then?")
    await finished(site, second)
    assert [m.content[:6] for m in team.seen[-1]["history"]] == ["steady", "step0 "]


async def test_a_retry_takes_the_place_of_the_question(site, team):
    first = await site.runs.ask(Asker(ME), "", "What is 2+2?")
    await finished(site, first)
    again = Options(replaces=first.record.question_id)
    second = await site.runs.ask(Asker(ME), first.conversation, "What is 2+2?", again)
    await finished(site, second)
    assert team.seen[-1]["history"] == ()
    questions = site.store.conversations.get(ME, first.conversation).questions
    assert [(q.position, q.replaces) for q in questions] == [(1, None), (1, first.record.question_id)]


async def test_two_sends_at_once_start_one_run(site):
    first = await site.runs.ask(Asker(ME), "", "hello")
    await finished(site, first)
    results = await asyncio.gather(
        *(site.runs.ask(Asker(ME), first.conversation, "steady please") for _ in range(5)), return_exceptions=True
    )
    assert sum(isinstance(result, Refused) for result in results) == 4


async def test_strangers_neither_ask_stop_nor_see(site):
    run = await site.runs.ask(Asker(ME), "", "steady please")
    assert site.runs.latest(OTHER, run.conversation) is None and site.runs.running(OTHER) == []
    with pytest.raises(NotOwner):
        site.runs.stop(OTHER, run.conversation)
    with pytest.raises(NotOwner):
        site.runs.forget(OTHER, run.conversation)
    with pytest.raises(NotOwner):
        await site.runs.ask(Asker(OTHER), run.conversation, "hello")
    await finished(site, run)
    with pytest.raises(NotOwner):
        await site.runs.ask(Asker(OTHER), run.conversation, "hello")
    assert site.runs.latest(ME, run.conversation) is run


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ("", "question_empty"),
        (" \n\t ", "question_empty"),
        ("\u200b", "question_empty"),
        ("\ufeff \u200b", "question_empty"),
        ("x" * (QUESTION_CHARS + 1), "question_long"),
        ("a\x00b", "question_nul"),
        ("a\ud83d", "question_half"),
    ],
)
async def test_what_is_no_question_is_refused_before_anything_is_made(site, question, code):
    with pytest.raises(Refused) as refused:
        await site.runs.ask(Asker(ME), "", question)
    assert refused.value.code == code
    assert site.store.conversations.list(ME) == () and site.runs.running(ME) == []


async def test_limits_by_owner_address_and_number(tmp_path, team):
    site = site_in(tmp_path, team)
    site.runs._by_owner = Buckets(burst=4, refill_s=60)
    site.runs._by_address = Buckets(burst=6, refill_s=60)
    for _ in range(3):
        await site.runs.ask(Asker(ME, "1.1.1.1"), "", "slow please")
    with pytest.raises(Refused) as refused:
        await site.runs.ask(Asker(ME, "1.1.1.1"), "", "slow please")
    assert refused.value.code == "busy_owner"
    for run in site.runs.running(ME):
        site.runs.stop(ME, run.conversation)
        await finished(site, run)
    await finished(site, await site.runs.ask(Asker(ME, "1.1.1.1"), "", "hello"))
    with pytest.raises(Refused) as refused:
        await site.runs.ask(Asker(ME, "1.1.1.1"), "", "hello")
    assert refused.value.code == "too_fast" and 1 <= refused.value.values["seconds"] <= 60
    await finished(site, await site.runs.ask(Asker(OTHER, "1.1.1.1"), "", "hello"))
    with pytest.raises(Refused):  # the address has had its six
        for _ in range(2):
            await finished(site, await site.runs.ask(Asker(OTHER, "1.1.1.1"), "", "hello"))
    await site.close()


async def test_a_store_that_fails_costs_the_record_and_not_the_answer(site, monkeypatch):
    def broken(*_, **__):
        raise StoreError("The database has no room left.")

    monkeypatch.setattr(type(site.store.questions), "start", broken)
    run = await site.runs.ask(Asker(ME), "", "What is 17*23+4?")
    trace = await finished(site, run)
    assert "395" in trace.answer
    assert from_run(run).unsaved == "The database has no room left."


async def test_a_store_that_fails_in_the_middle_is_tried_again_at_the_end(site, monkeypatch):
    def broken(*_):
        raise StoreError("locked")

    monkeypatch.setattr(type(site.store.questions), "add_turn", broken)
    run = await site.runs.ask(Asker(ME), "", "What is 17*23+4?")
    await finished(site, run)
    assert run.record.problem == "locked"
    assert len(site.store.questions.get(ME, run.record.question_id).turns) == 3


async def test_a_team_that_breaks_ends_with_an_incident_and_no_details(site, team, caplog):
    def broken(question, **_):
        raise RuntimeError("secret detail")

    team.run = broken
    run = await site.runs.ask(Asker(ME), "", "hello")
    trace = await finished(site, run)
    assert trace.status is Status.FAILED and "incident" in trace.note and "secret" not in trace.note
    assert site.store.questions.get(ME, run.record.question_id).status is Status.FAILED


async def test_a_team_that_cannot_load_is_a_failed_question_and_is_tried_again(tmp_path, team):
    tries = []

    def loader(pool, checkpoint):
        tries.append(pool)
        if len(tries) == 1:
            raise ConfigError("The backbone is not there; run `trinity backbone install`.")
        return team

    site = site_in(tmp_path, team)
    site.teams._loader = loader
    trace = await finished(site, await site.runs.ask(Asker(ME), "", "hello"))
    assert trace.status is Status.FAILED and "backbone install" in trace.note
    assert (await finished(site, await site.runs.ask(Asker(ME), "", "hello"))).status is Status.ACCEPTED
    await site.close()


async def test_stop_while_the_team_still_loads(tmp_path, team):
    def slow(pool, checkpoint):
        time.sleep(1.0)
        return team

    site = site_in(tmp_path, team)
    site.teams._loader = slow
    run = await site.runs.ask(Asker(ME), "", "hello")
    await asyncio.sleep(0.1)
    assert run.loading
    site.runs.stop(ME, run.conversation)
    trace = await finished(site, run)
    assert trace.status is Status.STOPPED and time.time() - run.started < 0.9
    await site.close()


async def test_orphans_are_stopped(tmp_path, team):
    site = site_in(tmp_path, team)
    site.runs._orphan_s = 0.3
    run = await site.runs.ask(Asker(ME), "", "slow please")
    async with asyncio.timeout(5):
        await run.task
    assert run.live.trace.status is Status.STOPPED
    await site.close()


async def test_memory_is_bounded(site, monkeypatch):
    monkeypatch.setattr(runs_module, "KEEP_RUNS", 3)
    site.runs._by_owner = site.runs._by_address = Buckets(burst=1000, refill_s=1)
    for _ in range(8):
        await finished(site, await site.runs.ask(Asker(ME), "", "poem please"))
    assert len(site.runs._runs) <= 4


async def test_closing_writes_down_what_runs(tmp_path, team):
    site = site_in(tmp_path, team)
    run = await site.runs.ask(Asker(ME), "", "slow please")
    await asyncio.sleep(0.3)
    await site.runs.close()
    assert run.done and site.store.questions.get(ME, run.record.question_id).status is Status.STOPPED
    site.store.close()


async def test_a_deleted_conversation_ends_its_run(site):
    run = await site.runs.ask(Asker(ME), "", "slow please")
    await asyncio.sleep(0.2)
    site.runs.forget(ME, run.conversation)
    site.store.conversations.delete(ME, run.conversation)
    await finished(site, run)
    assert site.runs.latest(ME, run.conversation) is None and "deleted" in run.record.problem


async def test_limits_and_exclusions_reach_the_team(site, team):
    options = Options(limits=Limits(max_turns=2, usd=0.1), exclude=("checker",))
    await finished(site, await site.runs.ask(Asker(ME), "", "hello", options))
    assert team.seen[-1]["limits"].max_turns == 2 and team.seen[-1]["exclude"] == ("checker",)


async def test_twenty_questions_at_once_do_not_mix(site, team):
    real = team.run

    async def echo(question, **given):
        async for event in real(question, **given):
            if isinstance(event, TurnStarted | TextDelta):
                await asyncio.sleep(0.01)
            if isinstance(event, Finished):
                event = Finished(replace(event.trace, answer=question))
            yield event

    team.run = echo
    owners = [new_owner() for _ in range(20)]
    runs = await asyncio.gather(
        *(site.runs.ask(Asker(owner, f"10.0.0.{n}"), "", f"question {n}") for n, owner in enumerate(owners))
    )
    traces = await asyncio.gather(*(finished(site, run) for run in runs))
    assert [trace.answer for trace in traces] == [f"question {n}" for n in range(20)]
    for n, (owner, run) in enumerate(zip(owners, runs, strict=True)):
        (question,) = site.store.conversations.get(owner, run.conversation).questions
        assert (question.text, question.answer) == (f"question {n}", f"question {n}")
