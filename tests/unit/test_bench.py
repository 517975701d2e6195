"""The benches: every promised field, on a shape small enough for a test."""

from __future__ import annotations

import json

import pytest

from core import bench


def run(capsys, *argv: str) -> dict:
    assert bench.command([*argv, "--backbone", "shape:tiny", "--json"]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_decision_reports_every_side_of_every_turn(capsys):
    found = run(capsys, "decision", "--quick")
    assert found["bench"] == "decision" and found["dtype"] == "bfloat16" and found["repetitions"] == 1
    for key in ("full_s", "incremental_s", "floor_s"):
        assert len(found[key]) == 5 and all(second > 0 for second in found[key])
    assert found["ratio_total"] == pytest.approx(sum(found["full_s"]) / sum(found["incremental_s"]), rel=0.02)
    assert found["over_floor"] == pytest.approx(sum(found["incremental_s"]) / sum(found["floor_s"]), rel=0.02)
    assert found["ratio_lm_head"] == pytest.approx(found["lm_head_s"][0] / found["incremental_s"][-1], rel=0.02)
    assert found["ratio_last"] == pytest.approx(found["full_s"][-1] / found["incremental_s"][-1], rel=0.02)


def test_both_sides_read_the_same_state():
    """The reference of the benches has the backbone's weights: otherwise the ratios would compare two models."""
    import torch

    from core.bench import models

    args = bench.parser().parse_args(["decision", "--backbone", "shape:tiny"])
    backbone, name = models.load(args)
    model = models.reference(backbone, name)
    ids = models.random_ids(torch.Generator().manual_seed(0), 300, 50)
    with torch.inference_mode():
        theirs = model.model(torch.tensor([ids]), use_cache=False).last_hidden_state[0, -1]
    ours = backbone.engine.extend(backbone.engine.new_store(60), [ids[:-1]], ids[-1:])[0]
    assert (theirs - ours).abs().max() < 1e-4


def test_population_shares_what_it_can(capsys):
    found = run(capsys, "population", "--repetitions", "1")
    assert found["candidates"] == 32 and 1_000 <= found["tokens"] <= 1_024
    assert 1.0 <= found["heads_cost_ratio"] <= 1.05
    assert found["svf_passes"] == pytest.approx(found["svf_s"] / found["full_s"], rel=0.02)


def test_an_unknown_bench_is_refused(capsys):
    with pytest.raises(SystemExit) as caught:
        bench.command(["nothing"])
    assert caught.value.code == 2 and "decision" in capsys.readouterr().err
