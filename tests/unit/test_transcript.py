"""What the coordinator model reads: wording, growth, cutting to fit."""

from dataclasses import replace

import pytest

from core.backbone.fake import FakeBackbone
from core.errors import ConfigError
from core.transcript import PROTOCOLS, protocol_id, render, render_messages
from core.transcript.fit import cut
from core.types import Message, Role, Transcript, Turn

BACKBONE = FakeBackbone()

# A head is bound to the wording it was trained on. Whoever changes a wording also raises its version.
PINNED = {
    "paper": "paper@1:be7d55f75eaa",
    "authors": "authors@1:8604ee97d5f4",
    "fixture": "fixture@1:a5a2d6395769",
}


def turn(index, role, text, slot=1):
    return Turn(index=index, role=Role(role), agent="an-agent-name", slot=slot, model="a-model-name", text=text)


THREE = Transcript(
    "What is 6 * 7?",
    (turn(1, "thinker", "Multiply.", 2), turn(2, "worker", "42", 3), turn(3, "verifier", "Right.\nVERDICT: ACCEPT", 1)),
)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_wording_is_pinned_to_its_version(name):
    assert protocol_id(name) == PINNED[name]
    assert protocol_id(PINNED[name]) == PINNED[name]


@pytest.mark.parametrize("name", ["nothing", "paper@1:000000000000", ""])
def test_unknown_protocol_or_other_wording_is_refused(name):
    with pytest.raises(ConfigError):
        protocol_id(name)


def test_paper_protocol_names_turn_role_and_slot_only():
    rendered = render("paper", THREE, BACKBONE)
    assert rendered.segments == (
        "What is 6 * 7?",
        "\n\nTurn 1, Thinker, agent 2\nMultiply.",
        "\n\nTurn 2, Worker, agent 3\n42",
        "\n\nTurn 3, Verifier, agent 1\nRight.\nVERDICT: ACCEPT",
    )
    assert [m.role for m in rendered.messages] == ["system"]
    assert "an-agent-name" not in str(rendered)
    assert "a-model-name" not in str(rendered)
    assert not rendered.truncated


def test_authors_protocol_shows_worker_texts_only():
    rendered = render("authors", THREE.plus(turn(4, "worker", "it is 42")), BACKBONE)
    assert rendered.segments == (
        "What is 6 * 7?",
        "\n\nReference thought 1:\n42",
        "\n\nReference thought 2:\nit is 42",
    )


def test_fixture_protocol_is_raw_lines_in_one_segment():
    rendered = render("fixture", replace(THREE, history=(Message("system", "Route."),)), BACKBONE)
    assert rendered.plain
    assert rendered.messages == ()
    assert rendered.segments == (
        "system: Route.\nuser: What is 6 * 7?\nassistant: Multiply.\nassistant: 42\nassistant: Right.\nVERDICT: ACCEPT",
    )
    messages = [Message("user", "a"), Message("assistant", "b\nuser: c")]
    assert render_messages(messages, BACKBONE).segments == ("user: a\nassistant: b\n| user: c",)


def test_history_comes_before_the_question_as_ordinary_messages():
    history = (Message("user", "Hello"), Message("assistant", "Hi"))
    rendered = render("paper", replace(THREE, history=history), BACKBONE)
    assert rendered.messages[1:] == history
    assert rendered.segments == render("paper", THREE, BACKBONE).segments


def test_a_turn_without_text_is_still_a_turn():
    rendered = render("paper", Transcript("q", (turn(1, "worker", ""),)), BACKBONE)
    assert rendered.segments[1] == "\n\nTurn 1, Worker, agent 1\n(no reply)"


@pytest.mark.parametrize("name", ["paper", "authors"])
def test_growing_by_a_turn_leaves_all_earlier_segments(name):
    transcript = Transcript("word " * 300, history=(Message("user", "x " * 4000), Message("assistant", "y " * 4000)))
    before = render(name, transcript, BACKBONE)
    for index in range(1, 6):
        transcript = transcript.plus(turn(index, "worker", f"text {index} " * 400 * index))
        after = render(name, transcript, FakeBackbone(context_length=40_000))
        assert after.messages == before.messages
        assert after.segments[: len(before.segments)] == before.segments
        assert len(after.segments) == len(before.segments) + 1
        assert not after.truncated
        before = after


def test_one_turn_is_capped_head_and_tail():
    rendered = render("paper", Transcript("q", (turn(1, "worker", "first " + "word " * 5000 + "last"),)), BACKBONE)
    block = rendered.segments[1]
    assert BACKBONE.count_tokens(block) <= 1500 + 20
    assert block.startswith("\n\nTurn 1, Worker, agent 1\nfirst ")
    assert block.endswith("last")
    assert block.count("characters left out") == 1
    assert not rendered.truncated  # the cap is how a turn is always shown, not a lack of room


@pytest.mark.parametrize("context", [360, 500, 1000, 4000])
@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_full_context_keeps_question_and_newest_turn(name, context):
    backbone = FakeBackbone(context_length=context)
    turns = tuple(turn(n, "worker", f"begin{n} " + "word " * 900 + f"end{n}") for n in range(1, 12))
    history = tuple(Message("user" if n % 2 == 0 else "assistant", f"old{n} " * 50) for n in range(20))
    transcript = Transcript("firstword " + "why " * 40 + "lastword", turns, history)
    rendered = render(name, transcript, backbone)
    text = "".join(m.content for m in rendered.messages) + "".join(rendered.segments)
    assert rendered.truncated
    assert len(backbone.tokens(rendered)) <= context
    assert "firstword" in text
    assert "lastword" in text
    assert "end11" in text
    assert "begin1 " not in text
    assert "left out" in text
    assert backbone.hidden(rendered).truncated


def test_an_endless_question_keeps_both_ends_and_leaves_room_for_turns():
    backbone = FakeBackbone(context_length=600)
    transcript = Transcript("firstword " + "why " * 100_000 + "lastword")
    alone = render("paper", transcript, backbone)
    both = render("paper", transcript.plus(turn(1, "worker", "answer")), backbone)
    assert alone.truncated
    assert alone.segments[0] == both.segments[0]
    assert alone.segments[0].startswith("firstword")
    assert alone.segments[0].endswith("lastword")
    assert both.segments[1].endswith("answer")


def test_oldest_messages_go_first_and_an_answer_never_opens():
    history = tuple(Message("user" if n % 2 == 0 else "assistant", f"m{n} " + "word " * 30) for n in range(30))
    rendered = render("paper", Transcript("q", history=history), FakeBackbone(context_length=700))
    kept = rendered.messages[1:]
    assert 0 < len(kept) < 30
    assert kept == history[-len(kept) :]
    assert kept[0].role == "user"
    assert rendered.truncated


def test_many_short_messages_fit_with_what_the_template_puts_around_them():
    backbone = FakeBackbone(context_length=2000)
    history = tuple(Message("user" if n % 2 == 0 else "assistant", "hm") for n in range(3000))
    rendered = render("paper", Transcript("q", history=history), backbone)
    assert rendered.truncated
    assert 1000 < len(backbone.tokens(rendered)) <= 2000


def test_a_context_too_short_for_anything_says_so():
    with pytest.raises(ConfigError, match="holds 50 tokens"):
        render("paper", Transcript("q"), FakeBackbone(context_length=50))


def test_rendering_needs_no_count_of_the_whole_of_a_huge_text():
    counted = []

    def count(text):
        counted.append(len(text))
        return BACKBONE.count_tokens(text)

    cut("word " * 1_000_000, 1500, count)
    assert sum(counted) < 500_000


@pytest.mark.parametrize("limit", [0, 1, 10, 24, 25, 100, 999])
def test_cut_keeps_to_its_limit(limit):
    text = "".join(f"w{n} " for n in range(1000))
    short, tokens = cut(text, limit, BACKBONE.count_tokens)
    assert BACKBONE.count_tokens(short) <= tokens <= max(limit, 24)
    assert limit < 100 or tokens > limit - 30  # and uses it
    assert cut("short", 100, BACKBONE.count_tokens) == ("short", 1)
    assert cut(text, None, BACKBONE.count_tokens) == (text, BACKBONE.count_tokens(text))


def test_cutting_counts_little_where_a_text_is_uneven():
    counted = []

    def count(text):
        counted.append(len(text))
        return BACKBONE.count_tokens(text)

    text = "long" * 2_000 + " . , " * 20_000 + "words and more " * 5_000
    short, tokens = cut(text, 1500, count)
    assert tokens <= 1500
    assert len(counted) <= 40
    assert short.endswith("words and more ")
