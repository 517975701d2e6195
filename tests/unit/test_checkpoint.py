"""A checkpoint as data and as a file: round trip, binding, where files are found."""

import os
import stat
from dataclasses import replace

import numpy as np
import pytest

from core.backbone.fake import FakeBackbone
from core.checkpoint import (
    Checkpoint,
    find_checkpoint,
    known_checkpoints,
    load_checkpoint,
    save_checkpoint,
    uniform_checkpoint,
)
from core.errors import CheckpointInvalid, NonFiniteState
from core.files import atomic_write
from core.heads import Calibration, HeadSpec, build_head, principal_directions
from core.svf import SvfLayout
from core.transcript import protocol_id
from core.types import ROLES, Role

D = 12
BACKBONE = FakeBackbone(hidden_size=D)
STATES = np.random.default_rng(0).standard_normal((50, D)).astype(np.float32)
SVF = SvfLayout("layer", "tied", ("layers.3.self_attn.q_proj.weight", "layers.3.self_attn.k_proj.weight"), (5, 4))


def make(kind="linear", dtype=np.float32, *, calibrated=False, with_svf=False, **changes):
    calibration = Calibration.of(STATES) if calibrated else None
    options = {"rank": 3} if kind == "low_rank" else {"directions": 3} if kind == "projected" else {}
    spec = HeadSpec(kind, D, 2, options)
    directions = principal_directions(STATES, 3, calibration) if kind == "projected" else None
    head = build_head(spec, calibration=calibration, directions=directions)
    values = {
        "name": "test-head",
        "protocol": protocol_id("paper"),
        "backbone": BACKBONE.name,
        "weights_hash": BACKBONE.weights_hash,
        "agents": (("alpha", "f1"), ("béta", "f2")),
        "spec": spec,
        "theta": np.random.default_rng(1).standard_normal(head.n_params).astype(dtype),
        "calibration": calibration,
        "directions": directions,
        "svf": SVF if with_svf else None,
        "svf_offsets": np.linspace(-0.1, 0.1, 9).astype(dtype) if with_svf else None,
        "summary": {"reward": 0.75, "generations": 12, "notes": ["a", None, True]},
        "licence": "Apache-2.0",
        "note": "a note, ein Vermerk, 注",
    }
    return Checkpoint(**{**values, **changes})


@pytest.mark.parametrize("kind", ["linear", "low_rank", "sparse", "block_diagonal", "projected"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("full", [False, True])
def test_a_file_gives_the_same_checkpoint_back(tmp_path, kind, dtype, full):
    roles = (Role.WORKER, Role.THINKER, Role.VERIFIER) if full else ROLES
    before = make(kind, dtype, calibrated=full, with_svf=full, roles=roles)
    save_checkpoint(before, tmp_path / "folder" / "x.safetensors")
    after = load_checkpoint(tmp_path / "folder" / "x.safetensors")
    assert after.metadata() == before.metadata()
    assert after.theta.dtype == dtype
    assert after.theta.tobytes() == before.theta.tobytes()
    assert after.theta_sha256 == before.theta_sha256
    for one, other in zip(after.logits(STATES), before.logits(STATES), strict=True):
        assert np.array_equal(one, other)
    if full:
        assert after.svf == SVF
        assert np.array_equal(after.svf_offsets, before.svf_offsets)
    else:
        assert after.svf is None
        assert after.svf_offsets is None


def test_logits_come_apart_into_agents_and_roles_in_the_fixed_order():
    checkpoint = make(roles=(Role.WORKER, Role.VERIFIER, Role.THINKER))
    z = checkpoint.head.logits(checkpoint.theta, STATES[0])
    agents, roles = checkpoint.logits(STATES[0])
    assert np.array_equal(agents, z[:2])
    assert np.array_equal(roles, [z[4], z[2], z[3]])  # thinker, worker, verifier
    many_agents, many_roles = checkpoint.logits(STATES)
    assert many_agents.shape == (50, 2)
    assert many_roles.shape == (50, 3)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_state_that_is_not_finite_is_never_argmaxed(bad):
    h = STATES[0].copy()
    h[5] = bad
    with pytest.raises(NonFiniteState):
        make().logits(h)


def test_the_hash_covers_head_and_offsets_but_not_the_storage_type():
    one = make(with_svf=True)
    assert replace(one, theta=one.theta.astype(np.float64)).theta_sha256 == one.theta_sha256
    assert replace(one, theta=one.theta + 1).theta_sha256 != one.theta_sha256
    assert replace(one, svf_offsets=one.svf_offsets + 1).theta_sha256 != one.theta_sha256
    assert replace(one, name="other").theta_sha256 == one.theta_sha256


def test_nobody_can_write_into_a_checkpoint():
    theta = np.zeros(5 * D, np.float32)
    checkpoint = make(theta=theta)
    with pytest.raises(ValueError, match="read-only"):
        checkpoint.theta[0] = 1
    theta[0] = 1
    assert checkpoint.theta[0] == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"theta": np.zeros(59, np.float32)}, ["59", "60"]),
        ({"theta": np.zeros((5, 12), np.float32)}, ["5, 12", "60"]),
        ({"theta": np.zeros(60, np.float16)}, ["float16", "float32"]),
        ({"theta": np.zeros(60, np.int64)}, ["int64"]),
        ({"theta": [0.0] * 60}, ["list"]),
        ({"theta": np.full(60, np.nan, np.float32)}, ["60 values", "not finite"]),
        ({"agents": (("a", ""), ("b", ""), ("c", ""))}, ["3 agents", "2 rows"]),
        ({"agents": (("a", ""), ("a", ""))}, ["once each"]),
        ({"agents": (("a", ""), ("", ""))}, ["once each"]),
        ({"agents": (("a", 1), ("b", ""))}, ["texts"]),
        ({"roles": (Role.WORKER, Role.WORKER, Role.THINKER)}, ["thinker, worker, verifier", "worker, worker"]),
        ({"protocol": "paper"}, ["name@version:hash"]),
        ({"name": "../up"}, ["'../up'"]),
        ({"name": ""}, ["name"]),
        ({"name": "a" * 65}, ["64"]),
        ({"backbone": ""}, ["backbone"]),
        ({"note": "x" * 3000}, ["note", "2000"]),
        ({"licence": None}, ["licence"]),
        ({"note": "a\x1b[2Jb"}, ["note", "control", "\\x1b"]),
        ({"licence": "MIT\nok  trusted"}, ["licence", "control"]),
        ({"backbone": "fake\x9b1A"}, ["backbone", "control"]),
        ({"name": "good\n"}, ["name"]),
        ({"agents": (("a\x07", ""), ("b", ""))}, ["Agent", "control"]),
        ({"agents": (("a", "f\r"), ("b", ""))}, ["Agent", "control"]),
        ({"theta": np.full(60, -1e308)}, ["theta", "-1e+308", "1e+06"]),
        ({"summary": {"x": float("nan")}}, ["summary"]),
        ({"summary": {"x": object()}}, ["summary"]),
        ({"summary": {"x": "y" * 200_000}}, ["summary", "100000"]),
        ({"svf": SVF}, ["layout", "offsets"]),
        ({"svf": SVF, "svf_offsets": np.zeros(8, np.float32)}, ["8", "9"]),
        ({"svf": SVF, "svf_offsets": np.full(9, np.inf, np.float32)}, ["not finite"]),
        ({"directions": np.zeros((3, D), np.float32)}, ["directions"]),
        ({"calibration": Calibration(np.zeros(7, np.float32), np.ones(7, np.float32))}, ["7", "12"]),
    ],
)
def test_what_does_not_fit_is_refused_with_both_values(changes, words):
    with pytest.raises(CheckpointInvalid) as caught:
        make(**changes)
    assert all(word in str(caught.value) for word in words), caught.value


def test_a_head_is_bound_to_the_weights_it_was_made_for():
    make().check_backbone(BACKBONE)
    with pytest.raises(CheckpointInvalid, match="other"):
        make().check_backbone(FakeBackbone(hidden_size=D, name="other"))


def test_a_head_without_a_weights_hash_is_bound_by_name_and_size():
    imported = make(weights_hash="", backbone="owner/fake")
    imported.check_backbone(BACKBONE)
    imported.check_backbone(FakeBackbone(hidden_size=D, name="/models/Fake/"))
    with pytest.raises(CheckpointInvalid, match="Set TRINITY_BACKBONE"):
        imported.check_backbone(FakeBackbone(hidden_size=D, name="other"))
    with pytest.raises(CheckpointInvalid, match=r"12 dimensions.*13"):
        imported.check_backbone(FakeBackbone(hidden_size=13))


def test_the_untrained_head_prefers_nothing():
    agents, roles = uniform_checkpoint(BACKBONE).logits(STATES)
    assert not agents.any()
    assert not roles.any()
    uniform_checkpoint(BACKBONE).check_backbone(BACKBONE)


def test_checkpoints_are_found_by_name_or_file(tmp_path, monkeypatch):
    shipped, own = tmp_path / "shipped", tmp_path / "data" / "checkpoints"
    monkeypatch.setattr("core.checkpoint.files.SHIPPED_CHECKPOINTS", shipped)
    for folder, name in ((shipped, "a"), (shipped, "b"), (own, "b"), (own, "c")):
        save_checkpoint(make(name=name), folder / f"{name}.safetensors")
    known = known_checkpoints(tmp_path / "data")
    assert known == {
        "a": shipped / "a.safetensors",
        "b": own / "b.safetensors",
        "c": own / "c.safetensors",
    }
    assert find_checkpoint("b", tmp_path / "data") == own / "b.safetensors"
    assert find_checkpoint(str(shipped / "b.safetensors"), tmp_path / "data") == shipped / "b.safetensors"
    for wrong in ("d", "../a", "", "a/../../b.safetensors", "x\0.safetensors", "y" * 5000 + ".safetensors", "a\0"):
        with pytest.raises(CheckpointInvalid, match="there are: a, b, c"):
            find_checkpoint(wrong, tmp_path / "data")


def test_no_checkpoint_at_all_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("core.checkpoint.files.SHIPPED_CHECKPOINTS", tmp_path / "none")
    with pytest.raises(CheckpointInvalid, match="none yet"):
        find_checkpoint("x", tmp_path)


def test_a_write_that_fails_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch):
    target = tmp_path / "x.safetensors"
    save_checkpoint(make(), target)
    old = target.read_bytes()

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("core.files.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        save_checkpoint(make(name="other"), target)
    assert target.read_bytes() == old
    assert list(tmp_path.iterdir()) == [target]


def test_atomic_write_flushes_the_file_and_then_its_folder(tmp_path, monkeypatch):
    flushed = []
    real = os.fsync
    monkeypatch.setattr("core.files.os.fsync", lambda fd: (flushed.append(stat.S_IFMT(os.fstat(fd).st_mode)), real(fd)))
    atomic_write(tmp_path / "f", b"one")
    assert flushed == [stat.S_IFREG, stat.S_IFDIR]


def test_atomic_write_replaces(tmp_path):
    atomic_write(tmp_path / "f", b"one")
    atomic_write(tmp_path / "f", b"two")
    assert (tmp_path / "f").read_bytes() == b"two"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]
    with pytest.raises(OSError):
        atomic_write(tmp_path / "missing" / "f", b"x")
