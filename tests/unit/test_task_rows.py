"""Rows of local files and of the hub: every format, every way they can be wrong."""

import gzip
import json

import pytest

from core.errors import DataUnavailable
from training.tasks import rows
from training.tasks.math500 import Math500
from training.tasks.mmlu import Mmlu
from training.tasks.rows import HubFile, hub_rows, read_rows
from training.tasks.safe_pickle import packed_string

FIELDS = ("question", "answer")
GOOD = [{"question": "é?", "answer": "1"}, {"question": "b", "answer": "2"}]


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_every_format_gives_the_same_rows(tmp_path):
    import pyarrow
    import pyarrow.parquet

    lines = "".join(json.dumps(row) + "\n" for row in GOOD)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(GOOD), tmp_path / "a.parquet")
    files = [
        write(tmp_path / "a.jsonl", lines),
        write(tmp_path / "bom.jsonl", b"\xef\xbb\xbf" + lines.encode()),
        write(tmp_path / "a.jsonl.gz", gzip.compress(lines.encode())),
        write(tmp_path / "a.json", json.dumps(GOOD)),
        write(tmp_path / "a.csv", "question,answer\né?,1\nb,2\n"),
        tmp_path / "a.parquet",
    ]
    for file in files:
        assert read_rows(file, FIELDS) == GOOD, file


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"question": 1, "answer": 2}\nnot json\n', "line 2: not a JSON object"),
        ("a.jsonl", '{"question": "x"}\n', "line 1: the field 'answer' is missing"),
        ("a.jsonl", "[1, 2]\n", "line 1: not an object"),
        ("a.jsonl", b"\xff\xfe\x00", "cannot be read"),
        ("a.jsonl.gz", b"not gzip", "cannot be read"),
        ("a.json", "{}", "must hold a list"),
        ("a.json", "[" * 100_000, "is not JSON"),
        ("a.csv", "question,answer\nx,1,2\n", "line 2: this line has not as many cells"),
        ("a.csv", "question,answer\nx\n", "line 2: this line has not as many cells"),
        ("a.csv", "question\nx\n", "'answer' is missing"),
        ("a.parquet", b"PAR1", "not a parquet file"),
        ("a.txt", "x", "unknown ending"),
    ],
)
def test_bad_files_are_named_with_the_line(tmp_path, name, content, message):
    with pytest.raises(DataUnavailable, match=message) as caught:
        read_rows(write(tmp_path / name, content), FIELDS)
    assert name in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DataUnavailable, match=r"There is no file .*x\.jsonl"):
        read_rows(tmp_path / "x.jsonl", FIELDS)


def test_the_hub_library_reads_a_folder_of_the_same_layout(tmp_path, monkeypatch):
    """`load_dataset` runs for real, on a local folder instead of the hub; only the question to the hub is left out."""
    monkeypatch.setattr(rows, "_reach", lambda source, token: None)
    write(tmp_path / "test.jsonl", "".join(json.dumps(row) + "\n" for row in GOOD))
    source = HubFile(str(tmp_path), None, "test", "main", FIELDS)
    assert hub_rows(source) == GOOD
    with pytest.raises(DataUnavailable, match="'subject' is missing"):
        hub_rows(HubFile(str(tmp_path), None, "test", "main", ("subject",)))
    with pytest.raises(DataUnavailable, match="could not be loaded"):
        hub_rows(HubFile(str(tmp_path), None, "other", "main", FIELDS))


def test_an_unreachable_hub_is_an_error_that_says_what_to_do(monkeypatch):
    def refuse(source, token):
        raise ConnectionError("no network\nsecond line")

    monkeypatch.setattr(rows, "_reach", refuse)
    gated = HubFile("Idavidrein/gpqa", None, "train", "abc", FIELDS, gated=True)
    with pytest.raises(DataUnavailable, match=r"Idavidrein/gpqa.*no network\).*HF_TOKEN.*--data FILE") as caught:
        hub_rows(gated)
    assert "second line" not in str(caught.value)
    with pytest.raises(DataUnavailable, match="HuggingFaceH4/MATH-500"):
        Math500().items("test")


def test_train_loses_what_test_holds(monkeypatch):
    """MATH: the 500 are taken out of the train source, whatever their spacing; MMLU: likewise between its splits."""
    test = [{"problem": "What is  $1+1$?", "answer": "2"}]
    pool = [{"problem": f"what is $1+{n}$?", "solution": f"It is \\boxed{{{n + 1}}}."} for n in range(30)]
    monkeypatch.setattr("training.tasks.math500.hub_rows", lambda f: test if "500" in f.repo else pool)
    task = Math500()
    texts = [item.text_hash for split in task.splits for item in task.items(split)]
    assert len(texts) == len(set(texts)) == 30 and len(task.items("test")) == 1
    assert {item.answer for item in task.items("train")} <= {str(n + 1) for n in range(30)}

    def question(n):
        return {"question": f"Q{n}", "choices": ["a", "b", "c", "d"], "answer": 1}

    table = {"auxiliary_train": range(5), "validation": range(4, 7), "test": range(6, 9)}
    monkeypatch.setattr("training.tasks.table.load_rows", lambda f, d: [question(n) for n in table[f.split]])
    mmlu = Mmlu()
    assert [len(mmlu.items(split)) for split in ("train", "validation", "test")] == [4, 2, 3]


def test_packed_strings_are_read_and_nothing_else(tmp_path):
    import base64
    import pickle
    import zlib

    def pack(value, protocol=4):
        return base64.b64encode(zlib.compress(pickle.dumps(value, protocol))).decode()

    for protocol in range(6):
        assert packed_string(pack("[1, é]", protocol)) == "[1, é]"
    for bad in (["x"], 3, None, b"x", ("a", "b"), {"a": 1}):
        with pytest.raises(ValueError, match="private tests"):
            packed_string(pack(bad))
    cut = base64.b64encode(zlib.compress(pickle.dumps("x" * 100))[:-8]).decode()
    for bad in ("", "!!", base64.b64encode(b"junk").decode(), cut, pack("x")[:-4]):
        with pytest.raises(ValueError, match="private tests"):
            packed_string(bad)
    broken = base64.b64encode(zlib.compress(b"\x80\x04\x8c\xffshort.")).decode()
    with pytest.raises(ValueError, match="private tests"):
        packed_string(broken)
