"""The backbone without weights behaves like one with weights, as far as its callers can tell."""

import subprocess
import sys

import numpy as np
import pytest

from core.backbone.base import Backbone, Rendered
from core.backbone.fake import FakeBackbone
from core.errors import QuestionInvalid
from core.types import Message

BACKBONE = FakeBackbone()


def said(*segments, plain=False):
    return Rendered("paper@1", () if plain else (Message("system", "Choose."),), segments, plain=plain)


def test_it_is_a_backbone():
    assert isinstance(BACKBONE, Backbone)
    state = BACKBONE.hidden(said("What is 2+2?"))
    assert state.vector.dtype == np.float32
    assert state.vector.shape == (BACKBONE.hidden_size,)
    assert (state.backbone, state.protocol, state.dtype) == ("fake", "paper@1", "float32")


def test_the_read_token_is_constant_and_the_last_word_counts():
    states = [BACKBONE.hidden(said(text)) for text in ("", "a b", "a c", "b a", "x" * 500)]
    assert len({(s.read_token.id, s.read_token.text) for s in states}) == 1
    assert len({s.vector.tobytes() for s in states}) == len(states)


def test_only_the_position_before_the_last_is_read():
    one, two = (BACKBONE.hidden(said(f"a b {last}", plain=True)) for last in "xy")
    assert np.array_equal(one.vector, two.vector)
    assert BACKBONE.hidden(said("a", plain=True)).read_token.index == 0


def test_a_batch_equals_single_reads_and_every_read_is_counted():
    backbone = FakeBackbone()
    texts = [said("one"), said("one", "\n\ntwo")]
    together = backbone.hidden_batch(texts)
    assert all(np.array_equal(a.vector, backbone.hidden(b).vector) for a, b in zip(together, texts, strict=True))
    assert backbone.reads == 4


def test_words_in_common_make_states_alike():
    def cosine(a, b):
        return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

    backbone = FakeBackbone(hidden_size=256)
    sums = [backbone.hidden(said(f"What is the sum of the numbers {n} and {n + 1}?")).vector for n in (3, 40)]
    poem = backbone.hidden(said("Write two lines about rain in spring, please, my dear old friend")).vector
    assert cosine(*sums) > cosine(sums[0], poem) + 0.05


def test_it_is_the_same_in_every_process():
    program = (
        "from core.backbone.fake import FakeBackbone; from core.backbone.base import Rendered;"
        "print(FakeBackbone().hidden(Rendered('p', (), ('a b c',), plain=True)).vector.tobytes().hex())"
    )
    runs = [subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True) for _ in "ab"]
    assert runs[0].stdout == runs[1].stdout
    assert runs[0].stdout.strip() == BACKBONE.hidden(Rendered("p", (), ("a b c",), plain=True)).vector.tobytes().hex()


def test_what_is_too_long_is_refused_with_both_numbers():
    with pytest.raises(QuestionInvalid, match=r"\d+ tokens.*at most 20"):
        FakeBackbone(context_length=20).hidden(said("word " * 30))
