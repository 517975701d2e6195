"""Sizes, themes, languages: nothing sticks out sideways, and axe finds nothing serious in our own markup."""

import pytest

from tests.e2e.conftest import ask, wait_ended

# Gradio's own parts cannot be mended from Python; ours can.
OURS = ["#top", "#history", "#chat", "#notice", "#timeline"]
MATRIX = [(w, t, lang) for w in (375, 768, 1280) for t in ("light", "dark") for lang in ("en", "zh")]


def look_at(visit, width, theme, lang):
    visitor = visit(width=width, height=760)
    return visitor.open(f"?__theme={theme}&lang={lang}")


def sideways(page):
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def findings(page):
    from axe_playwright_python.sync_playwright import Axe

    results = Axe().run(page, context={"include": [[part] for part in OURS]})
    serious = [v for v in results.response["violations"] if v["impact"] in ("critical", "serious")]
    return [f"{v['id']}: {node['html'][:160]} {node.get('failureSummary', '')}" for v in serious for node in v["nodes"]]


def check(page):
    assert sideways(page) <= 0
    assert findings(page) == []


def walk(visit, width, theme, lang):
    page = look_at(visit, width, theme, lang)
    check(page)
    ask(page, "rich please")
    wait_ended(page)
    page.locator(".t-card summary").first.click()
    page.locator(".t-card-body .t-bars").first.wait_for()
    page.wait_for_timeout(400)  # the cards' fade-in changes colours while it lasts
    check(page)
    ask(page, "dead please")
    wait_ended(page, 2)
    page.locator("#composer textarea").press("Enter")
    page.locator(".t-notice:visible").wait_for()
    page.wait_for_timeout(400)
    check(page)


def test_a_phone_in_the_dark_and_a_desk_in_the_light(visit):
    walk(visit, 375, "dark", "en")
    walk(visit, 1280, "light", "zh")


@pytest.mark.slow
@pytest.mark.parametrize(("width", "theme", "lang"), MATRIX)
def test_every_size_theme_and_language(visit, width, theme, lang):
    walk(visit, width, theme, lang)


def test_on_a_phone_the_history_is_a_drawer_and_the_timeline_lies_below(visit):
    page = look_at(visit, 375, "light", "en")
    ask(page, "What is 17*23+4?")
    wait_ended(page)
    assert not page.locator(".t-new").is_visible()
    page.evaluate("window.scrollTo(0, 200)")
    top, box = page.locator(".t-header").bounding_box(), page.locator("#composer textarea").bounding_box()
    assert top["y"] == 0 and box["y"] + box["height"] <= 760  # both stay in sight
    page.evaluate("window.scrollTo(0, 0)")
    chat, timeline = page.locator(".t-answer").bounding_box(), page.locator(".t-timeline").bounding_box()
    assert timeline["y"] > chat["y"]
    page.get_by_role("button", name="Conversations").click()
    page.locator(".t-new").wait_for()
    page.locator(".t-new").click()
    page.locator(".t-start:visible").wait_for()
    page.locator(".t-new").wait_for(state="hidden")


def test_the_theme_switch_is_remembered(visitor, page):
    dark = page.evaluate("document.body.classList.contains('dark')")
    page.get_by_role("button", name="Light or dark").click()
    assert page.evaluate("document.body.classList.contains('dark')") is not dark
    other = visitor.open()
    assert other.evaluate("document.body.classList.contains('dark')") is not dark
