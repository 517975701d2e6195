"""Both catalogues say the same things, and everything the page asks for is there."""

import re

import pytest

from core.assets import STATIC
from core.types import Override, Reason, Role, Status
from webapp.i18n import choose_language, say
from webapp.i18n.en import EN
from webapp.i18n.zh import ZH

PLACE = re.compile(r"\{(\w+)\}")


def test_equal_keys():
    assert set(EN) == set(ZH)


@pytest.mark.parametrize("key", sorted(EN))
def test_equal_places(key):
    assert set(PLACE.findall(EN[key])) >= set(PLACE.findall(ZH[key]))
    assert EN[key].strip() and ZH[key].strip()


def test_chinese_is_chinese():
    same = {key for key in EN if EN[key] == ZH[key]}
    assert same <= {"page_title", "team_ready", "cost_free"}


def test_every_key_of_the_scripts_exists():
    fixed, built = set(), set()
    for file in (STATIC / "js").glob("*.js"):
        text = file.read_text(encoding="utf-8")
        fixed |= set(re.findall(r'say\([\w.]+, "(\w+)"(?! \+)', text))
        built |= set(re.findall(r'say\([\w.]+, "(\w+_)" \+', text))
        fixed |= {key for pair in re.findall(r'say\([\w.]+, [^")]*\? "(\w+)" : "(\w+)"', text) for key in pair}
    assert len(fixed) > 30 and fixed <= set(EN), fixed - set(EN)
    assert built and all(any(key.startswith(start) for key in EN) for start in built)


def test_every_built_key_exists():
    for role in Role:
        assert {f"role_{role}", f"legend_{role}"} <= set(EN)
    for status in Status:
        assert {f"end_{status}", f"status_{status}"} <= set(EN)
    assert {f"override_{rule}" for rule in Override} <= set(EN)
    ends_a_budget = (Reason.TURNS, Reason.SECONDS, Reason.TOKENS, Reason.MONEY, Reason.NO_ANSWER, Reason.INTERRUPTED)
    assert {f"end_{reason}" for reason in ends_a_budget} <= set(EN)
    states = ("choosing", "speaking", "retrying", "done", "stopped", "cut", "error", "begin", "end")
    assert {f"announce_{state}" for state in states} <= set(EN)
    assert {f"prompt_{role}" for role in ("system", "user", "assistant")} <= set(EN)


def test_values_are_not_expanded_again():
    assert (
        say("en", "failed_end", agent="{error}", error="{agent}") == "{error}: {agent} Nobody else could take the turn."
    )


@pytest.mark.parametrize(
    ("wanted", "stored", "accepted", "got"),
    [
        ("zh", "en", "en", "zh"),
        ("zh-CN", "", "", "zh"),
        (None, "zh", "en", "zh"),
        ("xx", "", "fr-FR,zh;q=0.5", "zh"),
        (None, None, "de, fr", "en"),
        ({"a": 1}, 7, "", "en"),
    ],
)
def test_choice_of_language(wanted, stored, accepted, got):
    assert choose_language(wanted, stored, accepted) == got
