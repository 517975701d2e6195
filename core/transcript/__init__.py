"""How a transcript becomes the text that the coordinator model reads: named protocols, cut to fit, made harmless."""

from core.transcript.neutralise import neutralise
from core.transcript.protocols import DEFAULT_PROTOCOL, PROTOCOLS, protocol_id, render, render_messages

__all__ = ["DEFAULT_PROTOCOL", "PROTOCOLS", "neutralise", "protocol_id", "render", "render_messages"]
