"""Recovers a damaged SQLite file: recreates its search index, or copies all readable rows into a new file.

The damaged file is never written to. It stays beside the new one, under a name with the date.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

import apsw
import orjson

from palaver.errors import PalaverError
from palaver.model.ids import new_id
from palaver.model.times import micros, now
from palaver.store.engines import missing_tables, named_sql
from palaver.store.engines.id_ranges import SOURCES, WIDTH
from palaver.store.engines.sqlite import commit_mark
from palaver.store.engines.sqlite.engine import connected, empty_index, problems_of, readable_errors
from palaver.synced_files import sync_folder
from palaver.text.checksum import checksum_of

SIDE_FILES = ("-wal", "-shm")
UNREADABLE = (apsw.Error, UnicodeDecodeError)
PAST_ALL_IDS = 1 << 62
EMPTY_JSON = {"data": "{}", "capabilities": "[]", "skills": "[]"}
"""Columns that hold JSON, and the value that replaces damaged JSON."""
MOST_PADDED = 1 << 40
"""A file whose header names a larger size is not padded."""

# A process that has the file open holds a lock on some of these bytes: the first one, and their number.
_LOCK_BYTES = (0x40000002, 510)
_IN_INDEX = re.compile(rf"\b(fts5|vtable)\b.*\b({'|'.join(missing_tables.INDEX_TABLES)})\b", re.IGNORECASE)


@dataclass
class RecoveryResult:
    """The number of rows that were saved and lost, by table. `aside` is the name of the damaged file."""

    aside: str
    saved: dict[str, int] = field(default_factory=dict)
    lost: dict[str, int | None] = field(default_factory=dict)
    """None: some rows are lost, but their number is unknown."""
    changed_texts: int = 0
    """How many texts do not have their checksum any more."""
    texts_without_checksum: int = 0


def check_file(path: Path) -> list[str]:
    """The problems of a database file. Nothing is changed."""
    try:
        with readable_errors():
            return problems_of(path)
    except PalaverError as problem:
        return [problem.message]
    except apsw.Error as problem:  # the schema itself is damaged
        return [f"SQLite cannot read it: {problem}"]


def is_in_use(path: Path) -> bool:
    """Does another process have the file open?"""
    with path.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, _LOCK_BYTES[1], _LOCK_BYTES[0])
        except OSError:
            return True
    return False


def _sql(name: str) -> str:
    return named_sql.load("sqlite")[name]


# Damage in the search index only


def is_index_alone(problems: list[str]) -> bool:
    return bool(problems) and all(_IN_INDEX.search(problem) for problem in problems)


def recreate_index(path: Path) -> bool:
    """Replace damaged search indexes by empty ones. Returns False if other tables are damaged too."""
    with suppress(apsw.Error, PalaverError), readable_errors():
        with connected(path, read_only=False) as own:
            if own.raw.pragma("user_version") != named_sql.migrations("sqlite", "workspace")[-1][0]:
                return False  # the index of an earlier version
            empty_index(own)
        return not check_file(path)
    return False


# Damage in the whole file


def recover(path: Path, kind: str) -> RecoveryResult:
    """Copy all readable rows into a new file, and rename the damaged one."""
    stamp = now().strftime("%Y%m%d-%H%M%S")
    result = RecoveryResult(f"{path.name}.damaged-{stamp}")
    with tempfile.TemporaryDirectory(prefix=".recovery-", dir=path.parent) as folder:
        fresh = Path(folder) / "fresh.db"
        old = _readable_copy(path, Path(folder))
        _fill(fresh, kind, old, result)
        if old:
            old.close()
        for side in ("", *SIDE_FILES):
            with suppress(FileNotFoundError):
                os.replace(path.with_name(path.name + side), path.with_name(result.aside + side))
        os.replace(fresh, path)
        commit_mark.forget(path)
        sync_folder(path.parent)
    return result


def _readable_copy(path: Path, folder: Path) -> apsw.Connection | None:
    """Open a copy, because opening a file may change it: with its log, or else without."""
    for number, sides in enumerate(((*SIDE_FILES[:1],), ())):
        copy = folder / f"copy{number}.db"
        shutil.copyfile(path, copy)
        for side in sides:
            with suppress(FileNotFoundError):
                shutil.copyfile(path.with_name(path.name + side), copy.with_name(copy.name + side))
        _pad(copy)
        connection = apsw.Connection(str(copy))
        try:
            connection.execute("SELECT count(*) FROM sqlite_schema").get  # noqa: B018
        except UNREADABLE:
            connection.close()
        else:
            return connection
    return None


def _pad(copy: Path) -> None:
    """Extend a truncated file to the size in its header. SQLite does not read a shorter one."""
    with copy.open("r+b") as file:
        header = file.read(100)
        size = int.from_bytes(header[16:18]) or 1
        whole = (65536 if size == 1 else size) * int.from_bytes(header[28:32])
        if header.startswith(b"SQLite format 3\0") and file.seek(0, os.SEEK_END) < whole <= MOST_PADDED:
            file.truncate(whole)


def _fill(fresh: Path, kind: str, old: apsw.Connection | None, result: RecoveryResult) -> None:
    os.close(os.open(fresh, os.O_CREAT | os.O_RDWR, 0o600))
    with connected(fresh, read_only=False) as new:
        new.raw.execute("PRAGMA foreign_keys = OFF")
        with new.raw:
            _make_schema(new.raw, kind, old)
            for table in _tables(new.raw):
                _copy(old, new.raw, table, result)
            if kind == "workspace":
                _replace_lost_documents(new.raw)
            _remove_orphans(new.raw, result)
            if kind == "workspace":
                for name in ("recover_thread_counts", "recover_event_counter", "recover_number_counters"):
                    new.raw.execute(_sql(name))
                if new.raw.pragma("user_version") >= 6:
                    new.raw.execute(_sql("restart_substring_index"))
        # All data is then in the one file that is renamed.
        new.raw.execute("PRAGMA journal_mode = DELETE").fetchall()


def _make_schema(new: apsw.Connection, kind: str, old: apsw.Connection | None) -> None:
    """Create the schema of the version that the data has. It is migrated when it is opened."""
    steps = named_sql.migrations("sqlite", kind)
    have = 0
    with suppress(*UNREADABLE):
        have = int(old.pragma("user_version")) if old else 0
    last = have if 0 < have <= steps[-1][0] else steps[-1][0]
    for number, sql in steps:
        if number <= last:
            new.execute(sql)
            new.pragma("user_version", number)


def _tables(raw: apsw.Connection) -> list[str]:
    return [str(name) for (name,) in raw.execute(_sql("table_names"))]


def _copy(old: apsw.Connection | None, new: apsw.Connection, table: str, result: RecoveryResult) -> None:
    columns: list[str] = []
    expected: int | None = None
    if old:
        with suppress(*UNREADABLE):
            theirs = {str(row[1]) for row in old.execute(f"PRAGMA table_info({table})")}
            columns = [str(row[1]) for row in new.execute(f"PRAGMA table_info({table})") if row[1] in theirs]
        with suppress(*UNREADABLE):
            expected = int(old.execute(f"SELECT count(*) FROM {table}").get)
    if not old or not columns:
        result.lost[table] = None
        return
    names, places = ", ".join(columns), ", ".join("?" * len(columns))
    saved, reading = 0, _DamagedTable(old, table, names)
    for row in reading.rows():
        repaired = _replace_damaged_json(columns, row)
        reading.has_lost |= repaired != row
        if table == "passages":
            text, checksum = repaired[columns.index("text")], dict(zip(columns, repaired, strict=True)).get("checksum")
            result.texts_without_checksum += checksum is None
            result.changed_texts += checksum not in (None, checksum_of(text))
        try:
            new.execute(f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({places})", repaired)
            saved += 1
        except apsw.Error:
            reading.has_lost = True  # the row breaks a constraint
    result.saved[table] = saved
    if reading.has_lost or (expected is not None and expected > saved):
        lost = (expected or 0) - saved
        result.lost[table] = lost if lost > 0 else None


def _replace_damaged_json(columns: list[str], row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Replace JSON that is not valid by empty JSON. The other columns are kept."""
    return tuple(
        EMPTY_JSON[name] if name in EMPTY_JSON and isinstance(value, str) and not _is_json(value) else value
        for name, value in zip(columns, row, strict=True)
    )


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


class _DamagedTable:
    """Reads the rows of a table with damaged pages."""

    def __init__(self, old: apsw.Connection, table: str, names: str) -> None:
        self._old, self._table, self._names = old, table, names
        self.has_lost = False

    def rows(self) -> Iterator[tuple[Any, ...]]:
        try:
            self._old.execute(f"SELECT rowid FROM {self._table} LIMIT 0").get  # noqa: B018
        except apsw.SQLError:
            yield from self._by_key()
        else:
            yield from self._by_rowid()

    def _by_key(self) -> Iterator[tuple[Any, ...]]:
        """Read from both ends, each up to the first damaged page."""
        seen: set[tuple[Any, ...]] = set()
        for row in self._until_damage(f"SELECT {self._names} FROM {self._table}"):
            if row in seen:
                self.has_lost = True
                break
            seen.add(row)
            yield row
        if self.has_lost:
            info = self._old.execute(f"PRAGMA table_info({self._table})").fetchall()
            key = [str(row[1]) for row in sorted(info, key=lambda row: int(row[5] or 0)) if row[5]]
            order = ", ".join(f"{name} DESC" for name in key)
            backwards = self._until_damage(f"SELECT {self._names} FROM {self._table} ORDER BY {order}")
            yield from takewhile(lambda row: row not in seen, backwards)

    def _by_rowid(self) -> Iterator[tuple[Any, ...]]:
        last = -PAST_ALL_IDS
        while True:
            sql = f"SELECT rowid, {self._names} FROM {self._table} WHERE rowid > ? ORDER BY rowid"
            before = self.has_lost
            self.has_lost = False
            for row in self._until_damage(sql, last):
                if row[0] <= last:  # a damaged page points back: this would never end
                    self.has_lost = True
                    break
                last = row[0]
                yield row[1:]
            broke, self.has_lost = self.has_lost, self.has_lost or before
            if not broke or (beyond := self._row_after_damage(last)) is None:
                return
            sql = f"SELECT rowid, {self._names} FROM {self._table} WHERE rowid > ? AND rowid < ? ORDER BY rowid DESC"
            above = beyond[0]
            for row in self._until_damage(sql, last, above):
                if not last < row[0] < above:
                    break
                above = row[0]
                yield row[1:]
            yield beyond[1:]
            last = beyond[0]

    def _row_after_damage(self, last: int) -> tuple[Any, ...] | None:
        """A row after the damaged pages. The steps grow until a row can be read again."""
        step = 1
        start = max(last, 0)
        while step < PAST_ALL_IDS - start:
            sql = f"SELECT rowid, {self._names} FROM {self._table} WHERE rowid >= ? ORDER BY rowid LIMIT 1"
            try:
                row = self._old.execute(sql, (start + step,)).fetchone()
            except UNREADABLE:
                step *= 2
            else:
                if row is None or row[0] > last:
                    return row
                step *= 2
        return None

    def _until_damage(self, sql: str, *params: int) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._old.execute(sql, params)
        except UNREADABLE:
            self.has_lost = True


def _replace_lost_documents(new: apsw.Connection) -> None:
    """Create a document for passages whose document is lost, with a title that says so."""
    sources = dict(enumerate(SOURCES))
    for document_id, passage_id, created_at in new.execute(_sql("lost_documents")).fetchall():
        source = sources.get(int(str(passage_id)) // WIDTH // 2)
        if source not in ("bus", "archive"):
            continue  # sessions come back from transcripts; passages of a text are not its whole text
        at = micros(now()) if created_at is None else created_at
        given = {
            "id": document_id,
            "source": source,
            "native_id": new_id(),
            "title": f"Recovered {document_id}",
            "at": at,
        }
        new.execute(_sql("insert_recovered_document"), given)
    new.execute(_sql("insert_recovered_threads"))


def _remove_orphans(new: apsw.Connection, result: RecoveryResult) -> None:
    """Delete rows that refer to lost rows, such as reactions to a lost message."""
    for _ in range(3):  # deleting a row may orphan others
        for table in _tables(new):
            for row in new.execute(f"PRAGMA foreign_key_list({table})").fetchall():
                parent, own, theirs = str(row[2]), str(row[3]), str(row[4])
                new.execute(
                    f"DELETE FROM {table} WHERE {own} IS NOT NULL AND {own} NOT IN (SELECT {theirs} FROM {parent})"
                )
                if gone := new.changes():
                    known = result.lost.get(table, 0)
                    result.lost[table] = None if known is None else known + gone
                    result.saved[table] -= gone
