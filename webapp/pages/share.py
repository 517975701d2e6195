"""Shared conversations: read-only pages behind a random, revocable link, outside Gradio and out of search engines."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from core.assets import STATIC
from core.errors import NotOwner, StoreError
from webapp.asked import from_store
from webapp.i18n import choose_language, say
from webapp.timeline import timeline
from webapp.view import chat

if TYPE_CHECKING:
    from webapp.site import Site

_HEADERS = {"X-Robots-Tag": "noindex, nofollow", "Cache-Control": "no-store"}


def add_share_routes(app: FastAPI, site: Site) -> None:
    """`/s/{token}` is the page, `/s/{token}/data` its JSON, `/strings.js` the words of both languages."""

    async def page(token: str) -> Response:
        # The page is the same for every token; its data says whether the link works.
        html = (STATIC / "share.html").read_text(encoding="utf-8")
        return HTMLResponse(html, headers=_HEADERS)

    async def data(token: str, request: Request) -> Response:
        lang = choose_language(request.query_params.get("lang"), None, request.headers.get("accept-language", ""))
        try:
            found = await asyncio.to_thread(site.store.shares.open, token)
        except NotOwner:
            return JSONResponse({"lang": lang, "gone": say(lang, "shared_gone")}, 404, _HEADERS)
        except StoreError as error:
            return JSONResponse(
                {"lang": lang, "gone": say(lang, "banner_store", why=site.names.told(str(error)))}, 503, _HEADERS
            )
        latest = {question.position: question for question in found.questions}
        asked = [from_store(question) for question in latest.values()]
        return JSONResponse(
            {
                "lang": lang,
                "title": found.title,
                "chat": chat(lang, "", [(f"q{n}", one) for n, one in enumerate(asked)]),
                "timelines": [timeline(one, lang, f"q{n}") for n, one in enumerate(asked)],
            },
            headers=_HEADERS,
        )

    async def strings() -> Response:
        from webapp.pages.chat import strings_js

        return Response(strings_js(), media_type="text/javascript; charset=utf-8")

    app.add_api_route("/s/{token}", page, methods=["GET"], include_in_schema=False)
    app.add_api_route("/s/{token}/data", data, methods=["GET"], include_in_schema=False)
    app.add_api_route("/strings.js", strings, methods=["GET"], include_in_schema=False)
