"""What has to be settled before a heavy library is imported, and the one filter that keeps secrets out of logs."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable

# OpenMP threads that spin while waiting starve a neighbour: with default spinning a local model's reply did not
# finish in 10 minutes beside one busy process on 2 cores; passive waiting costs under 2 % when alone.
_DEFAULTS = {
    "OMP_WAIT_POLICY": "PASSIVE",
    "GOMP_SPINCOUNT": "0",
    "GRADIO_ANALYTICS_ENABLED": "False",
    "GRADIO_RUN_HISTORY": "False",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # otherwise `import litellm` fetches a price list
    "LITELLM_OFFLINE_MODE": "true",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}

# Key-shaped text that no provider's error message may carry into a log, a page or the database.
_KEY_SHAPES = re.compile(
    r"(?:sk|rk|pk|gsk|hf|xai|AIza)[-_]?[A-Za-z0-9_\-]{16,}|(?i:bearer)\s+[A-Za-z0-9._~+/\-]{12,}=*"
)


def prepare_environment() -> None:
    """Set the defaults above where the user has not. Call it before importing torch, litellm or gradio."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)


def without_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` with every known secret and every key-shaped word replaced by `***`."""
    for secret in secrets:
        if len(secret) >= 6:
            text = text.replace(secret, "***")
    return _KEY_SHAPES.sub("***", text)


class SecretFilter(logging.Filter):
    """Masks secrets in a log record's message, arguments and exception text."""

    def __init__(self, secrets: Iterable[str]) -> None:
        super().__init__()
        self._secrets = tuple(secrets)

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite the record in place; every record passes."""
        record.msg, record.args = without_secrets(record.getMessage(), self._secrets), ()
        if record.exc_info:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
            record.exc_info = None
        if record.exc_text:
            record.exc_text = without_secrets(record.exc_text, self._secrets)
        return True


def start_logging(secrets: Iterable[str], level: int = logging.WARNING) -> None:
    """Log to stderr through the secret filter."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.addFilter(SecretFilter(secrets))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
