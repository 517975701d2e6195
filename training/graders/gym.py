"""reasoning-gym's own scorers, behind what the reply commits to and a worker that may be killed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from training.graders.base import Grade, GradeOutcome, failed, passed, too_long
from training.graders.commit import bare, commit, plain, tail, without_reasoning
from training.graders.numeric import parse_number
from training.graders.worker import WorkerFailed, workers

SECONDS = 15.0  # for making the item again and scoring the reply
SLOW_S = {
    "knight_swap": 90.0
}  # seconds for families whose items take seconds to make: about 1 s alone, 10 s beside others
PASS_AT = 0.99
# Scorers of reasoning-gym 0.1.25 that give 1 to a list of answers when the right one is in it, or stands first.
LENIENT = frozenset(
    {
        "advanced_geometry",
        "fraction_simplification",
        "game_of_life_halting",
        "gsm_symbolic",
        "letter_jumble",
        "sokoban",
        "spell_backward",
        "time_intervals",
        "word_sorting",
    }
)
# complex_arithmetic gives 1 to "nan" for every item: comparisons with it are all false.
_NOT_A_NUMBER = re.compile(r"(?<![a-z])(?:nan|inf|infinity)(?:[ij])?(?![a-z])", re.IGNORECASE)
NEAR = {"coin_flip": 0.01}  # its scorer gives 1 to "0" for every small probability: ask for the relative error too
_FENCE = re.compile(r"^```[^\n`]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def grade_gym(reply: str, stream: Mapping[str, Any], answer: str) -> Grade:
    """Reward 1 when the family's scorer gives the committed text at least 0.99.

    `stream` names the item: family, seed, config, index. `answer` only tells what kind of text to look for; the
    scorer decides. A scorer that hangs or dies on a reply has not accepted it: reward 0.
    """
    if refused := too_long(reply):
        return refused
    said = committed(reply, answer)
    if not said:
        return failed("", "The reply commits to no answer.", GradeOutcome.NO_ANSWER)
    if stream["family"] in LENIENT and _parts(said) > _parts(answer):
        return failed(said, "The committed text holds more than one answer.", GradeOutcome.AMBIGUOUS)
    if _NOT_A_NUMBER.search(said) and not _NOT_A_NUMBER.search(answer):
        return failed(said, "The committed text is not a number.")
    if not _near(said, answer, NEAR.get(stream["family"])):
        return failed(said, "The committed number is not near the answer.")
    try:
        result = workers("gym").ask({"do": "gym_score", **stream, "reply": said}, SLOW_S.get(stream["family"], SECONDS))
    except WorkerFailed as error:
        kinds = {"timeout": GradeOutcome.TIMEOUT, "memory": GradeOutcome.MEMORY, "crash": GradeOutcome.CRASH}
        return failed(said, f"The scorer did not end: {error}", kinds.get(error.kind, GradeOutcome.WRONG))
    score = result["score"]
    if score >= PASS_AT:
        return passed(said, f"The scorer of {stream['family']} gives {score:.2f}.")
    why = f" ({result['refused']})" if "refused" in result else ""
    return failed(said, f"The scorer of {stream['family']} gives {score:.2f}, less than {PASS_AT}{why}.")


def _near(said: str, answer: str, relative: float | None) -> bool:
    value, gold = parse_number(said), parse_number(answer)
    if relative is None or gold is None:
        return True
    return value is not None and abs(value - gold) <= abs(gold) * Fraction(relative)


def _parts(text: str) -> int:
    return len([part for part in re.split(r"[\s,;|]+", text) if part])


def committed(reply: str, answer: str) -> str:
    """The text handed to the scorer: at the reply's mark, else its last code block, else all of it.

    An unmarked one-line reply to a question with a number as answer commits to what follows "=" or "is".
    """
    body = without_reasoning(reply).strip()
    found = commit(body)
    if found is None:
        return ""
    if body == answer.strip():  # an answer that itself looks like a mark ("x = 3") is taken whole
        return body
    lines = "\n" in answer  # a board: no one-line statement can hold it
    if found.mark in ("boxed", "answer tag", "hashes") or (found.mark in ("answer", "final answer") and not lines):
        return found.text
    if blocks := _FENCE.findall(body):
        return str(blocks[-1]).strip()
    if lines or "\n" in body:
        return body
    return tail(plain(body)) if parse_number(answer) is not None else bare(body)
