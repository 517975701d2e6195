"""kill -9 in the middle of 8 calls: at most 8 are in doubt, all of them listed and counted as spent."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.providers import FaultProvider, Step
from tests.providers.rig import PRICE, ask, caller, llm, open_book, request

CHILD = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from core.calls.base import Account
from tests.providers.rig import ask, caller, llm, open_book, request

class Provider:
    root, base = sys.argv[3], sys.argv[3] + "/v1"

async def main():
    folder = Path(sys.argv[2])
    calls = caller(open_book(folder), folder, process_usd_per_day=1000.0)
    agent = llm(Provider)
    await agent.prepare()
    print("ready", flush=True)
    async def worker(number):
        for turn in range(1000):
            await ask(calls, agent, request(f"{number}/{turn}"), account=Account(f"q{number}-{turn}", 5.0))
    await asyncio.gather(*(worker(number) for number in range(8)))

asyncio.run(main())
"""


def start(folder: Path, provider: FaultProvider) -> subprocess.Popen:
    root = str(Path(__file__).resolve().parents[2])
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, root, str(folder), provider.root], stdout=subprocess.PIPE, text=True, cwd=root
    )
    assert child.stdout.readline() == "ready\n"
    return child


@pytest.mark.parametrize("kills", [1, pytest.param(12, marks=pytest.mark.slow)])
def test_a_kill_in_the_middle_of_eight_calls(kills, tmp_path):
    rng = random.Random(kills)
    script = Step(delay_s=0.05, pause_s=0.02)
    with FaultProvider(script) as provider, open_book(tmp_path) as store:
        worst = PRICE.at_most(*llm(provider).bound(request("7/1000")))
        for kill in range(1, kills + 1):
            child = start(tmp_path, provider)
            before = len(provider.seen)
            assert provider.wait_until(lambda before=before: len(provider.seen) >= before + 20, 30)
            time.sleep(rng.uniform(0.0, 0.2))
            os.kill(child.pid, 9)
            child.wait()
            store.ledger.recover()
            total = store.spend.total()
            assert 1 <= total.in_doubt <= 8 * kill
            assert total.settled + total.in_doubt >= len(provider.seen), "no request is missing from the book"
            assert total.calls - len(provider.seen) <= 8 * kill, "reserved, and killed before it was sent"
        doubtful = store.spend.doubtful(limit=1000)
        assert len(doubtful) == total.in_doubt and {call.state for call in doubtful} == {"in_doubt"}
        assert all(0.9 * worst < call.usd <= worst for call in doubtful)
        known = total.settled * (12 * 10e-6 + 5 * 100e-6)
        assert total.usd == pytest.approx(known + sum(call.usd for call in doubtful), abs=1e-6)


async def test_after_the_kill_the_lost_money_counts_against_the_cap(tmp_path):
    with FaultProvider(Step(hang=True)) as provider, open_book(tmp_path) as store:
        child = start(tmp_path, provider)
        assert provider.wait_until(lambda: len(provider.seen) == 8, 30)
        os.kill(child.pid, 9)
        child.wait()
        calls = caller(store, tmp_path)  # a caller that starts looks for what was lost
        assert store.spend.total().in_doubt == 8
        provider.script = Step()
        spent = store.spend.total().usd
        tight = caller(store, tmp_path, process_usd_per_day=spent + 0.01)
        with pytest.raises(Exception, match="a day for this program"):
            await ask(tight, llm(provider))
        assert (await ask(calls, llm(provider))).text == "It is four."
