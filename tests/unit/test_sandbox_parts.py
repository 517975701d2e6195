"""The parts of the sandbox by themselves: filter, wire format, gate, scratch folders, probe, interpreter."""

import contextlib
import json
import os
import re
import shutil
import struct
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import SandboxUnavailable
from core.sandbox import ExecResult, Job, Outcome, SandboxLimits, open_sandbox, probe, run_many, syscalls
from core.sandbox.gate import Gate, machine_gate
from core.sandbox.interpreter import find_interpreter
from core.sandbox.scratch import MOST_ENTRIES, make_scratch, over_quota, remove_scratch, sweep_scratch
from core.sandbox.seccomp import build_filter
from core.sandbox.wire import MOST_BYTES, MOST_DEPTH, WireError, dump, load

TABLES = ("REACH", "OUTLIVE", "HOARD", "KERNEL", "EXEC", "METADATA", "SPECIAL")


# The filter, read by a small machine that runs classic BPF.


def verdict(code, number, *arguments, arch=0xC000003E):
    """What the filter answers to one call: `allow`, `kill`, or an errno."""
    data = struct.pack("=IIQ6Q", number, arch, 0, *(list(arguments) + [0] * 6)[:6])
    steps = [struct.unpack_from("=HBBI", code, offset) for offset in range(0, len(code), 8)]
    place, accumulator = 0, 0
    for _ in range(len(steps)):
        kind, yes, no, constant = steps[place]
        place += 1
        if kind == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, constant)
        elif kind == 0x06:
            names = {0x7FFF0000: "allow", 0x80000000: "kill"}
            return names.get(constant, constant & 0xFFFF)
        else:
            holds = {
                0x15: accumulator == constant,
                0x25: accumulator > constant,
                0x45: bool(accumulator & constant),
            }[kind]
            place += yes if holds else no
    raise AssertionError("the filter fell off its end")


@pytest.mark.parametrize(("machine", "column", "arch"), [("x86_64", 0, 0xC000003E), ("aarch64", 1, 0xC00000B7)])
@pytest.mark.parametrize("landlock", [True, False])
def test_every_listed_call_is_answered(machine, column, arch, landlock):
    code = build_filter(landlock=landlock, machine=machine)
    expected = {"REACH": 1, "OUTLIVE": 1, "HOARD": 1, "KERNEL": 1}
    expected |= {"EXEC": 1 if landlock else "allow", "METADATA": 0 if landlock else "allow"}
    for table, answer in expected.items():
        for name, numbers in getattr(syscalls, table).items():
            if numbers[column] is not None:
                assert verdict(code, numbers[column], arch=arch) == answer, name


@pytest.mark.parametrize(("machine", "column", "arch"), [("x86_64", 0, 0xC000003E), ("aarch64", 1, 0xC00000B7)])
def test_calls_that_arguments_decide(machine, column, arch):
    code = build_filter(landlock=True, machine=machine)

    def said(name, *arguments):
        return verdict(code, syscalls.SPECIAL[name][column], *arguments, arch=arch)

    assert said("clone", 0x003D0F00) == "allow"  # what glibc passes for a thread
    assert said("clone", 0x01200011) == 1  # fork
    assert said("clone", 0x10000011) == 1  # a new user namespace
    assert said("clone3") == 38
    assert said("socketpair", 1, 1 | 0o2004000) == "allow"
    assert said("socketpair", 1, 2) == 1
    assert said("socketpair", 2, 1) == 1
    assert said("sendto", 3, 0, 5, 0, 0) == "allow"
    assert said("sendto", 3, 0, 5, 0, 0x7F0000000000) == 1
    assert said("sendto", 3, 0, 5, 0, 0x7F0000001000) == 1
    assert said("prlimit64", 0) == "allow"
    assert said("prlimit64", 77) == 1
    assert said("fcntl", 3, 2) == "allow"
    assert [said("fcntl", 3, command) for command in (8, 10, 15)] == [1, 1, 1]
    assert said("ioctl", 0, 0x5401) == "allow"
    assert said("ioctl", 0, 0x5412) == 1
    assert said("prctl", 1) == 1
    assert said("prctl", 15) == "allow"
    assert said("truncate") == 1


def test_other_call_tables_and_newer_calls():
    code = build_filter(landlock=False, machine="x86_64")
    assert verdict(code, 39, arch=0x40000003) == "kill"  # 32-bit calls
    assert verdict(code, 0x40000000 | 39) == "kill"  # x32
    assert verdict(code, syscalls.NEWEST + 1) == 38
    assert [verdict(code, number) for number in (0, 1, 9, 39, 202, 257)] == ["allow"] * 6


def test_an_unknown_machine_is_refused():
    with pytest.raises(SandboxUnavailable, match="riscv64"):
        build_filter(landlock=True, machine="riscv64")


def test_numbers_agree_with_the_kernel_s_headers():
    headers = (Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), Path("/usr/include/asm-generic/unistd.h"))
    compared = 0
    for column, header in enumerate(headers):
        if not header.exists():
            continue
        found = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text()))
        for table in TABLES:
            for name, numbers in getattr(syscalls, table).items():
                if name in found:
                    assert numbers[column] == int(found[name]), name
                    compared += 1
                elif name != "fchmodat2":  # newer than Debian 12's headers
                    assert numbers[column] is None, name
    if not compared:
        pytest.skip("no kernel headers here (Debian: linux-libc-dev)")


# The wire format.

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.integers(-(2**60), 2**60), inner, max_size=4)
        | st.sets(st.text() | st.integers(-(2**60), 2**60), max_size=4)
        | st.frozensets(st.text(), max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(plain)
def test_any_plain_value_comes_back(value):
    again = load(dump(value))
    assert again == value
    assert type(again) is type(value)


@settings(max_examples=200, deadline=None)
@given(st.text() | plain.map(lambda value: json.dumps(value, default=repr, skipkeys=True)))
def test_any_text_is_a_value_or_a_wire_error(text):
    with contextlib.suppress(WireError):
        load(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"tuple":3}', '{"set":[[1]]}', '{"dict":[1]}', '{"dict":[[{"dict":[]},1]]}', '{"int":"zz"}', '{"bytes":"0"}',
        '{"opaque":[1]}', '{"unknown":"x"}', '{"a":1,"b":2}', "{}", '{"complex":["x",1]}', '{"complex":[1,2,3]}',
        '{"float":"nine"}', '{"set":[{"int":"0x1fffffffffffffff"}]}', "[" * 500 + "]" * 500, "[" * 200_000, "1" * 5000,
    ],
)  # fmt: skip
def test_forged_lines_are_refused(text):
    with pytest.raises(WireError):
        load(text)


def test_sizes_are_bounded():
    nested: list = []
    for _ in range(MOST_DEPTH + 5):
        nested = [nested]
    for value in (nested, "x" * (MOST_BYTES + 1), list(range(MOST_BYTES))):
        with pytest.raises(WireError):
            dump(value)
    with pytest.raises(WireError, match="keys"):
        load(dump({str(number): 0 for number in range(10_001)}))


def test_equal_hashes_do_not_hold_the_parent_up():
    started = time.monotonic()
    line = '{"set":[' + ",".join(f'{{"int":"{hex((2**61 - 1) * n)}"}}' for n in range(1, 9_000)) + "]}"
    with pytest.raises(WireError):
        load(line)
    assert time.monotonic() - started < 2


def test_subclasses_arrive_as_their_base():
    from collections import Counter, OrderedDict, namedtuple

    class Word(str):
        def __eq__(self, other):
            return True

        __hash__ = str.__hash__

    for value, kind in (
        (Counter("aab"), dict),
        (OrderedDict(a=1), dict),
        (namedtuple("P", "x")(1), tuple),
        (Word("a"), str),
    ):
        assert type(load(dump(value))) is kind
    assert load(dump(Word("a"))) != "b"


def test_numpy_scalars_arrive_as_numbers():
    import numpy as np

    assert load(dump([np.int64(3), np.float64(0.5), np.bool_(True)])) == [3, 0.5, True]
    assert "opaque" in dump(np.zeros(2))


# The gate.


def test_the_gate_keeps_to_its_slots_and_memory():
    gate, running, most = Gate(3, 1000), [], []

    def one(memory):
        with gate.hold(memory) as free:
            assert free
            running.append(memory)
            most.append((len(running), sum(running)))
            time.sleep(0.01)
            running.remove(memory)

    threads = [threading.Thread(target=one, args=(memory,)) for memory in [200, 400, 600, 100] * 5]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert max(count for count, _ in most) == 3
    assert max(memory for _, memory in most) <= 1000


def test_a_large_one_passes_alone_and_stop_ends_the_wait():
    gate, stop = Gate(1, 100), threading.Event()
    with gate.hold(5000) as free:
        assert free
        threading.Timer(0.05, stop.set).start()
        with gate.hold(1, stop) as second:
            assert not second
    with gate.hold(1) as again:
        assert again


def test_the_machine_s_gate():
    gate = machine_gate()
    assert gate.slots == max(1, len(os.sched_getaffinity(0)) - 1)
    assert 0 < gate.memory_mb < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**20


# Scratch folders.


def test_a_tree_of_any_depth_is_removed_and_links_are_not_followed(tmp_path):
    (tmp_path / "keep").write_text("kept")
    folder = make_scratch(None)
    Path(folder, "link").symlink_to(tmp_path)
    os.mkfifo(f"{folder}/pipe")
    here = os.open(folder, os.O_RDONLY)
    for _ in range(1500):  # deeper than recursion and than the longest path name allow
        os.mkdir("deeper-and-deeper", dir_fd=here)
        inner = os.open("deeper-and-deeper", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.symlink(tmp_path, "link", dir_fd=here)
    os.close(here)
    assert over_quota(folder, 1000) == "it made more than 2000 files" or "measured" in over_quota(folder, 1000)
    remove_scratch(folder)
    assert not Path(folder).exists()
    assert (tmp_path / "keep").read_text() == "kept"
    remove_scratch(folder)  # gone already: nothing to do


def test_folders_of_dead_processes_are_swept(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mine = make_scratch(None)
    dead = Path(mine).with_name("trinity-box-4194305-x")  # above the largest process id
    young = dead.with_name("trinity-box-4194305-y")
    for folder in (dead, young):
        folder.mkdir()
    for folder in (mine, dead):
        os.utime(folder, (1, 1))
    sweep_scratch()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([Path(mine).name, young.name])


def test_the_quota_counts_bytes_and_files():
    folder = make_scratch(None)
    assert over_quota(folder, 1) is None
    Path(folder, "sub").mkdir()
    Path(folder, "sub", "big").write_bytes(b"x" * (2 << 20))
    assert "1 MB" in over_quota(folder, 1)
    assert over_quota(folder, 10) is None
    for number in range(MOST_ENTRIES):
        Path(folder, str(number)).touch()
    assert "files" in over_quota(folder, 10)
    remove_scratch(folder)
    assert over_quota(folder, 1) is None


# Probe and opening.


def test_the_report_counts():
    report = probe()
    assert report.backend in ("bubblewrap", "landlock")
    assert report.attacks_total == len(report.guarantees) == 15
    assert report.attacks_blocked == 15
    assert report.weaker
    changed = (replace(report.guarantees[0], blocked=False), *report.guarantees[1:])
    assert replace(report, guarantees=changed).attacks_blocked == 14


def test_one_sandbox_a_process():
    assert open_sandbox() is open_sandbox()


def test_an_unknown_one_is_refused():
    with pytest.raises(SandboxUnavailable, match="known are bubblewrap, landlock"):
        open_sandbox("gvisor")


def test_a_missing_bwrap_is_said(monkeypatch):
    from core.sandbox.bubblewrap import Bubblewrap

    monkeypatch.setattr(shutil, "which", lambda *args, **kwargs: None)
    with pytest.raises(SandboxUnavailable, match="apt install bubblewrap"):
        Bubblewrap(find_interpreter())


def test_the_interpreter_s_list_holds_no_project_and_no_home():
    found = find_interpreter()
    root = str(Path(__file__).resolve().parents[2])
    assert all(not path.startswith(root) for path in (found.executable, *found.read))
    assert str(Path.home()) not in found.read
    assert "/" not in found.read


def test_a_failed_start_is_tried_once_more_and_is_not_the_program_s():
    class Flaky:
        calls = 0

        def run(self, *args, **kwargs):
            self.calls += 1
            return ExecResult(Outcome.SANDBOX_ERROR if self.calls == 1 else Outcome.PASSED)

    sandbox = Flaky()
    assert [result.outcome for result in run_many(sandbox, [Job("1")])] == [Outcome.PASSED]
    assert sandbox.calls == 2
    assert run_many(sandbox, []) == []


def test_a_back_end_that_cannot_start_is_a_sandbox_error(monkeypatch):
    sandbox = open_sandbox()
    monkeypatch.setattr(
        sandbox, "start", lambda *args, **kwargs: (_ for _ in ()).throw(OSError(24, "Too many open files"))
    )
    result = sandbox.run("print(1)")
    assert result.outcome is Outcome.SANDBOX_ERROR
    assert "Too many open files" in result.detail


def test_a_process_killed_before_it_is_ready_ends_cleanly():
    for _ in range(5):
        with open_sandbox().start("print(1)", SandboxLimits()) as process:
            assert process.end(Outcome.TIMEOUT, "early").outcome is Outcome.TIMEOUT
        assert process.ended


def test_no_descriptor_leaks_over_many_runs():
    sandbox = open_sandbox()
    sandbox.run("print(1)")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(8):
        sandbox.run(["print(1)", "while True: print(1)", "1/0", "import os; os.close(1)"][number % 4])
    assert len(list(Path("/proc/self/fd").iterdir())) == before
