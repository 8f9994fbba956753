"""SQLite: one file a workspace, one writer thread with group commit, many readers on connections of their own.

Callers that change something at the same moment share one transaction, each in a savepoint of its own: one sync to
disk acknowledges them all. Readers use snapshots and never stand in the writer's way.
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
from pathlib import Path
from typing import Any, TypeVar

import apsw

from palaver.errors import PalaverError, Timeout, Unavailable
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
from palaver.store.engines.sqlite.dialect import SqliteDialect, occurrences
from palaver.store.engines.write_queue import Job, WriteQueue, finish_jobs, send_events

T = TypeVar("T")

READERS = 4
SHARED_BY_AT_MOST = 32  # with more, whoever just missed a commit waits for all of the next one, too
STATEMENTS = 200  # that are remembered on a connection
BUSY_SECONDS = 5.0
GATHER_SECONDS = 0.002
POLL_SECONDS = 0.02
WIPE_SECONDS = 30.0
AGAIN_SECONDS = 0.05
TABLE_MISSING = "A table is missing in the database. Run 'palaver doctor' to see what can be done."


class SqliteConnection:
    dialect: Dialect

    def __init__(self, path: Path, dialect: Dialect, *, read_only: bool) -> None:
        flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        self.dialect = dialect
        self.raw = apsw.Connection(str(path), flags=flags, statementcachesize=STATEMENTS)
        self._columns: dict[str, list[str]] = {}
        self.raw.set_busy_handler(_patience())
        # Plans do not depend on values here: without this, statements are planned anew whenever a value changes.
        self.raw.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        self.raw.execute("PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -8000")
        if not read_only:
            self.raw.execute("PRAGMA journal_mode = WAL").fetchall()
            self.raw.execute("PRAGMA synchronous = FULL; PRAGMA journal_size_limit = 67108864")
        with suppress(apsw.NoFTS5Error):  # raised when the file is damaged: the first statement says so
            self.raw.register_fts5_function("occurrences", occurrences)

    def fetch(self, sql: str, params: Mapping[str, Any]) -> list[Row]:
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
        return self.raw.execute(sql, params).fetchall()

    def run(self, sql: str, params: Mapping[str, Any]) -> int:
        self.raw.execute(sql, params)
        return self.raw.changes()

    def run_many(self, sql: str, rows: Iterable[Mapping[str, Any]]) -> None:
        self.raw.executemany(sql, rows)

    def run_rows(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        for piece in json_batches(rows):
            self.raw.execute(sql, {"rows": piece})

    def script(self, sql: str) -> None:
        self.raw.execute(sql)


def _patience() -> Callable[[int], bool]:
    """Another process is writing: ask again soon, for a while. SQLite's own back-off waits up to 100 ms a time."""
    began = 0.0

    def again(attempts: int) -> bool:
        nonlocal began
        if attempts == 0:
            began = time.monotonic()
        if time.monotonic() - began > BUSY_SECONDS:
            return False
        time.sleep(random.uniform(0.0005, 0.003))
        return True

    return again


@contextmanager
def readable_errors() -> Iterator[None]:
    """Turn what the engine complains about into something a person can act on."""
    try:
        yield
    except (apsw.InterruptError, apsw.BusyError):
        raise Timeout() from None
    except apsw.FullError:
        raise Unavailable("The disk is full: nothing was stored. Free some space and try again.") from None
    except apsw.ReadOnlyError:
        raise Unavailable("The data directory cannot be written to. Check its permissions and free space.") from None
    except (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError):
        raise Unavailable("The database file is damaged. Run 'palaver doctor' to see what can be done.") from None
    except apsw.SQLError as problem:
        if "no such table" not in str(problem):
            raise
        raise Unavailable(TABLE_MISSING) from None
    except (apsw.IOError, apsw.CantOpenError):
        raise Unavailable("The disk did not finish_jobs properly: nothing was stored. Run 'palaver doctor'.") from None


class SqliteEngine:
    """One workspace's file."""

    def __init__(self, path: Path, settings: Settings, schema: str = "workspace") -> None:
        self.path, self._kind = path, schema
        self._settings = settings
        self._dialect: Dialect = SqliteDialect()
        self.has_lost_log = has_lost_log(path)
        with readable_errors():
            _create_private(path)
            self._writer = SqliteConnection(path, self._dialect, read_only=False)
            migrate(self._writer, schema)
            if gone := missing_tables.missing(Reader(self._writer, settings), schema):
                missing_tables.create_in_sqlite(self._writer.raw, schema, gone)
            self._opened = os.stat(path)
        self._jobs = WriteQueue()
        self._told: Callable[[list[Event]], None] = lambda events: None
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix=f"read-{path.stem}")
        self._idle: list[SqliteConnection] = []
        self._stats = EngineStats()
        self._thread = threading.Thread(target=self._write_for_ever, name=f"write-{path.stem}", daemon=True)
        self._thread.start()

    def on_commit(self, told: Callable[[list[Event]], None]) -> None:
        self._told = told

    # Reading

    async def read(self, work: Callable[[Reader], T], *, timeout: float | None = None) -> T:
        loop = asyncio.get_running_loop()
        seconds = timeout or self._settings.search_timeout
        look = _Look(loop, seconds)
        timer = loop.call_later(seconds, look.give_up)
        try:
            return await loop.run_in_executor(self._readers, self._look, look, work)
        except asyncio.CancelledError:
            look.give_up()  # nobody waits for it any more
            raise
        finally:
            timer.cancel()

    def _look(self, look: _Look, work: Callable[[Reader], T]) -> T:
        with readable_errors():
            connection = self._reader()
            try:
                with look.through(connection.raw), connection.raw:
                    result = work(Reader(connection, self._settings))
            finally:
                self._idle.append(connection)
        return result

    def _reader(self) -> SqliteConnection:
        """The connection that was used last of those nobody uses: its cache knows most of what is wanted next."""
        try:
            return self._idle.pop()
        except IndexError:
            return SqliteConnection(self.path, self._dialect, read_only=True)

    # Changing

    async def change(self, work: Callable[[Change], T]) -> T:
        loop = asyncio.get_running_loop()
        job = Job(work, loop, loop.create_future())
        self._jobs.put(job)
        # Once handed over it may be committed: a caller who goes away does not change that.
        result: T = await job.done
        return result

    def _write_for_ever(self) -> None:
        """Where several wrote last time they are given a moment to come again."""
        company = 1
        while True:
            jobs = self._jobs.take(company, SHARED_BY_AT_MOST, GATHER_SECONDS)
            shared = [job for job in jobs if job is not None]
            if shared:
                self._commit_together(shared)
                finish_jobs(shared)
                company = len(shared)
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
                for job in jobs:  # one of them spoils it for all: find out which
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
                    if not raw.in_transaction:  # a full disk undoes everything, not only this job
                        raise
                    raw.execute("ROLLBACK TO job")
                    job.problem = problem
                else:
                    pending.add(change.pending)
                    events += told
                raw.execute("RELEASE job")
            write_index(self._writer, pending)
            raw.execute("COMMIT")
        except BaseException:
            if raw.in_transaction:
                raw.execute("ROLLBACK")
            raise
        return events

    # Watching for other processes

    async def watch(self, woken: Callable[[], None]) -> None:
        look = SqliteConnection(self.path, self._dialect, read_only=True)
        try:
            seen = None
            while True:
                version = look.raw.pragma("data_version")
                if version != seen:
                    seen = version
                    woken()
                await asyncio.sleep(POLL_SECONDS)
        finally:
            look.raw.close()

    # Looking after it

    def stats(self) -> EngineStats:
        return replace(self._stats, waiting=len(self._jobs))

    def check(self) -> list[str]:
        """SQLite's own check of every page, table and index; it looks into the search index too."""
        with readable_errors():
            return problems_of(self.path)

    def lost_files(self) -> list[str]:
        """The file and its log are looked for by their names: this process keeps what it has open."""
        name = self.path.name
        try:
            if not os.path.samestat(self._opened, os.stat(self.path)):
                return [f"{name} was replaced by another file while it was open"]
        except FileNotFoundError:
            return [f"{name} was removed while it was open"]
        return [] if _log_of(self.path).exists() else [f"the log {name}-wal was removed while it was open"]

    def create_missing_tables(self) -> list[str]:
        with readable_errors():
            own = SqliteConnection(self.path, self._dialect, read_only=False)
            try:
                gone = missing_tables.missing(Reader(own, self._settings), self._kind)
                return missing_tables.create_in_sqlite(own.raw, self._kind, gone) if gone else []
            finally:
                own.raw.close()

    def empty_index(self) -> None:
        with readable_errors():
            own = SqliteConnection(self.path, self._dialect, read_only=False)
            try:
                missing_tables.create_in_sqlite(own.raw, self._kind, list(missing_tables.INDEX_TABLES))
            finally:
                own.raw.close()

    def copy_into(self, folder: Path) -> int:
        """One read transaction, however long it takes; the writer goes on meanwhile."""
        with readable_errors():
            look = SqliteConnection(self.path, self._dialect, read_only=True)
            try:
                look.raw.execute("VACUUM INTO ?", (str(folder / "database.db"),))
                return int(look.raw.pragma("user_version"))
            finally:
                look.raw.close()

    def wipe(self) -> None:
        """The indexes drop what was deleted, the file is written anew, and the log is emptied. Writers wait for it."""
        with readable_errors():
            own = SqliteConnection(self.path, self._dialect, read_only=False)
            try:
                for (name,) in own.raw.execute(
                    "SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL TABLE%USING fts5 %'"
                ).fetchall():
                    own.raw.execute(f"INSERT INTO {name} ({name}) VALUES ('optimize')")
                own.raw.execute("VACUUM")
                until = time.monotonic() + WIPE_SECONDS
                # Who reads an old state holds the log; so long as somebody does, it cannot be emptied.
                while own.raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]:
                    if time.monotonic() > until:
                        raise Unavailable("The data was written anew, but somebody reads an old state. Try again.")
                    time.sleep(0.05)
            finally:
                own.raw.close()

    def close(self) -> None:
        self._readers.shutdown(wait=True)
        for connection in self._idle:
            connection.raw.close()
        self._jobs.put(None)  # the writer goes last: it tidies up the write-ahead log when nobody else is there
        self._thread.join()


def problems_of(path: Path) -> list[str]:
    """SQLite's own check of every page, table and index of a file; it looks into the search index too."""
    look = SqliteConnection(path, SqliteDialect(), read_only=True)
    try:
        found = [str(row[0]) for row in look.raw.execute("PRAGMA integrity_check(20)")]
        orphans = look.raw.execute("PRAGMA foreign_key_check")
        found += [f"a row of {row[0]} belongs to nothing" for row in orphans]
    finally:
        look.raw.close()
    return [problem for problem in found if problem != "ok"]


def missing_tables_in(path: Path, kind: str, settings: Settings) -> list[str]:
    """The tables and indexes a file should have and has not. Nothing is changed."""
    with readable_errors():
        look = SqliteConnection(path, SqliteDialect(), read_only=True)
        try:
            if look.raw.pragma("user_version") != named_sql.migrations("sqlite", kind)[-1][0]:
                return []  # an older file, which is brought up to date when it is opened
            return missing_tables.missing(Reader(look, settings), kind)
        finally:
            look.raw.close()


def has_lost_log(path: Path) -> bool:
    """Was the write-ahead log taken away from a file whose last process did not end properly?

    A process that ends properly removes the index of the log (-shm) before the log itself (-wal).
    """
    return path.with_name(path.name + "-shm").exists() and not _log_of(path).exists()


def _log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


class _Look:
    """A read that can be given up: before it begins, or by interrupting the engine in the middle of it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._end = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._raw: apsw.Connection | None = None
        self._is_late = False

    def give_up(self) -> None:
        """Until it has ended: the engine does not hear it between two statements."""
        with self._lock:
            self._is_late = True
            if self._raw is not None:
                self._raw.interrupt()
                self._loop.call_later(AGAIN_SECONDS, self.give_up)

    @contextmanager
    def through(self, raw: apsw.Connection) -> Iterator[None]:
        with self._lock:
            if self._is_late or time.monotonic() >= self._end:
                raise Timeout()
            self._raw = raw
        try:
            yield
        finally:
            with self._lock:
                self._raw = None


def _create_private(path: Path) -> None:
    """Nobody else on the machine may read what is said here; SQLite gives its side files the same rights."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as problem:
        raise Unavailable(
            f"The data directory cannot be written to ({problem.strerror}). Check PALAVER_HOME and its permissions."
        ) from None


def migrate(connection: SqliteConnection, schema: str) -> None:
    """Bring the file to the newest schema, each step in one transaction; two processes starting at once take turns."""
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
                connection.script(sql)
                raw.pragma("user_version", number)
        raw.execute("COMMIT")
    except BaseException:
        raw.execute("ROLLBACK")
        raise
