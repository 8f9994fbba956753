"""How far each followed session file of another program has been read.

The mark moves after the turns are recorded. A process that stops in between reads some turns again, and recognises
them by their ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from palaver.model.sessions import Mark, Owner
from palaver.store.engines.database import Change, Reader
from palaver.store.sessions.sessions import native_id


def marks(read: Reader, paths: Iterable[str] | None = None) -> dict[str, Mark]:
    """The marks of these files and of the sessions in them, by path; of all files by default."""
    rows = (
        read.all("watched_files")
        if paths is None
        else [row for path in paths for row in read.all("watched_file", path=path)]
    )
    return {row["path"]: Mark(**row) for row in rows}


def keep(change: Change, mark: Mark, instead_of: str | None = None) -> None:
    """Store a mark. `instead_of` is the previous name of the file."""
    if instead_of is not None:
        change.run("forget_watched", path=instead_of)
    change.run("keep_watched", **asdict(mark))


def turn_ids(read: Reader, owner: Owner, session_id: str) -> set[str]:
    """The ids of all turns of a session."""
    document = read.one("session_document", native_id=native_id(owner.id, session_id))
    return {row["native_id"] for row in read.all("turn_ids", document_id=document["id"])} if document else set()


def known(read: Reader, owner: Owner, session_id: str, ids: Iterable[str]) -> set[str]:
    """The ids of this list that a session has. For few ids this is faster than `turn_ids`."""
    document = read.one("session_document", native_id=native_id(owner.id, session_id))
    if document is None:
        return set()
    return {id for id in ids if read.one("has_turn", document_id=document["id"], native_id=id)}
