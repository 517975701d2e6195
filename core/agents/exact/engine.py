"""Warm child processes that do the mathematics, killed when a task takes too long.

`import sympy` costs 0.5 to 1 s, so a healthy child is kept for the next task. At most `WORKERS` work at once.
"""

from __future__ import annotations

import atexit
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from core.errors import AgentPermanent, AgentTransient

WORKERS = 2
TASK_S = 5.0
START_S = 60.0  # a loaded machine; half a second on an idle one
MAX_REPLY = 1 << 20
_ROOT = Path(__file__).resolve().parents[3]
_CODE = f"import sys; sys.path.insert(0, {str(_ROOT)!r}); from core.agents.exact.child import main; main()"


class TimedOut(AgentPermanent):
    """The task did not finish in its time; its process was killed."""


class Engine:
    """A few children. Thread-safe, blocking: call it off the event loop."""

    def __init__(self, workers: int = WORKERS, task_s: float = TASK_S) -> None:
        self._slots = threading.BoundedSemaphore(workers)
        self._lock = threading.Lock()
        self._idle: list[_Child] = []
        self._task_s = task_s
        atexit.register(self.close)

    def warm(self) -> None:
        """Have one child ready."""
        with self._slots:
            self._give_back(self._take())

    def compute(self, request: dict[str, Any], cancelled: threading.Event | None = None) -> dict[str, Any]:
        """The child's reply. Raises TimedOut, AgentTransient (the child died) or AgentPermanent (cancelled)."""
        with self._slots:
            child = self._take()
            try:
                reply = child.ask(request, self._task_s, cancelled or threading.Event())
            except BaseException:
                child.kill()
                raise
            if reply.get("outcome") == "memory":
                child.kill()
                raise TimedOut("The calculation needs more memory than it may use.")
            self._give_back(child)
            return reply

    def close(self) -> None:
        """End the idle children."""
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            child.kill()

    def _take(self) -> _Child:
        with self._lock:
            while self._idle:
                child = self._idle.pop()
                if child.alive():
                    return child
                child.kill()
        return _Child()

    def _give_back(self, child: _Child) -> None:
        with self._lock:
            self._idle.append(child)


class _Child:
    """One process. No environment goes along, so no key does."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-B", "-c", _CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LANG": "C.UTF-8"},
            cwd="/",
            start_new_session=True,
        )
        self._buffer = b""
        try:
            self._read(START_S, threading.Event())
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: dict[str, Any], seconds: float, cancelled: threading.Event) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise AgentTransient("The calculation process is gone; another try starts a new one.") from error
        return self._read(seconds, cancelled)

    def _read(self, seconds: float, cancelled: threading.Event) -> dict[str, Any]:
        assert self._process.stdout is not None
        pipe, end = self._process.stdout.fileno(), time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if cancelled.is_set():
                    raise AgentPermanent("The calculation was stopped.")
                if time.monotonic() > end:
                    raise TimedOut(f"The calculation did not finish in {seconds:g} seconds.")
                if not selector.select(0.05):
                    continue
                chunk = os.read(pipe, 65_536)
                if not chunk or len(self._buffer) > MAX_REPLY:
                    raise AgentTransient("The calculation process ended without a result.")
                self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue


_shared: Engine | None = None
_shared_lock = threading.Lock()


def shared_engine() -> Engine:
    """The process's one engine; no child is started before the first task."""
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = Engine()
        return _shared
