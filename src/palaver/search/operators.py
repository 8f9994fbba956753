"""Operators of a query become scopes: who said it, where, in which source and project, when, and what it has.

The same operator twice means either value; `has`, `before` and `after` must all hold. An operator with a - before it
excludes each of its values. Operators and the filters of a request must both hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo

from palaver.errors import Refused
from palaver.model.people import Agent, Caller
from palaver.model.projects import EVERY_PROJECT
from palaver.model.sources import ALL_SOURCES, SOURCES
from palaver.model.times import iso, micros
from palaver.search.scope import readable_scopes
from palaver.store.bus import agents
from palaver.store.engines.database import FACTS, FOREVER, Lookup, Reader, Scope, role_scope
from palaver.store.library.documents import agent_scope, document_scope, project_scope
from palaver.store.search import found_passages
from palaver.store.sessions import sharing
from palaver.text import dates
from palaver.text.dates import periods
from palaver.text.operators import take_operators
from palaver.text.query import Beginning, Phrase
from palaver.text.tokenize import words

MOST_PLACES = 200
"""Documents that one `in:` can mean."""
ROLES = frozenset({"user", "assistant", "tool", "system"})
"""Authors in sessions and imported conversations."""
WITH_NAMES = ("bus", "chats")
"""Sources whose messages have the names of their authors."""
WITH_PROJECTS = frozenset(row.name for row in SOURCES if row.has_projects)
SOURCE_NAMES = {
    **{f"{row.singular}{plural}": row.name for row in SOURCES for plural in ("", "s")},
    **{row.label.lower(): row.name for row in SOURCES},
    "message": "bus",
    "messages": "bus",
    "import": "archive",
    "imports": "archive",
    **{row.name: row.name for row in SOURCES},
}
"""What people call the sources."""
OTHER_FACTS = {"attachment": "image", "images": "image", "links": "link", "url": "link", "reactions": "reaction"}
"""Other names of what a text can have."""

_AGO = re.compile(r"(\d{1,4}) ?(h|d|w|m|y|hours?|days?|weeks?|months?|years?)(?: ago)?", re.IGNORECASE)
_UNITS = {"h": "hour", "d": "day", "w": "week", "m": "month", "y": "year"}


@dataclass(frozen=True, slots=True)
class Operators:
    """The words of a query, and what its operators say."""

    words: str
    values: Mapping[str, list[str]] = field(default_factory=dict)
    """The operators by name, with their values as they were read. Names of those that exclude begin with -."""
    since: int = -FOREVER
    until: int = FOREVER

    @property
    def names(self) -> list[str]:
        """The operators as people write them."""
        return [f"{name}:" for name in self.values]

    def scopes(self, read: Reader, caller: Caller, given: Iterable[Scope]) -> list[Scope]:
        """The scopes, limited to what the operators say."""
        found = [replace(s, since=max(s.since, self.since), until=min(s.until, self.until)) for s in given]
        if sources := self.values.get("source"):
            found = _in_sources(found, sources)
        if (projects := self.values.get("project")) and EVERY_PROJECT not in projects:
            found = [_with_any(one, map(project_scope, projects)) for one in _in_sources(found, WITH_PROJECTS)]
        if places := self.values.get("in"):
            tokens = _documents_called(read, caller, places)
            found = [_with_any(one, tokens) for one in found] if tokens else []
        if authors := self.values.get("from"):
            found = [own for name in authors for own in _from(read, caller, found, name)]
        if facts := self.values.get("has"):
            found = [replace(one, titles=False, has=(*one.has, *facts)) for one in found if one.bodies]
        if sources := self.values.get("-source"):
            found = _in_sources(found, set(ALL_SOURCES) - set(sources))
        excluded = _documents_called(read, caller, self.values.get("-in", ()))
        excluded += map(project_scope, self.values.get("-project", ()))
        without = tuple(self.values.get("-has", ()))
        found = [replace(one, without=(*one.without, *excluded), without_facts=without) for one in found]
        for name in self.values.get("-from", ()):
            found = [other for one in found for other in _not_from(read, caller, one, name)]
        return found


NO_OPERATORS = Operators("")


def parse_operators(text: str, as_of: datetime, zone: tzinfo | None) -> Operators:
    """Read the operators of a query, which is asked at a time in a time zone. Raises Refused if a value has no
    meaning."""
    rest, operators = take_operators(text)
    found: dict[str, list[str]] = {}
    since, until = -FOREVER, FOREVER
    for name, value, is_excluding in operators:
        values = [value]
        if name == "source":
            values = [_source(one) for one in value.split(",") if one.strip()]
        elif name == "has":
            values = [_fact(one) for one in value.split(",") if one.strip()]
        elif name in ("before", "after"):
            begin = _beginning(name, value, as_of, zone)
            values = [iso(begin)]
            if name == "after":
                since = max(since, micros(begin))
            else:
                until = min(until, micros(begin) - 1)
        known = found.setdefault("-" * is_excluding + name, [])
        known += [one for one in values if one not in known]
    return Operators(rest, found, since, until)


def _source(value: str) -> str:
    name = SOURCE_NAMES.get(value.strip().lower())
    if name is None:
        raise Refused(
            f"source:{value}: is not a source. Use one of {', '.join(ALL_SOURCES)}. {_quote('source', value)}"
        )
    return name


def _fact(value: str) -> str:
    name = value.strip().lower()
    name = OTHER_FACTS.get(name, name)
    if name not in FACTS:
        raise Refused(f"has:{value}: use one of {', '.join(FACTS)}. {_quote('has', value)}")
    return name


def _beginning(name: str, value: str, as_of: datetime, zone: tzinfo | None) -> datetime:
    """The first moment of the period that a value names."""
    found = period_of(value, as_of, zone)
    if found is None:
        raise Refused(
            f"{name}:{value}: is not a date. Use {name}:2026-05-01, {name}:2026-05, {name}:2026, {name}:yesterday or "
            f'{name}:"last week". {_quote(name, value)}'
        )
    return found


def _quote(name: str, value: str) -> str:
    return f'To search for the text itself, put it in double quotes: "{name}:{value}".'


def period_of(value: str, as_of: datetime, zone: tzinfo | None) -> datetime | None:
    """When the period that a value names begins, in UTC; None if it names none."""
    text = value.strip() if re.match(r"\d{4}-", value.strip()) else re.sub("[-_]+", " ", value.strip())
    try:
        if ago := _AGO.fullmatch(text):
            unit = _UNITS[ago[2][0].lower()]
            here = as_of.astimezone(zone)
            local = here if unit == "hour" else here.replace(hour=0, minute=0, second=0, microsecond=0)
            moment = periods.shift(local.replace(tzinfo=None), unit, -int(ago[1]))
            return (moment.replace(tzinfo=zone) if zone else moment).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
    for phrase in (text, f"in {text}", f"on {text}"):
        for one in dates.find(phrase, as_of, zone):
            if one.text == phrase or one.text == text:
                return one.begin if one.begin != dates.EARLIEST else None
    return None


def _in_sources(scopes: Iterable[Scope], wanted: Iterable[str]) -> list[Scope]:
    names = set(wanted)
    kept = (replace(one, sources=tuple(name for name in one.sources if name in names)) for one in scopes)
    return [one for one in kept if one.sources]


def _with_any(scope: Scope, tokens: Iterable[str]) -> Scope:
    return replace(scope, any_of=(*scope.any_of, tuple(tokens)))


def _documents_called(read: Reader, caller: Caller, names: Iterable[str]) -> list[str]:
    """The scope tokens of the threads, conversations and documents that `in:` means."""
    return list(dict.fromkeys(document_scope(id) for name in names for id in documents_called(read, caller, name)))


def documents_called(read: Reader, caller: Caller, name: str) -> list[int]:
    """The documents with this id or title, or else with these words in the title. Those that the caller may not open do
    not count."""
    ids = [found_passages.document_id_of(read, source, name) for source in ALL_SOURCES]
    reach = sharing.reach_of(read, caller)
    likely = found_passages.documents_with_title(read, name, sharing.readable_groups(read, reach))
    titled = [one.id for one in likely if one.title.lower() == name.lower()]
    exact = dict.fromkeys(id for id in (*ids, *titled) if id is not None)
    allowed = [id for id in exact if reach.may_open(found_passages.document(read, id))]
    if allowed:
        return allowed
    titles = titles_with(read, caller, name, MOST_PLACES)[:MOST_PLACES]
    return [one.document_id for one in found_passages.candidates(read, titles)]


def titles_with(read: Reader, caller: Caller, text: str, most: int) -> list[int]:
    """The newest titles of each scope with these words side by side. The last word may be unfinished."""
    folded = words(text)
    if not folded:
        return []
    phrase = Phrase((*folded[:-1], Beginning(folded[-1])), prefix=True)
    scopes = readable_scopes(read, caller, [Scope(ALL_SOURCES, bodies=False)])
    return [id for one in scopes for id in read.look_up(Lookup(one, most, [[phrase]])).ids]


def _author(read: Reader, caller: Caller, name: str) -> tuple[str, Agent | None, tuple[str, ...]]:
    """The author that `from:` means: the name, the agent of this name, and the names in messages."""
    own = caller.acting_agent if caller.is_agent else caller.name
    called = own if name.lower() == "me" and own else name.removeprefix("@")
    agent = agents.named(read, called)
    called_too = agents.names_of(read, agent) if agent else []
    return called.lower(), agent, tuple(dict.fromkeys(one for name in (called, *called_too) for one in spellings(name)))


def _not_from(read: Reader, caller: Caller, scope: Scope, name: str) -> Iterable[Scope]:
    """The scopes of what others than one author said, and of texts without an author."""
    role, agent, names = _author(read, caller, name)
    others = set(ALL_SOURCES) - {*WITH_NAMES, *WITH_PROJECTS}
    yield from _in_sources([scope], others)
    for one in _in_sources([scope], WITH_NAMES):
        yield replace(one, without_authors=(*one.without_authors, *names))
    for one in _in_sources([scope], WITH_PROJECTS):
        if role in ROLES:
            one = replace(one, without=(*one.without, role_scope(role)))
        if agent is None or "sessions" not in one.sources:
            yield one
            continue
        yield from _in_sources([one], WITH_PROJECTS - {"sessions"})
        # An agent's session also has the words of its user.
        sessions = replace(one, sources=("sessions",))
        yield replace(sessions, without=(*one.without, role_scope("assistant")))
        if not one.roles or "assistant" in one.roles:
            yield replace(sessions, roles=("assistant",), without=(*one.without, agent_scope(agent.id)))


def _from(read: Reader, caller: Caller, scopes: Iterable[Scope], name: str) -> Iterable[Scope]:
    """The scopes of what one author said."""
    role, agent, names = _author(read, caller, name)
    for one in scopes:
        if not one.bodies:
            continue
        named = tuple(source for source in one.sources if source in WITH_NAMES)
        if named:
            yield replace(one, sources=named, titles=False, authors=names)
        if agent and "sessions" in one.sources and (not one.roles or "assistant" in one.roles):
            # An agent's session also has the words of its user.
            scoped = (*one.scopes, agent_scope(agent.id))
            yield replace(one, sources=("sessions",), titles=False, scopes=scoped, roles=("assistant",))
        recorded = tuple(source for source in one.sources if source in WITH_PROJECTS)
        if role in ROLES and recorded and (not one.roles or role in one.roles):
            yield replace(one, sources=recorded, titles=False, roles=(role,))


def spellings(name: str) -> tuple[str, ...]:
    """A name in small letters. An engine may turn only ASCII letters into small ones."""
    ascii_only = "".join(char.lower() if char.isascii() else char for char in name)
    forms = (name.lower(), ascii_only, name.title(), name.upper())
    return tuple(dict.fromkeys("".join(c.lower() if c.isascii() else c for c in form) for form in forms))
