"""The real SmolLM2 against transformers, other architectures, 500 random transcripts, and 30,000 tokens."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from core.backbone import load_backbone, shapes
from core.backbone.base import Rendered
from core.backbone.huggingface import HuggingFaceBackbone
from core.backbone.load import load_engine
from core.backbone.text import Tokens
from core.errors import ConfigError
from core.svf import SvfLayout, adapt, population_hidden
from core.types import Message

WORDS = ["the", "sum", "of", "17", "and", "4", "is", "not", "22", "because", "a", "plan", "names", "steps", ";", "你好"]
WORDS += ["x", "=", "3", "\n", "ACCEPT", "REVISE"]
SYSTEM = Message("system", "You choose who speaks next.")

# SmolLM2's h reaches 45, and float32 itself is 8e-5 away from float64 there (60 transcripts: transformers up to 5e-5,
# the decoder up to 8e-5), so two float32 passes with different kernels are up to 1.1e-4 apart. Smaller h: 1e-4.
TOLERANCE = 2e-4

# SHA-256 over the converted weights: the shipped heads are bound to it, so it must be the same on every machine.
EMBEDDED_HASH = "44222060143087a471950c05bda97827741305c8d07efc7f671460eb2f0c9615"


@pytest.fixture(scope="module")
def embedded(embedded_cache):
    return load_backbone("embedded", cache_dir=embedded_cache, device="cpu")


@pytest.fixture(scope="module")
def plain_model(embedded_cache):
    """transformers' own model of the same weights."""
    from transformers import AutoModel

    from core.backbone.install import converted_path

    return AutoModel.from_pretrained(converted_path(embedded_cache), dtype=torch.float32).eval()


def transcript(rng: random.Random, longest: int) -> Rendered:
    parts = [" ".join(rng.choices(WORDS, k=rng.randrange(1, longest))) for _ in range(rng.randrange(1, 5))]
    return Rendered("paper@1", (SYSTEM,), tuple(parts))


def in_one_pass(model, backbone: HuggingFaceBackbone, rendered: Rendered) -> np.ndarray:
    """Position -2 of the whole text in a single forward pass of transformers."""
    tokens = backbone.tokens(rendered)
    ids = [token for part in (*tokens.chunks, tokens.closing) for token in part]
    with torch.inference_mode():
        return model(torch.tensor([ids]), use_cache=False).last_hidden_state[0, -2].numpy()


def own_pass(backbone: HuggingFaceBackbone, rendered: Rendered) -> np.ndarray:
    """The same text in one pass of our own decoder, from nothing: the way plain transcripts are read."""
    tokens = backbone.tokens(rendered)
    backbone.cache.clear()
    whole = tuple(token for part in (*tokens.chunks, tokens.closing) for token in part)
    return backbone._reader.read(Tokens((whole,), ())).state[0].numpy().copy()


def test_the_embedded_model_is_read_at_its_constant_slot(embedded):
    state = embedded.hidden(Rendered("paper@1", (SYSTEM,), ("What is the capital of France?",)))
    assert (state.read_token.id, state.read_token.text) == (9_531, "istant")
    assert (embedded.hidden_size, embedded.context_length, embedded.name) == (576, 8_192, "SmolLM2-135M-Instruct")
    assert embedded.weights_hash == EMBEDDED_HASH


def test_chunks_are_the_chat_templates_own_text(embedded, embedded_cache):
    from transformers import AutoTokenizer

    from core.backbone.install import converted_path

    tokenizer = AutoTokenizer.from_pretrained(converted_path(embedded_cache))
    chat = [("system", "S"), ("user", "one"), ("assistant", "two")]
    tokens = embedded.tokens(Rendered("paper@1", tuple(Message(*pair) for pair in chat), ("three",)))
    ids = [token for part in (*tokens.chunks, tokens.closing) for token in part]
    messages = [{"role": role, "content": content} for role, content in [*chat, ("user", "three")]]
    theirs = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert tokenizer.decode(ids) == theirs


def test_reading_by_chunks_equals_transformers_in_one_pass(embedded, plain_model):
    rng = random.Random(1)
    for _ in range(8):
        rendered = transcript(rng, 80)
        difference = np.abs(embedded.hidden(rendered).vector - in_one_pass(plain_model, embedded, rendered)).max()
        assert difference <= TOLERANCE


def test_the_embedded_model_takes_svf(embedded):
    layout = SvfLayout.layer(embedded)
    assert layout.size == 3 * 576 + 192 * 2 + 2 * 576 == 3_264
    rendered = Rendered("paper@1", (SYSTEM,), ("What is 17*23+4?",))
    offsets = np.random.default_rng(0).normal(0, 0.1, (2, layout.size)).astype(np.float32)
    found = population_hidden(embedded, layout, offsets, rendered)
    assert np.abs(found[0] - adapt(embedded, layout, offsets[0]).hidden(rendered).vector).max() <= 1e-4
    assert np.abs(found[0] - embedded.hidden(rendered).vector).max() > 1e-2


def _save(folder: Path, model) -> Path:
    model.eval().save_pretrained(folder)
    (folder / "tokenizer.json").write_text(shapes.byte_text()._tokenizer.to_str())
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": shapes._TEMPLATE}))
    return folder


SMALL = {
    "vocab_size": 300,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
}


@pytest.mark.parametrize(
    ("kind", "changes", "fast"),
    [
        ("llama", {"attention_bias": True}, True),
        ("qwen2", {}, True),
        ("qwen3", {"tie_word_embeddings": True}, True),
        ("llama", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, False),
        ("mistral", {"sliding_window": 16}, False),
        ("gemma3_text", {"sliding_window": 16, "layer_types": ["sliding_attention"] * 2 + ["full_attention"]}, False),
        ("gpt_neox", {"num_key_value_heads": 4}, False),
    ],
)
def test_other_architectures_give_what_transformers_gives(tmp_path, kind, changes, fast):
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **{**SMALL, **changes}))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):  # they start as zeros, which would hide one that is left out
            torch.nn.init.normal_(parameter, 0, 0.1)
    folder = _save(tmp_path / "model", model)
    backbone = load_backbone(str(folder), cache_dir=tmp_path, device="cpu")
    assert (type(backbone.engine).__name__ == "Decoder") == fast
    rng = random.Random(2)
    for _ in range(4):
        rendered = transcript(rng, 10)
        inner = getattr(model, model.base_model_prefix)
        assert np.abs(backbone.hidden(rendered).vector - in_one_pass(inner, backbone, rendered)).max() <= 1e-4
    if kind != "gpt_neox":
        layout = SvfLayout.layer(backbone)
        zeros = np.zeros((1, layout.size), np.float32)
        moved = zeros + 0.2 * np.sin(np.arange(layout.size, dtype=np.float32))
        base = backbone.hidden(rendered).vector
        assert np.abs(population_hidden(backbone, layout, zeros, rendered)[0] - base).max() <= 1e-4
        assert np.abs(adapt(backbone, layout, moved[0]).hidden(rendered).vector - base).max() > 1e-4
        assert np.abs(backbone.hidden(rendered).vector - base).max() == 0
    else:
        with pytest.raises(ConfigError, match="no matrix"):
            SvfLayout.layer(backbone)


def test_a_folder_that_transformers_refuses_is_one_line(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "no_such_model"}')
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 16)
    with pytest.raises(ConfigError, match="cannot be used as the backbone") as caught:
        load_engine(tmp_path, torch.float32, "cpu")
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_500_random_transcripts_incremental_and_batched_decide_alike(embedded, plain_model):
    """Decisions of a fixed random head: whole pass, incremental and batched agree on every transcript.

    Against our own whole pass h is within 1e-4; against another implementation's within float32's own error.
    """
    rng = random.Random(3)
    head = np.random.default_rng(3).normal(0, 0.03, (10, embedded.hidden_size)).astype(np.float32)
    asked = [transcript(rng, 12) for _ in range(500)]
    whole = [in_one_pass(plain_model, embedded, one) for one in asked]
    own = [own_pass(embedded, one) for one in asked]
    embedded.cache.clear()
    grown = [embedded.hidden(one).vector for one in asked]
    embedded.cache.clear()
    embedded.batching = True
    try:
        batched = [state.vector for state in embedded.hidden_batch(asked)]
    finally:
        embedded.batching = False
    for one, plain, two, three in zip(whole, own, grown, batched, strict=True):
        assert np.abs(one - two).max() <= TOLERANCE and np.abs(one - three).max() <= TOLERANCE
        assert np.abs(plain - two).max() <= 1e-4 and np.abs(plain - three).max() <= 1e-4
        choices = {(int(np.argmax((head @ h)[:7])), int(np.argmax((head @ h)[7:]))) for h in (one, plain, two, three)}
        assert len(choices) == 1


_LONG = """
import sys, json
from pathlib import Path
from core.backbone import load_backbone
from core.backbone.base import Rendered
from core.backbone.text import Tokens

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024

load_backbone("shape:tiny", cache_dir=Path(sys.argv[2]), device="cpu").hidden(Rendered("p", (), ("warm",)))
before = peak()
backbone = load_backbone(sys.argv[1], cache_dir=Path(sys.argv[2]), device="cpu", dtype=sys.argv[3])
state = backbone.hidden(Rendered("p", (), ("0123456789" * 3000,)))
pairs = state.read_token.index * backbone.engine.new_store(1).nbytes
print(json.dumps({"used": peak() - before, "weights": backbone.engine.nbytes, "pairs": pairs,
                  "cache": backbone.cache.nbytes, "index": state.read_token.index}))
"""


def _long(shape: str, folder: Path, dtype: str) -> dict[str, int]:
    command = [sys.executable, "-c", _LONG, shape, str(folder), dtype]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=1_500)
    return json.loads(done.stdout.splitlines()[-1])


def _holds(facts: dict[str, int]) -> None:
    assert facts["index"] > 30_000
    assert facts["used"] <= 1.3 * (facts["weights"] + facts["pairs"]), facts
    assert facts["cache"] <= 256 * 1024 * 1024


@pytest.mark.timeout(600)
def test_30000_tokens_on_four_layers_stay_within_weights_and_memory(tmp_path):
    _holds(_long("shape:slim-4layer", tmp_path, "float32"))


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_30000_tokens_on_the_papers_shape_in_bfloat16(tmp_path):
    _holds(_long("shape:qwen3-0.6b", tmp_path, "bfloat16"))
