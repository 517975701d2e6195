"""The drift guard: what counts as moved, and what ordinary variation is."""

from __future__ import annotations

import json

import pytest

from core.agents.scripted import Fail, Say, ScriptedAgent
from core.calls.base import Account
from core.canary import Look, Probe, Reply, canary_report, compare, load_probes, look_at
from core.commands.canary import command, look_at_all
from core.errors import AuthFailed, PoolInvalid
from core.types import Role, Usage
from tests.providers import FaultProvider, Step
from tests.providers.rig import caller, llm, open_book, settings

PROBES = tuple(Probe(f"p{i}", f"Question {i}?", f"right{i}") for i in range(4))


def look(texts, *, tokens=10, seconds=1.0, model="m-1", price=(1.0, 4.0), repeats=1) -> Look:
    replies = {
        probe.id: [Reply(text, tokens, seconds, model)] * repeats for probe, text in zip(PROBES, texts, strict=True)
    }
    return Look("a", "f", replies, price)


RIGHT = [probe.expect for probe in PROBES]


def test_nothing_moved():
    drift = compare(look(RIGHT, repeats=3), look([f"It is {text}." for text in RIGHT]), PROBES)
    assert drift.moved == () and drift.changed == ()


def test_one_wrong_answer_of_four_is_noted_and_two_are_a_move():
    one = compare(look(RIGHT), look(["wrong", *RIGHT[1:]]), PROBES)
    assert one.changed == ("p0",) and one.moved == ()
    two = compare(look(RIGHT), look(["wrong", "wrong", *RIGHT[2:]]), PROBES)
    assert two.moved == ("answers",) and two.notes == ("2 of 4 answers changed (p0, p1)",)


def test_texts_that_were_never_right_are_compared_with_how_they_vary_themselves():
    base = Look("a", "f", {"p0": [Reply(t, 5, 1.0, "m") for t in ("red sky at night", "a red sky, at night")]}, None)
    like = Look("a", "f", {"p0": [Reply("the red sky at night", 5, 1.0, "m")]}, None)
    unlike = Look("a", "f", {"p0": [Reply("1234567890 !!!", 5, 1.0, "m")]}, None)
    assert compare(base, like, PROBES).changed == ()
    assert compare(base, unlike, PROBES).changed == ("p0",)


@pytest.mark.parametrize(
    ("change", "moved"),
    [
        ({"tokens": 14}, ()),
        ({"tokens": 20}, ("length",)),
        ({"tokens": 5}, ("length",)),
        ({"seconds": 1.9}, ()),
        ({"seconds": 2.6}, ("latency",)),
        ({"seconds": 0.1}, ()),
        ({"price": (1.0, 5.0)}, ("price",)),
        ({"price": None}, ("price",)),
        ({"model": "m-2"}, ("model",)),
        ({"model": "m-2", "tokens": 30}, ("length", "model")),
    ],
)
def test_length_latency_price_and_served_model(change, moved):
    drift = compare(look(RIGHT), look(RIGHT, **change), PROBES)
    assert drift.moved == moved and len(drift.notes) == len(moved)


def test_a_small_absolute_delay_is_no_drift():
    assert compare(look(RIGHT, seconds=0.01), look(RIGHT, seconds=0.05), PROBES).moved == ()


def test_the_shipped_probes_are_well_formed():
    probes = load_probes()
    assert len(probes) >= 6 and len({probe.id for probe in probes}) == len(probes)
    assert all(probe.ask and probe.expect for probe in probes)


def answers(probe_of):
    """A scripted agent that answers the shipped probes."""

    def act(request):
        probe = next(p for p in load_probes() if p.ask == request.transcript.question)
        return Say((probe_of(probe),), usage=Usage(10, 4), model="served-1")

    return ScriptedAgent("tool", act)


@pytest.fixture
def store(tmp_path):
    with open_book(tmp_path) as book:
        yield book


async def test_a_first_look_is_the_baseline_and_a_second_is_compared_with_it(store, tmp_path):
    where = settings(tmp_path)
    await look_at_all((answers(lambda probe: probe.expect),), store, where, usd=1.0)
    first = canary_report(store)[0]
    assert (first["moved"], first["error"]) == ([], "") and first["baseline"] == first["looked"]
    await look_at_all((answers(lambda probe: "no idea " * 20),), store, where, usd=1.0)
    second = canary_report(store)[0]
    assert second["moved"] == ["answers"] and second["baseline"] == first["baseline"]
    assert len(second["changed"]) == len(load_probes())
    await look_at_all((answers(lambda probe: "no idea " * 20),), store, where, usd=1.0, rebase=True)
    assert canary_report(store)[0]["moved"] == []


async def test_an_agent_that_cannot_be_asked_is_reported_and_never_a_baseline(store, tmp_path):
    broken = ScriptedAgent("tool", Fail(AuthFailed("tool does not accept the key")))
    for _ in range(2):
        await look_at_all((broken,), store, settings(tmp_path), usd=1.0)
    line = canary_report(store)[0]
    assert "does not accept" in line["error"] and line["baseline"] is None and line["moved"] == []


async def test_who_does_not_answer_questions_is_left_out(store, tmp_path):
    judge = ScriptedAgent("judge", "x", roles={Role.VERIFIER})
    assert "judge" in await look_at_all((judge,), store, settings(tmp_path), usd=1.0)
    assert canary_report(store) == []


async def test_the_look_is_in_the_ledger(store, tmp_path):
    calls = caller(store, tmp_path)
    seen = await look_at(answers(lambda probe: probe.expect), calls, Account("canary", 1.0), repeats=2)
    calls.flush()
    assert store.spend.of_question("canary").calls == 2 * len(load_probes())
    assert {reply.model for many in seen.replies.values() for reply in many} == {"served-1"}
    assert Look.of("tool", seen.fingerprint, json.loads(json.dumps(seen.data()))) == seen


def test_an_unknown_agent_is_refused_by_name(tmp_path):

    pool = tmp_path / "p.yaml"
    pool.write_text("name: p\nagents:\n  - {name: one, kind: llm, model: openai/x, free: true}\n")
    with pytest.raises(PoolInvalid, match="no agent 'two'; there are one"):
        command(["--pool", str(pool), "--agent", "two"])


def test_the_command_reports_a_dead_agent_with_exit_code_1(tmp_path, capsys):
    pool = tmp_path / "p.yaml"
    pool.write_text(
        "name: p\nagents:\n  - {name: one, kind: llm, model: openai/x, free: true, api_base: 'http://127.0.0.1:9/v1'}\n"
    )
    assert command(["--pool", str(pool), "--json"]) == 1
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["moved"] == ["one"] and "cannot be reached" in report["agents"][0]["error"]


async def test_the_cap_is_of_one_look_and_its_refusal_names_the_option(store, tmp_path):
    # 24 probes of 12 + 60 tokens cost $0.147: one look fits under the cap, three together do not.
    with FaultProvider(Step(usage=(12, 60))) as provider:
        agent, usd = llm(provider, model="openai/gpt-4o-mini"), 0.2
        for _ in range(3):
            await look_at_all((agent,), store, settings(tmp_path), usd=usd, rebase=True)
            assert canary_report(store)[0]["error"] == ""
        assert store.spend.by_agent(0.0)[0].usd > 2 * usd
        await look_at_all((agent,), store, settings(tmp_path), usd=0.0001)
        error = canary_report(store)[0]["error"]
        assert "--max-usd" in error and "question" not in error


async def test_a_probe_reserves_little(store, tmp_path):
    with FaultProvider(Step()) as provider:
        plain, thinking = llm(provider, model="openai/gpt-4o-mini"), llm(provider, model="openai/gpt-5-mini")
        await look_at_all((plain, thinking), store, settings(tmp_path), usd=5.0)
        limits = {
            body.get("max_completion_tokens", body.get("max_tokens")) for body in (seen.body for seen in provider.seen)
        }
    assert limits == {96, 1024}
