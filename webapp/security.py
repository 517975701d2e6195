"""What every request must pass and every reply carries: Host, Origin, size, and the security headers.

Escaping is the defence against script in model text (`webapp/prose.py`, `static/js/dom.js`); the content security
policy below keeps anything that slipped through from calling out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from core.settings import Settings

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
MAX_BODY = 8 * 1024 * 1024  # bytes; a question of 1 MB, escaped, still arrives and gets its own clear message
# Gradio's own ways to bring files in, fetch other addresses, sign in, or edit the app: no use for them here.
CLOSED_PATHS = (
    "/gradio_api/upload",
    "/gradio_api/proxy=",
    "/gradio_api/component_server",
    "/gradio_api/dev/",
    "/gradio_api/deep_link",
    "/gradio_api/vibe-",
    "/gradio_api/undo-vibe-",
    "/gradio_api/process_recording",
    "/gradio_api/run-history",
    "/monitoring",
)
_CLOSED_PAGES = re.compile(r"/(login|logout)(/.*)?")
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# Gradio compiles its component templates with `new Function`, hence unsafe-eval.
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'self'"
)
_SPACE_FRAMES = " https://huggingface.co https://*.hf.space"


@dataclass(frozen=True, slots=True)
class Door:
    """Which names this server answers to, and what it says about itself in headers."""

    hosts: frozenset[str]
    origins: frozenset[str]
    headers: tuple[tuple[bytes, bytes], ...]

    @classmethod
    def of(cls, settings: Settings) -> Door:
        """The door of these settings: loopback, the Space's host, and TRINITY_PUBLIC_URL."""
        hosts, origins = set(LOOPBACK), set()
        if settings.space_host:
            hosts.add(settings.space_host.lower())
            origins.add(f"https://{settings.space_host.lower()}")
        if settings.public_url:
            public = urlsplit(settings.public_url.lower())
            if public.hostname:  # without a scheme there is none, and an empty name would let a malformed Host in
                hosts.add(public.hostname)
                origins.add(f"{public.scheme}://{public.netloc}")
        return cls(frozenset(hosts), frozenset(origins), _headers(on_space=bool(settings.space_host)))

    def refuse_host(self, host: str) -> str | None:
        """None when `host` (with or without a port) is one of ours, else what to say."""
        name = _hostname(host)
        if name in self.hosts:
            return None
        return "This server does not answer to that name. Set TRINITY_PUBLIC_URL to the address people use."

    def refuse_origin(self, host: str, origin: str | None, fetch_site: str | None) -> str | None:
        """None when a request that changes something comes from our own page or from no browser at all."""
        if origin is None:
            return "A request from another site is refused." if fetch_site == "cross-site" else None
        parts = urlsplit(origin.lower())
        if origin.lower() in self.origins or (parts.scheme in ("http", "https") and parts.netloc == host.lower()):
            return None
        return "A request from another site is refused."


class Guard:
    """ASGI middleware around everything, Gradio included. Pure ASGI: streams pass through unbuffered."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self.app = app
        self.door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on with the headers added."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})  # nothing here speaks WebSocket
            return
        refusal = self._refusal(scope)
        if refusal:
            await _answer(send, *refusal, headers=self.door.headers)
            return
        await self.app(scope, _capped(receive), self._with_headers(send))

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        host = headers.get("host", "")
        if problem := self.door.refuse_host(host):
            return 421, problem
        if any(part in scope["path"] for part in CLOSED_PATHS) or _CLOSED_PAGES.fullmatch(scope["path"]):
            return 404, "Not found."
        if scope["method"] in _SAFE_METHODS:
            return None
        if problem := self.door.refuse_origin(host, headers.get("origin"), headers.get("sec-fetch-site")):
            return 403, problem
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MAX_BODY:
            return 413, f"The request is larger than {MAX_BODY // 2**20} MiB."
        return None

    def _with_headers(self, send: Send) -> Send:
        async def sender(message: Message) -> None:
            if message["type"] == "http.response.start":
                ours = {name for name, _ in self.door.headers}
                kept = [(k, v) for k, v in message.get("headers", []) if k.lower() not in ours]
                message = {**message, "headers": [*kept, *self.door.headers]}
            await send(message)

        return sender


def _capped(receive: Receive) -> Receive:
    """`receive` that ends the connection once a chunked body has grown past MAX_BODY."""
    seen = 0

    async def receiver() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        return {"type": "http.disconnect"} if seen > MAX_BODY else message

    return receiver


async def _answer(send: Send, status: int, text: str, headers: tuple[tuple[bytes, bytes], ...]) -> None:
    plain = (b"content-type", b"text/plain; charset=utf-8")
    await send({"type": "http.response.start", "status": status, "headers": [plain, *headers]})
    await send({"type": "http.response.body", "body": text.encode()})


def _hostname(host: str) -> str:
    """The name in a Host header, lower case, without the port; empty when it is malformed."""
    try:
        return (urlsplit(f"//{host}").hostname or "") if not set(host) & set("/@?#\\ ") else ""
    except ValueError:
        return ""


def _headers(*, on_space: bool) -> tuple[tuple[bytes, bytes], ...]:
    policy = _POLICY + (_SPACE_FRAMES if on_space else "")
    pairs = {
        "content-security-policy": policy,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
        "cross-origin-opener-policy": "same-origin",
    }
    if not on_space:  # the older header has no list of hosts and would break the Space's frame
        pairs["x-frame-options"] = "SAMEORIGIN"
    return tuple((name.encode(), value.encode()) for name, value in pairs.items())
