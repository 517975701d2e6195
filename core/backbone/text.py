"""Rendered transcript -> token ids, cut into the chunks that the model reads one after the other.

The chat template is rendered around a marker; what stands before the marker opens the open user message, what stands
behind it closes it. Opening, segments and closing are tokenised apart, so that a transcript which grows by a turn
grows by whole tokens at its end, and the last tokens are the same whatever anybody wrote (paper, section 3.1:
position -2 is a constant slot).

A model without a chat template gets a documented plain form: `role: content` paragraphs, then the segments, then the
line `coordinator:`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.backbone.base import Rendered
from core.errors import ConfigError
from core.types import Message

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_MARKER = "\u241f open user message \u241f"
_PLAIN_CLOSING = "\n\ncoordinator:\n"


@dataclass(frozen=True, slots=True)
class Tokens:
    """A transcript as ids: `chunks` in reading order, then the `closing` of the chat template.

    h is read at the position before the last one of all. A `plain` transcript has one chunk and no closing.
    """

    chunks: tuple[tuple[int, ...], ...]
    closing: tuple[int, ...]

    @property
    def total(self) -> int:
        """Number of tokens of the whole transcript."""
        return sum(map(len, self.chunks)) + len(self.closing)

    @property
    def read_index(self) -> int:
        """Position whose hidden state is read: the last but one, or 0 for a single token."""
        return max(0, self.total - 2)

    @property
    def read_id(self) -> int:
        """Token id at `read_index`."""
        return [token for part in (*self.chunks, self.closing) for token in part][self.read_index]


class ChatText:
    """Tokenizer and chat template of one model.

    Args:
        tokenizer: as made by the `tokenizers` library.
        template: Jinja chat template, or None for the plain form.
        variables: what the template may name: `bos_token`, `eos_token`, …
    """

    def __init__(self, tokenizer: Tokenizer, template: str | None, variables: Mapping[str, str]) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = tokenizer
        # Segments hold other people's text: here a control token's string is ordinary letters.
        self._literal = Tokenizer.from_str(tokenizer.to_str())
        self._literal.encode_special_tokens = True
        self._render = _compile(template, variables) if template else _plain_form
        _, closing = self._frame(())
        self._closing = self._ids(closing)
        if len(self._closing) < 2:
            raise ConfigError(
                f"The chat template ends a user message with {len(self._closing)} token(s) ({closing!r}); "
                "two are needed, so that the token read is the same for every question. Use another backbone."
            )

    @property
    def closing(self) -> tuple[int, ...]:
        """Ids that follow every open user message."""
        return self._closing

    def special_tokens(self) -> tuple[str, ...]:
        """Every added token of the vocabulary (control tokens and template tags such as `<think>`)."""
        return tuple(token.content for _, token in sorted(self._tokenizer.get_added_tokens_decoder().items()))

    def count(self, text: str) -> int:
        """Number of tokens of plain text."""
        return len(self._literal_ids(text))

    def piece(self, token_id: int) -> str:
        """The text of one token."""
        return str(self._tokenizer.decode([token_id], skip_special_tokens=False))

    def tokens(self, rendered: Rendered) -> Tokens:
        """Ids of a transcript. Raises ConfigError when the chat template cannot hold it."""
        if rendered.plain:
            return Tokens((self._literal_ids("".join(rendered.segments)),), ())
        prefix, closing = self._frame(rendered.messages)
        if self._ids(closing) != self._closing:
            raise ConfigError(
                f"The chat template closes this conversation with {closing!r}, not with its usual ending, so the "
                "token read would not be the constant one. Use another backbone."
            )
        segments = rendered.segments or ("",)
        return Tokens((self._ids(prefix), *map(self._literal_ids, segments)), self._closing)

    def _frame(self, messages: Sequence[Message]) -> tuple[str, str]:
        """What the template puts before and behind the text of the open user message."""
        marker = _MARKER
        while any(marker in message.content for message in messages):
            marker += "\u241f"
        text = self._render([*messages, Message("user", marker)])
        if text.count(marker) != 1:
            raise ConfigError("The chat template drops or repeats the user's text. Use another backbone.")
        prefix, _, closing = text.partition(marker)
        return prefix, closing

    def _ids(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(_utf8(text), add_special_tokens=False).ids)

    def _literal_ids(self, text: str) -> tuple[int, ...]:
        return tuple(self._literal.encode(_utf8(text), add_special_tokens=False).ids)


def _utf8(text: str) -> str:
    """`text` with lone surrogates as question marks; tokenizers take UTF-8 only."""
    return text.encode("utf-8", "replace").decode("utf-8")


def load_text(folder: Path) -> ChatText:
    """Tokenizer and template of a model folder. Raises ConfigError naming the file that is missing or broken."""
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    if not path.is_file():
        raise ConfigError(f"{folder} has no tokenizer.json. Save its tokenizer in the fast format, or use another one.")
    try:
        tokenizer = Tokenizer.from_file(str(path))
        config = json.loads(_read(folder / "tokenizer_config.json") or "{}")
    except Exception as error:  # the tokenizers library raises plain Exception
        raise ConfigError(f"The tokenizer in {folder} cannot be read ({error}). Fetch the model again.") from error
    template = _read(folder / "chat_template.jinja") or config.get("chat_template")
    if isinstance(template, list):  # several named templates
        template = next((t["template"] for t in template if t.get("name") == "default"), None)
    return ChatText(tokenizer, template or None, _variables(config))


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _variables(config: Mapping[str, Any]) -> dict[str, str]:
    named = {key: value for key, value in config.items() if key.endswith("_token")}
    texts = {key: value.get("content") if isinstance(value, dict) else value for key, value in named.items()}
    return {key: value for key, value in texts.items() if isinstance(value, str)}


def _plain_form(messages: Sequence[Message]) -> str:
    *earlier, question = messages
    opening = "".join(f"{message.role}: {message.content}\n\n" for message in earlier)
    return f"{opening}user: {question.content}{_PLAIN_CLOSING}"


def _compile(template: str, variables: Mapping[str, str]) -> Callable[[Sequence[Message]], str]:
    """A function messages -> text, with the same Jinja dialect that transformers gives chat templates."""
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"], autoescape=False
    )
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
    environment.globals["raise_exception"] = _refuse
    # Some templates print today's date; h must not depend on the day it is computed.
    environment.globals["strftime_now"] = lambda _format: "1 January 2025"
    try:
        compiled = environment.from_string(template)
    except jinja2.TemplateError as error:
        raise ConfigError(
            f"The backbone's chat template is not valid Jinja ({error}). Use another backbone."
        ) from error

    def render(messages: Sequence[Message]) -> str:
        chat = [{"role": message.role, "content": message.content} for message in messages]
        settings = {"add_generation_prompt": True, "enable_thinking": False, "tools": None, "documents": None}
        try:
            return compiled.render(messages=chat, **settings, **variables)
        except jinja2.TemplateError as error:
            if chat[0]["role"] != "system":
                raise ConfigError(f"The backbone's chat template refused ({error}). Use another backbone.") from error
            # Templates without a system role (Gemma): its text opens the first user message.
            first, second, *rest = messages
            return render([Message(second.role, f"{first.content}\n\n{second.content}"), *rest])

    return render


def _refuse(message: str) -> None:
    import jinja2

    raise jinja2.TemplateError(message)
