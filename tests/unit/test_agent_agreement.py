from pathlib import Path

import pytest

from core.agents.agreement import AgreementAgent, verdict
from core.roles import read_verdict
from core.types import Role, Transcript, Verdict

AGENT = AgreementAgent("agreement", Path("/nowhere/model.gguf"))
FRANCE = "What is the capital of France?"


def test_it_plays_verifier_of_short_facts_only():
    assert AGENT.can_play(Role.VERIFIER, Transcript(FRANCE)) is None
    assert "only checks" in AGENT.can_play(Role.WORKER, Transcript(FRANCE))
    assert "only checks" in AGENT.can_play(Role.THINKER, Transcript(FRANCE))


@pytest.mark.parametrize("question", ["What is 17*23+4?", "how much is twelve times nine", "Solve 2x + 3 = 7"])
def test_it_leaves_mathematics_to_the_exact_agent(question):
    assert "mathematics" in AGENT.can_play(Role.VERIFIER, Transcript(question))


@pytest.mark.parametrize("question", ["Write a two-line poem about rain.", "Hello!", "What is love?", "def f(): pass"])
def test_nothing_short_settles_these(question):
    assert "short factual" in AGENT.can_play(Role.VERIFIER, Transcript(question))


@pytest.mark.parametrize(
    ("answer", "samples", "expected"),
    [
        ("Paris.", ["Paris", "The capital of France is Paris.", "Lyon", "Nice"], Verdict.ACCEPT),
        ("Paris.", ["Paris", "Lyon", "Lyon", "Nice"], Verdict.REVISE),
        ("Lyon.", ["Paris", "Paris", "Paris", "Lyon"], Verdict.REVISE),
        ("The capital of France.", ["The capital of France."] * 4, Verdict.REVISE),
        ("", ["Paris"] * 4, Verdict.REVISE),
    ],
)
def test_two_of_four_votes_accept(answer, samples, expected):
    judgement = read_verdict(verdict(FRANCE, answer, samples))
    assert judgement.parsed
    assert judgement.verdict is expected
    assert judgement.reason


def test_an_acceptance_names_its_risk():
    assert "can agree on a mistake" in verdict(FRANCE, "Paris.", ["Paris"] * 4)


def test_a_missing_file_is_named_with_the_command_that_brings_it():
    assert "trinity backbone install" in AGENT.unusable()
