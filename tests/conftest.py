"""What every test starts from: a clean environment, and counted skips for missing tools."""

import os
import shutil
from pathlib import Path

import pytest

from core.runtime import prepare_environment
from core.settings import PROVIDER_KEYS, default_cache_dir

prepare_environment()
_IN_CI = bool(os.environ.get("TRINITY_CI") or os.environ.get("CI"))
_CACHE = Path(os.environ.get("TRINITY_CACHE_DIR") or default_cache_dir())


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch, tmp_path):
    """No key, no TRINITY_ variable and no data folder of the machine reaches a test."""
    for name in list(os.environ):
        if name.startswith(("TRINITY_", "SPACE_", "OLLAMA_")) or name in PROVIDER_KEYS:
            monkeypatch.delenv(name)
    monkeypatch.setenv("TRINITY_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("TRINITY_CACHE_DIR", str(_CACHE))
    monkeypatch.setenv("OLLAMA_API_BASE", "http://127.0.0.1:9")


@pytest.fixture(scope="session")
def embedded_cache():
    """The cache folder with the coordinator model; `make install` puts it there."""
    from core.backbone.install import gguf_path

    if not gguf_path(_CACHE).is_file():
        missing("the coordinator model (run `trinity backbone install`)")
    return _CACHE


def need_tool(*names: str) -> str:
    """The path of a Debian tool; without it the test is skipped here and fails in CI."""
    for name in names:
        if found := shutil.which(name):
            return found
    missing(" or ".join(names))
    raise AssertionError("unreachable")


def missing(what: str) -> None:
    """Skip for want of `what`, or fail where everything must be there."""
    if _IN_CI:
        pytest.fail(f"{what} is missing")
    pytest.skip(f"{what} is missing")
