"""Whose a conversation is: a 256-bit token that the browser keeps. Ids are names, not credentials."""

from __future__ import annotations

import hashlib
import re
import secrets

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


def new_owner() -> str:
    """A fresh random token of 256 bits."""
    return secrets.token_urlsafe(32)


def is_owner(token: object) -> bool:
    """Whether `token` has the form of one of ours. What it owns is checked where it is used."""
    return isinstance(token, str) and _TOKEN.fullmatch(token) is not None


def fingerprint(owner: str) -> str:
    """The SHA-256 of a token: what this server keeps of it in memory."""
    return hashlib.sha256(owner.encode()).hexdigest()


def same_owner(owner: str, kept: str) -> bool:
    """Whether `owner` is the token whose fingerprint was kept, in constant time."""
    return secrets.compare_digest(fingerprint(owner), kept)
