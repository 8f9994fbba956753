"""Checks the tables of an SQLite file in slices, while the file is in use.

`PRAGMA quick_check` checks the pages of a table and of its indexes. Where that takes too long, the rows of the table
are read in ranges instead. Nothing here takes a lock that a writer waits for.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator

import apsw

from palaver.store.engines import named_sql

MOST_SECONDS = 2.0
"""How long the check of a whole table may take: about 1 GB. The log cannot be emptied meanwhile."""
ROWS_AT_ONCE = 2_000
ROWS_SECONDS = 10.0
STEPS = 20_000
"""How often a running statement looks whether it has to stop, in steps of SQLite."""
DAMAGED = (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError)


class SqliteTableSlices:
    """Each call of `next` checks a part of the file. `open_file` opens it for reading."""

    def __init__(self, open_file: Callable[[], apsw.Connection]) -> None:
        self._open = open_file
        self._raw: apsw.Connection | None = None
        self._until = math.inf
        self._is_stopped = False
        self._slices = self._all()

    def next(self) -> list[str] | None:
        """The problems of the next slice. None: there are no more slices."""
        return None if self._is_stopped else next(self._slices, None)

    def stop(self) -> None:
        """End the slice that runs in another thread."""
        self._is_stopped = True

    def close(self) -> None:
        self._slices.close()
        if self._raw is not None:
            self._raw.close()

    def _all(self) -> Generator[list[str], None, None]:
        try:
            self._raw = self._open()
            self._raw.set_progress_handler(lambda: self._is_stopped or time.monotonic() > self._until, STEPS)
            tables = [str(name) for (name,) in self._raw.execute(named_sql.load("sqlite")["all_tables"])]
        except DAMAGED as problem:
            yield [f"the file cannot be read ({problem})"]
            return
        for table in tables:
            yield from self._table(self._raw, table)

    def _table(self, raw: apsw.Connection, table: str) -> Generator[list[str], None, None]:
        self._until = time.monotonic() + MOST_SECONDS
        try:
            found = [str(said) for (said,) in raw.execute(f"PRAGMA quick_check('{table}')")]
            orphans = raw.execute(f"PRAGMA foreign_key_check('{table}')").fetchall()
        except apsw.InterruptError:
            if not self._is_stopped:
                yield from self._rows(raw, table)
            return
        except DAMAGED as problem:
            yield [_says(table, str(problem))]
            return
        except apsw.SQLError:  # the table was dropped meanwhile
            return
        found = [_says(table, said) for said in found if said != "ok"][:1]
        if orphans:
            found.append(f"rows of the table {table} belong to nothing")
        yield found

    def _rows(self, raw: apsw.Connection, table: str) -> Generator[list[str], None, None]:
        """Read a large table in ranges of rows."""
        last = -(1 << 62)
        sql = f"SELECT rowid, * FROM {table} WHERE rowid > ? ORDER BY rowid LIMIT {ROWS_AT_ONCE}"
        while True:
            self._until = time.monotonic() + ROWS_SECONDS
            try:
                ids = [row[0] for row in raw.execute(sql, (last,))]
            except apsw.InterruptError:
                return
            except DAMAGED as problem:
                yield [_says(table, str(problem))]
                return
            except apsw.SQLError:  # a table without row ids
                return
            if not ids:
                return
            if ids != sorted(set(ids)) or ids[0] <= last:
                yield [_says(table, "its rows are not in order")]
                return
            last = ids[-1]
            yield []


def _says(table: str, problem: str) -> str:
    lines = problem.strip().splitlines()
    return f"the table {table} is damaged ({lines[0] if lines else 'unreadable'})"
