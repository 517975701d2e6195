"""The server: raw asyncio on loopback in a thread of its own, so that it can break HTTP where a framework would not."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.providers.step import Step
from tests.providers.wire import Wire, wire_of

Script = Step | Sequence[Step] | Callable[[int, Mapping], Step]


@dataclass
class Seen:
    """One request as the provider saw it."""

    index: int
    wire: str
    path: str
    headers: dict[str, str]
    body: dict
    step: Step
    at: float
    completed: bool = False  # all that matters was written
    aborted: bool = False  # the client hung up first
    ended_at: float = field(default=0.0)


class FaultProvider:
    """Use as a context manager. `script` is one Step for all, a list (the last one repeats), or a function of
    (request number, body). `base` is the address for OpenAI-shaped clients, `root` for the others."""

    def __init__(self, script: Script | None = None) -> None:
        self.script = Step() if script is None else script
        self.seen: list[Seen] = []
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._lock = threading.Lock()
        self._tasks: set[asyncio.Task] = set()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def base(self) -> str:
        return f"{self.root}/v1"

    @property
    def billed(self) -> list[Seen]:
        """The requests this provider would charge for."""
        return [s for s in self.seen if s.step.billed]

    def __enter__(self) -> FaultProvider:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(5)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def wait_until(self, condition: Callable[[], bool], seconds: float = 5.0) -> bool:
        """Poll from the test's thread until the provider's state satisfies the condition."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not condition():
            time.sleep(0.01)
        return condition()

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=256)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _next(self, index: int, body: Mapping) -> Step:
        if isinstance(self.script, Step):
            return self.script
        if callable(self.script):
            return self.script(index, body)
        return self.script[min(index, len(self.script) - 1)]

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            await self._one(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request; no keep-alive, so that an idle connection's end is never mistaken for a lost request."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        path = head[0].split(" ")[1].split("?")[0]
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
        payload = json.loads(await reader.readexactly(int(headers.get("content-length", 0))) or b"{}")
        with self._lock:
            index = len(self.seen)
            step = self._next(index, payload)
            wire = wire_of(path)
            seen = Seen(index, wire.name, path, headers, payload, step, time.monotonic())
            self.seen.append(seen)
        hangup = asyncio.create_task(reader.read(1))
        work = asyncio.create_task(self._answer(wire, seen, writer))
        await asyncio.wait({hangup, work}, return_when=asyncio.FIRST_COMPLETED)
        seen.ended_at = time.monotonic()
        if not work.done():
            seen.aborted = True
            work.cancel()
        hangup.cancel()
        await asyncio.gather(hangup, work, return_exceptions=True)
        seen.aborted = seen.aborted or work.cancelled() or work.exception() is not None

    async def _answer(self, wire: Wire, seen: Seen, writer: asyncio.StreamWriter) -> None:
        step = seen.step
        if step.hang:
            await asyncio.sleep(3600)
        await asyncio.sleep(step.delay_s)
        streaming = seen.body.get("stream") or "streamGenerateContent" in seen.path
        if step.status != 200 or step.raw is not None or not streaming:
            body = step.raw if step.raw is not None else (wire.body(step) if step.status == 200 else wire.error(step))
            await self._plain(step, body, writer)
            seen.completed = True
            return
        await self._put(writer, step, self._head(step, "text/event-stream", "Transfer-Encoding: chunked"))
        await self._stream(wire, seen, writer)

    async def _plain(self, step: Step, body: bytes, writer: asyncio.StreamWriter) -> None:
        kind = "text/html" if body.lstrip().startswith(b"<") else "application/json"
        await self._put(writer, step, self._head(step, kind, f"Content-Length: {len(body)}"))
        await self._put(writer, step, body, drip=True)

    async def _stream(self, wire: Wire, seen: Seen, writer: asyncio.StreamWriter) -> None:
        step, frames = seen.step, wire.frames(seen.step)
        for number, frame in enumerate([*frames, b""]):
            # A client may hang up as soon as it has all it needs, before it reads the end of the stream.
            seen.completed = number >= len(frames) - 1
            if number == step.cut_after:
                writer.transport.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
                )
                await asyncio.sleep(0.05)  # let the client read what was sent: a reset discards its receive buffer
                writer.transport.abort()
                return
            if number == step.stall_after:
                await asyncio.sleep(3600)
            if number == step.eof_after:
                break
            if number == step.broken_after:
                frame = b'data: {"choices": [{"delta": {"conte\n\n'
            if number == step.error_after:
                await self._chunk(writer, step, wire.error_frame(step))
                break
            await asyncio.sleep(step.pause_s)
            if frame:
                await self._chunk(writer, step, frame)
        await self._put(writer, step, b"0\r\n\r\n")

    async def _chunk(self, writer: asyncio.StreamWriter, step: Step, data: bytes) -> None:
        size = 1 if step.drip_s else step.split or len(data)
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            await self._put(writer, step, b"%x\r\n%s\r\n" % (len(piece), piece))
            await asyncio.sleep(step.drip_s)

    async def _put(self, writer: asyncio.StreamWriter, step: Step, data: bytes, *, drip: bool = False) -> None:
        pieces = [data[i : i + 1] for i in range(len(data))] if drip and step.drip_s else [data]
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            if drip:
                await asyncio.sleep(step.drip_s)

    def _head(self, step: Step, kind: str, length: str) -> bytes:
        lines = [f"HTTP/1.1 {step.status} Status", f"Content-Type: {kind}", length, "Connection: close"]
        lines += [f"{name}: {value}" for name, value in step.headers.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()
