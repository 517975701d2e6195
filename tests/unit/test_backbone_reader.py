"""The backbone thread: batches, cancellation, one item's error, closing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import numpy as np
import pytest

from core.backbone.base import Rendered
from core.backbone.reader import MAX_BATCH, BackboneReader
from core.errors import NonFiniteState, TrinityError
from core.types import HiddenState, ReadToken


class Slow:
    """Records its batches; waits for `gate`; the text `bad` is not finite."""

    name, weights_hash, hidden_size, context_length, dtype, device = "slow", "0", 1, 100, "float32", "cpu"

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.started = threading.Event()
        self.batches: list[list[str]] = []
        self.threads: set[int] = set()

    def special_tokens(self) -> tuple[str, ...]:
        return ()

    def count_tokens(self, text: str) -> int:
        return len(text)

    def hidden(self, rendered: Rendered) -> HiddenState:
        return self.hidden_batch([rendered])[0]

    def hidden_batch(self, rendered: Sequence[Rendered]) -> list[HiddenState]:
        self.threads.add(threading.get_ident())
        self.batches.append([one.segments[0] for one in rendered])
        self.started.set()
        assert self.gate.wait(20)
        if any(one.segments[0] == "bad" for one in rendered):
            raise NonFiniteState("not finite")
        return [self._state(float(one.segments[0])) for one in rendered]

    def _state(self, value: float) -> HiddenState:
        return HiddenState(np.array([value], dtype=np.float32), ReadToken(0, "", 0), "slow", "p", "float32")


def text(words: object) -> Rendered:
    return Rendered("p", (), (str(words),))


async def started(slow: Slow) -> None:
    assert await asyncio.to_thread(slow.started.wait, 20)


@pytest.fixture
def slow():
    return Slow()


@pytest.fixture
def reader(slow):
    reader = BackboneReader(slow)
    yield reader
    slow.gate.set()
    reader.close()


async def test_waiting_transcripts_share_a_batch_of_bounded_size_on_one_thread(slow, reader):
    first = asyncio.create_task(reader.hidden(text(0)))
    await started(slow)
    rest = [asyncio.create_task(reader.hidden(text(n))) for n in range(1, 2 * MAX_BATCH)]
    await asyncio.sleep(0)
    slow.gate.set()
    states = await asyncio.gather(first, *rest)
    assert [state.vector[0] for state in states] == list(range(2 * MAX_BATCH))
    assert [len(batch) for batch in slow.batches] == [1, MAX_BATCH, MAX_BATCH - 1]
    assert len(slow.threads) == 1 and threading.get_ident() not in slow.threads


async def test_one_transcripts_error_is_its_own(slow, reader):
    first = asyncio.create_task(reader.hidden(text(0)))
    await started(slow)
    others = [asyncio.create_task(reader.hidden(text(words))) for words in (1, "bad", 2)]
    await asyncio.sleep(0)
    slow.gate.set()
    await first
    results = await asyncio.gather(*others, return_exceptions=True)
    assert results[0].vector[0] == 1 and results[2].vector[0] == 2
    assert isinstance(results[1], NonFiniteState)


async def test_a_cancelled_wait_costs_nothing_and_hurts_nobody(slow, reader):
    first = asyncio.create_task(reader.hidden(text(0)))
    await started(slow)
    gone, stays = (asyncio.create_task(reader.hidden(text(n))) for n in (1, 2))
    await asyncio.sleep(0)
    gone.cancel()
    first.cancel()  # already running: its result is thrown away
    await asyncio.sleep(0)
    slow.gate.set()
    assert (await stays).vector[0] == 2
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert ["1"] not in slow.batches and all("1" not in batch for batch in slow.batches)


async def test_closing_refuses_what_waits_and_what_comes(slow):
    reader = BackboneReader(slow)
    first = asyncio.create_task(reader.hidden(text(0)))
    await started(slow)
    waits = [asyncio.create_task(reader.hidden(text(n))) for n in range(1, MAX_BATCH + 5)]
    await asyncio.sleep(0)
    closing = asyncio.create_task(asyncio.to_thread(reader.close))
    while not reader._closed:  # noqa: ASYNC110 - the flag is set in another thread
        await asyncio.sleep(0.001)
    slow.gate.set()
    await closing
    assert (await first).vector[0] == 0
    results = await asyncio.gather(*waits, return_exceptions=True)
    answered = [r for r in results if isinstance(r, HiddenState)]
    assert len(answered) + sum(isinstance(r, TrinityError) for r in results) == len(waits)
    with pytest.raises(TrinityError, match="shutting down"):
        await reader.hidden(text(1))
    reader.close()
    assert not reader._thread.is_alive()


async def test_a_backbone_that_loses_a_result_is_an_error_not_a_hang(reader, slow):
    slow.gate.set()
    slow.hidden_batch = lambda rendered: []
    with pytest.raises(RuntimeError, match="0 states for 1"):
        await reader.hidden(text(1))
