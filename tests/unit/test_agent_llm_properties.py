"""Laws of the llm agent's text handling over any text: splitting, masking, reading what providers say."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from core.agents.llm_errors import MESSAGE_CHARS, parse_retry_after, provider_words, to_agent_error
from core.agents.think import ThinkSplitter
from core.errors import AgentError

TEXT = st.text(alphabet=st.sampled_from(list("<think>/ \nab")), max_size=60) | st.text(max_size=60)


def split(pieces) -> tuple[str, str]:
    splitter, told = ThinkSplitter(), []
    told = [splitter.feed(piece) for piece in pieces] + [splitter.end()]
    return "".join(piece.text for piece in told), "".join(piece.reasoning for piece in told)


@settings(max_examples=400, deadline=None)
@given(TEXT, st.lists(st.integers(0, 60), max_size=8))
def test_where_a_reply_is_cut_into_pieces_does_not_matter(text, cuts):
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[a:b] for a, b in pairwise(places)]
    assert split(pieces) == split([text])


@settings(max_examples=300, deadline=None)
@given(TEXT)
def test_no_text_is_lost_or_made_up(text):
    visible, reasoning = split([text])
    if text.lstrip().startswith("<think>"):
        rest = text.lstrip()[len("<think>") :]
        thought, closed, answer = rest.partition("</think>")
        assert (reasoning, visible) == (thought, answer.lstrip() if closed else "")
    else:
        assert (visible, reasoning) == (text, "")


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=400), st.text(max_size=400))
def test_a_key_never_survives_and_words_stay_short(before, after):
    key = "hunter2-0123456789"
    words = provider_words(f'{before}{key}{after} {{"message": "{key}"}}', [key])
    assert key not in words and len(words) <= MESSAGE_CHARS and "\n" not in words


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40))
def test_a_retry_after_is_a_finite_wait_or_nothing(value):
    wait = parse_retry_after(value)
    assert wait is None or 0.0 <= wait < float("inf")


class Odd(Exception):
    """An exception with any status and any words."""

    def __init__(self, words, status):
        super().__init__(words)
        self.status_code = status


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=80), st.none() | st.integers(-5, 999) | st.text(max_size=3), st.text(max_size=5))
def test_every_exception_becomes_an_agent_error(words, status, partial):
    error, _ = to_agent_error(Odd(words, status), who="alpha", partial=partial)
    assert isinstance(error, AgentError) and str(error).startswith("alpha")
