"""A connection to PostgreSQL, and readable messages for its errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any

import psycopg
from psycopg.rows import tuple_row
from psycopg_pool import PoolTimeout

from palaver.errors import Conflict, Damaged, Timeout, Unavailable
from palaver.store.engines.database import Dialect, Row, json_batches, nothing_to_check
from palaver.store.engines.postgres.dialect import PostgresDialect

RawConnection = psycopg.Connection[Row]

COPIED_FROM = 50
"""From this number of rows on, COPY is faster than a prepared INSERT. The server writes the rows as they arrive."""


class PostgresConnection:
    dialect: Dialect

    def __init__(
        self, raw: RawConnection, dialect: PostgresDialect, before_event_log: Callable[[], None] = lambda: None
    ) -> None:
        self.raw, self.dialect = raw, dialect
        self._event_log_statements, self._before_event_log = dialect.event_log_statements, before_event_log
        self._copies = dialect.copies
        self.has_written = False
        self.check: Callable[[], None] = nothing_to_check

    def fetch(self, sql: str, params: Mapping[str, Any]) -> list[Row]:
        self.check()
        if sql in self._event_log_statements:
            self._before_event_log()
        cursor = self.raw.execute(sql.encode(), params)
        self.has_written = self.has_written or not (cursor.statusmessage or "").startswith("SELECT")
        return cursor.fetchall() if cursor.description else []

    def fetch_tuples(self, sql: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        self.check()
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
        self.has_written = True
        left = iter(rows)
        first = list(islice(left, COPIED_FROM))
        copy = self._copies.get(sql) if len(first) == COPIED_FROM else None
        if copy is None:
            for batch in json_batches(chain(first, left)):
                self.raw.execute(sql.encode(), {"rows": batch.decode()})
            return
        with self.raw.cursor() as cursor, cursor.copy(copy.encode()) as data:
            for row in chain(first, left):
                data.write_row(row)


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
    except (psycopg.errors.DataCorrupted, psycopg.errors.IndexCorrupted):
        raise Damaged("The database is damaged. Run 'palaver doctor' to see what can be done.") from None
    except (psycopg.OperationalError, PoolTimeout) as problem:
        raise Unavailable(f"PostgreSQL is not reachable ({type(problem).__name__}). Try again in a moment.") from None
