"""Configuration: order of sources, strict .env, masked secrets, clear refusals."""

import pytest

from core.errors import ConfigError
from core.runtime import SecretFilter, without_secrets
from core.settings import Secret, load_settings, prepare_folders


def test_order_is_environment_then_env_here_then_env_in_data(tmp_path):
    here, data = tmp_path / "here", tmp_path / "data"
    here.mkdir(), data.mkdir()
    (here / ".env").write_text(f"TRINITY_DATA_DIR={data}\nTRINITY_POOL=paper\nTRINITY_PORT=1\n")
    (data / ".env").write_text("TRINITY_POOL=auto\nTRINITY_PORT=2\nOPENAI_API_KEY=sk-from-data\n")
    settings = load_settings({"TRINITY_PORT": "3"}, cwd=here)
    assert (settings.pool, settings.port, settings.data_dir) == ("paper", 3, data)
    assert settings.keys["OPENAI_API_KEY"].reveal() == "sk-from-data"


def test_defaults(tmp_path):
    settings = load_settings({"TRINITY_DATA_DIR": str(tmp_path)}, cwd=tmp_path)
    assert (settings.pool, settings.backbone, settings.port, settings.keys) == ("embedded", "embedded", 7860, {})
    assert settings.url == f"sqlite:///{tmp_path}/trinity.sqlite3"


@pytest.mark.parametrize("line", ["sk-1234567890abcdef pasted without a name", "=x", "A='unclosed"])
def test_a_broken_env_line_is_named_and_not_shown(tmp_path, line):
    (tmp_path / ".env").write_text(f"# fine\nTRINITY_POOL=paper\n{line}\n")
    with pytest.raises(ConfigError, match=r"\.env, line 3") as caught:
        load_settings({}, cwd=tmp_path)
    assert "sk-1234" not in str(caught.value)


def test_an_env_file_that_is_not_text(tmp_path):
    (tmp_path / ".env").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_settings({}, cwd=tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TRINITY_PORT", "abc"),
        ("TRINITY_PORT", "70000"),
        ("TRINITY_DEVICE", "tpu"),
        ("TRINITY_USER_USD_PER_DAY", "-1"),
        ("TRINITY_QUESTION_USD", "nan"),
        ("TRINITY_DTYPE", "int8"),
        ("TRINITY_PUBLIC_URL", "http://[bad"),
        ("TRINITY_PUBLIC_URL", "trinity.example.com"),
        ("TRINITY_PUBLIC_URL", "https://host:99999"),
        ("OLLAMA_API_BASE", "file:///etc"),
        ("TRINITY_CACHE_DIR", "~nosuchuser/x"),
    ],
)
def test_a_bad_value_names_its_variable(tmp_path, name, value):
    with pytest.raises(ConfigError, match=name):
        load_settings({name: value, "TRINITY_DATA_DIR": str(tmp_path)}, cwd=tmp_path)


def test_a_folder_that_cannot_be_made_names_its_variable(tmp_path):
    (tmp_path / "file").write_text("x")
    settings = load_settings({"TRINITY_DATA_DIR": str(tmp_path / "file" / "sub")}, cwd=tmp_path)
    with pytest.raises(ConfigError, match="TRINITY_DATA_DIR"):
        prepare_folders(settings)


def test_secrets_print_as_stars(tmp_path):
    env = {
        "OPENAI_API_KEY": "sk-canary-0123456789",
        "TRINITY_KEY_MINE": "hunter2",
        "TRINITY_DATA_DIR": str(tmp_path),
    }
    settings = load_settings(env, cwd=tmp_path)
    assert "canary" not in repr(settings) and "hunter2" not in repr(settings) and "canary" not in f"{settings.keys}"
    assert set(settings.secrets()) == {"sk-canary-0123456789", "hunter2"}
    assert Secret("a") == Secret("a") and not Secret("")


@pytest.mark.parametrize(
    "text",
    [
        "key sk-proj-abcdefghijklmnop1234 refused",
        "Authorization: Bearer abcdefghijklmnopqrst",
        "AIzaSyA1234567890abcdefghij",
        "hf_abcdefghijklmnopqrstu",
    ],
)
def test_key_shapes_are_cut_from_any_text(text):
    assert "***" in without_secrets(text) and "abcdefghij" not in without_secrets(text)


def test_the_log_filter_masks_messages_arguments_and_exceptions():
    import io
    import logging

    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(SecretFilter(["opensesame"]))
    logger = logging.getLogger("tests.secrets")
    logger.propagate = False
    logger.addHandler(handler)
    try:
        raise ValueError("with opensesame inside")
    except ValueError:
        logger.exception("calling %s", "opensesame")
    assert "opensesame" not in stream.getvalue() and "ValueError" in stream.getvalue()


def test_a_data_folder_of_nobody_is_one_clear_line(tmp_path):
    with pytest.raises(ConfigError, match="TRINITY_DATA_DIR"):
        load_settings({"TRINITY_DATA_DIR": "~nosuchuser/x"}, cwd=tmp_path)


def test_a_known_secret_is_masked_in_every_form():
    import base64

    key = "zq.Canary/0123456789+ABCDEFxyz"  # of no known key's shape
    escaped = "".join(f"\\\\u{ord(char):04X}" for char in key)
    coded = [base64.b64encode(before + key.encode() + b"-end").decode() for before in (b"", b"a", b"ab")]
    for form in (key, key[::-1], key[:14], key[9:22], key.replace("/", "\\/"), escaped, *coded):
        masked = without_secrets(f"bad <{form}> end", [key])
        assert "***" in masked and all(form[at : at + 12] not in masked for at in range(len(form) - 11)), masked
    assert without_secrets(r"100 \u003c 200 \/ %20", [key]) == r"100 \u003c 200 \/ %20"
    assert without_secrets(f"{key[:11]} is short", [key]) == f"{key[:11]} is short"
