"""The trinity command: dispatch, one line an error, exit codes."""

import pytest

from core import cli
from core.errors import ConfigError, StoreError
from core.terminal import is_plain, one_line, plain


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


def test_an_error_that_quotes_a_stranger_stays_one_line_and_moves_no_cursor(monkeypatch, capsys):
    run(monkeypatch, ConfigError("pool \x1b[2Jx\ntrinity x: all is well\x9b1A is refused"))
    assert capsys.readouterr().err == "trinity x: pool x trinity x: all is well1A is refused\n"


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


def test_one_line_takes_breaks_of_every_kind_and_is_plain_finds_what_acts():
    assert one_line("a\r\nb\u2028c\td") == "a b c d"
    assert is_plain("naïve — 你好 😀\n") and not is_plain("a\x9b") and not is_plain("a\x1bc") and not is_plain("\ud800")


def test_a_pools_texts_do_not_act_on_the_terminal(tmp_path, capsys):
    from core.commands.pool import command

    path = tmp_path / "p.yaml"
    path.write_text(
        'name: p\nabout: "note\\e[31m\\nnext"\nagents:\n'
        '  - {name: one, kind: llm, model: "openai/x\\e[2J", free: true}\n'
    )
    assert command(["show", str(path)]) == 0
    assert is_plain(capsys.readouterr().out)
