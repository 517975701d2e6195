"""The page with what a fresh machine has: the real coordinator, the shipped head, the embedded pool, no key."""

import os
import sys

import pytest

from tests.e2e.conftest import Visitor, ask, cards, endings, free_port, running, wait_ended


@pytest.fixture(scope="module")
def real(tmp_path_factory, embedded_cache):
    folder, port = tmp_path_factory.mktemp("embedded"), free_port()
    env = {**os.environ, "TRINITY_DATA_DIR": str(folder / "data"), "TRINITY_CACHE_DIR": str(embedded_cache)}
    command = [sys.executable, "-m", "core.cli", "serve", "--port", str(port)]
    with running(command, port, folder / "server.log", env=env):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def fresh(browser, real):
    made = []

    def make(query="", **more):
        made.append(Visitor(browser, real, **more))
        return made[-1].open(query) if query else made[-1].page

    yield make
    for visitor in made:
        assert visitor.foreign == []
        visitor.close()


def answer(page, question):
    ask(page, question)
    wait_ended(page, timeout=60_000)
    return page.locator(".t-answer").text_content()


def test_a_sum_is_worked_out_and_accepted_by_the_exact_agent(fresh):
    page = fresh()
    assert "135M" in page.locator(".t-pool-note").text_content()
    assert "395" in answer(page, "What is 17*23+4?")
    assert "Accepted by sympy" in endings(page).text_content()
    workers = [n for n in range(cards(page).count()) if "Worker" in cards(page).nth(n).text_content()]
    assert "sympy" in cards(page).nth(workers[-1]).text_content()
    cards(page).first.locator("summary").first.click()
    page.locator(".t-bars").first.wait_for()
    names = page.locator(".t-bars").first.locator(".t-bar-name").all_text_contents()
    assert names == ["smollm2", "smollm2-steps", "sympy", "agreement", "python"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "number", "holds"),
    [("", 0, "Paris"), ("", 1, "395"), ("", 2, "3"), ("", 3, "Au"), ("?lang=zh", 0, "395"), ("?lang=zh", 1, "25"),
     ("?lang=zh", 2, "3"), ("?lang=zh", 3, "1024")],
)  # fmt: skip
def test_every_example_that_is_shown_is_answered_right_and_accepted(fresh, query, number, holds):
    page = fresh(query)
    question = page.locator(".t-example").nth(number).text_content()
    assert holds in answer(page, question)
    assert page.locator(".t-question").get_attribute("data-tone") == "ok", endings(page).text_content()
