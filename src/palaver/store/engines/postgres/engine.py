"""The PostgreSQL engine: one schema for each workspace, connections that workspaces share, and a thread for each read.

Changes that arrive at the same time share one transaction, as with SQLite. If one fails after it has written, the
others are repeated without it. A connection sees the schema of the workspace that uses it, and no other.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import psycopg

from palaver.errors import PalaverError, Timeout
from palaver.model.events import Event
from palaver.settings import Settings
from palaver.store.engines import missing_tables
from palaver.store.engines.database import (
    Change,
    EngineStats,
    Pending,
    PrepareText,
    SearchReader,
    write_events,
    write_index,
)
from palaver.store.engines.limited_read import LimitedRead, run_limited
from palaver.store.engines.postgres import index_rows, schemas, shared_connections
from palaver.store.engines.postgres.connection import PostgresConnection, RawConnection, readable_errors
from palaver.store.engines.postgres.dialect import PostgresDialect
from palaver.store.engines.postgres.shared_connections import PooledConnection
from palaver.store.engines.write_queue import Job, finish_jobs, send_events

T = TypeVar("T")

READERS = 4
"""The number of reader threads, and of threads for searches. They share the interpreter with the writer. With seven
threads, many searches at once made posts wait nearly twice as long, and were hardly faster themselves."""
HELPERS = 2
"""How many more writers may start while the first one is blocked."""
MOST_JOBS = 64
"""How many changes share a transaction."""
SLOW_SECONDS = 0.05
"""A writer without progress for this long gets a helper."""
CONFLICTS = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
TRIES = 6


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

    long_changes_at_once = 2

    def __init__(self, url: str, schema: str, settings: Settings, kind: str = "workspace") -> None:
        self._url, self._schema, self._settings, self._kind = url, schema, settings, kind
        self.has_lost_log = False
        self.prepare_text: PrepareText | None = index_rows.prepare_text
        self._dialect = PostgresDialect()
        self._told: Callable[[list[Event]], None] = lambda events: None
        self._stats = EngineStats()
        with readable_errors():
            self._shared = shared_connections.join(url)
        try:
            with readable_errors():
                self._prepare_schema()
        except BaseException:
            shared_connections.leave(url)
            raise
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix=f"pg-{schema}")
        self._searchers = ThreadPoolExecutor(READERS, thread_name_prefix=f"pg-search-{schema}")
        self._writing = ThreadPoolExecutor(1 + HELPERS, thread_name_prefix=f"pg-write-{schema}")
        self._writing_beside = ThreadPoolExecutor(self.long_changes_at_once, thread_name_prefix=f"pg-long-{schema}")
        self._waiting: deque[Job] = deque()
        self._start_lock = threading.Lock()
        self._has_writer, self._helpers, self._progress = False, 0, 0.0
        self._looking: set[asyncio.AbstractEventLoop] = set()
        """The event loops that have a timer for `_look`."""

    def _prepare_schema(self) -> None:
        """Migrate the schema and create missing tables. For a schema that is complete, this only looks, once."""

        def is_complete(raw: RawConnection) -> bool:
            return schemas.is_newest(raw, self._schema, self._kind) and not self._missing_tables(raw)

        if not self._with_retries(is_complete):
            schemas.migrate(self._url, self._schema, self._kind)
            self.create_missing_tables()

    def _missing_tables(self, raw: RawConnection) -> list[str]:
        return missing_tables.missing(PostgresConnection(raw, self._dialect), self._kind)

    def on_commit(self, told: Callable[[list[Event]], None]) -> None:
        self._told = told

    async def read(
        self, work: Callable[[SearchReader], T], seconds: float | None = None, *, is_search: bool = False
    ) -> T:
        # The database server does most of the work of a search. It does not tell its processor time.
        threads = self._searchers if is_search else self._threads
        return await run_limited(threads, partial(self._read, work=work), LimitedRead(seconds))

    def _read(self, limited: LimitedRead, work: Callable[[SearchReader], T]) -> T:
        def read_once(raw: PooledConnection) -> T:
            with limited.on(raw.cancel):
                # One snapshot for all statements. psycopg would send BEGIN by itself: one more round trip for each.
                raw.begin_by_hand(True)
                limit = f"; SET LOCAL statement_timeout = {limited.milliseconds}" if limited.milliseconds else ""
                raw.execute(f"BEGIN ISOLATION LEVEL REPEATABLE READ{limit}".encode())
                connection = PostgresConnection(raw, self._dialect)
                connection.check = limited.check
                return work(SearchReader(connection, self._settings))

        with readable_errors():
            return self._with_retries(read_once, is_patient=False)

    # Changing

    async def change(self, work: Callable[[Change], T], *, is_long: bool = False) -> T:
        loop = asyncio.get_running_loop()

        def with_patience(change: Change) -> T:
            # Two of them may add the same word. One waits for the other, on a slow disk for seconds.
            change.run("wait_longer_for_locks")
            return work(change)

        job = Job(with_patience if is_long else work, loop, loop.create_future())
        job.done.add_done_callback(asyncio.Future.exception)  # the caller may have gone
        if is_long:
            self._writing_beside.submit(self._write, [job])
        else:
            self._waiting.append(job)
            self._start_writer()
            self._look_again(loop)
        # A queued change may be committed even if its caller goes away.
        result: T = await asyncio.shield(job.done)
        return result

    def _write(self, jobs: list[Job]) -> None:
        self._commit_together(jobs)
        finish_jobs(jobs)

    def _look_again(self, loop: asyncio.AbstractEventLoop) -> None:
        """While changes wait, see now and then whether the writer needs a helper. One timer is enough for all."""
        if loop not in self._looking:
            self._looking.add(loop)
            loop.call_later(SLOW_SECONDS, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._looking.discard(loop)
        if self._waiting:
            self._start_writer()
            self._look_again(loop)

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
            self._write(jobs)

    def _write_one(self) -> None:
        with self._start_lock:
            jobs = [self._waiting.popleft()] if self._waiting else []
        if jobs:
            self._write(jobs)
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

    def _transaction(self, raw: PooledConnection, jobs: list[Job]) -> list[Event]:
        raw.begin_by_hand(False)
        raw.isolation_level = psycopg.IsolationLevel.READ_COMMITTED  # after a lock, see the other commit
        if len(jobs) > 1:
            # A batch locks several threads in any order. This lock keeps two batches from a deadlock.
            raw.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"palaver_{self._schema} together",))
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
                raw.execute("SELECT pg_notify(%s, %s)", (shared_connections.CHANNEL, self._schema))
        except Exception as problem:
            if len(jobs) == 1 or raw.broken or isinstance(problem, CONFLICTS):
                raise
            raise _BatchFailed(None) from None
        finally:
            # The connection and `write_log` refer to each other, so the garbage collector frees them some time later.
            pending.index.clear()
        return events

    def _with_retries(self, once: Callable[[PooledConnection], T], *, is_patient: bool = True) -> T:
        """Run work; repeat it after a conflict or a lost connection. A commit without an answer is never repeated."""
        for attempt in range(TRIES):
            is_last = attempt == TRIES - 1
            with self._shared.connection(is_patient=is_patient) as raw:
                try:
                    raw.use(self._schema)
                    result = once(raw)
                except (*CONFLICTS, psycopg.errors.ForeignKeyViolation):  # e.g. a thread was deleted at the same time
                    raw.rollback()
                    if is_last:
                        raise Timeout() from None
                    continue
                except (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable):
                    raise
                except psycopg.OperationalError:
                    if is_last:
                        raise
                    self._shared.check()
                    continue
                raw.commit()
                return result
        raise Timeout()

    async def watch(self, woken: Callable[[], None]) -> None:
        await self._shared.watch(self._schema, woken)

    def check(self, *, is_quick: bool = False) -> list[str]:
        """Find indexes that were never finished. The server itself checks its pages."""
        with readable_errors():
            names = self._with_retries(schemas.invalid_indexes)
        return [f"the index {name} is not valid" for name in names]

    def lost_files(self) -> list[str]:
        return []  # the server looks after its files

    def create_missing_tables(self) -> list[str]:
        with readable_errors():
            if not self._with_retries(self._missing_tables):
                return []
        with readable_errors(), schemas.connect(self._url, self._schema) as raw:
            schemas.lock(raw, self._schema)  # servers starting at once take turns
            connection = PostgresConnection(raw, self._dialect)
            return missing_tables.create(connection, self._kind, lambda sql: raw.execute(sql.encode()))

    def empty_index(self) -> None:
        with readable_errors(), schemas.connect(self._url, self._schema) as raw:
            tables = (*missing_tables.INDEX_TABLES, *missing_tables.OTHER_INDEX_TABLES["postgres"])
            raw.execute(f"TRUNCATE {', '.join(tables)}".encode())
            raw.execute(self._dialect.sql("restart_substring_index").encode())

    def stats(self) -> EngineStats:
        return replace(self._stats, waiting=len(self._waiting))

    def copy_into(self, folder: Path) -> int:
        return schemas.write_copy(self._url, self._schema, folder)

    def wipe(self) -> None:
        schemas.rewrite(self._url, self._schema, self._kind)

    def close(self) -> None:
        self._writing_beside.shutdown(wait=True)
        self._writing.shutdown(wait=True)
        self._searchers.shutdown(wait=True)
        self._threads.shutdown(wait=True)
        shared_connections.leave(self._url)
