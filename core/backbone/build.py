"""Named tensors -> a Decoder."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from core.backbone.decoder import Decoder
from core.backbone.linear import Linear
from core.backbone.shape import Shape

if TYPE_CHECKING:
    import torch

_LAYER_NORMS = ("input_layernorm", "post_attention_layernorm")


def build_decoder(shape: Shape, weights: Iterable[tuple[str, torch.Tensor]]) -> Decoder:
    """Arrange weights into a decoder.

    Args:
        shape: dimensions.
        weights: (`state_dict` name without the `model.` prefix, tensor) in any order, of one dtype and device.
            Nothing of them is kept but copies, so a mapped file can be closed.

    Raises:
        ValueError: a tensor is absent, unknown, or does not fit the shape.
    """
    places = {place: names for layer in range(shape.layers) for place, names in shape.places(layer).items()}
    owner = {name: place for place, names in places.items() for name in names}
    waiting: dict[str, dict[str, torch.Tensor]] = {place: {} for place in places}
    vectors: dict[str, torch.Tensor] = {}
    for name, tensor in weights:
        bare = name.rpartition(".")[0]
        if name.endswith("rotary_emb.inv_freq"):  # old checkpoints store what follows from the configuration
            continue
        if bare in owner:
            waiting[owner[bare]][name] = tensor
        else:
            vectors[name] = tensor.clone()
    linears = {place: _assemble(shape, names, waiting.pop(place)) for place, names in places.items()}
    _check(shape, vectors)
    return Decoder(shape, vectors, linears)


def _assemble(shape: Shape, names: tuple[str, ...], tensors: dict[str, torch.Tensor]) -> Linear:
    sizes = shape.matrices()
    for name in names:
        size = sizes[".".join(name.split(".")[2:])]
        found = tuple(tensors[f"{name}.weight"].shape) if f"{name}.weight" in tensors else None
        if found != size:
            raise ValueError(f"{name} is {found or 'absent'}, config.json says {size}")
    if leftover := set(tensors) - {f"{name}.{kind}" for name in names for kind in ("weight", "bias")}:
        raise ValueError(f"{leftover.pop()} is unknown")
    weights = [tensors[f"{name}.weight"] for name in names]
    biases = [tensors[f"{name}.bias"] for name in names if f"{name}.bias" in tensors]
    if biases and len(biases) != len(names):  # Qwen2 has them on all of q, k, v; a mixture has not been seen
        raise ValueError(f"{', '.join(names)}: some have a bias and some not")
    return Linear(names, weights, biases or None)


def _check(shape: Shape, vectors: dict[str, torch.Tensor]) -> None:
    layers = range(shape.layers)
    wanted = {f"layers.{layer}.{name}.weight" for layer in layers for name in _LAYER_NORMS}
    wanted |= {"norm.weight", "embed_tokens.weight"}
    for name in sorted(wanted):
        if name not in vectors or vectors[name].shape[-1] != shape.hidden:
            raise ValueError(f"{name} is absent or has not {shape.hidden} columns")
    optional = {f"layers.{n}.self_attn.{x}_norm.weight" for n in layers for x in "qk"}
    if unknown := set(vectors) - set(wanted) - optional:
        raise ValueError(f"{min(unknown)} is unknown")
