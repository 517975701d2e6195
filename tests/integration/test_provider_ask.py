"""`trinity ask` as a program, with a priced agent behind a provider that throttles, echoes the key and then answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from core.store import open_store
from tests.providers import FaultProvider, Step
from tests.providers.rig import CANARY

POOL = """
name: lab
agents:
  - name: alpha
    kind: llm
    model: openai/fault-1
    api_base: {base}
    key: TRINITY_KEY_LAB
    price: {{input: 10.0, output: 100.0}}
  - name: beta
    kind: llm
    model: openai/fault-2
    api_base: {base}
    key: TRINITY_KEY_LAB
    price: {{input: 10.0, output: 100.0}}
"""


def script(index, body):
    if body["model"] == "fault-2":
        return Step(status=401, message=f"Incorrect API key provided: {CANARY}")
    if index % 5 == 0:
        return Step(status=429, headers={"Retry-After": "0.1"}, message=f"{CANARY} is over its rate limit")
    return Step(chunks=("It is 4, ", "recomputed.\n", "VERDICT: ACCEPT"))


@pytest.fixture
def environment(embedded_cache, tmp_path):
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    folders = {"TRINITY_DATA_DIR": str(tmp_path / "data"), "TRINITY_CACHE_DIR": str(embedded_cache)}
    return {**kept, **folders, "TRINITY_KEY_LAB": CANARY, "OPENAI_API_KEY": CANARY}


def trinity(environment, folder, *words):
    line = [sys.executable, "-m", "core.cli", *words]
    return subprocess.run(line, env=environment, cwd=folder, capture_output=True, text=True, timeout=110)


def test_the_key_is_nowhere_and_the_book_is_right(environment, tmp_path):
    with FaultProvider(script) as provider:
        pool = tmp_path / "lab.yaml"
        pool.write_text(POOL.format(base=provider.base))
        asked = trinity(environment, tmp_path, "ask", "What is 2+2?", "--pool", str(pool), "--max-usd", "5", "--json")
        assert asked.returncode == 0, asked.stderr
        assert {seen.headers["authorization"] for seen in provider.seen} == {f"Bearer {CANARY}"}, "it was in use"
        requests = len(provider.seen)
        bad = sum(not seen.step.billed for seen in provider.seen)
    trace = json.loads(asked.stdout.splitlines()[-1])
    assert trace["answer"].startswith("It is 4")
    spent = trinity(environment, tmp_path, "spend", "--json")
    report = json.loads(spent.stdout.splitlines()[-1])
    assert (report["total"]["calls"], report["total"]["failed"], report["total"]["in_doubt"]) == (requests, bad, 0)
    with open_store(f"sqlite:///{tmp_path}/data/trinity.sqlite3") as store:
        assert store.spend.total().usd == pytest.approx(trace["cost_usd"])
    written = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    everything = asked.stdout + asked.stderr + spent.stdout + spent.stderr
    assert CANARY not in everything and CANARY.encode() not in written
    assert "***" in everything or bad == 0, "the masked words of the provider are shown"
