"""Exact mathematics: questions in words to a closed grammar, computed by sympy in a killable child process.

question text -> spelling -> questions (which task?) -> grammar (trees of plain lists)
              -> engine (child processes) -> child -> guarded, solver, judging (sympy)
"""

from core.agents.exact.agent import SympyAgent

__all__ = ["SympyAgent"]
