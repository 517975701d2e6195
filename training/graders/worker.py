"""Worker processes for libraries that may hang: asked by JSON lines, killed at the deadline, started again when needed.

math-verify's own time-out works in main threads only, and `9^9^9^9` outlives it; so the parent holds the clock.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import select
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from core.errors import TrinityError

_CHILD = Path(__file__).with_name("worker_child.py")
START_S = 120.0  # importing sympy on a busy machine took up to 20 s
MAX_ANSWER_BYTES = 16 << 20
RECYCLE_AFTER = 2_000  # sympy's caches grow with every formula


class WorkerFailed(TrinityError):
    """A worker gave no answer. `kind` is timeout, memory, crash, recursion or raised."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class _Worker:
    """One child process and its two pipes."""

    def __init__(self, kind: str) -> None:
        # The environment is made from scratch: no key of the parent reaches code that reads replies. The fixed hash
        # seed makes set order, and with it five reasoning-gym families, the same in every process.
        env = {"PATH": os.defpath, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-s", "-P", str(_CHILD), kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
            cwd=tempfile.gettempdir(),
            close_fds=True,
        )
        self.jobs = 0
        self._rest = b""
        self._read(time.monotonic() + START_S)

    def ask(self, job: dict[str, Any], seconds: float) -> dict[str, Any]:
        """One request under a deadline. Raises WorkerFailed; after timeout and crash the process is gone."""
        self.jobs += 1
        line = json.dumps({**job, "seconds": seconds}).encode() + b"\n"
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except OSError:
            self.kill()
            raise WorkerFailed("crash", "The grading process ended before it was asked.") from None
        answer: dict[str, Any] = self._read(time.monotonic() + seconds)
        if "error" in answer:
            raise WorkerFailed(answer["error"], answer.get("detail", answer["error"]))
        return answer

    def kill(self) -> None:
        """End the process and reap it."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue  # unsent bytes of a request to a dead process
        self._process.wait()

    def alive(self) -> bool:
        """True while the process runs."""
        return self._process.poll() is None

    def _read(self, until: float) -> Any:
        assert self._process.stdout is not None
        handle = self._process.stdout.fileno()
        parts = [self._rest]
        size = len(self._rest)
        while b"\n" not in parts[-1]:
            left = until - time.monotonic()
            if left <= 0 or not select.select([handle], [], [], left)[0]:
                self.kill()
                raise WorkerFailed("timeout", "Grading took too long and was stopped.")
            parts.append(os.read(handle, 1 << 16))
            size += len(parts[-1])
            if not parts[-1] or size > MAX_ANSWER_BYTES:
                self.kill()
                raise WorkerFailed("crash", "The grading process ended without an answer.")
        line, _, self._rest = b"".join(parts).partition(b"\n")
        return json.loads(line)


class WorkerPool:
    """At most `size` workers of one kind (`math`, `gym` or `pattern`), started when first needed. Thread-safe."""

    def __init__(self, kind: str, size: int | None = None) -> None:
        self._kind = kind
        self._size = size or max(1, min(4, os.cpu_count() or 1))
        self._slots: queue.LifoQueue[_Worker | None] = queue.LifoQueue()
        self._reset()

    def ask(self, job: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Do one job. A worker found dead before it took the job is replaced; a job is never done twice.

        Raises WorkerFailed with the kind of failure.
        """
        if os.getpid() != self._owner:  # a forked copy must not share the parent's pipes
            self._reset()
        worker = self._slots.get()
        try:
            if worker is None or not worker.alive() or worker.jobs >= RECYCLE_AFTER:
                if worker is not None:
                    worker.kill()
                worker = None
                worker = _Worker(self._kind)
            return worker.ask(job, seconds)
        finally:
            self._slots.put(worker)

    def close(self) -> None:
        """End all idle workers."""
        if os.getpid() != self._owner:
            return
        for _ in range(self._size):
            try:
                worker = self._slots.get_nowait()
            except queue.Empty:
                return
            if worker is not None:
                worker.kill()
            self._slots.put(None)

    def _reset(self) -> None:
        self._owner = os.getpid()
        self._slots = queue.LifoQueue()
        for _ in range(self._size):
            self._slots.put(None)


_POOLS: dict[str, WorkerPool] = {}
_LOCK = threading.Lock()


def workers(kind: str) -> WorkerPool:
    """The process-wide pool of one kind."""
    with _LOCK:
        if kind not in _POOLS:
            _POOLS[kind] = WorkerPool(kind)
            atexit.register(_POOLS[kind].close)
        return _POOLS[kind]
