"""Read the SQLite databases of other programs. Nothing is written, and a lock lasts for one statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from palaver.importers import Unreadable
from palaver.importers.item import Item

MAGIC = b"SQLite format 3\x00"
LONGEST_VALUE = 256 * 1024 * 1024
BUSY_MILLIS = 5_000
IN_A_ZIP = "a database inside a zip; unpack it and import the file"

_IS_TABLE = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ? AND sql LIKE 'create table%'"


class Changed(Unreadable):
    """The database was changed while it was read."""


class Locked(Unreadable):
    """Another program holds a lock on the database."""


@contextmanager
def open_read_only(path: Path) -> Iterator[apsw.Connection]:
    """Open a connection that cannot write. Another process may write meanwhile. Raises Unreadable."""
    # Reading a database in WAL mode that is not open elsewhere would leave -wal and -shm files beside it. So it is
    # opened as immutable; if another program changes it meanwhile, the result may be wrong, and Changed is raised.
    with path.open("rb") as file:
        is_wal = file.read(20)[18:] == b"\x02\x02"
    is_at_rest = is_wal and not path.with_name(path.name + "-wal").exists()
    before = _sight(path)
    try:
        uri = f"{path.absolute().as_uri()}?{'immutable=1' if is_at_rest else 'mode=ro'}"
        connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        try:
            connection.set_busy_timeout(BUSY_MILLIS)
            connection.limit(apsw.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
            connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
            yield connection
        finally:
            connection.close(True)
    except apsw.BusyError:
        raise Locked("it is locked by another program; try again in a moment") from None
    except apsw.Error as problem:
        if not (is_at_rest and path.exists() and before != _sight(path)):
            raise Unreadable(describe_error(problem)) from None
    if is_at_rest and before != _sight(path):
        raise Changed("it was changed while it was read; import it again")


@contextmanager
def open_item(item: Item) -> Iterator[apsw.Connection]:
    if item.path is None:
        raise Unreadable(IN_A_ZIP)
    with open_read_only(item.path) as database:
        yield database


def has_columns(item: Item, head: bytes, tables: Mapping[str, Set[str]]) -> bool:
    """Whether a file is a database with tables that have these columns."""
    if item.path is None or not head.startswith(MAGIC):
        return False
    with suppress(Unreadable), open_read_only(item.path) as database:
        return all(columns_of(database, table) >= columns for table, columns in tables.items())
    return False


def find_damage(path: Path) -> str | None:
    """Check the whole database file; None if it is sound, else what is wrong."""
    try:
        with open_read_only(path) as database:
            found = [str(row[0]) for row in database.execute("PRAGMA quick_check(1)")]
    except (Locked, Changed):
        return None
    except Unreadable as problem:
        return str(problem)
    return None if found == ["ok"] else f"the database is damaged ({found[0].splitlines()[-1]})"


def describe_error(problem: apsw.Error) -> str:
    return f"the database cannot be read ({problem})"


def _sight(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def columns_of(connection: apsw.Connection, table: str) -> frozenset[str]:
    """The columns of a table; empty if there is no such table. Views do not count: one can be endless."""
    if not connection.execute(_IS_TABLE, (table,)).get:
        return frozenset()
    return frozenset(
        str(name).lower() for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
    )


def text_of_blob(value: Any, encoding: str = "UTF-8") -> str | None:
    """The text of a value that was selected as a blob, because it may not be valid text."""
    return value.decode(encoding, "replace") if isinstance(value, bytes) else value if isinstance(value, str) else None
