"""Migrations: from nothing, from every older schema with rows in it, and away from newer ones."""

import os
import shutil
import sqlite3
import subprocess
import sys
import time

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import MetaData, Table, func, select, text

from core.errors import StoreError
from core.store import database as database_module
from core.store import open_store, schema
from core.store.database import connect
from core.store.tables import Base
from tests.store_suite import ME, answered

REVISIONS = schema.revisions()


def fill(connection):
    """Three rows in every table there is, made from the column types alone: fits any past or future schema."""
    metadata = MetaData()
    metadata.reflect(connection)
    filled = {}
    for table in metadata.sorted_tables:
        if table.name != "alembic_version":
            connection.execute(table.insert(), [_row(table, number) for number in range(1, 4)])
            filled[table.name] = contents(connection, table)
    return filled


def _row(table, number):
    samples = {"TEXT": f"{number}", "BOOLEAN": True, "BLOB": bytes([number]), "BYTEA": bytes([number])}
    return {column.name: samples.get(str(column.type), number) for column in table.columns}


def contents(connection, table):
    return [dict(row._mapping) for row in connection.execute(select(table).order_by(*table.primary_key.columns))]


def kept(connection, filled):
    """Every row of before is there with the same values in the columns it had."""
    metadata = MetaData()
    metadata.reflect(connection)
    for name, before in filled.items():
        after = contents(connection, Table(name, metadata))
        assert [{key: row[key] for key in before[0] if key in row} for row in after] == [
            {key: value for key, value in row.items() if key in after[0]} for row in before
        ]
        lost = set(before[0]) - set(after[0])
        assert not lost, f"{name} lost {lost}"


def check_upgrade(url, revision):
    database = connect(url)
    schema.upgrade(database, revision)
    with database.engine.begin() as connection:
        assert schema.current(connection) == revision
        filled = fill(connection)
    assert filled
    database.engine.dispose()
    with open_store(url) as store:
        assert store.revision == REVISIONS[-1]
        with store.database.reading() as session:
            kept(session.connection(), filled)
        conversation, _ = answered(store, "works?", "yes")
        assert store.conversations.get(ME, conversation).questions[0].answer == "yes"
        with store.database.engine.connect() as connection:
            assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


@pytest.fixture
def file(tmp_path):
    return tmp_path / "trinity.sqlite3"


@pytest.fixture
def url(file):
    return f"sqlite:///{file}"


def copies(file):
    return sorted(file.parent.glob(f"{file.name}.before-*"))


def test_the_revisions_are_one_line_of_descent():
    assert len(REVISIONS) == len(set(REVISIONS)) >= 3
    assert list(REVISIONS) == sorted(REVISIONS)


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_older_schema_is_upgraded_with_its_rows(url, file, revision):
    check_upgrade(url, revision)
    assert len(copies(file)) == (revision != REVISIONS[-1])


def test_an_upgrade_works_without_write_ahead_logging(url, file, monkeypatch):
    """On network and FUSE mounts the copy is read while the upgrade already holds its lock."""
    monkeypatch.setattr(database_module, "journal_mode", lambda file: "DELETE")
    check_upgrade(url, REVISIONS[0])
    assert len(copies(file)) == 1
    assert sqlite3.connect(file).execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_an_empty_database_gets_exactly_the_tables_of_the_code(url, file):
    with open_store(url) as store, store.database.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
        names = connection.scalar(select(func.count()).select_from(text("sqlite_master")).where(text("type='table'")))
    assert names == len(Base.metadata.tables) + 1
    assert copies(file) == []


def test_the_copy_before_an_upgrade_is_whole_private_and_the_only_one(url, file):
    database = connect(url)
    schema.upgrade(database, REVISIONS[0])
    with database.engine.begin() as connection:
        filled = fill(connection)
    database.engine.dispose()
    (file.parent / f"{file.name}.before-1-0000").write_text("of an earlier upgrade")
    open_store(url).close()
    (copy,) = copies(file)
    assert copy.stat().st_mode & 0o777 == 0o600
    back = connect(f"sqlite:///{copy}")
    with back.engine.connect() as connection:
        assert schema.current(connection) == REVISIONS[0]
        kept(connection, filled)
    back.engine.dispose()


def test_an_old_copy_is_forgotten(url, file):
    open_store(url).close()
    stale, recent = (file.parent / f"{file.name}.before-{n}-0001" for n in (1, 2))
    stale.write_text("")
    recent.write_text("")
    past = time.time() - 31 * 86_400
    os.utime(stale, (past, past))
    open_store(url).close()
    assert copies(file) == [recent]


def test_a_newer_schema_is_refused_with_advice_and_left_alone(url, file):
    open_store(url).close()
    connection = sqlite3.connect(file)
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.commit()
    connection.close()
    before = file.read_bytes()
    with pytest.raises(StoreError, match=r"newer version of Trinity.*9999.*Update Trinity"):
        open_store(url)
    assert file.read_bytes() == before


def one_more_revision(monkeypatch, tmp_path, body):
    """Pretend that the program knows one more revision, which runs `body`."""
    broken = tmp_path / "migrations"
    shutil.copytree(schema._MIGRATIONS, broken, ignore=shutil.ignore_patterns("__pycache__"))
    (broken / "versions" / "9999_broken.py").write_text(
        f"from alembic import op\nrevision, down_revision = '9999', {REVISIONS[-1]!r}\n"
        f"branch_labels = depends_on = None\ndef upgrade(): {body}\n"
    )
    monkeypatch.setattr(schema, "_MIGRATIONS", broken)


def test_a_failing_upgrade_changes_nothing(url, file, monkeypatch, tmp_path):
    database = connect(url)
    schema.upgrade(database, REVISIONS[0])
    with database.engine.begin() as connection:
        filled = fill(connection)
    database.engine.dispose()
    one_more_revision(
        monkeypatch, tmp_path, "op.execute('DELETE FROM conversations'); op.execute('DELETE FROM nowhere')"
    )
    with pytest.raises(StoreError):
        open_store(url)
    database = connect(url)
    with database.engine.connect() as connection:
        assert schema.current(connection) == REVISIONS[0]
        kept(connection, filled)
    database.engine.dispose()


def test_an_upgrade_that_breaks_links_is_undone(url, monkeypatch, tmp_path):
    with open_store(url) as store:
        conversation, _ = answered(store, "kept?", "kept")
    one_more_revision(monkeypatch, tmp_path, "op.execute('DELETE FROM conversations')")
    with pytest.raises(StoreError, match="links between rows"):
        open_store(url)
    monkeypatch.undo()
    with open_store(url) as store:
        assert store.revision == REVISIONS[-1]
        assert store.conversations.get(ME, conversation).questions[0].answer == "kept"


def test_processes_that_start_together_upgrade_once(url, file):
    """Four of them on an old, filled file: each works, and the rows are there once."""
    database = connect(url)
    schema.upgrade(database, REVISIONS[0])
    with database.engine.begin() as connection:
        filled = fill(connection)
    database.engine.dispose()
    code = f"from core.store import open_store; print(open_store({url!r}).revision)"
    crowd = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    results = [process.communicate(timeout=60) for process in crowd]
    assert [out.strip() for out, _ in results] == [REVISIONS[-1]] * 4, results
    with open_store(url) as store, store.database.reading() as session:
        kept(session.connection(), filled)
    assert len(copies(file)) == 1


def test_processes_that_start_together_make_a_new_file_once(url):
    code = f"from core.store import open_store; print(open_store({url!r}).conversations.create('me'))"
    crowd = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    results = [process.communicate(timeout=60) for process in crowd]
    with open_store(url) as store:
        assert {line.id for line in store.conversations.list("me")} == {out.strip() for out, _ in results}, results
