"""One server and one browser for all browser tests; a fresh visitor for each."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM_ARGS = ["--no-sandbox", "--headless", "--disable-gpu", "--disable-background-networking"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def running(command, port, log, env=None):
    """A server process until it answers; ended at the end."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, cwd=log.parent, env=env)
    try:
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2):
                break
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    folder, port = tmp_path_factory.mktemp("e2e"), free_port()
    command = [sys.executable, "-m", "tests.e2e.server", str(folder), str(port)]
    with running(command, port, folder / "server.log"):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="session")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        from tests.conftest import missing

        missing("chromium (apt-get install chromium)")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_ARGS)
        yield browser
        browser.close()


class Visitor:
    """One person at the page: a browser context of its own, with everything it complained about."""

    def __init__(self, browser, base, width=1280, height=800, **more):
        self.base = base
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, accept_downloads=True, **({"locale": "en-GB"} | more)
        )
        self.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=base)
        self.errors, self.foreign = [], []
        self.page = self.open()

    def open(self, query=""):
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        page.on("request", lambda r: None if self._ours(r.url) else self.foreign.append(r.url))
        page.goto(f"{self.base}/{query}")
        ready(page)
        return page

    def _ours(self, url):
        return url.startswith((self.base, "data:", "blob:"))

    def close(self):
        self.context.close()


def ready(page):
    """Wait until the page's own load event has drawn it: listeners are live from then on."""
    page.wait_for_function("document.querySelector('.t-team')?.dataset.state === 'ready'", timeout=60_000)
    page.wait_for_function(
        "[...document.querySelectorAll('.t-example, .t-question, .t-banner')].some(n => n.offsetParent)", timeout=20_000
    )


@pytest.fixture
def visit(browser, server):
    made = []

    def make(**more):
        made.append(Visitor(browser, server, **more))
        return made[-1]

    yield make
    for visitor in made:
        visitor.close()


@pytest.fixture
def visitor(visit):
    return visit()


@pytest.fixture
def page(visitor):
    return visitor.page


def ask(page, text):
    box = page.locator("#composer textarea")
    box.fill(text)
    box.press("Enter")


def endings(page):
    return page.locator(".t-question .t-ending:visible")


def wait_ended(page, count=1, timeout=20_000):
    page.wait_for_function(
        "n => [...document.querySelectorAll('.t-ending')].filter(e => e.offsetParent).length >= n",
        arg=count, timeout=timeout,
    )  # fmt: skip
    page.locator("#composer .submit-button").wait_for(timeout=5_000)


def cards(page):
    return page.locator(".t-card")


def numbers(text):
    return [float(part.replace(",", "")) for part in re.findall(r"\$?([\d.,]*\d)", text)]
