"""The members of a pool."""
