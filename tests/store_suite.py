"""What every database must do. `test_store.py` runs it on SQLite, `test_store_postgres.py` on PostgreSQL."""

import dataclasses
import importlib
import inspect
import pkgutil
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

import core.store
from core.errors import NotOwner, StoreError
from core.store import conversations, new_id, tables
from core.store.codec import row_to_turn, turn_to_row
from core.store.ledger_tables import ReplyRow
from core.store.questions import INTERRUPTED
from core.store.replies import Remembered
from core.types import (
    Attempt,
    Decision,
    HiddenState,
    Limits,
    Message,
    Override,
    ReadToken,
    Reason,
    Role,
    Status,
    Trace,
    Turn,
    Usage,
    Verdict,
)

# Every module's tables belong to the schema, also those that the code under test imports only when it needs them.
for _module in pkgutil.iter_modules(core.store.__path__, "core.store."):
    importlib.import_module(_module.name)

ME, OTHER = "me-token", "other-token"
WITH = {"pool": "embedded", "checkpoint": "shipped", "backbone": "slm", "protocol": "paper@1"}
# NUL, lone surrogates in either order (a joined pair would be another string), our own escape mark, combining marks.
HOSTILE = "a\x00b\ud800\ud83d\ude00\udfff😀\ufdd0d83d\ufdd0\r\n\u202e'; DROP TABLE turns; -- %_\\ é e\u0301 \uffff"


def hidden(size=8, *, backbone="slm", protocol="paper@1", dtype="float32", seed=0):
    vector = np.random.default_rng(seed).normal(size=size).astype(np.float32)
    return HiddenState(vector, ReadToken(4093, "istant", 117), backbone, protocol, dtype, truncated=bool(seed % 2))


def decision(state=None, agent="sympy"):
    return Decision(
        agent=agent,
        role=Role.WORKER,
        agent_probs={"smollm2": 0.1 + 0.2, "sympy": 1 / 3, HOSTILE: 0.0},
        role_probs={Role.THINKER: 1e-300, Role.WORKER: 0.9, Role.VERIFIER: 0.1},
        agent_logits={"smollm2": -1.5, "sympy": float("-inf")},
        role_logits={Role.WORKER: 5e-324, Role.VERIFIER: -0.0},
        head_agent="smollm2",
        head_role=Role.VERIFIER,
        override=Override.NEEDS_ANSWER,
        masked={"gpt": HOSTILE},
        hidden=state,
        elapsed_s=0.123456789,
    )


def turn(index=1, **more):
    """A turn with every field set to something that is not its default."""
    full = {
        "role": Role.WORKER,
        "agent": "sympy",
        "slot": 3,
        "model": "sympy/1.14",
        "text": HOSTILE,
        "reasoning": HOSTILE[::-1],
        "verdict": Verdict.REVISE,
        "verdict_reason": "wrong \x00 sign",
        "unparsed_verdict": True,
        "suggestion": Role.VERIFIER,
        "finish": "length",
        "usage": Usage(12, 34),
        "cost_usd": 0.1 + 0.2,
        "latency_s": 1 / 3,
        "first_token_s": 0.1,
        "tries": 3,
        "failed": (Attempt("gpt", "openai/x", "time-out", HOSTILE, Usage(1, 2), None), Attempt("b", "m", "e")),
        "error": HOSTILE,
        "prompt": (Message("system", "be brief"), Message("user", HOSTILE)),
        "decision": decision(hidden(seed=index)),
    }
    return Turn(index, **{**full, **more})


def trace(question_id, turns=(), answer="42", status=Status.ACCEPTED, reason=None, text="Why?"):
    return Trace(
        id=question_id,
        question=text,
        history=(),
        turns=tuple(turns),
        answer=answer,
        status=status,
        reason=reason,
        note="" if status is Status.ACCEPTED else "because",
        usage=Usage(100, 50),
        cost_usd=0.0125,
        elapsed_s=2.5,
        checkpoint="shipped",
        backbone="slm",
        protocol="paper@1",
        pool="embedded",
    )


def same_turn(left, right):
    """Exact equality, h bit by bit (arrays do not compare inside dataclasses)."""
    bare = [dataclasses.replace(t, decision=None) for t in (left, right)]
    assert bare[0] == bare[1]
    assert (left.decision is None) == (right.decision is None)
    if left.decision is None:
        return
    states = [t.decision.hidden for t in (left, right)]
    decisions = [dataclasses.replace(t.decision, hidden=None) for t in (left, right)]
    assert decisions[0] == decisions[1]
    assert [*decisions[0].agent_probs] == [*decisions[1].agent_probs]  # the pool's order survives
    assert (states[0] is None) == (states[1] is None)
    if states[0] is not None:
        assert states[0].vector.dtype == states[1].vector.dtype == np.float32
        assert states[0].vector.tobytes() == states[1].vector.tobytes()
        none = [dataclasses.replace(s, vector=None) for s in states]
        assert none[0] == none[1]


def ask(store, owner=ME, text="Why?", conversation=None, **more):
    """A running question; returns (conversation id, question id)."""
    conversation = conversation or store.conversations.create(owner)
    return conversation, store.questions.start(owner, conversation, text, limits=Limits(), **{**WITH, **more})


def answered(store, text, answer, owner=ME, conversation=None, **more):
    conversation, question = ask(store, owner, text, conversation, **more)
    store.questions.finish(question, trace(question, answer=answer, text=text))
    return conversation, question


def rows(store, table):
    with store.database.reading() as session:
        return session.scalar(select(func.count()).select_from(table))


# One store for all examples, and one test for two databases, are both meant.
_SHARED = [HealthCheck.function_scoped_fixture, HealthCheck.differing_executors]
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)


class StoreSuite:
    """Subclasses give a `store` fixture: an empty, open store."""

    # -- exactness

    def test_every_field_of_a_turn_comes_back_exactly(self, store):
        spoken = turn(1)
        untouched = {f.name for f in dataclasses.fields(Turn) if f.default == getattr(spoken, f.name)}
        assert not untouched, "the example must differ from the defaults, or it proves nothing"
        _, question = ask(store)
        bare = Turn(2, Role.THINKER, "a", 1, "m", "")
        strange = turn(3, decision=decision(None), cost_usd=None, first_token_s=None, suggestion=None)
        for item in (spoken, bare, strange):
            store.questions.add_turn(question, item)
        found = store.questions.get(ME, question).turns
        assert len(found) == 3
        for left, right in zip((spoken, bare, strange), found, strict=True):
            same_turn(left, right)

    @settings(max_examples=25, deadline=None, suppress_health_check=_SHARED)
    @given(text=ANY_TEXT, reasoning=ANY_TEXT, masked=ANY_TEXT, number=st.floats(allow_nan=False))
    def test_any_text_and_number_survive(self, store, text, reasoning, masked, number):
        spoken = turn(
            1,
            text=text,
            reasoning=reasoning,
            latency_s=number,
            prompt=(Message("user", masked),),
            decision=dataclasses.replace(decision(hidden()), masked={masked: text}, elapsed_s=number),
        )
        _, question = ask(store, text=text)
        store.questions.add_turn(question, spoken)
        found = store.questions.get(ME, question)
        assert found.text == text
        same_turn(spoken, found.turns[0])

    def test_h_of_any_bits_survives(self, store):
        vector = np.array([np.inf, -0.0, 1e-45, np.float32(np.pi), np.finfo(np.float32).max], dtype=np.float32)
        state = dataclasses.replace(hidden(), vector=vector)
        _, question = ask(store)
        store.questions.add_turn(question, turn(1, decision=decision(state)))
        found = store.questions.get(ME, question).turns[0].decision.hidden
        assert found.vector.tobytes() == vector.tobytes()

    def test_a_finished_run_comes_back_as_the_same_trace(self, store):
        conversation, question = ask(store, text=HOSTILE, exclude=("gpt", HOSTILE), pool_version=7)
        ended = trace(question, [turn(1), turn(2)], HOSTILE, Status.BUDGET_EXHAUSTED, Reason.MONEY, HOSTILE)
        ended = dataclasses.replace(ended, pool_version=7)
        store.questions.add_turn(question, ended.turns[0])
        store.questions.finish(question, ended)  # its second turn never reached the database before
        found = store.questions.get(ME, question)
        assert (found.conversation_id, found.pool_version, found.excluded) == (conversation, 7, ("gpt", HOSTILE))
        assert found.limits == Limits()
        assert dataclasses.replace(found.trace(), turns=()) == dataclasses.replace(ended, turns=())
        for left, right in zip(ended.turns, found.turns, strict=True):
            same_turn(left, right)

    def test_the_same_turn_again_replaces_it(self, store):
        _, question = ask(store)
        store.questions.add_turn(question, turn(1, text="draft"))
        store.questions.add_turn(question, turn(1, text="final", decision=None))
        same_turn(store.questions.get(ME, question).turns[0], turn(1, text="final", decision=None))

    # -- conversations

    def test_the_first_question_gives_the_title(self, store):
        conversation, _ = ask(store, text="What is\n the " + "x" * 100)
        ask(store, text="and then?", conversation=conversation)
        title = store.conversations.get(ME, conversation).title
        assert title == ("What is the " + "x" * 100)[:60]

    def test_list_pages_through_the_owners_conversations_latest_first(self, store):
        mine = [ask(store, text=f"q{i}")[0] for i in range(5)]
        ask(store, OTHER)
        seen, before = [], None
        while page := store.conversations.list(ME, limit=2, before=before):
            assert len(page) <= 2
            seen += [line.id for line in page]
            before = page[-1].cursor
        assert seen == mine[::-1]

    def test_list_counts_questions_and_says_what_runs(self, store):
        conversation, question = ask(store)
        store.questions.finish(question, trace(question))
        assert [(s.questions, s.running) for s in store.conversations.list(ME)] == [(1, False)]
        ask(store, conversation=conversation)
        assert [(s.questions, s.running) for s in store.conversations.list(ME)] == [(2, True)]

    @pytest.mark.parametrize(
        ("query", "hits"),
        [
            ("PARIS", 1),
            ("paris", 1),
            ("straße", 1),
            ("STRASSE", 1),
            ("100%", 1),
            ("1%0", 0),
            ("a_b", 0),
            ("\\", 1),
            ("首都", 1),
            ("renamed", 1),
            ("  ", 4),
            ("' OR 1=1 --", 0),
            ("\x00\ud800", 0),
        ],
    )
    def test_search_finds_questions_answers_and_titles(self, store, query, hits):
        answered(store, "What is the capital of France?", "Paris is.")
        answered(store, "法国的首都是哪里?", "In der Straße, 100% sure")
        answered(store, "axb", "back\\slash")
        renamed, _ = answered(store, "plain", "plain")
        answered(store, "paris", "paris 首都 100% \\ straße renamed", owner=OTHER)
        store.conversations.rename(ME, renamed, "Renamed Title")
        assert len(store.conversations.list(ME, query)) == hits

    def test_a_search_too_long_is_refused(self, store):
        with pytest.raises(StoreError, match="500"):
            store.conversations.list(ME, "x" * 501)

    def test_rename_refuses_an_empty_title(self, store):
        conversation, _ = ask(store)
        with pytest.raises(StoreError, match="title"):
            store.conversations.rename(ME, conversation, " \n ")

    def test_delete_leaves_nothing_that_was_said(self, store):
        conversation, question = answered(store, "SECRET question", "SECRET answer")
        store.questions.add_turn(question, turn(1, text="SECRET turn"))
        store.feedback.set(ME, question, "down", "SECRET reason")
        token = store.shares.create(ME, conversation)
        kept, other = answered(store, "kept", "kept")
        for name in (question, other):
            store.replies.put(f"key of {name}", name, Remembered("a", "m", "SECRET reply", "", "stop", 1, 1, 0))
        store.conversations.delete(ME, conversation)
        assert rows(store, ReplyRow) == 1
        assert rows(store, tables.QuestionRow) == rows(store, tables.SearchRow) == 1
        assert rows(store, tables.TurnRow) == rows(store, tables.FeedbackRow) == rows(store, tables.ShareRow) == 0
        with store.database.reading() as session:
            stump = session.get_one(tables.ConversationRow, conversation)
        assert (stump.owner_hash, stump.title, stump.title_folded) == ("", "", "")
        for gone in (
            lambda: store.conversations.get(ME, conversation),
            lambda: store.questions.get(ME, question),
            lambda: store.shares.open(token),
            lambda: store.conversations.delete(ME, conversation),
        ):
            with pytest.raises(NotOwner):
                gone()
        assert [line.id for line in store.conversations.list(ME)] == [kept]

    def test_a_run_whose_conversation_was_deleted_is_told_so(self, store):
        conversation, question = ask(store)
        store.conversations.delete(ME, conversation)
        with pytest.raises(StoreError, match="deleted while it ran"):
            store.questions.add_turn(question, turn(1))
        with pytest.raises(StoreError, match="deleted while it ran"):
            store.questions.finish(question, trace(question))
        assert rows(store, tables.TurnRow) == 0

    def test_delete_all_takes_one_owners_and_no_others(self, store, monkeypatch):
        for _ in range(3):
            answered(store, "mine", "mine")
        theirs, _ = answered(store, "theirs", "theirs", owner=OTHER)
        monkeypatch.setattr(conversations, "_BATCH", 2)
        assert store.conversations.delete_all(ME) == 3
        assert store.conversations.delete_all(ME) == 0
        assert store.conversations.list(ME) == ()
        assert [line.id for line in store.conversations.list(OTHER)] == [theirs]
        assert rows(store, tables.QuestionRow) == 1

    def test_purge_forgets_old_conversations_but_no_running_ones(self, store):
        old, _ = answered(store, "old", "old")
        running, _ = ask(store, text="running")
        cut = time.time()
        fresh, _ = answered(store, "fresh", "fresh")
        assert store.conversations.purge(cut) == 1
        assert {line.id for line in store.conversations.list(ME)} == {running, fresh}
        assert rows(store, tables.ConversationRow) == 3
        store.conversations.purge(time.time())  # the empty row is now older than the cut, too
        with store.database.reading() as session:
            assert session.get(tables.ConversationRow, old) is None

    # -- history and versions

    def test_history_is_questions_and_answers_only(self, store):
        conversation, first = answered(store, "first?", "one")
        store.questions.add_turn(first, turn(1, text="inner thought"))
        _, failed = ask(store, text="failed?", conversation=conversation)
        store.questions.finish(failed, trace(failed, answer=None, status=Status.FAILED, reason=Reason.ERROR))
        answered(store, "second?", "two", conversation=conversation)
        ask(store, text="running?", conversation=conversation)
        assert store.questions.history(ME, conversation) == (
            Message("user", "first?"),
            Message("assistant", "one"),
            Message("user", "second?"),
            Message("assistant", "two"),
        )

    def test_a_question_asked_again_takes_the_place_of_the_old_one(self, store):
        conversation, first = answered(store, "frist?", "typo")
        _, second = answered(store, "second?", "two", conversation=conversation)
        _, again = answered(store, "first?", "one", conversation=conversation, replaces=first)
        found = store.conversations.get(ME, conversation)
        assert [(q.id, q.position, q.replaces) for q in found.questions] == [
            (first, 1, None),
            (again, 1, first),
            (second, 2, None),
        ]
        assert [m.content for m in store.questions.history(ME, conversation)] == ["first?", "one", "second?", "two"]
        assert store.questions.history(ME, conversation, before=again) == ()
        assert [m.content for m in store.questions.history(ME, conversation, before=second)] == ["first?", "one"]
        assert store.conversations.list(ME)[0].questions == 2

    def test_a_question_is_only_asked_again_in_its_own_conversation(self, store):
        _, elsewhere = answered(store, "first?", "one")
        with pytest.raises(StoreError, match="own conversation"):
            ask(store, replaces=elsewhere)

    # -- crashes

    def test_runs_cut_by_a_crash_are_interrupted_with_what_was_said(self, store):
        _, alive = ask(store, text="alive")
        _, dead = ask(store, text="dead")
        attempt = Attempt("gpt", "m", "boom", usage=Usage(5, 5), cost_usd=0.5)
        worker = turn(1, text="half an answer", verdict=None, finish="stop", cost_usd=0.25, failed=(attempt,))
        store.questions.add_turn(dead, worker)
        with store.database.writing() as session:
            row = session.get_one(tables.QuestionRow, dead)
            host, pid, start = row.runner.rsplit(":", 2)
            row.runner = f"{host}:{pid}:{int(start or 0) + 1}"  # the same pid, used by another process by now
        assert store.questions.interrupt_unfinished() == 1
        assert store.questions.interrupt_unfinished() == 0
        found = store.questions.get(ME, dead)
        assert (found.status, found.reason, found.note) == (Status.STOPPED, Reason.INTERRUPTED, INTERRUPTED)
        assert (found.answer, found.usage, found.cost_usd) == ("half an answer", Usage(17, 39), 0.75)
        assert found.finished is not None
        assert store.questions.get(ME, alive).status is None

    def test_the_end_of_a_run_wins_over_an_interruption(self, store):
        _, question = ask(store)
        with store.database.writing() as session:
            session.get_one(tables.QuestionRow, question).runner = "gone-host:1:1"
            session.get_one(tables.QuestionRow, question).created = 0.0
        assert store.questions.interrupt_unfinished() == 1
        store.questions.finish(question, trace(question))
        assert store.questions.get(ME, question).status is Status.ACCEPTED

    # -- hidden states

    def test_hidden_states_of_different_origin_are_never_mixed(self, store):
        conversation, question = ask(store)
        _, foreign = ask(store, OTHER)
        store.questions.add_turn(question, turn(1, decision=decision(hidden(seed=1)), agent="first"))
        store.questions.add_turn(question, turn(2, decision=decision(hidden(seed=2, backbone="other"))))
        store.questions.add_turn(question, turn(3, decision=decision(hidden(seed=3, protocol="paper@2"))))
        store.questions.add_turn(question, turn(4, decision=None))
        store.questions.add_turn(foreign, turn(1, decision=decision(hidden(seed=4))))
        store.questions.add_turn(question, turn(5, decision=decision(hidden(seed=5))))
        find = store.questions.recent_hidden
        mine = find(ME, 10, "slm", "paper@1")
        assert [point.index for point in mine] == [5, 1]
        assert mine[0].hidden.vector.tobytes() == hidden(seed=5).vector.tobytes()
        assert (mine[0].first_agent, mine[0].question_id, mine[0].conversation_id) == ("first", question, conversation)
        assert len(find(None, 10, "slm", "paper@1")) == 3
        assert len(find(ME, 1, "slm", "paper@1")) == 1
        assert [point.index for point in find(ME, 10, "slm", "paper@1", first_only=True)] == [1]
        assert [point.index for point in find(ME, 10, "other", "paper@1")] == [2]
        store.questions.add_turn(question, turn(6, decision=decision(hidden(seed=6, dtype="bfloat16"))))
        assert [point.index for point in find(ME, 10, "slm", "paper@1")] == [6]
        assert [point.index for point in find(ME, 10, "slm", "paper@1", dtype="float32")] == [5, 1]

    # -- shares and feedback

    def test_a_share_opens_until_it_is_revoked(self, store):
        conversation, _ = answered(store, "shared?", "yes")
        first, second = store.shares.create(ME, conversation), store.shares.create(ME, conversation)
        assert len(first) >= 43 and first != second
        assert store.shares.open(first).questions[0].answer == "yes"
        listed = store.shares.list(ME, conversation)
        assert store.shares.revoke(ME, conversation, listed[0].id) == 1
        with pytest.raises(NotOwner):
            store.shares.open(first)
        assert store.shares.open(second).id == conversation
        assert store.shares.revoke(ME, conversation) == 1
        assert store.shares.revoke(ME, conversation) == 0
        with pytest.raises(NotOwner):
            store.shares.open(second)
        assert all(share.revoked for share in store.shares.list(ME, conversation))

    def test_the_share_token_is_not_stored(self, store):
        conversation, _ = ask(store)
        token = store.shares.create(ME, conversation)
        with store.database.reading() as session:
            (row,) = session.scalars(select(tables.ShareRow))
        assert token not in (row.token_hash, row.conversation_id)
        with pytest.raises(NotOwner):
            store.shares.open(row.token_hash)

    def test_thumbs_stay_change_and_go(self, store):
        conversation, question = answered(store, "?", "!")
        store.feedback.set(ME, question, "up")
        store.feedback.set(ME, question, "down", HOSTILE)
        found = store.conversations.get(ME, conversation).questions[0].feedback
        assert found == store.feedback.get(ME, question)
        assert (found.value, found.reason) == ("down", HOSTILE)
        store.feedback.set(ME, question, None)
        store.feedback.set(ME, question, None)
        assert store.feedback.get(ME, question) is None
        with pytest.raises(StoreError, match="up, down"):
            store.feedback.set(ME, question, "sideways")
        with pytest.raises(StoreError, match="2000"):
            store.feedback.set(ME, question, "up", "x" * 2_001)

    # -- checkpoints and pools

    def test_activation_leaves_a_trail_and_rolls_back(self, store):
        book = store.checkpoints
        one = book.register("one", "a" * 64, "/heads/one", {"validation": 0.5})
        two = book.register("two", "b" * 64, "/heads/two", {})
        assert book.active("embedded") is None
        book.activate("embedded", "one", "admin", "better by 3 points")
        book.activate("other", "one", "admin", "try")
        book.activate("embedded", "two", "admin", "newer")
        assert (book.active("embedded"), book.active("other")) == (two, one)
        book.rollback("embedded", "admin", "worse on maths")
        assert book.active("embedded") == one
        book.activate("embedded", None, "admin", "back to the shipped one")
        assert book.active("embedded") is None
        trail = [(a.checkpoint, a.previous, a.why) for a in book.audit("embedded")]
        assert trail == [
            (None, "one", "back to the shipped one"),
            ("one", "two", "worse on maths"),
            ("two", "one", "newer"),
            ("one", None, "better by 3 points"),
        ]
        assert len(book.audit()) == 5

    def test_checkpoint_names_are_never_used_twice(self, store):
        book = store.checkpoints
        book.register("one", "a" * 64, "/old", {})
        book.register("one", "a" * 64, "/new", {"note": HOSTILE})
        assert (book.get("one").path, book.get("one").summary) == ("/new", {"note": HOSTILE})
        with pytest.raises(StoreError, match="another checkpoint"):
            book.register("one", "b" * 64, "/new", {})
        with pytest.raises(StoreError, match="SHA-256"):
            book.register("two", "short", "/new", {})

    def test_what_serves_cannot_be_removed(self, store):
        book = store.checkpoints
        book.register("one", "a" * 64, "/one", {})
        book.activate("embedded", "one", "admin", "")
        with pytest.raises(StoreError, match="serves embedded"):
            book.remove("one")
        book.activate("embedded", None, "admin", "")
        book.remove("one")
        assert book.list() == ()
        for unknown in (
            lambda: book.activate("embedded", "nobody", "admin", ""),
            lambda: book.remove("nobody"),
            lambda: book.rollback("never-activated", "admin", ""),
            lambda: book.activate("embedded", None, " ", ""),
        ):
            with pytest.raises(StoreError):
                unknown()

    def test_pool_versions_count_up_and_never_change(self, store):
        assert store.pools.latest("mine") is None
        assert store.pools.add("mine", "a: 1", "admin").version == 1
        assert store.pools.add("mine", "a: 1").version == 1
        assert store.pools.add("mine", "a: 2").version == 2
        assert store.pools.add("other", "b").version == 1
        assert (store.pools.get("mine", 1).yaml, store.pools.latest("mine").yaml) == ("a: 1", "a: 2")
        assert store.pools.names() == ("mine", "other")
        with pytest.raises(StoreError, match="version 9"):
            store.pools.get("mine", 9)

    # -- ownership

    @staticmethod
    def owned_calls(store, conversation, question):
        """Every method that takes an owner and something owned, as a call."""
        c, q, f, s = store.conversations, store.questions, store.feedback, store.shares
        return {
            "conversations.get": lambda owner: c.get(owner, conversation),
            "conversations.rename": lambda owner: c.rename(owner, conversation, "stolen"),
            "conversations.delete": lambda owner: c.delete(owner, conversation),
            "questions.start": lambda owner: q.start(owner, conversation, "?", limits=Limits(), **WITH),
            "questions.get": lambda owner: q.get(owner, question),
            "questions.history": lambda owner: q.history(owner, conversation),
            "shares.create": lambda owner: s.create(owner, conversation),
            "shares.list": lambda owner: s.list(owner, conversation),
            "shares.revoke": lambda owner: s.revoke(owner, conversation),
            "feedback.set": lambda owner: f.set(owner, question, "up"),
            "feedback.get": lambda owner: f.get(owner, question),
        }

    def test_the_list_of_owned_methods_is_complete(self, store):
        owned = {
            f"{noun}.{name}"
            for noun in ("conversations", "questions", "shares", "feedback", "checkpoints", "pools")
            for name, method in inspect.getmembers(getattr(store, noun), inspect.ismethod)
            if not name.startswith("_") and "owner" in inspect.signature(method).parameters
        }
        # These see or make the owner's own things only: there is nothing of another's to name.
        own = {"conversations.create", "conversations.list", "conversations.delete_all", "questions.recent_hidden"}
        assert owned == set(self.owned_calls(store, "c", "q")) | own

    @pytest.mark.parametrize("owner", [OTHER, "", None, 7, b"me-token", ME + " ", "x" * 2_000, "\ud800"])
    def test_a_stranger_is_refused_everywhere_and_changes_nothing(self, store, owner):
        conversation, question = answered(store, "mine", "mine")
        store.shares.create(ME, conversation)
        before = store.conversations.get(ME, conversation)
        for name, call in self.owned_calls(store, conversation, question).items():
            with pytest.raises(NotOwner):
                call(owner)
                pytest.fail(f"{name} let {owner!r} in")
        assert store.conversations.get(ME, conversation) == before
        assert len(store.shares.list(ME, conversation)) == 1

    @pytest.mark.parametrize(
        "hostile",
        ["", "x" * 65, "../../etc/passwd", "a'; DROP TABLE turns; --", "%", "a\x00b", "\ud800", None, 0, ["a"], "ü"],
    )
    def test_hostile_ids_are_unknown_ids(self, store, hostile):
        unknown = "q" * 22
        calls = self.owned_calls(store, hostile, hostile)
        refusals = self.owned_calls(store, unknown, unknown)
        for name, call in calls.items():
            with pytest.raises(NotOwner) as refused:
                call(ME)
            with pytest.raises(NotOwner) as absent:
                refusals[name](ME)
            assert str(refused.value) == str(absent.value), "a refusal must not tell which ids exist"
        with pytest.raises(NotOwner):
            store.shares.open(hostile)

    def test_not_even_a_hint_is_given_to_a_stranger(self, store):
        conversation, question = answered(store, "mine", "mine")
        there = self.owned_calls(store, conversation, question)
        absent = self.owned_calls(store, new_id(), new_id())
        for name in there:
            texts = []
            for call in (there[name], absent[name]):
                with pytest.raises(NotOwner) as refused:
                    call(OTHER)
                texts.append(str(refused.value))
            assert texts[0] == texts[1]

    def test_owner_tokens_are_not_stored(self, store):
        answered(store, "q", "a", owner="very-secret-token")
        for table in tables.Base.metadata.sorted_tables:
            with store.database.reading() as session:
                for row in session.execute(select(table)):
                    assert "very-secret-token" not in repr(row)


def test_the_example_turn_round_trips_without_a_database():
    same_turn(row_to_turn(turn_to_row("q", "o", 0.0, turn(1))), turn(1))
