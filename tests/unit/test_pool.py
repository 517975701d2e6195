"""Pools: presets, YAML files, the auto pool; every mistake is named."""

import json

import pytest

from core.commands.pool import command
from core.errors import ConfigError, PoolInvalid
from core.pool import build_pool, load_pool, preset_names
from core.settings import load_settings


@pytest.fixture
def settings(tmp_path):
    return load_settings({"TRINITY_DATA_DIR": str(tmp_path), "OLLAMA_API_BASE": "http://127.0.0.1:9"}, cwd=tmp_path)


def test_the_embedded_pool_has_its_five_agents_in_order(settings):
    pool = load_pool("embedded", settings)
    assert [a.name for a in pool.agents] == ["smollm2", "smollm2-steps", "sympy", "agreement", "python"]
    assert pool.slot("sympy") == 3 and pool["sympy"].free and "facts and sums only" in pool.note


def test_the_paper_pool_has_seven_agents_that_say_which_key_is_missing(settings):
    pool = load_pool("paper", settings)
    assert len(pool.agents) == 7
    assert all("API_KEY" in why for why in pool.unusable().values()) and len(pool.unusable()) == 7


def test_a_key_makes_its_agents_usable(tmp_path):
    settings = load_settings({"TRINITY_DATA_DIR": str(tmp_path), "OPENAI_API_KEY": "sk-x"}, cwd=tmp_path)
    assert "gpt-5" not in load_pool("paper", settings).unusable()


def test_fingerprints_differ_between_agents_and_stay_the_same(settings):
    first, second = load_pool("paper", settings), load_pool("paper", settings)
    prints = [a.fingerprint for a in first.agents]
    assert prints == [a.fingerprint for a in second.agents] and len(set(prints)) == 7


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "mapping"),
        ({"name": "x"}, "at least one agent"),
        ({"name": "x", "agents": []}, "at least one agent"),
        ({"name": "x", "agents": "sympy"}, "list"),
        ({"name": "../x", "agents": [{"name": "s", "kind": "sympy"}]}, "lower-case"),
        ({"name": "x", "agents": [{"name": "s", "kind": "nope"}]}, "kind 'nope'"),
        ({"name": "x", "agents": [{"name": "s"}]}, "kind None"),
        ({"name": "x", "agents": ["s"]}, "mapping"),
        ({"name": "x", "agents": [{"name": "s", "kind": "sympy"}] * 2}, "twice"),
        ({"name": "x", "agents": [{"name": "s", "kind": "sympy", "colour": 1}]}, "colour"),
        ({"name": "x", "agents": [{"name": "s", "kind": "llm"}]}, "model"),
        ({"name": "x", "stray": 1, "agents": [{"name": "s", "kind": "sympy"}]}, "'stray'"),
        ({"name": "x", "agents": [{"name": "s", "kind": "llm", "model": "openai/x", "api_key": "sk-abc"}]}, "api_key"),
    ],
)
def test_a_malformed_pool_is_refused_with_its_fault(settings, data, said):
    with pytest.raises(PoolInvalid, match=said):
        build_pool(data, settings)


def test_unknown_name_lists_the_known_ones(settings):
    with pytest.raises(PoolInvalid, match="embedded"):
        load_pool("nope", settings)
    with pytest.raises(PoolInvalid):
        load_pool("../../etc/passwd", settings)
    assert {"embedded", "paper", "auto"} <= set(preset_names())


def test_yaml_that_runs_nothing(settings, tmp_path):
    path = tmp_path / "evil.yaml"
    path.write_text("!!python/object/apply:os.system ['true']")
    with pytest.raises(PoolInvalid, match="cannot be read"):
        load_pool(str(path), settings)


def test_auto_follows_the_keys(tmp_path, settings):
    with pytest.raises(PoolInvalid, match="OPENAI_API_KEY"):
        load_pool("auto", settings)
    env = {
        "TRINITY_DATA_DIR": str(tmp_path),
        "MISTRAL_API_KEY": "m",
        "OPENAI_API_KEY": "o",
        "OLLAMA_API_BASE": "http://127.0.0.1:9",
    }
    keyed = load_pool("auto", load_settings(env, cwd=tmp_path))
    assert [a.name.split("-")[0] for a in keyed.agents] == ["gpt", "gpt", "mistral", "mistral"]


def test_freeze_writes_a_pool_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TRINITY_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("OLLAMA_API_BASE", "http://127.0.0.1:9")
    monkeypatch.setenv("MISTRAL_API_KEY", "secret-key-value")
    assert command(["freeze", "auto", "--name", "mine"]) == 0
    assert "secret-key-value" not in (tmp_path / "pools" / "mine.yaml").read_text()
    with pytest.raises(ConfigError, match="already"):
        command(["freeze", "auto", "--name", "mine"])
    with pytest.raises(PoolInvalid, match="lower-case"):
        command(["freeze", "auto", "--name", "../evil"])
    capsys.readouterr()
    assert command(["show", "mine", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [a["unusable"] for a in shown["agents"]] == [None, None]
    assert command(["list", "--json"]) == 0 and "mine" in json.loads(capsys.readouterr().out.splitlines()[-1])["pools"]


def test_every_model_of_the_auto_pool_has_a_price(tmp_path):
    from core.calls.budget import price_of
    from core.settings import PROVIDER_KEYS

    env = dict.fromkeys(PROVIDER_KEYS, "k") | {
        "TRINITY_DATA_DIR": str(tmp_path),
        "OLLAMA_API_BASE": "http://127.0.0.1:9",
    }
    pool = load_pool("auto", load_settings(env, cwd=tmp_path))
    assert [a.name for a in pool.agents if price_of(a) is None] == [] and not pool.unusable()


def test_every_model_of_the_paper_pool_has_a_price(settings):
    from core.calls.budget import price_of

    assert [a.name for a in load_pool("paper", settings).agents if price_of(a) is None] == []


@pytest.mark.parametrize(
    "text",
    [
        "name: 2020-13-45",
        "agents: " + "[" * 3000,
        "name: x\nagents: [{name: a, kind: llm, model: openai/x, max_tokens: " + "9" * 5000 + "}]",
        "name: x\nagents: [{name: a, kind: [llm]}]",
        "name: x\nagents: [{name: a, kind: llm, model: [1]}]",
        "\xff",
        "a: b: c",
    ],
)
def test_any_file_is_a_pool_or_one_clear_line(settings, tmp_path, text):
    path = tmp_path / "odd.yaml"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(PoolInvalid):
        load_pool(str(path), settings)


def test_a_device_or_a_folder_is_no_pool_file(settings, tmp_path):
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    (tmp_path / "folder.yaml").mkdir()
    for name in ("zero.yaml", "folder.yaml", "absent.yaml"):
        with pytest.raises(PoolInvalid, match="plain file"):
            load_pool(str(tmp_path / name), settings)
