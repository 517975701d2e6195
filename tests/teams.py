"""A team without a model, for tests: scripted agents, and a head that wants what the test says, turn by turn."""

from __future__ import annotations

import asyncio

import numpy as np

from core.backbone.fake import FakeBackbone
from core.calls.base import Account, DirectCaller
from core.coordinator import stoppable
from core.events import Failed, Finished
from core.policy import BoundHead, Policy
from core.pool import Pool
from core.run import Run
from core.transcript import protocol_id
from core.types import ROLES, Role


class ThreadReader:
    """Reads on a thread, as the real reader does."""

    def __init__(self, backbone):
        self.backbone = backbone

    async def hidden(self, rendered):
        return await asyncio.to_thread(self.backbone.hidden, rendered)

    def close(self):
        """Nothing to end."""


class WishingHead:
    """Stands in for a checkpoint: wants the given (agent, role) pairs in order, the last one for ever."""

    def __init__(self, names, wishes, strength=4.0):
        self.name = "wishes"
        self.protocol = protocol_id("paper")
        self.agents = tuple((name, f"scripted:{name}") for name in names)
        self.wishes = list(wishes)
        self.strength = strength
        self.asked = 0

    def logits(self, vector):
        """Logits that favour this turn's wish; a wish of None is a uniform head."""
        wish = self.wishes[min(self.asked, len(self.wishes) - 1)]
        self.asked += 1
        agents, roles = np.zeros(len(self.agents)), np.zeros(len(ROLES))
        if wish is not None:
            agents[[name for name, _ in self.agents].index(wish[0])] = self.strength
            roles[ROLES.index(Role(wish[1]))] = 1.5 * self.strength
        return agents, roles


def scripted_run(
    agents, wishes, question="What is 2+2?", *, caller=None, mode="argmax", different_verifier=False, **more
):
    """A Run over scripted agents."""
    backbone = FakeBackbone()
    names = [agent.name for agent in agents]
    head = BoundHead(WishingHead(names, wishes), tuple(range(len(names))), {})
    policy = Policy(ThreadReader(backbone), backbone, head, mode)
    pool = Pool("scripted", tuple(agents), different_verifier=different_verifier)
    return Run("q1", question, policy, pool, caller or DirectCaller(), Account("q1", 1.0), **more)


async def play(run, stop=None):
    """All events of a run; the last one carries the trace."""
    return [event async for event in stoppable(run, stop or asyncio.Event())]


async def trace_of(run, stop=None):
    """The trace of a run."""
    last = (await play(run, stop))[-1]
    assert isinstance(last, Finished | Failed)
    return last.trace
