"""What an agent is: the one Protocol every member of a pool implements.

Implementations: `llm` (litellm), `local` (llama.cpp in process), `sympy`, `agreement`, `python` (sandbox),
`scripted` (for tests). All run through tests/contract/test_agent.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from core.types import Message, Role, Transcript, Usage


@dataclass(frozen=True, slots=True)
class Request:
    """One turn asked of one agent.

    `messages` is the role prompt (core/roles.py) for agents that read prose; tool agents read `transcript`
    itself. `nonce` is the random fence around other agents' text in the prompt. `seed` makes a local agent's
    draw repeatable. `timeout_s` is the wall clock left for this call. `sample` numbers repeats of one request that
    must be distinct draws: it is part of the key under which a reply is remembered, never sent.
    """

    role: Role
    transcript: Transcript
    messages: tuple[Message, ...]
    nonce: str
    seed: int
    timeout_s: float
    max_tokens: int | None = None
    sample: int = 0


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply as it arrives: visible text, or reasoning that never enters the transcript."""

    text: str = ""
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a reply. `finish` is `stop` or `length`; `cost_usd` is None when the price is unknown."""

    finish: str = "stop"
    usage: Usage = Usage()
    cost_usd: float | None = 0.0
    model: str | None = None  # the model the provider says it used, when it says so


@runtime_checkable
class Agent(Protocol):
    """A named member of a pool.

    `fingerprint` changes when the thing behind the name changes (model id, weights, prompt style); heads are
    bound to name + fingerprint. `prompt_style` names the role prompts it is given (`chat` or `tiny`).
    """

    name: str
    model: str
    fingerprint: str
    prompt_style: str
    free: bool

    def unusable(self) -> str | None:
        """None when the agent can be called at all, else the reason in plain words (no key, no sandbox)."""
        ...

    def can_play(self, role: Role, transcript: Transcript) -> str | None:
        """None when the agent can play `role` now, else the reason. Pure, fast (< 5 ms), never raises."""
        ...

    def warm(self) -> None:
        """Get ready, so that the first question need not wait. Blocking; may do nothing; raises AgentError only."""
        ...

    def reply(self, request: Request) -> AsyncIterator[Delta | Done]:
        """Stream the reply: any number of Delta, then exactly one Done.

        Closing the iterator early (cancellation) must end the provider's work. Raises AgentError subclasses only.
        """
        ...
