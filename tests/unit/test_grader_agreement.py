"""Our mathematics grader against math-verify asked directly, on the committed boxed answers."""

import json
from pathlib import Path

from math_verify import parse, verify

CASES = Path(__file__).parent.parent / "data" / "graders" / "math.jsonl"
# Notation that math-verify 0.9 does not read, and we do: Unicode signs, sizes of brackets, full-width digits, a period.
OURS = ("90°", "\\bigl(", "\\Big(", "√2", "½", "３", "１２", "{3.}", "\\varnothing")


def test_we_agree_wherever_math_verify_reads_the_notation():
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
    boxed = [
        case for case in cases if isinstance(case["reply"], str) and case["reply"].startswith("So we get \\boxed{")
    ]
    assert len(boxed) >= 80
    for case in boxed:
        theirs = bool(verify(parse(f"${case['answer']}$"), parse(case["reply"])))
        if any(sign in case["reply"] for sign in OURS):
            assert case["reward"] == 1 and not theirs, case
        else:
            assert theirs == (case["reward"] == 1), case
