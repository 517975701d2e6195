"""Chat templates around open user text, and what a model without one gets."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from core.backbone import shapes
from core.backbone.base import Rendered
from core.backbone.text import ChatText, load_text
from core.errors import ConfigError
from core.types import Message

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
QUESTION = Message("user", "earlier question")
ANSWER = Message("assistant", "earlier answer")
TEXT = shapes.byte_text()


def text_with(template: str | None) -> ChatText:
    return ChatText(Tokenizer.from_str(TEXT._tokenizer.to_str()), template, {"bos_token": "<|im_start|>"})


def shown(text: ChatText, rendered: Rendered) -> str:
    tokens = text.tokens(rendered)
    ids = [i for chunk in (*tokens.chunks, tokens.closing) for i in chunk]
    return text._tokenizer.decode(ids, skip_special_tokens=False)


def test_the_template_opens_and_closes_the_users_text():
    rendered = Rendered("p", (Message("system", "S"), QUESTION, ANSWER), ("Q", " T1", " T2"))
    assert shown(text_with(CHATML), rendered) == (
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nearlier question<|im_end|>\n"
        "<|im_start|>assistant\nearlier answer<|im_end|>\n<|im_start|>user\nQ T1 T2<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_grown_transcript_has_the_old_one_as_its_prefix():
    text = text_with(CHATML)
    short, long = (text.tokens(Rendered("p", (), parts)) for parts in (("Q", "one"), ("Q", "one", "two")))
    assert long.chunks[:3] == short.chunks and long.closing == short.closing
    assert long.total == short.total + len(long.chunks[-1])


def test_the_read_position_is_the_last_but_one():
    tokens = TEXT.tokens(Rendered("p", (), ("Q",)))
    ids = [i for chunk in (*tokens.chunks, tokens.closing) for i in chunk]
    assert tokens.read_index == len(ids) - 2 and tokens.read_id == ids[-2] == tokens.closing[-2]


@given(st.lists(st.text(st.characters(), max_size=40), min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_no_text_moves_the_read_token_or_becomes_a_control_token(segments):
    tokens = TEXT.tokens(Rendered("p", (), tuple(segments)))
    assert tokens.closing == TEXT.closing and tokens.read_id == TEXT.closing[-2]
    control = {TEXT._tokenizer.token_to_id(name) for name in ("<|im_start|>", "<|im_end|>")}
    assert not control & {i for chunk in tokens.chunks[1:] for i in chunk}


def test_a_marker_in_the_conversation_is_no_marker():
    from core.backbone.text import _MARKER

    rendered = Rendered("p", (Message("user", f"look: {_MARKER}"), ANSWER), ("Q",))
    assert shown(text_with(CHATML), rendered).count(_MARKER) == 1


def test_without_a_template_the_plain_form_is_used():
    rendered = Rendered("p", (Message("system", "S"), QUESTION, ANSWER), ("Q", " T"))
    assert shown(text_with(None), rendered) == (
        "system: S\n\nuser: earlier question\n\nassistant: earlier answer\n\nuser: Q T\n\ncoordinator:\n"
    )


def test_a_template_without_system_role_gets_the_text_in_the_first_question():
    template = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + CHATML
    assert shown(text_with(template), Rendered("p", (Message("system", "S"),), ("Q",))).startswith(
        "<|im_start|>user\nS\n\nQ<|im_end|>"
    )
    with_history = Rendered("p", (Message("system", "S"), QUESTION, ANSWER), ("Q",))
    assert "<|im_start|>user\nS\n\nearlier question<|im_end|>" in shown(text_with(template), with_history)


def test_a_template_that_prints_the_date_gives_the_same_text_every_day():
    text = text_with("Today: {{ strftime_now('%d %b %Y') }}\n" + CHATML)
    assert shown(text, Rendered("p", (), ("Q",))).startswith("Today: 1 January 2025\n")


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{% for m in messages %}", "not valid Jinja"),
        ("{{ messages[0].content }}", "0 token"),
        ("fixed text only", "drops or repeats"),
        ("{% for m in messages %}{{ m.content }}{{ m.content }} end{% endfor %}", "drops or repeats"),
        ("{{ raise_exception('never') }}", "refused"),
        ("{{ messages.__class__.__mro__[1].__subclasses__() }}", "refused|drops"),
    ],
)
def test_a_useless_template_is_one_clear_line(template, words):
    with pytest.raises(ConfigError, match=words) as caught:
        text_with(template)
    assert "\n" not in str(caught.value)


def test_a_closing_that_depends_on_the_conversation_is_refused():
    text = text_with(CHATML + "{% if messages | length > 2 %}more{% endif %}")
    with pytest.raises(ConfigError, match="usual ending"):
        text.tokens(Rendered("p", (Message("system", "S"), QUESTION, ANSWER), ("Q",)))


def folder_with(tmp_path, **files: str):
    for name, content in files.items():
        (tmp_path / name.replace("_json", ".json").replace("_jinja", ".jinja")).write_text(content)
    return tmp_path


def test_load_text_reads_every_way_a_template_is_stored(tmp_path):
    tokenizer = TEXT._tokenizer.to_str()
    token = {"bos_token": {"content": "<|im_start|>"}, "pad_token": None}
    ways = {
        "file": {"chat_template_jinja": "{{ bos_token }}" + CHATML, "tokenizer_config_json": json.dumps(token)},
        "key": {"tokenizer_config_json": json.dumps({**token, "chat_template": "{{ bos_token }}" + CHATML})},
        "list": {
            "tokenizer_config_json": json.dumps(
                {**token, "chat_template": [{"name": "default", "template": "{{ bos_token }}" + CHATML}]}
            )
        },
    }
    for way, files in ways.items():
        (tmp_path / way).mkdir()
        text = load_text(folder_with(tmp_path / way, tokenizer_json=tokenizer, **files))
        assert shown(text, Rendered("p", (), ("Q",))).startswith("<|im_start|><|im_start|>user\nQ"), way


def test_a_missing_or_broken_tokenizer_names_the_file(tmp_path):
    with pytest.raises(ConfigError, match=r"no tokenizer\.json"):
        load_text(tmp_path)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_text(folder_with(tmp_path, tokenizer_json="{"))


def test_words_unknown_to_a_tokenizer_do_not_fail():
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "coordinator:": 1, "user:": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    with pytest.raises(ConfigError, match="1 token"):
        ChatText(tokenizer, None, {})


def test_lone_surrogates_are_read_as_question_marks():
    one, other = (TEXT.tokens(Rendered("p", (), (text,))) for text in ("a\ud800b", "a?b"))
    assert one == other and TEXT.count("\udfff") == 1
