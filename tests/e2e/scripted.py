"""A team that acts out a script by question: real events, no model. What a browser test serves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from core.events import AttemptFailed, Decided, Event, Failed, Finished, TextDelta, TurnDone, TurnStarted, VerdictGiven
from core.types import (
    Attempt,
    Decision,
    Limits,
    Message,
    Override,
    Reason,
    Role,
    Status,
    Trace,
    Turn,
    Usage,
    Verdict,
)


@dataclass(frozen=True)
class Facts:
    name: str
    model: str
    roles: tuple[Role, ...] = (Role.THINKER, Role.WORKER, Role.VERIFIER)
    unusable: str | None = None
    free: bool = True


@dataclass(frozen=True)
class Line:
    """One turn: who says what, `pause` seconds a word. `fails` lists (agent, error, wait) that come before it."""

    role: Role
    agent: str
    text: str
    verdict: Verdict | None = None
    reason: str = ""
    pause: float = 0.0
    fails: tuple[tuple[str, str, float | None], ...] = ()
    override: Override | None = None
    cost: float = 0.0011
    reasoning: str = ""


AGENTS = ("planner", "solver", "checker")
MODELS = {"planner": "vendor/plan-1", "solver": "vendor/solve-2", "checker": "vendor/check-3"}

THREE = (
    Line(Role.THINKER, "planner", "Split the product, then add."),
    Line(Role.WORKER, "solver", "17 · 23 = 391, and 391 + 4 = **395**."),
    Line(Role.VERIFIER, "checker", "VERDICT: ACCEPT", Verdict.ACCEPT, "17·23 = 391; 391 + 4 = 395.", cost=0.0004),
)


@dataclass
class ScriptedTeam:
    """Answers with the script whose name begins the question, else with three turns."""

    scripts: dict[str, Sequence[Line]] = field(default_factory=dict)
    pool_name: str = "scripted"
    checkpoint_name: str = "scripted-1"
    backbone_name: str = "SmolLM2-135M"
    notes: tuple[str, ...] = ("a scripted pool, for tests",)
    seen: list[dict[str, Any]] = field(default_factory=list)
    stopped: int = 0

    @property
    def agents(self) -> tuple[Facts, ...]:
        return tuple(Facts(name, MODELS[name]) for name in AGENTS)

    async def run(
        self,
        question: str,
        *,
        question_id: str,
        history: tuple[Message, ...] = (),
        limits: Limits = Limits(),
        exclude: Sequence[str] = (),
        account: Any = None,
        stop: asyncio.Event | None = None,
        seed: int = 0,
    ) -> AsyncIterator[Event]:
        self.seen.append({"question": question, "history": history, "limits": limits, "exclude": tuple(exclude)})
        stop = stop or asyncio.Event()
        lines = self.scripts.get(question.split()[0].lower(), THREE)
        turns: list[Turn] = []
        began = time.monotonic()

        def ended(status: Status, reason: Reason | None, note: str = "") -> Trace:
            parts = [part for turn in turns for part in (turn, *turn.failed)]
            worker = [t.text for t in turns if t.role is Role.WORKER and t.text]
            return Trace(
                question_id, question, history, tuple(turns), worker[-1] if worker else None, status, reason, note,
                sum((p.usage for p in parts), Usage()), sum(p.cost_usd or 0.0 for p in parts),
                time.monotonic() - began, self.checkpoint_name, self.backbone_name, "paper@1", self.pool_name,
            )  # fmt: skip

        for index, line in enumerate(lines[: limits.max_turns], start=1):
            yield TurnStarted(index)
            await asyncio.sleep(0.02)
            attempts: list[Attempt] = []
            for agent, error, wait in line.fails:
                yield Decided(index, decide(replace(line, agent=agent)), MODELS[agent])
                attempts.append(Attempt(agent, MODELS[agent], error, "half an ans", cost_usd=0.0002))
                yield AttemptFailed(index, attempts[-1], wait)
                await asyncio.sleep(wait or 0.1)
            if not line.agent:  # nobody was left
                turns.append(Turn(index, line.role, agent, 1, MODELS[agent], "", finish="cut",
                                  failed=tuple(attempts), tries=len(attempts),
                                  error="no agent could take this turn"))  # fmt: skip
                yield TurnDone(index, turns[-1])
                yield Failed(ended(Status.FAILED, Reason.POOL_EMPTY, "no agent could take this turn"))
                return
            decision = decide(line)
            yield Decided(index, decision, MODELS[line.agent])
            if line.reasoning:
                yield TextDelta(index, reasoning=line.reasoning)
            said = ""
            for word in line.text.split(" "):
                if stop.is_set():
                    break
                said += (" " if said else "") + word
                yield TextDelta(index, (" " if said != word else "") + word)
                if line.pause:
                    await asyncio.sleep(line.pause)
            turn = Turn(
                index, line.role, line.agent, AGENTS.index(line.agent) + 1, MODELS[line.agent], said,
                reasoning=line.reasoning, verdict=line.verdict, verdict_reason=line.reason,
                usage=Usage(40 + 7 * index, len(said.split())), cost_usd=line.cost, latency_s=0.4 + 0.1 * index,
                first_token_s=0.12, failed=tuple(attempts), decision=decision, tries=1 + len(attempts),
                prompt=(Message("system", "You are one of a team."), Message("user", question)),
            )  # fmt: skip
            if stop.is_set():
                self.stopped += 1
                turns.append(replace(turn, finish="stopped", error="stopped by you", verdict=None))
                yield TurnDone(index, turns[-1])
                yield Finished(ended(Status.STOPPED, None, "stopped by you"))
                return
            turns.append(turn)
            yield TurnDone(index, turn)
            if line.verdict is not None:
                yield VerdictGiven(index, line.verdict, line.reason)
            if line.verdict is Verdict.ACCEPT:
                yield Finished(ended(Status.ACCEPTED, None))
                return
        if turns[-1].role is Role.WORKER:
            yield Finished(ended(Status.UNVERIFIED, Reason.NO_VERIFIER, "nobody can check this"))
        else:
            yield Finished(ended(Status.BUDGET_EXHAUSTED, Reason.TURNS, "no Verifier accepted"))


def decide(line: Line) -> Decision:
    rest = (1 - 0.72) / (len(AGENTS) - 1)
    agent_probs = {name: 0.72 if name == line.agent else rest for name in AGENTS}
    role_probs = {role: 0.8 if role is line.role else 0.1 for role in Role}
    return Decision(
        line.agent, line.role, agent_probs, role_probs, dict.fromkeys(AGENTS, 0.1), dict.fromkeys(Role, 0.2),
        head_agent="planner" if line.override else line.agent, head_role=Role.VERIFIER if line.override else line.role,
        override=line.override, masked={}, hidden=None, elapsed_s=0.031,
    )  # fmt: skip


EVIL = (
    '${window.x=1} `${window.y=1}` <img src=x onerror="window.z=1"> <script>window.w=1</script> \\frac12 \\unit '
    "{{constructor.constructor('window.v=1')()}} ` ![a](https://evil.example/p?q=1) "
    "[b](javascript:window.u=1) <style>body{display:none}</style>"
)

SCRIPTS: dict[str, Sequence[Line]] = {
    "evil": (
        Line(Role.THINKER, "planner", EVIL),
        Line(Role.WORKER, "solver", EVIL),
        Line(Role.VERIFIER, "checker", EVIL, Verdict.ACCEPT, EVIL),
    ),
    "slow": (
        Line(Role.THINKER, "planner", "Think about it."),
        Line(Role.WORKER, "solver", " ".join(f"word{n}" for n in range(200)), pause=0.06),
        Line(Role.VERIFIER, "checker", "VERDICT: ACCEPT", Verdict.ACCEPT, "Good."),
    ),
    "steady": (
        Line(Role.WORKER, "solver", " ".join(f"step{n}" for n in range(30)), pause=0.08),
        Line(Role.VERIFIER, "checker", "VERDICT: ACCEPT", Verdict.ACCEPT, "Good.", pause=0.3),
    ),
    "broken": (
        Line(Role.THINKER, "planner", "A plan."),
        Line(
            Role.WORKER,
            "solver",
            "Answer after trouble: 42.",
            override=Override.FALLBACK,
            fails=(("planner", "vendor/plan-1 answers 503.", 2.0), ("planner", "vendor/plan-1 answers 503.", None)),
        ),
        Line(Role.VERIFIER, "checker", "VERDICT: ACCEPT", Verdict.ACCEPT, "42 it is."),
    ),
    "dead": (
        Line(Role.WORKER, "solver", "A first answer."),
        Line(Role.VERIFIER, "checker", "VERDICT: REVISE", Verdict.REVISE, "Not enough."),
        Line(Role.WORKER, "", "", fails=(("solver", "The key is refused.", None), ("planner", "No credit.", None))),
    ),
    "poem": (Line(Role.WORKER, "solver", "Rain writes in silver lines,\nthe roof reads every one."),),
    "never": (
        Line(Role.WORKER, "solver", "41"),
        Line(Role.VERIFIER, "checker", "VERDICT: REVISE", Verdict.REVISE, "Off by one."),
        Line(Role.WORKER, "solver", "42", override=Override.SUGGESTION),
        Line(Role.VERIFIER, "checker", "VERDICT: REVISE", Verdict.REVISE, "Still wrong."),
    ),
    "rich": (
        Line(
            Role.WORKER,
            "solver",
            "## Result\n\nThe roots of $x^2-5x+6=0$ are **2** and **3**:\n\n"
            "$$x=\\frac{5\\pm\\sqrt{25-24}}{2}$$\n\n| root | check |\n|---|---|\n"
            "| 2 | $4-10+6=0$ |\n| 3 | $9-15+6=0$ |\n\n"
            "```python\ndef f(x):\n    return x**2 - 5*x + 6\n```\n\n1. factor\n2. read off\n\n"
            "See [a page](https://example.org).",
            reasoning="Factor into (x-2)(x-3).",
        ),
        Line(Role.VERIFIER, "checker", "VERDICT: ACCEPT", Verdict.ACCEPT, "Both roots satisfy the equation."),
    ),
}

__all__ = ["SCRIPTS", "THREE", "Line", "ScriptedTeam"]
