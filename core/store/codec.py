"""Turn <-> row, exactly: every field, every character, every bit of h."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from core.store.tables import TurnRow
from core.types import (
    Attempt,
    Decision,
    HiddenState,
    Limits,
    Message,
    Override,
    ReadToken,
    Role,
    Turn,
    Usage,
    Verdict,
)


def turn_to_row(question_id: str, owner_hash: str, created: float, turn: Turn) -> TurnRow:
    """The row of one turn. h is stored as little-endian float32, whatever the machine's order."""
    return TurnRow(
        question_id=question_id,
        turn_index=turn.index,
        owner_hash=owner_hash,
        created=created,
        role=turn.role.value,
        agent=turn.agent,
        slot=turn.slot,
        model=turn.model,
        text=turn.text,
        reasoning=turn.reasoning,
        verdict=turn.verdict.value if turn.verdict else None,
        verdict_reason=turn.verdict_reason,
        unparsed_verdict=turn.unparsed_verdict,
        suggestion=turn.suggestion.value if turn.suggestion else None,
        finish=turn.finish,
        prompt_tokens=turn.usage.prompt_tokens,
        completion_tokens=turn.usage.completion_tokens,
        cost_usd=turn.cost_usd,
        latency_s=turn.latency_s,
        first_token_s=turn.first_token_s,
        tries=turn.tries,
        error=turn.error,
        failed=[asdict(attempt) for attempt in turn.failed],
        prompt=[[message.role, message.content] for message in turn.prompt],
        decision=_decision_to_json(turn.decision) if turn.decision else None,
        **_hidden_columns(turn.decision.hidden if turn.decision else None),
    )


def row_to_turn(row: TurnRow) -> Turn:
    """The turn of one row."""
    return Turn(
        index=row.turn_index,
        role=Role(row.role),
        agent=row.agent,
        slot=row.slot,
        model=row.model,
        text=row.text,
        reasoning=row.reasoning,
        verdict=Verdict(row.verdict) if row.verdict else None,
        verdict_reason=row.verdict_reason,
        unparsed_verdict=row.unparsed_verdict,
        suggestion=Role(row.suggestion) if row.suggestion else None,
        finish=row.finish,
        usage=Usage(row.prompt_tokens, row.completion_tokens),
        cost_usd=row.cost_usd,
        latency_s=row.latency_s,
        first_token_s=row.first_token_s,
        tries=row.tries,
        failed=tuple(Attempt(**{**values, "usage": Usage(**values["usage"])}) for values in row.failed),
        error=row.error,
        prompt=tuple(Message(role, content) for role, content in row.prompt),
        decision=_decision_from_json(row.decision, row_to_hidden(row)) if row.decision else None,
    )


def row_to_hidden(row: TurnRow) -> HiddenState | None:
    """The hidden state of one row: float32 [h_size], in the machine's order."""
    import numpy as np

    if row.h is None:
        return None
    token = ReadToken(row.read_id or 0, row.read_text or "", row.read_index or 0)
    vector = np.frombuffer(row.h, dtype="<f4").astype(np.float32)
    return HiddenState(
        vector, token, row.h_backbone or "", row.h_protocol or "", row.h_dtype or "", bool(row.h_truncated)
    )


def limits_to_json(limits: Limits) -> dict[str, Any]:
    """Limits as JSON."""
    return asdict(limits)


def limits_from_json(values: dict[str, Any]) -> Limits:
    """Limits of JSON."""
    return Limits(**values)


def _hidden_columns(hidden: HiddenState | None) -> dict[str, Any]:
    import numpy as np

    if hidden is None:
        return {}
    vector = np.asarray(hidden.vector, dtype="<f4")
    if vector.ndim != 1:
        raise ValueError(f"h must have the shape [hidden_size], it is {vector.shape}")
    return {
        "h": vector.tobytes(),
        "h_size": vector.size,
        "h_dtype": hidden.dtype,
        "h_backbone": hidden.backbone,
        "h_protocol": hidden.protocol,
        "h_truncated": hidden.truncated,
        "read_id": hidden.read_token.id,
        "read_text": hidden.read_token.text,
        "read_index": hidden.read_token.index,
    }


def _numbers(values: Any) -> dict[str, float]:
    return {str(name): float(value) for name, value in values.items()}  # float() also takes numpy's scalars


def _decision_to_json(decision: Decision) -> dict[str, Any]:
    return {
        "agent": decision.agent,
        "role": decision.role.value,
        "agent_probs": _numbers(decision.agent_probs),
        "role_probs": _numbers(decision.role_probs),
        "agent_logits": _numbers(decision.agent_logits),
        "role_logits": _numbers(decision.role_logits),
        "head_agent": decision.head_agent,
        "head_role": decision.head_role.value,
        "override": decision.override.value if decision.override else None,
        "masked": dict(decision.masked),
        "elapsed_s": float(decision.elapsed_s),
    }


def _decision_from_json(values: dict[str, Any], hidden: HiddenState | None) -> Decision:
    return Decision(
        agent=values["agent"],
        role=Role(values["role"]),
        agent_probs=values["agent_probs"],
        role_probs={Role(name): value for name, value in values["role_probs"].items()},
        agent_logits=values["agent_logits"],
        role_logits={Role(name): value for name, value in values["role_logits"].items()},
        head_agent=values["head_agent"],
        head_role=Role(values["head_role"]),
        override=Override(values["override"]) if values["override"] else None,
        masked=values["masked"],
        hidden=hidden,
        elapsed_s=values["elapsed_s"],
    )
