"""What every head promises, over all kinds; exact parameter counts of the paper's table."""

import json

import numpy as np
import pytest

from core.errors import CheckpointInvalid
from core.heads import Calibration, HeadSpec, build_head, principal_directions
from core.heads.spec import OPTIONS

D, L = 24, 4
KINDS = [
    ("linear", {}),
    ("linear", {"bias": True}),
    ("low_rank", {"rank": 5}),
    ("low_rank", {"rank": 3, "sigma": 0.5}),
    ("sparse", {}),
    ("block_diagonal", {"blocks": 1}),
    ("block_diagonal", {"blocks": 2}),
    ("block_diagonal", {"blocks": 3}),
    ("block_diagonal", {"blocks": L + 3}),
    ("projected", {"directions": 6, "constant": True}),
    ("projected", {"directions": 6, "constant": False}),
]


def states(count=40, d=D):
    rng = np.random.default_rng(1)
    return (rng.standard_normal((count, d)) * rng.uniform(0.5, 4, d) + rng.standard_normal(d) * 5).astype(np.float32)


@pytest.fixture(params=[False, True], ids=["raw", "calibrated"])
def calibration(request):
    return Calibration.of(states()) if request.param else None


@pytest.fixture(params=KINDS, ids=lambda kind: f"{kind[0]}-{'-'.join(map(str, kind[1].values()))}")
def head(request, calibration):
    kind, options = request.param
    directions = principal_directions(states(), 6, calibration) if kind == "projected" else None
    return build_head(HeadSpec(kind, D, L, options), calibration=calibration, directions=directions)


@pytest.fixture
def theta(head):
    return np.random.default_rng(2).standard_normal(head.n_params)


def test_every_kind_is_in_the_suite():
    assert {kind for kind, _ in KINDS} == set(OPTIONS)


@pytest.mark.parametrize(
    ("kind", "options", "count"),
    [
        ("linear", {}, 10_240),
        ("linear", {"bias": True}, 10_250),
        ("low_rank", {}, 20_680),
        ("low_rank", {"rank": 14}, 14_476),
        ("sparse", {}, 11_266),
        ("block_diagonal", {}, 5_120),
        ("block_diagonal", {"blocks": 10}, 1_024),
        ("projected", {"directions": 8, "constant": False}, 80),
        ("projected", {"directions": 8}, 90),
    ],
)
def test_parameter_counts_at_the_papers_sizes(kind, options, count):
    directions = np.ones((8, 1024), np.float32) if kind == "projected" else None
    assert build_head(HeadSpec(kind, 1024, 7, options), directions=directions).n_params == count


def test_blocks_tile_theta_and_flatten_inverts_unflatten(head, theta):
    assert head.blocks[0].start == 0
    assert all(a.stop == b.start for a, b in zip(head.blocks, head.blocks[1:], strict=False))
    assert head.blocks[-1].stop == head.n_params
    parts = head.unflatten(theta)
    assert {name: part.shape for name, part in parts.items()} == {b.name: b.shape for b in head.blocks}
    assert np.array_equal(head.flatten(parts), theta)


def test_flatten_refuses_missing_unknown_and_misshapen_blocks(head, theta):
    parts = head.unflatten(theta)
    first = head.blocks[0].name
    for wrong in (
        {k: v for k, v in parts.items() if k != first},
        {**parts, "extra": theta},
        {**parts, first: parts[first][:-1]},
    ):
        with pytest.raises(CheckpointInvalid):
            head.flatten(wrong)


def test_logits_have_the_leading_shape_of_h_and_are_finite(head, theta):
    h = states(12)
    assert head.logits(theta, h[0]).shape == (L + 3,)
    assert head.logits(theta, h).shape == (12, L + 3)
    assert head.logits(theta, h.reshape(3, 4, D)).shape == (3, 4, L + 3)
    assert np.isfinite(head.logits(theta, h * 1e4)).all()
    assert np.isfinite(head.logits(head.initial(np.random.default_rng(0)), h)).all()


def test_batch_and_population_equal_one_by_one(head):
    thetas = np.random.default_rng(3).standard_normal((5, head.n_params))
    h = states(7)
    together = head.population(thetas, h)
    assert together.shape == (5, 7, L + 3)
    for p, one in enumerate(thetas):
        assert np.allclose(together[p], head.logits(one, h), rtol=0, atol=1e-9)
        for b, state in enumerate(h):
            assert np.allclose(together[p, b], head.logits(one, state), rtol=0, atol=1e-9)


def test_every_parameter_block_matters(head, theta):
    h = states(30)
    before = head.logits(theta, h)
    for block in head.blocks:
        if block.name == "temperature":  # softens the gradient only
            continue
        moved = theta.copy()
        moved[block.start : block.stop] = np.random.default_rng(4).standard_normal(block.stop - block.start) + 2
        assert not np.allclose(head.logits(moved, h), before)


def test_sizes_that_do_not_fit_are_refused_with_both_numbers(head, theta):
    with pytest.raises(CheckpointInvalid, match=f"{head.n_params - 1}.*{head.n_params}"):
        head.logits(theta[:-1], states(2))
    with pytest.raises(CheckpointInvalid, match=f"{D + 1}.*{D}"):
        head.population(theta[None], np.zeros((2, D + 1), np.float32))


def test_initial_is_seeded_and_input_is_not_changed(head, theta):
    first, second = (head.initial(np.random.default_rng(7)) for _ in range(2))
    assert np.array_equal(first, second)
    assert first.shape == (head.n_params,)
    h, kept_theta = states(4), theta.copy()
    kept = h.copy()
    head.logits(theta, h)
    head.population(theta[None], h)
    assert np.array_equal(h, kept)
    assert np.array_equal(theta, kept_theta)


def test_torch_gives_the_same_logits_and_the_right_gradient(head, theta):
    torch = pytest.importorskip("torch")
    h = states(5)
    vector = torch.tensor(theta, dtype=torch.float64, requires_grad=True)
    logits = head.logits(vector, torch.tensor(h))
    assert np.allclose(logits.detach().numpy(), head.logits(theta, h), atol=1e-9)
    assert np.allclose(head.population(vector[None], torch.tensor(h)).detach().numpy()[0], logits.detach().numpy())
    weights = np.random.default_rng(5).standard_normal(logits.shape)
    (logits * torch.tensor(weights)).sum().backward()
    rng = np.random.default_rng(6)
    for block in (b for b in head.blocks if b.trained_by_gradient):
        for index in rng.integers(block.start, block.stop, 6):
            step = np.zeros_like(theta)
            step[index] = 1e-5
            slope = ((head.logits(theta + step, h) - head.logits(theta - step, h)) * weights).sum() / 2e-5
            assert vector.grad[index].item() == pytest.approx(slope, rel=1e-4, abs=1e-4)


def test_spec_survives_json(head):
    text = json.dumps(head.spec.to_json())
    assert HeadSpec.from_json(json.loads(text)) == head.spec
