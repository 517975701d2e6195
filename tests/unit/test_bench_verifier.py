import pytest

from core.agents.exact.questions import understand
from core.agents.scripted import ScriptedAgent, accept
from core.agents.short_answer import asks_short_fact
from core.bench.verifier import judge_all, rates, read_probes, wilson
from core.types import Role


def test_the_probe_set_is_balanced_and_every_probe_can_be_judged():
    probes = read_probes()
    assert len(probes) == 100
    assert sum(p.correct for p in probes) == 50
    assert len({p.id for p in probes}) == 100
    for probe in probes:
        mathematics = understand(probe.question) is not None
        assert mathematics == (probe.kind == "sum"), probe.question
        assert mathematics or asks_short_fact(probe.question), probe.question


async def test_a_verifier_that_accepts_everything_is_seen_through():
    judged = await judge_all(read_probes(), [ScriptedAgent("yes", accept(), roles={Role.VERIFIER})], 0)
    result = rates(judged)
    assert result["n"] == 100
    assert result["false_accept"]["rate"] == 1.0
    assert result["false_revise"]["rate"] == 0.0


async def test_probes_that_nobody_can_judge_count_in_no_rate():
    judged = await judge_all(read_probes()[:4], [ScriptedAgent("none", accept(), roles={Role.WORKER})], 0)
    assert all(j.accepted is None for j in judged)
    assert rates(judged)["false_accept"] == {"count": 0, "n": 0, "rate": None, "low": 0.0, "high": 1.0}


def test_wilson_intervals():
    assert wilson(0, 50) == (0.0, pytest.approx(0.0713, abs=1e-3))
    assert wilson(25, 50) == (pytest.approx(0.3664, abs=1e-3), pytest.approx(0.6336, abs=1e-3))
    assert wilson(0, 0) == (0.0, 1.0)
