"""The texts of the attacks in core/sandbox/attacks.py. Each runs behind the constants that `Canary.fill` puts in front.

A program prints `LEAK` and what it got when it succeeds, and `done` when it has tried everything.
"""

READ = """
for path in ("/etc/passwd", "/etc/hostname", SECRET, "/proc/1/cwd/etc/passwd"):
    try:
        print("LEAK", path, open(path).read(20))
    except OSError:
        pass
print("done")
"""
ENVIRONMENT = """
from os import environ
extra = set(environ) - set(NAMES)
if extra:
    print("LEAK", *sorted(extra))
print("done")
"""
PROC = """
import os
for pid in {PARENT, VICTIM, os.getppid()} - {os.getpid()}:
    try:
        open(f"/proc/{pid}/%s", "rb")
        print("LEAK", pid)
    except OSError:
        pass
print("done")
"""
PTRACE = """
import ctypes, os, resource, signal
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(16, VICTIM, None, None) == 0:
    print("LEAK attached")
try:
    os.kill(VICTIM, signal.SIGCONT)
    print("LEAK signalled")
except OSError:
    pass
try:
    resource.prlimit(VICTIM, resource.RLIMIT_CORE, (0, 0))
    print("LEAK limited")
except OSError:
    pass
print("done")
"""
WRITE = """
import os
for folder in ("/usr", "/etc", "/tmp", "/var/tmp", FOLDER):
    try:
        os.open(folder, os.O_TMPFILE | os.O_RDWR)
        print("LEAK", folder)
    except OSError:
        pass
for action in (lambda: open(FOLDER + "/planted", "w"), lambda: open(SECRET, "a").write("x"), lambda: os.unlink(SECRET),
               lambda: os.truncate(SECRET, 0), lambda: os.chmod(SECRET, 0), lambda: os.rename(SECRET, FOLDER + "/new")):
    try:
        action()
    except OSError:
        pass
print("done")
"""
NETWORK = """
import socket
def tcp():
    socket.create_connection(("127.0.0.1", TCP), 1)
def udp():
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", UDP))
def unix():
    socket.socket(socket.AF_UNIX).connect(UNIX)
def pair():
    socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", UNIX)
for way in (tcp, udp, unix, pair):
    try:
        way()
        print("LEAK", way.__name__)
    except OSError:
        pass
print("done")
"""
FORK = """
import os, time
made = 0
for _ in range(300):
    try:
        if os.fork() == 0:
            time.sleep(2)
            os._exit(0)
        made += 1
    except OSError:
        break
if made >= 20:
    print("LEAK", made, "processes", flush=True)
print("done", flush=True)
os._exit(0)
"""
ALLOCATE = """
hoard = bytearray(192 << 20)
print("LEAK", len(hoard))
"""
CHILDREN = """
import os
made = []
for _ in range(8):
    try:
        pid = os.fork()
    except OSError:
        break
    if pid == 0:
        try:
            hoard = bytearray(b"x") * (80 << 20)
            os._exit(0)
        except MemoryError:
            os._exit(1)
    made.append(pid)
got = sum(os.waitpid(pid, 0)[1] == 0 for pid in made)
if got > 1:
    print("LEAK", got, "x 80 MB")
print("done")
"""
DAEMON = """
import os, signal, time
try:
    if os.fork() == 0:
        try:
            os.setsid()
        except OSError:
            pass
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.closerange(0, 3)
        time.sleep(20)
        os._exit(0)
except OSError:
    pass
print("done", flush=True)
os._exit(0)
"""
FILES = """
block = b"x" * (1 << 20)
for number in range(40):
    with open(f"file{number}", "wb", buffering=0) as file:
        for _ in range(10):
            if file.write(block) < len(block):
                raise OSError("the disk is full")
print("LEAK 400 MB in 40 files")
"""
BIG_FILE = """
block = b"x" * (1 << 20)
with open("big", "wb", buffering=0) as file:
    for _ in range(200):
        if file.write(block) < len(block):
            raise OSError("the file is full")
print("LEAK 200 MB in one file")
"""
PRINT = """
while True:
    print("x" * 1000)
"""
UNPATCH = """
import os, posix, sys
import _posixsubprocess
os.system = os.fork = None
if posix.system(f"{sys.executable} -I -S -c 0") == 0:
    print("LEAK posix.system")
try:
    os.waitpid(posix.posix_spawn(sys.executable, [sys.executable, "-I", "-S", "-c", "0"], {}), 0)
    print("LEAK posix_spawn")
except OSError:
    pass
print("done")
"""
