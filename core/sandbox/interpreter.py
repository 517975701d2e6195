"""The Python that untrusted programs run under, and the few files it needs: all that a sandbox lets them read."""

from __future__ import annotations

import functools
import os
import stat
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from core.errors import SandboxUnavailable

# Loading these brings in every shared library that the standard library links to.
_ASK = """
for name in ("ctypes", "ssl", "hashlib", "sqlite3", "lzma", "bz2", "zlib", "decimal", "curses", "pyexpat", "uuid"):
    try:
        __import__(name)
    except ImportError:
        pass
for line in open("/proc/self/maps"):
    print(line.split(None, 5)[-1].strip())
"""
_LIBRARY_ROOTS = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Where things lie. `read` names real paths; `links` are top-level symbolic links such as /lib -> usr/lib."""

    executable: str
    read: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    loaders: tuple[str, ...]
    packages: str

    def shared_with_others(self) -> bool:
        """Whether any user may read all of it. A home folder of mode 700 above it says no."""
        return all(_open_to_all(Path(path)) for path in (self.executable, *self.read))


@functools.cache
def find_interpreter() -> Interpreter:
    """Look at the running interpreter, once a process.

    The binary behind a virtual environment is used, so neither the environment's packages nor its `.pth` files are
    in reach. Raises SandboxUnavailable when it cannot be started.
    """
    executable = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    standard = os.path.realpath(sysconfig.get_paths()["stdlib"])
    try:
        answer = subprocess.run(
            [executable, "-I", "-S", "-B", "-c", _ASK], capture_output=True, text=True, timeout=30, check=True, env={}
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxUnavailable(f"the interpreter {executable} cannot be started bare ({error})") from error
    mapped = sorted({line for line in answer.stdout.splitlines() if ".so" in line and line.startswith("/")})
    outside = [path for path in mapped if not path.startswith(standard + "/")]
    places = sorted({_library_place(path) for path in outside} | set(_extras()))
    return Interpreter(
        executable=executable,
        read=(standard, *places),
        links=tuple((top, str(Path(top).readlink())) for top in ("/lib", "/lib64") if Path(top).is_symlink()),
        loaders=tuple(_loaders()),
        packages=os.path.realpath(sysconfig.get_paths()["purelib"]),
    )


def _library_place(path: str) -> str:
    """A system library folder as a whole (the loader looks for versions in it), any other library by itself."""
    folder = str(Path(path).parent)
    return folder if path.startswith(_LIBRARY_ROOTS) else path


def _extras() -> list[str]:
    """The loader's cache, for libraries in /usr/local, and the time zones that `zoneinfo` reads."""
    return [path for path in ("/etc/ld.so.cache", "/usr/share/zoneinfo") if Path(path).exists()]


def _loaders() -> list[str]:
    """The program loaders that an executable may name, with their folder's links resolved."""
    found = [path for top in ("/lib64", "/lib") for path in Path(top).glob("ld-*.so*")]
    return [str(path.parent.resolve() / path.name) for path in found]


def _open_to_all(path: Path) -> bool:
    bits = stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0)
    if path.stat().st_mode & bits != bits:
        return False
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in path.parents)
