"""What a sandboxed process is started with: the child's code, its environment, its job in memory."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from types import CodeType

# Loads the job from the descriptor in the first argument and hands over to core/sandbox/child.py.
BOOT = "import marshal,sys;j=marshal.load(open(int(sys.argv[1]),'rb'));exec(j['code'],n:={});n['main'](j)"


@functools.cache
def child_code() -> CodeType:
    """`core/sandbox/child.py`, compiled. The child runs the same interpreter, so it can load this."""
    source = Path(__file__).with_name("child.py").read_text(encoding="utf-8")
    return compile(source, "<sandbox>", "exec", dont_inherit=True)


def environment(folder: str) -> dict[str, str]:
    """The whole environment of a sandboxed program. numpy would otherwise reserve memory for a thread per core."""
    return {
        "HOME": folder,
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PATH": "/nowhere",
        "TMPDIR": folder,
    }


def memory_file(content: bytes) -> int:
    """A descriptor that reads `content` and has no name in any folder. The caller closes it."""
    number = os.memfd_create("trinity")
    with open(number, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(number, 0, os.SEEK_SET)
    return number
