"""Scope: where a search looks. Filters of a request become scopes, limited to what the caller may read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import create_model

from palaver.errors import Unavailable
from palaver.model import visibility
from palaver.model.people import Caller
from palaver.model.requests import Request
from palaver.search.sources import SOURCES
from palaver.store.engines.database import Reader, Scope
from palaver.store.engines.id_ranges import SHARED_SOURCES
from palaver.store.library.documents import HUMAN_ONLY, agent_scope

if TYPE_CHECKING:
    Filters = Any
else:
    Filters = create_model(
        "Filters",
        __base__=Request,
        __doc__="Filters by source.",
        __cls_kwargs__={"use_attribute_docstrings": False},
        **{name: (source.filters | None, None) for name, source in SOURCES.items()},
    )

SHARED = Scope(SHARED_SOURCES, without=(HUMAN_ONLY,))
"""What all callers may read."""
SESSIONS_OFF = "The index of sessions is switched off (PALAVER_SESSIONS_INDEX)."


def must_be_on(read: Reader) -> None:
    if not read.settings.sessions_index:
        raise Unavailable(SESSIONS_OFF)


def readable_scopes(caller: Caller, scopes: Iterable[Scope]) -> list[Scope]:
    """The parts of the scopes that the caller may read. An agent finds no human-only messages and only its own
    sessions; an agent without a name finds no sessions."""
    if visibility.sees_everything(caller):
        return list(scopes)
    found = []
    for given in scopes:
        scope = replace(given, without=(*given.without, HUMAN_ONLY), is_blind=True)
        if "sessions" not in scope.sources:
            found.append(scope)
            continue
        others = tuple(source for source in scope.sources if source != "sessions")
        if others:
            found.append(replace(scope, sources=others))
        if caller.acting_agent:
            own = (*scope.scopes, agent_scope(caller.acting_agent))
            found.append(replace(scope, sources=("sessions",), scopes=own))
    return found
