"""The named protocols: what exactly the coordinator model reads of a question and its turns.

A head is only good for the wording it was trained on. So each protocol has an id, `name@version:hash of its
wording`, that stands in every checkpoint, trace and report.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from core.backbone.base import Backbone, Rendered
from core.errors import ConfigError
from core.transcript.fit import CUT_MARK, TURNS_MARK, Block, Fitted, fit
from core.transcript.neutralise import neutralise
from core.types import Message, Role, Transcript, Turn

DEFAULT_PROTOCOL = "paper"


@dataclass(frozen=True, slots=True)
class _Protocol:
    """The wording of one protocol. `cap` is in tokens of one turn; `plain` bypasses the chat template."""

    name: str
    version: int
    system: str
    header: str
    empty: str
    cap: int | None
    plain: bool = False

    @property
    def id(self) -> str:
        parts = (
            self.name,
            str(self.version),
            self.system,
            self.header,
            self.empty,
            str(self.cap),
            CUT_MARK,
            TURNS_MARK,
        )
        return f"{self.name}@{self.version}:{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:12]}"


PROTOCOLS: dict[str, _Protocol] = {
    protocol.name: protocol
    for protocol in (
        # The paper's own (section 3.1). The system text names no agents: that would tie h to the pool.
        _Protocol(
            name="paper",
            version=1,
            system=(
                "You coordinate a team that answers one question together. Each turn one agent speaks in one role. "
                "A Thinker analyses the question and plans. A Worker writes the answer. A Verifier checks the latest "
                "answer, and either accepts it or asks for a revision. Read the question and the turns so far, then "
                "choose which agent speaks next, and in which role."
            ),
            header="\n\nTurn {number}, {role}, agent {slot}\n",
            empty="(no reply)",
            cap=1500,
        ),
        # As the released code lays it out: one observation, to which only Workers' texts are added.
        _Protocol(
            name="authors",
            version=1,
            system=(
                "You are the dispatcher of a group of models. For the observation below, decide which model acts "
                "next and whether it acts as solver, thinker or verifier."
            ),
            header="\n\nReference thought {number}:\n",
            empty="(no reply)",
            cap=1500,
        ),
        # Raw lines, for the public routing fixture of the published vector.
        _Protocol(name="fixture", version=1, system="", header="\n{role}: ", empty="", cap=None, plain=True),
    )
}


def protocol_id(name: str) -> str:
    """`paper` -> `paper@1:<hash>`. An id is accepted too and checked against today's wording.

    Raises:
        ConfigError: The protocol is unknown, or the id is of another wording.
    """
    return _protocol(name).id


def render(protocol: str, transcript: Transcript, backbone: Backbone) -> Rendered:
    """What `backbone` reads of `transcript`.

    One more turn leaves all earlier segments as they are, unless the context is full. All text is neutralised.

    Args:
        protocol: A name or id of `PROTOCOLS`.
        transcript: The question, its turns, and the conversation before it.
        backbone: Gives special tokens, token counts and the length of its context.

    Returns:
        The text in parts; `truncated` is set when the context was too short for all of it.

    Raises:
        ConfigError: Unknown protocol, or a backbone whose context has no room for any question.
    """
    rules = _protocol(protocol)
    specials = backbone.special_tokens()
    turns = [t for t in transcript.turns if rules.name != "authors" or (t.role is Role.WORKER and t.text)]
    fitted = fit(
        tuple(Message(m.role, neutralise(m.content, specials)) for m in transcript.history),
        neutralise(transcript.question, specials),
        tuple(_block(rules, number, turn, specials) for number, turn in enumerate(turns, 1)),
        budget=_budget(rules, backbone),
        cap=rules.cap,
        count=backbone.count_tokens,
    )
    return _plain(rules, fitted) if rules.plain else _chat(rules, fitted)


def render_messages(messages: Sequence[Message], backbone: Backbone) -> Rendered:
    """A list of chat messages as the `fixture` protocol reads it: the public routing fixture's own input.

    Args:
        messages: At least one; roles are written as they are.
        backbone: Gives special tokens.

    Returns:
        One plain segment, `role: content` lines.
    """
    rules = PROTOCOLS["fixture"]
    specials = backbone.special_tokens()
    texts = tuple(Message(m.role, neutralise(m.content, specials)) for m in messages)
    return Rendered(protocol=rules.id, messages=(), segments=(_lines(texts),), plain=True)


def _protocol(name: str) -> _Protocol:
    rules = PROTOCOLS.get(name.partition("@")[0])
    if rules is None:
        raise ConfigError(f"There is no transcript protocol {name!r}; there are: {', '.join(PROTOCOLS)}.")
    if "@" in name and name != rules.id:
        raise ConfigError(f"This program renders {rules.id}, not {name}: the wording changed. Train a new head.")
    return rules


def _budget(rules: _Protocol, backbone: Backbone) -> int:
    """Tokens left for question, turns and history beside the constant text and the template's own tokens."""
    fixed = 0 if rules.plain else backbone.count_tokens(rules.system) + 48
    budget = backbone.context_length - fixed
    if budget < 64:
        raise ConfigError(
            f"The context of {backbone.name} holds {backbone.context_length} tokens; "
            f"the {rules.name} protocol needs at least {fixed + 64}."
        )
    return budget


def _block(rules: _Protocol, number: int, turn: Turn, specials: Sequence[str]) -> Block:
    role = "assistant" if rules.plain else turn.role.capitalize()
    header = rules.header.format(number=number, role=role, slot=turn.slot)
    return Block(header, neutralise(turn.text, specials) or rules.empty)


def _chat(rules: _Protocol, fitted: Fitted) -> Rendered:
    history = (Message(m.role if m.role == "assistant" else "user", m.content) for m in fitted.history)
    return Rendered(
        protocol=rules.id,
        messages=(Message("system", rules.system), *history),
        segments=(fitted.question, *fitted.blocks),
        truncated=fitted.truncated,
    )


def _plain(rules: _Protocol, fitted: Fitted) -> Rendered:
    # One segment: the fixture was recorded from the whole text, and byte-pair merges cross its line ends.
    text = _lines((*fitted.history, Message("user", fitted.question))) + "".join(map(_one_line_head, fitted.blocks))
    return Rendered(protocol=rules.id, messages=(), segments=(text,), plain=True, truncated=fitted.truncated)


_ROLE_LINE = re.compile(r"\n(?=(?:system|user|assistant|tool):)", re.IGNORECASE)


def _lines(messages: Sequence[Message]) -> str:
    """`role: content` lines; a line of the content that looks like such a line is quoted."""
    return "\n".join(_ROLE_LINE.sub("\n| ", f"{m.role}: {m.content}") for m in messages)


def _one_line_head(block: str) -> str:
    return block[:1] + _ROLE_LINE.sub("\n| ", block[1:])
