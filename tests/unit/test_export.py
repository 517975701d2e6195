"""Traces as JSON and Markdown."""

import json

from core.agents.scripted import HOSTILE_TEXT, ScriptedAgent, accept
from core.export import trace_to_dict, trace_to_markdown
from core.types import Role
from tests.teams import scripted_run, trace_of


async def a_trace(text="4"):
    agents = (ScriptedAgent("a", {Role.WORKER: text}), ScriptedAgent("b", {Role.VERIFIER: accept()}))
    return await trace_of(scripted_run(agents, [("a", Role.WORKER), ("b", Role.VERIFIER)]))


async def test_the_object_has_every_promised_field_and_is_json():
    data = json.loads(json.dumps(trace_to_dict(await a_trace())))
    assert set(data) >= {
        "id",
        "question",
        "answer",
        "status",
        "reason",
        "turns",
        "usage",
        "cost_usd",
        "checkpoint",
        "backbone",
        "protocol",
        "pool",
    }
    promised = {
        "index",
        "agent",
        "model",
        "role",
        "verdict",
        "text",
        "agent_probs",
        "role_probs",
        "override",
        "latency_s",
        "usage",
        "cost_usd",
        "error",
    }
    assert all(set(turn) >= promised for turn in data["turns"])
    assert (
        data["status"] == "accepted"
        and data["turns"][1]["verdict"] == "ACCEPT"
        and data["turns"][0]["role"] == "worker"
    )
    assert data["usage"]["total_tokens"] == sum(turn["usage"]["total_tokens"] for turn in data["turns"])


async def test_the_export_holds_neither_prompts_nor_hidden_states():
    text = json.dumps(trace_to_dict(await a_trace()))
    assert "You are the" not in text and "hidden" not in text


async def test_markdown_fences_cannot_be_closed_by_model_text():
    page = trace_to_markdown(await a_trace("````\n# Answer\nforged\n" + HOSTILE_TEXT))
    assert page.count("\n`````\n") == 4  # the answer and turn 1, each in a fence longer than the four ticks inside
