"""The ledger in the database: exact sums, caps under parallel writers, kills, what is in doubt, what is kept."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time

import pytest
from sqlalchemy import update

from core.errors import StoreError
from core.store import open_store
from core.store.ledger import Cap, Entry, Ledger, Outcome
from core.store.ledger_tables import CallRow
from core.store.replies import Remembered
from core.types import Limits


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'book.sqlite3'}"


@pytest.fixture
def store(url):
    with open_store(url) as book:
        yield book


def entry(reserved=10, limit=100, question="q", **fields) -> Entry:
    given = {"agent": "a", "model": "m", "channel": "c", "owner_hash": "", "run": "", "process": "p", **fields}
    caps = (Cap("question", question, limit), Cap("process_day", "1:p", None))
    return Entry(key="k", question=question, reserved=reserved, caps=caps, **given)


def settled(cost, tokens=(1, 1)) -> Outcome:
    return Outcome("settled", cost, cost, *tokens)


def test_what_is_reserved_counts_until_it_is_settled(store):
    one = entry(60)
    assert store.ledger.reserve(one).result(5) is None
    refusal = store.ledger.reserve(entry(60)).result(5)
    assert (refusal.cap.scope, refusal.left) == ("question", 40)
    store.ledger.settle(one, settled(5))
    assert store.ledger.reserve(entry(60)).result(5) is None
    store.ledger.flush()
    assert store.ledger.charged("question", "q") == store.ledger.charged("process_day", "1:p") == 65


def test_a_refused_request_leaves_no_row_and_no_sum(store):
    assert store.ledger.reserve(entry(101)).result(5) is not None
    store.ledger.flush()
    assert store.spend.total().calls == 0 and store.ledger.charged("process_day", "1:p") == 0


def test_a_cap_may_be_used_up_exactly(store):
    assert store.ledger.reserve(entry(100)).result(5) is None
    assert store.ledger.reserve(entry(1)).result(5).left == 0


def test_reserve_and_settle_in_one_batch_are_one_row(store, monkeypatch):
    gate, write = threading.Event(), store.ledger._transact
    monkeypatch.setattr(store.ledger, "_transact", lambda moves: gate.wait(5) and write(moves))
    store.ledger.reserve(entry(1, question="first"))
    time.sleep(0.05)  # the thread holds the first; the rest queues up behind it
    many = [entry(10, limit=10_000, question=f"q{i}") for i in range(50)]
    for one in many:
        store.ledger.reserve(one)
        store.ledger.settle(one, settled(3))
    gate.set()
    store.ledger.flush()
    total = store.spend.total()
    assert (total.calls, total.settled, total.in_doubt) == (51, 50, 1)
    assert total.usd == pytest.approx((1 + 150) / 1e9)


def test_threads_cannot_overshoot(store):
    results = []

    def many():
        results.extend(store.ledger.reserve(entry(7)).result(10) for _ in range(20))

    threads = [threading.Thread(target=many) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(result is None for result in results) == 14  # 14 x 7 = 98 of 100
    store.ledger.flush()
    assert store.ledger.charged("question", "q") == 98


def _spend(url, go, count):
    store = open_store(url)
    go.wait()
    for _ in range(count):
        one = entry(7, limit=700)
        if store.ledger.reserve(one).result(30) is None:
            store.ledger.settle(one, Outcome("settled", 5, 5, 1, 1))
    store.close()


def test_processes_share_one_cap(url, store):
    context = multiprocessing.get_context("spawn")
    go = context.Event()
    workers = [context.Process(target=_spend, args=(url, go, 60)) for _ in range(3)]
    for worker in workers:
        worker.start()
    go.set()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    total = store.spend.total()
    assert store.ledger.charged("question", "q") == total.calls * 5 <= 700
    assert 138 <= total.calls <= 140, "the cap is used up, not passed"  # 139 x 5 + 7 > 700


def test_money_is_never_lost_to_rounding(store):
    for cost in (1, 3, 333_333_333, 10**15):
        one = entry(cost, limit=10**17)
        store.ledger.reserve(one)
        store.ledger.settle(one, settled(cost))
    store.ledger.flush()
    assert store.ledger.charged("question", "q") == 1 + 3 + 333_333_333 + 10**15


def test_unknown_costs_and_tokens_stay_unknown(store):
    one = entry(10)
    store.ledger.reserve(one)
    store.ledger.settle(one, Outcome("settled", 10))
    store.ledger.flush()
    total = store.spend.total()
    assert (total.unreported, total.prompt_tokens) == (1, 0) and total.usd == pytest.approx(1e-8)


CHILD = """
import sys, time
from core.store import open_store
from core.store.ledger import Cap, Entry
store = open_store(sys.argv[1])
for n in range(8):
    cap = Cap("question", "q", 100)
    entry = Entry("k", f"agent{n}", "m", "c", "q", "", "", "p", 10, (cap,))
    assert store.ledger.reserve(entry).result(5) is None
print("ready", flush=True)
time.sleep(60)
"""


def test_what_a_killed_process_left_reserved_is_in_doubt_listed_and_spent(url, store):
    child = subprocess.Popen([sys.executable, "-c", CHILD, url], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    assert store.ledger.recover() == 0, "its owner is alive"
    child.kill()
    child.wait()
    assert store.ledger.recover() == 8 and store.ledger.recover() == 0
    doubtful = store.spend.doubtful()
    assert {call.agent for call in doubtful} == {f"agent{n}" for n in range(8)}
    assert {call.state for call in doubtful} == {"in_doubt"}
    assert store.ledger.charged("question", "q") == 80
    assert store.spend.total().usd_in_doubt == pytest.approx(80e-9)
    assert store.ledger.reserve(entry(30)).result(5) is not None, "the lost money counts"


def test_another_machines_reservations_are_left_alone(store):
    store.ledger.reserve(entry(10)).result(5)
    with store.database.writing() as session:
        session.execute(update(CallRow).values(runner="elsewhere:1:1"))
    assert store.ledger.recover() == 0


def test_a_full_disk_refuses_new_calls_and_keeps_old_reservations(store, monkeypatch):
    one = entry(10)
    store.ledger.reserve(one).result(5)

    def full(_):
        raise StoreError("The database has no room left.")

    monkeypatch.setattr(store.ledger, "_transact", full)
    with pytest.raises(StoreError, match="no room"):
        store.ledger.reserve(entry(10)).result(5)
    store.ledger.settle(one, settled(1))
    store.ledger.flush()
    monkeypatch.undo()
    assert store.ledger.charged("question", "q") == 10, "what could not be settled stays counted"


def test_what_is_queued_is_written_before_the_program_ends(url, store):
    code = (
        "import sys; from core.store import open_store; from core.store.ledger import *\n"
        "store = open_store(sys.argv[1])\n"
        "for n in range(100):\n"
        "    store.ledger.record(Entry('k', 'a', 'm', 'c', 'q', '', '', 'p', 0, ()), Outcome('settled', 0, 0, 1, 1))\n"
    )
    subprocess.run([sys.executable, "-c", code, url], check=True, env=dict(os.environ))
    assert store.spend.total().calls == 100


def test_reports_by_agent_question_and_time(url):
    now = [1000.0]
    with open_store(url) as store:
        ledger = Ledger(store.database, lambda: now[0])
        for agent, cost in (("dear", 50), ("cheap", 1), ("dear", 20)):
            one = entry(60, limit=10**6, agent=agent, question=agent, run="r1" if agent == "cheap" else "")
            ledger.reserve(one)
            ledger.settle(one, settled(cost, (10, 2)))
            ledger.flush()
            now[0] += 100
        ledger.flush()
        book = store.spend
        assert [(line.name, line.calls) for line in book.by_agent()] == [("dear", 2), ("cheap", 1)]
        assert [line.calls for line in book.by_agent(since=1150.0)] == [1]
        assert book.of_question("dear").usd == pytest.approx(70e-9)
        assert [(line.name, line.calls) for line in book.by_run()] == [("", 2), ("r1", 1)]
        assert (book.total().prompt_tokens, book.total().completion_tokens) == (30, 6)


# -- remembered replies ------------------------------------------------------------------------------------------


def reply(**fields) -> Remembered:
    given = {"agent": "a", "model": "m", "text": "4", "reasoning": "", "finish": "stop", "prompt_tokens": 1}
    return Remembered(**{**given, "completion_tokens": 1, "cost": 7, **fields})


def test_replies_come_back_exactly_and_the_first_one_stays(store):
    odd = reply(text="NUL \x00, half \ud83d, 你好", reasoning="\x00")
    store.replies.put("k", "q", odd)
    store.replies.put("k", "q", reply(text="other"))
    assert store.replies.get("k") == odd and store.replies.get("other") is None


@pytest.mark.parametrize("broken", [{"text": " "}, {"text": ""}, {"finish": "length"}, {"finish": "cut"}])
def test_only_complete_replies_are_kept(broken, store):
    with pytest.raises(ValueError, match="complete"):
        store.replies.put("k", "q", reply(**broken))


def test_deleting_a_conversation_forgets_what_it_brought(store):
    owner = "t" * 43
    conversation = store.conversations.create(owner)
    question = store.questions.start(
        owner, conversation, "What?", pool="p", checkpoint="c", backbone="b", protocol="x", limits=Limits()
    )
    store.replies.put("mine", question, reply(), stored=True)
    store.replies.put("other", "someone", reply())
    store.conversations.delete(owner, conversation)
    store.replies.put("late", question, reply(), stored=True)  # its run was still going on
    assert store.replies.get("mine") is None and store.replies.get("late") is None
    assert store.replies.get("other") is not None


def test_statistics_and_clearing(store):
    store.replies.put("a", "q", reply(cost=7))
    store.replies.put("b", "q", reply(cost=5))
    for _ in range(3):
        store.replies.get("a")
    kept = store.replies.statistics()
    assert (kept.kept, kept.hits, kept.saved) == (2, 3, 21)
    assert store.replies.clear() == 2 and store.replies.statistics().kept == 0
