"""`trinity spend` on a book with every kind of line in it."""

from __future__ import annotations

import asyncio
import json

import pytest

from core.calls.base import Account
from core.commands.spend import command
from core.errors import AgentAmbiguous
from core.settings import load_settings
from core.store import open_store
from tests.providers import FaultProvider, Step
from tests.providers.rig import CANARY, ask, caller, llm, request


async def fill(store, folder):
    """Four requests: answered, answered without usage, cut twice (and lost), and a repeat from memory."""
    steps = [Step(), Step(usage=None), Step(cut_after=2), Step(cut_after=2)]
    with FaultProvider(steps) as provider:
        calls = caller(store, folder, remember=True, run_usd=100.0)
        await ask(calls, llm(provider))
        calls.flush()
        await ask(calls, llm(provider))
        await ask(calls, llm(provider, name="beta"), request("other"), account=Account("q2", 50.0, run="night"))
        with pytest.raises(AgentAmbiguous):
            await ask(calls, llm(provider, name="gamma"), request("third"))
        calls.flush()


def test_the_report_names_everything_and_no_key(tmp_path, capsys):
    settings = load_settings()
    settings.data_dir.mkdir(parents=True)
    with open_store(settings.url) as store:
        asyncio.run(fill(store, tmp_path))
    assert command(["--json", "--days", "1"]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    total = report["total"]
    assert (total["calls"], total["settled"], total["in_doubt"], total["unreported"]) == (4, 2, 2, 1)
    assert total["usd"] == pytest.approx(sum(line["usd"] for line in report["agents"]))
    assert [line["name"] for line in report["agents"]] == ["gamma", "beta", "alpha"], "dearest first"
    assert [line["name"] for line in report["runs"]] == ["night"]
    assert {call["agent"] for call in report["in_doubt"]} == {"gamma"} and len(report["in_doubt"]) == 2
    assert report["cache"]["hits"] == 1 and report["cache"]["saved_usd"] == pytest.approx(12 * 10e-6 + 5 * 100e-6)
    assert command([]) == 0
    text = capsys.readouterr().out
    assert "in doubt:" in text and "counted at their worst case" in text and "used 1 times" in text
    assert CANARY not in text + json.dumps(report)


@pytest.mark.parametrize("days", ["x", "0", "-1", "nan"])
def test_a_wrong_number_of_days_is_refused(days, capsys):
    with pytest.raises(SystemExit) as caught:
        command(["--days", days])
    assert caught.value.code == 2 and "days" in capsys.readouterr().err
