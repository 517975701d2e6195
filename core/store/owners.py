"""Whose is it: owner tokens, random ids, and the one check every access goes through.

A conversation is owned by a 256-bit token of a browser, or by a signed-in user's name. The database keeps its SHA-256
only. Ids are no credentials: knowing one opens nothing.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from hmac import compare_digest

from sqlalchemy.orm import Session

from core.errors import NotOwner
from core.store.tables import ConversationRow, QuestionRow

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_OWNER = 1_024


def new_id() -> str:
    """A random id of 128 bits, safe in an address."""
    return secrets.token_urlsafe(16)


def new_token() -> str:
    """A random secret of 256 bits, for a browser or a share link."""
    return secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """SHA-256 of a token, in hexadecimal."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def owner_hash(owner: object) -> str:
    """The hash of an owner's token. Raises NotOwner when it is not a plausible token."""
    if not isinstance(owner, str) or not owner or len(owner) > _MAX_OWNER:
        raise not_yours()
    return digest(owner)


def not_yours() -> NotOwner:
    """The one answer for 'not there', 'deleted' and 'not yours': nobody learns which ids exist."""
    return NotOwner("This conversation does not exist, or it belongs to another browser or user. Begin a new one.")


def valid_id(value: object) -> str:
    """`value` when it can be an id at all. Raises NotOwner."""
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise not_yours()
    return value


def owned_conversation(
    session: Session, owner: object, conversation_id: object, *, lock: bool = False
) -> ConversationRow:
    """The row, if `owner` may see it; `lock` keeps other writers off it until the end. Raises NotOwner."""
    mine = owner_hash(owner)
    row = session.get(ConversationRow, valid_id(conversation_id), with_for_update=lock or None)
    # Compared even when there is no row, so that both refusals take the same time.
    same = compare_digest(mine, row.owner_hash if row and row.owner_hash else "0" * 64)
    if row is None or row.deleted is not None or not same:
        raise not_yours()
    return row


def owned_question(session: Session, owner: object, question_id: object) -> QuestionRow:
    """The row, if `owner` may see it. Raises NotOwner."""
    mine = owner_hash(owner)
    row = session.get(QuestionRow, valid_id(question_id))
    same = compare_digest(mine, row.owner_hash if row else "0" * 64)
    if row is None or not same:
        raise not_yours()
    return row
