"""The `llm` agent: any model that litellm can reach, streamed, with every failure as one of our errors.

Defaults are the paper's setting (section 4.1): minimal reasoning effort and 4,096 output tokens. One call is one
request: retries, budget and ledger are the caller's (core/calls).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from core.agents.base import Delta, Done, Request
from core.agents.capabilities import Capabilities, capabilities_of, refused_parameter
from core.agents.catalogue import split_model
from core.agents.llm_errors import to_agent_error
from core.agents.llm_library import library, library_async
from core.agents.llm_stream import Reply, read_stream
from core.agents.prices import FREE, Price, listed_price, prompt_bound
from core.errors import AgentAmbiguous, AgentError, AgentTransient, ContentRefused, EmptyReply
from core.runtime import without_secrets
from core.settings import Secret
from core.types import Message, Role, Transcript

if TYPE_CHECKING:
    from core.agents.base import Agent

CONNECT_S = 5.0
READ_IDLE_S = 60.0
MAX_TOKENS = 4096
_HALVES = re.compile("[\ud800-\udfff]")
KEYLESS = "none"  # sent where a server wants no key: without it litellm would send the environment's


@dataclass(frozen=True, slots=True)
class LlmOptions:
    """What a pool file may say about a model beside its id.

    `temperature` None leaves it to the provider. `reasoning_effort` overrides the least that the model takes.
    `thinking` switches the reasoning of open hybrid models (Qwen3) on or off. `roles` limits what it may play.
    """

    max_tokens: int = MAX_TOKENS
    temperature: float | None = 0.0
    reasoning_effort: str | None = None
    thinking: bool | None = None
    repetition_penalty: float | None = None
    roles: tuple[Role, ...] = (Role.THINKER, Role.WORKER, Role.VERIFIER)
    capabilities: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= self.max_tokens <= 1_000_000:
            raise ValueError(f"max_tokens must be between 1 and 1,000,000, got {self.max_tokens}")
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise ValueError(f"temperature must be between 0 and 2, got {self.temperature}")


class LlmAgent:
    """One model of one provider. `price` None means unknown: the caller then refuses to call it."""

    def __init__(
        self,
        name: str,
        model: str,
        *,
        prompt_style: str = "chat",
        api_base: str | None = None,
        key: Secret | None = None,
        key_name: str = "",
        free: bool = False,
        price: Price | None = None,
        options: LlmOptions = LlmOptions(),
        secrets: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.model = model
        self.prompt_style = prompt_style
        self.free = free
        self.options = options
        self.provider, _ = split_model(model)
        self.api_base = api_base
        # Calls to one provider, or to one server of one's own, share their limits.
        self.channel = api_base or self.provider
        self.price = FREE if free else price or listed_price(model)
        self.capabilities: Capabilities = capabilities_of(model, options.capabilities)
        self._key = key or Secret("")
        self._key_name = key_name
        self._secrets = (*secrets, self._key.reveal()) if self._key else secrets
        self._refused: set[str] = set()
        self._prepared = False
        self._lock = threading.Lock()
        self.fingerprint = self._fingerprint()

    def unusable(self) -> str | None:
        """See Agent.unusable."""
        if self._key or self.api_base or not self._key_name:
            return None
        return f"no key: set {self._key_name}"

    def can_play(self, role: Role, transcript: Transcript) -> str | None:
        """See Agent.can_play."""
        return None if role in self.options.roles else f"{self.name} is not used as a {role}"

    def warm(self) -> None:
        """See Agent.warm. Imports the library, which takes seconds."""
        with self._lock:
            if not self._prepared:
                self._drop_what_the_library_refuses()
                self._prepared = True

    async def prepare(self) -> None:
        """Find out which parameters litellm itself would refuse for this model, so that `asked` tells what is sent."""
        if self._prepared:
            return
        await asyncio.to_thread(self.warm)

    def _drop_what_the_library_refuses(self) -> None:
        utils = library().utils
        optional = {**self._optional(MAX_TOKENS), "extra_body": None}
        for _ in range(len(optional)):
            try:
                utils.get_optional_params(
                    model=split_model(self.model)[1], custom_llm_provider=self.provider, **optional
                )
                break
            except Exception as error:
                refused = refused_parameter(str(error))
                if refused is None or refused in self._refused:
                    break  # not about a parameter: the call itself will tell
                self._drop(refused)
                optional = {**self._optional(MAX_TOKENS), "extra_body": None}

    def asked(self, request: Request) -> dict[str, Any]:
        """Everything that determines the reply, as JSON data: the parameters as sent, without the key."""
        return {**self._params(request), "base": self.api_base or ""}

    def bound(self, request: Request) -> tuple[int, int]:
        """The most prompt and completion tokens that this request can be billed for."""
        return prompt_bound(request.messages), self._max_tokens(request)

    async def reply(self, request: Request) -> AsyncIterator[Delta | Done]:
        """See Agent.reply."""
        reply = Reply()
        try:
            await self.prepare()
            litellm = await library_async()
            stream = await litellm.acompletion(
                **self._params(request),
                api_base=self.api_base,
                api_key=self._key.reveal() or KEYLESS,
                stream=True,
                stream_options={"include_usage": True},
                max_retries=0,
                timeout=_timeout(request.timeout_s),
            )
            async with aclosing(read_stream(stream, reply, key=self._key.reveal())) as pieces:
                async for piece in pieces:
                    yield piece
        except AgentError:
            raise
        except Exception as error:
            if not reply.finish:
                raise self._typed(error, reply.text) from None  # the cause's text may hold the key
        yield self._done(reply, request)

    def _typed(self, error: Exception, partial: str) -> AgentError:
        typed, refused = to_agent_error(
            error, who=self.name, secrets=self._secrets, partial=partial, key_name=self._key_name
        )
        if refused and refused not in self._refused:
            self._drop(refused)
            return AgentTransient(f"{typed}; asked again without it", retry_after=0.0)
        return typed

    def _drop(self, refused: str) -> None:
        self._refused.add(refused)
        self.capabilities = self.capabilities.without(refused)

    def _done(self, reply: Reply, request: Request) -> Done:
        """The closing message, or the error that a reply without an answer is."""
        usage = reply.usage
        cost = self.price.of(usage, reply.cached_tokens) if usage and self.price else 0.0 if self.free else None
        if not reply.finish:
            raise AgentAmbiguous(
                f"{self.name} ended its reply without the closing message", partial=reply.text, cost_usd=None
            )
        if reply.finish == "content_filter":
            message = f"{self.name}: the provider's content filter stopped the reply"
            raise ContentRefused(message, partial=reply.text, cost_usd=cost)
        if not reply.text.strip():
            raise EmptyReply(self._why_empty(reply, request), cost_usd=cost)
        finish = "length" if reply.finish == "length" else "stop"
        return Done(finish, usage or Done().usage, cost, self._served(reply))

    def _served(self, reply: Reply) -> str | None:
        return without_secrets(reply.model, self._secrets) if reply.model else None

    def _why_empty(self, reply: Reply, request: Request) -> str:
        if reply.finish in ("tool_calls", "function_call"):
            return f"{self.name} asked for a tool that nobody offered instead of answering"
        if reply.finish == "length":
            return f"{self.name} used all its {self._max_tokens(request):,} tokens on reasoning; raise max_tokens"
        return f"{self.name} said nothing"

    def _max_tokens(self, request: Request) -> int:
        limits = (request.max_tokens, self.options.max_tokens, self.capabilities.max_output)
        return min(limit for limit in limits if limit is not None)

    def _params(self, request: Request) -> dict[str, Any]:
        messages = _messages(request.messages, self.capabilities.system_role)
        return {"model": self.model, "messages": messages, **self._optional(self._max_tokens(request))}

    def _optional(self, max_tokens: int) -> dict[str, Any]:
        able, options = self.capabilities, self.options
        params: dict[str, Any] = {able.max_tokens_name: max_tokens}
        if able.temperature and options.temperature is not None:
            params["temperature"] = options.temperature
        effort = options.reasoning_effort if "reasoning_effort" not in self._refused else None
        if effort or able.effort:
            params["reasoning_effort"] = effort or able.effort
        extra: dict[str, Any] = {}
        if options.thinking is not None:
            extra["chat_template_kwargs"] = {"enable_thinking": options.thinking}
            params.pop("reasoning_effort", None)
        if options.repetition_penalty is not None:
            extra["repetition_penalty"] = options.repetition_penalty
        return {**params, "extra_body": extra} if extra else params

    def _fingerprint(self) -> str:
        options = {**asdict(self.options), "capabilities": dict(self.options.capabilities)}
        what = [self.model, self.prompt_style, self.api_base or "", options]
        return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _timeout(seconds: float) -> Any:
    import httpx

    read = max(0.05, min(READ_IDLE_S, seconds))
    return httpx.Timeout(read, connect=min(CONNECT_S, read))


def _messages(messages: tuple[Message, ...], system_role: bool) -> list[dict[str, str]]:
    """Messages as the wire wants them. A model without a system role gets that text before the first user message."""
    # Half a character cannot be sent as UTF-8: it becomes the replacement character.
    plain = [{"role": m.role, "content": _HALVES.sub("\ufffd", m.content)} for m in messages]
    if system_role:
        return plain
    system = "\n\n".join(m["content"] for m in plain if m["role"] == "system")
    rest = [m for m in plain if m["role"] != "system"]
    if system and rest:
        rest[0] = {**rest[0], "content": f"{system}\n\n{rest[0]['content']}"}
    return rest or [{"role": "user", "content": system}]


if TYPE_CHECKING:
    _conforms: Agent = LlmAgent("", "")
