"""The interface of a database engine: connections, transactions, events and the search index.

Work is a plain function. A function that reads takes a `Reader`, which is a snapshot. A function that writes takes a
`Change`, which is one transaction with its events and index rows. The engine chooses the thread that runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import orjson

from palaver.model.events import Event
from palaver.model.times import micros
from palaver.settings import Settings
from palaver.text import tokenize
from palaver.text.query import Phrase, Query

Row = dict[str, Any]
T = TypeVar("T")

STEM = "ˢ"
"""Prefix of stems in the index. It makes stems and exact words different terms."""
SCOPE = "§"
"""Prefix of scope tokens in the index: a source, a document, an agent."""
FACTS = ("code", "link", "image", "reaction", "table")
"""What a passage can have besides words."""
CHECKED_AT_ONCE = 2_000
"""How many passages are checked at once for their author and for what they have."""
MOST_CHECKED = 200_000
"""How many passages with the words are checked at most."""
FOREVER = 2**62
"""A time in microseconds that is later than any other."""
INDEXED_AT_ONCE = 200_000
"""A change of a caller indexes about this many characters. The index rows of further texts follow in changes of their
own, so that the writer is free in between."""
BATCH_BYTES = 4_000_000
"""The approximate size of the JSON that one statement gets."""


def json_batches(rows: Iterable[Sequence[Any]]) -> Iterator[bytes]:
    """Encode rows as JSON arrays of about BATCH_BYTES, one for each statement.

    One statement for many rows saves round trips, and Python can do other work while the engine runs it.
    """
    batch: list[bytes] = []
    size = 0
    for row in rows:
        batch.append(orjson.dumps(row))
        size += len(batch[-1])
        if size > BATCH_BYTES:
            yield b"[%b]" % b",".join(batch)
            batch, size = [], 0
    if batch:
        yield b"[%b]" % b",".join(batch)


class Connection(Protocol):
    """One connection to the tables of one workspace."""

    dialect: Dialect
    check: Callable[[], None]
    """Raises an error if the read that uses the connection should end. Reading calls it before each statement."""

    def fetch(self, sql: str, params: Mapping[str, Any]) -> list[Row]: ...

    def fetch_tuples(self, sql: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Fetch rows as tuples. For many rows this takes half the time of `fetch`."""

    def run(self, sql: str, params: Mapping[str, Any]) -> int: ...

    def run_many(self, sql: str, rows: Iterable[Mapping[str, Any]]) -> None: ...

    def run_rows(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement that takes many rows as a JSON array of arrays."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Which passages a search may find: sources, bodies or titles, index tokens, roles and times.

    A passage must have every token of `scopes`, one token of each group in `any_of`, one role of `roles` (if given),
    and no token of `without`. `is_blind` is for callers who may not read everything: then only passages inside the
    scope may influence scores, order and counts. `is_typed`: words are being typed, so fewer matches are ranked.
    """

    sources: tuple[str, ...]
    bodies: bool = True
    titles: bool = True
    scopes: tuple[str, ...] = ()
    any_of: tuple[tuple[str, ...], ...] = ()
    without: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    is_blind: bool = False
    is_typed: bool = False
    since: int = -FOREVER
    until: int = FOREVER
    authors: tuple[str, ...] = ()
    """Names in small letters. The author must be one of them, if there are any."""
    has: tuple[str, ...] = ()
    """FACTS that a passage must have."""
    without_authors: tuple[str, ...] = ()
    """Names in small letters. The author must be none of them."""
    without_facts: tuple[str, ...] = ()
    """FACTS that a passage must not have."""

    @property
    def needs_facts(self) -> bool:
        """The index alone does not tell whether a passage is in the scope."""
        return bool(self.authors or self.has or self.without_authors or self.without_facts)

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


@lru_cache(maxsize=1024)
def role_scope(role: str) -> str:
    """The index token of passages with this role."""
    return "r" + "".join(tokenize.words(role))


class RankedPassage(NamedTuple):
    """A passage that matches, and its score. A higher score is better."""

    passage_id: int
    score: float


Groups = Sequence[Sequence[Phrase]]
"""A passage matches if it has a term of each group, with any ending."""
LookupOrder = Literal["newest", "best"]
"""`newest` by id, at most `most` of each id range. `best` by bm25: passages outside a scope influence scores, unless
it is blind. The engines score groups in different ways, so use this to choose candidates, never to order results."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """What is looked up in the index: the passages of a scope that have a term of each group, or that match a query.

    If very many match, only the newest are ranked.
    """

    scope: Scope
    most: int
    """How many passages are wanted. With 0, only `Found.is_capped` is."""
    groups: Groups = ()
    """Without groups and query: all passages that have the tokens of the scope."""
    query: Query | None = None
    order: LookupOrder = "newest"


class Found(NamedTuple):
    """The passages that a lookup found, in the order that it asked for."""

    ids: list[int]
    scores: Sequence[float] = ()
    """Of each passage, if they are ranked."""
    has_more: bool = False
    is_capped: bool = False
    """There are more matches of a query than are ranked. The newest were."""

    @classmethod
    def of(cls, hits: Sequence[RankedPassage], most: int, *, is_capped: bool) -> Found:
        """The first of some hits."""
        some = hits[:most]
        return cls([hit.passage_id for hit in some], [hit.score for hit in some], len(hits) > most, is_capped)

    @property
    def hits(self) -> list[RankedPassage]:
        return list(map(RankedPassage, self.ids, self.scores))

    def only(self, passage_ids: Sequence[int]) -> Found:
        """Only these of the passages."""
        scores = dict(zip(self.ids, self.scores, strict=False))
        return self._replace(ids=list(passage_ids), scores=[scores[id] for id in passage_ids if id in scores])


class Dialect(Protocol):
    """The operations that SQLite and PostgreSQL implement differently."""

    name: str
    newest_with_parts: str
    """The statement that reads imported messages, newest first, when all of them are in the substring index."""

    def sql(self, name: str) -> str:
        """The statement of this name."""

    def look_up(self, connection: Connection, what: Lookup) -> Found:
        """The passages that match. Facts and authors of the scope are not looked at (see `Reader.look_up`)."""

    def count(self, connection: Connection, what: Lookup) -> int:
        """The number of passages that match, at most `most` of each id range. Without groups: of any time."""

    def size(self, connection: Connection) -> int:
        """The approximate number of passages in the index."""

    def frequencies(self, connection: Connection, tokens: Sequence[str]) -> dict[str, int]:
        """The approximate number of passages with each index token (a stem or a scope). Tokens that are left out have
        none."""

    def write_index(self, connection: Connection, rows: Mapping[int, IndexRow | None], fresh: set[int]) -> None:
        """Write or remove index rows (None removes one). Passages in `fresh` have no old row to remove."""

    def tidy(self, connection: Connection) -> None:
        """Merge the counters of the index, and restore settings that an ended process left. Called now and then."""

    def write_parts(self, connection: Connection, texts: Mapping[int, str], times: Mapping[int, int | None]) -> None:
        """Add texts to the substring index, with their times. The texts are already in their `substring_form`."""

    def holds(self, connection: Connection, rows: Iterable[tuple[int, IndexRow]]) -> bool:
        """Does the index contain exactly the words of these passages? The rows are those of all passages."""

    def substring_candidates(self, connection: Connection, part: str, cap: int, *, roughly: bool) -> list[int]:
        """Up to `cap` passages that may contain this substring. No passage that contains it is left out. `roughly`
        allows more passages that do not contain it, where that is faster."""


@dataclass(frozen=True, slots=True)
class IndexRow:
    """The content of the search index for a passage: its scope tokens, words and stems. Spaces separate the words,
    and the stems; each stem has the prefix STEM."""

    scopes: tuple[str, ...]
    words: str
    stems: str
    substring: str | None = None
    """The text for substring search, in its `substring_form`. None for sources without substring search."""
    created_at: int | None = None
    """The time of the passage, for those with substring search."""
    prepared: object = None
    """What `Engine.prepare_text` made of these words, if it was called before. Stems and substring are then empty."""


class Reader:
    """A consistent snapshot of one workspace."""

    def __init__(self, connection: Connection, settings: Settings) -> None:
        self.connection = connection
        self.settings = settings

    def check(self) -> None:
        """Raise an error if the caller has gone or the time is over. Long work between two statements calls this."""
        self.connection.check()

    def all(self, name: str, /, **params: Any) -> list[Row]:
        """All rows of a named statement."""
        return self.connection.fetch(self.connection.dialect.sql(name), params)

    def rows(self, name: str, /, **params: Any) -> list[tuple[Any, ...]]:
        """All rows of a named statement as tuples. Faster for many rows."""
        return self.connection.fetch_tuples(self.connection.dialect.sql(name), params)

    def one(self, name: str, /, **params: Any) -> Row | None:
        """The first row of a named statement, or None."""
        rows = self.all(name, **params)
        return rows[0] if rows else None

    def must(self, name: str, /, **params: Any) -> Row:
        """The first row of a statement that always returns one, such as one with RETURNING."""
        row = self.one(name, **params)
        assert row is not None, f"{name} returned no row"
        return row

    def look_up(self, what: Lookup) -> Found:
        """The passages that match."""
        if not what.scope.needs_facts:
            return self.connection.dialect.look_up(self.connection, what)
        found = self.connection.dialect.look_up(self.connection, replace(what, most=MOST_CHECKED))
        return found.only(self.with_facts(found.ids, what.scope, what.most))

    def count(self, what: Lookup) -> int:
        """The number of passages that match, at most `most` of each id range. Without groups: of any time."""
        return self.connection.dialect.count(self.connection, what)

    def substring_candidates(self, part: str, cap: int, *, roughly: bool = False) -> list[int]:
        return self.connection.dialect.substring_candidates(self.connection, part, cap, roughly=roughly)

    def size(self) -> int:
        return self.connection.dialect.size(self.connection)

    def frequencies(self, tokens: Sequence[str]) -> dict[str, int]:
        return self.connection.dialect.frequencies(self.connection, tokens)

    def with_facts(self, passage_ids: Sequence[int], scope: Scope, most: int = MOST_CHECKED) -> list[int]:
        """The first of some passages whose author and content are as the scope wants them, at most `most`."""
        if not scope.needs_facts:
            return list(passage_ids[:most])
        wanted: dict[str, Any] = {name: (name in scope.has) - (name in scope.without_facts) for name in FACTS}
        wanted["authors"] = orjson.dumps(scope.authors).decode() if scope.authors else None
        wanted["others"] = orjson.dumps(scope.without_authors).decode()
        found: list[int] = []
        for begin in range(0, len(passage_ids), CHECKED_AT_ONCE):
            some = passage_ids[begin : begin + CHECKED_AT_ONCE]
            ids = orjson.dumps(some).decode()
            kept = {id for (id,) in self.rows("passages_with_facts", ids=ids, **wanted)}
            found += [id for id in some if id in kept]
            if len(found) >= most:
                break
        return found[:most]


class SearchReader(Reader):
    """A snapshot for the search of a caller. Its time is limited, and searches of one caller take turns."""


@dataclass
class Pending:
    """Events and index rows that are written just before the commit, for all changes of a transaction."""

    events: list[Event] = field(default_factory=list)
    index: dict[int, IndexRow | None] = field(default_factory=dict)
    fresh: set[int] = field(default_factory=set)

    def add(self, other: Pending) -> None:
        self.events += other.events
        for passage_id, row in other.index.items():
            self.put(passage_id, row, is_new=passage_id in other.fresh)

    def put(self, passage_id: int, row: IndexRow | None, *, is_new: bool) -> None:
        # SQLite may reuse the id of a passage that was just deleted. Its old row may still be in the index.
        if is_new and passage_id not in self.index:
            self.fresh.add(passage_id)
        self.index[passage_id] = row


class PutOff(NamedTuple):
    """A text that is indexed later: its number of characters, and whether its passage is new."""

    size: int
    is_new: bool


class Change(Reader):
    """One transaction with its events and index rows. All of it is committed, or nothing."""

    def __init__(self, connection: Connection, settings: Settings) -> None:
        super().__init__(connection, settings)
        self.pending = Pending()
        self.room: float = inf
        """How many characters this change may still index."""
        self.put_off: dict[int, PutOff] = {}
        """The passages that are indexed after the commit (`Workspace.change`)."""

    def run(self, name: str, /, **params: Any) -> int:
        """Run a named statement and return the number of changed rows."""
        return self.connection.run(self.connection.dialect.sql(name), params)

    def run_many(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Run a named statement for each row, without a round trip for each."""
        self.connection.run_many(self.connection.dialect.sql(name), rows)

    def run_rows(self, name: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a named statement that takes many rows."""
        self.connection.run_rows(self.connection.dialect.sql(name), rows)

    def tell(self, event: Event) -> None:
        """Publish an event when this change is committed."""
        self.pending.events.append(event)

    def index_text(self, passage_id: int, size: int, row: Callable[[], IndexRow], *, is_new: bool) -> None:
        """Index a text of this size, or put it off if this change has indexed enough. Its old row is removed now."""
        self.room -= size
        if self.room >= 0:
            self.index(passage_id, row(), is_new=is_new)
            return
        if not is_new:
            self.unindex(passage_id)
        self.put_off[passage_id] = PutOff(size, is_new)

    def index(self, passage_id: int, row: IndexRow, *, is_new: bool) -> None:
        self.pending.put(passage_id, row, is_new=is_new)

    def unindex(self, passage_id: int) -> None:
        self.pending.put(passage_id, None, is_new=False)


def nothing_to_check() -> None:
    """A change is never ended early, nor is a read of the server itself."""


def write_index(connection: Connection, pending: Pending) -> None:
    if pending.index:
        connection.dialect.write_index(connection, pending.index, pending.fresh)


def write_events(connection: Connection, pending: Pending) -> list[Event]:
    """Number and store the events of a change. This is its last step, under the lock of the counter's row.

    So the order of ids is the order of commits, and a rollback leaves no gap.
    """
    if not pending.events:
        return []
    sql = connection.dialect.sql
    last = connection.fetch(sql("take_event_ids"), {"count": len(pending.events)})[0]["value"]
    first = last - len(pending.events) + 1
    events = [event.numbered(first + n) for n, event in enumerate(pending.events)]
    rows = [
        {
            "id": event.id,
            "type": event.type,
            "thread_id": event.thread_id,
            "message_id": event.message_id,
            "payload": event.payload.decode(),
        }
        for event in events
    ]
    connection.run_many(sql("insert_event"), rows)
    return events


@dataclass
class EngineStats:
    """How many changes wait, and how many commits there were, for the metrics."""

    waiting: int = 0
    commits: int = 0
    commit_seconds: float = 0.0


PrepareText = Callable[[list[str], list[str], str], object]
"""Gets the words, the stems and the substring form of a text. Returns None for a text that cannot be prepared."""


class Engine(Protocol):
    """The database of one workspace: its threads, connections and files."""

    async def read(
        self, work: Callable[[SearchReader], T], seconds: float | None = None, *, is_search: bool = False
    ) -> T:
        """Run work on a snapshot, for at most so many seconds. It ends when its caller has gone. Searches have threads
        of their own."""

    async def change(self, work: Callable[[Change], T], *, is_long: bool = False) -> T:
        """Run work in a transaction. Other changes do not wait for long work, where the engine can do that."""

    prepare_text: PrepareText | None
    """Does a part of the work of indexing a text before it is written, in any process. None: there is no such part."""
    long_changes_at_once: int
    """How many long changes are worth running at the same time."""

    def on_commit(self, told: Callable[[list[Event]], None]) -> None:
        """Call `told` with the events of each commit of this process."""

    async def watch(self, woken: Callable[[], None]) -> None:
        """Run until cancelled, calling `woken` whenever another process may have committed."""

    def check(self, *, is_quick: bool = False) -> list[str]:
        """Read everything and return the problems found. Nothing is changed. A quick check keeps no writer waiting."""

    has_lost_log: bool
    """Whether the write-ahead log, with the newest changes, was missing when the database was opened."""

    def lost_files(self) -> list[str]:
        """Problems with files that were removed or replaced while they are open. This check is fast."""

    def create_missing_tables(self) -> list[str]:
        """Create missing tables and indexes that hold derived data only, empty. Returns their names."""

    def empty_index(self) -> None:
        """Empty the search index. It is filled again from the texts."""

    def copy_into(self, folder: Path) -> int:
        """Write a consistent copy of all tables into a folder. Returns the schema version."""

    def wipe(self) -> None:
        """Rewrite all files, so that deleted data is in none of them."""

    def stats(self) -> EngineStats: ...

    def close(self) -> None: ...
