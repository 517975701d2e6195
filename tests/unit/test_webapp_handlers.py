"""The chat page's handlers without a browser: what is drawn when."""

import asyncio
import time

import pytest

from core.errors import ConfigError, StoreError
from tests.e2e.scripted import SCRIPTS, Line, ScriptedTeam
from tests.web_suite import request, site_in
from webapp.options import Asker, Options
from webapp.ownership import new_owner
from webapp.pages.chat_handlers import ChatHandlers

ME = new_owner()


@pytest.fixture
async def site(tmp_path):
    site = site_in(tmp_path, ScriptedTeam(SCRIPTS))
    await site.teams.settled()
    yield site
    await site.close()


async def told(updates):
    return [update async for update in updates]


def last(updates, name):
    return next(value for update in reversed(updates) if (value := getattr(update, name)) is not None)


async def test_a_question_that_ends_before_it_is_drawn_still_ends_on_the_page(site, monkeypatch):
    handlers = ChatHandlers(site)
    read = type(handlers._data).open

    async def slow(self, *args):
        opened = await read(self, *args)
        await asyncio.sleep(0.3)  # the run is over before its first picture is sent
        return opened

    for opened_late in (False, True):
        monkeypatch.setattr(type(handlers._data), "open", slow if opened_late else read)
        updates = await told(handlers.ask(ME, "", "en", "poem please", Options(), request(f"p{opened_late}")))
        assert last(updates, "running") is False
        assert last(updates, "chat")["questions"][0]["running"] is False
        assert last(updates, "history")["conversations"][0]["running"] is False


async def test_ask_empties_the_composer_and_draws_at_once(site):
    began = time.monotonic()
    stream = ChatHandlers(site).ask(ME, "", "en", "slow please", Options(), request())
    first = await anext(stream)
    assert time.monotonic() - began < 1.0
    assert first.typed == "" and first.running is True and first.place and first.chat["questions"][0]["running"]
    await stream.aclose()
    (run,) = site.runs.running(ME)
    assert not run.stopping  # the page went away, the run did not
    site.runs.stop(ME, run.conversation)


async def test_a_refusal_leaves_everything_as_it_is(site):
    (update,) = await told(ChatHandlers(site).ask(ME, "", "zh", "  ", Options(), request()))
    assert update.notice["text"] == "请先输入问题。"
    assert [name for name, value in vars(update).items() if value is not None] == ["notice"]


async def test_load_waits_for_the_team_and_says_so(tmp_path):
    team = ScriptedTeam(SCRIPTS)

    def slow(pool, checkpoint):
        time.sleep(0.4)
        return team

    site = site_in(tmp_path, team)
    site.teams._loader = slow
    updates = await told(ChatHandlers(site).load(ME, "", request(headers={"accept-language": "en"})))
    assert updates[0].header["state"] == "loading" and "being loaded" in updates[0].chat["banner"]["text"]
    assert updates[-1].header["state"] == "ready" and updates[-1].chat["banner"] is None
    assert [agent.name for agent in updates[-1].team.team.agents] == ["planner", "solver", "checker"]
    await site.close()


async def test_a_team_that_cannot_be_loaded_is_said_on_the_page(tmp_path):
    def broken(pool, checkpoint):
        raise ConfigError("The backbone is not there; run `trinity backbone install`.")

    site = site_in(tmp_path)
    site.teams._loader = broken
    updates = await told(ChatHandlers(site).load(ME, "", request()))
    assert updates[-1].header["state"] == "failed"
    assert "trinity backbone install" in updates[-1].chat["banner"]["text"]
    await site.close()


async def test_a_store_that_cannot_be_read_is_said_and_the_page_stays(site, monkeypatch):
    run = await site.runs.ask(Asker(ME), "", "poem please")
    await run.task

    def broken(*_, **__):
        raise StoreError("The database cannot be reached.")

    monkeypatch.setattr(type(site.store.conversations), "get", broken)
    monkeypatch.setattr(type(site.store.conversations), "list", broken)
    updates = await told(ChatHandlers(site).load(ME, "", request(query={"c": run.conversation})))
    assert "cannot be reached" in updates[0].chat["banner"]["text"]
    assert updates[0].chat["questions"][0]["plain"].startswith("Rain writes")  # still in memory
    event = {"action": "rename", "id": run.conversation, "title": "x"}
    monkeypatch.setattr(type(site.store.conversations), "rename", broken)
    (update,) = await told(ChatHandlers(site).history_action(ME, run.conversation, "en", event, request()))
    assert "could not be saved" in update.notice["text"]


async def test_a_crash_leaves_an_interrupted_question_that_can_be_retried(site, tmp_path):
    team = ScriptedTeam({"hello": (Line(*(next(iter(SCRIPTS["poem"])).role, "solver", "done")),)})
    conversation = site.store.conversations.create(ME)
    limits = Options().limits
    question = site.store.questions.start(
        ME, conversation, "hello", pool="scripted", checkpoint="", backbone="", protocol="", limits=limits
    )
    shown = await told(ChatHandlers(site).load(ME, "", request(query={"c": conversation})))
    assert "another server process" in shown[0].chat["banner"]["text"]  # alive, but not one of this manager's
    trace = (await _trace(site, team)).live.trace
    site.store.questions.finish(question, trace)
    event = {"action": "retry", "id": question}
    updates = await told(ChatHandlers(site).chat_action(ME, conversation, "en", event, request()))
    assert len(last(updates, "chat")["questions"]) == 1 and last(updates, "running") is False


async def _trace(site, team):
    run = await site.runs.ask(Asker(new_owner()), "", "poem please")
    await run.task
    return run


async def test_a_conversation_goes_on_while_the_database_refuses_everything(site, monkeypatch):
    def broken(*_, **__):
        raise StoreError("The database has no room left.")

    for part, names in (
        (site.store.conversations, ("create", "get", "list")),
        (site.store.questions, ("start", "history")),
    ):
        for name in names:
            monkeypatch.setattr(type(part), name, broken)
    handlers = ChatHandlers(site)
    first = await told(handlers.ask(ME, "", "en", "poem please", Options(), request()))
    place = last(first, "place")
    assert place.startswith("unsaved-")
    second = await told(handlers.ask(ME, place, "en", "What is 17*23+4?", Options(), request()))
    shown = last(second, "chat")["questions"]
    assert [question["text"] for question in shown] == ["poem please", "What is 17*23+4?"]
    assert "395" in shown[1]["plain"] and "no room left" in shown[0]["unsaved"] and shown[1]["unsaved"]
    team = site.teams.state().team
    assert [message.content[:4] for message in team.seen[-1]["history"]] == ["poem", "Rain"]
