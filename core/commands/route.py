"""`trinity route`: what the coordinator would choose for a question, without calling anyone."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

from core.commands.ask import add_options, limits_of, read_question
from core.coordinator import check_question
from core.export import decision_to_dict
from core.run import Run
from core.settings import load_settings, prepare_folders
from core.team import Team, load_team
from core.types import Transcript


def command(argv: list[str]) -> int:
    """Run `trinity route`."""
    parser = argparse.ArgumentParser(prog="trinity route", description="Show the coordinator's choice for a question.")
    add_options(parser)
    args = parser.parse_args(argv)
    question = check_question(read_question(args.question))
    settings = load_settings()
    prepare_folders(settings)
    limits = limits_of(args, settings)
    team = load_team(settings, pool=args.pool, checkpoint=args.checkpoint, warm=False)
    try:
        run = team.prepare(question, question_id="route", limits=limits, exclude=args.exclude, seed=args.seed)
        choice = asyncio.run(route(team, run))
    finally:
        team.close()
    if args.json:
        print(json.dumps(choice))
        return 0
    print(f"{choice['role']} · {choice['agent']}" + (f" ({choice['override']})" if choice["override"] else ""))
    for name, probability in sorted(choice["agent_probs"].items(), key=lambda item: -item[1]):
        print(f"  {name:<24}{probability:7.1%}  {choice['masked'].get(name, '')}".rstrip())
    print("  " + "   ".join(f"{role} {probability:.1%}" for role, probability in choice["role_probs"].items()))
    print(f"  read token {choice['read_token']['text']!r} · {choice['elapsed_ms']:.0f} ms")
    return 0


async def route(team: Team, run: Run) -> dict[str, Any]:
    """The decision for turn 1 as plain data; `elapsed_ms` covers reading and deciding, not loading."""
    transcript = Transcript(run.question, history=run.history)
    decision = await run.policy.decide(transcript, run.rules(transcript, 1), run.seed)
    assert decision.hidden is not None
    token = decision.hidden.read_token
    return {
        "agent": decision.agent,
        "role": decision.role.value,
        **decision_to_dict(decision),
        "read_token": {"id": token.id, "text": token.text, "index": token.index},
        "hidden_size": int(decision.hidden.vector.shape[0]),
        "elapsed_ms": round(decision.elapsed_s * 1000, 2),
        "checkpoint": team.checkpoint_name,
        "backbone": team.backbone_name,
        "protocol": team.policy.protocol,
        "pool": team.pool_name,
        "notes": list(team.notes),
    }
