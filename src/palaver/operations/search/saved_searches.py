"""Saved searches: each person and each agent has their own."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from palaver.model.people import Caller
from palaver.model.requests import Id, NoArguments, NotBlank, Request, Trimmed, storable
from palaver.operations import identity
from palaver.operations.operation import Command, Route, operation
from palaver.store.bus.read_marks import reader_of
from palaver.store.engines.database import Change, Reader
from palaver.store.search import saved_searches
from palaver.store.search.saved_searches import SavedSearch

Name = Annotated[str, Field(max_length=200), AfterValidator(storable), NotBlank, Trimmed]
SavedQuery = Annotated[str, Field(max_length=2000), AfterValidator(storable), NotBlank, Trimmed]
COLUMNS = ("id", "name", "query")


def _owner(read: Reader, caller: Caller) -> str:
    return reader_of(caller, identity.agent_of(read, caller)).key


@operation(Route("GET", "/api/searches"), Command("saved list", columns=COLUMNS))
def list_saved_searches(read: Reader, caller: Caller, request: NoArguments) -> list[SavedSearch]:
    """List your saved searches by name."""
    return saved_searches.all_of(read, _owner(read, caller))


class SaveSearch(Request):
    name: Name
    """Name of the search. A search with the same name gets the new query."""
    query: SavedQuery
    """The query, with its operators."""


@operation(Route("POST", "/api/searches", status=201), Command("saved add", takes=("name",), rest="query"))
def save_search(change: Change, caller: Caller, request: SaveSearch) -> SavedSearch:
    """Save a search under a name."""
    return saved_searches.save(change, _owner(change, caller), request.name, request.query)


class UpdateSavedSearch(Request):
    search_id: Id
    """Id of the saved search."""
    name: Name | None = None
    """The new name."""
    query: SavedQuery | None = None
    """The new query."""


@operation(Route("PUT", "/api/searches/{search_id}"), Command("saved update", takes=("search_id",)))
def update_saved_search(change: Change, caller: Caller, request: UpdateSavedSearch) -> SavedSearch:
    """Rename a saved search, or change its query."""
    owner = _owner(change, caller)
    return saved_searches.update(change, owner, request.search_id, request.name, request.query)


class OneSavedSearch(Request):
    search_id: Id
    """Id of the saved search."""


@operation(Route("DELETE", "/api/searches/{search_id}"), Command("saved remove", takes=("search_id",)))
def remove_saved_search(change: Change, caller: Caller, request: OneSavedSearch) -> SavedSearch:
    """Remove a saved search."""
    return saved_searches.delete(change, _owner(change, caller), request.search_id)
