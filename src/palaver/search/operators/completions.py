"""Values of operators that begin with some letters. Only what the caller may read counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from palaver.model.people import Caller
from palaver.model.projects import project_name
from palaver.model.search import FoundPassage
from palaver.model.sources import ALL_SOURCES, SOURCES
from palaver.search.operators.narrow import WITH_NAMES, WITH_PROJECTS
from palaver.search.scope import readable_scopes
from palaver.store.bus import agents
from palaver.store.engines.database import FACTS, Reader, Scope
from palaver.store.library.documents import project_scope
from palaver.store.search import found_passages
from palaver.text.operators import OperatorName
from palaver.text.query import Beginning, Phrase
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


def complete(read: Reader, caller: Caller, operator: OperatorName, text: str, limit: int) -> list[Completion]:
    """The values of an operator that begin with a text, or have a word that does."""
    find: Callable[[Reader, Caller, str], Iterable[Completion]] = {
        "from": _authors,
        "in": _places,
        "project": _projects,
        "source": _sources,
        "has": _facts,
        "before": _periods,
        "after": _periods,
    }[operator]
    return list(islice(find(read, caller, text.strip().lower()), limit))


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
    folded = words(text)
    if folded:
        phrase = Phrase((*folded[:-1], Beginning(folded[-1])), prefix=True)
        scopes = readable_scopes(read, caller, [Scope(ALL_SOURCES, bodies=False)])
        ids = [id for one in scopes for id in read.having([[phrase]], one, MOST_TITLES)]
    else:  # the threads in which somebody wrote last
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
