"""The K-turn loop and each of its edge rules, with scripted agents and a head that wants what the test says."""

import asyncio

import pytest

from core.agents.scripted import Fail, Hang, Say, ScriptedAgent, accept, revise
from core.coordinator import QUESTION_CHARS
from core.errors import AgentTransient, AuthFailed, BudgetExceeded, QuestionInvalid
from core.events import AttemptFailed, Decided, Failed, Finished, TextDelta, TurnDone, TurnStarted, VerdictGiven
from core.types import Limits, Message, Override, Reason, Role, Status, Usage
from tests.teams import play, scripted_run, trace_of

T, W, V = Role.THINKER, Role.WORKER, Role.VERIFIER


def agents(a, b="ok"):
    return ScriptedAgent("a", a), ScriptedAgent("b", b)


async def test_worker_then_accept_in_the_order_of_events():
    run = scripted_run(agents("4", accept()), [("a", W), ("b", V)])
    events = await play(run)
    kinds = [type(e) for e in events if not isinstance(e, TextDelta)]
    assert kinds == [TurnStarted, Decided, TurnDone, TurnStarted, Decided, TurnDone, VerdictGiven, Finished]
    trace = events[-1].trace
    assert (trace.status, trace.reason, trace.answer) == (Status.ACCEPTED, None, "4")


async def test_the_answer_is_the_last_worker_text_byte_for_byte():
    text = "  5 \n\n`x`\t\\boxed{5} "
    run = scripted_run(
        agents({W: text, V: [revise("\\boxed{7}"), accept("\\boxed{7}")]}), [("a", W), ("a", V), ("a", V)]
    )
    assert (await trace_of(run)).answer == text


async def test_five_turns_without_accept_are_exactly_five_calls():
    a, b = agents(["1", "2", "3"], revise())
    run = scripted_run((a, b), [("a", W), ("b", V), ("a", W), ("b", V), ("a", W)])
    trace = await trace_of(run)
    assert (trace.status, trace.reason, trace.answer) == (Status.BUDGET_EXHAUSTED, Reason.TURNS, "3")
    assert a.calls + b.calls == 5 and run.policy.head.checkpoint.asked == 5


async def test_verifier_before_any_answer_is_moved_to_the_next_best_role():
    trace = await trace_of(scripted_run(agents({W: "4", T: "plan", V: accept()}), [("a", V)]))
    first = trace.turns[0].decision
    assert first.override is Override.NEEDS_ANSWER and first.head_role is V and first.role is not V


async def test_the_last_turn_must_yield_an_answer():
    run = scripted_run(agents({T: "think", W: "late"}), [("a", T)], limits=Limits(max_turns=3))
    trace = await trace_of(run)
    assert [t.role for t in trace.turns] == [T, T, W] and trace.turns[-1].decision.override is Override.LAST_TURN
    assert trace.answer == "late"


async def test_a_thinkers_suggestion_rules_the_role_once_and_the_agent_stays_the_heads():
    script = {T: "x\n<suggested_role>WORKER</suggested_role>", W: "4", V: accept()}
    run = scripted_run(agents(script, script), [("a", T), ("b", T), ("b", V)])
    trace = await trace_of(run)
    assert [(t.agent, t.role) for t in trace.turns] == [("a", T), ("b", W), ("b", V)]
    assert trace.turns[1].decision.override is Override.SUGGESTION


async def test_a_suggestion_that_nobody_can_follow_is_dropped():
    script = {T: "<suggested_role>verifier</suggested_role>", W: "4", V: accept()}
    trace = await trace_of(scripted_run(agents(script), [("a", T), ("a", W), ("a", V)]))
    assert trace.turns[1].role is W and trace.turns[1].decision.override is None


async def test_no_verifier_in_the_pool_ends_unverified_after_the_worker():
    only_works = ScriptedAgent("a", "a poem", roles={T, W})
    trace = await trace_of(scripted_run((only_works,), [("a", W)]))
    assert (trace.status, trace.reason, len(trace.turns)) == (Status.UNVERIFIED, Reason.NO_VERIFIER, 1)
    assert trace.answer == "a poem" and "nobody in this pool can check" in trace.note


async def test_unparsed_verdict_is_revise_and_counted():
    trace = await trace_of(
        scripted_run(agents({W: "4", V: ["I think it is fine", accept()]}), [("a", W), ("a", V), ("a", V)])
    )
    assert trace.turns[1].unparsed_verdict and not trace.turns[2].unparsed_verdict
    assert trace.status is Status.ACCEPTED


async def test_the_next_worker_sees_the_diagnosis():
    a, b = agents({W: ["5", "4"]}, {V: [revise("Off by one, mind the carry."), accept()]})
    await trace_of(scripted_run((a, b), [("a", W), ("b", V), ("a", W), ("b", V)]))
    assert "mind the carry" in a.requests[1].messages[-1].content


async def test_history_is_context_and_never_this_questions_answer():
    a = ScriptedAgent("a", {T: "plan", W: "new"}, roles={T, W})
    run = scripted_run((a,), [("a", V)], history=(Message("user", "old?"), Message("assistant", "OLD ANSWER")))
    trace = await trace_of(run)
    assert trace.turns[0].role is not V
    assert any(m.content == "OLD ANSWER" for m in a.requests[0].messages) and trace.answer == "new"


async def test_a_failed_agent_hands_the_turn_to_the_next_best():
    a, b = agents(Fail(AgentTransient("down"), first=("half",)), {W: "4", V: accept()})
    events = await play(scripted_run((a, b), [("a", W), ("a", W), ("b", V)]))
    failed = next(e for e in events if isinstance(e, AttemptFailed))
    assert failed.attempt.text == "half" and failed.attempt.agent == "a"
    trace = events[-1].trace
    assert trace.turns[0].agent == "b" and trace.turns[0].failed[0].agent == "a"
    assert trace.turns[0].decision.override is Override.FALLBACK and trace.answer == "4"


async def test_an_empty_reply_is_a_failed_turn_never_an_empty_answer():
    trace = await trace_of(scripted_run(agents(Say(("  \n",)), {W: "4", V: accept()}), [("a", W), ("a", W), ("b", V)]))
    assert trace.turns[0].failed and trace.answer == "4"


async def test_when_everybody_fails_the_trace_says_who_and_why():
    trace = await trace_of(scripted_run(agents(AuthFailed("no key a"), AuthFailed("no key b")), [("a", W)]))
    assert (trace.status, trace.reason, trace.answer) == (Status.FAILED, Reason.POOL_EMPTY, None)
    assert {f.error for f in trace.turns[0].failed} == {"no key a", "no key b"}


async def test_failed_verifiers_do_not_lose_the_answer():
    a = ScriptedAgent("a", {W: "4"}, roles={W})
    b = ScriptedAgent("b", AuthFailed("no key"), roles={V})
    trace = await trace_of(scripted_run((a, b), [("a", W), ("b", V)], limits=Limits(max_turns=2)))
    assert trace.answer == "4" and trace.status in (Status.UNVERIFIED, Status.BUDGET_EXHAUSTED)


async def test_stop_keeps_the_partial_text_and_reaches_the_provider():
    a = ScriptedAgent("a", Hang(first=("half an ", "answer")))
    run, stop, seen = scripted_run((a,), [("a", W)]), asyncio.Event(), []
    from core.coordinator import stoppable

    async for event in stoppable(run, stop):
        seen.append(event)
        if isinstance(event, TextDelta) and event.text == "answer":
            stop.set()
    trace = seen[-1].trace
    assert (trace.status, trace.answer) == (Status.STOPPED, "half an answer")
    assert trace.turns[0].finish == "stopped" and a.cancelled == 1 and a.speaking == 0


async def test_stop_before_the_first_word():
    a = ScriptedAgent("a", Hang())
    run, stop = scripted_run((a,), [("a", W)]), asyncio.Event()
    asyncio.get_running_loop().call_later(0.2, stop.set)
    trace = await trace_of(run, stop)
    assert trace.status is Status.STOPPED and trace.answer is None and a.cancelled == 1


async def test_closing_the_iterator_cancels_the_call():
    from core.coordinator import stoppable

    a = ScriptedAgent("a", Hang(first=("x",)))
    events = stoppable(scripted_run((a,), [("a", W)]), asyncio.Event())
    async for event in events:
        if isinstance(event, TextDelta):
            break
    await events.aclose()
    assert a.speaking == 0 and a.cancelled == 1


async def test_the_clock_ends_the_run_and_keeps_the_text():
    a = ScriptedAgent("a", Hang(first=("half",)))
    trace = await trace_of(scripted_run((a,), [("a", W)], limits=Limits(seconds=2)))
    assert (trace.status, trace.reason, trace.answer) == (Status.BUDGET_EXHAUSTED, Reason.SECONDS, "half")
    assert trace.turns[0].finish == "cut" and a.speaking == 0


async def test_the_token_limit_ends_the_run():
    a = ScriptedAgent("a", {W: Say(("4",), usage=Usage(50, 60)), V: revise()})
    trace = await trace_of(scripted_run((a,), [("a", W), ("a", V)], limits=Limits(tokens=100)))
    assert (trace.reason, len(trace.turns), trace.usage.total_tokens) == (Reason.TOKENS, 1, 110)


async def test_the_money_limit_counts_failed_calls_too():
    a = ScriptedAgent("a", {W: [Fail(AgentTransient("x", cost_usd=0.3))]})
    b = ScriptedAgent("b", {W: Say(("4",), cost_usd=0.3), V: revise()})
    trace = await trace_of(scripted_run((a, b), [("a", W), ("b", W)], limits=Limits(usd=0.5)))
    assert trace.reason is Reason.MONEY and trace.cost_usd == pytest.approx(0.6)
    assert trace.cost_usd == pytest.approx(sum(t.cost_usd + sum(f.cost_usd for f in t.failed) for t in trace.turns))


async def test_unknown_price_makes_the_total_unknown():
    trace = await trace_of(scripted_run(agents({W: Say(("4",), cost_usd=None), V: accept()}), [("a", W), ("a", V)]))
    assert trace.cost_usd is None


class TooDear:
    """A caller that refuses one agent for its price."""

    def __init__(self, name):
        from core.calls.base import DirectCaller

        self.name, self.direct = name, DirectCaller()

    def stream(self, agent, request, *, deadline, account):
        if agent.name == self.name:
            return self._refuse()
        return self.direct.stream(agent, request, deadline=deadline, account=account)

    async def _refuse(self):
        raise BudgetExceeded("this call could cost $2.00; $0.10 is left")
        yield

    def closed_to(self, agent, account=None):
        return None


async def test_an_agent_that_costs_too_much_makes_room_for_one_that_does_not():
    a, b = agents("never", {W: "4", V: accept()})
    trace = await trace_of(scripted_run((a, b), [("a", W), ("a", W), ("b", V)], caller=TooDear("a")))
    assert trace.answer == "4" and a.calls == 0


async def test_only_agents_that_cost_too_much_end_the_run_for_money():
    a = ScriptedAgent("a", "never")
    trace = await trace_of(scripted_run((a,), [("a", W)], caller=TooDear("a")))
    assert (trace.status, trace.reason) == (Status.BUDGET_EXHAUSTED, Reason.MONEY) and "$0.10 is left" in trace.note


async def test_excluded_and_unusable_agents_have_probability_zero():
    a, b = agents("x", {W: "4", V: accept()})
    c = ScriptedAgent("c", "y", not_usable="no key")
    trace = await trace_of(scripted_run((a, b, c), [("a", W), ("b", V)], exclude={"a": "left out by you"}))
    decision = trace.turns[0].decision
    assert decision.agent_probs["a"] == decision.agent_probs["c"] == 0.0
    assert decision.override is Override.UNAVAILABLE and decision.masked["c"] == "no key"
    assert sum(decision.agent_probs.values()) == pytest.approx(1.0)


async def test_a_different_verifier_judges_when_asked_for():
    script = {W: "4", V: accept()}
    run = scripted_run(agents(script, script), [("a", W), ("a", V)], different_verifier=True)
    trace = await trace_of(run)
    assert (trace.turns[1].agent, trace.turns[1].decision.override) == ("b", Override.CANNOT_PLAY)


async def test_a_uniform_head_does_not_always_take_the_first_agent():
    seen = set()
    for number in range(12):
        run = scripted_run(
            agents(accept(), accept()), [None], question=f"question {number}", limits=Limits(max_turns=2)
        )
        trace = await trace_of(run)
        seen.add(trace.turns[0].agent)
        assert trace.turns[0].decision.override in (None, Override.NEEDS_ANSWER)
    assert seen == {"a", "b"}


async def test_the_same_seed_gives_the_same_choices_even_when_sampling():
    async def choices():
        run = scripted_run(agents(accept(), revise()), [None], mode="sample", seed=7)
        return [(t.agent, t.role) for t in (await trace_of(run)).turns]

    first, second = await asyncio.gather(choices(), choices())
    assert first == second


async def test_a_bug_inside_is_a_failed_trace_with_what_was_said():
    class Broken(ScriptedAgent):
        def can_play(self, role, transcript):
            if transcript.turns:
                raise RuntimeError("bug")

    trace = await trace_of(scripted_run((Broken("a", "4"),), [("a", W)]))
    assert trace.status is Status.FAILED and trace.answer == "4" and "bug" not in trace.note


@pytest.mark.parametrize(
    "text", ["", "  \n", "\u200b", "\ufeff \u2060", "x" * (QUESTION_CHARS + 1), "a\x00b", "half \ud83d"]
)
async def test_questions_that_are_not_taken(text):
    with pytest.raises(QuestionInvalid):
        await play(scripted_run(agents("x"), [("a", W)], question=text))


async def test_parallel_runs_do_not_touch_each_other():
    async def one(number):
        run = scripted_run(agents({W: f"answer {number}", V: accept()}), [("a", W), ("a", V)], question=f"q{number}")
        return (await trace_of(run)).answer

    assert await asyncio.gather(*(one(n) for n in range(20))) == [f"answer {n}" for n in range(20)]


async def test_failed_is_the_event_of_a_failed_run():
    events = await play(scripted_run(agents(AuthFailed("x"), AuthFailed("y")), [("a", W)]))
    assert isinstance(events[-1], Failed)


async def test_a_failed_attempt_is_kept_when_the_stop_comes_before_the_next_agent_speaks():
    stop = asyncio.Event()
    a = ScriptedAgent("a", Fail(AgentTransient("down"), first=("half",)), roles={W})
    run = scripted_run((a, ScriptedAgent("b", "x", roles={V})), [("a", W)])
    decide, asked = run.policy.decide, []

    async def slow(*args):
        asked.append(args)
        if len(asked) == 2:
            stop.set()
            await asyncio.sleep(5)
        return await decide(*args)

    run.policy.decide = slow
    trace = await trace_of(run, stop)
    assert trace.status is Status.STOPPED and trace.turns[0].failed[0].text == "half"
    assert trace.turns[0].decision is not None and trace.turns[0].finish == "stopped"


class RetriesThenTooDear:
    """A caller whose first request fails for money and whose second may not be made."""

    async def stream(self, agent, request, *, deadline, account):
        from core.calls.base import Retry

        yield Retry("overloaded", "half", 0.0, 1, cost_usd=0.01)
        raise BudgetExceeded("this call could cost $2.00; $0.10 is left")

    def closed_to(self, agent, account=None):
        return None


async def test_money_of_a_retry_stays_in_the_turn_when_the_next_request_is_refused():
    a = ScriptedAgent("a", "never", roles={W})
    trace = await trace_of(scripted_run((a,), [("a", W)], caller=RetriesThenTooDear()))
    assert trace.turns[0].failed[0].text == "half" and trace.cost_usd == pytest.approx(0.01)
    assert trace.cost_usd == pytest.approx(sum(t.cost_usd + sum(f.cost_usd for f in t.failed) for t in trace.turns))


async def test_a_turn_that_nobody_spoke_keeps_its_role_and_decision():
    a = ScriptedAgent("a", {W: "4"}, roles={W})
    b = ScriptedAgent("b", AuthFailed("no key"), roles={V})
    trace = await trace_of(scripted_run((a, b), [("a", W), ("b", V)], exclude={}))
    if trace.turns[-1].error:
        assert trace.turns[-1].role is V and trace.turns[-1].decision is not None
    assert trace.answer == "4"


async def test_requests_are_counted_once():
    a, b = agents([Fail(AgentTransient("x"))], {W: "4", V: accept()})
    trace = await trace_of(scripted_run((a, b), [("a", W), ("a", W), ("b", V)]))
    assert [t.tries for t in trace.turns] == [2, 1]


async def test_seeds_of_local_agents_follow_the_run_not_the_process():
    async def seeds(seed):
        a = ScriptedAgent("a", {W: "4", V: accept()})
        await trace_of(scripted_run((a,), [("a", W), ("a", V)], seed=seed))
        return [request.seed for request in a.requests], [request.nonce for request in a.requests]

    (one, nonce), (same, other_nonce), (two, _) = await seeds(1), await seeds(1), await seeds(2)
    assert one == same and one != two and nonce != other_nonce


async def test_a_pool_that_only_thinks_ends_without_an_answer():
    trace = await trace_of(scripted_run((ScriptedAgent("a", "hm", roles={T}),), [("a", T)], limits=Limits(max_turns=3)))
    assert (trace.status, trace.reason, len(trace.turns)) == (Status.BUDGET_EXHAUSTED, Reason.NO_ANSWER, 2)


async def test_the_note_names_a_verifier_that_was_left_out():
    a, b = ScriptedAgent("a", "4", roles={W}), ScriptedAgent("b", accept(), roles={V})
    trace = await trace_of(scripted_run((a, b), [("a", W)], exclude={"b": "left out by you"}))
    assert trace.reason is Reason.NO_VERIFIER and "b: left out by you" in trace.note


async def test_a_suggestion_is_dropped_when_only_a_stranger_to_the_head_could_follow_it():
    from dataclasses import replace

    script = {T: "<suggested_role>verifier</suggested_role>", W: ["1", "2"], V: accept()}
    run = scripted_run(
        (ScriptedAgent("a", script, roles={T, W}), ScriptedAgent("b", accept(), roles={V})),
        [("a", W), ("a", T), ("a", W)],
    )
    run.policy.head = replace(run.policy.head, unknown={"b": "not known to this head"}, rows=(0, None))
    trace = await trace_of(run)
    assert trace.status is Status.UNVERIFIED and trace.answer == "1"


async def test_only_free_agents_are_called_without_a_ledger():
    trace = await trace_of(scripted_run((ScriptedAgent("a", "x", free=False),), [("a", W)]))
    assert trace.status is Status.FAILED and "no ledger" in trace.note
