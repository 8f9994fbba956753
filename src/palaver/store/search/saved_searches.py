"""Searches that a person or an agent saved."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from palaver.errors import Refused, must_be_found
from palaver.model.ids import new_id
from palaver.model.times import now
from palaver.store.engines.database import Change, Reader
from palaver.store.rows import from_row, params_of

MOST_SAVED = 200
"""Searches that one owner can save."""


@dataclass(frozen=True, slots=True)
class SavedSearch:
    """A query with a name. The query has its operators in it."""

    id: str
    name: str
    query: str
    created_at: datetime


def all_of(read: Reader, owner: str) -> list[SavedSearch]:
    """The saved searches of an owner, by name."""
    return [from_row(SavedSearch, row) for row in read.all("saved_searches", owner=owner)]


def save(change: Change, owner: str, name: str, query: str) -> SavedSearch:
    """Save a search. One with the same name gets the new query."""
    known = all_of(change, owner)
    same = next((one for one in known if one.name.lower() == name.lower()), None)
    if same:
        return update(change, owner, same.id, name, query)
    if len(known) >= MOST_SAVED:
        raise Refused(f"You have {MOST_SAVED} saved searches. Delete one first.")
    made = SavedSearch(new_id(), name, query, now())
    change.run("insert_saved_search", owner=owner, **params_of(made))
    return made


def update(change: Change, owner: str, id: str, name: str | None, query: str | None) -> SavedSearch:
    known = must_exist(change, owner, id)
    name, query = name or known.name, query or known.query
    change.run("update_saved_search", id=id, owner=owner, name=name, query=query)
    return SavedSearch(id, name, query, known.created_at)


def delete(change: Change, owner: str, id: str) -> SavedSearch:
    known = must_exist(change, owner, id)
    change.run("delete_saved_search", id=id, owner=owner)
    return known


def must_exist(read: Reader, owner: str, id: str) -> SavedSearch:
    row = read.one("saved_search", owner=owner, id=id)
    known = from_row(SavedSearch, row) if row else None
    return must_be_found(known, "search", id, "List your saved searches to see their ids.")
