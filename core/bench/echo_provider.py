"""A provider for measurements: a process of its own that answers every request with one short OpenAI-shaped stream."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_PIECES: list[dict[str, Any]] = [
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "four"}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}},
]


def _body() -> bytes:
    head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "echo"}
    lines = [f"data: {json.dumps({**head, **piece})}\n\n" for piece in _PIECES]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


async def _serve(delay_s: float) -> None:
    body = _body()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n".encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(request.split(b"content-length:")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                await asyncio.sleep(delay_s)
                writer.write(head + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=256)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def echo_provider(delay_s: float = 0.0) -> Iterator[str]:
    """Start the provider on loopback and give its base address; it ends with the block."""
    line = [sys.executable, "-m", "core.bench.echo_provider", str(delay_s)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.kill()


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1])))
