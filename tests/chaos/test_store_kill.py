"""The store under writers that crowd each other and writers that are killed."""

import random
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from sqlalchemy import text

from core.store import open_store
from core.store.database import connect
from core.types import Reason, Status
from tests.store_suite import ME, same_turn, turn

WRITER = """
import sys
from sqlalchemy import text
from core.store.database import connect
database, errors = connect(sys.argv[1]), 0
for _ in range(int(sys.argv[2])):
    try:
        with database.writing() as session:
            value = session.scalar(text("SELECT value FROM counter"))
            session.execute(text("UPDATE counter SET value = :value"), {"value": value + 1})
    except Exception as error:
        errors += 1
        print(error, file=sys.stderr)
print(errors)
"""

TURNS = """
import sys
from core.store import open_store
from core.types import Limits
from tests.store_suite import ME, WITH, turn
store = open_store(sys.argv[1])
conversation = store.conversations.create(ME)
question = store.questions.start(ME, conversation, "Why?", limits=Limits(), **WITH)
print(conversation, question, flush=True)
index = 0
while True:
    index += 1
    store.questions.add_turn(question, turn(index, verdict=None, finish="stop"))
    print(index, flush=True)
"""


def start(code, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_four_writers_lose_nothing_and_meet_no_lock(tmp_path):
    url = f"sqlite:///{tmp_path / 'trinity.sqlite3'}"
    open_store(url).close()
    connection = sqlite3.connect(tmp_path / "trinity.sqlite3")
    connection.executescript("CREATE TABLE counter (value INTEGER); INSERT INTO counter VALUES (0);")
    connection.close()
    crowd = [start(WRITER, url, "150") for _ in range(4)]
    results = [process.communicate(timeout=110) for process in crowd]
    assert [out.strip() for out, _ in results] == ["0"] * 4, [err for _, err in results]
    with connect(url).reading() as session:
        assert session.scalar(text("SELECT value FROM counter")) == 600


def _kill_once(url, after):
    """Kill a writer `after` so many seconds of adding turns; returns its ids and the turns it reported."""
    process = start(TURNS, url)
    conversation, question = process.stdout.readline().split()
    process.stdout.readline()  # the first turn is in
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate(timeout=30)
    reported = 1 + len([line for line in rest.splitlines() if line.strip().isdigit()])
    return conversation, question, reported


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_kill_9_while_turns_are_added_loses_none_that_was_reported(tmp_path, kills):
    url = f"sqlite:///{tmp_path / 'trinity.sqlite3'}"
    draw = random.Random(kills)
    for _ in range(kills):
        conversation, question, reported = _kill_once(url, draw.uniform(0.0, 0.15))
        with open_store(url) as store:
            assert store.questions.interrupt_unfinished() == 1
            found = store.questions.get(ME, question)
            # The one being written when the kill came may be there, too: committed, not yet reported.
            assert reported <= len(found.turns) <= reported + 1
            for index, spoken in enumerate(found.turns, start=1):
                same_turn(spoken, turn(index, verdict=None, finish="stop"))
            assert (found.status, found.reason) == (Status.STOPPED, Reason.INTERRUPTED)
            assert found.answer == found.turns[-1].text
            assert store.conversations.list(ME)[0].id == conversation
    check = sqlite3.connect(tmp_path / "trinity.sqlite3")
    assert check.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    check.close()


def test_kill_9_in_the_middle_of_an_upgrade_leaves_the_old_schema(tmp_path):
    """The process dies inside the migration's transaction; the next start upgrades as if nothing had been."""
    from core.store import schema

    url = f"sqlite:///{tmp_path / 'trinity.sqlite3'}"
    first = schema.revisions()[0]
    database = connect(url)
    schema.upgrade(database, first)
    database.engine.dispose()
    code = (
        "import os, signal, sys\nfrom core.store import schema\nfrom core.store.database import connect\n"
        "schema._check_links = lambda *a: os.kill(os.getpid(), signal.SIGKILL)\n"
        "schema.upgrade(connect(sys.argv[1]))\n"
    )
    process = start(code, url)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    database = connect(url)
    with database.engine.connect() as connection:
        assert schema.current(connection) == first
    database.engine.dispose()
    with open_store(url) as store:
        assert store.revision == schema.revisions()[-1]
        store.conversations.create(ME)
    assert not list(tmp_path.glob("*.part"))
