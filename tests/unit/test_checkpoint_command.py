"""`trinity checkpoints`, the public vector and routing fixtures, on a backbone without weights."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from core.backbone.fake import FakeBackbone
from core.checkpoint import load_checkpoint, save_checkpoint
from core.checkpoint.fixture import load_cases, load_recorded, run_fixture
from core.checkpoint.published import LENGTH, OFFSETS, SLOTS, import_vector, read_vector
from core.commands.checkpoints import command
from core.errors import CheckpointInvalid, ConfigError
from core.transcript import protocol_id, render_messages
from core.types import Message, Role
from tests.unit.test_checkpoint import BACKBONE, make

VECTOR = np.random.default_rng(0).standard_normal(LENGTH) * 0.01


@pytest.fixture
def data_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("TRINITY_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("TRINITY_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("core.checkpoint.files.SHIPPED_CHECKPOINTS", tmp_path / "shipped")
    monkeypatch.setattr("core.commands.checkpoints.SHIPPED_CHECKPOINTS", tmp_path / "shipped")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data"


def run(capsys, *argv):
    code = command([*argv, "--json"])
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])


CASES = [
    ([("user", "What is 2 + 2?")], "sum"),
    ([("user", "Plan a trip."), ("assistant", "Go by train.")], "plan"),
    ([("system", "Route."), ("user", "Write a poem about rain.")], "poem"),
]


def fixture_files(folder, checkpoint, *, wrong=0):
    """A fixture recorded with `checkpoint` itself; the first `wrong` cases expect another agent."""
    cases, logits = [], []
    for number, (messages, name) in enumerate(CASES):
        state = BACKBONE.hidden(render_messages([Message(*m) for m in messages], BACKBONE))
        z = checkpoint.head.logits(checkpoint.theta, state.vector)
        agent, role = int(z[:2].argmax()), int(z[2:].argmax())
        expected = {"agent_id": 1 - agent if number < wrong else agent, "role_id": role}
        entry = {"id": name, "messages": [{"role": r, "content": c} for r, c in messages], "expected": expected}
        cases.append({**entry, "tags": ["t"], "notes": ""})
        rounded = [round(float(x), 6) for x in z]
        logits.append(
            {
                "id": name,
                "agent_logits_rounded": rounded[:2],
                "role_logits_rounded": rounded[2:],
                "token_count": state.read_token.index + 2,
            }
        )
    (folder / "cases.json").write_text(json.dumps({"schema_version": 1, "cases": cases, "coverage": {}}))
    (folder / "logits.json").write_text(json.dumps({"schema_version": 1, "cases": logits}))
    return folder / "cases.json", folder / "logits.json"


# ------------------------------------------------------------- the public vector


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", ["npy", "safetensors"])
def test_the_vector_keeps_its_values_slots_and_rows(tmp_path, dtype, form):
    values = VECTOR.astype(dtype)
    path = tmp_path / f"v.{form}"
    if form == "npy":
        np.save(path, values)
    else:
        save_file({"anything": values}, path)
    checkpoint = import_vector(path, name="v", embedding="separate")
    assert checkpoint.theta.dtype == dtype
    assert np.array_equal(checkpoint.svf_offsets, values[:9216])
    assert np.array_equal(checkpoint.theta, values[9216:])
    assert checkpoint.head.n_params == 10_240
    assert checkpoint.svf.names[0] == "embed_tokens.weight"
    assert checkpoint.svf.names[1:4] == tuple(f"layers.26.self_attn.{p}_proj.weight" for p in "qkv")
    assert checkpoint.svf.names[-2:] == ("layers.26.mlp.down_proj.weight", "lm_head.weight")
    assert [name for name, _ in checkpoint.agents] == list(SLOTS)
    assert checkpoint.roles == (Role.WORKER, Role.THINKER, Role.VERIFIER)
    h = np.random.default_rng(1).standard_normal(1024)
    rows = values[9216:].reshape(10, 1024) @ h
    agents, roles = checkpoint.logits(h)
    assert np.allclose(agents, rows[:7])
    assert np.allclose(roles, rows[[8, 7, 9]])  # thinker, worker, verifier


def test_the_embedding_mode_chooses_the_protocol(tmp_path):
    np.save(tmp_path / "v.npy", VECTOR)
    for embedding, protocol in (("tied", "authors"), ("separate", "fixture")):
        checkpoint = import_vector(tmp_path / "v.npy", name="v", embedding=embedding)
        assert checkpoint.svf.mode == embedding
        assert checkpoint.protocol == protocol_id(protocol)
    assert import_vector(tmp_path / "v.npy", name="v", embedding="tied", protocol="paper").protocol == protocol_id(
        "paper"
    )


def test_big_endian_and_column_order_are_the_same_numbers(tmp_path):
    np.save(tmp_path / "v.npy", VECTOR.astype(">f4"))
    assert np.array_equal(read_vector(tmp_path / "v.npy"), VECTOR.astype(np.float32))


def test_import_show_export_and_back(data_dir, tmp_path, capsys):
    np.save(tmp_path / "v.npy", VECTOR)
    code, data = run(capsys, "import", "--vector", "v.npy", "--embedding", "separate")
    assert code == 0
    assert data["name"] == "published-separate"
    assert (data_dir / "checkpoints" / "published-separate.safetensors").is_file()
    code, data = run(capsys, "show", "published-separate")
    assert data["svf_offsets"] == OFFSETS
    assert data["parameters"] == 10_240
    assert data["licence"].startswith("not stated")
    assert run(capsys, "export", "published-separate", "out.npy", "--vector")[0] == 0
    assert np.array_equal(np.load(tmp_path / "out.npy"), VECTOR)
    assert run(capsys, "export", "published-separate", "out.safetensors")[0] == 0
    assert run(capsys, "import", "out.safetensors", "--name", "again")[0] == 0
    names = [row["name"] for row in run(capsys, "list")[1]["checkpoints"]]
    assert names == ["again", "published-separate"]
    hashes = {row["theta_sha256"] for row in run(capsys, "list")[1]["checkpoints"]}
    assert len(hashes) == 1


def test_nothing_is_replaced_without_force(data_dir, tmp_path, capsys):
    save_checkpoint(make(), tmp_path / "x.safetensors")
    assert run(capsys, "import", "x.safetensors")[0] == 0
    with pytest.raises(ConfigError, match="--force"):
        command(["import", "x.safetensors"])
    assert run(capsys, "import", "x.safetensors", "--force")[0] == 0
    with pytest.raises(ConfigError, match="--force"):
        command(["export", "test-head", "x.safetensors"])
    with pytest.raises(ConfigError, match="cannot be written"):
        command(["export", "test-head", "x.safetensors/below.safetensors"])
    with pytest.raises(CheckpointInvalid, match="name"):
        command(["import", "x.safetensors", "--name", "../x"])


def test_list_shows_a_refused_file_beside_the_good_ones(data_dir, tmp_path, capsys):
    save_checkpoint(make(name="good"), tmp_path / "shipped" / "good.safetensors")
    (data_dir / "checkpoints").mkdir(parents=True)
    (data_dir / "checkpoints" / "bad.safetensors").write_bytes(b"PK\x03\x04 etc.")
    rows = run(capsys, "list")[1]["checkpoints"]
    assert [(row["name"], row["origin"]) for row in rows] == [("bad", "own"), ("good", "shipped")]
    assert "zip" in rows[0]["refused"]
    assert command(["list"]) == 0
    text = capsys.readouterr().out
    assert "refused" in text
    assert "alpha, béta" in text


def test_an_empty_list_says_so(data_dir, capsys):
    assert command(["list"]) == 0
    assert capsys.readouterr().out == "There are no checkpoints yet.\n"


# ------------------------------------------------------------- verify


@pytest.fixture
def backbone(monkeypatch):
    asked = []

    def load(name, **options):
        asked.append(name)
        return BACKBONE

    monkeypatch.setattr("core.backbone.load_backbone", load)
    return asked


def test_verify_without_more_checks_the_file(data_dir, tmp_path, capsys):
    save_checkpoint(make(), tmp_path / "x.safetensors")
    code, data = run(capsys, "verify", "x.safetensors")
    assert code == 0
    assert data["sound"]
    (tmp_path / "y.safetensors").write_bytes((tmp_path / "x.safetensors").read_bytes()[:-1])
    with pytest.raises(CheckpointInvalid):
        command(["verify", "y.safetensors"])
    with pytest.raises(ConfigError, match="--fixture"):
        command(["verify", "x.safetensors", "--logits", "l.json"])


def test_verify_runs_a_fixture_and_counts_agreement(data_dir, tmp_path, capsys, backbone):
    save_checkpoint(make(), tmp_path / "x.safetensors")
    fixture_files(tmp_path, make())
    code, data = run(capsys, "verify", "x.safetensors", "--fixture", "cases.json", "--logits", "logits.json")
    assert code == 0
    assert backbone == ["fake"]
    report = data["fixture"]
    assert (report["cases"], report["agreeing"], report["token_counts_agreeing"]) == (3, 3, 3)
    assert report["largest_logit_difference"] < 1e-5
    assert report["smallest_agent_margin"] == min(r["agent_margin"] for r in report["results"]) > 0


def test_verify_reports_disagreement_in_text_and_exit_code(data_dir, tmp_path, capsys, backbone):
    save_checkpoint(make(), tmp_path / "x.safetensors")
    fixture_files(tmp_path, make(), wrong=1)
    assert command(["verify", "x.safetensors", "--fixture", "cases.json"]) == 1
    text = capsys.readouterr().out
    assert "2 of 3 agree (agents 2, roles 3)" in text
    assert "not" in text.splitlines()[3]


def test_verify_against_another_backbone_is_refused(data_dir, tmp_path, monkeypatch):
    save_checkpoint(make(), tmp_path / "x.safetensors")
    monkeypatch.setattr("core.backbone.load_backbone", lambda name, **options: FakeBackbone(hidden_size=64))
    with pytest.raises(CheckpointInvalid, match="made for the backbone"):
        command(["verify", "x.safetensors", "--backbone", "other"])


def test_margins_are_the_lead_over_the_second_best(tmp_path):
    checkpoint = make()
    cases, logits = fixture_files(tmp_path, checkpoint)
    report = run_fixture(checkpoint, BACKBONE, load_cases(cases), load_recorded(logits))
    for result, recorded in zip(report.results, load_recorded(logits).values(), strict=True):
        first, second = sorted(recorded.logits[:2], reverse=True)
        assert result.agent_margin == pytest.approx(first - second, abs=1e-5)
        first, second, _ = sorted(recorded.logits[2:], reverse=True)
        assert result.role_margin == pytest.approx(first - second, abs=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema_version": 2, "cases": [{}]}',
        '{"schema_version": 1}',
        '{"schema_version": 1, "cases": []}',
        '{"schema_version": 1, "cases": [1]}',
        '{"schema_version": 1, "cases": [{"id": "a"}]}',
        '{"schema_version": 1, "cases": [{"id": "a", "messages": [], "expected": {"agent_id": 0, "role_id": 0}}]}',
        '{"schema_version": 1, "cases": [{"id": 1, "messages": [{"role": "user", "content": "x"}], '
        '"expected": {"agent_id": 0, "role_id": 0}}]}',
        '{"schema_version": 1, "cases": [{"id": "a", "messages": [{"role": "user", "content": "x"}], '
        '"expected": {"agent_id": -1, "role_id": 0}}]}',
        '{"schema_version": 1, "cases": [{"id": "a", "messages": [{"role": "user", "content": null}], '
        '"expected": {"agent_id": 0, "role_id": 0}}]}',
    ],
)
def test_a_malformed_fixture_is_refused(tmp_path, text):
    (tmp_path / "cases.json").write_text(text)
    with pytest.raises(CheckpointInvalid):
        load_cases(tmp_path / "cases.json")
    if text != "":
        with pytest.raises(CheckpointInvalid):
            load_recorded(tmp_path / "cases.json")


def test_a_fixture_for_more_rows_than_the_head_has_is_refused(tmp_path):
    cases, _ = fixture_files(tmp_path, make())
    data = json.loads(cases.read_text())
    data["cases"][0]["expected"]["agent_id"] = 4
    cases.write_text(json.dumps(data))
    with pytest.raises(CheckpointInvalid, match=r"agent 4.*the head has 2"):
        run_fixture(make(), BACKBONE, load_cases(cases))


def test_recorded_logits_of_another_head_are_refused(tmp_path):
    cases, logits = fixture_files(tmp_path, make())
    recorded = json.loads(logits.read_text())
    recorded["cases"][0]["agent_logits_rounded"] = [1.0]
    logits.write_text(json.dumps(recorded))
    with pytest.raises(CheckpointInvalid, match="5 logits; 4"):
        run_fixture(make(), BACKBONE, load_cases(cases), load_recorded(logits))


def test_two_cases_of_one_id_are_refused(tmp_path):
    cases, _ = fixture_files(tmp_path, make())
    data = json.loads(cases.read_text())
    data["cases"][1]["id"] = data["cases"][0]["id"]
    cases.write_text(json.dumps(data))
    with pytest.raises(CheckpointInvalid, match="same id"):
        load_cases(cases)


def test_a_saved_file_loads_under_the_name_it_was_given(data_dir, tmp_path, capsys):
    save_checkpoint(make(), tmp_path / "x.safetensors")
    run(capsys, "import", "x.safetensors", "--name", "better")
    assert load_checkpoint(data_dir / "checkpoints" / "better.safetensors").name == "better"
