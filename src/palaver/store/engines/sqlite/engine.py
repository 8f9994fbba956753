"""The SQLite engine: one file for each workspace, one writer thread with group commit, and several readers.

Changes that arrive at the same time share one transaction and one sync to disk. Each runs in its own savepoint.
Readers use snapshots on their own connections and never block the writer.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from palaver.errors import Damaged, PalaverError, Timeout, Unavailable
from palaver.model.events import Event
from palaver.settings import Settings
from palaver.store.engines import missing_tables, named_sql
from palaver.store.engines.database import (
    Change,
    Dialect,
    EngineStats,
    Pending,
    PrepareText,
    Row,
    SearchReader,
    json_batches,
    nothing_to_check,
    write_events,
    write_index,
)
from palaver.store.engines.limited_read import LimitedRead, run_limited
from palaver.store.engines.sqlite import commit_mark
from palaver.store.engines.sqlite.checkpoints import Checkpoints
from palaver.store.engines.sqlite.dialect import SqliteDialect, occurrences
from palaver.store.engines.write_queue import Job, WriteQueue, finish_jobs, send_events
from palaver.synced_files import make_folder

T = TypeVar("T")

READERS = 4
"""The number of reader threads, and of threads for searches: a search never makes another read wait."""
MOST_JOBS = 32
"""How many changes share a transaction. With more, a change that just missed a commit would wait too long."""
STATEMENTS = 200
"""How many prepared statements a connection caches."""
BUSY_SECONDS = 5.0
"""How long to wait for a lock that another process holds."""
GATHER_SECONDS = 0.002
"""How long the writer waits for more changes."""
LOOKS, BETWEEN_LOOKS = 4, 0.05
"""How often it is looked whether the write-ahead log is gone, and the seconds between."""
POLL_SECONDS = 0.02
"""How often to look for commits of other processes."""
STEPS_BETWEEN_LOOKS = 20_000
"""How often the quick check looks whether the engine is being closed, in steps of SQLite."""
WIPE_SECONDS = 30.0
"""How long `wipe` waits for readers of old snapshots."""
TABLE_MISSING = "A table is missing in the database. Run 'palaver doctor' to see what can be done."


class SqliteConnection:
    dialect: Dialect

    def __init__(self, path: Path, dialect: Dialect, *, read_only: bool) -> None:
        flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        self.dialect, self.check = dialect, nothing_to_check
        self.raw = apsw.Connection(str(path), flags=flags, statementcachesize=STATEMENTS)
        self._columns: dict[str, list[str]] = {}
        self.raw.set_busy_handler(_busy_handler())
        # Query plans do not depend on values here. Without this, SQLite plans a statement again when a value changes.
        self.raw.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        self.raw.execute("PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -8000")
        if not read_only:
            self.raw.execute("PRAGMA journal_mode = WAL").fetchall()
            self.raw.execute("PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 67108864")
        with suppress(apsw.NoFTS5Error):  # raised if the file is damaged; the first statement then reports it
            self.raw.register_fts5_function("occurrences", occurrences)

    def fetch(self, sql: str, params: Mapping[str, Any]) -> list[Row]:
        self.check()
        cursor = self.raw.execute(sql, params)
        columns = self._columns.get(sql)
        if columns is not None:
            return [dict(zip(columns, row)) for row in cursor]  # noqa: B905
        first = next(cursor, None)
        if first is None:
            return []
        columns = [column[0] for column in cursor.get_description()]
        if len(self._columns) < STATEMENTS:
            self._columns[sql] = columns
        return [dict(zip(columns, row, strict=True)) for row in (first, *cursor)]

    def fetch_tuples(self, sql: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        self.check()
        return self.raw.execute(sql, params).fetchall()

    def run(self, sql: str, params: Mapping[str, Any]) -> int:
        self.raw.execute(sql, params)
        return self.raw.changes()

    def run_many(self, sql: str, rows: Iterable[Mapping[str, Any]]) -> None:
        self.raw.executemany(sql, rows)

    def run_rows(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        for batch in json_batches(rows):
            self.raw.execute(sql, {"rows": batch})


@contextmanager
def connected(path: Path, *, read_only: bool = True) -> Iterator[SqliteConnection]:
    """A connection beside those of an engine. The mark of the last commit is forgotten if this may write another."""
    own = SqliteConnection(path, SqliteDialect(), read_only=read_only)
    try:
        yield own
    finally:
        own.raw.close()
        if not read_only:
            commit_mark.forget(path)


def _busy_handler() -> Callable[[int], bool]:
    """Retry often while another process writes. SQLite's own back-off waits up to 100 ms each time."""
    began = 0.0

    def retry(attempts: int) -> bool:
        nonlocal began
        if attempts == 0:
            began = time.monotonic()
        if time.monotonic() - began > BUSY_SECONDS:
            return False
        time.sleep(random.uniform(0.0005, 0.003))
        return True

    return retry


@contextmanager
def readable_errors() -> Iterator[None]:
    """Turn errors of SQLite into errors that tell a person what to do."""
    try:
        yield
    except (apsw.InterruptError, apsw.BusyError):
        raise Timeout() from None
    except apsw.FullError:
        raise Unavailable("The disk is full: nothing was stored. Free some space and try again.") from None
    except apsw.ReadOnlyError:
        raise Unavailable("The data directory cannot be written to. Check its permissions and free space.") from None
    except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError):
        raise Damaged("The database file is damaged. Run 'palaver doctor' to see what can be done.") from None
    except apsw.SQLError as problem:
        if "no such table" not in str(problem):
            raise
        raise Unavailable(TABLE_MISSING) from None
    except (apsw.IOError, apsw.CantOpenError):
        raise Unavailable("The disk reported an error: nothing was stored. Run 'palaver doctor'.") from None


class SqliteEngine:
    """The database file of one workspace, or of the server."""

    prepare_text: PrepareText | None = None
    long_changes_at_once = 1

    def __init__(self, path: Path, settings: Settings, schema: str = "workspace") -> None:
        self.path, self._kind = path, schema
        self._settings = settings
        self._dialect: Dialect = SqliteDialect()
        self.has_lost_log = has_lost_log(path)
        with readable_errors():
            _create_private(path)
            self._writer = SqliteConnection(path, self._dialect, read_only=False)
            if self.has_lost_log:
                commit_mark.forget(path)
            migrate(self._writer, schema)
            create_missing_tables(self._writer, schema)
            self._opened = os.stat(path)
        self._jobs = WriteQueue()
        self._told: Callable[[list[Event]], None] = lambda events: None
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix=f"read-{path.stem}")
        self._searchers = ThreadPoolExecutor(READERS, thread_name_prefix=f"search-{path.stem}")
        self._checkpoints = Checkpoints(path, self._writer.raw, self._readers)
        self._idle: list[SqliteConnection] = []
        self._is_closed = False
        self._checking = threading.Lock()
        """Held by a quick check."""
        self._stats = EngineStats()
        self._thread = threading.Thread(target=self._write_for_ever, name=f"write-{path.stem}", daemon=True)
        self._thread.start()

    def on_commit(self, told: Callable[[list[Event]], None]) -> None:
        self._told = told

    # Reading

    async def read(
        self, work: Callable[[SearchReader], T], seconds: float | None = None, *, is_search: bool = False
    ) -> T:
        # SQLite works in the thread that calls it, so the processor time of the thread is that of the whole search.
        limited = LimitedRead(seconds, counts_processor_time=True)
        threads = self._searchers if is_search else self._readers
        return await run_limited(threads, partial(self._read, work=work), limited)

    def _read(self, limited: LimitedRead, work: Callable[[SearchReader], T]) -> T:
        with readable_errors():
            try:
                connection = self._idle.pop()  # the one used last: its page cache is the warmest
            except IndexError:
                connection = SqliteConnection(self.path, self._dialect, read_only=True)
            try:
                connection.check = limited.check
                with limited.on(connection.raw.interrupt), connection.raw:
                    result = work(SearchReader(connection, self._settings))
            finally:
                connection.check = nothing_to_check
                self._idle.append(connection)
        return result

    # Changing

    async def change(self, work: Callable[[Change], T], *, is_long: bool = False) -> T:
        loop = asyncio.get_running_loop()
        job = Job(work, loop, loop.create_future())
        self._jobs.put(job)
        # A queued change may be committed even if its caller goes away.
        result: T = await job.done
        return result

    def _write_for_ever(self) -> None:
        """The writer thread. If several callers wrote last time, it waits a moment for as many again."""
        expected = 1
        while True:
            jobs = self._jobs.take(expected, MOST_JOBS, GATHER_SECONDS)
            shared = [job for job in jobs if job is not None]
            if shared:
                self._commit_together(shared)
                finish_jobs(shared)
                expected = len(shared)
            if jobs[-1] is None:
                break
        self._writer.raw.close()

    def _commit_together(self, jobs: list[Job]) -> None:
        began = time.perf_counter()
        try:
            with readable_errors():
                events = self._transaction(jobs)
            self._stats.commits += 1
            self._stats.commit_seconds += time.perf_counter() - began
        except Exception as problem:
            if len(jobs) > 1 and not isinstance(problem, PalaverError):
                for job in jobs:  # one of them fails the whole transaction: find out which
                    self._commit_together([job])
                return
            for job in jobs:
                job.problem = job.problem or problem
        else:
            send_events(jobs, self._told, events)

    def _transaction(self, jobs: list[Job]) -> list[Event]:
        raw, pending, events = self._writer.raw, Pending(), list[Event]()
        raw.execute("BEGIN IMMEDIATE")
        try:
            for job in jobs:
                job.result = job.problem = None
                change = Change(self._writer, self._settings)
                raw.execute("SAVEPOINT job")
                try:
                    with readable_errors():
                        job.result = job.work(change)
                        told = write_events(self._writer, change.pending)
                except Exception as problem:
                    if not raw.in_transaction:  # a full disk rolls back everything, not only this job
                        raise
                    raw.execute("ROLLBACK TO job")
                    job.problem = problem
                else:
                    pending.add(change.pending)
                    events += told
                raw.execute("RELEASE job")
            is_stored = bool(pending.index or events)
            write_index(self._writer, pending)
            raw.execute("COMMIT")
            if is_stored:
                self._checkpoints.mark.keep()
        except BaseException:
            if raw.in_transaction:
                raw.execute("ROLLBACK")
            raise
        return events

    # Watching for other processes

    async def watch(self, woken: Callable[[], None]) -> None:
        with connected(self.path) as own:
            seen = None
            while True:
                version = own.raw.pragma("data_version")
                if version != seen:
                    seen = version
                    woken()
                await asyncio.sleep(POLL_SECONDS)

    # Maintenance

    def stats(self) -> EngineStats:
        return replace(self._stats, waiting=len(self._jobs))

    def check(self, *, is_quick: bool = False) -> list[str]:
        with readable_errors():
            if not is_quick:
                return problems_of(self.path)
            with self._checking:
                return [] if self._is_closed else quick_problems_of(self.path, lambda: self._is_closed)

    def lost_files(self) -> list[str]:
        """Look for the file and its log by name, because this process still has the old files open."""
        name = self.path.name
        try:
            if not os.path.samestat(self._opened, os.stat(self.path)):
                return [f"{name} was replaced by another file while it was open"]
        except FileNotFoundError:
            return [f"{name} was removed while it was open"]
        return [] if _wal_of(self.path).exists() else [f"the log {name}-wal was removed while it was open"]

    def create_missing_tables(self) -> list[str]:
        with readable_errors(), connected(self.path, read_only=False) as own:
            return create_missing_tables(own, self._kind)

    def empty_index(self) -> None:
        with readable_errors(), connected(self.path, read_only=False) as own:
            empty_index(own)

    def copy_into(self, folder: Path) -> int:
        """Copy the file in one read transaction. The writer is not blocked."""
        with readable_errors(), connected(self.path) as own:
            own.raw.execute("VACUUM INTO ?", (str(folder / "database.db"),))
            return int(own.raw.pragma("user_version"))

    def wipe(self) -> None:
        """Purge the indexes of deleted data, rewrite the file, and empty the log. Writers wait meanwhile."""
        with readable_errors(), connected(self.path, read_only=False) as own:
            for (name,) in own.raw.execute(self._dialect.sql("full_text_tables")).fetchall():
                own.raw.execute(f"INSERT INTO {name} ({name}) VALUES ('optimize')")
            own.raw.execute("VACUUM")
            until = time.monotonic() + WIPE_SECONDS
            # The log cannot be emptied while a reader uses an old snapshot.
            while own.raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]:
                if time.monotonic() > until:
                    raise Unavailable(
                        "The file was rewritten, but a reader still uses the old log. Try again in a moment."
                    )
                time.sleep(0.05)

    def close(self) -> None:
        self._is_closed = True
        with self._checking:  # a quick check ends now, so that the writer has the last connection
            pass
        self._searchers.shutdown(wait=True)
        self._readers.shutdown(wait=True)
        for connection in self._idle:
            connection.raw.close()
        self._jobs.put(None)  # the writer closes last, because the last connection removes the write-ahead log
        self._thread.join()
        self._checkpoints.mark.close()


def create_missing_tables(own: SqliteConnection, kind: str) -> list[str]:
    with own.raw:
        made = missing_tables.create(own, kind, own.raw.execute, partial(missing_tables.drop_virtual, own.raw))
    return made


def empty_index(own: SqliteConnection) -> None:
    with own.raw:
        for table in missing_tables.INDEX_TABLES:
            missing_tables.drop_virtual(own.raw, table)
        create_missing_tables(own, "workspace")


def problems_of(path: Path) -> list[str]:
    """The problems that SQLite's own check finds in a file: its pages, tables, indexes and the search index."""
    with connected(path) as own:
        found = [str(row[0]) for row in own.raw.execute("PRAGMA integrity_check(20)")]
        orphans = own.raw.execute("PRAGMA foreign_key_check")
        found += [f"a row of {row[0]} belongs to nothing" for row in orphans]
    return [problem for problem in found if problem != "ok"]


def quick_problems_of(path: Path, is_stopped: Callable[[], bool] = lambda: False) -> list[str]:
    """Check the tables of a file that is in use, one after the other, so that the log can be emptied in between."""
    found = []
    with connected(path) as own:
        tables = own.raw.execute(named_sql.load("sqlite")["all_tables"]).fetchall()
        own.raw.set_progress_handler(is_stopped, STEPS_BETWEEN_LOOKS)
        for (table,) in tables:
            try:
                said = [str(row[0]) for row in own.raw.execute(f"PRAGMA quick_check('{table}')")]
                if own.raw.execute(f"PRAGMA foreign_key_check('{table}')").fetchall():
                    found.append(f"rows of the table {table} belong to nothing")
            except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError) as problem:
                said = [str(problem)]
            except (apsw.InterruptError, apsw.SQLError):  # the engine is being closed, or the table was dropped
                continue
            if said != ["ok"]:
                found.append(f"the table {table} is damaged ({said[0].strip().splitlines()[0]})")
    return found


def missing_tables_in(path: Path, kind: str) -> list[str]:
    """The tables and indexes that are missing in a file. Nothing is changed."""
    with readable_errors(), connected(path) as own:
        if own.raw.pragma("user_version") != named_sql.migrations("sqlite", kind)[-1][0]:
            return []  # an older file, which is migrated when it is opened
        return missing_tables.missing(own, kind)


def has_lost_log(path: Path) -> bool:
    """Was the write-ahead log removed after the last process crashed?

    A process that ends properly removes the index of the log (-shm) before the log itself (-wal). If both are gone, the
    mark of the last commit tells whether the commit is in the file. Another process may end or begin at this moment, so
    it is looked at several times.
    """
    for look in range(LOOKS):
        time.sleep(BETWEEN_LOOKS if look else 0)
        index = path.with_name(path.name + "-shm")
        if _wal_of(path).exists() or not (index.exists() or commit_mark.is_contradicted(path)):
            return False
    return True


def _wal_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _create_private(path: Path) -> None:
    """Create the file, readable by its owner only. SQLite gives its other files the same permissions."""
    try:
        make_folder(path.parent)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as problem:
        raise Unavailable(
            f"The data directory cannot be written to ({problem.strerror}). Check PALAVER_HOME and its permissions."
        ) from None


def migrate(connection: SqliteConnection, schema: str) -> None:
    """Migrate the file to the newest schema in one transaction. Processes that start at once take turns."""
    raw = connection.raw
    steps = named_sql.migrations("sqlite", schema)
    if raw.pragma("user_version") == steps[-1][0]:
        return
    raw.execute("BEGIN IMMEDIATE")
    try:
        have = raw.pragma("user_version")
        if have > steps[-1][0]:
            raise Unavailable(f"This data was written by a newer palaver (schema {have}). Upgrade palaver.")
        for number, sql in steps:
            if number > have:
                raw.execute(sql)
                raw.pragma("user_version", number)
        raw.execute("COMMIT")
    except BaseException:
        raw.execute("ROLLBACK")
        raise
