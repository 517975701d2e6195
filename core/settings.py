"""Configuration, read once at the edge and frozen: environment, then `.env` here, then `.env` in the data folder.

Nothing else in the project touches `os.environ`. Secrets are `Secret` values: they print as `***`.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from core.errors import ConfigError

T = TypeVar("T", int, float)

# Environment variable -> provider prefix of litellm model ids. The order is the order of the `auto` pool.
PROVIDER_KEYS: dict[str, str] = {
    "OPENAI_API_KEY": "openai",
    "ANTHROPIC_API_KEY": "anthropic",
    "GEMINI_API_KEY": "gemini",
    "OPENROUTER_API_KEY": "openrouter",
    "DEEPSEEK_API_KEY": "deepseek",
    "GROQ_API_KEY": "groq",
    "MISTRAL_API_KEY": "mistral",
    "DEEPINFRA_API_KEY": "deepinfra",
    "HF_TOKEN": "huggingface",
}


class Secret:
    """A string that shows itself only when asked by `reveal()`."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself, for the one call that needs it."""
        return self._value

    def __repr__(self) -> str:
        return "***"

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything the program can be told from outside. Made by `load_settings`."""

    data_dir: Path
    cache_dir: Path
    database_url: str = ""  # empty: SQLite in data_dir
    pool: str = "embedded"
    checkpoint: str = ""  # empty: the one shipped for the pool
    backbone: str = "embedded"
    device: str = "auto"
    dtype: str = "auto"
    host: str = "127.0.0.1"
    port: int = 7860
    public_url: str = ""
    space_host: str = ""
    question_usd: float = 0.50
    user_usd_per_day: float = 2.0
    process_usd_per_day: float = 10.0
    public_usd_per_day: float = 0.0
    ollama_base: str = "http://127.0.0.1:11434"
    keys: Mapping[str, Secret] = field(default_factory=dict)  # variable name -> key, only those present

    @property
    def url(self) -> str:
        """The SQLAlchemy URL in use."""
        return self.database_url or f"sqlite:///{self.data_dir / 'trinity.sqlite3'}"

    def secrets(self) -> tuple[str, ...]:
        """Every secret value, for the log filter that masks them."""
        return tuple(secret.reveal() for secret in self.keys.values())


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """`/data` in a container when writable (a mounted bucket on a Space), else the user's data folder."""
    import platformdirs

    in_container = Path("/.dockerenv").exists() or "SPACE_ID" in environ
    if in_container and os.access("/data", os.W_OK):
        return Path("/data")
    return Path(platformdirs.user_data_dir("trinity"))


def default_cache_dir() -> Path:
    """The user's cache folder: converted weights and SVD factors, safe to delete."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("trinity"))


def read_env_file(path: Path) -> dict[str, str]:
    """Read one `.env` file strictly. Raises ConfigError naming the file and the line that is not NAME=value."""
    from dotenv.parser import parse_stream

    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read ({error}). Make it a readable UTF-8 text file.") from error
    values: dict[str, str] = {}
    for binding in parse_stream(io.StringIO(text)):
        if binding.error:
            # The content may be a key pasted without its name, so the line itself is not shown.
            raise ConfigError(f"{path}, line {binding.original.line}: not of the form NAME=value. Mend or delete it.")
        if binding.key is not None:
            values[binding.key] = binding.value or ""
    return values


def load_settings(environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> Settings:
    """Read the configuration. Raises ConfigError with one line that names the variable and what it must be."""
    real = dict(os.environ if environ is None else environ)
    here = read_env_file((cwd or Path.cwd()) / ".env")
    merged = {**here, **real}
    data_dir = _folder(merged, "TRINITY_DATA_DIR", default_data_dir(merged))
    env = {**read_env_file(data_dir / ".env"), **merged}
    prefix = "TRINITY_KEY_"
    keys = {name: Secret(env[name]) for name in PROVIDER_KEYS if env.get(name)}
    keys |= {name: Secret(value) for name, value in env.items() if name.startswith(prefix) and value}
    return Settings(
        data_dir=data_dir,
        cache_dir=_folder(env, "TRINITY_CACHE_DIR", default_cache_dir()),
        database_url=env.get("TRINITY_DATABASE_URL", ""),
        pool=env.get("TRINITY_POOL") or "embedded",
        checkpoint=env.get("TRINITY_CHECKPOINT", ""),
        backbone=env.get("TRINITY_BACKBONE") or "embedded",
        device=_choice(env, "TRINITY_DEVICE", "auto", ("auto", "cpu", "cuda", "mps")),
        dtype=_choice(env, "TRINITY_DTYPE", "auto", ("auto", "float32", "bfloat16")),
        host=env.get("TRINITY_HOST") or "127.0.0.1",
        port=_number(env, "TRINITY_PORT", 7860, 0, 65_535),
        public_url=_url(env, "TRINITY_PUBLIC_URL", ""),
        space_host=env.get("SPACE_HOST", ""),
        question_usd=_number(env, "TRINITY_QUESTION_USD", 0.50, 0.0, 1e6),
        user_usd_per_day=_number(env, "TRINITY_USER_USD_PER_DAY", 2.0, 0.0, 1e6),
        process_usd_per_day=_number(env, "TRINITY_PROCESS_USD_PER_DAY", 10.0, 0.0, 1e6),
        public_usd_per_day=_number(env, "TRINITY_PUBLIC_USD_PER_DAY", 0.0, 0.0, 1e6),
        ollama_base=_url(env, "OLLAMA_API_BASE", "http://127.0.0.1:11434"),
        keys=keys,
    )


def prepare_folders(settings: Settings) -> None:
    """Make the data and cache folders. Raises ConfigError when one cannot be written."""
    for name, folder in (("TRINITY_DATA_DIR", settings.data_dir), ("TRINITY_CACHE_DIR", settings.cache_dir)):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise ConfigError(
                f"The folder {folder} cannot be written ({error.strerror}). Set {name} to another one."
            ) from error


def _folder(env: Mapping[str, str], name: str, default: Path) -> Path:
    try:
        return Path(env.get(name) or default).expanduser().absolute()
    except (RuntimeError, OSError) as error:
        raise ConfigError(f"{name} names no folder ({error}). Give an absolute path.") from error


def _url(env: Mapping[str, str], name: str, default: str) -> str:
    text = env.get(name) or default
    try:
        parts = urlsplit(text)
        sound = not text or (parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port is not False)
    except ValueError:
        sound = False
    if not sound:
        raise ConfigError(f"{name} must look like https://host or http://host:port; it is {text!r:.200}.")
    return text


def _choice(env: Mapping[str, str], name: str, default: str, allowed: tuple[str, ...]) -> str:
    value = env.get(name) or default
    if value not in allowed:
        raise ConfigError(f"{name} must be one of {', '.join(allowed)}; it is {value!r}.")
    return value


def _number(env: Mapping[str, str], name: str, default: T, low: T, high: T) -> T:
    text = env.get(name)
    if not text:
        return default
    try:
        value = type(default)(text)
    except ValueError:
        raise ConfigError(f"{name} must be a number; it is {text!r}.") from None
    if not low <= value <= high:  # also refuses nan
        raise ConfigError(f"{name} must be between {low} and {high}; it is {text!r}.")
    return value
