"""Singular-value fine-tuning: orientation, sums, exact undo, shared trunk, files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from core.backbone import load_backbone
from core.backbone.base import Rendered
from core.errors import ConfigError
from core.svf import SvfLayout, adapt, population_hidden
from core.svf.factors import FactorStore, decompose
from core.types import Message

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def backbone(cache):
    return load_backbone("shape:tiny", cache_dir=cache, device="cpu")


def said(*segments: str) -> Rendered:
    return Rendered("paper@1", (Message("system", "Choose."),), segments)


def noise(layout: SvfLayout, seed: int, spread: float = 0.2) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, spread, layout.size).astype(np.float32)


def by_hand(weight: torch.Tensor, offsets: np.ndarray) -> torch.Tensor:
    """The definition, in float64 and independently of the code."""
    left, values, right = np.linalg.svd(weight.double().numpy(), full_matrices=False)
    scaled = values * (1 + offsets.astype(np.float64))
    return torch.from_numpy((left * scaled) @ right * values.sum() / scaled.sum())


def test_layer_layout_names_seven_matrices_of_the_second_to_last_layer(backbone):
    layout = SvfLayout.layer(backbone)
    assert [name.split(".")[-2] for name in layout.names] == list(PROJECTIONS)
    assert all(name.startswith("layers.2.") for name in layout.names)
    assert layout.counts == (64, 32, 32, 64, 64, 64, 64) and layout.size == 384


def test_published_layout_of_the_papers_shape_has_9216_offsets(backbone):
    from core.backbone import shapes
    from core.backbone.shape import Shape

    class Engine:
        shape = Shape.of(shapes.shape_config("qwen3-0.6b"))
        layers = shape.layers

        def size_of(self, name):
            return (151_936, 1_024) if "embed" in name else self.shape.matrices()[name.split(".", 2)[2][:-7]]

    class Big:
        engine = Engine()

    layout = SvfLayout.published(Big())
    assert layout.size == 9_216 and layout.counts == (1_024,) * 9
    assert layout.names[1] == "layers.26.self_attn.q_proj.weight" and layout.names[-1] == "lm_head.weight"
    assert layout.ruling()["embed_tokens.weight"] == slice(8_192, 9_216)
    separate = SvfLayout.published(Big(), "separate").ruling()
    assert separate["embed_tokens.weight"] == slice(0, 1_024) and "lm_head.weight" not in separate


def test_a_layout_survives_json_and_refuses_nonsense(backbone):
    layout = SvfLayout.published(backbone, "separate")
    assert SvfLayout.from_json(layout.to_json()) == layout
    twice = {"kind": "layer", "mode": "tied", "names": ["layers.1.mlp.up_proj.weight"] * 2, "counts": [4, 4]}
    elsewhere = {**twice, "names": ["norm.weight", "layers.x.weight"]}
    for broken in (
        {},
        twice,
        elsewhere,
        {**layout.to_json(), "kind": "all"},
        {**layout.to_json(), "counts": [1]},
        None,
        {"names": 3},
    ):
        with pytest.raises(ConfigError, match="SVF layout"):
            SvfLayout.from_json(broken)


@pytest.mark.parametrize("name", PROJECTIONS)
def test_each_matrix_is_scaled_in_its_own_orientation(backbone, name):
    layout = SvfLayout.layer(backbone)
    full = next(one for one in layout.names if name in one)
    offsets = np.zeros(layout.size, np.float32)
    part = dict(layout.slices())[full]
    offsets[part] = noise(layout, 1)[part]
    adapted = adapt(backbone, layout, offsets)
    pristine = backbone.engine.matrix(full)
    assert (adapted.engine.matrix(full).double() - by_hand(pristine, offsets[part])).abs().max() < 1e-6
    others = [one for one in layout.names if one != full]
    for one in others:
        assert (adapted.engine.matrix(one) - backbone.engine.matrix(one)).abs().max() < 1e-6


@pytest.mark.parametrize("size", [(40, 40), (96, 40), (40, 96), (900, 40)])
def test_factors_rebuild_their_matrix_and_keep_the_sum(size):
    torch.manual_seed(5)
    weight = torch.randn(size) * 0.05
    factors, offsets = decompose(weight), torch.randn(40) * 0.3
    assert (factors.left is None) == (size[0] >= 8 * size[1])
    assert (factors.values[:-1] >= factors.values[1:]).all()
    assert (factors.rebuild(torch.zeros(40), weight) - weight).abs().max() < 1e-5
    rebuilt = factors.rebuild(offsets, weight)
    assert (rebuilt.double() - by_hand(weight, offsets.numpy())).abs().max() < 1e-5
    nuclear = [float(torch.linalg.svdvals(one).sum()) for one in (weight, rebuilt)]
    assert nuclear[0] == pytest.approx(nuclear[1], rel=1e-4)


def test_a_weight_with_a_small_tail_of_singular_values_is_kept():
    torch.manual_seed(6)
    left, right = torch.linalg.qr(torch.randn(400, 16))[0], torch.linalg.qr(torch.randn(16, 16))[0]
    values = torch.logspace(0, -5, 16)
    weight = (left * values) @ right
    factors = decompose(weight)
    assert factors.left is None
    assert (factors.values / values - 1).abs().max() < 0.05
    assert (factors.rebuild(torch.zeros(16), weight) - weight).abs().max() < 1e-6


def test_zero_offsets_give_the_base_back(backbone):
    text = said("What is 12*12?", "turn one")
    base = backbone.hidden(text).vector
    for layout in (SvfLayout.layer(backbone), SvfLayout.published(backbone)):
        zeros = np.zeros(layout.size, np.float32)
        assert np.abs(adapt(backbone, layout, zeros).hidden(text).vector - base).max() < 1e-5
        for name in layout.ruling():
            pristine = backbone.engine.matrix(name)
            assert (adapt(backbone, layout, zeros).engine.matrix(name) - pristine).abs().max() < 1e-5


def test_one_two_one_is_identical_and_the_base_is_untouched(backbone):
    text = said("What is 12*12?", "turn one")
    for layout in (SvfLayout.layer(backbone), SvfLayout.published(backbone, "separate")):
        base = backbone.hidden(text).vector
        first = adapt(backbone, layout, noise(layout, 1))
        before = first.hidden(text).vector
        other = adapt(backbone, layout, noise(layout, 2)).hidden(text).vector
        again = adapt(backbone, layout, noise(layout, 1))
        assert again.weights_hash == first.weights_hash != backbone.weights_hash
        assert before.tobytes() == again.hidden(text).vector.tobytes() == first.hidden(text).vector.tobytes()
        assert np.abs(before - other).max() > 1e-4 and np.abs(before - base).max() > 1e-4
        backbone.cache.clear()
        assert backbone.hidden(text).vector.tobytes() == base.tobytes()
        assert again.hidden(text).vector.tobytes() == before.tobytes()


def test_which_half_rules_the_token_table(backbone):
    text = said("What is 12*12?")
    base = backbone.hidden(text).vector
    for mode, ruling in (("separate", "embed_tokens.weight"), ("tied", "lm_head.weight")):
        layout = SvfLayout.published(backbone, mode)
        for name, part in layout.slices():
            if name.startswith("layers."):
                continue
            offsets = np.zeros(layout.size, np.float32)
            offsets[part] = noise(layout, 3)[part]
            moved = np.abs(adapt(backbone, layout, offsets).hidden(text).vector - base).max()
            assert (moved > 1e-3) == (name == ruling), (mode, name, moved)


def test_a_population_equals_its_members_one_by_one(backbone):
    layout = SvfLayout.layer(backbone)
    vectors = np.stack([noise(layout, seed) for seed in range(6)] + [np.zeros(layout.size, np.float32)])
    for text in (said("short"), said("What is 12*12?" * 40, "turn one", "turn two")):
        found = population_hidden(backbone, layout, vectors, text)
        assert found.dtype == np.float32 and found.shape == (7, backbone.hidden_size)
        single = np.stack([adapt(backbone, layout, one).hidden(text).vector for one in vectors])
        assert np.abs(found - single).max() < 1e-4
        assert np.abs(found[-1] - backbone.hidden(text).vector).max() < 1e-4
        assert np.abs(found[0] - found[1]).max() > 1e-3


def test_a_population_runs_the_shared_layers_once(backbone, monkeypatch):
    layout = SvfLayout.layer(backbone)
    vectors = np.stack([noise(layout, seed) for seed in range(5)])
    population_hidden(backbone, layout, vectors, said("warm"))
    calls = []
    trunk = backbone.trunk(layout.shared_layers()).engine
    kept = trunk.extend
    monkeypatch.setattr(trunk, "extend", lambda *given: calls.append(1) or kept(*given))
    population_hidden(backbone, layout, vectors, said("new question", "turn"))
    assert len(calls) == 2  # question and turn; the opening was known
    population_hidden(backbone, layout, vectors, said("new question", "turn", "next"))
    assert len(calls) == 3
    adapt(backbone, layout, vectors[0]).hidden(said("new question", "turn", "next"))
    assert len(calls) == 3


def test_published_population_and_plain_text_work_too(backbone):
    layout = SvfLayout.published(backbone)
    vectors = np.stack([noise(layout, seed) for seed in range(2)])
    assert population_hidden(backbone, layout, vectors, said("x y z")).shape == (2, backbone.hidden_size)
    plain = Rendered("fixture@1", (), ("user: hello",), plain=True)
    layer = SvfLayout.layer(backbone)
    zeros = np.zeros((1, layer.size), np.float32)
    assert np.abs(population_hidden(backbone, layer, zeros, plain)[0] - backbone.hidden(plain).vector).max() < 1e-4
    one = Rendered("fixture@1", (), ("a",), plain=True)
    assert np.abs(adapt(backbone, layer, zeros[0]).hidden(one).vector - backbone.hidden(one).vector).max() < 1e-4
    assert population_hidden(backbone, layer, zeros[:0], plain).shape == (0, backbone.hidden_size)


@pytest.mark.parametrize("limit", [0, 10_000])
def test_long_transcripts_cross_blocks_factored_and_rebuilt(backbone, monkeypatch, limit):
    monkeypatch.setattr("core.svf.adapted.FACTORED_UP_TO", limit)
    layout = SvfLayout.layer(backbone)
    text = said("0123456789" * 130, "turn " * 130)
    assert backbone.tokens(text).total > 1_900
    vectors = np.stack([np.zeros(layout.size, np.float32), noise(layout, 4)])
    found = population_hidden(backbone, layout, vectors, text)
    assert np.abs(found[0] - backbone.hidden(text).vector).max() < 1e-4
    assert np.abs(found[1] - adapt(backbone, layout, vectors[1]).hidden(text).vector).max() < 1e-4


def test_a_layout_may_name_any_layer_and_only_some_matrices(backbone):
    text = said("What is 12*12?")
    for name in (
        "layers.0.mlp.down_proj.weight",
        "layers.1.self_attn.v_proj.weight",
        "layers.3.self_attn.k_proj.weight",
    ):
        layout = SvfLayout("layer", "separate", (name,), (min(backbone.engine.size_of(name)),))
        offsets = noise(layout, 7)
        found = population_hidden(backbone, layout, offsets[None], text)[0]
        assert np.abs(found - adapt(backbone, layout, offsets).hidden(text).vector).max() < 1e-4
        assert np.abs(found - backbone.hidden(text).vector).max() > 1e-5


def test_a_layout_with_a_matrix_that_is_not_there_is_refused(backbone):
    layout = SvfLayout("layer", "separate", ("layers.9.mlp.up_proj.weight",), (64,))
    for attempt in (adapt, lambda b, one, v: population_hidden(b, one, v[None], said("x"))):
        with pytest.raises(ConfigError, match=r"no matrix layers\.9"):
            attempt(backbone, layout, np.zeros(64, np.float32))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda v: v[:-1], r"shape \(383,\).*\(384,\)"),
        (lambda v: np.where(np.arange(v.size) == 3, np.nan, v), "NaN"),
        (lambda v: np.full_like(v, -1.0), "sum is zero"),
    ],
)
def test_bad_offsets_are_refused(backbone, change, words):
    layout = SvfLayout.layer(backbone)
    offsets = change(np.zeros(layout.size, np.float32))
    with pytest.raises(ConfigError, match=words):
        adapt(backbone, layout, offsets)
    with pytest.raises(ConfigError, match=words):
        population_hidden(backbone, layout, offsets[None], said("x"))


def test_a_layout_of_another_model_is_refused_with_both_numbers(backbone):
    layout = SvfLayout.layer(backbone)
    wider = SvfLayout("layer", "separate", layout.names, (65, *layout.counts[1:]))
    with pytest.raises(ConfigError, match=r"64 singular values.*65"):
        adapt(backbone, wider, np.zeros(wider.size, np.float32))


def test_factors_come_from_disk_and_damage_is_mended(cache, backbone):
    layout = SvfLayout.layer(backbone)
    adapt(backbone, layout, np.zeros(layout.size, np.float32))
    folder = next((cache / "svd").iterdir())
    files = sorted(folder.glob("*.safetensors"))
    assert len(files) >= 7 and not list(folder.glob("part-*"))
    name = layout.names[0]
    kept = FactorStore(backbone, cache).get(name)
    file: Path = folder / f"{name}.safetensors"
    stamp = file.stat().st_mtime_ns
    assert FactorStore(backbone, cache).get(name).values.equal(kept.values) and file.stat().st_mtime_ns == stamp
    whole = file.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], (folder / f"{layout.names[1]}.safetensors").read_bytes()):
        file.write_bytes(damaged)
        assert FactorStore(backbone, cache).get(name).values.allclose(kept.values)
        assert file.stat().st_size == len(whole)


def test_bfloat16_backbones_are_decomposed_in_float32(tmp_path):
    low = load_backbone("shape:tiny", cache_dir=tmp_path, device="cpu", dtype="bfloat16")
    layout = SvfLayout.layer(low)
    factors = FactorStore(low, None).get(layout.names[0])
    assert factors.values.dtype == factors.right.dtype == torch.float32
    adapted = adapt(low, layout, np.zeros(layout.size, np.float32))
    difference = np.abs(adapted.hidden(said("hello")).vector - low.hidden(said("hello")).vector).max()
    assert difference < 0.2 and adapted.dtype == "bfloat16"
    found = population_hidden(low, layout, np.zeros((1, layout.size), np.float32), said("hello"))
    assert np.abs(found[0] - low.hidden(said("hello")).vector).max() < 0.3
