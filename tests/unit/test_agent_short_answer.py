import pytest

from core.agents.short_answer import agree, asks_short_fact, committed


@pytest.mark.parametrize(
    "question",
    [
        "What is the capital of France?",
        "what's the chemical symbol for gold",
        "Who wrote Hamlet?",
        "How many legs does a spider have?",
        "Please tell me which planet is closest to the Sun.",
        "In which country is the Eiffel Tower?",
        "What colour do you get by mixing blue and yellow?",
        "Name the largest ocean on Earth",
    ],
)
def test_short_facts(question):
    assert asks_short_fact(question)


@pytest.mark.parametrize(
    "question",
    [
        "",
        "Write a two-line poem about rain.",
        "Hello!",
        "Who are you?",
        "What is love?",
        "What is the meaning of life?",
        "What is photosynthesis?",
        "Why is the sky blue?",
        "How do I cook rice?",
        "What should I do?",
        "What is the best programming language?",
        "What is the weather today?",
        "What are the causes of the First World War?",
        "What does `x = 1` do?",
        "What does print(2) print?",
        "法国的首都是哪里？",
        "Is the Earth flat?",
        "What is the capital of France? And why is it so big?",
        "What is the capital of " + "very " * 60 + "far land?",
        "What is this:\nline two",
    ],
)
def test_everything_else(question):
    assert not asks_short_fact(question)


@pytest.mark.parametrize(
    ("question", "answer", "keys"),
    [
        ("What is the capital of France?", "The capital of France is Paris.", {"paris"}),
        ("What is the capital of France?", "Paris.", {"paris"}),
        ("What is the capital of Brazil?", "It is Brasília, a city.", {"brasilia"}),
        ("What is the capital of Mexico?", "The capital of Mexico is Mexico City.", {"city"}),
        ("How many legs does a spider have?", "A spider has eight legs.", {"8"}),
        ("What is the opposite of hot?", "cold", {"cold"}),
        ("What is the chemical symbol for helium?", "He", {"he"}),
        ("What is the chemical symbol for gold?", "The symbol is Au. It is a metal of group 11.", {"au"}),
        ("What is the capital of France?", "The capital of France.", set()),
        ("What is the capital of France?", "", set()),
    ],
)
def test_what_an_answer_commits_to(question, answer, keys):
    assert committed(question, answer) == keys


def test_a_long_list_commits_to_nothing():
    answer = "Berlin Rome Paris Madrid Lisbon Vienna Prague"
    assert committed("What is the capital of France?", answer) == frozenset()


def test_agreement():
    washington, george = frozenset({"washington"}), frozenset({"george", "washington"})
    assert agree(washington, george)
    assert not agree(washington, frozenset({"lincoln"}))
    assert not agree(frozenset(), frozenset())
    assert not agree(frozenset({"7"}), frozenset({"12"}))
    assert not agree(frozenset({"fleming"}), frozenset({"fleming", "1928"})), "another number is another claim"
