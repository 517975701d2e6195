"""Rows of a data set: from a local file of the same fields, or from the Hugging Face hub at a pinned revision."""

from __future__ import annotations

import csv
import gzip
import io
import json
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import DataUnavailable
from core.settings import load_settings

Row = Mapping[str, Any]
MAX_BYTES = 4 << 30  # of a file, packed or not: the largest of these benchmarks (LiveCodeBench) has 1.3 GB
FORMATS = ".jsonl, .jsonl.gz, .json, .csv or .parquet"


@dataclass(frozen=True, slots=True)
class HubFile:
    """One split of a hub data set at a fixed commit. `fields` are the columns that must be there.

    `files` names plain files for sets whose own loader is a script (datasets 4 and later refuse to run those).
    """

    repo: str
    config: str | None
    split: str
    revision: str
    fields: tuple[str, ...]
    files: tuple[str, ...] = ()
    gated: bool = False

    @property
    def url(self) -> str:
        """Where a person finds it."""
        return f"https://huggingface.co/datasets/{self.repo}/tree/{self.revision}"

    @property
    def how_to_get(self) -> str:
        """One sentence for the error message."""
        ask = "Ask for access on its page and set HF_TOKEN" if self.gated else "Connect to huggingface.co"
        fields = ", ".join(self.fields)
        return (
            f"{ask}, set HF_HUB_OFFLINE=1 to use a copy in the library's cache, or pass a local file of the same "
            f"fields ({fields}) with --data FILE ({FORMATS})."
        )


def read_rows(path: Path, fields: Sequence[str]) -> list[Row]:
    """Rows of a local file with at least `fields`. Raises DataUnavailable naming the file and the first bad line."""
    return [row for _, row in numbered_rows(path, fields)]


def numbered_rows(path: Path, fields: Sequence[str]) -> list[tuple[int, Row]]:
    """The same rows, each with its line number (for .json and .parquet: the row's, from 1)."""
    try:
        check_file(path)
        rows = list(_reader(path)(path))
    except FileNotFoundError:
        raise DataUnavailable(f"There is no file {path}. Pass an existing {FORMATS} file.") from None
    except (OSError, UnicodeDecodeError, EOFError, csv.Error) as error:
        raise DataUnavailable(f"{path} cannot be read: {error}. It must be a UTF-8 {FORMATS} file.") from error
    return [(number, _checked(row, fields, path, number)) for number, row in rows]


def check_file(path: Path, limit: int = MAX_BYTES) -> None:
    """Refuse what cannot be read whole: devices and pipes never end.

    Raises DataUnavailable for what is no plain file or is over `limit` bytes, OSError when it is not there.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise DataUnavailable(f"{path} is no plain file (a folder, pipe or device). Name a {FORMATS} file.")
    if found.st_size > limit:
        raise DataUnavailable(f"{path} has {found.st_size:,} bytes; at most {limit:,} are read. Split the file.")


def unique_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For json.loads: an object whose fields are all named once. Raises ValueError naming the repeated one."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the field {name!r} appears twice")
        found[name] = value
    return found


def hub_rows(source: HubFile) -> list[Row]:
    """Rows of a hub data set, through the `datasets` library, cached by it.

    Raises DataUnavailable when the hub is unreachable, the set gated, or its fields differ.
    """
    from datasets import load_dataset

    secret = load_settings().keys.get("HF_TOKEN")
    token = secret.reveal() if secret else None
    try:
        _reach(source, token)
        if source.files:
            paths = [f"hf://datasets/{source.repo}@{source.revision}/{name}" for name in source.files]
            table = load_dataset("json", data_files=paths, split="train", token=token)
        else:
            table = load_dataset(source.repo, source.config, split=source.split, revision=source.revision, token=token)
        rows = [dict(row) for row in table]
    except Exception as error:  # the library raises a dozen kinds for network, gate and schema
        line = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
        raise DataUnavailable(
            f"The data set {source.repo} could not be loaded ({type(error).__name__}: {line}). {source.how_to_get}"
        ) from error
    return [_checked(row, source.fields, Path(source.repo), number) for number, row in enumerate(rows, 1)]


def _reach(source: HubFile, token: str | None) -> None:
    """Ask the hub once; `load_dataset` alone would retry for half a minute. HF_HUB_OFFLINE=1 skips the question."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import OfflineModeIsEnabled

    try:
        HfApi(token=token).dataset_info(source.repo, revision=source.revision, timeout=10)
    except OfflineModeIsEnabled:  # the user asks for the library's cached copy
        return


def load_rows(source: HubFile, data: Path | None) -> list[Row]:
    """Rows of `data` when given, else of the hub."""
    return read_rows(data, source.fields) if data is not None else hub_rows(source)


def _reader(path: Path) -> Any:
    name = path.name.lower()
    readers = {
        ".jsonl": _jsonl,
        ".jsonl.gz": _jsonl,
        ".json": _json,
        ".csv": _csv,
        ".parquet": _parquet,
    }
    for ending, reader in readers.items():
        if name.endswith(ending):
            return reader
    raise DataUnavailable(f"{path} has an unknown ending. Use {FORMATS}.")


def _jsonl(path: Path) -> Iterator[tuple[int, Any]]:
    text = (_unpacked(path) if path.name.lower().endswith(".gz") else path.read_bytes()).decode("utf-8-sig")
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield number, json.loads(line, object_pairs_hook=unique_fields)
        except (ValueError, RecursionError) as error:
            raise DataUnavailable(f"{path}, line {number}: not a JSON object ({error}).") from None


def _unpacked(path: Path) -> bytes:
    with gzip.open(path) as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise DataUnavailable(f"{path} unpacks to more than {MAX_BYTES:,} bytes. Split the file.")
    return raw


def _json(path: Path) -> Iterator[tuple[int, Any]]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=unique_fields)
    except (ValueError, RecursionError) as error:
        raise DataUnavailable(f"{path} is not JSON ({error}).") from None
    if not isinstance(rows, list):
        raise DataUnavailable(f"{path} must hold a list of objects.")
    yield from enumerate(rows, 1)


def _csv(path: Path) -> Iterator[tuple[int, Any]]:
    text = path.read_text(encoding="utf-8-sig")
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    for row in reader:
        if None in row or None in row.values():
            raise DataUnavailable(f"{path}, line {reader.line_num}: this line has not as many cells as the header.")
        yield reader.line_num, row


def _parquet(path: Path) -> Iterator[tuple[int, Any]]:
    from pyarrow import ArrowException
    from pyarrow.parquet import read_table

    try:
        rows = read_table(path).to_pylist()
    except ArrowException as error:
        raise DataUnavailable(f"{path} is not a parquet file ({error}).") from None
    yield from enumerate(rows, 1)


def _checked(row: Any, fields: Sequence[str], path: Path, number: int) -> Row:
    if not isinstance(row, dict):
        raise DataUnavailable(f"{path}, line {number}: not an object with the fields {', '.join(fields)}.")
    absent = [name for name in fields if row.get(name) is None]
    if absent:
        raise DataUnavailable(f"{path}, line {number}: the field {absent[0]!r} is missing.")
    return row
