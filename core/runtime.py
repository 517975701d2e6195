"""What has to be settled before a heavy library is imported, and the one filter that keeps secrets out of logs."""

from __future__ import annotations

import base64
import logging
import os
import re
from collections.abc import Iterable
from functools import lru_cache

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
# Printable ASCII behind an escape, whose backslash a repr may have doubled: \u0073, \x73, %73, \/.
_ESCAPES = re.compile(r"\\+u00([2-7][0-9a-fA-F])|\\+x([2-7][0-9a-fA-F])|%([2-7][0-9a-fA-F])|\\+/")
_LEAST_SECRET = 6  # characters; a shorter one would blank ordinary words
_RUN = 12


def prepare_environment() -> None:
    """Set the defaults above where the user has not. Call it before importing torch, litellm or gradio."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)


def without_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` with every known secret and every key-shaped word replaced by `***`.

    A secret is also known backwards, in base64, and by any run of 12 characters of these. Where it shows only once
    escapes (JSON's, a repr's, an address's) are decoded, the decoded text is what is masked and given back.
    """
    known = tuple(secret for secret in secrets if len(secret) >= _LEAST_SECRET)
    decoded = _ESCAPES.sub(_character, text)
    if decoded != text and (masked := _masked(decoded, known)) != decoded:
        return masked
    return _masked(text, known)


def _masked(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, "***")
        exact, runs = _forms(secret)
        for form in exact:
            text = text.replace(form, "***")
        text = _without_runs(text, runs)
    return _KEY_SHAPES.sub("***", text)


def _without_runs(text: str, runs: frozenset[str]) -> str:
    out, done, at = [], 0, 0
    while at + _RUN <= len(text):
        if text[at : at + _RUN] not in runs:
            at += 1
            continue
        end = at + _RUN
        while end < len(text) and text[end + 1 - _RUN : end + 1] in runs:
            end += 1
        out += [text[done:at], "***"]
        done = at = end
    return "".join(out) + text[done:]


@lru_cache(maxsize=256)
def _forms(secret: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """Short forms of a secret, to be found whole, and all runs of the longer ones."""
    raw, forms = secret.encode("utf-8", "replace"), [secret, secret[::-1]]
    for before in range(3):  # where the secret begins within a group of three bytes
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            code = encode(b"\0" * before + raw).decode().rstrip("=")
            whole = (before + len(raw)) * 8 // 6  # characters that hold no bit of what follows
            forms.append(code[(before * 8 + 5) // 6 : whole])
    exact = tuple({form for form in forms if _LEAST_SECRET <= len(form) < _RUN})
    return exact, frozenset(form[at : at + _RUN] for form in forms for at in range(len(form) - _RUN + 1))


def _character(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2] or escape[3]
    return chr(int(code, 16)) if code else "/"


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
