"""The store on a real PostgreSQL server: the common suite, migrations, and writers that meet head-on."""

import subprocess
import sys
import threading

import pytest
from sqlalchemy import text

from core.errors import StoreError
from core.store import open_store, schema
from core.store.database import connect
from core.store.tables import Base
from tests.postgres import cluster
from tests.store_suite import ME, StoreSuite, answered, ask, trace, turn
from tests.unit.test_store_schema import REVISIONS, check_upgrade


@pytest.fixture(scope="module")
def fresh():
    with cluster() as new_database:
        yield new_database


@pytest.fixture(scope="module")
def shared(fresh):
    with open_store(fresh()) as store:
        yield store


@pytest.fixture
def store(shared):
    """One database for all tests, emptied before each: making one takes longer than most tests."""
    with shared.database.writing() as session:
        names = ", ".join(table.name for table in Base.metadata.sorted_tables)
        session.execute(text(f"TRUNCATE {names} CASCADE"))
    return shared


class TestPostgres(StoreSuite):
    """Everything of the common suite."""


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_older_schema_is_upgraded_with_its_rows(fresh, revision):
    check_upgrade(fresh(), revision)


def test_a_newer_schema_is_refused(fresh):
    url = fresh()
    with open_store(url) as store, store.database.writing() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreError, match="newer version of Trinity"):
        open_store(url)


def test_processes_that_start_together_upgrade_once(fresh):
    url = fresh()
    schema.upgrade(connect(url), REVISIONS[0])
    code = f"from core.store import open_store; print(open_store({url!r}).revision)"
    crowd = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    results = [process.communicate(timeout=60) for process in crowd]
    assert [out.strip() for out, _ in results] == [REVISIONS[-1]] * 4, results


def test_a_wrong_password_is_a_store_error_that_does_not_show_it(fresh):
    url = fresh()
    right = url.split(":")[2].split("@")[0]
    with pytest.raises(StoreError, match="password") as refused:
        open_store(url.replace(right, "hunter2"))
    assert "hunter2" not in str(refused.value)


def test_an_absent_database_is_a_store_error(fresh):
    with pytest.raises(StoreError, match="does not exist"):
        open_store(fresh() + "x")


def _together(*works):
    errors = []

    def guarded(work):
        try:
            work()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_a_deletion_meets_a_running_question_without_a_deadlock(store):
    for _ in range(25):
        conversation, question = ask(store)
        errors = _together(
            lambda c=conversation: store.conversations.delete(ME, c),
            lambda q=question: store.questions.add_turn(q, turn(1)),
            lambda q=question: store.questions.finish(q, trace(q)),
        )
        assert all("deleted while it ran" in str(error) for error in errors), errors
        with store.database.reading() as session:
            assert session.scalar(text("SELECT count(*) FROM turns")) == 0


def test_questions_begun_at_once_get_different_positions(store):
    conversation, _ = answered(store, "first", "first")
    assert not _together(*[lambda: ask(store, conversation=conversation) for _ in range(8)])
    assert [q.position for q in store.conversations.get(ME, conversation).questions] == list(range(1, 10))


def test_a_server_that_goes_away_is_a_store_error_and_comes_back(fresh):
    url = fresh()
    name = url.rsplit("/", 1)[1]
    with open_store(url) as store:
        store.conversations.create(ME)
        with connect(url.replace(name, "postgres")).reading() as session:
            cut = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = :name")
            with store.database.reading() as held:
                held.execute(text("SELECT 1"))
                assert session.execute(cut, {"name": name}).all()
                with pytest.raises(StoreError):
                    with store.database.translated():
                        held.execute(text("SELECT 1"))
                    pytest.fail("the connection should have been cut")
        assert len(store.conversations.list(ME)) == 1  # the pool notices and connects again
