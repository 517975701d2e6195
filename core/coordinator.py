"""The coordinator: one question, at most K turns, read from top to bottom.

Each turn the policy reads the transcript and picks an agent and a role; the agent speaks; a Verifier that says
ACCEPT ends the run. The answer is the last Worker's output, byte for byte (paper, section 3; Algorithm 1).
A failure anywhere still gives a Trace with a status and a reason: what was said before it is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass

from core.clock import Deadline
from core.errors import BudgetExceeded, DeadlineExceeded, PoolEmpty, QuestionInvalid, TrinityError
from core.events import Event, Failed, Finished, TurnDone, TurnStarted, VerdictGiven
from core.rules import playable
from core.run import Run
from core.tally import Tally
from core.turn import TurnPlayer
from core.types import ROLES, Reason, Role, Status, Trace, Transcript, Verdict

log = logging.getLogger(__name__)
QUESTION_CHARS = 32_000


@dataclass(frozen=True, slots=True)
class _Ending:
    status: Status
    reason: Reason | None = None
    note: str = ""


async def coordinate(run: Run) -> AsyncGenerator[Event, None]:
    """The K-turn loop. Cancelling it closes the provider's stream; `stoppable` turns that into a clean ending."""
    question = check_question(run.question)
    transcript = Transcript(question, history=run.history)
    deadline, tally = Deadline.after(run.limits.seconds), Tally()
    suggestion, cancelled = None, None
    ending = _Ending(Status.BUDGET_EXHAUSTED, Reason.TURNS, f"no Verifier accepted within {run.limits.max_turns} turns")
    try:
        for index in range(1, run.limits.max_turns + 1):
            if over := tally.over(run.limits, deadline):
                ending = _Ending(Status.BUDGET_EXHAUSTED, over, _OVER[over])
                break
            yield TurnStarted(index)
            player = TurnPlayer(run, transcript, index, deadline, tally, suggestion)
            async with aclosing(player.play()) as events:
                async for event in events:
                    yield event
                    if isinstance(event, TurnDone):
                        transcript = transcript.plus(event.turn)
            turn = transcript.turns[-1]
            suggestion = turn.suggestion
            if turn.verdict is not None:
                yield VerdictGiven(index, turn.verdict, turn.verdict_reason)
            if turn.verdict is Verdict.ACCEPT:
                ending = _Ending(Status.ACCEPTED)
                break
            if turn.role is Role.WORKER and (why := _why_unverifiable(run, transcript)):
                ending = _Ending(Status.UNVERIFIED, Reason.NO_VERIFIER, why)
                break
    except asyncio.CancelledError as error:
        cancelled = error
        ending = _Ending(Status.STOPPED, None, f"stopped by you after {_turns(len(transcript.turns))}")
    except DeadlineExceeded:
        ending = _Ending(Status.BUDGET_EXHAUSTED, Reason.SECONDS, _OVER[Reason.SECONDS])
    except BudgetExceeded as error:
        ending = _Ending(Status.BUDGET_EXHAUSTED, Reason.MONEY, str(error))
    except PoolEmpty as error:
        ending = _without_agents(run, transcript, str(error))
    except TrinityError as error:
        ending = _Ending(Status.FAILED, Reason.ERROR, str(error))
    except Exception:
        log.exception("question %s failed", run.id)
        ending = _Ending(Status.FAILED, Reason.ERROR, f"something broke inside; the log has the details ({run.id})")
    trace = _trace(run, transcript, tally, deadline, ending)
    yield Failed(trace) if trace.status is Status.FAILED else Finished(trace)
    if cancelled is not None:
        raise cancelled


async def stoppable(run: Run, stop: asyncio.Event) -> AsyncGenerator[Event, None]:
    """`coordinate`, ended by `stop`: the running call is cancelled, its text kept, and Finished(stopped) comes last.

    The loop runs in one task of its own, so that time-outs inside it see one task and closing this iterator
    cancels it.
    """
    events: asyncio.Queue[Event | None] = asyncio.Queue()

    async def pump() -> None:
        try:
            async for event in coordinate(run):
                events.put_nowait(event)
        finally:
            events.put_nowait(None)

    async def watch() -> None:
        await stop.wait()
        work.cancel()

    work = asyncio.create_task(pump())
    watcher = asyncio.create_task(watch())
    try:
        while (event := await events.get()) is not None:
            yield event
        with suppress(asyncio.CancelledError):
            await work
    finally:
        watcher.cancel()
        work.cancel()
        await asyncio.gather(work, watcher, return_exceptions=True)


def check_question(text: str) -> str:
    """The question, or QuestionInvalid in plain words: empty, over 32,000 characters, or not text."""
    if not any(char.isprintable() and not char.isspace() for char in text):  # zero-width marks are no question either
        raise QuestionInvalid("The question is empty; please type one.")
    if len(text) > QUESTION_CHARS:
        raise QuestionInvalid(f"The question has {len(text):,} characters; at most {QUESTION_CHARS:,} are taken.")
    if "\x00" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise QuestionInvalid("The question holds characters that are not text (NUL or half a character); remove them.")
    return text


NOBODY_CHECKS = "nobody in this pool can check this kind of answer"
_OVER = {
    Reason.SECONDS: "the time for this question is over",
    Reason.TOKENS: "the tokens for this question are used up",
    Reason.MONEY: "the money for this question is used up",
}


def _why_unverifiable(run: Run, transcript: Transcript) -> str:
    """Empty when some agent can judge the answer now, else why none can."""
    pairs = playable(transcript, run.pool.agents, run.pool.different_verifier)
    barred, judge = run.masked(), ROLES.index(Role.VERIFIER)
    judges = [agent.name for row, agent in enumerate(run.pool.agents) if pairs[row, judge]]
    if any(name not in barred for name in judges):
        return ""
    return "; ".join([NOBODY_CHECKS, *(f"{name}: {barred[name]}" for name in judges)])


def _without_agents(run: Run, transcript: Transcript, why: str) -> _Ending:
    """Nobody can take the turn: an answer stays, unverified; on the last turn, after others spoke, there is none."""
    if transcript.answer is not None:
        return _Ending(Status.UNVERIFIED, Reason.POOL_EMPTY, why)
    if len(transcript.turns) >= run.limits.max_turns - 1 > 0 and not transcript.turns[-1].error:
        return _Ending(Status.BUDGET_EXHAUSTED, Reason.NO_ANSWER, why)
    return _Ending(Status.FAILED, Reason.POOL_EMPTY, why)


def _turns(count: int) -> str:
    return f"{count} turn" if count == 1 else f"{count} turns"


def _trace(run: Run, transcript: Transcript, tally: Tally, deadline: Deadline, ending: _Ending) -> Trace:
    return Trace(
        id=run.id,
        question=transcript.question,
        history=transcript.history,
        turns=transcript.turns,
        answer=transcript.answer,
        status=ending.status,
        reason=ending.reason,
        note=ending.note,
        usage=tally.usage,
        cost_usd=tally.cost_usd,
        elapsed_s=run.limits.seconds - deadline.left(),
        checkpoint=run.policy.head.checkpoint.name,
        backbone=run.policy.backbone.name,
        protocol=run.policy.protocol,
        pool=run.pool.name,
        pool_version=run.pool.version,
    )
