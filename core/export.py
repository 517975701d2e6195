"""A trace as plain data and as a page of Markdown: what `trinity ask --json`, exports and the API print."""

from __future__ import annotations

from typing import Any

from core.types import Attempt, Decision, Trace, Turn, Usage


def trace_to_dict(trace: Trace) -> dict[str, Any]:
    """One JSON-ready object. Built field by field: nothing that is not named here can leak into an export."""
    return {
        "id": trace.id,
        "question": trace.question,
        "history": [{"role": message.role, "content": message.content} for message in trace.history],
        "answer": trace.answer,
        "status": trace.status.value,
        "reason": trace.reason.value if trace.reason else None,
        "note": trace.note,
        "turns": [turn_to_dict(turn) for turn in trace.turns],
        "usage": usage_to_dict(trace.usage),
        "cost_usd": trace.cost_usd,
        "elapsed_s": round(trace.elapsed_s, 4),
        "checkpoint": trace.checkpoint,
        "backbone": trace.backbone,
        "protocol": trace.protocol,
        "pool": trace.pool,
        "pool_version": trace.pool_version,
    }


def turn_to_dict(turn: Turn) -> dict[str, Any]:
    """One turn, with the decision that led to it. The hidden state and the prompt stay out."""
    decision = turn.decision
    return {
        "index": turn.index,
        "agent": turn.agent,
        "slot": turn.slot,
        "model": turn.model,
        "role": turn.role.value,
        "verdict": turn.verdict.value if turn.verdict else None,
        "verdict_reason": turn.verdict_reason,
        "unparsed_verdict": turn.unparsed_verdict,
        "suggestion": turn.suggestion.value if turn.suggestion else None,
        "text": turn.text,
        "reasoning": turn.reasoning,
        "finish": turn.finish,
        **(decision_to_dict(decision) if decision else dict.fromkeys(DECISION_FIELDS)),
        "latency_s": round(turn.latency_s, 4),
        "first_token_s": None if turn.first_token_s is None else round(turn.first_token_s, 4),
        "usage": usage_to_dict(turn.usage),
        "cost_usd": turn.cost_usd,
        "tries": turn.tries,
        "failed": [attempt_to_dict(attempt) for attempt in turn.failed],
        "error": turn.error,
    }


def decision_to_dict(decision: Decision) -> dict[str, Any]:
    """The head's view of a turn: probabilities and logits by name, what it would have taken, and what moved it."""
    return {
        "agent_probs": dict(decision.agent_probs),
        "role_probs": {role.value: probability for role, probability in decision.role_probs.items()},
        "agent_logits": dict(decision.agent_logits),
        "role_logits": {role.value: logit for role, logit in decision.role_logits.items()},
        "head_agent": decision.head_agent,
        "head_role": decision.head_role.value,
        "override": decision.override.value if decision.override else None,
        "masked": dict(decision.masked),
        "decision_s": round(decision.elapsed_s, 4),
        "truncated": bool(decision.hidden and decision.hidden.truncated),
    }


DECISION_FIELDS = (
    "agent_probs",
    "role_probs",
    "agent_logits",
    "role_logits",
    "head_agent",
    "head_role",
    "override",
    "masked",
    "decision_s",
    "truncated",
)


def attempt_to_dict(attempt: Attempt) -> dict[str, Any]:
    """A failed call, with the text that had arrived."""
    return {
        "agent": attempt.agent,
        "model": attempt.model,
        "error": attempt.error,
        "text": attempt.text,
        "usage": usage_to_dict(attempt.usage),
        "cost_usd": attempt.cost_usd,
    }


def usage_to_dict(usage: Usage) -> dict[str, int]:
    """Token counts under the names that OpenAI-shaped programs expect."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
    }


def trace_to_markdown(trace: Trace) -> str:
    """A readable page: question, answer, then each turn. Model text stands in fences longer than any it holds."""
    cost = "unknown" if trace.cost_usd is None else f"${trace.cost_usd:.4f}"
    ending = trace.status.value + (f" ({trace.reason.value})" if trace.reason else "")
    lines = [
        "# Question",
        _fenced(trace.question),
        "# Answer",
        _fenced(trace.answer) if trace.answer is not None else "_No answer._",
        f"{ending} · {len(trace.turns)} turns · {trace.elapsed_s:.1f} s · {trace.usage.total_tokens} tokens · {cost} · "
        f"head {trace.checkpoint} · pool {trace.pool}",
        "# Turns",
    ]
    for turn in trace.turns:
        verdict = f" · {turn.verdict.value}" if turn.verdict else ""
        lines.append(f"## Turn {turn.index} · {turn.role.value} · {turn.agent}{verdict}")
        lines.append(_fenced(turn.text))
        for attempt in turn.failed:
            lines += [f"{attempt.agent} failed:", _fenced(attempt.error)]
    return "\n\n".join(lines) + "\n"


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
