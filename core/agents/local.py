"""The local agent: the embedded SmolLM2-135M, spoken to in the words it answers best.

What was measured on 100 short questions (40 capitals, 16 chemical symbols, 44 others; greedy, right answers):

    bare question (the 50 asked first)              70 (35 of 50)
    system text "You answer questions with …"       78   <- style `steps`
    question + "Answer in a few words."             76
    question + newline + "Answer in a few words."   80   <- style `short`
    "Answer briefly: " + question                   80   (but "Le Grand Paris is the capital of France.")
    three worked examples before the question       70
    "Question: … Answer (a few words):"             76

Repetition penalty 1.1 gains 1 to 3 of 100 over 1.0. A poem, a greeting or an explanation is asked for as it is.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from core.agents.base import Agent, Delta, Done, Request
from core.agents.llama import Decoding, Ended, shared
from core.agents.short_answer import asks_short_fact
from core.errors import EmptyReply
from core.types import Message, Role, Transcript

MODEL = "SmolLM2-135M-Instruct"
STYLES = ("short", "steps")
SHORT_TOKENS, LONG_TOKENS = 64, 200

_LETTER = re.compile(r"[^\W\d_]")
_LATIN = re.compile(r"[A-Za-zÀ-ɏ]")
_FACTS_SYSTEM = Message("system", "You answer questions with short, correct facts.")


class LocalAgent:
    """SmolLM2 as Thinker and Worker. `style` `short` asks plainly, `steps` asks for facts first or a line of steps.

    Raises ValueError for another style.
    """

    model = MODEL
    prompt_style = "tiny"
    free = True

    def __init__(self, name: str, gguf: Path, *, style: str = "short") -> None:
        if style not in STYLES:
            raise ValueError(f"`style` must be one of {', '.join(STYLES)}; it is {style!r}")
        self.name, self.style = name, style
        self.fingerprint = f"{gguf.stem}/{style}@1"  # the installer checks the file's hash; raise @ with the wording
        self._llama = shared(gguf)

    def warm(self) -> None:
        """Load the weights now (0.5 s), so that the first question need not wait. Blocking; raises AgentPermanent."""
        self._llama.warm()

    def unusable(self) -> str | None:
        """See Agent.unusable."""
        return None if self._llama.path.is_file() else "the model file is missing: run `trinity backbone install`"

    def can_play(self, role: Role, transcript: Transcript) -> str | None:
        """See Agent.can_play. Asked to judge, it says yes to everything, whatever the format forced on it."""
        if role is Role.VERIFIER:
            return f"{self.name} is too small to judge an answer: it approves of everything"
        if not reads(transcript.question):
            return f"{self.name} reads English only"
        return None

    async def reply(self, request: Request) -> AsyncIterator[Delta | Done]:
        """See Agent.reply. Greedy; a second answer to the same question is drawn, or it would be the first again."""
        spoken = False
        pieces = self._llama.stream(phrase(request, self.style), self._decoding(request))
        try:
            async for piece in pieces:
                if not isinstance(piece, Ended):
                    spoken = spoken or bool(piece.text.strip())
                    yield Delta(piece.text)
                elif not spoken:
                    raise EmptyReply(f"{self.name} said nothing; ask in other words.")
                else:
                    yield Done(piece.finish, piece.usage)
        finally:
            await pieces.aclose()  # type: ignore[attr-defined]  # an async generator: cancellation reaches the thread

    def _decoding(self, request: Request) -> Decoding:
        short = request.role is Role.THINKER or asks_short_fact(request.transcript.question)
        limit = SHORT_TOKENS if short else LONG_TOKENS
        how = Decoding(min(limit, request.max_tokens or limit))
        again = any(turn.agent == self.name and turn.role is request.role for turn in request.transcript.turns)
        return replace(how, temperature=0.7, seed=request.seed) if again else how


def reads(question: str) -> bool:
    """True when the model can make sense of the script: at most a third of the letters are not Latin."""
    question = question[:2_000]
    letters = _LETTER.findall(question)
    return len(_LATIN.findall(question)) * 3 >= len(letters) * 2


def phrase(request: Request, style: str) -> tuple[Message, ...]:
    """The messages to send: the role prompt, worded for a model of this size. See the module for the measurements."""
    *earlier, last = request.messages
    if request.role is not Role.WORKER:
        return request.messages
    if asks_short_fact(request.transcript.question):
        if style == "short":
            return (*earlier, Message(last.role, f"{last.content}\nAnswer in a few words."))
        return (_FACTS_SYSTEM, *earlier, last)
    if style == "steps" and last.content.rstrip().endswith("?"):
        return (*earlier, Message(last.role, f"{last.content}\nExplain step by step, then give the answer."))
    return request.messages


_conforms: type[Agent] = LocalAgent
