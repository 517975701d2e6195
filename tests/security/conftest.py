"""The sandbox fixtures."""

from tests.bare_sandbox import bare, sandbox

__all__ = ["bare", "sandbox"]
