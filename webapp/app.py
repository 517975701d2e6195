"""The web app: FastAPI with its own routes first, Gradio mounted last, one guard around both."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, HTTPException
from fastapi.responses import JSONResponse
from starlette.staticfiles import StaticFiles

from core.assets import STATIC
from webapp.security import Door, Guard
from webapp.site import Site, is_public

if TYPE_CHECKING:
    from core.settings import Settings
    from core.store import Store
    from webapp.teams import Loader

log = logging.getLogger(__name__)

PUBLIC_FOLDERS = ("css", "js", "icons")  # of static/; the checkpoints beside them are not served
QUEUE = 512  # open event streams; a question itself does not need one


def create_app(settings: Settings, store: Store, loader: Loader) -> FastAPI:
    """The whole server for these settings, with `loader(pool, checkpoint)` to make its teams."""
    site = Site.of(settings, store, loader)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await site.open()
        yield
        await site.close()

    app = FastAPI(title="Trinity", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.state.site = site
    app.add_middleware(Guard, door=Door.of(settings))
    app.add_api_route("/healthz", lambda: _health(site), methods=["GET"])
    for folder in PUBLIC_FOLDERS:
        app.mount(f"/trinity/{folder}", StaticFiles(directory=STATIC / folder), name=folder)
    from webapp.pages.share import add_share_routes

    add_share_routes(app, site)
    return _mount_pages(app, site)


def pages_of(app: FastAPI) -> Any:
    """The `gr.Blocks` of an app made here."""
    return app.state.pages


class Functions(dict[int, Any]):
    """The page's functions by number. A number that a request made up is 404, not a KeyError with its traceback."""

    def __missing__(self, number: int) -> Any:
        raise HTTPException(404, "There is no such function on this page.")


def _health(site: Site) -> JSONResponse:
    """Alive, and how far the team is: what a container's health check asks."""
    state = site.teams.state()
    message = "" if is_public(site.settings) else state.message  # it may name folders of this machine
    return JSONResponse({"status": "ok", "team": state.kind, "message": message})


def head() -> str:
    """What goes into the page's head: the style sheet, by content so that a new version is fetched."""
    version = hashlib.sha256((STATIC / "css" / "trinity.css").read_bytes()).hexdigest()[:12]
    return (
        f'<link rel="stylesheet" href="trinity/css/trinity.css?v={version}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1, interactive-widget=resizes-content">'
    )


def _mount_pages(app: FastAPI, site: Site) -> FastAPI:
    import gradio as gr

    from webapp.pages.chat import ChatPage
    from webapp.theme import trinity_theme

    with gr.Blocks(title="TRINITY", analytics_enabled=False, fill_height=True, fill_width=True) as pages:
        ChatPage(site, pages)
    pages.default_config.fns = Functions(pages.default_config.fns)
    app.state.pages = pages
    pages.queue(default_concurrency_limit=None, max_size=QUEUE, api_open=False)
    more: dict[str, Any] = {
        "theme": trinity_theme(),
        "head": head(),
        "favicon_path": str(STATIC / "icons" / "icon.png"),
    }
    gr.mount_gradio_app(
        app,
        pages,
        path="/",
        footer_links=[],
        run_history=False,
        show_error=False,
        enable_monitoring=False,
        ssr_mode=False,
        pwa=False,
        mcp_server=False,
        blocked_paths=[str(site.settings.data_dir), str(site.settings.cache_dir)],
        max_file_size=1,
        app_kwargs={"docs_url": None, "redoc_url": None, "openapi_url": None},
        **more,
    )
    return app
