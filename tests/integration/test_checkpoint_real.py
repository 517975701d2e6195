"""`trinity checkpoints verify` on the real coordinator model, with singular-value offsets applied."""

import json

import numpy as np
import pytest

from core.backbone import load_backbone
from core.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from core.commands.checkpoints import command
from core.heads import HeadSpec, build_head
from core.svf import SvfLayout
from core.team import with_svf
from core.transcript import protocol_id, render_messages
from core.types import Message

PROMPTS = {"sum": "What is 17 * 23?", "capital": "What is the capital of France?", "poem": "Two lines about rain."}


@pytest.fixture(scope="module")
def backbone(embedded_cache):
    return load_backbone("embedded", cache_dir=embedded_cache)


def checkpoint(backbone, **changes):
    spec = HeadSpec("linear", backbone.hidden_size, 3)
    rng = np.random.default_rng(3)
    values = {
        "name": "scaled",
        "protocol": protocol_id("fixture"),
        "backbone": backbone.name,
        "weights_hash": backbone.weights_hash,
        "agents": (("a", ""), ("b", ""), ("c", "")),
        "spec": spec,
        "theta": rng.standard_normal(build_head(spec).n_params).astype(np.float32),
    }
    return Checkpoint(**{**values, **changes})


def scaled(backbone):
    layout = SvfLayout.layer(backbone)
    offsets = np.random.default_rng(4).uniform(-0.4, 0.4, layout.size).astype(np.float32)
    return checkpoint(backbone, svf=layout, svf_offsets=offsets)


def record(folder, head, reader):
    """A fixture of what `head` chooses when `reader` reads: cases and logits files."""
    cases, logits = [], []
    for name, text in PROMPTS.items():
        state = reader.hidden(render_messages([Message("user", text)], reader))
        z = head.head.logits(np.asarray(head.theta), state.vector).tolist()
        expected = {"agent_id": int(np.argmax(z[:3])), "role_id": int(np.argmax(z[3:]))}
        cases.append({"id": name, "messages": [{"role": "user", "content": text}], "expected": expected})
        entry = {"id": name, "agent_logits_rounded": z[:3], "role_logits_rounded": z[3:]}
        logits.append({**entry, "token_count": state.read_token.index + 2})
    (folder / "cases.json").write_text(json.dumps({"schema_version": 1, "cases": cases}))
    (folder / "logits.json").write_text(json.dumps({"schema_version": 1, "cases": logits}))


def verify(folder, capsys):
    files = ["--fixture", str(folder / "cases.json"), "--logits", str(folder / "logits.json")]
    code = command(["verify", str(folder / "x.safetensors"), *files, "--json"])
    return code, json.loads(capsys.readouterr().out.splitlines()[-1])["fixture"]


def test_verify_reads_with_the_offsets_of_the_checkpoint(backbone, tmp_path, capsys):
    head = scaled(backbone)
    save_checkpoint(head, tmp_path / "x.safetensors")
    record(tmp_path, head, with_svf(backbone, load_checkpoint(tmp_path / "x.safetensors")))
    code, report = verify(tmp_path, capsys)
    assert code == 0
    assert report["agreeing"] == report["token_counts_agreeing"] == 3
    assert report["largest_logit_difference"] < 1e-3
    # The same head without its offsets computes something else: they were applied.
    save_checkpoint(checkpoint(backbone), tmp_path / "x.safetensors")
    assert verify(tmp_path, capsys)[1]["largest_logit_difference"] > 1e-2
