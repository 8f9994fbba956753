"""The low port: what an engine offers the rest of the store, and what a transaction looks like from inside.

Work is a plain function. A reading one gets a `Reader` (a snapshot), a changing one a `Change` (one transaction
together with the events it tells and the index rows it writes). Engines decide in which thread it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

import orjson

from palaver.model.events import Event
from palaver.model.times import micros
from palaver.settings import Settings
from palaver.text import tokenize
from palaver.text.query import AllOf, Phrase, Query, apart, together

Row = dict[str, Any]
T = TypeVar("T")

STEM = "ˢ"  # before a stem in the index, so that stems and exact words are different terms
TOGETHER = 1_000.0  # more than any score: added where all words stand side by side
SCOPE = "§"  # before a scope token: a source, a document, an agent


FOREVER = 2**62
"""A time in microseconds that is later than any other."""

PIECE = 4_000_000


def json_batches(rows: Iterable[Sequence[Any]]) -> Iterator[bytes]:
    """Rows as JSON for one statement, or a few where they are long.

    One statement for many rows spares more than their round trips: while the engine is at it, Python can do other work.
    """
    piece: list[bytes] = []
    size = 0
    for row in rows:
        piece.append(orjson.dumps(row))
        size += len(piece[-1])
        if size > PIECE:
            yield b"[%b]" % b",".join(piece)
            piece, size = [], 0
    if piece:
        yield b"[%b]" % b",".join(piece)


class Connection(Protocol):
    """One connection to one workspace's tables."""

    dialect: Dialect

    def fetch(self, sql: str, params: Mapping[str, Any]) -> list[Row]: ...

    def fetch_tuples(self, sql: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """The same for many rows: without the names of their columns they come in half the time."""

    def run(self, sql: str, params: Mapping[str, Any]) -> int: ...

    def run_many(self, sql: str, rows: Iterable[Mapping[str, Any]]) -> None: ...

    def run_rows(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """One statement that takes many rows, as an array of arrays in JSON."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Which passages a search may find: sources, bodies or titles, index tokens, roles and times.

    A passage must have every token of `scopes`, one token of each group in `any_of`, one role of `roles` (if given),
    and no token of `without`. `is_blind` is for callers who may not read everything: then only passages inside the
    scope may influence scores, order and counts.
    """

    sources: tuple[str, ...]
    bodies: bool = True
    titles: bool = True
    scopes: tuple[str, ...] = ()
    any_of: tuple[tuple[str, ...], ...] = ()
    without: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    is_blind: bool = False
    since: int = -FOREVER
    until: int = FOREVER

    @property
    def is_timed(self) -> bool:
        return self.since > -FOREVER or self.until < FOREVER

    @property
    def token_groups(self) -> list[tuple[str, ...]]:
        """Groups of index tokens. A passage must have at least one token of each group."""
        roles = [tuple(map(role_scope, self.roles))] if self.roles else []
        return [*((scope,) for scope in self.scopes), *self.any_of, *roles]

    def between(self, since: datetime | None, until: datetime | None) -> Scope:
        """The same scope, limited to passages from this period."""
        return replace(self, since=micros(since) if since else -FOREVER, until=micros(until) if until else FOREVER)

    def includes_time(self, at: datetime | None) -> bool:
        return not self.is_timed or (at is not None and self.since <= micros(at) <= self.until)


@lru_cache(maxsize=1024)
def role_scope(role: str) -> str:
    """The index token of passages with this role."""
    return "r" + "".join(tokenize.words(role))


@dataclass(frozen=True, slots=True)
class RankedPassage:
    passage_id: int
    score: float


@dataclass(frozen=True, slots=True)
class RankedPage:
    """A page of hits, best first. `capped`: more matched than were ranked, so the newest of them were."""

    hits: list[RankedPassage]
    has_more: bool
    capped: bool


class Dialect(Protocol):
    """The little in which the engines differ beyond their schema files."""

    name: str

    def sql(self, name: str) -> str: ...

    def find(self, connection: Connection, query: Query, scope: Scope, limit: int) -> RankedPage: ...

    def recall(
        self, connection: Connection, groups: Sequence[Sequence[Phrase]], scope: Scope, cap: int
    ) -> list[RankedPassage]:
        """What has a word of each group, whatever its ending, best first; at most `cap`. Of very many the newest."""

    def promising(
        self, connection: Connection, groups: Sequence[Sequence[Phrase]], scope: Scope, cap: int
    ) -> list[RankedPassage]:
        """The same of many, quicker. What the caller may not read may have a part in the order, so this may tell only
        what to look at, never in what order to show it."""

    def size(self, connection: Connection) -> int:
        """How many passages the index has, roughly."""

    def frequencies(self, connection: Connection, tokens: Sequence[str]) -> dict[str, int]:
        """How many passages have each token in their index row (a stem, a scope), roughly; 0 where it is left out."""

    def having(self, connection: Connection, groups: Sequence[Sequence[Phrase]], scope: Scope, cap: int) -> list[int]:
        """The newest passages that have a word of each group, whatever its ending; at most `cap` of each lane."""

    def count(self, connection: Connection, terms: Sequence[Phrase], scope: Scope, cap: int) -> int:
        """How many passages of a slice have any of the words, whatever its ending; at most `cap` of each lane."""

    def size_of(self, connection: Connection, scope: Scope, cap: int) -> int:
        """How many passages a slice has, whenever they were said; at most `cap` of each lane."""

    def write_index(self, connection: Connection, rows: Mapping[int, IndexRow | None], fresh: set[int]) -> None: ...

    def tidy(self, connection: Connection) -> None:
        """Add up what was counted for the index, now and then."""

    def write_parts(self, connection: Connection, texts: Mapping[int, str]) -> None:
        """Make any part of these texts be found; they are in the form they are compared in."""

    def holds(self, connection: Connection, rows: Iterable[tuple[int, IndexRow]]) -> bool:
        """Does the index hold the words of these passages, which are all there are, and no others?"""

    def may_hold(self, connection: Connection, part: str, cap: int) -> list[int]:
        """Passages that may hold this part of a text, and all that do: `cap` of them at the most."""


@dataclass(frozen=True, slots=True)
class IndexRow:
    """What the index knows of a passage: its words as they are, their stems (each with its mark), and the scopes it
    stands in. Spaces part words and stems."""

    scopes: tuple[str, ...]
    words: str
    stems: str
    substring: str | None = None
    """The text any part of which can be searched for, where that is wanted: in lower case."""


class Reader:
    """A consistent look at one workspace."""

    def __init__(self, connection: Connection, settings: Settings) -> None:
        self.connection = connection
        self.settings = settings

    def all(self, name: str, /, **params: Any) -> list[Row]:
        return self.connection.fetch(self.connection.dialect.sql(name), params)

    def rows(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        """The same without the names of the columns, where there are many rows."""
        return self.connection.fetch_tuples(self.connection.dialect.sql(name), params)

    def one(self, name: str, /, **params: Any) -> Row | None:
        rows = self.all(name, **params)
        return rows[0] if rows else None

    def must(self, name: str, /, **params: Any) -> Row:
        """The one row a statement with RETURNING always gives."""
        row = self.one(name, **params)
        assert row is not None, f"{name} returned no row"
        return row

    def find(self, query: Query, scope: Scope, limit: int) -> RankedPage:
        """The best by bm25; what has all words side by side and in order comes before all others."""
        find, phrase = self.connection.dialect.find, together(query)
        if phrase is None:
            return find(self.connection, query, scope, limit)
        best = find(self.connection, AllOf((query, phrase)), scope, limit)
        first = [RankedPassage(hit.passage_id, hit.score + TOGETHER) for hit in best.hits]
        if best.has_more:
            return replace(best, hits=first)
        others = find(self.connection, query, scope, limit + len(first))
        known = {hit.passage_id for hit in first}
        hits = first + [hit for hit in others.hits if hit.passage_id not in known]
        return RankedPage(hits[:limit], has_more=len(hits) > limit or others.has_more, capped=others.capped)

    def find_also_apart(self, query: Query, scope: Scope, limit: int) -> RankedPage:
        """The same; after all of those, what has the words apart that signs join in the query (TCP/IP)."""
        found = self.find(query, scope, limit)
        loose = None if found.has_more else apart(query)
        if loose is None:
            return found
        known = {hit.passage_id for hit in found.hits}
        also = self.find(loose, scope, limit + len(known))
        others = [hit for hit in also.hits if hit.passage_id not in known]
        # Scores tell which is better: the best of these is a little worse than the worst of those.
        scale = 0.99 * found.hits[-1].score / max(others[0].score, 1e-9) if known and others else 1.0
        hits = found.hits + [RankedPassage(hit.passage_id, hit.score * scale) for hit in others]
        return RankedPage(hits[:limit], has_more=also.has_more or len(hits) > limit, capped=also.capped)

    def size(self) -> int:
        return self.connection.dialect.size(self.connection)

    def frequencies(self, tokens: Sequence[str]) -> dict[str, int]:
        return self.connection.dialect.frequencies(self.connection, tokens)

    def having(self, groups: Sequence[Sequence[Phrase]], scope: Scope, cap: int) -> list[int]:
        return self.connection.dialect.having(self.connection, groups, scope, cap)

    def count(self, terms: Sequence[Phrase], scope: Scope, cap: int) -> int:
        return self.connection.dialect.count(self.connection, terms, scope, cap)

    def size_of(self, scope: Scope, cap: int) -> int:
        return self.connection.dialect.size_of(self.connection, scope, cap)

    def promising(self, groups: Sequence[Sequence[Phrase]], scope: Scope, cap: int) -> list[RankedPassage]:
        return self.connection.dialect.promising(self.connection, groups, scope, cap)

    def recall(self, groups: Sequence[Sequence[Phrase]], scope: Scope, cap: int) -> list[RankedPassage]:
        return self.connection.dialect.recall(self.connection, groups, scope, cap)


@dataclass
class Pending:
    """What a change leaves to be written just before the commit, together with that of its neighbours."""

    events: list[Event] = field(default_factory=list)
    index: dict[int, IndexRow | None] = field(default_factory=dict)
    fresh: set[int] = field(default_factory=set)

    def add(self, other: Pending) -> None:
        self.events += other.events
        for passage_id, row in other.index.items():
            self.put(passage_id, row, is_new=passage_id in other.fresh)

    def put(self, passage_id: int, row: IndexRow | None, *, is_new: bool) -> None:
        # SQLite gives a new passage the id of one just deleted: then a row of the old one may still be in the index.
        if is_new and passage_id not in self.index:
            self.fresh.add(passage_id)
        self.index[passage_id] = row


class Change(Reader):
    """One transaction. It exists as a whole, with its events and index rows, or not at all."""

    def __init__(self, connection: Connection, settings: Settings) -> None:
        super().__init__(connection, settings)
        self.pending = Pending()

    def run(self, name: str, /, **params: Any) -> int:
        """Change rows; returns how many."""
        return self.connection.run(self.connection.dialect.sql(name), params)

    def run_rows(self, name: str, rows: Iterable[Sequence[Any]]) -> None:
        """Many rows by one statement."""
        self.connection.run_rows(self.connection.dialect.sql(name), rows)

    def tell(self, event: Event) -> None:
        self.pending.events.append(event)

    def index(self, passage_id: int, row: IndexRow, *, is_new: bool) -> None:
        self.pending.put(passage_id, row, is_new=is_new)

    def unindex(self, passage_id: int) -> None:
        self.pending.put(passage_id, None, is_new=False)


def write_index(connection: Connection, pending: Pending) -> None:
    if pending.index:
        connection.dialect.write_index(connection, pending.index, pending.fresh)


def write_events(connection: Connection, pending: Pending) -> list[Event]:
    """The last thing a change does: its events, numbered under the lock of the counter's row.

    Taking the number last makes the order of ids the order of commits, and leaves no gap when a change is undone.
    """
    if not pending.events:
        return []
    sql = connection.dialect.sql
    last = connection.fetch(sql("take_event_ids"), {"count": len(pending.events)})[0]["value"]
    first = last - len(pending.events) + 1
    events = [event.numbered(first + n) for n, event in enumerate(pending.events)]
    connection.run_many(sql("insert_event"), [_row(event) for event in events])
    return events


def _row(event: Event) -> Row:
    return {
        "id": event.id,
        "type": event.type,
        "thread_id": event.thread_id,
        "message_id": event.message_id,
        "payload": event.payload.decode(),
    }


@dataclass
class EngineStats:
    """How busy an engine is and was."""

    waiting: int = 0
    commits: int = 0
    commit_seconds: float = 0.0


class Engine(Protocol):
    """One workspace's tables, with a life: threads, connections, files."""

    async def read(self, work: Callable[[Reader], T], *, timeout: float | None = None) -> T: ...

    async def change(self, work: Callable[[Change], T]) -> T: ...

    def on_commit(self, told: Callable[[list[Event]], None]) -> None: ...

    async def watch(self, woken: Callable[[], None]) -> None:
        """Run until cancelled, calling `woken` whenever another process may have committed."""

    def check(self) -> list[str]:
        """Read everything and say what is wrong with it; nothing is changed."""

    has_lost_log: bool
    """Whether the log with the newest changes was missing when this was opened."""

    def lost_files(self) -> list[str]:
        """Files that were taken away while they are open; quick to tell."""

    def create_missing_tables(self) -> list[str]:
        """Make again, empty, the tables and indexes that are missing and hold only copies; returns their names."""

    def empty_index(self) -> None:
        """Empty the search index, to be filled again from the texts."""

    def copy_into(self, folder: Path) -> int:
        """Write a consistent copy of all tables into a folder; returns the number of the schema."""

    def wipe(self) -> None:
        """Write everything anew, so that nothing deleted is left in the files."""

    def stats(self) -> EngineStats: ...

    def close(self) -> None: ...
