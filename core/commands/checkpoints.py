"""`trinity checkpoints list|show|import|export|verify`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.assets import SHIPPED_CHECKPOINTS
from core.checkpoint.files import find_checkpoint, known_checkpoints, load_checkpoint, own_path, save_checkpoint
from core.errors import CheckpointInvalid, ConfigError
from core.settings import Settings, load_settings
from core.terminal import one_line, plain

if TYPE_CHECKING:
    from core.backbone.base import Backbone
    from core.checkpoint.fixture import FixtureReport
    from core.checkpoint.record import Checkpoint


def command(argv: list[str]) -> int:
    """Run `trinity checkpoints`."""
    args = _parser().parse_args(argv)
    settings = load_settings()
    code, data, text = args.run(args, settings)
    print(json.dumps(data) if args.json else plain(text))
    return int(code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="trinity checkpoints", description="Heads: what is there, in and out, checks."
    )
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true", help="one JSON object on the last line")
    commands = parser.add_subparsers(required=True, metavar="list|show|import|export|verify")

    def add(name: str, run: Any, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text, parents=[shared])
        sub.set_defaults(run=run)
        return sub

    add("list", _list, "all checkpoints, own and shipped")
    add("show", _show, "everything a checkpoint says about itself").add_argument("name", help="a name or a file")
    sub = add("import", _import, "bring in a checkpoint file, or the paper's public vector")
    source = sub.add_mutually_exclusive_group(required=True)
    source.add_argument("file", nargs="?", type=Path, help="a checkpoint file")
    source.add_argument("--vector", type=Path, help="the 19,456 floats for Qwen3-0.6B, .npy or safetensors")
    sub.add_argument("--embedding", choices=("tied", "separate"), default="tied", help="which offsets rule it")
    sub.add_argument("--protocol", choices=("paper", "authors", "fixture"), help="how the vector's transcripts read")
    sub.add_argument("--name", help="name to keep it under")
    sub.add_argument("--force", action="store_true", help="replace a checkpoint of this name")
    sub = add("export", _export, "write a checkpoint to a file")
    sub.add_argument("name", help="a name or a file")
    sub.add_argument("target", type=Path, help="file to write")
    sub.add_argument("--vector", action="store_true", help="only offsets and head, as one flat .npy")
    sub.add_argument("--force", action="store_true", help="replace the file")
    sub = add("verify", _verify, "check a checkpoint strictly, and with --fixture what it chooses")
    sub.add_argument("name", help="a name or a file")
    sub.add_argument("--fixture", type=Path, help="routing fixture: prompts with expected agent and role")
    sub.add_argument("--logits", type=Path, help="the fixture's recorded logits")
    sub.add_argument("--backbone", help="coordinator model; by default the one the checkpoint names")
    return parser


def _list(args: argparse.Namespace, settings: Settings) -> tuple[int, dict[str, Any], str]:
    rows = [_row(name, path) for name, path in sorted(known_checkpoints(settings.data_dir).items())]
    lines = []
    for row in rows:
        if "refused" in row:
            lines.append(f"{one_line(row['name']):<24} refused: {one_line(row['refused'])}")
        else:
            agents = one_line(", ".join(row["agents"]))
            lines.append(
                f"{one_line(row['name']):<24} {row['kind']:<14} {row['parameters']:>7} parameters  "
                f"{one_line(row['backbone'])}  [{agents}]  {row['origin']}"
            )
    return 0, {"checkpoints": rows}, "\n".join(lines) or "There are no checkpoints yet."


def _row(name: str, path: Path) -> dict[str, Any]:
    origin = "shipped" if path.parent == SHIPPED_CHECKPOINTS else "own"
    try:
        return {**_facts(load_checkpoint(path)), "name": name, "origin": origin}
    except CheckpointInvalid as error:
        return {"name": name, "origin": origin, "refused": str(error)}


def _facts(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "name": checkpoint.name,
        "kind": checkpoint.spec.kind,
        "parameters": checkpoint.head.n_params,
        "svf_offsets": checkpoint.svf.size if checkpoint.svf else 0,
        "backbone": checkpoint.backbone,
        "protocol": checkpoint.protocol,
        "agents": [name for name, _ in checkpoint.agents],
        "theta_sha256": checkpoint.theta_sha256,
    }


def _show(args: argparse.Namespace, settings: Settings) -> tuple[int, dict[str, Any], str]:
    path = find_checkpoint(args.name, settings.data_dir)
    checkpoint = load_checkpoint(path)
    calibrated = checkpoint.calibration is not None
    data = {**_facts(checkpoint), **checkpoint.metadata(), "calibrated": calibrated, "file": str(path)}
    shown = {**data, "agents": ", ".join(name for name, _ in checkpoint.agents), "roles": ", ".join(checkpoint.roles)}
    shown["svf"] = f"{checkpoint.svf.kind}, {checkpoint.svf.mode}" if checkpoint.svf else "none"
    shown["weights_hash"] = checkpoint.weights_hash or "not recorded: bound by the model's name"
    width = max(map(len, shown))
    return 0, data, "\n".join(f"{key:<{width}}  {one_line(value)}" for key, value in shown.items())


def _import(args: argparse.Namespace, settings: Settings) -> tuple[int, dict[str, Any], str]:
    from dataclasses import replace

    if args.vector:
        from core.checkpoint.published import import_vector

        name = args.name or f"published-{args.embedding}"
        checkpoint = import_vector(args.vector, name=name, embedding=args.embedding, protocol=args.protocol or "")
    else:
        checkpoint = load_checkpoint(args.file)
        if args.name:
            checkpoint = replace(checkpoint, name=args.name)
    target = own_path(checkpoint.name, settings.data_dir)
    _save(checkpoint, target, args.force)
    data = {**_facts(checkpoint), "file": str(target)}
    return 0, data, f"{checkpoint.name} is in {one_line(target)}.\nUse it: trinity ask --checkpoint {checkpoint.name} …"


def _export(args: argparse.Namespace, settings: Settings) -> tuple[int, dict[str, Any], str]:
    checkpoint = load_checkpoint(find_checkpoint(args.name, settings.data_dir))
    if args.vector:
        from core.checkpoint.published import export_vector
        from core.files import atomic_write

        _refuse_overwrite(args.target, args.force)
        _writing(args.target, lambda: atomic_write(args.target, export_vector(checkpoint)))
    else:
        _save(checkpoint, args.target, args.force)
    data = {**_facts(checkpoint), "file": str(args.target)}
    return 0, data, f"{checkpoint.name} is written to {args.target}."


def _save(checkpoint: Checkpoint, target: Path, force: bool) -> None:
    _refuse_overwrite(target, force)
    _writing(target, lambda: save_checkpoint(checkpoint, target))


def _refuse_overwrite(target: Path, force: bool) -> None:
    if target.exists() and not force:
        raise ConfigError(f"{target} is there already. Choose another name, or add --force to replace it.")


def _writing(target: Path, write: Any) -> None:
    try:
        write()
    except OSError as error:
        raise ConfigError(f"{target} cannot be written ({error.strerror}).") from error


def _verify(args: argparse.Namespace, settings: Settings) -> tuple[int, dict[str, Any], str]:
    path = find_checkpoint(args.name, settings.data_dir)
    checkpoint = load_checkpoint(path)
    data: dict[str, Any] = {**_facts(checkpoint), "file": str(path), "sound": True}
    lines = [f"{checkpoint.name}: sound, {checkpoint.head.n_params} parameters, sha256 {checkpoint.theta_sha256[:16]}"]
    if args.logits and not args.fixture:
        raise ConfigError("--logits belongs to a fixture; give --fixture as well.")
    if not (args.fixture or args.backbone):
        return 0, data, lines[0]
    backbone = _backbone(args.backbone, checkpoint, settings)
    lines.append(f"backbone {one_line(backbone.name)} ({backbone.dtype}): the one it was made for")
    data["backbone_agrees"] = True
    if not args.fixture:
        return 0, data, "\n".join(lines)
    report = _run(args, checkpoint, backbone)
    data["fixture"] = report.to_json()
    code = 0 if report.agreeing == len(report.results) else 1
    return code, data, "\n".join([*lines, *_report_lines(report)])


def _backbone(name: str | None, checkpoint: Checkpoint, settings: Settings) -> Backbone:
    from core.backbone import load_backbone
    from core.backbone.install import MODEL_NAME

    wanted = name or ("embedded" if checkpoint.backbone == MODEL_NAME else checkpoint.backbone)
    backbone = load_backbone(wanted, cache_dir=settings.cache_dir, device=settings.device, dtype=settings.dtype)
    checkpoint.check_backbone(backbone)
    return backbone


def _run(args: argparse.Namespace, checkpoint: Checkpoint, backbone: Backbone) -> FixtureReport:
    from core.checkpoint.fixture import load_cases, load_recorded, run_fixture
    from core.team import with_svf

    cases = load_cases(args.fixture)
    recorded = load_recorded(args.logits) if args.logits else None
    return run_fixture(checkpoint, with_svf(backbone, checkpoint), cases, recorded)


def _report_lines(report: FixtureReport) -> list[str]:
    data = report.to_json()
    lines = [f"{'case':<32} {'agent':>9} {'role':>8} {'agent margin':>13} {'role margin':>12}  tokens"]
    for r in report.results:
        agent = f"{r.agent}" if r.agent == r.expected_agent else f"{r.agent} not {r.expected_agent}"
        role = f"{r.role}" if r.role == r.expected_role else f"{r.role} not {r.expected_role}"
        lines.append(
            f"{one_line(r.id):<32} {agent:>9} {role:>8} {r.agent_margin:>13.3f} {r.role_margin:>12.3f}  {r.tokens}"
        )
    lines.append(
        f"{data['agreeing']} of {data['cases']} agree (agents {data['agents_agreeing']}, "
        f"roles {data['roles_agreeing']}); "
        f"smallest margins {data['smallest_agent_margin']:.3f} and {data['smallest_role_margin']:.3f}"
    )
    if data["largest_logit_difference"] is not None:
        lines.append(
            f"largest difference to the recorded logits {data['largest_logit_difference']:.4f}; "
            f"{data['token_counts_agreeing']} token counts agree"
        )
    return lines
