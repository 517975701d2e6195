"""Events and turns as the page gets them."""

import json
import time

import pytest

from core.events import AttemptFailed, Decided, TextDelta, TurnDone, TurnStarted
from core.tally import Tally
from core.types import Attempt, Decision, Override, Reason, Role, Status, Turn, Usage, Verdict
from webapp.asked import Asked
from webapp.i18n import CATALOGUES
from webapp.live import LiveRun
from webapp.timeline import timeline
from webapp.view import chat, headline

PROBS = {"alpha": 0.7, "beta": 0.3, "gamma": 0.0}


def decision(agent="alpha", role=Role.WORKER, override=None):
    return Decision(
        agent, role, PROBS, dict.fromkeys(Role, 1 / 3), {}, {}, "beta", Role.VERIFIER, override, {"gamma": "no key"},
        None, 0.02,
    )  # fmt: skip


def turn(index=1, role=Role.WORKER, **more):
    defaults = {"text": "42", "usage": Usage(10, 5), "cost_usd": 0.001, "latency_s": 1.5, "decision": decision()}
    return Turn(index, role, "alpha", 1, "vendor/alpha", **(defaults | more))


def asked(live, **more):
    tally = Tally.of(one.turn for one in live.turns if one.turn)
    usage, cost = tally.usage, tally.cost_usd
    defaults = {
        "id": "q", "text": "why?", "turns": tuple(live.turns), "status": None, "reason": None, "note": "",
        "answer": live.draft, "usage": usage, "cost_usd": cost, "seconds": 2.0, "checkpoint": "head-1",
    }  # fmt: skip
    return Asked(**(defaults | more))


def folded(*events):
    live = LiveRun()
    for event in events:
        live.apply(event)
    return live


def test_a_turn_as_it_happens():
    live = folded(TurnStarted(1))
    assert timeline(asked(live), "en", "k")["cards"][0]["state"] == "choosing"
    live.apply(Decided(1, decision(), "vendor/alpha"))
    live.apply(TextDelta(1, "4"))
    live.apply(TextDelta(1, "2", reasoning="hm"))
    card = timeline(asked(live), "en", "k")["cards"][0]
    assert (card["state"], card["text"], card["reasoning"], card["draft"]) == ("speaking", "42", "hm", True)
    assert card["choice"] == {"name": "alpha", "p": 0.7} and card["runner_up"] == {"name": "beta", "p": 0.3}
    assert card["agents"][2] == {"name": "gamma", "p": 0.0, "chosen": False, "masked": "no key"}
    live.apply(TurnDone(1, turn()))
    card = timeline(asked(live), "en", "k")["cards"][0]
    assert (card["state"], card["live"], card["seconds"], card["cost"]) == ("done", False, 1.52, 0.001)
    assert card["tokens"] == {"prompt": 10, "completion": 5}


def test_a_failed_attempt_voids_its_text_and_says_what_is_next():
    live = folded(TurnStarted(1), Decided(1, decision(), "m"), TextDelta(1, "half"))
    live.apply(AttemptFailed(1, Attempt("alpha", "m", "503 overloaded.", "half"), 2.0))
    card = timeline(asked(live), "en", "k")["cards"][0]
    assert card["state"] == "retrying" and card["text"] == "" and live.draft is None
    assert card["notes"][0]["text"] == "alpha, try 1: 503 overloaded. Trying again in 2 s."
    assert card["failed"][0]["text"] == "half"
    live.apply(AttemptFailed(1, Attempt("alpha", "m", "503 overloaded."), None))
    assert timeline(asked(live), "en", "k")["cards"][0]["notes"][1]["text"].endswith("Another agent takes the turn.")


def test_the_cards_sum_up_to_the_total():
    failed = (Attempt("beta", "m", "x", usage=Usage(3, 4), cost_usd=0.0005),)
    live = folded(TurnStarted(1), TurnDone(1, turn(failed=failed, tries=2)), TurnStarted(2), TurnDone(2, turn(2)))
    value = timeline(asked(live), "en", "k")
    assert sum(card["cost"] for card in value["cards"]) == pytest.approx(value["summary"]["cost"], abs=1e-12)
    tokens = sum(card["tokens"]["prompt"] + card["tokens"]["completion"] for card in value["cards"])
    assert tokens == value["summary"]["tokens"] == 37
    assert value["cards"][0]["tries"] == 2


def test_a_remembered_reply_says_so():
    live = folded(TurnStarted(1), TurnDone(1, turn(tries=0)))
    (note,) = timeline(asked(live), "en", "k")["cards"][0]["notes"]
    assert "nothing was sent" in note["text"]


def test_an_unknown_price_stays_unknown():
    live = folded(TurnStarted(1), TurnDone(1, turn(cost_usd=None)))
    value = timeline(asked(live), "en", "k")
    assert value["cards"][0]["cost"] is None and value["summary"]["cost"] is None


def test_verdict_with_its_reason():
    live = folded(
        TurnStarted(1),
        TurnDone(1, turn(role=Role.VERIFIER, text="x\nVERDICT: REVISE", verdict=Verdict.REVISE, verdict_reason="No.",
                         unparsed_verdict=True)),
    )  # fmt: skip
    card = timeline(asked(live), "en", "k")["cards"][0]
    assert (card["verdict"], card["verdict_reason"], card["preview"]) == ("REVISE", "No.", "")
    assert any("counts as REVISE" in note["text"] for note in card["notes"])


@pytest.mark.parametrize("rule", list(Override))
@pytest.mark.parametrize("lang", list(CATALOGUES))
def test_every_override_is_said_in_plain_words(rule, lang):
    live = folded(TurnStarted(1), TurnDone(1, turn(decision=decision(override=rule))))
    (note,) = timeline(asked(live), lang, "k")["cards"][0]["notes"]
    assert "beta" in note["text"] and "{" not in note["text"]


def test_nobody_spoke():
    failed = (Attempt("beta", "m", "No key."), Attempt("alpha", "m", "No credit."))
    live = folded(
        TurnStarted(1), TurnDone(1, turn(text="", finish="cut", error="nobody", failed=failed, tries=2, decision=None))
    )
    card = timeline(asked(live, status=Status.FAILED, reason=Reason.POOL_EMPTY), "en", "k")["cards"][0]
    assert card["state"] == "error" and card["tries"] == 2
    assert [note["text"] for note in card["notes"]] == [
        "beta: No key. alpha took the turn.",
        "alpha: No credit. Nobody else could take the turn.",
    ]


def test_announcements_change_with_the_state_and_not_with_the_text():
    live = folded(TurnStarted(1), Decided(1, decision(), "m"), TextDelta(1, "a"))
    first = timeline(asked(live), "en", "k")["announce"]
    live.apply(TextDelta(1, "b"))
    assert timeline(asked(live), "en", "k")["announce"] == first == "Turn 1, Worker, alpha, speaking."
    live.apply(TurnDone(1, turn()))
    assert timeline(asked(live), "en", "k")["announce"] == "Turn 1, Worker, alpha, done."
    assert (
        "验证" not in timeline(asked(live), "zh", "k")["announce"]
        and "执行者" in timeline(asked(live), "zh", "k")["announce"]
    )


def test_hostile_text_reaches_the_page_as_json_text():
    evil = "<b>${x}</b> \ud83d \x00"
    live = folded(TurnStarted(1), TurnDone(1, turn(text=evil, reasoning=evil, role=Role.THINKER)))
    card = timeline(asked(live), "en", "k")["cards"][0]
    assert card["text"] == "<b>${x}</b> \ufffd \x00"
    json.dumps(card, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("status", "reason", "says"),
    [
        (Status.ACCEPTED, None, "Accepted by alpha"),
        (Status.UNVERIFIED, Reason.NO_VERIFIER, "Not checked"),
        (Status.BUDGET_EXHAUSTED, Reason.TURNS, "did not accept within 1 turn;"),
        (Status.BUDGET_EXHAUSTED, Reason.SECONDS, "time is over"),
        (Status.BUDGET_EXHAUSTED, Reason.MONEY, "money"),
        (Status.STOPPED, None, "Stopped by you after 1 turn"),
        (Status.STOPPED, Reason.INTERRUPTED, "Interrupted"),
        (Status.FAILED, Reason.ERROR, "No answer"),
    ],
)
def test_every_ending_has_a_headline(status, reason, says):
    live = folded(TurnStarted(1), TurnDone(1, turn(role=Role.VERIFIER, verdict=Verdict.ACCEPT)))
    one = asked(live, status=status, reason=reason, answer="42", note="what happened")
    assert says in headline(one, "en")
    assert headline(one, "zh") != headline(one, "en")
    (shown,) = chat("en", "c", [("q1", one)])["questions"]
    assert shown["detail"] == ("what happened" if reason in (Reason.MONEY, Reason.ERROR) else "")
    assert shown["running"] is False and shown["plain"] == "42"


def test_turns_that_were_over_before_a_check_are_not_blamed_on_the_verifier():
    live = folded(TurnStarted(1), TurnDone(1, turn()))
    one = asked(live, status=Status.BUDGET_EXHAUSTED, reason=Reason.TURNS)
    assert "Nobody checked" in headline(one, "en")


def test_a_draft_is_the_newest_worker_text():
    live = folded(TurnStarted(1), TurnDone(1, turn(text="first")), TurnStarted(2), Decided(2, decision(), "m"))
    assert live.draft == "first"
    live.apply(TextDelta(2, "second"))
    (shown,) = chat("en", "c", [("q1", asked(live))])["questions"]
    assert (shown["plain"], shown["draft"], shown["step"]) == ("second", True, "Turn 2 · Worker · alpha")


def test_values_carry_a_rising_number():
    live = folded(TurnStarted(1))
    before = time.monotonic_ns()
    assert before <= timeline(asked(live), "en")["seq"] <= chat("en", "c", [])["seq"]
    assert timeline(None, "en")["cards"] == []


@pytest.mark.parametrize("lang", CATALOGUES)
def test_one_turn_is_singular_and_more_are_not(lang):
    one, two = folded(TurnDone(1, turn())), folded(TurnDone(1, turn()), TurnDone(2, turn(2)))
    for status in (Status.FAILED, Status.STOPPED, Status.BUDGET_EXHAUSTED):
        ends = {"status": status, "reason": Reason.TURNS if status is Status.BUDGET_EXHAUSTED else None}
        single = headline(asked(one, **ends), lang) + timeline(asked(one, **ends), lang)["announce"]
        assert "1 turns" not in single and "{" not in single
        assert ("2 turns" if lang == "en" else "2 轮") in timeline(asked(two, **ends), lang)["announce"]


def test_when_nobody_may_take_the_turn_the_headline_says_so():
    ended = asked(folded(), status=Status.FAILED, reason=Reason.POOL_EMPTY, note="all are left out")
    assert headline(ended, "en") == "The run ended: nobody may take the turn" and "成员" in headline(ended, "zh")
    assert chat("en", "c", [("q", ended)])["questions"][0]["detail"] == "all are left out"


def test_a_stopped_reply_that_told_no_tokens_shows_no_figure():
    cut = turn(text="half an", finish="stopped", usage=Usage())
    value = timeline(asked(folded(TurnDone(1, cut)), status=Status.STOPPED), "en")
    assert value["summary"]["tokens"] is None and value["cards"][0]["tokens"] is None
    tool = turn(usage=Usage())  # a tool needs none, and says so
    value = timeline(asked(folded(TurnDone(1, tool)), status=Status.UNVERIFIED), "en")
    assert value["summary"]["tokens"] == 0 and value["cards"][0]["tokens"] == {"prompt": 0, "completion": 0}
