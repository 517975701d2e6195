"""The one thread that runs the coordinator model, fed by a queue that gathers what waits into one batch.

Forward passes of several conversations on the same cores only slow one another down, so all of them go through this
thread. The event loop never blocks, and a question that is stopped while it waits costs nothing.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import TracebackType

from core.backbone.base import Backbone, Rendered
from core.errors import TrinityError
from core.types import HiddenState

# A batch delays its first member by the others' time, so it stays small: a first decision must come within 2 s.
MAX_BATCH = 8


@dataclass(slots=True)
class _Job:
    rendered: Rendered
    result: Future[HiddenState] = field(default_factory=Future)


class BackboneReader:
    """Asynchronous door to a backbone. Make one for each process, `close()` it at the end."""

    def __init__(self, backbone: Backbone) -> None:
        self.backbone = backbone
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="backbone", daemon=True)
        self._thread.start()

    async def hidden(self, rendered: Rendered) -> HiddenState:
        """h of one transcript, computed on the backbone thread.

        Raises what the backbone raises for this transcript alone; TrinityError once the reader is closed. When the
        caller is cancelled before its turn, the work is dropped.
        """
        job = _Job(rendered)
        with self._lock:
            if self._closed:
                raise TrinityError("The coordinator model is shutting down; ask again after the restart.")
            self._jobs.put(job)
        return await asyncio.wrap_future(job.result)

    def close(self) -> None:
        """Finish the batch in hand, refuse what still waits, end the thread. Safe to call twice."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def __enter__(self) -> BackboneReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _work(self) -> None:
        while (first := self._jobs.get()) is not None:
            batch, ended = self._gather(first)
            live = [job for job in batch if job.result.set_running_or_notify_cancel()]
            if live:
                self._run(live)
            if ended:
                break
        self._refuse_rest()

    def _gather(self, first: _Job) -> tuple[list[_Job], bool]:
        """The first job and those that already wait; True when the closing mark was among them."""
        batch = [first]
        while len(batch) < MAX_BATCH:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                return batch, True
            batch.append(job)
        return batch, False

    def _run(self, jobs: Sequence[_Job]) -> None:
        """One pass for all; when it fails, each alone, so that only the guilty one gets the error."""
        try:
            states = self.backbone.hidden_batch([job.rendered for job in jobs])
            if len(states) != len(jobs):
                raise RuntimeError(f"the backbone gave {len(states)} states for {len(jobs)} transcripts")
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].result.set_exception(error)
                return
            for job in jobs:
                self._run([job])
            return
        for job, state in zip(jobs, states, strict=True):
            job.result.set_result(state)

    def _refuse_rest(self) -> None:
        while True:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return
            if job is not None and job.result.set_running_or_notify_cancel():
                job.result.set_exception(TrinityError("The coordinator model was shut down before it read this."))
