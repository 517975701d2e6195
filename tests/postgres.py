"""A throw-away PostgreSQL server on a free loopback port, run as the user postgres."""

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

BIN = Path("/usr/lib/postgresql/15/bin")


def _prefix():
    """PostgreSQL refuses to run as root."""
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []


def why_absent():
    """None when a server can be started here, else the reason for the skip."""
    if not (BIN / "initdb").exists():
        return "missing tool: PostgreSQL 15 (apt-get install postgresql-15)"
    if os.geteuid() == 0:
        try:
            pwd.getpwnam("postgres")
        except KeyError:
            return "missing tool: a user postgres to run the server as"
        if shutil.which("setpriv") is None:
            return "missing tool: setpriv (util-linux)"
    return None


def _run(*command):
    done = subprocess.run([*_prefix(), *map(str, command)], capture_output=True, text=True, cwd="/", timeout=100)
    if done.returncode:
        pytest.fail(f"{command[0]} failed: {done.stderr or done.stdout}")


@contextmanager
def cluster():
    """A running server; gives a function that makes a fresh database and returns its URL."""
    if reason := why_absent():
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="trinity-pg-", dir="/tmp"))  # short: socket paths end at 107 bytes
    password = secrets.token_hex(16)
    (folder / "password").write_text(password)
    if os.geteuid() == 0:
        for path in (folder, folder / "password"):
            shutil.chown(path, "postgres", "postgres")
    data = folder / "data"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    try:
        _run(
            BIN / "initdb", "-D", data, "-U", "trinity", "--auth=scram-sha-256", f"--pwfile={folder / 'password'}",
            "--encoding=UTF8", "--locale=C", "--no-sync",
        )  # fmt: skip
        options = (
            f"-c listen_addresses=127.0.0.1 -p {port} -c unix_socket_directories={folder} -c fsync=off "
            "-c deadlock_timeout=200ms -c shared_buffers=16MB -c max_connections=60"
        )
        _run(BIN / "pg_ctl", "-D", data, "-l", folder / "log", "-o", options, "-w", "-t", "60", "start")
        base = f"postgresql://trinity:{password}@127.0.0.1:{port}"
        try:
            yield lambda: _fresh(base)
        finally:
            _run(BIN / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fresh(base):
    import psycopg

    name = f"t{secrets.token_hex(6)}"
    with psycopg.connect(f"{base}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"{base}/{name}"
