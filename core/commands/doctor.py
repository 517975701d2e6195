"""`trinity doctor`: is everything there that a question needs? Each check says what it saw and what to do."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from core.errors import TrinityError
from core.runtime import without_secrets
from core.settings import Settings, load_settings, prepare_folders
from core.terminal import one_line


def command(argv: list[str]) -> int:
    """Run `trinity doctor`. Exit code 0 when a question can be answered, 1 when not, 2 for bad settings.

    A missing sandbox or key is reported but does not fail: the pool masks what needs it.
    """
    parser = argparse.ArgumentParser(prog="trinity doctor", description="Check this installation.")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    args = parser.parse_args(argv)
    settings = load_settings()
    prepare_folders(settings)
    report = examine(settings)
    if args.json:
        print(json.dumps(report))
    else:
        for name, check in report["checks"].items():
            print(f"{'ok  ' if check['ok'] else 'FAIL'}  {name:<12}{one_line(check['summary'])}")
    return 0 if report["ok"] else 1


def examine(settings: Settings) -> dict[str, Any]:
    """All checks as one object: `ok`, `checks` by name, and the sandbox's self-check in full."""
    checks = {name: _guarded(check, settings) for name, check in CHECKS.items()}
    needed = ("backbone", "pool", "checkpoint", "database")
    return {
        "ok": all(checks[name]["ok"] for name in needed),
        "checks": checks,
        **{name: checks[name].get("data") for name in CHECKS},
        "data_dir": str(settings.data_dir),
        "cache_dir": str(settings.cache_dir),
    }


def _guarded(check: Callable[[Settings], dict[str, Any]], settings: Settings) -> dict[str, Any]:
    try:
        return check(settings)
    except TrinityError as error:
        return {"ok": False, "summary": without_secrets(str(error), settings.secrets()), "data": None}
    except Exception as error:  # a doctor must report a broken part, not break with it
        text = without_secrets(f"{type(error).__name__}: {error}", settings.secrets())
        return {"ok": False, "summary": text, "data": None}


def _backbone(settings: Settings) -> dict[str, Any]:
    from core.backbone import load_backbone

    model = load_backbone(settings.backbone, cache_dir=settings.cache_dir, device=settings.device, dtype=settings.dtype)
    data = {
        "name": model.name,
        "weights_hash": model.weights_hash,
        "hidden_size": model.hidden_size,
        "context_length": model.context_length,
        "device": model.device,
        "dtype": model.dtype,
    }
    summary = f"{model.name}, hidden size {model.hidden_size}, {model.dtype} on {model.device}"
    return {"ok": True, "summary": summary, "data": data}


def _pool(settings: Settings) -> dict[str, Any]:
    from core.pool import load_pool

    pool = load_pool(settings.pool, settings)
    unusable = pool.unusable()
    agents = [{"name": a.name, "model": a.model, "unusable": unusable.get(a.name)} for a in pool.agents]
    usable = len(pool.agents) - len(unusable)
    reasons = "".join(f"; {name}: {why}" for name, why in unusable.items())
    summary = f"{pool.name}, {usable} of {len(pool.agents)} agents usable{reasons}"
    return {"ok": usable > 0, "summary": summary, "data": {"name": pool.name, "agents": agents}}


def _checkpoint(settings: Settings) -> dict[str, Any]:
    from core.pool import load_pool
    from core.team import choose_checkpoint

    head = choose_checkpoint(settings.checkpoint, load_pool(settings.pool, settings), settings)
    if head is None:
        return {"ok": True, "summary": "this pool has no trained head", "data": None}
    summary = f"{head.name}, {head.spec.kind}, {len(head.theta)} numbers, for {head.backbone}"
    return {"ok": True, "summary": summary, "data": {"name": head.name, "weights_hash": head.weights_hash}}


def _keys(settings: Settings) -> dict[str, Any]:
    names = sorted(settings.keys)
    return {"ok": True, "summary": ", ".join(names) or "none (the embedded pool needs none)", "data": names}


def _database(settings: Settings) -> dict[str, Any]:
    from core.store import open_store

    kind = settings.url.split(":", 1)[0]
    store = open_store(settings.url)
    store.close()
    place = settings.url.removeprefix("sqlite:///") if kind == "sqlite" else kind
    return {"ok": True, "summary": place, "data": {"kind": kind}}


def _sandbox(settings: Settings) -> dict[str, Any]:
    from core.sandbox import probe

    report = probe()
    blocked = sum(guarantee.blocked for guarantee in report.guarantees)
    data = {
        "backend": report.backend,
        "attacks_blocked": blocked,
        "attacks_total": len(report.guarantees),
        "guarantees": [{"attack": g.attack, "blocked": g.blocked, "detail": g.detail} for g in report.guarantees],
        "refused": dict(report.refused),
        "weaker": list(report.weaker),
    }
    if report.backend is None:
        why = "; ".join(f"{name}: {reason}" for name, reason in report.refused.items())
        return {"ok": False, "summary": f"none, so code is not run ({why})", "data": data}
    summary = f"{report.backend}, {blocked} of {len(report.guarantees)} attacks blocked"
    return {"ok": True, "summary": summary, "data": data}


CHECKS: dict[str, Callable[[Settings], dict[str, Any]]] = {
    "backbone": _backbone,
    "pool": _pool,
    "checkpoint": _checkpoint,
    "keys": _keys,
    "database": _database,
    "sandbox": _sandbox,
}
