"""PostgreSQL: one schema a workspace, a pool of connections, each read in a thread of its own.

Callers that change something at the same moment share one transaction, as with SQLite. One that fails after it has
written something spoils it for the others: they are done again without it. The connections of a workspace see its
schema and nothing else.
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

READERS, HELPERS = 7, 2
CONNECTIONS = READERS + 1 + HELPERS
SHARED_BY_AT_MOST = 64
SLOW_SECONDS = 0.05
PATIENCE = 5.0
"""Seconds to wait for a connection, at least."""
TOTALS_SINCE = 11  # the migration that made the index count its rows
LOST_A_RACE = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
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
        for piece in json_batches(rows):
            self.raw.execute(sql.encode(), {"rows": piece.decode()})


@contextmanager
def readable_errors() -> Iterator[None]:
    try:
        yield
    except (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable):
        raise Timeout() from None
    except psycopg.errors.UniqueViolation:
        raise Conflict(
            "Somebody else has taken that name at the same moment. Look again, and choose another."
        ) from None
    except psycopg.errors.UndefinedTable:
        raise Unavailable("A table is missing in the database. Run 'palaver doctor' to see what can be done.") from None
    except (psycopg.errors.DiskFull, psycopg.errors.OutOfMemory):
        raise Unavailable("The database is out of space: nothing was stored.") from None
    except (psycopg.OperationalError, PoolTimeout) as problem:
        raise Unavailable(f"PostgreSQL is not reachable ({type(problem).__name__}). Try again in a moment.") from None


class _Spoiled(Exception):
    """One of several jobs cannot be done: `number` tells which, where it is known. Nothing of them was."""

    def __init__(self, number: int | None) -> None:
        super().__init__(number)
        self._number = number

    def parts(self, jobs: list[Job]) -> list[list[Job]]:
        """How to do them instead: the others together, the bad one alone."""
        if self._number is None:
            half = len(jobs) // 2
            return [jobs[:half], jobs[half:]]
        before, bad, after = jobs[: self._number], jobs[self._number : self._number + 1], jobs[self._number + 1 :]
        return [part for part in (before, bad, after) if part]


class PostgresEngine:
    """One workspace's schema."""

    def __init__(self, url: str, schema: str, settings: Settings, kind: str = "workspace") -> None:
        self._url, self._schema, self._settings, self._kind = url, schema, settings, kind
        self.has_lost_log = False
        self._dialect = PostgresDialect()
        self._told: Callable[[list[Event]], None] = lambda events: None
        self._channel = f"palaver_{schema}"
        self._stats = EngineStats()
        patience = max(1, int(settings.search_timeout * 1000))
        with readable_errors():
            migrate(url, schema, kind)
            self.create_missing_tables()
            self._pool: ConnectionPool[RawConnection] = ConnectionPool(
                url,
                connection_class=psycopg.Connection[Row],
                kwargs={"row_factory": dict_row, "options": f"-c search_path={schema} -c lock_timeout={patience}ms"},
                min_size=1,
                max_size=CONNECTIONS,
                timeout=max(settings.search_timeout, PATIENCE),
                open=True,
            )
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix=f"pg-{schema}")
        self._writing = ThreadPoolExecutor(1 + HELPERS, thread_name_prefix=f"pg-write-{schema}")
        self._waiting: deque[Job] = deque()
        self._calling = threading.Lock()
        self._has_leader, self._helpers, self._progress = False, 0, 0.0

    def on_commit(self, told: Callable[[list[Event]], None]) -> None:
        self._told = told

    async def read(self, work: Callable[[Reader], T], *, timeout: float | None = None) -> T:
        loop = asyncio.get_running_loop()
        end = time.monotonic() + (timeout or self._settings.search_timeout)
        return await loop.run_in_executor(self._threads, self._look, work, end)

    def _look(self, work: Callable[[Reader], T], end: float) -> T:
        with readable_errors():
            return self._with_retries(lambda raw: self._look_once(raw, work, end))

    def _look_once(self, raw: RawConnection, work: Callable[[Reader], T], end: float) -> T:
        left = int((end - time.monotonic()) * 1000)
        if left <= 0:
            raise Timeout()
        raw.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ  # one look, however many statements it makes
        raw.execute("SELECT set_config('statement_timeout', %s, true)", (str(left),))
        return work(Reader(PostgresConnection(raw, self._dialect), self._settings))

    # Changing

    async def change(self, work: Callable[[Change], T]) -> T:
        loop = asyncio.get_running_loop()
        job = Job(work, loop, loop.create_future())
        job.done.add_done_callback(asyncio.Future.exception)  # it may be that nobody is there to hear it
        self._waiting.append(job)
        self._call_a_writer()
        # Once handed over it may be committed: a caller who goes away does not change that.
        while not (await asyncio.wait((job.done,), timeout=SLOW_SECONDS))[0]:
            self._call_a_writer()
        result: T = job.done.result()
        return result

    def _call_a_writer(self) -> None:
        """One leads: it takes all who wait at the same moment. While it is held up, others help, one job at a time."""
        with self._calling:
            if not self._waiting:
                return
            if not self._has_leader:
                self._has_leader, self._progress = True, time.monotonic()
                self._writing.submit(self._lead)
            elif self._helpers < HELPERS and time.monotonic() - self._progress > SLOW_SECONDS:
                self._helpers += 1
                self._writing.submit(self._help)

    def _lead(self) -> None:
        while True:
            with self._calling:
                jobs = [self._waiting.popleft() for _ in range(min(len(self._waiting), SHARED_BY_AT_MOST))]
                if not jobs:
                    self._has_leader = False
                    return
            self._progress = time.monotonic()
            self._commit_together(jobs)
            finish_jobs(jobs)

    def _help(self) -> None:
        with self._calling:
            jobs = [self._waiting.popleft()] if self._waiting else []
        if jobs:
            self._commit_together(jobs)
            finish_jobs(jobs)
        with self._calling:
            self._helpers -= 1

    def _commit_together(self, jobs: list[Job]) -> None:
        began = time.perf_counter()
        try:
            with readable_errors():
                events = self._with_retries(lambda raw: self._transaction(raw, jobs))
            self._stats.commits += 1
            self._stats.commit_seconds += time.perf_counter() - began
        except _Spoiled as spoiled:
            for part in spoiled.parts(jobs):
                self._commit_together(part)
        except BaseException as problem:
            for job in jobs:
                job.problem = job.problem or problem
        else:
            send_events(jobs, self._told, events)

    def _transaction(self, raw: RawConnection, jobs: list[Job]) -> list[Event]:
        raw.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # after waiting for a lock, see what the other did
        if len(jobs) > 1:
            # Several lock more than one thread, in any order: two groups must not wait for each other.
            raw.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"{self._channel} together",))
        pending, events = Pending(), list[Event]()

        def write_log() -> None:
            """Last of all; or earlier, if somebody looks into the log: they see what was told before them."""
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
                if len(jobs) == 1 or raw.broken or isinstance(problem, LOST_A_RACE):
                    raise
                if connection.has_written or not isinstance(problem, PalaverError):
                    raise _Spoiled(number) from None
                job.problem = problem  # it was refused before it did anything
            else:
                pending.add(change.pending)
        try:
            write_index(connection, pending)
            write_log()
            if events:
                raw.execute("SELECT pg_notify(%s, %s)", (self._channel, str(events[-1].id)))
        except Exception as problem:
            if len(jobs) == 1 or raw.broken or isinstance(problem, LOST_A_RACE):
                raise
            raise _Spoiled(None) from None
        return events

    def _with_retries(self, once: Callable[[RawConnection], T]) -> T:
        """Work is done anew when it lost a race or its connection. A commit that was not answered is never repeated."""
        for attempt in range(TRIES):
            is_last = attempt == TRIES - 1
            with self._pool.connection() as raw:
                try:
                    result = once(raw)
                except LOST_A_RACE:
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
                    woken()  # whatever was told while nobody listened
                    async for _ in raw.notifies():
                        woken()
            await asyncio.sleep(0.5)

    def check(self) -> list[str]:
        """Pages are the server's business; what can go wrong here is an index that was never finished."""
        with readable_errors(), self._pool.connection() as raw:
            rows = raw.execute(INVALID_INDEXES).fetchall()
        return [f"the index {row['name']} is not valid" for row in rows]

    def lost_files(self) -> list[str]:
        return []  # the files are the server's business

    def create_missing_tables(self) -> list[str]:
        with readable_errors(), _connected(self._url, self._schema) as raw:
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
        with readable_errors(), _connected(self._url, self._schema) as raw:
            raw.execute(f"TRUNCATE {', '.join({*missing_tables.INDEX_TABLES, *missing_tables.TOGETHER})}".encode())
            raw.execute(missing_tables.MARK_PARTS.encode())

    def stats(self) -> EngineStats:
        return replace(self._stats, waiting=len(self._waiting))

    def copy_into(self, folder: Path) -> int:
        """Every table as it is at one moment, in PostgreSQL's own text format."""
        with readable_errors(), psycopg.connect(self._url, options=f"-c search_path={self._schema}") as raw:
            raw.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            for table in _tables(raw, self._schema):
                file, cursor = (folder / f"{table}.copy").open("wb"), raw.cursor()
                with file, cursor, cursor.copy(f'COPY "{table}" TO STDOUT'.encode()) as data:
                    for piece in data:
                        file.write(piece)
            row = raw.execute("SELECT max(number) FROM migrations").fetchone()
        return int(row[0]) if row else 0

    def wipe(self) -> None:
        """Tables and indexes are written anew. The server's own log (WAL) forgets in its own time."""
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
    """Bring the schema to its newest shape (or to an earlier one); servers starting at once take turns."""
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
    """Until the end of the transaction, nobody else changes the shape of this schema."""
    raw.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"palaver {schema}",))


def _connected(url: str, schema: str) -> RawConnection:
    options = f"-c search_path={schema} -c lock_timeout=10s"
    return psycopg.connect(url, row_factory=dict_row, options=options)


def missing_tables_in(url: str, schema: str, kind: str, settings: Settings) -> list[str]:
    """The tables and indexes a schema should have and has not. Nothing is changed."""
    with readable_errors(), _connected(url, schema) as raw:
        row = raw.execute("SELECT max(number) AS number FROM migrations").fetchone()
        if row and row["number"] != named_sql.migrations("postgres", kind)[-1][0]:
            return []  # an older schema, which is brought up to date when it is opened
        return missing_tables.missing(Reader(PostgresConnection(raw, PostgresDialect()), settings), kind)


# Copies


def _tables(raw: psycopg.Connection[Any], schema: str) -> list[str]:
    """The tables of a schema, those that others refer to first."""
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
    """The schemas whose names begin so."""
    with readable_errors(), psycopg.connect(url) as raw:
        rows = raw.execute("SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s)", (prefix,)).fetchall()
    return [row[0] for row in rows]


@dataclass(frozen=True, slots=True)
class About:
    """What the server and the database are, as far as it matters here."""

    version: str
    number: int
    encoding: str
    is_old_collation: bool
    """The operating system has another version of the collation than the one the indexes were made with."""
    may_create: bool


def about(url: str) -> About:
    with readable_errors(), psycopg.connect(url, connect_timeout=int(PATIENCE)) as raw:
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
    return About(row[0], row[1], row[2], is_old, row[3])


def existing_schemas(url: str, schemas: list[str]) -> list[str]:
    """Which of these schemas are there already."""
    with readable_errors(), psycopg.connect(url) as raw:
        rows = raw.execute("SELECT nspname FROM pg_namespace WHERE nspname = ANY(%s)", (schemas,)).fetchall()
    return [row[0] for row in rows]


def _forget_statistics(raw: psycopg.Connection[Any], schema: str, table: str) -> None:
    """To plan by them, the server keeps some of the values it has seen. Of a table with nothing in it, it keeps the old
    ones for ever; giving a column its type again makes it forget them."""
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
    """Indexes that are not valid are made again; returns their names."""
    with readable_errors(), psycopg.connect(url, autocommit=True, options=f"-c search_path={schema}") as raw:
        names = [str(row[0]) for row in raw.execute(INVALID_INDEXES).fetchall()]
        for name in names:
            raw.execute(f'REINDEX INDEX "{name}"'.encode())
    return names


def load_copy(url: str, schema: str, kind: str, number: int, folder: Path) -> None:
    """Make a schema as it was, and fill it. What is newer in us is migrated when it is opened."""
    with readable_errors():
        migrate(url, schema, kind, number)
        with psycopg.connect(url, options=f"-c search_path={schema}") as raw:
            for table in _tables(raw, schema):
                path = folder / f"{table}.copy"
                if raw.execute(f'SELECT 1 FROM "{table}" LIMIT 1'.encode()).fetchone():
                    raw.execute(f'DELETE FROM "{table}"'.encode())
                with path.open("rb") as file, raw.cursor().copy(f'COPY "{table}" FROM STDIN'.encode()) as data:
                    while piece := file.read(1 << 20):
                        data.write(piece)
            _count_on(raw, schema)
            if kind == "workspace" and number >= TOTALS_SINCE:
                raw.execute(b"DELETE FROM passage_totals")  # counted as the index was filled, and copied too
                raw.execute(b"INSERT INTO passage_totals SELECT count(*), coalesce(sum(length), 0) FROM passage_index")


def _count_on(raw: psycopg.Connection[Any], schema: str) -> None:
    """EngineStats given out by themselves go on after the last one."""
    rows = raw.execute(
        "SELECT table_name, column_name FROM information_schema.columns "
        "WHERE table_schema = %s AND is_identity = 'YES'",
        (schema,),
    ).fetchall()
    for table, column in rows:
        last = f'(SELECT coalesce(max("{column}"), 0) + 1 FROM "{table}")'
        raw.execute(f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), {last}, false)".encode())
