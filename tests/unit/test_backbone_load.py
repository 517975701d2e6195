"""From a name to a backbone: what works, and one clear line for what does not."""

from __future__ import annotations

import json
import struct

import pytest
import torch
from safetensors.torch import load_file, save_file

from core.backbone import load_backbone, shapes
from core.backbone.base import Rendered
from core.backbone.shape import unsupported
from core.backbone.weights import weights_hash
from core.errors import BackboneMissing, ConfigError

TINY = shapes.shape_config("tiny")


def save_tiny(folder, **changes):
    """`shape:tiny` as a model folder with its tokenizer."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**TINY, **changes}))
    save_file(dict(shapes.random_weights(TINY, torch.float32)), folder / "model.safetensors")
    (folder / "tokenizer.json").write_text(shapes.byte_text()._tokenizer.to_str())
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": shapes._TEMPLATE}))
    return folder


def load(name, tmp_path, **options):
    return load_backbone(str(name), cache_dir=tmp_path / "cache", device="cpu", **options)


def test_a_folder_gives_what_the_shape_gives(tmp_path):
    one = Rendered("p", (), ("Is it 3?",))
    local, shape = load(save_tiny(tmp_path / "model"), tmp_path), load("shape:tiny", tmp_path)
    assert local.hidden(one).vector.tobytes() == shape.hidden(one).vector.tobytes()
    assert local.hidden_size == 64 and local.context_length == 4_096 and len(local.weights_hash) == 64


def test_the_hash_is_of_the_weights_alone(tmp_path):
    folder = save_tiny(tmp_path / "model")
    file, cache = folder / "model.safetensors", tmp_path / "cache"
    first = weights_hash(folder, cache)
    tensors = load_file(file)
    save_file({f"model.{name}": t.clone() for name, t in tensors.items()} | {"lm_head.weight": torch.ones(2)}, file)
    assert weights_hash(folder, cache) == first
    names = sorted(tensors)
    file.unlink()
    save_file({name: tensors[name].clone() for name in names[:9]}, folder / "a.safetensors")
    save_file({name: tensors[name].clone() for name in names[9:]}, folder / "b.safetensors")
    assert weights_hash(folder, cache) == first
    changed = tensors["norm.weight"].clone()
    changed[0] += 1e-3
    save_file({**{n: tensors[n].clone() for n in names[9:]}, "norm.weight": changed}, folder / "b.safetensors")
    assert weights_hash(folder, cache) != first


def test_the_hash_is_remembered_and_a_read_only_cache_does_not_matter(tmp_path, monkeypatch):
    from core.backbone import weights

    folder = save_tiny(tmp_path / "model")
    first = weights_hash(folder, tmp_path / "cache")
    monkeypatch.setattr(weights, "_hash", lambda files: pytest.fail("hashed again"))
    assert weights_hash(folder, tmp_path / "cache") == first
    monkeypatch.undo()
    (tmp_path / "blocked").write_text("")
    assert weights_hash(folder, tmp_path / "blocked") == first


def test_shapes_are_the_same_every_time_and_unknown_ones_are_listed(tmp_path):
    one = Rendered("p", (), ("x",))
    first, second = load("shape:tiny", tmp_path), load("shape:tiny", tmp_path)
    assert first.hidden(one).vector.tobytes() == second.hidden(one).vector.tobytes()
    assert first.weights_hash == second.weights_hash
    with pytest.raises(ConfigError, match=r"no shape 'gpt'; there are qwen3-0\.6b"):
        load("shape:gpt", tmp_path)


@pytest.mark.parametrize("name", ["", "nowhere", "./nowhere", "/nowhere/model", "no/such/name"])
def test_a_name_that_is_nothing_says_what_names_there_are(tmp_path, name):
    with pytest.raises(BackboneMissing, match=r"folder|owner/name"):
        load(name, tmp_path)


def test_the_embedded_model_absent_names_the_command(tmp_path):
    with pytest.raises(BackboneMissing, match="Run `trinity backbone install`"):
        load("embedded", tmp_path)


def test_an_id_that_cannot_be_fetched_is_one_line(tmp_path, monkeypatch):
    import huggingface_hub

    def fail(name, *, local_files_only=False, **options):
        from huggingface_hub.errors import LocalEntryNotFoundError

        assert set(options["allow_patterns"]) == {"*.json", "*.safetensors", "*.jinja"}
        raise LocalEntryNotFoundError("not cached") if local_files_only else ConnectionError("no route\nto host")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(BackboneMissing, match=r"could not be fetched \(no route") as caught:
        load("Qwen/Qwen3-0.6B", tmp_path)
    assert "\n" not in str(caught.value)


def test_device_and_dtype_are_checked(tmp_path):
    with pytest.raises(ConfigError, match="not available here"):
        load_backbone("shape:tiny", cache_dir=tmp_path, device="tpu")
    with pytest.raises(ConfigError, match="TRINITY_DTYPE"):
        load("shape:tiny", tmp_path, dtype="float16")
    low = load("shape:tiny", tmp_path, dtype="bfloat16")
    state = low.hidden(Rendered("p", (), ("x",)))
    assert low.dtype == state.dtype == "bfloat16" and state.vector.dtype.name == "float32"


def cut(file):
    file.write_bytes(file.read_bytes()[:-100])


def no_json(file):
    file.write_bytes(struct.pack("<Q", 10) + b"not json!!" + b"\0" * 100)


def giant_header(file):
    file.write_bytes(struct.pack("<Q", 1 << 60) + b"{}")


@pytest.mark.parametrize("damage", [cut, no_json, giant_header, lambda file: file.write_bytes(b"")])
def test_damaged_weights_are_one_line(tmp_path, damage):
    folder = save_tiny(tmp_path / "model")
    damage(folder / "model.safetensors")
    with pytest.raises(ConfigError, match="Fetch the model again"):
        load(folder, tmp_path)


def test_weights_that_do_not_fit_the_config_are_named(tmp_path):
    with pytest.raises(ConfigError, match=r"q_proj is \(64, 64\), config.json says \(128, 64\)"):
        load(save_tiny(tmp_path / "wide", num_attention_heads=8), tmp_path)
    with pytest.raises(ConfigError, match=r"layers\.4"):
        load(save_tiny(tmp_path / "deep", num_hidden_layers=5), tmp_path)
    with pytest.raises(ConfigError, match="is unknown"):
        load(save_tiny(tmp_path / "flat", num_hidden_layers=3), tmp_path)
    (tmp_path / "bare").mkdir()
    save_tiny(tmp_path / "bare")
    (tmp_path / "bare" / "config.json").write_text("[]")
    with pytest.raises(ConfigError, match=r"config\.json is not a JSON object"):
        load(tmp_path / "bare", tmp_path)


def test_pickles_are_not_read(tmp_path):
    folder = save_tiny(tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="Only that format is read"):
        load(folder, tmp_path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model_type": "gemma3_text"}, "model type"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "scaled rotary"),
        ({"use_sliding_window": True}, "sliding"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding"),
        ({"hidden_act": "gelu"}, "activation gelu"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "partial"),
        ({"quantization_config": {}}, "quantised"),
        ({}, None),
    ],
)
def test_what_the_fast_forward_pass_does_not_know(change, reason):
    found = unsupported({**TINY, **change})
    assert (found is None) if reason is None else (found is not None and reason in found)
