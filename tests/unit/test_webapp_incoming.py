"""What a request may hold, made harmless at the handlers' edge."""

import pytest

from webapp.pages.incoming import MAX_WORD, action, language, word


@pytest.mark.parametrize("given", [None, 7, [], {"a": 1}, True])
def test_what_is_no_text_is_an_empty_word(given):
    assert word(given) == "" and language(given) == "en" and action(given if given != {"a": 1} else 7) == {}


def test_words_can_be_stored_and_sent():
    assert word("abc-_1") == "abc-_1" and language("zh") == "zh"
    assert word("a\ud83db\x00") == "a\ufffdb\ufffd" and len(word("x" * 10_000)) == MAX_WORD
    assert language("\ud83d") == language("xx") == "en"
    assert action({"action": "rename", "title": "a\ud83d", "id": None, "n": 3}) == {
        "action": "rename",
        "title": "a\ufffd",
    }
