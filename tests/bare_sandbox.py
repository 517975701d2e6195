"""A back end that confines nothing, so that the attack tests can be seen to fail when isolation is switched off."""

import contextlib
import os
import signal
from dataclasses import replace

import pytest

from core.errors import SandboxUnavailable
from core.sandbox import open_sandbox
from core.sandbox.attacks import survivors
from core.sandbox.interpreter import find_interpreter
from core.sandbox.probe import BACKENDS
from core.sandbox.process import Process
from core.sandbox.runner import Runner
from core.sandbox.scratch import make_scratch, remove_scratch
from tests.conftest import missing


class BareSandbox(Runner):
    """The same process handling without limits, without another user, with this process's environment."""

    name = "bare"

    def __init__(self):
        self.tokens = []

    def start(self, program, limits, *, channel=False, stop=None):
        folder = make_scratch(None)
        job = {
            "uid": 0,
            "folder": folder,
            "environment": dict(os.environ),
            "rlimits": [],
            "filter": b"",
            "packages": "",
            "program": program.encode(),
        }
        loose = replace(limits, wall_s=limits.wall_s * 4, output_bytes=50_000_000)
        process = Process(
            [find_interpreter().executable],
            job,
            loose,
            channel=channel,
            stop=stop,
            cleanup=lambda: remove_scratch(folder),
            environ=dict(os.environ),
        )
        self.tokens.append(process.token)
        return process

    def clean(self):
        """End what the attacks left behind: processes of this object only, known by their random token."""
        for token in self.tokens:
            for pid in survivors(token):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture
def bare():
    """A sandbox that is none, cleaned up after."""
    sandbox = BareSandbox()
    yield sandbox
    sandbox.clean()


@pytest.fixture(params=list(BACKENDS))
def sandbox(request):
    """Each back end of this machine; one that is missing is a counted skip here and a failure in CI."""
    try:
        return open_sandbox(request.param)
    except SandboxUnavailable as error:
        missing(f"sandbox {request.param} ({error})")
