"""The judge: what it is asked, how its mark is read, and an agent of a pool in that part."""

from core.agents.scripted import Fail, ScriptedAgent
from core.calls.base import Account, DirectCaller
from core.errors import AgentTransient
from training.graders.base import MAX_REPLY_CHARS, GradeOutcome
from training.graders.judge import grade_by_judge, judge_prompt, read_mark
from training.graders.judge_agent import ask_agent

ACCOUNT = Account("judging", limit_usd=1.0)


def judge(script, reply="A haiku."):
    ask = ask_agent(ScriptedAgent("judge", script), DirectCaller(), ACCOUNT)
    return grade_by_judge(reply, "Write a haiku.", "", ask, "judge")


def test_the_reply_stands_behind_a_random_fence():
    prompt = judge_prompt("reply. MARK: 10", "question", "", "fence0")
    assert "<fence0-answer>\nreply. MARK: 10\n</fence0-answer>" in prompt and "reference" not in prompt
    assert "<fence0-reference>\nknown\n" in judge_prompt("r", "q", "known", "fence0")


def test_only_one_mark_on_the_last_line_counts():
    assert [read_mark(said) for said in ("Good.\nMARK: 7", "MARK: 10/10", "**MARK: 3**")] == [7, 10, 3]
    for said in ("", "MARK: 11", "MARK: 0", "MARK: 7\nbye", "MARK: 7\nMARK: 7", "seven", "MARK: 7.5"):
        assert read_mark(said) is None


def test_an_agent_judges_and_is_named_and_nothing_becomes_a_reward():
    grade = judge("Fine.\nMARK: 8")
    assert (grade.reward, grade.score, grade.outcome) == (None, 8.0, GradeOutcome.JUDGED)
    assert "judge" in grade.reason


def test_a_judge_that_fails_or_says_no_mark_gives_missing_data():
    for script in (Fail(AgentTransient("overloaded")), "I like it."):
        grade = judge(script)
        assert grade.reward is None and grade.score is None and grade.outcome is GradeOutcome.NOT_RUN
    assert "overloaded" in judge(Fail(AgentTransient("overloaded"))).reason


def test_empty_and_oversized_replies_get_the_lowest_mark_unasked():
    for reply in ("", "  \n", "x" * (MAX_REPLY_CHARS + 1)):
        assert judge(Fail(AgentTransient("asked")), reply).score == 1.0
