"""The agreement agent: judges short factual answers by asking the same small model afresh, several times.

A model of this size approves of whatever it is shown; its independent samples, however, agree far more often on a
right answer than on a wrong one. `trinity bench verifier` measures how often it errs either way.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from core.agents.base import Agent, Delta, Done, Request
from core.agents.exact.questions import understand
from core.agents.llama import Decoding, Ended, shared
from core.agents.local import MODEL, reads
from core.agents.short_answer import agree, asks_short_fact, committed
from core.errors import AgentPermanent
from core.types import Message, Role, Transcript, Usage, Verdict

SAMPLES = 4
# Measured on 79 right and 21 wrong answers that the same model gave (accepted right, accepted wrong): temperature 0.6
# and "Answer in a few words.": 62, 5 with 2 votes, 57, 2 with 3; 0.8 and "Answer briefly:": 63, 7 and 53, 5.
NEEDED = 2
HOW = Decoding(max_tokens=24, temperature=0.6, repeat_penalty=1.0, samples=SAMPLES)


class AgreementAgent:
    """Verifier of short factual answers. Accepts what at least `NEEDED` of `SAMPLES` fresh answers say, too."""

    model = MODEL
    prompt_style = "tool"
    free = True

    def __init__(self, name: str, gguf: Path) -> None:
        self.name = name
        self.fingerprint = f"{gguf.stem}/agreement@1"
        self._llama = shared(gguf)

    def warm(self) -> None:
        """Load the weights now (0.5 s). Blocking; raises AgentPermanent."""
        self._llama.warm()

    def unusable(self) -> str | None:
        """See Agent.unusable."""
        return None if self._llama.path.is_file() else "the model file is missing: run `trinity backbone install`"

    def can_play(self, role: Role, transcript: Transcript) -> str | None:
        """See Agent.can_play. An empty question asks what it can do in general."""
        if role is not Role.VERIFIER:
            return f"{self.name} only checks answers"
        question = transcript.question
        if question and understand(question) is not None:
            return f"{self.name} does not judge mathematics"
        if question and not (reads(question) and asks_short_fact(question)):
            return f"{self.name} judges short factual answers only"
        return None

    async def reply(self, request: Request) -> AsyncIterator[Delta | Done]:
        """See Agent.reply. The samples are drawn from the question alone: the answer to judge is not shown."""
        question, answer = request.transcript.question, request.transcript.answer
        if why := self.can_play(request.role, request.transcript):
            raise AgentPermanent(why)
        if answer is None:
            raise AgentPermanent("There is no answer to check yet.")
        samples, usage = await self._samples(question, request.seed)
        yield Delta(verdict(question, answer, samples))
        yield Done("stop", usage)

    async def _samples(self, question: str, seed: int) -> tuple[list[str], Usage]:
        texts, usage = [""] * SAMPLES, Usage()
        how = Decoding(HOW.max_tokens, HOW.temperature, HOW.repeat_penalty, seed, HOW.samples)
        pieces = self._llama.stream((Message("user", f"{question}\nAnswer in a few words."),), how)
        try:
            async for piece in pieces:
                if isinstance(piece, Ended):
                    usage = piece.usage
                else:
                    texts[piece.sample] += piece.text
        finally:
            await pieces.aclose()  # type: ignore[attr-defined]  # an async generator: cancellation reaches the thread
        return texts, usage


def verdict(question: str, answer: str, samples: list[str]) -> str:
    """One sentence of reason and the verdict line."""
    said = committed(question, answer)
    if not said:
        return f"The answer commits to nothing short that could be compared.\nVERDICT: {Verdict.REVISE}"
    votes = sum(agree(said, committed(question, sample)) for sample in samples)
    right = votes >= NEEDED
    caution = " Samples of one small model can agree on a mistake." if right else ""
    judged = Verdict.ACCEPT if right else Verdict.REVISE
    return f"{votes} of {len(samples)} fresh answers say the same.{caution}\nVERDICT: {judged}"


_conforms: type[Agent] = AgreementAgent
