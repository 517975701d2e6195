"""Share links: read-only, random, revocable. Only a hash of the token is stored; it cannot be shown twice."""

from __future__ import annotations

import time

from sqlalchemy import select, update

from core.errors import NotOwner
from core.store.conversations import read_conversation
from core.store.database import Database
from core.store.owners import digest, new_token, owned_conversation
from core.store.records import Conversation, Share
from core.store.tables import ConversationRow, ShareRow


class Shares:
    """The share links of all conversations."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def create(self, owner: str, conversation_id: str) -> str:
        """Make a link and return its token (256 bits), this once. Raises NotOwner."""
        token = new_token()
        with self._db.writing() as session:
            conversation = owned_conversation(session, owner, conversation_id, lock=True)
            session.add(ShareRow(token_hash=digest(token), conversation_id=conversation.id, created=time.time()))
        return token

    def list(self, owner: str, conversation_id: str) -> tuple[Share, ...]:
        """The links of a conversation, oldest first, revoked ones included. Raises NotOwner."""
        with self._db.reading() as session:
            conversation = owned_conversation(session, owner, conversation_id)
            mine = select(ShareRow).where(ShareRow.conversation_id == conversation.id).order_by(ShareRow.created)
            return tuple(Share(row.token_hash[:12], row.created, row.revoked) for row in session.scalars(mine))

    def revoke(self, owner: str, conversation_id: str, share_id: str | None = None) -> int:
        """Close one link (by `Share.id`) or all of a conversation; returns how many. Raises NotOwner."""
        with self._db.writing() as session:
            conversation = owned_conversation(session, owner, conversation_id)
            live = [ShareRow.conversation_id == conversation.id, ShareRow.revoked.is_(None)]
            if share_id is not None:
                live.append(ShareRow.token_hash.startswith(share_id, autoescape=True))
            closed = update(ShareRow).where(*live).values(revoked=time.time()).returning(ShareRow.token_hash)
            return len(session.scalars(closed).all())

    def open(self, token: str) -> Conversation:
        """The conversation behind a link. Raises NotOwner when the link is unknown or revoked."""
        gone = NotOwner("This link does not exist or was revoked. Ask its owner for a new one.")
        if not isinstance(token, str) or not 0 < len(token) <= 128:
            raise gone
        with self._db.reading() as session:
            share = session.get(ShareRow, digest(token))
            if share is None or share.revoked is not None:
                raise gone
            row = session.get_one(ConversationRow, share.conversation_id)
            return read_conversation(session, row)
