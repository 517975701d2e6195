"""100,000 questions of one owner: history, search and Explore answer in under 300 ms (on SQLite)."""

import random
import time

import numpy as np
import pytest
from sqlalchemy import insert

from core.store import open_store, owner_hash
from core.store.codec import turn_to_row
from core.store.tables import ConversationRow, QuestionRow, SearchRow, TurnRow
from tests.store_suite import ME, OTHER, decision, hidden, turn

QUESTIONS = 100_000
PER_CONVERSATION = 4


def words(draw, vocabulary, characters):
    return " ".join(draw.choices(vocabulary, k=characters // 7))


def values(row):
    return {column.key: getattr(row, column.key) for column in row.__table__.columns}


def fill(store, conversations):
    """Bulk inserts: questions of 120 and answers of 700 characters, one turn with a 576-float h each."""
    draw = random.Random(7)
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocabulary = ["".join(draw.choices(letters, k=draw.randint(3, 9))) for _ in range(4_000)]
    spoken = turn(1, text="t" * 700, reasoning="", error=None, failed=(), decision=decision(hidden(576)))
    template = values(turn_to_row("", "", 0.0, spoken))
    rng = np.random.default_rng(7)
    for number in range(conversations):
        # The newest conversations are this owner's, the one before is another's: both must be quick.
        owner = owner_hash(OTHER if number == 0 else ME)
        now, conversation = float(number), f"c{number:08d}"
        rows = {"q": [], "s": [], "t": []}
        for position in range(1, PER_CONVERSATION + 1):
            question, text, answer = (
                f"{conversation}-{position}",
                words(draw, vocabulary, 120),
                words(draw, vocabulary, 700),
            )
            common = {"question_id": question, "owner_hash": owner}
            rows["q"].append(
                {
                    **{"id": question, "conversation_id": conversation, "owner_hash": owner, "position": position},
                    **{"text": text, "status": "accepted", "note": "", "answer": answer, "pool": "embedded"},
                    **{
                        "checkpoint": "c",
                        "backbone": "slm",
                        "protocol": "paper@1",
                        "prompt_tokens": 1,
                        "replaces": None,
                    },
                    **{"completion_tokens": 1, "cost_usd": 0.0, "seconds": 1.0, "created": now, "finished": now},
                    **{"limits": {}, "excluded": [], "runner": "r", "reason": None, "pool_version": None},
                }
            )
            rows["s"].append({**common, "conversation_id": conversation, "folded": f"{text}\n{answer}"})
            rows["t"].append({**template, **common, "created": now, "h": rng.bytes(4 * 576)})
        with store.database.writing() as session:
            session.execute(
                insert(ConversationRow),
                [
                    {"id": conversation, "owner_hash": owner, "title": text[:60], "title_folded": text[:60]}
                    | {"created": now, "updated": now, "deleted": None}
                ],
            )
            for table, name in ((QuestionRow, "q"), (SearchRow, "s"), (TurnRow, "t")):
                session.execute(insert(table), rows[name])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_100_000_questions_answer_quickly(tmp_path):
    file = tmp_path / "trinity.sqlite3"
    with open_store(f"sqlite:///{file}") as store:
        start = time.perf_counter()
        fill(store, QUESTIONS // PER_CONVERSATION)
        print(f"\nfilled {file.stat().st_size / 1e6:.0f} MB in {time.perf_counter() - start:.0f} s")
        newest = f"c{QUESTIONS // PER_CONVERSATION - 1:08d}"
        cases = {
            "history": lambda: store.conversations.list(ME),
            "second page": lambda: store.conversations.list(ME, before=(20_000.0, "c")),
            "search, common word": lambda: store.conversations.list(ME, "e"),
            "search, absent word": lambda: store.conversations.list(ME, "zzqqxxkk"),
            "search by one with 4 questions": lambda: store.conversations.list(OTHER, "zzqqxxkk"),
            "one conversation": lambda: store.conversations.get(ME, newest),
            "Explore, own": lambda: store.questions.recent_hidden(ME, 500, "slm", "paper@1"),
            "Explore, everybody": lambda: store.questions.recent_hidden(None, 500, "slm", "paper@1"),
            "Explore by one with 4 questions": lambda: store.questions.recent_hidden(OTHER, 500, "slm", "paper@1"),
            "runs cut by a crash": store.questions.interrupt_unfinished,
        }
        slow = {}
        for name, case in cases.items():
            times = []
            for _ in range(5):
                start = time.perf_counter()
                case()
                times.append(1_000 * (time.perf_counter() - start))
            print(f"{name:32s} {min(times):6.1f} ms (worst of 5: {max(times):.1f})")
            if min(times) >= 300:  # the best of five: neighbours on the machine must not fail this
                slow[name] = min(times)
        assert not slow
        assert len(store.conversations.list(ME)) == 50
        start = time.perf_counter()
        assert store.conversations.delete_all(ME) == QUESTIONS // PER_CONVERSATION - 1
        print(f"delete everything                {time.perf_counter() - start:.1f} s")
