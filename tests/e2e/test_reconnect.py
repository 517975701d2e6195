"""The server goes away in the middle of a question and comes back: the page finds its way by itself."""

import sys

import pytest

from tests.e2e.conftest import Visitor, ask, free_port, running, wait_ended


@pytest.mark.slow
def test_a_restart_leaves_an_interrupted_question_and_what_was_typed(browser, tmp_path):
    port = free_port()
    command = [sys.executable, "-m", "tests.e2e.server", str(tmp_path), str(port)]
    with running(command, port, tmp_path / "first.log") as server:
        visitor = Visitor(browser, f"http://127.0.0.1:{port}")
        page = visitor.page
        ask(page, "slow please")
        page.wait_for_function("document.querySelector('.t-answer')?.textContent.includes('word5')")
        page.locator("#composer textarea").fill("my next question")
        server.kill()
    page.locator(".t-banner", has_text="reconnecting").wait_for(timeout=30_000)
    with running(command, port, tmp_path / "second.log"):
        page.locator(".t-ending", has_text="Interrupted").wait_for(timeout=30_000)
        assert page.locator(".t-asked").text_content() == "slow please"
        assert page.locator(".t-card").count() == 1  # the turn that was complete was kept
        page.wait_for_function("document.querySelector('#composer textarea').value === 'my next question'")
        ask(page, "What is 17*23+4?")
        wait_ended(page, 2)
        visitor.close()
