"""Reactions: labels on messages."""

from __future__ import annotations

from palaver.model.ids import new_id
from palaver.model.messages import Reaction
from palaver.model.times import instant, micros, now
from palaver.store.engines.database import Change, Reader, Row


def add(
    change: Change, passage_id: int, message_id: str, agent_id: str | None, agent_name: str | None, label: str
) -> tuple[Reaction, bool]:
    """Add a reaction. Returns it, and whether it is new. Adding it twice has no effect."""
    is_new = change.run(
        "insert_reaction",
        id=new_id(),
        passage_id=passage_id,
        agent_id=agent_id,
        agent_name=agent_name,
        reaction=label,
        created_at=micros(now()),
    )
    row = change.must("reaction", passage_id=passage_id, agent_id=agent_id, reaction=label)
    return _reaction(row, message_id), bool(is_new)


def remove(change: Change, passage_id: int, agent_id: str | None, label: str) -> bool:
    return bool(change.run("delete_reaction", passage_id=passage_id, agent_id=agent_id, reaction=label))


def between(read: Reader, document_id: int, first: int, last: int) -> dict[int, list[Row]]:
    """The reactions to a range of messages in a thread, by passage id, in one query."""
    found: dict[int, list[Row]] = {}
    for row in read.all("reactions_between", document_id=document_id, first=first, last=last):
        found.setdefault(row["passage_id"], []).append(row)
    return found


def of(rows: list[Row], message_id: str) -> list[Reaction]:
    return [_reaction(row, message_id) for row in rows]


def _reaction(row: Row, message_id: str) -> Reaction:
    return Reaction(
        row["id"], message_id, row["agent_id"], row["agent_name"], row["reaction"], instant(row["created_at"])
    )
