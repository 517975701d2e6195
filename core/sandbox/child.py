"""Runs inside the sandboxed process: shuts the doors, then becomes the program. Standard library only.

The parent sends this file as compiled code together with the job (`marshal`), so no path of the host is seen. What is
imported here costs time at every run: `ctypes` is 4 ms, `json` 5 ms.

Order matters: user, limits, no new privileges, landlock, seccomp, "ready", program. "ready" is written to a pipe that
is closed before the program starts, so a program cannot pretend that the sandbox failed.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing `typing` for real takes 8 ms
if TYPE_CHECKING:
    from typing import Any

OUT_OF_MEMORY = 97  # exit status of an uncaught MemoryError


def main(job: dict[str, Any]) -> None:
    """Confine this process as the job says, then run the job's program as `__main__`."""
    import os

    if job["uid"]:
        for number in range(3):
            os.fchmod(number, 0o666)  # the pipes belong to root; the program may open them again as /dev/stdin
        os.setgroups([])
        os.setresgid(job["uid"], job["uid"], job["uid"])
        os.setresuid(job["uid"], job["uid"], job["uid"])
    os.umask(0o077)
    os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["environment"])
    _limit(job["rlimits"])
    if job["filter"]:
        _shut(job)
    os.write(job["ready"], b"ready")
    for number in job["close"]:
        os.close(number)
    _become(job)


def _limit(rlimits: list[tuple[str, int]]) -> None:
    import resource

    for name, value in rlimits:
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        # The main thread's stack may grow later; everything else is final.
        resource.setrlimit(kind, (value, hard if name == "RLIMIT_STACK" else value))


def _shut(job: dict[str, Any]) -> None:
    """Landlock and seccomp. Every failure raises: a guard that is quietly absent is worse than none."""
    import ctypes
    import os

    libc = ctypes.CDLL(None, use_errno=True)
    word = ctypes.c_ulong

    def must(result: int, what: str) -> None:
        if result != 0:
            raise OSError(ctypes.get_errno(), what + ": " + os.strerror(ctypes.get_errno()))

    must(libc.prctl(1, word(9), word(0), word(0), word(0)), "PR_SET_PDEATHSIG")
    if os.getppid() != job["parent"]:
        raise OSError("the parent is gone")
    if job["drop_capabilities"]:
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
        must(libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")
    must(libc.prctl(38, word(1), word(0), word(0), word(0)), "PR_SET_NO_NEW_PRIVS")
    must(libc.syscall(ctypes.c_long(446), ctypes.c_long(job["ruleset"]), ctypes.c_long(0)), "landlock_restrict_self")

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))

    program = Program(len(job["filter"]) // 8, job["filter"])
    must(libc.prctl(22, word(2), ctypes.byref(program), word(0), word(0)), "PR_SET_SECCOMP")


def _become(job: dict[str, Any]) -> None:
    """Run the program in a fresh `__main__`, with the names that `site` would have added."""
    import _sitebuiltins
    import builtins
    import os

    for name in ("exit", "quit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
    if job["packages"]:
        sys.path.append(job["packages"])
    module = type(sys)("__main__")
    module.__dict__.update(job["names"], __file__="main.py")
    sys.modules["__main__"] = module
    sys.argv = ["main.py"]
    with open("main.py", "wb") as file:  # noqa: PTH123 - so that tracebacks show the lines; pathlib costs 5 ms
        file.write(job["program"])
    try:
        exec(compile(job["program"], "main.py", "exec", dont_inherit=True), module.__dict__)  # noqa: S102
    except SystemExit:
        raise
    except BaseException as error:
        if error.__traceback__ is not None:
            error.__traceback__ = error.__traceback__.tb_next  # the program's own frames only
        sys.excepthook(type(error), error, error.__traceback__)
        sys.stderr.flush()
        status = OUT_OF_MEMORY if isinstance(error, MemoryError) else 1
    else:
        return
    if status == OUT_OF_MEMORY:
        os._exit(status)  # finalisation would ask for memory again
    sys.exit(status)
