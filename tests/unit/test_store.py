"""The store on SQLite: the common suite, and what is SQLite's own."""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import event, text

from core.errors import ConfigError, StoreError
from core.store import database, open_store, tables
from core.store.columns import escape, unescape
from core.store.runner import is_alive, this_runner
from tests.store_suite import HOSTILE, ME, StoreSuite, answered, ask, turn


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'trinity.sqlite3'}"


@pytest.fixture
def store(url):
    with open_store(url) as opened:
        yield opened


class TestSqlite(StoreSuite):
    """Everything of the common suite."""


def test_the_escape_keeps_plain_text_and_undoes_itself():
    assert escape("plain ü 首 😀") == "plain ü 首 😀"
    assert "\x00" not in escape(HOSTILE)
    escape(HOSTILE).encode("utf-8")
    assert unescape(escape(HOSTILE)) == HOSTILE
    assert unescape(escape(escape(HOSTILE))) == escape(HOSTILE)


def test_a_new_file_is_private_and_in_wal_mode(tmp_path, store):
    file = tmp_path / "trinity.sqlite3"
    ask(store)
    assert sqlite3.connect(file).execute("PRAGMA journal_mode").fetchone() == ("wal",)
    for part in tmp_path.iterdir():
        assert stat.S_IMODE(part.stat().st_mode) == 0o600, part


def test_connections_have_the_agreed_habits(store):
    with store.database.reading() as session:
        values = {name: session.scalar(text(f"PRAGMA {name}")) for name in ("foreign_keys", "busy_timeout")}
        assert values == {"foreign_keys": 1, "busy_timeout": database.BUSY_MS}
        assert session.scalar(text("PRAGMA secure_delete")) == 1
        assert session.scalar(text("PRAGMA synchronous")) == 1  # NORMAL
    with store.database.writing(durable=True) as session:
        assert session.scalar(text("PRAGMA synchronous")) == 2  # FULL
    with store.database.writing() as session:
        assert session.scalar(text("PRAGMA synchronous")) == 1


def test_journal_mode_avoids_wal_on_mounts_that_cannot_share_memory(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/vda / ext4 rw 0 0\nbucket /data fuse.hf rw 0 0\n"
        "nas /mnt/my\\040nas nfs4 rw 0 0\nx /data/local tmpfs rw 0 0\n"
    )
    expected = {
        "/home/a/t.db": "WAL",
        "/data/t.db": "DELETE",
        "/data/local/t.db": "WAL",
        "/mnt/my nas/t.db": "DELETE",
        "/database/t.db": "WAL",
    }
    assert {path: database.journal_mode(Path(path), mounts) for path in expected} == expected
    assert database.journal_mode(Path("/x"), tmp_path / "absent") == "WAL"


def test_deleted_text_is_gone_from_the_file(tmp_path, store):
    conversation, question = answered(store, "a PURPLE-ELEPHANT question", "a PURPLE-ELEPHANT answer")
    store.questions.add_turn(question, turn(1, text="PURPLE-ELEPHANT " * 1_000))
    store.conversations.delete(ME, conversation)
    with store.database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("COMMIT")
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    left = b"".join(part.read_bytes() for part in tmp_path.iterdir()).lower()
    assert b"purple-elephant" not in left


def test_an_error_inside_a_write_undoes_all_of_it(store):
    with pytest.raises(RuntimeError), store.database.writing() as session:
        session.add(tables.PoolRow(name="p", version=1, yaml="", who="", created=0.0))
        session.flush()
        raise RuntimeError
    assert store.pools.names() == ()


def test_threads_share_one_store(store):
    conversation, question = ask(store)
    errors = []

    def work(base):
        try:
            for step in range(10):
                store.questions.add_turn(question, turn(base + step, decision=None))
                store.conversations.get(ME, conversation)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(100 * n,)) for n in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(store.questions.get(ME, question).turns) == 80


def test_a_busy_database_is_named_and_nothing_is_lost(url, store, monkeypatch):
    monkeypatch.setattr(database, "BUSY_MS", 50)
    with open_store(url) as impatient, store.database.writing() as session:
        session.add(tables.PoolRow(name="p", version=1, yaml="", who="", created=0.0))
        session.flush()
        with pytest.raises(StoreError, match="held by another process"):
            impatient.pools.add("q", "x")
        assert impatient.pools.names() == ()  # reading never waits for a writer
    assert store.pools.names() == ("p",)


def test_a_write_that_contradicts_the_database_is_a_store_error(store):
    with pytest.raises(StoreError, match="contradicts"), store.database.writing() as session:
        session.add(tables.FeedbackRow(question_id="nobody", value="up", reason="PRIVATE", created=0.0))


def test_store_errors_do_not_repeat_what_was_written(store):
    with pytest.raises(StoreError) as refused, store.database.writing() as session:
        session.execute(text("INSERT INTO nowhere VALUES (:secret)"), {"secret": "PRIVATE"})
    assert "PRIVATE" not in str(refused.value)


@pytest.mark.parametrize(
    ("bad", "part"),
    [
        ("nonsense", "not a database URL"),
        ("mysql://u:hunter2@h/d", "mysql is not supported"),
        ("sqlite://", "must name a SQLite file"),
        ("sqlite:///:memory:", "must name a SQLite file"),
        ("sqlite:///file:x?mode=memory&uri=true", "must name a SQLite file"),
        ("postgresql://u:hunter2@h:notaport/d", "not a database URL"),
    ],
)
def test_a_wrong_url_says_what_to_write(bad, part):
    with pytest.raises(ConfigError, match=part) as refused:
        open_store(bad)
    assert "hunter2" not in str(refused.value)


def test_no_server_is_a_store_error_without_the_password():
    with pytest.raises(StoreError, match=r"PostgreSQL at 127\.0\.0\.1:1/d cannot be reached") as refused:
        open_store("postgresql://user:hunter2@127.0.0.1:1/d")
    assert "hunter2" not in str(refused.value)


def test_a_file_that_is_no_database_is_left_alone(tmp_path, url):
    file = tmp_path / "trinity.sqlite3"
    file.write_bytes(b"this is a shopping list, not a database\n" * 200)
    before = file.read_bytes()
    with pytest.raises(StoreError, match="damaged or not a database"):
        open_store(url)
    assert file.read_bytes() == before


def test_a_damaged_page_is_a_store_error(tmp_path, url):
    with open_store(url) as store:
        for number in range(50):
            answered(store, f"question {number} " + "x" * 500, "answer")
    file = tmp_path / "trinity.sqlite3"
    content = bytearray(file.read_bytes())
    content[4096 : len(content)] = os.urandom(len(content) - 4096)
    file.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"), open_store(url) as store:
        store.conversations.list(ME, "question")


def test_a_folder_that_cannot_be_made_names_the_settings(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="TRINITY_DATA_DIR"):
        open_store(f"sqlite:///{tmp_path / 'file' / 'sub' / 'trinity.sqlite3'}")


def test_a_directory_in_place_of_the_file_is_a_store_error(tmp_path):
    with pytest.raises(StoreError):
        open_store(f"sqlite:///{tmp_path}")


def test_a_read_only_database_is_refused_at_the_start(tmp_path, url):
    open_store(url).close()
    file = tmp_path / "trinity.sqlite3"
    # Root may write anything, so it gives that right away first.
    prefix = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    if prefix and shutil.which("setpriv") is None:
        pytest.skip("missing tool: setpriv (util-linux)")
    file.chmod(0o444)
    tmp_path.chmod(0o555)
    code = f"from core.store import open_store; open_store({url!r})"
    done = subprocess.run([*prefix, sys.executable, "-c", code], capture_output=True, text=True)
    tmp_path.chmod(0o755)
    assert done.returncode == 1
    assert "core.errors.StoreError" in done.stderr
    assert "read-only" in done.stderr.splitlines()[-1]


def test_another_programs_tables_are_not_touched(tmp_path, url):
    other = sqlite3.connect(tmp_path / "trinity.sqlite3")
    other.executescript("CREATE TABLE conversations (a); INSERT INTO conversations VALUES (1);")
    other.close()
    with pytest.raises(StoreError, match="tables of another program"):
        open_store(url)
    found = sqlite3.connect(tmp_path / "trinity.sqlite3").execute("SELECT name FROM sqlite_master").fetchall()
    assert found == [("conversations",)]


def test_a_disk_without_room_is_a_store_error_and_earlier_rows_stay(tmp_path, url):
    with open_store(url) as store:
        conversation, question = answered(store, "kept?", "kept")

        def limit(connection, _record):
            connection.execute("PRAGMA max_page_count = 1")  # SQLite takes the present size: not one page more

        store.close()
        event.listen(store.database.engine, "connect", limit)
        with pytest.raises(StoreError, match="no room left"):
            for index in range(1, 50):
                store.questions.add_turn(question, turn(index, text="x" * 20_000))
        assert store.conversations.get(ME, conversation).questions[0].answer == "kept"


def test_the_runner_of_a_process_dies_with_it():
    code = "from core.store.runner import this_runner; print(this_runner(), flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    runner = child.stdout.readline().strip()
    assert is_alive(runner) and is_alive(this_runner())
    child.kill()
    deadline = time.monotonic() + 10
    while is_alive(runner) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_alive(runner), "a killed process that nobody waited for is no runner"
    child.communicate()
    assert not is_alive(runner)


def test_every_query_of_the_history_uses_an_index(store):
    """A scan of a whole table would be slow only once there are 100,000 rows, so the plan is checked instead."""
    statements = []
    event.listen(
        store.database.engine,
        "before_cursor_execute",
        lambda connection, cursor, statement, parameters, context, many: statements.append((statement, parameters)),
    )
    conversation, question = answered(store, "q", "a")
    store.questions.add_turn(question, turn(1))
    statements.clear()
    store.conversations.list(ME)
    store.conversations.list(ME, "q")
    store.conversations.get(ME, conversation)
    store.questions.get(ME, question)
    store.questions.history(ME, conversation)
    store.questions.recent_hidden(ME, 500, "slm", "paper@1")
    store.questions.recent_hidden(None, 500, "slm", "paper@1")
    store.questions.interrupt_unfinished()
    selects = [(s, p) for s, p in statements if s.startswith("SELECT")]
    assert len(selects) > 10
    with store.database.engine.connect() as connection:
        for statement, parameters in selects:
            plan = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)]
            scans = [step for step in plan if step.startswith("SCAN") and "ix_questions_running" not in step]
            assert not scans, (statement, plan)  # the index of running questions holds only those
