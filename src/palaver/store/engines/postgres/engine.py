"""The PostgreSQL engine: one schema for each workspace, a pool of connections, and a thread for each read.

Changes that arrive at the same time share one transaction, as with SQLite. If one fails after it has written, the
others are repeated without it. The connections of a workspace see its schema only.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg.rows import dict_row, tuple_row
from psycopg_pool import ConnectionPool, PoolTimeout

from palaver.errors import Conflict, PalaverError, Timeout, Unavailable
from palaver.model.events import Event
from palaver.settings import Settings
from palaver.store.engines import missing_tables, named_sql
from palaver.store.engines.database import (
    Change,
    Dialect,
    EngineStats,
    Pending,
    Reader,
    Row,
    json_batches,
    write_events,
    write_index,
)
from palaver.store.engines.postgres.dialect import PostgresDialect
from palaver.store.engines.write_queue import Job, finish_jobs, send_events

T = TypeVar("T")
RawConnection = psycopg.Connection[Row]

READERS = 7
"""The number of reader threads."""
HELPERS = 2
"""How many more writers may start while the first one is blocked."""
CONNECTIONS = READERS + 1 + HELPERS
MOST_JOBS = 64
"""How many changes share a transaction."""
SLOW_SECONDS = 0.05
"""A writer without progress for this long gets a helper."""
CONNECT_SECONDS = 5.0
"""The least time to wait for a connection."""
TOTALS_SINCE = 11
"""The migration that added row counts to the index."""
CONFLICTS = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
TRIES = 6

INVALID_INDEXES = (
    "SELECT c.relname AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
    "WHERE NOT i.indisvalid AND c.relnamespace = current_schema()::regnamespace"
)


class PostgresConnection:
    dialect: Dialect

    def __init__(
        self, raw: RawConnection, dialect: PostgresDialect, before_event_log: Callable[[], None] = lambda: None
    ) -> None:
        self.raw, self.dialect = raw, dialect
        self._event_log_statements, self._before_event_log = dialect.event_log_statements, before_event_log
        self.has_written = False

    def fetch(self, sql: str, params: Mapping[str, Any]) -> list[Row]:
        if sql in self._event_log_statements:
            self._before_event_log()
        self.has_written = self.has_written or not sql.startswith("SELECT")
        cursor = self.raw.execute(sql.encode(), params)
        return cursor.fetchall() if cursor.description else []

    def fetch_tuples(self, sql: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        with self.raw.cursor(row_factory=tuple_row) as cursor:
            return cursor.execute(sql.encode(), params).fetchall()

    def run(self, sql: str, params: Mapping[str, Any]) -> int:
        if sql in self._event_log_statements:
            self._before_event_log()
        self.has_written = True
        return self.raw.execute(sql.encode(), params).rowcount

    def run_many(self, sql: str, rows: Iterable[Mapping[str, Any]]) -> None:
        self.has_written = True
        with self.raw.cursor() as cursor:
            cursor.executemany(sql.encode(), rows)

    def run_rows(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        for batch in json_batches(rows):
            self.raw.execute(sql.encode(), {"rows": batch.decode()})


@contextmanager
def readable_errors() -> Iterator[None]:
    """Turn errors of PostgreSQL into errors that tell a person what to do."""
    try:
        yield
    except (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable):
        raise Timeout() from None
    except psycopg.errors.UniqueViolation:
        raise Conflict("Another caller has just taken that name. Choose another one.") from None
    except psycopg.errors.UndefinedTable:
        raise Unavailable("A table is missing in the database. Run 'palaver doctor' to see what can be done.") from None
    except (psycopg.errors.DiskFull, psycopg.errors.OutOfMemory):
        raise Unavailable("The database is out of space: nothing was stored.") from None
    except (psycopg.OperationalError, PoolTimeout) as problem:
        raise Unavailable(f"PostgreSQL is not reachable ({type(problem).__name__}). Try again in a moment.") from None


class _BatchFailed(Exception):
    """One job of a batch failed, so nothing was committed. `number` is its place in the batch, if known."""

    def __init__(self, number: int | None) -> None:
        super().__init__(number)
        self._number = number

    def parts(self, jobs: list[Job]) -> list[list[Job]]:
        """The batches to try instead: the other jobs together, the failed one alone."""
        if self._number is None:
            half = len(jobs) // 2
            return [jobs[:half], jobs[half:]]
        before, bad, after = jobs[: self._number], jobs[self._number : self._number + 1], jobs[self._number + 1 :]
        return [part for part in (before, bad, after) if part]


class PostgresEngine:
    """The schema of one workspace, or of the server."""

    def __init__(self, url: str, schema: str, settings: Settings, kind: str = "workspace") -> None:
        self._url, self._schema, self._settings, self._kind = url, schema, settings, kind
        self.has_lost_log = False
        self._dialect = PostgresDialect()
        self._told: Callable[[list[Event]], None] = lambda events: None
        self._channel = f"palaver_{schema}"
        self._stats = EngineStats()
        lock_timeout = max(1, int(settings.search_timeout * 1000))
        with readable_errors():
            migrate(url, schema, kind)
            self.create_missing_tables()
            self._pool: ConnectionPool[RawConnection] = ConnectionPool(
                url,
                connection_class=psycopg.Connection[Row],
                kwargs={
                    "row_factory": dict_row,
                    "options": f"-c search_path={schema} -c lock_timeout={lock_timeout}ms",
                },
                min_size=1,
                max_size=CONNECTIONS,
                timeout=max(settings.search_timeout, CONNECT_SECONDS),
                open=True,
            )
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix=f"pg-{schema}")
        self._writing = ThreadPoolExecutor(1 + HELPERS, thread_name_prefix=f"pg-write-{schema}")
        self._waiting: deque[Job] = deque()
        self._start_lock = threading.Lock()
        self._has_writer, self._helpers, self._progress = False, 0, 0.0

    def on_commit(self, told: Callable[[list[Event]], None]) -> None:
        self._told = told

    async def read(self, work: Callable[[Reader], T], *, timeout: float | None = None) -> T:
        loop = asyncio.get_running_loop()
        end = time.monotonic() + (timeout or self._settings.search_timeout)
        return await loop.run_in_executor(self._threads, self._read, work, end)

    def _read(self, work: Callable[[Reader], T], end: float) -> T:
        def read_once(raw: RawConnection) -> T:
            left = int((end - time.monotonic()) * 1000)
            if left <= 0:
                raise Timeout()
            raw.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ  # one snapshot for all statements
            raw.execute("SELECT set_config('statement_timeout', %s, true)", (str(left),))
            return work(Reader(PostgresConnection(raw, self._dialect), self._settings))

        with readable_errors():
            return self._with_retries(read_once)

    # Changing

    async def change(self, work: Callable[[Change], T]) -> T:
        loop = asyncio.get_running_loop()
        job = Job(work, loop, loop.create_future())
        job.done.add_done_callback(asyncio.Future.exception)  # the caller may have gone
        self._waiting.append(job)
        self._start_writer()
        # A queued change may be committed even if its caller goes away.
        while not (await asyncio.wait((job.done,), timeout=SLOW_SECONDS))[0]:
            self._start_writer()
        result: T = job.done.result()
        return result

    def _start_writer(self) -> None:
        """Start the main writer, which takes all waiting jobs at once. While it is blocked, start helpers, which take
        one job each."""
        with self._start_lock:
            if not self._waiting:
                return
            if not self._has_writer:
                self._has_writer, self._progress = True, time.monotonic()
                self._writing.submit(self._write_all)
            elif self._helpers < HELPERS and time.monotonic() - self._progress > SLOW_SECONDS:
                self._helpers += 1
                self._writing.submit(self._write_one)

    def _write_all(self) -> None:
        while True:
            with self._start_lock:
                jobs = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_JOBS))]
                if not jobs:
                    self._has_writer = False
                    return
            self._progress = time.monotonic()
            self._commit_together(jobs)
            finish_jobs(jobs)

    def _write_one(self) -> None:
        with self._start_lock:
            jobs = [self._waiting.popleft()] if self._waiting else []
        if jobs:
            self._commit_together(jobs)
            finish_jobs(jobs)
        with self._start_lock:
            self._helpers -= 1

    def _commit_together(self, jobs: list[Job]) -> None:
        began = time.perf_counter()
        try:
            with readable_errors():
                events = self._with_retries(lambda raw: self._transaction(raw, jobs))
            self._stats.commits += 1
            self._stats.commit_seconds += time.perf_counter() - began
        except _BatchFailed as failed:
            for part in failed.parts(jobs):
                self._commit_together(part)
        except BaseException as problem:
            for job in jobs:
                job.problem = job.problem or problem
        else:
            send_events(jobs, self._told, events)

    def _transaction(self, raw: RawConnection, jobs: list[Job]) -> list[Event]:
        raw.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # after a lock, see the other commit
        if len(jobs) > 1:
            # A batch locks several threads in any order. This lock keeps two batches from a deadlock.
            raw.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"{self._channel} together",))
        pending, events = Pending(), list[Event]()

        def write_log() -> None:
            """Write the events at the end, or before a job reads the event log, so that it sees earlier events."""
            events.extend(write_events(connection, pending))
            pending.events.clear()

        connection = PostgresConnection(raw, self._dialect, write_log)
        for number, job in enumerate(jobs):
            if len(jobs) > 1:
                self._progress = time.monotonic()
            job.result = job.problem = None
            change, connection.has_written = Change(connection, self._settings), False
            try:
                job.result = job.work(change)
            except Exception as problem:
                if len(jobs) == 1 or raw.broken or isinstance(problem, CONFLICTS):
                    raise
                if connection.has_written or not isinstance(problem, PalaverError):
                    raise _BatchFailed(number) from None
                job.problem = problem  # it failed before it wrote anything
            else:
                pending.add(change.pending)
        try:
            write_index(connection, pending)
            write_log()
            if events:
                raw.execute("SELECT pg_notify(%s, %s)", (self._channel, str(events[-1].id)))
        except Exception as problem:
            if len(jobs) == 1 or raw.broken or isinstance(problem, CONFLICTS):
                raise
            raise _BatchFailed(None) from None
        return events

    def _with_retries(self, once: Callable[[RawConnection], T]) -> T:
        """Run work; repeat it after a conflict or a lost connection. A commit without an answer is never repeated."""
        for attempt in range(TRIES):
            is_last = attempt == TRIES - 1
            with self._pool.connection() as raw:
                try:
                    result = once(raw)
                except CONFLICTS:
                    raw.rollback()
                    if is_last:
                        raise Timeout() from None
                    continue
                except (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable):
                    raise
                except psycopg.OperationalError:
                    if is_last:
                        raise
                    self._pool.check()
                    continue
                raw.commit()
                return result
        raise Timeout()

    async def watch(self, woken: Callable[[], None]) -> None:
        while True:
            with contextlib.suppress(psycopg.OperationalError):
                async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as raw:
                    await raw.execute(f'LISTEN "{self._channel}"'.encode())
                    woken()  # for commits before this connection
                    async for _ in raw.notifies():
                        woken()
            await asyncio.sleep(0.5)

    def check(self) -> list[str]:
        """Find indexes that were never finished. The server itself checks its pages."""
        with readable_errors(), self._pool.connection() as raw:
            rows = raw.execute(INVALID_INDEXES).fetchall()
        return [f"the index {row['name']} is not valid" for row in rows]

    def lost_files(self) -> list[str]:
        return []  # the server looks after its files

    def create_missing_tables(self) -> list[str]:
        with readable_errors(), _connect(self._url, self._schema) as raw:
            gone = missing_tables.missing(Reader(PostgresConnection(raw, self._dialect), self._settings), self._kind)
            if not gone:
                return []
            _lock(raw, self._schema)  # servers starting at once take turns
            gone = missing_tables.missing(Reader(PostgresConnection(raw, self._dialect), self._settings), self._kind)
            made, statements = missing_tables.creation_for_postgres(self._kind, gone)
            for statement in statements:
                raw.execute(statement.encode())
            return made

    def empty_index(self) -> None:
        with readable_errors(), _connect(self._url, self._schema) as raw:
            raw.execute(f"TRUNCATE {', '.join({*missing_tables.INDEX_TABLES, *missing_tables.LINKED_TABLES})}".encode())
            raw.execute(missing_tables.RESTART_SUBSTRING_INDEX.encode())

    def stats(self) -> EngineStats:
        return replace(self._stats, waiting=len(self._waiting))

    def copy_into(self, folder: Path) -> int:
        """Copy every table of one snapshot, in PostgreSQL's own text format."""
        with readable_errors(), psycopg.connect(self._url, options=f"-c search_path={self._schema}") as raw:
            raw.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            for table in _tables(raw, self._schema):
                file, cursor = (folder / f"{table}.copy").open("wb"), raw.cursor()
                with file, cursor, cursor.copy(f'COPY "{table}" TO STDOUT'.encode()) as data:
                    for block in data:
                        file.write(block)
            row = raw.execute("SELECT max(number) FROM migrations").fetchone()
        return int(row[0]) if row else 0

    def wipe(self) -> None:
        """Rewrite tables and indexes. The server removes old files of its own log (WAL) later."""
        with readable_errors(), psycopg.connect(self._url, autocommit=True) as raw:
            for table in _tables(raw, self._schema):
                raw.execute(f'VACUUM (FULL, ANALYZE) "{self._schema}"."{table}"'.encode())
                _forget_statistics(raw, self._schema, table)
            raw.execute("VACUUM FULL pg_statistic")
            raw.execute("CHECKPOINT" if _may_checkpoint(raw) else "SELECT 1")  # old files go with the next one

    def close(self) -> None:
        self._writing.shutdown(wait=True)
        self._threads.shutdown(wait=True)
        self._pool.close()


def migrate(url: str, schema: str, kind: str, upto: int | None = None) -> None:
    """Migrate a schema to the newest version, or up to `upto`. Servers that start at once take turns."""
    steps = [step for step in named_sql.migrations("postgres", kind) if upto is None or step[0] <= upto]
    with psycopg.connect(url) as raw:
        _lock(raw, schema)
        raw.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"'.encode())
        raw.execute(f'SET LOCAL search_path TO "{schema}"'.encode())
        raw.execute("CREATE TABLE IF NOT EXISTS migrations (number bigint PRIMARY KEY)")
        row = raw.execute("SELECT coalesce(max(number), 0) FROM migrations").fetchone()
        have = row[0] if row else 0
        if have > steps[-1][0]:
            raise Unavailable(f"This data was written by a newer palaver (schema {have}). Upgrade palaver.")
        for number, sql in steps:
            if number > have:
                raw.execute(sql.encode())
                raw.execute("INSERT INTO migrations VALUES (%s)", (number,))


def _lock(raw: psycopg.Connection[Any], schema: str) -> None:
    """Keep other servers from migrating this schema until the end of the transaction."""
    raw.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"palaver {schema}",))


def _connect(url: str, schema: str) -> RawConnection:
    options = f"-c search_path={schema} -c lock_timeout=10s"
    return psycopg.connect(url, row_factory=dict_row, options=options)


def missing_tables_in(url: str, schema: str, kind: str, settings: Settings) -> list[str]:
    """The tables and indexes that are missing in a schema. Nothing is changed."""
    with readable_errors(), _connect(url, schema) as raw:
        row = raw.execute("SELECT max(number) AS number FROM migrations").fetchone()
        if row and row["number"] != named_sql.migrations("postgres", kind)[-1][0]:
            return []  # an older schema, which is migrated when it is opened
        return missing_tables.missing(Reader(PostgresConnection(raw, PostgresDialect()), settings), kind)


# Schemas, backups and maintenance


def _tables(raw: psycopg.Connection[Any], schema: str) -> list[str]:
    """The tables of a schema. A table comes after the tables that it refers to."""
    rows = raw.execute(
        "SELECT c.relname, ARRAY(SELECT confrelid::regclass::oid FROM pg_constraint "
        "WHERE conrelid = c.oid AND contype = 'f' AND confrelid <> c.oid), c.oid FROM pg_class c "
        "WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s) AND c.relkind = 'r' "
        "AND c.relname <> 'migrations' ORDER BY c.relname",
        (schema,),
    ).fetchall()
    waiting, placed, ordered = list(rows), set[int](), list[str]()
    while waiting:
        ready = [row for row in waiting if set(row[1]) <= placed]
        assert ready, "tables refer to each other in a circle"
        ordered += [row[0] for row in ready]
        placed |= {row[2] for row in ready}
        waiting = [row for row in waiting if row[2] not in placed]
    return ordered


def schemas(url: str, prefix: str) -> list[str]:
    """The schemas whose names have this prefix."""
    with readable_errors(), psycopg.connect(url) as raw:
        rows = raw.execute("SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s)", (prefix,)).fetchall()
    return [row[0] for row in rows]


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The version and settings of the PostgreSQL server and database."""

    version: str
    number: int
    encoding: str
    is_old_collation: bool
    """Whether the collation of the operating system has changed since the indexes were built."""
    may_create: bool


def server_info(url: str) -> ServerInfo:
    with readable_errors(), psycopg.connect(url, connect_timeout=int(CONNECT_SECONDS)) as raw:
        row = raw.execute(
            "SELECT current_setting('server_version'), current_setting('server_version_num')::int, "
            "pg_encoding_to_char(encoding), has_database_privilege(datname, 'CREATE'), datcollate "
            "FROM pg_database WHERE datname = current_database()"
        ).fetchone()
        assert row is not None
        is_old = False
        if row[1] >= 150_000:
            found = raw.execute(
                "SELECT datcollversion <> pg_database_collation_actual_version(oid) "
                "FROM pg_database WHERE datname = current_database()"
            ).fetchone()
            is_old = bool(found and found[0])
    return ServerInfo(row[0], row[1], row[2], is_old, row[3])


def existing_schemas(url: str, schemas: list[str]) -> list[str]:
    """The schemas of this list that exist."""
    with readable_errors(), psycopg.connect(url) as raw:
        rows = raw.execute("SELECT nspname FROM pg_namespace WHERE nspname = ANY(%s)", (schemas,)).fetchall()
    return [row[0] for row in rows]


def _forget_statistics(raw: psycopg.Connection[Any], schema: str, table: str) -> None:
    """Remove sample values of deleted rows from the planner statistics of an empty table.

    PostgreSQL never updates the statistics of an empty table. Setting the type of a column again removes them.
    """
    name = f'"{schema}"."{table}"'
    if raw.execute(f"SELECT 1 FROM {name} LIMIT 1".encode()).fetchone():
        return
    columns = raw.execute(
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a JOIN pg_stats s "
        "ON s.attname = a.attname WHERE a.attrelid = CAST(%s AS regclass) AND s.schemaname = %s AND s.tablename = %s",
        (name, schema, table),
    ).fetchall()
    for column, kind in columns:
        raw.execute(f'ALTER TABLE {name} ALTER COLUMN "{column}" TYPE {kind}'.encode())


def _may_checkpoint(raw: psycopg.Connection[Any]) -> bool:
    row = raw.execute("SELECT pg_has_role('pg_checkpoint', 'USAGE')").fetchone()
    return bool(row and row[0])


def drop(url: str, schema: str) -> None:
    with readable_errors(), psycopg.connect(url, options="-c lock_timeout=10s") as raw:
        raw.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE'.encode())


def rebuild_invalid_indexes(url: str, schema: str) -> list[str]:
    """Rebuild indexes that are not valid. Returns their names."""
    with readable_errors(), psycopg.connect(url, autocommit=True, options=f"-c search_path={schema}") as raw:
        names = [str(row[0]) for row in raw.execute(INVALID_INDEXES).fetchall()]
        for name in names:
            raw.execute(f'REINDEX INDEX "{name}"'.encode())
    return names


def load_copy(url: str, schema: str, kind: str, number: int, folder: Path) -> None:
    """Create a schema of an older version and fill it from a backup. It is migrated when it is opened."""
    with readable_errors():
        migrate(url, schema, kind, number)
        with psycopg.connect(url, options=f"-c search_path={schema}") as raw:
            for table in _tables(raw, schema):
                path = folder / f"{table}.copy"
                if raw.execute(f'SELECT 1 FROM "{table}" LIMIT 1'.encode()).fetchone():
                    raw.execute(f'DELETE FROM "{table}"'.encode())
                with path.open("rb") as file, raw.cursor().copy(f'COPY "{table}" FROM STDIN'.encode()) as data:
                    while block := file.read(1 << 20):
                        data.write(block)
            _reset_sequences(raw, schema)
            if kind == "workspace" and number >= TOTALS_SINCE:
                raw.execute(b"DELETE FROM passage_totals")  # the copy and the trigger both counted the rows
                raw.execute(b"INSERT INTO passage_totals SELECT count(*), coalesce(sum(length), 0) FROM passage_index")


def _reset_sequences(raw: psycopg.Connection[Any], schema: str) -> None:
    """Set each sequence to continue after the highest id."""
    rows = raw.execute(
        "SELECT table_name, column_name FROM information_schema.columns "
        "WHERE table_schema = %s AND is_identity = 'YES'",
        (schema,),
    ).fetchall()
    for table, column in rows:
        last = f'(SELECT coalesce(max("{column}"), 0) + 1 FROM "{table}")'
        raw.execute(f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), {last}, false)".encode())
