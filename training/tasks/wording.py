"""How items are put as questions: one place for the instructions that graders rely on."""

from __future__ import annotations

from collections.abc import Sequence

from training.graders.choice import option_letters

BOXED = "Put the final answer in \\boxed{}."
SHORT = 'End with a line "Final answer: …" that holds the answer alone.'
ANSWER_ONLY = "Reply with only the answer."


def multiple_choice(question: str, options: Sequence[str]) -> str:
    """A question with its options, and how to answer it."""
    listed = "\n".join(f"{letter}. {text}" for letter, text in zip(option_letters(len(options)), options, strict=True))
    return f'{question.strip()}\n\n{listed}\n\nEnd with a line "Answer: X", where X is the letter of the right option.'


def code_completion(prompt: str) -> str:
    """A function to complete."""
    ask = "Complete this Python function. Reply with the whole function in one code block."
    return f"{ask}\n\n```python\n{prompt.rstrip()}\n```"


def code_problem(statement: str, starter: str) -> str:
    """A programming problem: with starter code a function or class to finish, else a program on standard input."""
    if starter.strip():
        ask = f"Finish this code and reply with all of it in one code block.\n\n```python\n{starter.rstrip()}\n```"
    else:
        ask = "Write a Python program that reads standard input and prints the result. Reply with it in one code block."
    return f"{statement.strip()}\n\n{ask}"
