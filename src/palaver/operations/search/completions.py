"""Completion of operators in a search box. Only what the caller may read counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Annotated

from pydantic import Field

from palaver.model.people import Caller
from palaver.model.projects import project_name
from palaver.model.requests import Request, clamp
from palaver.model.search import FoundPassage
from palaver.model.sources import SOURCES
from palaver.operations.operation import Route, operation
from palaver.search.operators import WITH_NAMES, WITH_PROJECTS, titles_with
from palaver.search.scope import readable_scopes
from palaver.store.bus import agents
from palaver.store.engines.database import FACTS, Reader, Scope, SearchReader
from palaver.store.library.documents import project_scope
from palaver.store.search import found_passages
from palaver.text.operators import OperatorName
from palaver.text.tokenize import words

MOST_AUTHORS = 2_000
"""Names of authors that are looked at."""
MOST_TITLES = 100
"""Titles that are looked at."""
PERIODS = ("today", "yesterday", "last week", "last month", "last year")


@dataclass(frozen=True, slots=True)
class Completion:
    """A value of an operator. `label` is what it is, for people."""

    value: str
    label: str


class CompleteOperator(Request):
    operator: OperatorName
    """from, in, source, project, before, after or has."""
    text: Annotated[str, Field(max_length=200)] = ""
    """The beginning of the value."""
    limit: Annotated[int, clamp(1, 50)] = 10
    """At most this many values, 1 to 50."""


def _begins(value: str, text: str) -> bool:
    folded = value.lower()
    return folded.startswith(text) or f" {text}" in folded


def _newest(read: Reader, caller: Caller, scope: Scope) -> FoundPassage | None:
    """The newest passage of a scope that the caller may read."""
    ids = [id for one in readable_scopes(read, caller, [scope]) for id in found_passages.newest(read, one, 1)]
    return found_passages.by_id(read, ids[0]) if ids else None


def _authors(read: Reader, caller: Caller, text: str) -> Iterator[Completion]:
    known = set()
    for agent in agents.everyone(read):
        names = (agent.display_name or agent.name, agent.name, agent.slug)
        known |= {agent.id.lower(), *(name.lower() for name in names)}
        if any(_begins(name, text) for name in names):
            yield Completion(names[0], "agent")
    for name in found_passages.author_names(read, MOST_AUTHORS):
        if name in known or not _begins(name, text):
            continue
        said = _newest(read, caller, Scope(WITH_NAMES, titles=False, authors=(name,)))
        if said and said.author:
            yield Completion(said.author, "person")


def _places(read: Reader, caller: Caller, text: str) -> Iterator[Completion]:
    ids = titles_with(read, caller, text, MOST_TITLES)
    if not words(text):  # the threads in which somebody wrote last
        scopes = readable_scopes(read, caller, [Scope(("bus",), titles=False)])
        ids = [id for one in scopes for id in found_passages.newest(read, one, MOST_TITLES)]
    singular = {row.name: row.singular for row in SOURCES}
    found: dict[str, str] = {}
    for one in found_passages.by_ids_in_order(read, ids):
        if one.title and '"' not in one.title:
            found.setdefault(one.title, singular[one.source])
    # A title that begins with the text comes before one with such a word.
    for title in sorted(found, key=lambda title: not title.lower().startswith(text)):
        yield Completion(title, found[title])


def _projects(read: Reader, caller: Caller, text: str) -> Iterator[Completion]:
    for project in found_passages.projects(read, sorted(WITH_PROJECTS)):
        name = project_name(project)
        scope = Scope(tuple(sorted(WITH_PROJECTS)), any_of=((project_scope(project),),))
        if (_begins(name, text) or project.lower().startswith(text)) and _newest(read, caller, scope):
            yield Completion(name, project)


def _sources(read: Reader, caller: Caller, text: str) -> Iterator[Completion]:
    yield from (Completion(row.name, row.label) for row in SOURCES if _begins(f"{row.name} {row.label}", text))


def _facts(read: Reader, caller: Caller, text: str) -> Iterator[Completion]:
    yield from (Completion(name, "") for name in FACTS if name.startswith(text))


def _periods(read: Reader, caller: Caller, text: str) -> Iterator[Completion]:
    yield from (Completion(name, "") for name in PERIODS if name.startswith(text))


FINDERS: dict[OperatorName, Callable[[Reader, Caller, str], Iterable[Completion]]] = {
    "from": _authors,
    "in": _places,
    "project": _projects,
    "source": _sources,
    "has": _facts,
    "before": _periods,
    "after": _periods,
}


@operation(Route("GET", "/api/knowledge/complete"))
def complete_operator(read: SearchReader, caller: Caller, request: CompleteOperator) -> list[Completion]:
    """List values of a search operator that begin with a text: authors, conversations, projects, sources."""
    found = FINDERS[request.operator](read, caller, request.text.strip().lower())
    return list(islice(found, request.limit))
