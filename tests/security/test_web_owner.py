"""A conversation belongs to one browser: every handler, tried by a stranger who knows every id."""

import json

import pytest

from core.errors import NotOwner
from core.types import Status
from tests.e2e.scripted import SCRIPTS, ScriptedTeam
from tests.web_suite import request, site_in
from webapp.i18n import say
from webapp.options import Asker, Options
from webapp.ownership import is_owner, new_owner
from webapp.pages.chat import ChatPage
from webapp.pages.chat_handlers import ChatHandlers, options_of
from webapp.questions import Refused

ME, STRANGER = new_owner(), new_owner()
SECRET = "my secret sum 17*23+4"


@pytest.fixture
async def world(tmp_path):
    site = site_in(tmp_path, ScriptedTeam(SCRIPTS))
    await site.open()
    run = await site.runs.ask(Asker(ME), "", SECRET)
    async for _ in site.runs.follow(run):
        pass
    handlers = ChatHandlers(site)
    yield site, handlers, run
    await site.close()


async def told(updates):
    return [update async for update in updates]


def everything(updates):
    return json.dumps([{**vars(update), "team": None} for update in updates])


HISTORY = ["open", "rename", "delete", "share", "unshare", "new", "nonsense", ""]
CHAT = ["trace", "retry", "export", "thumb", "nonsense"]


@pytest.mark.parametrize("action", HISTORY)
async def test_history_actions_of_a_stranger(world, action):
    site, handlers, run = world
    event = {"action": action, "id": run.conversation, "title": "mine now"}
    updates = await told(handlers.history_action(STRANGER, run.conversation, "en", event, request()))
    assert SECRET not in everything(updates) and "391, and" not in everything(updates)
    kept = site.store.conversations.get(ME, run.conversation)
    assert kept.title == SECRET and len(kept.questions) == 1
    assert site.store.shares.list(ME, run.conversation) == ()


@pytest.mark.parametrize("action", CHAT)
async def test_chat_actions_of_a_stranger(world, action):
    site, handlers, run = world
    event = {"action": action, "id": run.record.question_id, "format": "json", "value": "down"}
    updates = await told(handlers.chat_action(STRANGER, run.conversation, "en", event, request()))
    assert SECRET not in everything(updates) and "391, and" not in everything(updates)
    (question,) = site.store.conversations.get(ME, run.conversation).questions
    assert question.feedback is None


async def test_delete_all_of_a_stranger_deletes_the_stranger(world):
    site, handlers, run = world
    await told(handlers.history_action(STRANGER, "", "en", {"action": "delete_all"}, request()))
    assert len(site.store.conversations.get(ME, run.conversation).questions) == 1


async def test_asking_and_stopping_in_anothers_conversation(world):
    site, handlers, run = world
    (update,) = await told(handlers.ask(STRANGER, run.conversation, "en", "hello", Options(), request()))
    assert update.notice["tone"] == "bad" and update.chat is None
    slow = await site.runs.ask(Asker(ME), run.conversation, "slow please")
    await handlers.stop(STRANGER, run.conversation)
    assert not slow.stopping
    await handlers.stop(ME, run.conversation)
    assert slow.stopping


async def test_the_address_of_anothers_conversation_opens_an_empty_page_with_a_note(world):
    _, handlers, run = world
    for name in (run.conversation, "unknown", "../../etc/passwd", "x" * 5000, "'; drop table turns; --"):
        updates = await told(handlers.load(STRANGER, "", request(query={"c": name})))
        assert updates[0].chat["questions"] == [] and "does not exist" in updates[0].chat["banner"]["text"]
        assert SECRET not in everything(updates)


async def test_the_owner_gets_everything_back(world):
    _, handlers, run = world
    updates = await told(handlers.load(ME, "", request(query={"c": run.conversation})))
    (question,) = updates[0].chat["questions"]
    assert question["text"] == SECRET and len(updates[0].timeline["cards"]) == 3
    assert updates[0].owner == ME and updates[0].running is False


@pytest.mark.parametrize("owner", ["", None, "short", 7, {"a": 1}, "x" * 43 + "!", "é" * 43, ["x"]])
async def test_a_browser_without_a_proper_token_gets_a_new_one(world, owner):
    _, handlers, _ = world
    updates = await told(handlers.load(owner, "", request()))
    assert is_owner(updates[0].owner) and updates[0].owner != owner
    (update,) = await told(handlers.ask(owner, "", "en", "hello", Options(), request()))
    assert update.notice["tone"] == "bad"


async def test_share_link_is_made_on_purpose_and_ended(world):
    site, handlers, run = world
    event = {"action": "share", "id": run.conversation}
    (update,) = await told(handlers.history_action(ME, run.conversation, "en", event, request()))
    token = update.notice["link"].removeprefix("s/")
    assert site.store.shares.open(token).questions[0].text == SECRET and update.history["shared"] is True
    await told(handlers.history_action(ME, run.conversation, "en", {**event, "action": "unshare"}, request()))
    with pytest.raises(NotOwner):
        site.store.shares.open(token)


async def test_deleting_the_open_conversation_shows_an_empty_one(world):
    site, handlers, run = world
    event = {"action": "delete", "id": run.conversation}
    updates = await told(handlers.history_action(ME, run.conversation, "en", event, request()))
    assert updates[0].place == "" and updates[0].chat["questions"] == [] and updates[0].history["conversations"] == []
    with pytest.raises(NotOwner):
        site.store.conversations.get(ME, run.conversation)


async def test_export_and_retry(world):
    site, handlers, run = world
    event = {"action": "export", "id": run.record.question_id, "format": "json"}
    (update,) = await told(handlers.chat_action(ME, run.conversation, "en", event, request()))
    exported = json.loads(update.download["text"])
    assert exported["cost_usd"] == pytest.approx(sum(turn["cost_usd"] for turn in exported["turns"]), abs=1e-9)
    assert len(exported["turns"]) == 3
    updates = await told(handlers.chat_action(ME, run.conversation, "en", {**event, "action": "retry"}, request()))
    assert updates[-1].running is False and len(updates[-1].chat["questions"]) == 1
    assert [q.status for q in site.store.conversations.get(ME, run.conversation).questions] == [Status.ACCEPTED] * 2


async def test_a_view_that_was_left_is_not_drawn_again(world):
    _, handlers, _run = world
    stream = handlers.ask(ME, "", "en", "slow please", Options(), request("page-7"))
    first = await anext(stream)
    await told(handlers.history_action(ME, first.place, "en", {"action": "new"}, request("page-7")))
    rest = await told(stream)
    assert all(update.chat is None for update in rest if update is not first)
    await handlers.stop(ME, first.place)


@pytest.mark.parametrize(
    ("turns", "usd", "says"),
    [(0, 0.5, "bad_turns"), (99, 0.5, "bad_turns"), (1.5, 0.5, "bad_turns"), (5, -1, "bad_usd"), (5, "nan", "bad_usd"),
     (5, 99_999, "bad_usd"), ("x", 0.1, "bad_turns"), (5, None, "bad_usd"), ("inf", 0.1, "bad_turns"),
     ([], 0.1, "bad_turns"), (5, 10**400, "bad_usd"), (None, None, "bad_turns")],
)  # fmt: skip
def test_options_that_do_not_fit_are_said(turns, usd, says):
    answer = options_of(turns, usd, [], ("", ""), most_usd=0.5)
    assert isinstance(answer, Refused) and answer.code == says
    for lang in ("en", "zh"):
        assert "{" not in say(lang, answer.code, **answer.values)


def test_options_that_fit():
    options = options_of(3, 0.5, ["a", 7], ("", "head"), most_usd=0.5)
    assert options.limits.usd == 0.5 and options.exclude == ("a", "7")
    assert (options.pool, options.checkpoint) == ("", "head")


def test_every_event_of_the_page_is_private_and_known(tmp_path):
    """A new event must be added here on purpose, after its handler checks whose conversation it is."""
    import gradio as gr

    with gr.Blocks(analytics_enabled=False) as blocks:
        ChatPage(site_in(tmp_path), blocks)
    names = sorted(fn.fn.__name__ for fn in blocks.fns.values())
    assert names == ["_ask", "_chat", "_history", "_load", "_stop", "_team", "_team"]
    assert not any(fn.preprocess for fn in blocks.fns.values())  # every value is checked by webapp/pages/incoming.py
    assert all(fn.api_visibility == "private" for fn in blocks.fns.values())
