"""Which offsets scale which matrix."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from core.errors import ConfigError

if TYPE_CHECKING:
    from core.backbone.huggingface import HuggingFaceBackbone

LAYER = "layer"
PUBLISHED = "published"
TIED = "tied"
SEPARATE = "separate"

_EMBEDDING = "embed_tokens.weight"
_LM_HEAD = "lm_head.weight"
_LAYER_NAME = re.compile(r"layers\.\d+\.[a-z_.]+\.weight")
PROJECTIONS = (
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
)


@dataclass(frozen=True, slots=True)
class SvfLayout:
    """The order of a flat vector of offsets.

    `kind` is `layer` (the seven projections of one layer) or `published` (the public vector's nine matrices in
    `state_dict` order: token table, the seven, LM head). `names` and `counts` list the matrices and how many singular
    values each has. `mode` matters to `published` only: where a model ties its LM head to the token table, `tied`
    lets the LM head's offsets rule the table (the table's own are dead), `separate` the table's own (the LM head's
    are dead, since no logits are computed).
    """

    kind: str
    mode: str
    names: tuple[str, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.kind not in (LAYER, PUBLISHED) or self.mode not in (TIED, SEPARATE):
            raise ConfigError(
                f"An SVF layout is {LAYER} or {PUBLISHED}, {TIED} or {SEPARATE}; not {self.kind!r}, {self.mode!r}."
            )
        if len(self.names) != len(self.counts) or not self.names or min(self.counts) < 1:
            raise ConfigError("An SVF layout needs one positive count for each matrix name.")
        if self.kind == LAYER and not all(_LAYER_NAME.fullmatch(name) for name in self.names):
            raise ConfigError(f"An SVF layout of kind {LAYER} names matrices like layers.26.mlp.up_proj.weight.")
        if len(set(self.names)) < len(self.names):
            raise ConfigError("An SVF layout names a matrix twice.")
        if self.kind == PUBLISHED and (self.names[0], self.names[-1]) != (_EMBEDDING, _LM_HEAD):
            raise ConfigError(f"The published layout begins with {_EMBEDDING} and ends with {_LM_HEAD}.")

    @property
    def size(self) -> int:
        """Number of offsets."""
        return sum(self.counts)

    def slices(self) -> Iterator[tuple[str, slice]]:
        """Each matrix with its part of the vector, dead ones included."""
        start = 0
        for name, count in zip(self.names, self.counts, strict=True):
            yield name, slice(start, start + count)
            start += count

    def ruling(self) -> dict[str, slice]:
        """Each matrix that takes part in h, with the offsets that rule it."""
        parts = dict(self.slices())
        head = parts.pop(_LM_HEAD, None)
        if head is not None and self.mode == TIED:
            parts[_EMBEDDING] = head
        return parts

    @classmethod
    def layer(cls, backbone: HuggingFaceBackbone) -> SvfLayout:
        """The seven projections of the second-to-last layer: our default for training."""
        names = _layer_names(backbone.engine)
        return cls(LAYER, SEPARATE, names, tuple(_rank(backbone.engine, name) for name in names))

    @classmethod
    def published(cls, backbone: HuggingFaceBackbone, mode: str = TIED) -> SvfLayout:
        """The nine matrices of the public vector (9 x 1,024 offsets for Qwen3-0.6B)."""
        names = (_EMBEDDING, *_layer_names(backbone.engine))
        counts = tuple(_rank(backbone.engine, name) for name in names)
        return cls(PUBLISHED, mode, (*names, _LM_HEAD), (*counts, counts[0]))

    def to_json(self) -> dict[str, Any]:
        """What a checkpoint stores."""
        return {"kind": self.kind, "mode": self.mode, "names": list(self.names), "counts": list(self.counts)}

    @classmethod
    def from_json(cls, data: Any) -> SvfLayout:
        """Read `to_json` back. Raises ConfigError when anything is missing or of the wrong kind."""
        try:
            names, counts = tuple(map(str, data["names"])), tuple(map(int, data["counts"]))
            return cls(str(data["kind"]), str(data["mode"]), names, counts)
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"The SVF layout is malformed ({error!r}).") from error

    def shared_layers(self) -> int:
        """How many layers below the first adapted matrix are the same for every candidate."""
        if self.kind == PUBLISHED:
            return 0
        return min(int(name.split(".")[1]) for name in self.names)


def _layer_names(engine: Any) -> tuple[str, ...]:
    index = engine.layers - 2
    if index < 0:
        raise ConfigError("SVF adapts the second-to-last layer; this backbone has only one.")
    return tuple(f"layers.{index}.{name}.weight" for name in PROJECTIONS)


def _rank(engine: Any, name: str) -> int:
    try:
        rows, columns = engine.size_of(name)
    except KeyError as error:
        raise ConfigError(f"This backbone has no matrix {name}; SVF works on Llama- and Qwen-like layers.") from error
    return int(min(rows, columns))
