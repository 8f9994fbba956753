"""Files of other programs that are followed: how far each has been read.

The mark moves after what was read has been recorded. Whoever ends in between reads a little again, and finds by their
ids that these turns are known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from palaver.model.sessions import Owner
from palaver.store.engines.database import Change, Reader
from palaver.store.sessions.sessions import native_id


@dataclass(frozen=True, slots=True)
class Mark:
    path: str
    reader: str
    place: str
    """Device and inode: they stay when the file is renamed."""
    head_bytes: int
    head_hash: str
    """Of its first bytes: they tell a file from another one that got its inode, or its name."""
    bytes: int
    reading: str


def marks(read: Reader) -> dict[str, Mark]:
    return {row["path"]: Mark(**row) for row in read.all("watched_files")}


def keep(change: Change, mark: Mark, instead_of: str | None = None) -> None:
    """Move a mark; `instead_of` is what the file was called before."""
    if instead_of is not None:
        change.run("forget_watched", path=instead_of)
    change.run("keep_watched", **asdict(mark))


def turn_ids(read: Reader, owner: Owner, session_id: str) -> set[str]:
    """All turns a session has."""
    document = read.one("session_document", native_id=native_id(owner.id, session_id))
    return {row["native_id"] for row in read.all("turn_ids", document_id=document["id"])} if document else set()


def known(read: Reader, owner: Owner, session_id: str, ids: Iterable[str]) -> set[str]:
    """Which of these turns a session has: quicker than reading them all where they are few."""
    document = read.one("session_document", native_id=native_id(owner.id, session_id))
    if document is None:
        return set()
    return {id for id in ids if read.one("has_turn", document_id=document["id"], native_id=id)}
