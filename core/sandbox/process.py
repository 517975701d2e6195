"""One sandboxed process as its parent sees it: byte caps, a wall clock that no pipe can hold up, a sure end.

Nothing here confines: the back ends do that with their command line and job. `subprocess` uses vfork as long as neither
`preexec_fn` nor `user=` is given (0.6 ms; a fork of a process with 4 GB resident took 144 ms), so all of that happens
in the child itself.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import marshal
import os
import secrets
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from threading import Event
from types import TracebackType
from typing import Any

from core.sandbox.endings import explain_end
from core.sandbox.launch import BOOT, child_code, environment, memory_file
from core.sandbox.outcome import ExecResult, Outcome, SandboxLimits

START_S = 20.0  # from spawn to "ready"; longer means the machine or the back end is in trouble
TICK_S = 0.02  # how often a watcher (disk, stop) looks
_GRACE_S = 5.0

STOPPED = "stopped by the caller"
_log = logging.getLogger(__name__)


class Process:
    """A running program, its output so far, and the one way to end it. Used by one thread at a time.

    `channel` is a pair of pipes beside the standard streams for a harness (core/sandbox/calls.py). `watch` is asked
    every 20 ms and names the reason to kill, or None. Use as a context manager: leaving it kills what still runs.
    """

    def __init__(
        self,
        argv: Sequence[str],
        job: dict[str, Any],
        limits: SandboxLimits,
        *,
        inherit: Sequence[int] = (),
        channel: bool = False,
        watch: Callable[[], str | None] | None = None,
        stop: Event | None = None,
        cleanup: Callable[[], None] | None = None,
        environ: dict[str, str] | None = None,
    ) -> None:
        self.token = f"trinity-box-{secrets.token_hex(6)}"  # on the command line, so that a person sees it in `ps`
        self.limits = limits
        self.stdout, self.stderr, self.received = bytearray(), bytearray(), bytearray()
        self.received_limit = 1 << 20
        self.result: ExecResult | None = None
        self.deadline = time.monotonic() + START_S
        self._started: float | None = None
        self._watch, self._stop, self._cleanup = watch, stop, cleanup
        self._selector = selectors.DefaultSelector()
        self._outgoing: dict[int, bytearray] = {}
        self._own: set[int] = set()
        self._reason: tuple[Outcome, str] | None = None
        try:
            self._spawn(list(argv), job, list(inherit), channel, environ or environment(job["folder"]))
        except BaseException:
            if hasattr(self, "_popen"):
                self._kill()
                self._popen.wait(_GRACE_S)
            self._release()
            raise

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(Outcome.SANDBOX_ERROR, STOPPED)

    @property
    def pid(self) -> int:
        """Of the process that was started; with bubblewrap the program is its child."""
        return self._popen.pid

    @property
    def ready(self) -> bool:
        """The doors are shut and the program runs; its wall clock began now."""
        return self._started is not None

    @property
    def ended(self) -> bool:
        """The process is gone and `result` says how."""
        return self.result is not None

    def feed(self, data: bytes) -> None:
        """Give the program its standard input, whole."""
        self._queue(self._stdin, data, close=True)

    def send(self, data: bytes) -> None:
        """Send bytes down the channel."""
        self._queue(self._request, data, close=False)

    def pump(self, until: float) -> bool:
        """Handle what happens next, at most until the monotonic time `until`. False: the process has ended."""
        if self.result is not None:
            return False
        now = time.monotonic()
        limit = min(until, self.deadline)
        pause = max(0.0, limit - now)
        if self._watch is not None or self._stop is not None:
            pause = min(pause, TICK_S)
        for key, _ in self._selector.select(pause):
            key.data(key.fd)
            if self.ended:
                return False
        self._look()
        return not self.ended

    def wait(self) -> ExecResult:
        """Run to the end: the program's own, or that of its limits."""
        while self.pump(self.deadline):
            pass
        assert self.result is not None
        return self.result

    def end(self, outcome: Outcome, detail: str) -> ExecResult:
        """Kill the process unless it has ended, and say why. Returns the result; the first reason stays."""
        if self.result is None:
            self._reason = (outcome, detail)
            self._kill()
            self._reap()
        assert self.result is not None
        return self.result

    def _spawn(
        self, argv: list[str], job: dict[str, Any], inherit: list[int], channel: bool, environ: dict[str, str]
    ) -> None:
        ready_r, ready_w = self._pipe()
        theirs = [ready_w, *inherit]
        names = dict(job.get("names", {}))
        if channel:
            request_r, self._request = self._pipe()
            reply_r, reply_w = self._pipe()
            names["__channel__"] = (request_r, reply_w)
        job = {**job, "names": names, "ready": ready_w, "close": [ready_w, *job.get("close", [])]}
        job |= {"code": child_code(), "parent": os.getpid()}
        job_file = memory_file(marshal.dumps(job))
        self._own.add(job_file)
        passed = [*theirs, job_file, *(names.get("__channel__", ()))]
        self._popen = subprocess.Popen(
            [*argv, "-I", "-S", "-B", "-c", BOOT, str(job_file), self.token],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            pass_fds=passed,
            env=environ,
            cwd="/",
            start_new_session=True,
        )
        for number in (job_file, ready_w, *names.get("__channel__", ())):
            self._close(number)
        self._listen(ready_r, self._on_ready)
        for stream, buffer in ((self._popen.stdout, self.stdout), (self._popen.stderr, self.stderr)):
            assert stream is not None
            self._listen(stream.fileno(), functools.partial(self._on_output, buffer))
        if channel:
            self._listen(reply_r, self._on_reply)
        assert self._popen.stdin is not None
        self._stdin = self._popen.stdin.fileno()
        self._pidfd = os.pidfd_open(self._popen.pid)
        self._own.add(self._pidfd)
        self._selector.register(self._pidfd, selectors.EVENT_READ, lambda _: self._reap())

    def _pipe(self) -> tuple[int, int]:
        pair = os.pipe()
        self._own.update(pair)
        return pair

    def _close(self, number: int) -> None:
        if number in self._own:
            self._own.discard(number)
            os.close(number)

    def _listen(self, number: int, handler: Callable[[int], None]) -> None:
        os.set_blocking(number, False)
        self._selector.register(number, selectors.EVENT_READ, handler)

    def _queue(self, number: int, data: bytes, *, close: bool) -> None:
        if self.result is not None or (number in self._outgoing and close):
            return
        if number in self._outgoing:
            self._outgoing[number] += data
            return
        self._outgoing[number] = bytearray(data)
        os.set_blocking(number, False)
        self._selector.register(number, selectors.EVENT_WRITE, functools.partial(self._on_writable, close))

    def _on_writable(self, close: bool, number: int) -> None:
        left = self._outgoing[number]
        try:
            written = os.write(number, left[:65_536]) if left else 0
        except BlockingIOError:
            return
        except BrokenPipeError:  # the program closed its end: what is left interests nobody
            written = len(left)
        del left[:written]
        if left:
            return
        del self._outgoing[number]
        self._selector.unregister(number)
        if close and self._popen.stdin is not None:
            self._popen.stdin.close()

    def _on_ready(self, number: int) -> None:
        if self._read(number) == b"ready":
            self._started = time.monotonic()
            self.deadline = self._started + self.limits.wall_s

    def _on_output(self, buffer: bytearray, number: int) -> None:
        chunk = self._read(number)
        room = self.limits.output_bytes - len(self.stdout) - len(self.stderr)
        buffer += chunk[: max(0, room)]
        if len(chunk) > room and self._reason is None:
            self._reason = (Outcome.OUTPUT_LIMIT, f"it printed more than {self.limits.output_bytes} bytes")

    def _on_reply(self, number: int) -> None:
        self.received += self._read(number)
        if len(self.received) > self.received_limit and self._reason is None:
            self._reason = (Outcome.OUTPUT_LIMIT, f"it returned more than {self.received_limit} bytes")

    def _read(self, number: int) -> bytes:
        """What is there now. An ended stream is no longer listened to."""
        with contextlib.suppress(BlockingIOError):
            chunk = os.read(number, 65_536)
            if not chunk:
                self._selector.unregister(number)
            return chunk
        return b""

    def _look(self) -> None:
        """Reasons to kill: a cap was passed, time is over, the watcher or the caller says so."""
        if self._reason is None and time.monotonic() >= self.deadline:
            self._reason = self._late()
        if self._reason is None and self._stop is not None and self._stop.is_set():
            self._reason = (Outcome.SANDBOX_ERROR, STOPPED)
        if self._reason is None and self._watch is not None and (said := self._watch()):
            self._reason = (Outcome.CRASH, said)
        if self._reason is not None:
            self._kill()
            self._reap()

    def _late(self) -> tuple[Outcome, str]:
        if self.ready:
            return Outcome.TIMEOUT, f"it did not finish in {self.limits.wall_s:g} s"
        return Outcome.SANDBOX_ERROR, f"the sandbox did not start in {START_S:g} s"

    def _kill(self) -> None:
        """End the whole group by the recorded id, which cannot be reused before it is reaped."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.kill()

    def _reap(self) -> None:
        try:
            code = self._popen.wait(_GRACE_S)
        except subprocess.TimeoutExpired:  # in the kernel's hands: stuck storage
            code = None
        self._drain()
        now = time.monotonic()
        outcome, detail = self._reason or explain_end(code, self.ready, self.limits, bytes(self.stderr))
        self.result = ExecResult(
            outcome,
            stdout=self.stdout.decode("utf-8", "replace"),
            stderr=self.stderr.decode("utf-8", "replace"),
            exit_code=code,
            wall_s=now - (self._started or now),
            detail=detail,
        )
        self._release()

    def _drain(self) -> None:
        """Take what lies in the pipes. Nobody is left to write, so this is at most their capacity."""
        for key in list(self._selector.get_map().values()):
            if key.events & selectors.EVENT_READ and key.fd != self._pidfd:
                while key.fd in self._selector.get_map():
                    before = len(self.stdout) + len(self.stderr) + len(self.received)
                    key.data(key.fd)
                    if before == len(self.stdout) + len(self.stderr) + len(self.received):
                        break

    def _release(self) -> None:
        self._selector.close()
        if hasattr(self, "_popen"):
            for stream in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
                if stream is not None:
                    stream.close()
        for number in list(self._own):
            self._close(number)
        cleanup, self._cleanup = self._cleanup, None
        if cleanup is not None:
            try:
                cleanup()
            except OSError as error:  # must not turn a program's result into a failure of the sandbox
                _log.warning("a scratch folder was not removed: %s", error)
