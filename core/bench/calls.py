"""What the call path costs: a paid call with ledger, caps and limits beside the bare litellm call, in turns."""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from core.agents.base import Request
from core.agents.llm import LlmAgent
from core.agents.llm_library import library
from core.agents.prices import Price
from core.bench.echo_provider import echo_provider
from core.calls.base import Account
from core.calls.caller import LedgerCaller
from core.calls.concurrency import Channels
from core.clock import Deadline
from core.settings import Secret, Settings
from core.store import Store, open_store
from core.types import Message, Role, Transcript

PARALLEL = 50
PROVIDER_S = 1.0


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Fields of `trinity bench calls`: milliseconds a call, and 50 calls at once to a provider that takes a second.

    On a machine busy with other work the medians of both sides grow; processor time (`cpu`) and the fastest runs
    (`best`) tell more there.
    """
    repetitions = args.repetitions or (40 if args.quick else 200)
    library()  # the import is not a call's cost
    with tempfile.TemporaryDirectory() as folder, open_store(f"sqlite:///{folder}/bench.sqlite3") as store:
        with echo_provider() as base:
            fields = asyncio.run(_in_turns(store, Path(folder), base, repetitions))
        with echo_provider(PROVIDER_S) as base:
            fields |= asyncio.run(_at_once(store, Path(folder), base))
        fields["in_ledger"] = store.spend.total().calls
    return {"repetitions": repetitions, "cores": len(os.sched_getaffinity(0)), **fields}


def _agent(base: str) -> LlmAgent:
    return LlmAgent("echo", "openai/echo", api_base=base, key=Secret("none"), price=Price.per_million(1.0, 4.0))


def _caller(store: Store, folder: Path) -> LedgerCaller:
    settings = Settings(data_dir=folder, cache_dir=folder, process_usd_per_day=1e6)
    return LedgerCaller(store, settings, process="bench", remember=False, channels=Channels())


def _request(number: int) -> Request:
    text = f"What is {number} + {number}?"
    return Request(Role.WORKER, Transcript(text), (Message("user", text),), "", 0, 60.0)


async def _bare(base: str, request: Request) -> None:
    """The same request straight through litellm."""
    stream = await library().acompletion(
        model="openai/echo",
        messages=[{"role": m.role, "content": m.content} for m in request.messages],
        max_tokens=4096,
        temperature=0.0,
        api_base=base,
        api_key="none",
        stream=True,
        stream_options={"include_usage": True},
        max_retries=0,
        timeout=60.0,
    )
    async for _ in stream:
        pass


async def _whole(caller: LedgerCaller, agent: LlmAgent, request: Request) -> None:
    async for _ in caller.stream(agent, request, deadline=Deadline.after(60.0), account=Account("bench", 1e6)):
        pass


async def _in_turns(store: Store, folder: Path, base: str, repetitions: int) -> dict[str, Any]:
    caller, agent = _caller(store, folder), _agent(base)
    sides: dict[str, Callable[[Request], Awaitable[None]]] = {
        "bare": lambda request: _bare(base, request),
        "whole": lambda request: _whole(caller, agent, request),
    }
    times: dict[str, list[float]] = {name: [] for name in sides}
    cpu: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(-3, repetitions):
        for name, side in sides.items():
            started, busy = time.perf_counter(), time.process_time()
            await side(_request(number))
            if number >= 0:
                times[name].append((time.perf_counter() - started) * 1e3)
                cpu[name].append((time.process_time() - busy) * 1e3)
    pairs = [whole - bare for bare, whole in zip(times["bare"], times["whole"], strict=True)]
    return {
        "bare_ms": round(statistics.median(times["bare"]), 2),
        "whole_ms": round(statistics.median(times["whole"]), 2),
        "overhead_ms": round(statistics.median(pairs), 2),
        "overhead_best_ms": round(min(times["whole"]) - min(times["bare"]), 2),
        "overhead_cpu_ms": round(statistics.median(cpu["whole"]) - statistics.median(cpu["bare"]), 2),
    }


async def _at_once(store: Store, folder: Path, base: str) -> dict[str, Any]:
    caller, agent = _caller(store, folder), _agent(base)
    await _whole(caller, agent, _request(0))
    started, busy = time.perf_counter(), time.process_time()
    await asyncio.gather(*(_whole(caller, agent, _request(number)) for number in range(PARALLEL)))
    return {
        "parallel": PARALLEL,
        "provider_s": PROVIDER_S,
        "parallel_s": round(time.perf_counter() - started, 2),
        "parallel_cpu_s": round(time.process_time() - busy, 2),
    }
