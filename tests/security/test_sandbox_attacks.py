"""The attack matrix on every back end, the same matrix without isolation, and the rest of what code can try."""

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from core.sandbox import Outcome, SandboxLimits
from core.sandbox.attacks import ATTACKS, attempt, canary, survivors
from core.sandbox.interpreter import find_interpreter
from core.sandbox.launch import environment
from core.sandbox.scratch import remove_scratch

NAMES = [attack.name for attack in ATTACKS]
ROOT = Path(__file__).resolve().parents[2]
SHORT = SandboxLimits(wall_s=2.0)


@pytest.fixture
def target():
    with canary(find_interpreter().executable) as decoys:
        yield decoys


@pytest.mark.parametrize("attack", ATTACKS, ids=NAMES)
def test_attack_is_blocked(sandbox, attack, target):
    row = attempt(sandbox, attack, target)
    assert row.blocked, row.detail


@pytest.mark.parametrize("attack", ATTACKS, ids=NAMES)
def test_attack_works_without_isolation(bare, attack, target, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_SERVER", "sk-canary")
    row = attempt(bare, attack, target)
    assert not row.blocked
    assert "it did not run" not in row.detail


def test_a_back_end_that_does_not_run_anything_has_blocked_nothing(bare, target):
    bare.start = lambda *args, **kwargs: type(bare).start(bare, "raise SystemExit(1)", args[1])
    for attack in ATTACKS:
        if attack.judge.__name__ in ("_said_nothing", "_left_nothing", "_reached_nobody", "_harmed_nobody"):
            assert not attempt(bare, attack, target).blocked


def test_no_key_of_the_parent_is_reachable(sandbox, monkeypatch):  # T02
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789")
    program = f"""
import glob, os
for path in (*glob.glob("/proc/*/environ"), "/proc/{os.getpid()}/environ", "/proc/self/environ"):
    try:
        print(open(path, "rb").read())
    except OSError as error:
        print(error)
print(dict(os.environ), os.popen if 0 else "")
"""
    result = sandbox.run(program, limits=SHORT)
    assert "sk-canary" not in result.stdout + result.stderr
    assert result.outcome is Outcome.PASSED


def test_the_environment_is_exactly_the_list(sandbox):  # T17
    result = sandbox.run("import os; print(*sorted(os.environ))", limits=SHORT)
    assert result.stdout.split() == sorted(environment(""))


def test_no_descriptor_of_the_parent_is_inherited(sandbox, tmp_path):
    secret = (tmp_path / "open").open("w+")
    os.set_inheritable(secret.fileno(), True)
    program = """
import os
found = []
for number in range(3, 4096):
    try:
        os.fstat(number)
        found.append(number)
    except OSError:
        pass
print(found)
"""
    assert sandbox.run(program, limits=SHORT).stdout == "[]\n"
    secret.close()


def test_time_is_kept_and_the_process_is_gone(sandbox):  # T06
    for program in ("while True: pass", "9 ** (10 ** 9)", "import time; time.sleep(60)"):
        started = time.monotonic()
        with sandbox.start(program, SandboxLimits(wall_s=0.6)) as process:
            process.feed(b"")
            result = process.wait()
        assert result.outcome is Outcome.TIMEOUT
        assert 0.6 <= result.wall_s < 1.1
        assert time.monotonic() - started < 5
        assert gone(process.token)


def test_signals_do_not_postpone_the_end(sandbox):  # T05
    program = """
import os, signal, time
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
for call in (os.setsid, lambda: os.setpgid(0, 0)):
    try:
        call()
        print("moved")
    except OSError:
        pass
time.sleep(60)
"""
    with sandbox.start(program, SandboxLimits(wall_s=0.5)) as process:
        process.feed(b"")
        result = process.wait()
    assert result.outcome is Outcome.TIMEOUT
    assert gone(process.token)


def test_memory_is_refused_and_not_ours(sandbox):  # T07
    before = _resident_mb()
    result = sandbox.run("x = bytearray(6 << 30)", limits=SHORT)
    assert result.outcome is Outcome.MEMORY
    assert _resident_mb() - before < 20


def test_memory_in_hidden_places_is_refused(sandbox):
    program = """
import ctypes, errno, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
def shared_memory():
    if libc.shmget(0, 512 << 20, 0o1600) >= 0:
        print("LEAK shmget")
def memory_file():
    os.memfd_create("x")
    print("LEAK memfd")
def mapped():
    mmap.mmap(-1, 2 << 30)
    print("LEAK mmap")
for hide in (shared_memory, memory_file, mapped):
    try:
        hide()
    except (OSError, MemoryError):
        pass
print("done")
"""
    assert sandbox.run(program, limits=SHORT).stdout == "done\n"


def test_output_is_cut_early(sandbox):  # T08
    started, before = time.monotonic(), _resident_mb()
    for stream in (1, 2):
        result = sandbox.run(f"import os\nwhile True: os.write({stream}, b'x' * 65536)", limits=SHORT)
        assert result.outcome is Outcome.OUTPUT_LIMIT
        assert len(result.stdout) + len(result.stderr) <= 65_536
    assert time.monotonic() - started < 2
    assert _resident_mb() - before < 20


def test_disk_is_capped_and_the_folder_goes(sandbox):  # T09
    before = set(Path("/tmp").glob(f"trinity-box-{os.getpid()}-*"))
    program = """
import os
os.symlink("/etc", "link")
os.makedirs("a/b/c")
os.chmod("a", 0)
for number in range(40):
    open(f"file{number}", "wb", buffering=0).write(b"x" * (10 << 20))
    print(number, flush=True)
"""
    result = sandbox.run(program, limits=SandboxLimits(wall_s=5))
    assert result.outcome is Outcome.CRASH
    assert len(result.stdout.split()) < 40
    assert set(Path("/tmp").glob(f"trinity-box-{os.getpid()}-*")) <= before
    assert Path("/etc/passwd").exists()


def test_a_hostile_folder_is_removed(sandbox, tmp_path):
    before = set(Path("/tmp").glob(f"trinity-box-{os.getpid()}-*"))
    (tmp_path / "keep").write_text("kept")
    program = f"""
import os
os.symlink({str(tmp_path)!r}, "out")
os.symlink("nowhere", "dangling")
os.mkfifo("pipe")
os.mkdir("closed", 0)
for depth in range(1500):
    os.mkdir("d" * 40)
    os.chdir("d" * 40)
print("done")
"""
    result = sandbox.run(program, limits=SandboxLimits(wall_s=5))
    assert result.outcome in (Outcome.PASSED, Outcome.CRASH)
    assert (tmp_path / "keep").read_text() == "kept"
    assert set(Path("/tmp").glob(f"trinity-box-{os.getpid()}-*")) <= before


def test_nothing_outside_is_written(sandbox, tmp_path):  # T10
    tmp_path.chmod(0o777)
    here = Path(__file__).resolve()
    places = ["/usr/trinity-x", "/etc/trinity-x", "/tmp/trinity-x", "/dev/shm/trinity-x", "/trinity-x"]
    places += [str(Path.home() / ".ssh/trinity-x"), str(here.parent / "planted.py"), str(tmp_path / "x")]
    program = f"""
for path in {places!r}:
    try:
        open(path, "w").write("x")
        print("LEAK", path)
    except OSError:
        pass
try:
    open({str(here)!r}, "a")
    print("LEAK source")
except OSError:
    pass
print("done")
"""
    assert sandbox.run(program, limits=SHORT).stdout == "done\n"
    assert not [path for path in places if Path(path).exists()]


def test_the_parent_is_left_alone(sandbox):  # T11
    program = f"""
import ctypes, fcntl, os, resource, signal, socket
libc = ctypes.CDLL(None, use_errno=True)
parent = {os.getpid()}
def tried(name, action):
    try:
        if action() not in (-1, None):
            print("LEAK", name)
    except OSError:
        pass
def leak(name, action):
    try:
        action()
        print("LEAK", name)
    except OSError:
        pass
tried("ptrace", lambda: libc.ptrace(16, parent, None, None))
tried("process_vm_readv", lambda: libc.process_vm_readv(parent, None, 0, None, 0, 0))
leak("kill", lambda: os.kill(parent, signal.SIGSTOP))
leak("pidfd", lambda: signal.pidfd_send_signal(os.pidfd_open(parent), 19))
leak("prlimit", lambda: resource.prlimit(parent, resource.RLIMIT_NOFILE, (3, 3)))
leak("affinity", lambda: os.sched_setaffinity(parent, [0]))
leak("priority", lambda: os.setpriority(os.PRIO_PROCESS, parent, 19))
leak("group", lambda: os.killpg(os.getpgid(parent), 0))
left, right = socket.socketpair()
leak("owner", lambda: fcntl.fcntl(left, fcntl.F_SETOWN, parent))
leak("signal", lambda: fcntl.fcntl(left, 10, signal.SIGKILL))
leak("mem", lambda: open(f"/proc/{{parent}}/mem", "r+b"))
print("done")
"""
    with sandbox.start(program, SHORT) as process:
        process.feed(b"")
        assert process.wait().stdout == "done\n"
    assert os.sched_getaffinity(0) == os.sched_getaffinity(os.getpid())
    state = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[0]
    assert state == "R"


def test_the_parts_of_the_kernel_that_break_are_shut(sandbox):
    program = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
numbers = {"io_uring_setup": 425, "unshare": 272, "bpf": 321, "userfaultfd": 323, "perf_event_open": 298, "keyctl": 250,
           "mount": 165, "open_by_handle_at": 304, "clone3": 435, "newest": 600, "fsopen": 430, "personality": 135}
for name, number in numbers.items():
    result = libc.syscall(ctypes.c_long(number), 0, 0, 0, 0, 0, 0)
    if result != -1 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS):
        print("LEAK", name, result, ctypes.get_errno())
print("done")
"""
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers above are those of x86-64")
    assert sandbox.run(program, limits=SHORT).stdout == "done\n"


def test_no_privilege_is_left(sandbox):
    program = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
assert libc.capget(header, data) == 0
assert libc.prctl(39, 0, 0, 0, 0) == 1, "no_new_privs is off"
try:
    os.setuid(0)
except OSError:
    pass
print(data[0], data[1], data[3], data[4], os.getuid())
"""
    result = sandbox.run(program, limits=SHORT)
    assert result.outcome is Outcome.PASSED, result.stderr
    *capabilities, user = result.stdout.split()
    assert capabilities == ["0"] * 4  # effective and permitted
    assert sandbox.name != "bubblewrap" or user != "0"


def test_a_second_call_table_kills(sandbox):
    if os.uname().machine != "x86_64":
        pytest.skip("only x86-64 has the x32 table")
    result = sandbox.run("import ctypes; ctypes.CDLL(None).syscall(ctypes.c_long(0x40000000 | 39)); print('LEAK')")
    assert result.outcome is Outcome.CRASH
    assert "LEAK" not in result.stdout


@pytest.mark.parametrize(
    "program",
    [
        "import ctypes; ctypes.string_at(0)",
        "import os; os.abort()",
        "f = lambda: f()\nf()",
        "import sys\nsys.setrecursionlimit(10**9)\nf = lambda: f()\nf()",
        "import sys; sys.exit(3)",
        "def f(:",
        "\0",
        "raise BaseException('x')",
        "import threading; threading.excepthook = None\nraise KeyboardInterrupt",
    ],
)
def test_a_crash_is_a_crash_and_the_next_one_runs(sandbox, program):  # T14
    result = sandbox.run(program, limits=SandboxLimits(wall_s=20, memory_mb=64))
    assert result.outcome in (Outcome.CRASH, Outcome.MEMORY)
    assert sandbox.run("print(1)").stdout == "1\n"


def test_a_program_cannot_pretend_that_the_sandbox_failed(sandbox):
    for status in range(90, 130):
        if status % 7 == 0 or status in (96, 97):
            result = sandbox.run(f"import os; os._exit({status})", limits=SHORT)
            assert result.outcome in (Outcome.CRASH, Outcome.MEMORY)


def test_a_killed_parent_takes_the_program_along(sandbox):
    script = f"""
import sys
from core.sandbox import SandboxLimits, open_sandbox
process = open_sandbox({sandbox.name!r}).start("while True: pass", SandboxLimits(wall_s=60))
while not process.ready:
    process.pump(process.deadline)
print(process.token, flush=True)
process.wait()
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=ROOT, text=True)
    token = parent.stdout.readline().strip()
    assert survivors(token)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone(token, 3.0)
    for left in Path("/tmp").glob(f"trinity-box-{parent.pid}-*"):
        remove_scratch(str(left))  # nobody was left to do it; a later start would, after an hour


def test_files_are_counted(sandbox):
    program = """
import os
for number in range(200000):
    os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY))
print("LEAK")
"""
    result = sandbox.run(program, limits=SandboxLimits(wall_s=20))
    assert result.outcome is Outcome.CRASH
    assert "files" in result.detail
    assert "LEAK" not in result.stdout


def test_stop_kills_at_once(sandbox):
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    started = time.monotonic()
    result = sandbox.run("while True: pass", stop=stop)
    assert result.outcome is Outcome.SANDBOX_ERROR
    assert time.monotonic() - started < 2


def test_a_listener_of_this_machine_hears_nothing(sandbox):  # T03
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.3)
        port = server.getsockname()[1]
        result = sandbox.run(f"import urllib.request as u; u.urlopen('http://127.0.0.1:{port}/')", limits=SHORT)
        assert result.outcome is Outcome.CRASH
        with pytest.raises(TimeoutError):
            server.accept()


def gone(token, seconds=0.5):
    """Whether nobody with this token lives; a killed process may take a moment on a busy machine."""
    end = time.monotonic() + seconds
    while survivors(token):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
