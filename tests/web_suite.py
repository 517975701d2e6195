"""What the tests of the web app share: settings in a temporary folder, a site with a scripted team, a fake request."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from core.settings import Settings
from core.store import open_store
from tests.e2e.scripted import SCRIPTS, ScriptedTeam
from webapp.site import Site


def settings_in(folder, **more):
    settings = Settings(data_dir=folder / "data", cache_dir=folder / "cache", pool="scripted")
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    return replace(settings, **more)


def site_in(folder, team=None, **more):
    settings = settings_in(folder, **more)
    team = team or ScriptedTeam(SCRIPTS)
    return Site.of(settings, open_store(settings.url), lambda pool, checkpoint: team)


def request(page="page-1", query=None, headers=None, host="127.0.0.1"):
    return SimpleNamespace(
        session_hash=page, query_params=query or {}, headers=headers or {}, client=SimpleNamespace(host=host)
    )
