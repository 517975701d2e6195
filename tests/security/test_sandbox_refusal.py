"""Machines that lack something: refuse with a reason, never run code without isolation."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import missing

ROOT = Path(__file__).resolve().parents[2]

# Run in a process of its own: a filter takes away system calls, then the probe looks around.
LOOK = """
import ctypes, glob, json, os, struct, sys, tempfile
without = sys.argv[1].split(",")
NAMESPACES = 0x7E020000
rules = [(0x20, 0, 0, 4), (0x15, 1, 0, 0xC000003E), (6, 0, 0, 0x7FFF0000), (0x20, 0, 0, 0)]
def answer(number, error):
    rules.extend([(0x15, 0, 1, number), (6, 0, 0, 0x00050000 | error)])
if "landlock" in without:
    for number in (444, 445, 446):
        answer(number, 38)
if "namespaces" in without:
    for number in (272, 165, 308, 155):
        answer(number, 1)
    answer(435, 38)
    rules.extend([(0x15, 0, 4, 56), (0x20, 0, 0, 16), (0x45, 0, 1, NAMESPACES)])
    rules.extend([(6, 0, 0, 0x00050001), (6, 0, 0, 0x7FFF0000)])
rules.append((6, 0, 0, 0x7FFF0000))
code = b"".join(struct.pack("=HBBI", *rule) for rule in rules)
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Program(len(rules), code)), 0, 0) == 0
from core.errors import SandboxUnavailable
from core.sandbox import open_sandbox, probe
from core.sandbox.outcome import SandboxLimits
report = probe()
said = {"backend": report.backend, "refused": dict(report.refused), "blocked": report.attacks_blocked,
        "total": report.attacks_total, "weaker": report.weaker, "uid": os.getuid()}
MESS = '''
import os

os.makedirs("a/b/c")
os.mkdir("a/shut", 0)
os.mkdir("a/b/shut", 0o500)
open("a/b/file", "w").close()
os.umask(0o777)
os.mkdir("bare")
print(6 * 7)
'''
try:
    ended = open_sandbox().run(MESS, limits=SandboxLimits(wall_s=30))  # neighbours on the machine must not fail this
    said["ran"], said["detail"] = ended.stdout, f"{ended.outcome} {ended.detail}"
    said["left"] = glob.glob(tempfile.gettempdir() + f"/trinity-box-{os.getpid()}-*")
except SandboxUnavailable as error:
    said["error"] = str(error)
print(json.dumps(said))
"""


def look(without, *, user=None):
    python, prefix = sys.executable, []
    if user is not None:
        python = "/usr/bin/python3"
        prefix = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--inh-caps=-all"]
    answer = subprocess.run(
        [*prefix, python, "-B", "-c", LOOK, without],
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


@pytest.fixture(autouse=True)
def x86():
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers of this filter are those of x86-64")


def test_without_landlock_and_namespaces_nothing_runs():  # T16
    said = look("landlock,namespaces")
    assert said["backend"] is None
    assert set(said["refused"]) == {"bubblewrap", "landlock"}
    assert "no landlock" in said["refused"]["landlock"]
    assert "ran" not in said
    assert "not run" in said["error"]


def test_a_plain_container_uses_landlock():
    said = look("namespaces")
    assert said["backend"] == "landlock"
    assert "bubblewrap" in said["refused"]
    assert (said["blocked"], said["total"]) == (15, 15)
    assert said["ran"] == "42\n"


def test_an_ordinary_user_is_as_safe():
    if os.getuid() != 0:
        pytest.skip("every other test here runs as an ordinary user already")
    usable = subprocess.run(["/usr/bin/python3", "-c", "import sys; assert sys.version_info >= (3, 11)"], check=False)
    if usable.returncode != 0 or not ROOT.stat().st_mode & 1:
        missing("a system python3 of 3.11 or newer, or a world-readable checkout")
    for without, backend in (("", "bubblewrap"), ("namespaces", "landlock")):
        said = look(without, user=1000)
        assert said["uid"] == 1000
        assert said["backend"] == backend, said["refused"]
        assert said["blocked"] == said["total"] == 15
        assert said["ran"] == "42\n", said["detail"]
        assert said["left"] == []
