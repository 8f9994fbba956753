"""Scope: where a search looks. Filters of a request become scopes, limited to what the caller may read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import create_model

from palaver.errors import Unavailable
from palaver.model.messages import is_human_only
from palaver.model.people import Caller
from palaver.model.requests import Ask
from palaver.model.search import Standing
from palaver.search.sources import SOURCES
from palaver.store.engines.database import Reader, Scope
from palaver.store.library.documents import HUMAN_ONLY, agent_scope

if TYPE_CHECKING:
    Filters = Any
else:
    Filters = create_model(
        "Filters",
        __base__=Ask,
        __doc__="Filters by source.",
        __cls_kwargs__={"use_attribute_docstrings": False},
        **{name: (source.filters | None, None) for name, source in SOURCES.items()},
    )

SESSIONS_OFF = "The index of sessions is switched off (PALAVER_SESSIONS_INDEX)."


def must_be_on(read: Reader) -> None:
    if not read.settings.sessions_index:
        raise Unavailable(SESSIONS_OFF)


def readable_scopes(caller: Caller, scopes: Iterable[Scope]) -> list[Scope]:
    """The parts of the scopes that the caller may read. An agent finds no human-only messages and only its own
    sessions; an agent without a name finds no sessions."""
    if not caller.is_agent:
        return list(scopes)
    found = []
    for given in scopes:
        scope = replace(given, without=(HUMAN_ONLY,), is_blind=True)
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


def may_open(caller: Caller, at: Standing) -> bool:
    """Whether the caller may open a document: an agent may not open the sessions of another agent."""
    return not (caller.is_agent and at.source == "sessions" and at.agent_id != caller.acting_agent)


def is_hidden(caller: Caller, at: Standing) -> bool:
    """Whether a passage is a human-only message and the caller is an agent."""
    return at.source == "bus" and hides(caller, at.marks)


def hides(caller: Caller, data: Mapping[str, Any]) -> bool:
    """Whether a bus message with this data is hidden from the caller."""
    return caller.is_agent and is_human_only(data.get("metadata"))
