"""What is special to single kinds of head, their specs, calibration and folding."""

import numpy as np
import pytest

from core.errors import CheckpointInvalid
from core.heads import Calibration, HeadSpec, build_head, fold, principal_directions

RNG = np.random.default_rng(0)


def states(count=200, d=16):
    rng = np.random.default_rng(1)
    return (rng.standard_normal((count, 4)) @ rng.standard_normal((4, d)) * 3 + rng.standard_normal(d) * 9).astype(
        np.float32
    )


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"kind": "linear", "hidden_size": 4, "n_agents": 2},
        {"kind": "linear", "hidden_size": 4, "n_agents": 2, "options": {}, "more": 1},
        {"kind": "cubic", "hidden_size": 4, "n_agents": 2, "options": {}},
        {"kind": ["linear"], "hidden_size": 4, "n_agents": 2, "options": {}},
        {"kind": "linear", "hidden_size": 0, "n_agents": 2, "options": {}},
        {"kind": "linear", "hidden_size": True, "n_agents": 2, "options": {}},
        {"kind": "linear", "hidden_size": 4.0, "n_agents": 2, "options": {}},
        {"kind": "linear", "hidden_size": 10**9, "n_agents": 2, "options": {}},
        {"kind": "linear", "hidden_size": 4, "n_agents": -1, "options": {}},
        {"kind": "linear", "hidden_size": 4, "n_agents": 2, "options": {"rank": 2}},
        {"kind": "linear", "hidden_size": 4, "n_agents": 2, "options": {"bias": 1}},
        {"kind": "linear", "hidden_size": 4, "n_agents": 2, "options": ["bias"]},
        {"kind": "low_rank", "hidden_size": 40, "n_agents": 2, "options": {"rank": 0}},
        {"kind": "low_rank", "hidden_size": 4, "n_agents": 2, "options": {"rank": 5}},
        {"kind": "low_rank", "hidden_size": 40, "n_agents": 2, "options": {"rank": 2, "sigma": float("nan")}},
        {"kind": "block_diagonal", "hidden_size": 40, "n_agents": 2, "options": {"blocks": 6}},
        {"kind": "projected", "hidden_size": 4, "n_agents": 2, "options": {"directions": 5}},
    ],
)
def test_a_wrong_spec_is_refused(data):
    with pytest.raises(CheckpointInvalid):
        HeadSpec.from_json(data)


def test_options_take_their_defaults():
    assert HeadSpec("low_rank", 64, 2).options == {"rank": 20, "sigma": 1.0}
    assert HeadSpec("low_rank", 64, 2) == HeadSpec("low_rank", 64, 2, {"rank": 20, "sigma": 1})


def test_directions_and_calibration_must_fit():
    spec = HeadSpec("projected", 16, 2, {"directions": 3})
    with pytest.raises(CheckpointInvalid, match="needs directions"):
        build_head(spec)
    with pytest.raises(CheckpointInvalid, match=r"\(3, 16\).*\(4, 16\)"):
        build_head(spec, directions=np.zeros((4, 16), np.float32))
    with pytest.raises(CheckpointInvalid, match="needs directions"):
        build_head(HeadSpec("linear", 16, 2), directions=np.zeros((3, 16), np.float32))
    with pytest.raises(CheckpointInvalid, match=r"12 dimensions.*16"):
        build_head(HeadSpec("linear", 16, 2), calibration=Calibration.of(states(d=12)))


def test_an_enormous_head_is_refused():
    with pytest.raises(CheckpointInvalid, match="the most is"):
        build_head(HeadSpec("linear", 65_536, 1_000))


def test_linear_is_one_matrix_product():
    head = build_head(HeadSpec("linear", 16, 2, {"bias": True}))
    weight, bias, h = RNG.standard_normal((5, 16)), RNG.standard_normal(5), states(3)
    assert np.allclose(head.logits(head.flatten({"weight": weight, "bias": bias}), h), h @ weight.T + bias)


def test_low_rank_follows_the_formula_and_starts_inside_its_bounds():
    head = build_head(HeadSpec("low_rank", 16, 2, {"rank": 4, "sigma": 2.0}))
    theta = head.initial(RNG)
    parts = head.unflatten(theta)
    bounds = {"down": np.sqrt(6 / 20), "up": np.sqrt(18 / 9)}
    for name, bound in bounds.items():
        assert 0.7 * bound < np.abs(parts[name]).max() <= bound
    h = states(6).astype(np.float64)
    u = h @ parts["down"].T
    u = np.array([[x if x > 0 else 0.1 * (np.exp(x) - 1) for x in row] for row in u])
    assert np.allclose(head.logits(theta, h), 2.0 * u @ parts["up"].T)


@pytest.mark.parametrize(("blocks", "shapes"), [(2, [(2, 6), (3, 10)]), (5, [(1, 3), (1, 3), (1, 3), (1, 3), (1, 4)])])
def test_block_diagonal_is_a_dense_matrix_with_zeros(blocks, shapes):
    head = build_head(HeadSpec("block_diagonal", 16, 2, {"blocks": blocks}))
    assert [b.shape for b in head.blocks] == shapes
    theta = RNG.standard_normal(head.n_params)
    dense, row, column = np.zeros((5, 16)), 0, 0
    for part in head.unflatten(theta).values():
        dense[row : row + part.shape[0], column : column + part.shape[1]] = part
        row, column = row + part.shape[0], column + part.shape[1]
    assert (row, column) == (5, 16)
    assert np.allclose(head.logits(theta, states(9)), states(9) @ dense.T)


@pytest.mark.parametrize(("rho", "kept"), [(0.0, 8), (-1000.0, 16), (1000.0, 1), (1.0, 4), (-1.0, 11)])
def test_sparse_keeps_the_k_best_dimensions(rho, kept):
    head = build_head(HeadSpec("sparse", 16, 2))
    scores = RNG.permutation(16).astype(float)
    weight = RNG.standard_normal((5, 16))
    theta = head.flatten({"weight": weight, "scores": scores, "rho": np.array([rho]), "temperature": np.array([0.0])})
    assert head.kept(theta) == kept
    mask = scores >= 16 - kept
    assert np.allclose(head.logits(theta, states(4)), (states(4) * mask) @ weight.T)


def test_sparse_draws_its_mask_while_training_and_gradients_reach_every_block():
    torch = pytest.importorskip("torch")
    head = build_head(HeadSpec("sparse", 16, 2))
    theta = head.initial(RNG)
    theta[: 5 * 16] = RNG.standard_normal(80)
    draws = [head.logits(theta, states(1), head.noise(np.random.default_rng(n))) for n in range(5)]
    assert len({draw.tobytes() for draw in draws}) > 1
    vector = torch.tensor(theta, requires_grad=True)
    noise = head.noise(np.random.default_rng(0))
    logits = head.logits(vector, torch.tensor(states(3)), noise)
    assert np.allclose(logits.detach().numpy(), head.logits(theta, states(3), noise))
    logits.square().sum().backward()
    grad = head.unflatten(vector.grad)
    assert all(part.abs().max() > 0 for part in grad.values())
    assert torch.isfinite(vector.grad).all()


def test_calibrated_states_have_mean_zero_and_deviation_one():
    x = states().astype(np.float64)
    x[:, 3] = 7.0  # a constant dimension must not be blown up
    y = Calibration.of(x).apply(x)
    assert np.allclose(y.mean(axis=0), 0, atol=1e-4)
    assert np.allclose(np.delete(y.std(axis=0), 3), 1, atol=1e-4)
    assert np.abs(y[:, 3]).max() < 1e-6


@pytest.mark.parametrize("bad", [np.zeros((1, 4)), np.zeros(4), np.array([[1.0, np.nan], [0.0, 1.0]])])
def test_calibration_needs_states(bad):
    with pytest.raises(CheckpointInvalid):
        Calibration.of(bad)


@pytest.mark.parametrize(
    ("mean", "scale"), [([0.0, np.inf], [1, 1]), ([0, 0], [1, 0]), ([0, 0], [1, -1]), ([0], [1, 1])]
)
def test_calibration_values_are_checked(mean, scale):
    with pytest.raises(CheckpointInvalid):
        Calibration(np.array(mean, np.float32), np.array(scale, np.float32))


@pytest.mark.parametrize("whiten", [False, True])
def test_principal_directions_span_the_data(whiten):
    x = states()
    calibration = Calibration.of(x)
    directions = principal_directions(x, 4, calibration, whiten=whiten)
    features = calibration.apply(x.astype(np.float64)) @ directions.T
    covariance = np.cov(features.T, bias=True)
    assert np.allclose(covariance, np.diag(np.diag(covariance)), atol=1e-3)
    spread = np.diag(covariance)
    assert np.mean(spread) == pytest.approx(1, rel=1e-3)
    assert (np.allclose(spread, 1, atol=1e-3)) == whiten
    assert np.all(np.diff(spread) <= 1e-3)
    assert all(row[np.abs(row).argmax()] > 0 for row in directions)
    # all of the data's variance lies in its four directions
    centred = calibration.apply(x.astype(np.float64))
    basis = np.linalg.qr(directions.T.astype(np.float64))[0]
    assert np.allclose(centred @ basis @ basis.T, centred, atol=1e-2)


def test_too_many_directions_are_refused():
    with pytest.raises(CheckpointInvalid, match="ask for fewer"):
        principal_directions(states(), 8)
    with pytest.raises(CheckpointInvalid, match="no 20 principal"):
        principal_directions(states(), 20)


@pytest.mark.parametrize("kind", ["linear", "block_diagonal", "projected"])
def test_folding_gives_a_linear_head_with_the_same_logits(kind):
    x = states()
    calibration = Calibration.of(x)
    directions = principal_directions(x, 3, calibration) if kind == "projected" else None
    options = {"directions": 3} if kind == "projected" else {}
    head = build_head(HeadSpec(kind, 16, 2, options), calibration=calibration, directions=directions)
    theta = RNG.standard_normal(head.n_params)
    spec, folded = fold(head, theta)
    assert spec == HeadSpec("linear", 16, 2, {"bias": True})
    assert np.allclose(build_head(spec).logits(folded, x), head.logits(theta, x), atol=1e-8)


def test_a_curved_head_cannot_be_folded():
    head = build_head(HeadSpec("low_rank", 16, 2, {"rank": 2}))
    with pytest.raises(CheckpointInvalid, match="cannot be folded"):
        fold(head, head.initial(RNG))
