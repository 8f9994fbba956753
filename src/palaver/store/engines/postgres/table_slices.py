"""Reads the tables of a PostgreSQL schema in slices, so that a damaged page or row is noticed.

PostgreSQL checks a page when it reads it, if the server has data checksums. Reading a row also reads its long values.
"""

from __future__ import annotations

from collections.abc import Generator

import psycopg

from palaver.store.engines import named_sql
from palaver.store.engines.postgres import schemas
from palaver.store.engines.postgres.connection import readable_errors

BLOCKS_AT_ONCE = 512
"""Blocks of 8 kB that one slice reads."""
SECONDS = 10
DAMAGED = (psycopg.errors.DataCorrupted, psycopg.errors.IndexCorrupted, psycopg.errors.InternalError_)


class PostgresTableSlices:
    """Each call of `next` reads a part of the schema."""

    def __init__(self, url: str, schema: str) -> None:
        self._url, self._schema = url, schema
        self._is_stopped = False
        self._slices = self._all()

    def next(self) -> list[str] | None:
        """The problems of the next slice. None: there are no more slices."""
        with readable_errors():
            return None if self._is_stopped else next(self._slices, None)

    def stop(self) -> None:
        """Begin no further slice."""
        self._is_stopped = True

    def close(self) -> None:
        self._slices.close()

    def _all(self) -> Generator[list[str], None, None]:
        with schemas.connect(self._url, self._schema) as raw:
            names = schemas.invalid_indexes(raw)
            rows = raw.execute(named_sql.load("postgres")["table_blocks"].encode()).fetchall()
        yield [f"the index {name} is not valid" for name in names]
        for row in rows:
            for first in range(0, row["blocks"] + 1, BLOCKS_AT_ONCE):
                found = self._blocks(row["name"], first, first + BLOCKS_AT_ONCE)
                yield found
                if found:
                    break

    def _blocks(self, table: str, first: int, end: int) -> list[str]:
        sql = (
            f'SELECT count(octet_length(t::text)) FROM "{table}" t '
            f"WHERE t.ctid >= '({first},0)'::tid AND t.ctid < '({end},0)'::tid"
        )
        try:
            with schemas.connect(self._url, self._schema) as raw:
                raw.execute(f"SET LOCAL statement_timeout = '{SECONDS}s'".encode())
                raw.execute(sql.encode()).fetchall()
        except DAMAGED as problem:
            return [f"the table {table} is damaged ({str(problem).splitlines()[0]})"]
        except (psycopg.errors.UndefinedTable, psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable):
            return []  # it was dropped, or is being rewritten
        return []
