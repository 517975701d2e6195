"""The `python` agent: runs code of the conversation in the sandbox, and judges code by the question's own examples."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Sequence

from core.agents.base import Delta, Done, Request
from core.agents.codeblocks import last_code
from core.agents.examples import Example, find_examples
from core.agents.trial import Report, try_examples
from core.errors import AgentPermanent, AgentTransient, SandboxUnavailable
from core.sandbox import ExecResult, Outcome, Sandbox, SandboxLimits, open_sandbox
from core.types import Role, Transcript, Verdict

_OUTPUT = 8_192  # bytes of a program's output that make an answer
_TRACE = 1_200  # characters of an error message that are worth reading


class PythonAgent:
    """Worker: the output of the last code, or how it does on the question's examples. Verifier: only by examples.

    A Worker reply with examples repeats the code, so that the answer of the question is still the code.
    """

    model = "python (sandboxed)"
    fingerprint = "python@1"
    prompt_style = "tool"
    free = True

    def __init__(
        self, name: str = "python", sandbox: Sandbox | None = None, *, seconds: float = 6.0, memory_mb: int = 1024
    ) -> None:
        """`sandbox`: default: the best of this machine, looked for at the first use. `seconds`: for each run."""
        self.name = name
        self._given = sandbox
        self._seconds, self._memory_mb = seconds, memory_mb

    def unusable(self) -> str | None:
        """None, or why code cannot be run safely on this machine."""
        return None if self._given else _missing()

    def warm(self) -> None:
        """Nothing to do: `unusable`, asked before, tried the sandbox."""

    def can_play(self, role: Role, transcript: Transcript) -> str | None:
        """None, or one sentence. See Agent.can_play."""
        if role is Role.THINKER:
            return "python runs code; it cannot plan"
        examples = find_examples(transcript.question)
        if role is Role.VERIFIER:
            if not examples:
                return "the question gives no examples to run the code on"
            return None if _answer_code(transcript) else "the answer holds no Python code"
        if _spoken_code(transcript) is not None:
            return None
        if examples:
            return "nobody has written the code yet"
        return None if last_code(transcript.question) else "there is no Python code to run"

    async def reply(self, request: Request) -> AsyncIterator[Delta | Done]:
        """See Agent.reply. Closing it early kills the program."""
        stop = threading.Event()
        work = self._judge if request.role is Role.VERIFIER else self._work
        try:
            text = await asyncio.to_thread(work, request, stop)
        finally:
            stop.set()
        yield Delta(text)
        yield Done()

    def _work(self, request: Request, stop: threading.Event) -> str:
        transcript = request.transcript
        code, examples = _spoken_code(transcript), find_examples(transcript.question)
        if code is not None and examples:
            report = self._try(code, examples, request, stop)
            return f"{_fenced(code)}\n\n{report.text()}"
        code = code or last_code(transcript.question)
        if code is None:
            raise AgentPermanent(f"{self.name}: there is no Python code to run")
        limits = SandboxLimits(self._each(request, 1), self._memory_mb, output_bytes=_OUTPUT)
        return _shown(self._sandbox().run(code, "", limits, stop=stop))

    def _judge(self, request: Request, stop: threading.Event) -> str:
        code, examples = _answer_code(request.transcript), find_examples(request.transcript.question)
        if code is None or not examples:
            return f"There is nothing to run: no code, or no examples.\n\nVERDICT: {Verdict.REVISE}"
        report = self._try(code, examples, request, stop)
        verdict = Verdict.ACCEPT if report.all_pass else Verdict.REVISE
        return f"{report.text()}\n\nVERDICT: {verdict}"

    def _try(self, code: str, examples: Sequence[Example], request: Request, stop: threading.Event) -> Report:
        limits = SandboxLimits(self._each(request, len(examples)), self._memory_mb)
        report = try_examples(self._sandbox(), code, examples, request.transcript.question, limits, stop)
        if report.broken:
            raise AgentTransient(f"python: the sandbox failed ({report.broken}); ask again")
        return report

    def _sandbox(self) -> Sandbox:
        try:
            return self._given or open_sandbox()
        except SandboxUnavailable as error:
            raise AgentPermanent(f"{self.name}: {error}") from error

    def _each(self, request: Request, runs: int) -> float:
        """Seconds for each of so many runs, within the time of the call."""
        return max(0.2, min(self._seconds, request.timeout_s / (runs + 1)))


@functools.cache
def _missing() -> str | None:
    try:
        open_sandbox()
    except SandboxUnavailable as error:
        return str(error)
    return None


def _spoken_code(transcript: Transcript) -> str | None:
    """The last code that a Thinker or Worker wrote. A Verifier's code shows what is wrong; it is not the answer."""
    spoken = (turn.text for turn in reversed(transcript.turns) if turn.role is not Role.VERIFIER)
    return next((code for text in spoken if (code := last_code(text)) is not None), None)


def _answer_code(transcript: Transcript) -> str | None:
    return last_code(transcript.answer) if transcript.answer else None


def _fenced(code: str) -> str:
    """A fence longer than any in the code."""
    fence = "```"
    while fence in code:
        fence += "`"
    return f"{fence}python\n{code.rstrip()}\n{fence}"


def _shown(result: ExecResult) -> str:
    """What a program printed, or why it stopped."""
    if result.outcome is Outcome.SANDBOX_ERROR:
        raise AgentTransient(f"python: the sandbox failed ({result.detail}); ask again")
    printed = result.stdout.rstrip("\n")
    if result.outcome is Outcome.PASSED:
        return printed or "The program ran to its end and printed nothing."
    trouble = result.stderr.strip()[-_TRACE:]
    why = f"The program failed: {result.detail}." + (f"\n{trouble}" if trouble else "")
    return f"{printed}\n\n{why}" if printed else why
