"""`trinity route`: what the coordinator would choose for a question, without calling anyone."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

from core.commands.ask import add_team_options, read_question
from core.coordinator import check_question
from core.export import decision_to_dict
from core.rules import rules_for
from core.settings import load_settings, prepare_folders
from core.team import Team, load_team
from core.types import Transcript


def command(argv: list[str]) -> int:
    """Run `trinity route`."""
    parser = argparse.ArgumentParser(prog="trinity route", description="Show the coordinator's choice for a question.")
    parser.add_argument("question", nargs="*", help="the question; `-` or nothing reads standard input")
    add_team_options(parser)
    args = parser.parse_args(argv)
    question = check_question(read_question(args.question))
    settings = load_settings()
    prepare_folders(settings)
    team = load_team(settings, pool=args.pool, checkpoint=args.checkpoint, warm=False)
    try:
        choice = asyncio.run(route(team, question))
    finally:
        team.close()
    if args.json:
        print(json.dumps(choice, ensure_ascii=False))
        return 0
    print(f"{choice['role']} · {choice['agent']}" + (f" ({choice['override']})" if choice["override"] else ""))
    for name, probability in sorted(choice["agent_probs"].items(), key=lambda item: -item[1]):
        print(f"  {name:<24}{probability:7.1%}  {choice['masked'].get(name, '')}".rstrip())
    print("  " + "   ".join(f"{role} {probability:.1%}" for role, probability in choice["role_probs"].items()))
    print(f"  read token {choice['read_token']['text']!r} · {choice['elapsed_ms']:.0f} ms")
    return 0


async def route(team: Team, question: str) -> dict[str, Any]:
    """The decision for turn 1 as plain data; `elapsed_ms` covers reading and deciding, not loading."""
    transcript = Transcript(question)
    rules = rules_for(transcript, team.pool.agents, masked=team.pool.unusable())
    decision = await team.policy.decide(transcript, rules)
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
