"""Backbones with scaled singular values, and populations of them on one transcript.

The base backbone is never written to: an adapted one shares every other matrix with it, so undoing is forgetting.
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from core.backbone.base import Backbone, Rendered
from core.backbone.decoder import Decoder
from core.backbone.huggingface import HuggingFaceBackbone
from core.backbone.text import Tokens
from core.errors import ConfigError
from core.svf.factored import FactoredGroup, candidate_decoder
from core.svf.factors import Factors, FactorStore
from core.svf.layout import SvfLayout
from core.types import HiddenState

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch

    Floats = npt.NDArray[np.float32]

_STORES: weakref.WeakKeyDictionary[HuggingFaceBackbone, FactorStore] = weakref.WeakKeyDictionary()
_GROUPS: weakref.WeakKeyDictionary[HuggingFaceBackbone, dict[SvfLayout, dict[str, FactoredGroup]]] = (
    weakref.WeakKeyDictionary()
)
_GUARD = threading.Lock()

# Up to this many tokens for each unit of hidden width, a candidate's matrices are applied as `x V diag(s') Uᵀ`; in
# longer transcripts they are rebuilt first. Measured in float32, CPU seconds a candidate: SmolLM2, 1,413 tokens: 0.232
# factored, 0.176 + 0.063 to rebuild (even at 1,600 tokens); Qwen3-0.6B shape, 1,045 tokens: 0.616 factored,
# 0.465 + 0.502 to rebuild (even at 3,500 tokens).
FACTORED_UP_TO = 3


def factors_of(backbone: HuggingFaceBackbone) -> FactorStore:
    """The backbone's decompositions; one store for each backbone and process."""
    with _GUARD:
        if backbone not in _STORES:
            _STORES[backbone] = FactorStore(backbone, backbone.folder)
        return _STORES[backbone]


def adapt(backbone: HuggingFaceBackbone, layout: SvfLayout, offsets: Floats) -> Backbone:
    """The backbone with its singular values scaled.

    Args:
        backbone: stays as it is, and usable.
        layout: which offset scales what.
        offsets: [layout.size]; zeros give the base weights back (within 1e-5).

    Returns:
        A backbone whose `weights_hash` names the base weights, the layout and the offsets.

    Raises:
        ConfigError: the vector's length, a matrix or a value does not fit; the text holds both values.
    """
    vector = _checked(layout, offsets)
    matrices = rebuilt(backbone, layout, vector)
    digest = hashlib.sha256(f"{backbone.weights_hash}|{layout.to_json()}|".encode() + vector.tobytes())
    identity = replace(backbone.identity, weights_hash=digest.hexdigest())
    engine: Any = backbone.engine.with_weights(matrices)
    shared = layout.shared_layers()
    if shared and isinstance(engine, Decoder):
        return AdaptedBackbone(backbone, identity.weights_hash, engine, shared)
    return HuggingFaceBackbone(identity, backbone.text, engine, cache=backbone.cache, folder=None)


def rebuilt(backbone: HuggingFaceBackbone, layout: SvfLayout, vector: Floats) -> dict[str, torch.Tensor]:
    """The scaled matrices by name, in the model's dtype, always from the pristine factors."""
    import torch

    store, engine = factors_of(backbone), backbone.engine
    matrices = {}
    with torch.inference_mode():
        for name, part in layout.ruling().items():
            factors, weight = _factors(store, name), engine.matrix(name)
            matrices[name] = factors.rebuild(_deltas(factors, name, vector[part]), weight).to(weight.dtype)
    return matrices


def _deltas(factors: Factors, name: str, part: Floats) -> torch.Tensor:
    """One matrix's offsets as a tensor. Raises ConfigError when their number or their values do not fit."""
    import torch

    if factors.values.shape[0] != part.size:
        raise ConfigError(f"{name} has {factors.values.shape[0]} singular values, the layout says {part.size}.")
    deltas = torch.from_numpy(part.copy()).to(factors.values.device)
    try:
        factors.scales(deltas)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}.") from error
    return deltas


def _checked(layout: SvfLayout, offsets: Floats) -> Floats:
    vector = np.ascontiguousarray(offsets, dtype=np.float32)
    if vector.shape != (layout.size,):
        raise ConfigError(f"The SVF offsets have shape {vector.shape}; this layout takes ({layout.size},).")
    if not np.isfinite(vector).all():
        raise ConfigError("The SVF offsets hold NaN or infinity.")
    return vector


class AdaptedBackbone:
    """A backbone whose upper layers differ from the base's; everything below is read, and remembered, only once.

    Matrices are rebuilt: that costs as much as running one transcript of 1,000 tokens through the upper layers, and
    a candidate reads dozens. For one transcript see `population_hidden`.
    """

    def __init__(self, base: HuggingFaceBackbone, weights_hash: str, engine: Decoder, shared: int) -> None:
        self.base = base
        self.engine = engine
        self.shared = shared
        self.name = base.name
        self.weights_hash = weights_hash
        self.hidden_size = base.hidden_size
        self.context_length = base.context_length
        self.dtype = base.dtype
        self.device = base.device

    def special_tokens(self) -> tuple[str, ...]:
        """See Backbone.special_tokens."""
        return self.base.special_tokens()

    def count_tokens(self, text: str) -> int:
        """See Backbone.count_tokens."""
        return self.base.count_tokens(text)

    def hidden(self, rendered: Rendered) -> HiddenState:
        """See Backbone.hidden."""
        tokens = self.base.tokens(rendered)
        with self.base.lock:
            vector = self.engine.tail(trunk_rows(self.base, self.shared, tokens), self.shared)
        return self.base.state(rendered, tokens, vector[0])

    def hidden_batch(self, rendered: Sequence[Rendered]) -> list[HiddenState]:
        """See Backbone.hidden_batch."""
        return [self.hidden(one) for one in rendered]


def trunk_rows(backbone: HuggingFaceBackbone, shared: int, tokens: Tokens) -> torch.Tensor:
    """The residual stream [1, n, hidden] of a transcript behind the first `shared` layers, up to the read position."""
    import torch

    passage = backbone.trunk(shared).read(tokens)
    with torch.inference_mode():
        return torch.cat([passage.store.tap[:, : passage.length], passage.state], dim=1)


def factored_groups(backbone: HuggingFaceBackbone, engine: Decoder, layout: SvfLayout) -> dict[str, FactoredGroup]:
    """The layout's matrices, factored and packed, by their place in the decoder; built once for each backbone."""
    known = _GROUPS.setdefault(backbone, {})
    if layout not in known:
        store, wanted = factors_of(backbone), {name.removesuffix(".weight") for name in layout.ruling()}
        groups = {}
        for place, linear in engine.linears.items():
            if wanted & set(linear.names):
                factors = [store.get(f"{name}.weight") for name in linear.names]
                groups[place] = FactoredGroup(linear.names, factors, engine.embedding.dtype, linear.bias)
        known[layout] = groups
    return known[layout]


def population_hidden(backbone: HuggingFaceBackbone, layout: SvfLayout, offsets: Floats, rendered: Rendered) -> Floats:
    """h of one transcript under many candidates.

    Layers below the adapted one run once; each candidate then runs its own upper layers, factored or rebuilt.

    Args:
        backbone: the base.
        layout: which offset scales what.
        offsets: [P, layout.size], one candidate a row.
        rendered: the transcript.

    Returns:
        float32 [P, hidden_size]. Raises ConfigError and NonFiniteState like `adapt` and `hidden`.
    """
    if offsets.ndim != 2:
        raise ConfigError(f"A population is a matrix [candidates, {layout.size}]; got {offsets.ndim} dimension(s).")
    vectors = [_checked(layout, row) for row in offsets]
    engine, shared = backbone.engine, layout.shared_layers()
    if not (isinstance(engine, Decoder) and shared):
        states = [adapt(backbone, layout, vector).hidden(rendered) for vector in vectors]
        return (
            np.stack([state.vector for state in states]) if states else np.zeros((0, backbone.hidden_size), np.float32)
        )
    for name in layout.ruling():
        _factors(factors_of(backbone), name)
    tokens = backbone.tokens(rendered)
    found = np.zeros((len(vectors), backbone.hidden_size), dtype=np.float32)
    with backbone.lock:
        rows = trunk_rows(backbone, shared, tokens)
        factored = tokens.total <= FACTORED_UP_TO * backbone.hidden_size
        for index, vector in enumerate(vectors):
            if factored:
                member = _factored(backbone, engine, layout, vector)
            else:
                member = engine.with_weights(rebuilt(backbone, layout, vector))
            found[index] = backbone.state(rendered, tokens, member.tail(rows, shared)[0]).vector
    return found


def _factored(backbone: HuggingFaceBackbone, engine: Decoder, layout: SvfLayout, vector: Floats) -> Decoder:
    store = factors_of(backbone)
    deltas = {name: _deltas(_factors(store, name), name, vector[part]) for name, part in layout.ruling().items()}
    return candidate_decoder(engine, factored_groups(backbone, engine, layout), deltas)


def _factors(store: FactorStore, name: str) -> Factors:
    try:
        return store.get(name)
    except KeyError as error:
        raise ConfigError(f"This backbone has no matrix {name}; the SVF layout is for another one.") from error
