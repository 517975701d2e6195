"""Every way a provider can fail, as one of our errors: what to try again, what may have been billed, what to mask.

litellm's exception types say little (402 and 403 are a bare APIError, a cut stream is a 500, throttling and an
empty account are one type), so the classification reads the HTTP status, the causes and the provider's words.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from core.agents.capabilities import refused_parameter
from core.errors import (
    AgentAmbiguous,
    AgentError,
    AgentPermanent,
    AgentTransient,
    AuthFailed,
    ContentRefused,
    ModelUnknown,
    PromptTooLong,
    QuotaExhausted,
    Throttled,
)
from core.runtime import without_secrets

log = logging.getLogger(__name__)
MESSAGE_CHARS = 300

# Type names of causes, from httpx, aiohttp, openai and litellm alike. Before a connection nothing was billed;
# after it, anything that breaks may have been.
_NOT_CONNECTED = frozenset(
    [
        "ConnectError",
        "ConnectTimeout",
        "ClientConnectorError",
        "ClientConnectorDNSError",
        "ConnectionTimeoutError",
        "ConnectionRefusedError",
        "gaierror",
        "PoolTimeout",
    ]
)
_TIMED_OUT = frozenset(["Timeout", "ReadTimeout", "APITimeoutError", "SocketTimeoutError", "TimeoutError"])
_BROKEN_OFF = _TIMED_OUT | frozenset(
    [
        "ReadError",
        "WriteError",
        "RemoteProtocolError",
        "ClientPayloadError",
        "ServerDisconnectedError",
        "ClientOSError",
        "ConnectionResetError",
        "BrokenPipeError",
        "TransferEncodingError",
        "JSONDecodeError",
        "ValidationError",
        "UnicodeDecodeError",
        "APIConnectionError",
        "APIResponseValidationError",
        "MidStreamFallbackError",
    ]
)
_QUOTA = re.compile(
    r"insufficient_quota|insufficient (?:balance|credit|funds)|credit balance is too low|exceeded your current quota|"
    r"billing_hard_limit|payment required|out of credits",
    re.IGNORECASE,
)
_THROTTLE_HINT = re.compile(r"retrydelay|retry in|per.?minute|rate.?limit", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"context_length_exceeded|maximum context length|context window|prompt is too long|input is too long|"
    r"exceeds the maximum number of (?:input )?tokens|input token count|too many (?:input )?tokens|"
    r"exceeds? the (?:available )?context size|reduce the length",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"content[_ ]filter|content management policy|content[_ ]policy|flagged|prohibited_content|blocked by .*safety|"
    r"safety (?:system|settings|filter)|usage policies",
    re.IGNORECASE,
)
_PREFIXES = re.compile(r"^(?:litellm\.\w+:\s+|\w+(?:Error|Exception):\s+|\w+(?:Exception|Error)(?: \w+)? - )+")
_TAILS = ("Traceback (most recent call last)", " Original exception: ", ". Handle with `", " Error_str: ")


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong, stripped of the library: causes' type names, HTTP status, words, and the wait asked for."""

    kinds: frozenset[str]
    status: int | None
    words: str
    retry_after: float | None

    @classmethod
    def of(cls, error: BaseException, secrets: Iterable[str]) -> Failure:
        """Read an exception and all its causes."""
        chain = list(_chain(error))
        return cls(
            frozenset(type(cause).__name__ for cause in chain),
            _status(chain),
            provider_words(str(error), secrets),
            next((wait for cause in chain if (wait := _retry_after(cause)) is not None), None),
        )


def to_agent_error(
    error: BaseException, *, who: str, secrets: Iterable[str] = (), partial: str = "", key_name: str = ""
) -> tuple[AgentError, str | None]:
    """The typed error, and the parameter that the provider refused, if that was the trouble.

    `partial` is the text that had arrived: with it, even an "overloaded" may have been billed. `key_name` is the
    variable that holds the key: a refused key is named by it, never in the provider's words, which may repeat it.
    """
    secrets = tuple(secrets)
    failure = Failure.of(error, secrets)
    status, words, kinds = failure.status, failure.words, failure.kinds
    if kinds & _NOT_CONNECTED and not partial:
        return AgentTransient(f"{who} cannot be reached ({words})"), None
    if found := _known_trouble(who, failure, partial, key_name):
        return found, None
    if status is not None and 300 <= status < 400:
        return AgentPermanent(f"{who}: its address redirects elsewhere ({status}), which is not followed"), None
    refused = refused_parameter(words) if status in (400, 422) or "UnsupportedParamsError" in kinds else None
    if refused:
        return AgentPermanent(f"{who} does not take {refused}: {words}", partial=partial), refused
    if status is not None and 400 <= status < 500 and status not in (408, 425, 429):
        return AgentPermanent(f"{who} refused the request ({status}): {words}", partial=partial), None
    if status in (425, 429, 503, 529) and not partial:
        if status == 429:
            return Throttled(f"{who} is throttling (429): {words}", retry_after=failure.retry_after), None
        return AgentTransient(f"{who} is overloaded ({status}): {words}", retry_after=failure.retry_after), None
    if status is not None or kinds & _BROKEN_OFF:
        return _ambiguous(who, failure, partial), None
    log.error("unclassified failure of %s: %s: %s", who, type(error).__name__, words)
    return AgentPermanent(f"{who} failed ({type(error).__name__}): {words}", partial=partial), None


def _known_trouble(who: str, failure: Failure, partial: str, key_name: str) -> AgentError | None:
    status, words = failure.status, failure.words
    throttled = status == 429 and (failure.retry_after is not None or _THROTTLE_HINT.search(words))
    if status == 402 or (status in (400, 403, 429) and _QUOTA.search(words) and not throttled):
        return QuotaExhausted(f"{who}: the account has no credit left ({words})", partial=partial)
    if status in (401, 403):
        key = f"the key {key_name}" if key_name else "the key"
        return AuthFailed(f"{who} does not accept {key}, or it may not use this model ({status}); check that key")
    if status == 404:
        return ModelUnknown(f"{who} does not know this model ({words})")
    if status == 413 or "ContextWindowExceededError" in failure.kinds or (status == 400 and _TOO_LONG.search(words)):
        return PromptTooLong(f"{who}: the conversation does not fit this model ({words})")
    if status in (400, 403, 422) and ("ContentPolicyViolationError" in failure.kinds or _FILTERED.search(words)):
        return ContentRefused(f"{who}: the provider's content filter stopped it ({words})", partial=partial)
    return None


def _ambiguous(who: str, failure: Failure, partial: str) -> AgentAmbiguous:
    if failure.kinds & _TIMED_OUT:
        what = "stopped answering" if partial else "did not answer in time"
    elif partial:
        what = "broke off in the middle of its reply"
    else:
        what = "failed"
    number = f" ({failure.status})" if failure.status and failure.status != 408 and not partial else ""
    return AgentAmbiguous(
        f"{who} {what}{number}: {failure.words}", partial=partial, retry_after=failure.retry_after, cost_usd=None
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen and len(seen) < 12:
        seen.add(id(current))
        yield current
        inner = getattr(current, "original_exception", None)
        current = inner if isinstance(inner, BaseException) else current.__cause__ or current.__context__


def _status(chain: list[BaseException]) -> int | None:
    """The status that came over the wire; where none did, the one the library gave the failure."""
    for cause in reversed(chain):
        status = getattr(getattr(cause, "response", None), "status_code", None)
        if type(cause).__name__ == "HTTPStatusError" and isinstance(status, int):
            return status
    numbers = (getattr(cause, "status_code", None) for cause in chain)
    return next((number for number in numbers if isinstance(number, int) and number >= 400), None)


def _retry_after(cause: BaseException) -> float | None:
    for headers in (
        getattr(getattr(cause, "response", None), "headers", None),
        getattr(cause, "litellm_response_headers", None),
        getattr(cause, "headers", None),
    ):
        value = headers.get("retry-after") if headers is not None and hasattr(headers, "get") else None
        if value is not None:
            return parse_retry_after(str(value))
    return None


def parse_retry_after(value: str, now: float | None = None) -> float | None:
    """Seconds to wait: a Retry-After header holds a number of seconds or an HTTP date. None when it is neither."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - (time.time() if now is None else now)
        except (ValueError, TypeError, OverflowError):
            return None
    return max(0.0, seconds) if seconds < float("inf") else None  # also drops nan


def provider_words(text: str, secrets: Iterable[str] = ()) -> str:
    """The provider's own sentence out of a library's message: short, on one line, without keys."""
    secrets = tuple(secrets)
    text = without_secrets(text, secrets)
    if re.search(r"<!doctype html|<html", text, re.IGNORECASE):
        return "it sent a web page instead of an answer"
    found = re.search(r'"message":\s*("(?:[^"\\]|\\.)*")', text)
    if found:
        try:
            text = str(json.loads(found[1], strict=False))
        except ValueError:
            text = found[1]
    for tail in _TAILS:
        text = text.split(tail, 1)[0]
    text = _PREFIXES.sub("", text)
    text = text.replace("\\n", " ").replace("\\'", "'")  # what the repr of a body leaves behind
    text = "".join(char if char.isprintable() else " " for char in text)
    text = without_secrets(text, secrets)  # again: what the decoding and joining have brought together
    text = " ".join(text.split()).strip("\"' ") or "no reason given"
    return text if len(text) <= MESSAGE_CHARS else text[: MESSAGE_CHARS - 1] + "…"
