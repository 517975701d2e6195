"""A model of one's own over HTTP: the llm agent on xllamacpp's OpenAI server, with the embedded weights."""

from __future__ import annotations

import secrets

import pytest

from core.agents.llm import LlmAgent, LlmOptions
from core.backbone.install import gguf_path
from core.calls.base import Account
from core.errors import AuthFailed
from core.runtime import prepare_environment
from core.settings import Secret
from core.types import Message, Role, Transcript
from tests.providers.rig import Request, ask, caller, open_book

KEY = secrets.token_urlsafe(24)


@pytest.fixture(scope="module")
def server(embedded_cache):
    prepare_environment()
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.n_parallel, params.n_ctx, params.verbosity = str(gguf_path(embedded_cache)), 1, 2048, -1
    params.cpuparams.n_threads, params.cpuparams.poll = 1, 0
    params.api_keys, params.cors_origins = [KEY], ""
    return xllamacpp.Server(params)


def agent(server, key=KEY) -> LlmAgent:
    options = LlmOptions(max_tokens=24, repetition_penalty=1.1)
    address = server.listening_address + "/v1"
    return LlmAgent("own", "openai/smollm2", api_base=address, key=Secret(key), free=True, options=options)


def question(text: str) -> Request:
    return Request(Role.WORKER, Transcript(text), (Message("user", text),), "", 0, 60.0)


async def test_it_answers_streams_and_counts(server, tmp_path):
    with open_book(tmp_path) as store:
        calls = caller(store, tmp_path)
        visitor = Account("q1", 0.0, public=True)  # free: open to visitors, within a cap of nothing
        what = question("What is the capital of France? Answer in a few words.")
        answer = await ask(calls, agent(server), what, seconds=90.0, account=visitor)
        calls.flush()
        total = store.spend.total()
    assert "Paris" in answer.text and answer.settled.done.cost_usd == 0.0
    assert total.completion_tokens == answer.settled.done.usage.completion_tokens > 0 and total.usd == 0.0


async def test_a_wrong_key_is_the_typed_error(server, tmp_path):
    with open_book(tmp_path) as store:
        wrong = "wrong-" + KEY
        with pytest.raises(AuthFailed) as caught:
            await ask(caller(store, tmp_path), agent(server, wrong), question("Hello?"), seconds=60.0)
    assert wrong not in str(caught.value)
