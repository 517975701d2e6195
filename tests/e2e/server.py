"""The real server with a scripted team: `python tests/e2e/server.py FOLDER PORT [SECONDS_TO_LOAD]`."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import uvicorn

from core.runtime import prepare_environment

prepare_environment()

from core.store import open_store  # noqa: E402
from tests.e2e.scripted import SCRIPTS, ScriptedTeam  # noqa: E402
from tests.web_suite import settings_in  # noqa: E402
from webapp.app import create_app  # noqa: E402


def main() -> None:
    folder, port, load_s = Path(sys.argv[1]), int(sys.argv[2]), float((sys.argv[3:] or ["0"])[0])
    settings = settings_in(folder, port=port)
    team = ScriptedTeam(SCRIPTS)

    def loader(pool: str, checkpoint: str) -> ScriptedTeam:
        time.sleep(load_s)
        return team

    app = create_app(settings, open_store(settings.url), loader)
    # What the team saw, for tests that must know whether a stop reached it.
    app.router.routes.insert(0, _route("/test/stopped", lambda: {"stopped": team.stopped}))
    # No limits on how often: a browser test asks faster than a person.
    from webapp.limits import Buckets

    app.state.site.runs._by_owner = app.state.site.runs._by_address = Buckets(burst=10_000, refill_s=0.01)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", timeout_graceful_shutdown=1)


def _route(path, endpoint):
    from fastapi.routing import APIRoute

    return APIRoute(path, endpoint)


if __name__ == "__main__":
    main()
