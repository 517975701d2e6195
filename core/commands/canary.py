"""`trinity canary`: has any agent of a pool changed since its baseline?"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
from typing import Any

from core.agents.base import Agent
from core.calls.base import Account
from core.calls.caller import LedgerCaller
from core.canary import REPEATS, Look, canary_report, look_at
from core.errors import PoolInvalid
from core.pool import Pool, load_pool
from core.settings import Settings, load_settings, prepare_folders
from core.store import Store, open_store
from core.terminal import one_line
from core.types import Role, Transcript


def command(argv: list[str]) -> int:
    """Run `trinity canary`. Exit code 0 when nothing moved, 1 when something did or an agent could not be asked."""
    parser = argparse.ArgumentParser(prog="trinity canary", description="Ask each agent the stored probes and compare.")
    parser.add_argument("--pool", default=None, help="the pool (default: TRINITY_POOL)")
    parser.add_argument("--agent", action="append", help="only this agent; may be given more than once")
    parser.add_argument("--rebase", action="store_true", help="make what the agents say now the new baseline")
    parser.add_argument("--max-usd", type=_money, default=0.50, help="the most that this may cost (default 0.50)")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    args = parser.parse_args(argv)
    settings = load_settings()
    prepare_folders(settings)
    pool = load_pool(args.pool or settings.pool, settings)
    chosen = _chosen(pool, args.agent)
    with open_store(settings.url) as store:
        skipped = asyncio.run(look_at_all(chosen, store, settings, usd=args.max_usd, rebase=args.rebase))
        names = {agent.name for agent in chosen}
        lines = [line for line in canary_report(store) if line["agent"] in names]
    moved = [line["agent"] for line in lines if line["moved"] or line["error"]]
    if args.json:
        print(json.dumps({"pool": pool.name, "moved": moved, "agents": lines, "skipped": skipped}))
    else:
        print(_as_text(lines, skipped))
    return 1 if moved else 0


async def look_at_all(
    agents: tuple[Agent, ...], store: Store, settings: Settings, *, usd: float, rebase: bool = False
) -> dict[str, str]:
    """Look at each agent and keep what was seen; returns who was left out, with the reason."""
    caller = LedgerCaller(store, settings, process="canary", remember=False)
    account, skipped = new_account(usd), {}
    for agent in agents:
        why = agent.unusable() or agent.can_play(Role.WORKER, Transcript("What is the capital of Australia?"))
        if why:
            skipped[agent.name] = why
            continue
        known = store.canary.baseline(agent.name, agent.fingerprint)
        first = rebase or known is None
        look = await look_at(agent, caller, account, repeats=REPEATS if first else 1)
        store.canary.add(agent.name, agent.fingerprint, look.data(), baseline=first and _is_whole(look))
    caller.flush()
    return skipped


def new_account(usd: float) -> Account:
    """The account of one look at all agents: what earlier looks spent does not count against its `usd`."""
    return Account(f"canary-{secrets.token_hex(8)}", usd, scope="look")


def _is_whole(look: Look) -> bool:
    return not look.error


def _chosen(pool: Pool, names: list[str] | None) -> tuple[Agent, ...]:
    known = {agent.name for agent in pool.agents}
    if stray := sorted(set(names or ()) - known):
        raise PoolInvalid(f"The pool {pool.name} has no agent {stray[0]!r}; there are {', '.join(sorted(known))}.")
    return tuple(agent for agent in pool.agents if not names or agent.name in names)


def _as_text(lines: list[dict[str, Any]], skipped: dict[str, str]) -> str:
    out = []
    for line in lines:
        if line["error"]:
            state = f"FAILED  {one_line(line['error'])}"
        elif line["moved"]:
            state = f"MOVED   {one_line('; '.join(line['notes']))}"
        else:
            state = "same as the baseline" if line["baseline"] != line["looked"] else "baseline kept"
        out.append(f"{one_line(line['agent']):<28}{state}")
    out += [f"{one_line(name):<28}left out: {one_line(why)}" for name, why in skipped.items()]
    return "\n".join(out) or "The pool has no agents."


def _money(text: str) -> float:
    try:
        usd = float(text)
    except ValueError:
        usd = -1.0
    if not 0 <= usd <= 1e6:
        raise argparse.ArgumentTypeError("must be an amount in USD, 0 or more")
    return usd
