"""`trinity pool`: list the pools, show one, and freeze `auto` into a pool that a head can be trained on."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from core.errors import ConfigError
from core.pool import PRESETS, load_pool, preset_names
from core.settings import Settings, load_settings, prepare_folders
from core.terminal import one_line


def command(argv: list[str]) -> int:
    """Run `trinity pool list|show|freeze`."""
    parser = argparse.ArgumentParser(prog="trinity pool", description="Pools of agents.")
    actions = parser.add_subparsers(dest="action", required=True)
    listing = actions.add_parser("list", help="the pools that can be used")
    showing = actions.add_parser("show", help="the agents of one pool")
    showing.add_argument("name")
    freezing = actions.add_parser("freeze", help="write down what `auto` is now")
    freezing.add_argument("source", choices=["auto"])
    freezing.add_argument("--name", required=True, help="the new pool's name")
    for action in (listing, showing):
        action.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    args = parser.parse_args(argv)
    settings = load_settings()
    if args.action == "list":
        return _list(settings, args.json)
    return _show(settings, args.name, args.json) if args.action == "show" else _freeze(settings, args.name)


def _list(settings: Settings, as_json: bool) -> int:
    frozen = sorted(path.stem for path in (settings.data_dir / "pools").glob("*.yaml"))
    names = [*preset_names(), *frozen]
    print(json.dumps({"pools": names, "default": settings.pool}) if as_json else "\n".join(map(one_line, names)))
    return 0


def _show(settings: Settings, name: str, as_json: bool) -> int:
    pool = load_pool(name, settings)
    agents = [asdict(info) for info in pool.describe()]
    if as_json:
        print(json.dumps({"name": pool.name, "note": pool.note, "agents": agents}))
        return 0
    for row in agents:
        name, model, state = (one_line(row[key] or "usable") for key in ("name", "model", "unusable"))
        print(f"{row['slot']:>2}  {name:<28}{model:<48}{state}")
    if pool.note:
        print(one_line(pool.note))
    return 0


def _freeze(settings: Settings, name: str) -> int:
    import yaml

    from core.auto_pool import auto_entries

    entries = auto_entries(settings)
    target = settings.data_dir / "pools" / f"{name}.yaml"
    if (PRESETS / f"{name}.yaml").exists() or target.exists() or name == "auto":
        raise ConfigError(f"There is a pool {name!r} already; choose another name. Pools are never overwritten.")
    from core.files import atomic_write
    from core.pool import build_pool

    data = {"name": name, "about": "frozen from auto", "agents": entries}
    build_pool(data, settings, where=name)  # refuses a bad name before anything is written
    prepare_folders(settings)
    target.parent.mkdir(exist_ok=True)
    atomic_write(target, yaml.safe_dump(data, sort_keys=False, allow_unicode=True).encode())
    print(f"{target}: {len(entries)} agents")
    return 0
