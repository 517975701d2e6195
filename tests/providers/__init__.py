"""A provider that misbehaves on request: a real HTTP server with the OpenAI, Anthropic and Gemini wire formats."""

from tests.providers.server import FaultProvider, Seen
from tests.providers.step import Step

__all__ = ["FaultProvider", "Seen", "Step"]
