"""`trinity fit-embedded`: fit the head that ships with the embedded pool, by supervised learning on generated prompts.

A teacher that knows each prompt's family plays the questions through the coordinator with the real agents. Every
decision it takes gives one pair (h, chosen agent and role); two logistic regressions on calibrated h make the
linear head `z = W h + b`. Some questions follow an earlier one and its answer, as they do in a conversation. The head
stands in until an evolved one is better: it imitates rules, it is not trained on reward.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from core.assets import SHIPPED_CHECKPOINTS
from core.calls.base import Account, DirectCaller
from core.checkpoint import Checkpoint, save_checkpoint, uniform_checkpoint
from core.coordinator import coordinate
from core.events import Finished
from core.heads import Calibration, HeadSpec, build_head
from core.policy import Policy, Reader, bind_untrained
from core.pool import Pool, load_pool
from core.rules import Rules
from core.run import Run
from core.settings import Settings, load_settings, prepare_folders
from core.transcript import DEFAULT_PROTOCOL, protocol_id
from core.types import ROLES, Decision, Limits, Message, Role, Transcript
from training.embedded_prompts import Prompt, prompts

if TYPE_CHECKING:
    import numpy.typing as npt

    from core.backbone.base import Backbone

    Floats = npt.NDArray[np.float64]

# Who works on a family, who takes over when the Verifier is not content, and who verifies.
WORKER = {"sum": "sympy", "fact": "smollm2", "story": "smollm2-steps", "free": "smollm2", "code": "python"}
SECOND = {"sum": "sympy", "fact": "smollm2-steps", "story": "smollm2", "free": "smollm2-steps", "code": "python"}
VERIFIER = {"sum": "sympy", "fact": "agreement", "story": "agreement", "free": "agreement", "code": "python"}
HELD_OUT = 0.2
FOLLOW_UPS = 0.4  # share of questions with an earlier question and its answer before them
# The logit of what the teacher never chooses (a Thinker: at 135M parameters its plan helps nobody).
NEVER = -4.0
# Strong enough that families stay apart, weak enough that unseen wordings keep probabilities short of 1.
INVERSE_PENALTY = 0.01


@dataclass(frozen=True, slots=True)
class Sample:
    """One decision of the teacher: h [d], what it chose, and the number of its question."""

    h: npt.NDArray[np.float32]
    agent: str
    role: Role
    question: int


class Teacher(Policy):
    """A policy that reads h like any other but chooses by the known family, and writes down what it chose."""

    def __init__(self, reader: Reader, backbone: Backbone, pool: Pool) -> None:
        super().__init__(reader, backbone, bind_untrained(uniform_checkpoint(backbone), pool.agents))
        self.family = ""
        self.question = 0
        self.samples: list[Sample] = []

    async def decide(self, transcript: Transcript, rules: Rules, seed: int = 0) -> Decision:
        """The teacher's choice where the rules allow it, else any allowed pair. Either way the wish is the label."""
        agent, role = self._wish(transcript)
        decision = await super().decide(transcript, rules, seed)
        assert decision.hidden is not None
        self.samples.append(Sample(decision.hidden.vector, agent, role, self.question))
        if not rules.allowed[rules.agents.index(agent), ROLES.index(role)]:
            return decision
        return replace(decision, agent=agent, role=role, head_agent=agent, head_role=role, override=None)

    def _wish(self, transcript: Transcript) -> tuple[str, Role]:
        if transcript.turns and transcript.turns[-1].role is Role.WORKER:
            return VERIFIER[self.family], Role.VERIFIER
        second_try = transcript.answer is not None
        return (SECOND if second_try else WORKER)[self.family], Role.WORKER


def command(argv: list[str]) -> int:
    """Run `trinity fit-embedded`."""
    parser = argparse.ArgumentParser(prog="trinity fit-embedded", description="Fit the embedded pool's head.")
    parser.add_argument("--per-family", type=int, default=80, metavar="N", help="questions of each family (80)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=SHIPPED_CHECKPOINTS / "embedded.safetensors")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    args = parser.parse_args(argv)
    if args.per_family < 3 or args.seed < 0:
        parser.error("--per-family is at least 3, --seed not negative")
    settings = load_settings()
    prepare_folders(settings)
    checkpoint = asyncio.run(fit(settings, prompts(args.per_family, args.seed), args.seed))
    save_checkpoint(checkpoint, args.out)
    report = {"checkpoint": str(args.out), "theta_sha256": checkpoint.theta_sha256, **checkpoint.summary}
    print(json.dumps(report) if args.json else "\n".join(f"{key}: {value}" for key, value in report.items()))
    return 0


async def fit(settings: Settings, questions: Sequence[Prompt], seed: int) -> Checkpoint:
    """Play, fit, and measure on the fifth of the questions that was held out."""
    from core.backbone import load_backbone
    from core.backbone.reader import BackboneReader

    pool = load_pool("embedded", settings)
    backbone = load_backbone("embedded", cache_dir=settings.cache_dir, device="cpu", dtype="float32")
    reader = BackboneReader(backbone)
    try:
        samples = await play(Teacher(reader, backbone, pool), pool, questions, seed)
    finally:
        reader.close()
    return fit_samples(samples, questions, pool, backbone, seed)


async def play(teacher: Teacher, pool: Pool, questions: Sequence[Prompt], seed: int) -> list[Sample]:
    """Every decision of the teacher over all questions, in order."""
    rng = Random(seed)  # noqa: S311 (sampling, not secrecy)
    before: tuple[Message, ...] = ()
    for number, question in enumerate(questions):
        teacher.family, teacher.question = question.family, number
        history = before if rng.random() < FOLLOW_UPS else ()
        run = Run(f"fit-{number}", question.text, teacher, pool, DirectCaller(), Account("fit", 0.0),
                  Limits(4), history=history, seed=seed)  # fmt: skip
        async for event in coordinate(run):
            if isinstance(event, Finished) and event.trace.answer is not None:
                before = (Message("user", question.text), Message("assistant", event.trace.answer))
    return teacher.samples


def fit_samples(
    samples: Sequence[Sample], questions: Sequence[Prompt], pool: Pool, backbone: Backbone, seed: int
) -> Checkpoint:
    """The checkpoint, fitted on all but the held-out questions; its summary states the held-out agreement."""
    held = np.array([sample.question < HELD_OUT * len(questions) for sample in samples])
    h = np.array([sample.h for sample in samples], dtype=np.float64)
    calibration = Calibration(
        h[~held].mean(axis=0).astype(np.float32), (h[~held].std(axis=0) + 1e-6).astype(np.float32)
    )
    x = np.asarray(calibration.apply(h))
    names = [agent.name for agent in pool.agents]
    agents = np.array([names.index(sample.agent) for sample in samples])
    roles = np.array([ROLES.index(sample.role) for sample in samples])
    fitted = [_regress(x[~held], agents[~held], len(names)), _regress(x[~held], roles[~held], len(ROLES))]
    spec = HeadSpec("linear", backbone.hidden_size, len(names), {"bias": True})
    head = build_head(spec, calibration=calibration)
    weight, bias = (np.concatenate(parts) for parts in zip(*fitted, strict=True))
    theta = head.flatten({"weight": weight, "bias": bias}).astype(np.float32)
    z = np.asarray(head.logits(theta, h[held]))
    summary: dict[str, Any] = {
        "method": "supervised: logistic regression on a rule-based teacher's decisions",
        "questions": len(questions),
        "decisions": len(samples),
        "held_out_decisions": int(held.sum()),
        "held_out_agent_agreement": round(float((z[:, : len(names)].argmax(1) == agents[held]).mean()), 4),
        "held_out_role_agreement": round(float((z[:, len(names) :].argmax(1) == roles[held]).mean()), 4),
        "seed": seed,
    }
    return Checkpoint(
        name="embedded",
        protocol=protocol_id(DEFAULT_PROTOCOL),
        backbone=backbone.name,
        weights_hash=backbone.weights_hash,
        agents=tuple((agent.name, agent.fingerprint) for agent in pool.agents),
        spec=spec,
        theta=theta,
        calibration=calibration,
        summary=summary,
        licence="Apache-2.0",
        note="imitates a rule-based teacher; made by `trinity fit-embedded`",
    )


def _regress(x: Floats, labels: npt.NDArray[np.int64], classes: int) -> tuple[Floats, Floats]:
    """Weights [classes, d] and biases [classes] of a multinomial logistic regression."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=INVERSE_PENALTY, max_iter=2000).fit(x, labels)
    weights, biases = np.zeros((classes, x.shape[1])), np.full(classes, NEVER)
    if len(model.classes_) == 2:  # scikit-learn then gives one row, for the second class against the first
        weights[model.classes_] = np.concatenate([-model.coef_, model.coef_]) / 2
        biases[model.classes_] = np.concatenate([-model.intercept_, model.intercept_]) / 2
    else:
        weights[model.classes_], biases[model.classes_] = model.coef_, model.intercept_
    return weights, biases
