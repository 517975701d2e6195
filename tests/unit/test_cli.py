"""The trinity command: dispatch, one line an error, exit codes."""

import pytest

from core import cli
from core.commands.ask import plain
from core.errors import ConfigError, StoreError


def run(monkeypatch, effect):
    def command(argv):
        if isinstance(effect, BaseException):
            raise effect
        return effect

    monkeypatch.setattr(cli, "commands", lambda: {"x": command})
    return cli.main(["x"])


@pytest.mark.parametrize(
    ("effect", "code"), [(0, 0), (1, 1), (ConfigError("bad"), 2), (StoreError("down"), 1), (KeyboardInterrupt(), 130)]
)
def test_exit_codes(monkeypatch, effect, code):
    assert run(monkeypatch, effect) == code


def test_an_error_is_one_line_without_keys(monkeypatch, capsys):
    run(monkeypatch, ConfigError("the key sk-abcdefghijklmnop1234 is wrong"))
    error = capsys.readouterr().err
    assert error.startswith("trinity x: ") and error.count("\n") == 1 and "abcdefghij" not in error


def test_unknown_command_and_usage(capsys):
    assert cli.main(["nope"]) == 2 and "ask" in capsys.readouterr().err
    assert cli.main(["--help"]) == 0 and cli.main([]) == 2
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("ask", "route", "doctor", "serve"))


def test_every_registered_command_can_be_loaded():
    from importlib.metadata import entry_points

    for point in entry_points(group=cli.GROUP):
        assert callable(point.load()), point.name
        assert point.name in cli.ABOUT, f"{point.name} has no line in the help"


def test_terminal_codes_are_cut():
    assert plain("a\x1b[31mred\x1b]0;title\x07b\x07\r\n") == "ared0;titleb\n"
