"""Softmaxes, masks, ties and binding of core.policy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.agents.scripted import ScriptedAgent
from core.backbone.fake import FakeBackbone
from core.errors import CheckpointInvalid, NonFiniteState, PoolEmpty
from core.policy import BoundHead, Policy, bind, bind_untrained, choose, softmax, turn_rng
from core.rules import rules_for
from core.transcript import render
from core.types import ROLES, Override, Role, Transcript, Turn
from tests.teams import ThreadReader, WishingHead


def policy_for(agents, wishes, mode="argmax"):
    names = [agent.name for agent in agents]
    backbone = FakeBackbone()
    return Policy(
        ThreadReader(backbone), backbone, BoundHead(WishingHead(names, wishes), tuple(range(len(names))), {}), mode
    )


def test_softmax_gives_masked_entries_exactly_zero():
    probs = softmax(np.array([900.0, -900.0, 3.0]), np.array([False, True, True]))
    assert probs[0] == 0.0 and probs.sum() == pytest.approx(1.0) and probs[2] == pytest.approx(1.0)


def test_softmax_of_nothing_is_zero():
    assert softmax(np.array([1.0]), np.array([False])).tolist() == [0.0]


@given(st.integers(1, 6), st.integers(0, 2**31), st.data())
def test_the_most_probable_allowed_pair_equals_two_argmaxes_when_all_are_allowed(agents, seed, data):
    rng = np.random.default_rng(seed)
    p, q = softmax(rng.normal(size=agents)), softmax(rng.normal(size=3))
    pair = choose(np.outer(p, q), np.ones((agents, 3), bool), rng)
    assert pair == (int(p.argmax()), int(q.argmax()))
    allowed = rng.random((agents, 3)) < 0.5
    if allowed.any():
        agent, role = choose(np.outer(p, q), allowed, rng)
        assert allowed[agent, role] and np.outer(p, q)[agent, role] == np.outer(p, q)[allowed].max()


def test_sampling_draws_from_the_renormalised_restricted_product():
    pairs = np.outer([0.7, 0.3], [0.5, 0.25, 0.25])
    allowed = np.array([[True, False, False], [False, True, False]])
    rng = np.random.default_rng(0)
    draws = [choose(pairs, allowed, rng, "sample") for _ in range(4000)]
    share = sum(pair == (0, 0) for pair in draws) / len(draws)
    assert set(draws) == {(0, 0), (1, 1)} and share == pytest.approx(0.35 / 0.425, abs=0.03)


def test_ties_are_settled_by_seed_over_all_places():
    pairs, allowed = np.full((3, 3), 1 / 9), np.ones((3, 3), bool)
    seen = {choose(pairs, allowed, turn_rng(seed, Transcript("q"))) for seed in range(200)}
    assert len(seen) == 9
    assert choose(pairs, allowed, turn_rng(3, Transcript("q"))) == choose(pairs, allowed, turn_rng(3, Transcript("q")))


async def test_a_head_that_gives_nan_is_an_error_never_an_argmax():
    agents = (ScriptedAgent("a"),)
    policy = policy_for(agents, [("a", Role.WORKER)])
    policy.head.checkpoint.strength = float("nan")
    with pytest.raises(NonFiniteState):
        await policy.decide(Transcript("q"), rules_for(Transcript("q"), agents, masked={}))


async def test_nobody_allowed_names_every_reason():
    agents = (ScriptedAgent("a"), ScriptedAgent("b"))
    with pytest.raises(PoolEmpty, match=r"a: no key.*b: breaker open"):
        await policy_for(agents, [None]).decide(
            Transcript("q"), rules_for(Transcript("q"), agents, masked={"a": "no key", "b": "breaker open"})
        )


async def test_precedence_names_the_first_rule_that_bars_the_heads_choice():
    agents = (ScriptedAgent("a"), ScriptedAgent("b", roles={Role.WORKER, Role.VERIFIER}))
    rules = rules_for(Transcript("q"), agents, masked={"a": "down"}, last_turn=True)
    decision = await policy_for(agents, [("a", Role.VERIFIER)]).decide(Transcript("q"), rules)
    assert decision.override is Override.LAST_TURN and (decision.agent, decision.role) == ("b", Role.WORKER)
    assert (decision.head_agent, decision.head_role) == ("a", Role.VERIFIER)


async def test_sampling_is_not_an_override():
    agents = (ScriptedAgent("a"), ScriptedAgent("b"))
    worked = Transcript("q", (Turn(1, Role.WORKER, "a", 1, "m", "4"),))
    for seed in range(30):
        decision = await policy_for(agents, [None], "sample").decide(worked, rules_for(worked, agents, masked={}), seed)
        assert decision.override is None


class Checkpoint(WishingHead):
    def __init__(self, *agents):
        super().__init__([name for name, _ in agents], [None])
        self.agents = agents


def test_binding_masks_strangers_and_warns_of_changed_models():
    pool = (ScriptedAgent("b"), ScriptedAgent("new"), ScriptedAgent("a", fingerprint="changed"))
    head = bind(Checkpoint(("a", "scripted:a"), ("b", "scripted:b"), ("gone", "x")), pool)
    assert head.rows == (1, None, 0) and head.unknown == {"new": "not known to this head"}
    assert head.notes == ("a is no longer the model this head was trained with",)


def test_binding_without_overlap_is_refused_with_both_lists():
    with pytest.raises(CheckpointInvalid, match=r"a, b.*pool has c"):
        bind(Checkpoint(("a", "1"), ("b", "2")), (ScriptedAgent("c"),))


def test_rows_follow_names_not_places():
    class Rows(Checkpoint):
        def logits(self, vector):
            return np.array([1.0, 2.0]), np.array([0.0, 0.0, 0.0])

    head = bind(Rows(("a", "scripted:a"), ("b", "scripted:b")), (ScriptedAgent("b"), ScriptedAgent("a")))
    hidden = FakeBackbone().hidden(render("paper", Transcript("q"), FakeBackbone()))
    assert head.logits(hidden)[0].tolist() == [2.0, 1.0]


def test_untrained_pool_has_uniform_agents_on_the_heads_roles():
    head = bind_untrained(Checkpoint(("a", "1")), (ScriptedAgent("x"), ScriptedAgent("y")))
    assert head.notes == ("this pool has no trained head",) and not head.unknown and head.rows == (None, None)


@pytest.mark.parametrize("suggestion", [Role.WORKER, Role.VERIFIER])
def test_a_suggestion_never_empties_the_choice(suggestion):
    agents = (ScriptedAgent("a", roles={Role.THINKER}),)
    rules = rules_for(Transcript("q"), agents, masked={}, suggestion=suggestion)
    assert rules.allowed.tolist() == [[role is Role.THINKER for role in ROLES]]
