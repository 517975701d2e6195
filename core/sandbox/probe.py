"""Which back end may be used here: each is tried with real attacks first, and the first that blocks them is kept."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable

from core.errors import SandboxUnavailable
from core.sandbox.attacks import ATTACKS, attempt, canary
from core.sandbox.base import Guarantee, ProbeReport, Sandbox
from core.sandbox.bubblewrap import Bubblewrap
from core.sandbox.interpreter import find_interpreter
from core.sandbox.landlock import Landlock
from core.sandbox.runner import Runner

BACKENDS: dict[str, Callable[..., Runner]] = {"bubblewrap": Bubblewrap, "landlock": Landlock}
_lock = threading.RLock()


def open_sandbox(prefer: str | None = None, *, libraries: bool = False) -> Sandbox:
    """The best sandbox of this machine. Looks once a process; later calls cost nothing.

    Args:
        prefer: `bubblewrap` or `landlock`: this one or none. Default: the first that passes its self-check.
        libraries: let programs import the packages installed beside this project (numpy and so on).

    Raises:
        SandboxUnavailable: no back end blocked a first set of attacks; the message holds each one's reason.
    """
    with _lock:
        usable, refused = _look(prefer)
        if usable is None:
            raise SandboxUnavailable(
                "Code cannot be run safely here, so it is not run. "
                + "; ".join(f"{name}: {why}" for name, why in refused)
                + ". Install bubblewrap, or use a kernel or container that allows landlock or user namespaces."
            )
        return _open(usable, libraries)


def probe(prefer: str | None = None) -> ProbeReport:
    """Try all attacks on the back end in use (about 1.5 s) and report, for `trinity doctor` and the pages."""
    with _lock:
        usable, refused = _look(prefer)
        if usable is None:
            return ProbeReport(None, refused=dict(refused))
        sandbox = _open(usable, False)
        return ProbeReport(usable, tuple(_try(sandbox, quick=False)), dict(refused), sandbox.weaker)


@functools.cache
def _look(prefer: str | None) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    """The name of the first usable back end, and why those before it were refused."""
    refused: list[tuple[str, str]] = []
    if prefer is not None and prefer not in BACKENDS:
        raise SandboxUnavailable(f"There is no sandbox {prefer!r}; known are {', '.join(BACKENDS)}.")
    for name in (prefer,) if prefer else tuple(BACKENDS):
        if (why := _refusal(name)) is None:
            return name, tuple(refused)
        refused.append((name, why))
    return None, tuple(refused)


def _refusal(name: str) -> str | None:
    """Why a back end may not be used here, or None."""
    if not sys.platform.startswith("linux"):
        return f"it needs Linux, this is {sys.platform}"
    try:
        sandbox = _open(name, False)
        first = sandbox.run("print(1)")
        if first.stdout != "1\n":
            return " ".join(first.detail.split())
        rows = _try(sandbox, quick=True)
    except (SandboxUnavailable, OSError) as error:
        return str(error)
    failed = [f"{row.attack} ({row.detail})" for row in rows if not row.blocked]
    return "the self-check failed: " + ", ".join(failed) if failed else None


@functools.cache
def _open(name: str, libraries: bool) -> Runner:
    return BACKENDS[name](find_interpreter(), libraries=libraries)


def _try(sandbox: Runner, *, quick: bool) -> list[Guarantee]:
    with canary(find_interpreter().executable) as target:
        return [attempt(sandbox, attack, target) for attack in ATTACKS if attack.quick or not quick]
