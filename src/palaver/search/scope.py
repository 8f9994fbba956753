"""Scope: where a search looks. Filters of a request become scopes, limited to what the caller may read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import create_model

from palaver.errors import Unavailable
from palaver.model import visibility
from palaver.model.people import Caller
from palaver.model.projects import same_project
from palaver.model.requests import Request
from palaver.model.visibility import SessionReach
from palaver.search.sources import SOURCES
from palaver.store.engines.database import Groups, Lookup, Reader, Scope
from palaver.store.engines.id_ranges import SHARED_SOURCES
from palaver.store.library.documents import HUMAN_ONLY, agent_scope, project_scopes
from palaver.store.sessions import sharing
from palaver.store.sessions.sharing import SessionGroup

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


def readable_scopes(
    read: Reader, caller: Caller, scopes: Iterable[Scope], *, is_project_first: bool = False
) -> list[Scope]:
    """The parts of the scopes that the caller may read. An agent finds no human-only messages, and no sessions out of
    its reach. `is_project_first`: where a scope names no agent, session or project, only the sessions of the caller's
    project are found, and its own without a project."""
    found = []
    reach = sharing.reach_of(read, caller)
    groups: Sequence[SessionGroup] | None = None
    for given in scopes:
        scope = given
        if not visibility.sees_everything(caller):
            scope = replace(given, without=(*given.without, HUMAN_ONLY), is_blind=True)
        is_narrowed = is_project_first and bool(reach.project) and not (given.scopes or given.any_of)
        if "sessions" not in scope.sources or (reach.is_everything and not is_narrowed):
            found.append(scope)
            continue
        if others := tuple(source for source in scope.sources if source != "sessions"):
            found.append(replace(scope, sources=others))
        groups = sharing.groups_of(read) if groups is None else groups
        found += _session_scopes(replace(scope, sources=("sessions",)), reach, groups, is_narrowed)
    return found


def own_scopes(read: Reader, agent_ids: Iterable[str], project: str) -> list[Scope]:
    """The turns of some agents in all projects, for a search of one's own: this project first. The order of one's own
    turns does not depend on the turns of others."""
    turns = _of_agents(Scope(("sessions",), titles=False, is_blind=True), agent_ids)
    here, alike, _ = _project_tokens(sharing.groups_of(read), project)
    if not here:
        return [turns]
    found = [replace(turns, any_of=(*turns.any_of, here), without=alike), replace(turns, without=here)]
    return [*found, replace(turns, any_of=(*turns.any_of, here, alike))] if alike else found


def _project_tokens(groups: Sequence[SessionGroup], project: str) -> tuple[tuple[str, ...], ...]:
    """The tokens of a project, those of others whose last component is the name of this one, and those of all."""
    exact = {one.project: project_scopes(one.project)[0] for one in groups if one.project}
    here = {token for name, token in exact.items() if same_project(name, project)}
    alike = {token for name, token in exact.items() if token not in here and here & {*project_scopes(name)}}
    return tuple(sorted(here)), tuple(sorted(alike)), tuple(sorted(set(exact.values())))


def _session_scopes(
    scope: Scope, reach: SessionReach, groups: Sequence[SessionGroup], is_narrowed: bool
) -> Iterator[Scope]:
    """The parts of a scope of sessions that are within reach. They have no passage in common."""
    here, alike, exact = _project_tokens(groups, reach.project)
    in_project = replace(scope, any_of=(*scope.any_of, here), without=(*scope.without, *alike))
    readable = [one for one in groups if reach.includes(one.agent_id, one.project)]
    own = {one.agent_id for one in readable if one.agent_id in reach.own}
    workers = {one.agent_id for one in readable if same_project(one.project, reach.project)}
    if not is_narrowed:
        if own:
            yield _of_agents(scope, own)
        if workers - own:
            yield _of_agents(in_project, workers - own)
        return
    if workers:
        yield in_project if reach.is_everything or reach.others is None else _of_agents(in_project, workers)
    if nowhere := {one.agent_id for one in readable if not one.project}:
        yield _of_agents(replace(scope, without=(*scope.without, *exact)), nowhere)


def _of_agents(scope: Scope, agent_ids: Iterable[str]) -> Scope:
    return replace(scope, any_of=(*scope.any_of, tuple(map(agent_scope, sorted(agent_ids)))))


def newest_with(read: Reader, groups: Groups, scopes: Iterable[Scope], most: int) -> list[int]:
    """The newest passages of each scope with a term of each group."""
    return [id for one in scopes for id in read.look_up(Lookup(one, most, groups)).ids]
