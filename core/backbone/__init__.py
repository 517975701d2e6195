"""The small language model that reads the conversation."""
