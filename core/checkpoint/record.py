"""A checkpoint as data: the head's parameters and everything they are only good with."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from core.errors import CheckpointInvalid, NonFiniteState
from core.heads import Calibration, Head, HeadSpec, build_head
from core.terminal import is_plain
from core.transcript import DEFAULT_PROTOCOL, protocol_id
from core.types import ROLES, Role

if TYPE_CHECKING:
    import numpy.typing as npt

    from core.backbone.base import Backbone
    from core.svf.layout import SvfLayout

    Floats = npt.NDArray[np.floating[Any]]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PROTOCOL = re.compile(r"[a-z]+@\d+:[0-9a-f]{12}")
MOST_VALUE = 1e6  # of a trained value: far larger ones are finite here and overflow once they meet a hidden state
_LONGEST_TEXT = 2_000
_LONGEST_SUMMARY = 100_000


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A head, bound to a protocol, a coordinator model and agents. Construction checks everything.

    `protocol` is an id (core/transcript); `weights_hash` is the coordinator model's, or empty when the head came
    from elsewhere and is bound by the model's name alone; `agents` are (name, fingerprint) in the order of the
    agent rows; `roles` is the order of the three role rows. `theta` [n] and `svf_offsets` are float32 or float64.
    Raises CheckpointInvalid with the two values that differ.
    """

    name: str
    protocol: str
    backbone: str
    weights_hash: str
    agents: tuple[tuple[str, str], ...]
    spec: HeadSpec
    theta: Floats = field(repr=False)
    roles: tuple[Role, ...] = ROLES
    calibration: Calibration | None = field(default=None, repr=False)
    directions: npt.NDArray[np.float32] | None = field(default=None, repr=False)
    svf: SvfLayout | None = None
    svf_offsets: Floats | None = field(default=None, repr=False)
    summary: Mapping[str, Any] = field(default_factory=dict)
    licence: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        self._check_texts()
        self._check_agents()
        head = self.head
        _check_vector("theta", self.theta, head.n_params)
        if (self.svf is None) != (self.svf_offsets is None):
            raise CheckpointInvalid("An SVF layout needs offsets, and offsets need a layout; only one of them is here.")
        if self.svf is not None and self.svf_offsets is not None:
            _check_vector("svf_offsets", self.svf_offsets, self.svf.size)
        if self.directions is not None and not np.isfinite(self.directions).all():
            raise CheckpointInvalid("directions holds values that are not finite.")
        if self.directions is not None:
            _check_size("directions", self.directions)
        for label in ("theta", "svf_offsets", "directions"):
            object.__setattr__(self, label, _sealed(getattr(self, label)))

    @cached_property
    def head(self) -> Head:
        """The head's map, without parameters."""
        return build_head(self.spec, calibration=self.calibration, directions=self.directions)

    @property
    def theta_sha256(self) -> str:
        """Hash of all trained values, head and offsets, as little-endian float64: equal means equal behaviour."""
        digest = hashlib.sha256(np.asarray(self.theta, dtype="<f8").tobytes())
        if self.svf_offsets is not None:
            digest.update(np.asarray(self.svf_offsets, dtype="<f8").tobytes())
        return digest.hexdigest()

    def logits(self, h: npt.NDArray[np.floating[Any]]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Agent logits [..., L] in the order of `agents` and role logits [..., 3] in the order of ROLES.

        Args:
            h: Hidden states [..., d].

        Raises:
            NonFiniteState: h holds NaN or infinity.
        """
        if not np.isfinite(h).all():
            raise NonFiniteState(f"The hidden state of {self.backbone} holds NaN or infinity; try dtype float32.")
        z = self.head.logits(np.asarray(self.theta), h)
        rows = [self.spec.n_agents + self.roles.index(role) for role in ROLES]
        return z[..., : self.spec.n_agents], z[..., rows]

    def check_backbone(self, backbone: Backbone) -> None:
        """Raise CheckpointInvalid unless this head was made for these weights (or, without a hash, this name)."""
        mine, theirs = self.weights_hash, backbone.weights_hash
        if not mine:
            mine, theirs = _last_part(self.backbone), _last_part(backbone.name)
        if mine != theirs:
            raise CheckpointInvalid(
                f"Checkpoint {self.name} was made for the backbone {self.backbone} ({mine[:40]}), but {backbone.name} "
                f"({theirs[:40]}) is loaded. Set TRINITY_BACKBONE to the former, or choose another checkpoint."
            )
        if self.spec.hidden_size != backbone.hidden_size:
            raise CheckpointInvalid(
                f"Checkpoint {self.name} reads {self.spec.hidden_size} dimensions; {backbone.name} has "
                f"{backbone.hidden_size}."
            )

    def metadata(self) -> dict[str, Any]:
        """Everything but the arrays, as plain data for JSON."""
        return {
            "name": self.name,
            "protocol": self.protocol,
            "backbone": self.backbone,
            "weights_hash": self.weights_hash,
            "agents": [list(agent) for agent in self.agents],
            "roles": [str(role) for role in self.roles],
            "head": self.spec.to_json(),
            "svf": None if self.svf is None else self.svf.to_json(),
            "summary": dict(self.summary),
            "licence": self.licence,
            "note": self.note,
        }

    def _check_texts(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise CheckpointInvalid(
                f"A checkpoint's name is 1 to 64 letters, digits, dots, dashes and underscores, not {self.name!r:.80}."
            )
        for label in ("protocol", "backbone", "weights_hash", "licence", "note"):
            value = getattr(self, label)
            if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
                raise CheckpointInvalid(f"{label} must be text of at most {_LONGEST_TEXT} characters.")
            if not _is_clean(value):
                raise CheckpointInvalid(f"{label} holds control characters: {value!r:.80}.")
        if not _PROTOCOL.fullmatch(self.protocol):
            raise CheckpointInvalid(f"protocol must look like name@version:hash, not {self.protocol!r:.80}.")
        if not self.backbone:
            raise CheckpointInvalid("backbone must name the coordinator model.")
        try:
            size = len(json.dumps(dict(self.summary), allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise CheckpointInvalid(f"summary must be plain JSON data with finite numbers ({error}).") from None
        if size > _LONGEST_SUMMARY:
            raise CheckpointInvalid(f"summary has {size} characters of JSON; the most is {_LONGEST_SUMMARY}.")

    def _check_agents(self) -> None:
        names = [name for name, _ in self.agents]
        for text in (text for agent in self.agents for text in agent):
            if not isinstance(text, str) or len(text) > 500:
                raise CheckpointInvalid("Agent names and fingerprints are texts of at most 500 characters.")
            if not _is_clean(text):
                raise CheckpointInvalid(f"Agent names and fingerprints hold no control characters: {text!r:.80}.")
        if len(set(names)) != len(names) or "" in names:
            raise CheckpointInvalid(f"Agent names must be there once each, not {', '.join(names)[:200]}.")
        if len(names) != self.spec.n_agents:
            raise CheckpointInvalid(
                f"The checkpoint names {len(names)} agents; its head has {self.spec.n_agents} rows."
            )
        if sorted(self.roles) != sorted(ROLES):
            raise CheckpointInvalid(
                f"roles must be {', '.join(ROLES)} in some order, not {', '.join(map(str, self.roles))[:80]}."
            )


def uniform_checkpoint(backbone: Backbone) -> Checkpoint:
    """A head of zeros: every agent and every role equally likely. For pools and backbones that have no head."""
    spec = HeadSpec("linear", backbone.hidden_size, 1)
    return Checkpoint(
        name="untrained",
        protocol=protocol_id(DEFAULT_PROTOCOL),
        backbone=backbone.name,
        weights_hash=backbone.weights_hash,
        agents=(("any", ""),),
        spec=spec,
        theta=np.zeros(build_head(spec).n_params, dtype=np.float32),
        note="no training: every choice is equally likely",
    )


def _check_vector(label: str, values: Any, length: int) -> None:
    if not isinstance(values, np.ndarray) or values.dtype not in (np.float32, np.float64):
        raise CheckpointInvalid(f"{label} must be float32 or float64, not {getattr(values, 'dtype', type(values))}.")
    if values.shape != (length,):
        raise CheckpointInvalid(f"{label} has the shape {list(values.shape)}; needed is [{length}].")
    if not np.isfinite(values).all():
        raise CheckpointInvalid(f"{label} holds {int((~np.isfinite(values)).sum())} values that are not finite.")
    _check_size(label, values)


def _check_size(label: str, values: Any) -> None:
    largest = float(values.flat[np.argmax(np.abs(values))]) if values.size else 0.0
    if abs(largest) > MOST_VALUE:
        raise CheckpointInvalid(f"{label} holds the value {largest:g}; the most is {MOST_VALUE:g} either way.")


def _sealed(values: npt.NDArray[Any] | None) -> npt.NDArray[Any] | None:
    """A copy that nobody can write to."""
    if values is None:
        return None
    copy = np.array(values)
    copy.setflags(write=False)
    return copy


def _is_clean(text: str) -> bool:
    """One line without anything that acts on a terminal."""
    return is_plain(text) and "\t" not in text and len(text.splitlines()) <= 1 and not text.endswith("\n")


def _last_part(name: str) -> str:
    """`Qwen/Qwen3-0.6B` and a local folder `…/Qwen3-0.6B` are the same model by name."""
    return re.split(r"[/\\]", name.rstrip("/\\"))[-1].lower()
