"""Mending an SQLite file: its search index is made anew, or whatever can still be read is put into a fresh file.

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
from palaver.store.engines.sqlite.dialect import SqliteDialect
from palaver.store.engines.sqlite.engine import SqliteConnection, problems_of, readable_errors

SIDE_FILES = ("-wal", "-shm")
UNREADABLE = (apsw.Error, UnicodeDecodeError)
PAST_ALL_IDS = 1 << 62
EMPTY_JSON = {"data": "{}", "capabilities": "[]", "skills": "[]"}
"""Columns that hold JSON, and what stands for what was lost of it."""
MOST_PADDED = 1 << 40

# Where SQLite locks a file, whoever has it open holds some of these bytes.
_LOCK_BYTES = (0x40000002, 510)
_IN_INDEX = re.compile(rf"\b(fts5|vtable)\b.*\b({'|'.join(missing_tables.INDEX_TABLES)})\b", re.IGNORECASE)


@dataclass
class RecoveryResult:
    """What came of it: how many rows of each table were saved, and how many are lost, as far as anybody can tell."""

    aside: str
    saved: dict[str, int] = field(default_factory=dict)
    lost: dict[str, int | None] = field(default_factory=dict)
    """None: some, nobody knows how many."""


def check_file(path: Path) -> list[str]:
    """What is wrong with a file; nothing is changed."""
    try:
        with readable_errors():
            return problems_of(path)
    except PalaverError as problem:
        return [problem.message]
    except apsw.Error as problem:  # a schema that cannot be understood
        return [f"SQLite cannot read it: {problem}"]


def is_in_use(path: Path) -> bool:
    """Has another process the file open?"""
    with path.open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, _LOCK_BYTES[1], _LOCK_BYTES[0])
        except OSError:
            return True
    return False


# The index alone


def is_index_alone(problems: list[str]) -> bool:
    return bool(problems) and all(_IN_INDEX.search(problem) for problem in problems)


def recreate_index(path: Path) -> bool:
    """Empty search indexes in place of the damaged ones, ready to be filled. False if the damage goes deeper."""
    with suppress(apsw.Error, PalaverError), readable_errors():
        own = SqliteConnection(path, SqliteDialect(), read_only=False)
        try:
            made = own.raw.execute(
                "SELECT name, sql FROM sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL TABLE%' ORDER BY rowid"
            ).fetchall()
            with own.raw:
                for name, _ in made:
                    own.raw.execute(f"DROP TABLE {name}")
                for _, sql in made:
                    own.raw.execute(str(sql))
                missing_tables.tune_index(own.raw)
                own.raw.execute(missing_tables.RESTART_SUBSTRING_INDEX)
        finally:
            own.raw.close()
        return not check_file(path)
    return False


# The whole file


def recover(path: Path, kind: str) -> RecoveryResult:
    """A fresh file with all that can be read of the damaged one, which is put aside."""
    stamp = now().strftime("%Y%m%d-%H%M%S")
    result = RecoveryResult(f"{path.name}.damaged-{stamp}")
    with tempfile.TemporaryDirectory(prefix=".mending-", dir=path.parent) as folder:
        fresh = Path(folder) / "fresh.db"
        old = _readable_copy(path, Path(folder))
        _fill(fresh, kind, old, result)
        if old:
            old.close()
        for side in ("", *SIDE_FILES):
            with suppress(FileNotFoundError):
                os.replace(path.with_name(path.name + side), path.with_name(result.aside + side))
        os.replace(fresh, path)
    return result


def _readable_copy(path: Path, folder: Path) -> apsw.Connection | None:
    """Opening a file may change it, so a copy is opened: with what stands in its log, or else without."""
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
    """SQLite reads nothing of a file that is shorter than its header says: give it its length back."""
    with copy.open("r+b") as file:
        header = file.read(100)
        size = int.from_bytes(header[16:18]) or 1
        whole = (65536 if size == 1 else size) * int.from_bytes(header[28:32])
        if header.startswith(b"SQLite format 3\0") and file.seek(0, os.SEEK_END) < whole <= MOST_PADDED:
            file.truncate(whole)


def _fill(fresh: Path, kind: str, old: apsw.Connection | None, result: RecoveryResult) -> None:
    os.close(os.open(fresh, os.O_CREAT | os.O_RDWR, 0o600))
    new = SqliteConnection(fresh, SqliteDialect(), read_only=False)
    try:
        new.raw.execute("PRAGMA foreign_keys = OFF")
        with new.raw:
            _make_schema(new.raw, kind, old)
            for table in _tables(new.raw):
                _copy(old, new.raw, table, result)
            if kind == "workspace":
                _replace_lost_documents(new.raw)
            _remove_orphans(new.raw, result)
            if kind == "workspace":
                _recount(new.raw)
        new.raw.execute("PRAGMA journal_mode = DELETE").fetchall()  # all of it in the one file that is moved
    finally:
        new.raw.close()


def _make_schema(new: apsw.Connection, kind: str, old: apsw.Connection | None) -> None:
    """As old as the data is: it is brought up to date when it is opened."""
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
    rows = raw.execute("SELECT name FROM pragma_table_list WHERE type = 'table' AND schema = 'main' ORDER BY name")
    return [str(name) for (name,) in rows if not str(name).startswith("sqlite_")]


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
    saved, reading = 0, _Reading(old, table, names)
    for row in reading.rows():
        mended = _with_sound_json(columns, row)
        reading.has_lost |= mended != row
        row = mended
        try:
            new.execute(f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({places})", row)
            saved += 1
        except apsw.Error:
            reading.has_lost = True  # not what such a row can be
    result.saved[table] = saved
    if reading.has_lost or (expected is not None and expected > saved):
        lost = (expected or 0) - saved
        result.lost[table] = lost if lost > 0 else None


def _with_sound_json(columns: list[str], row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The row with empty JSON in place of JSON that a damaged page has made unreadable. The rest of it is kept."""
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


class _Reading:
    """The rows of a table that has holes."""

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
        """From both ends, to where it cannot be read."""
        seen: set[tuple[Any, ...]] = set()
        for row in self._until_it_breaks(f"SELECT {self._names} FROM {self._table}"):
            if row in seen:
                self.has_lost = True
                break
            seen.add(row)
            yield row
        if self.has_lost:
            info = self._old.execute(f"PRAGMA table_info({self._table})").fetchall()
            key = [str(row[1]) for row in sorted(info, key=lambda row: int(row[5] or 0)) if row[5]]
            order = ", ".join(f"{name} DESC" for name in key)
            backwards = self._until_it_breaks(f"SELECT {self._names} FROM {self._table} ORDER BY {order}")
            yield from takewhile(lambda row: row not in seen, backwards)

    def _by_rowid(self) -> Iterator[tuple[Any, ...]]:
        last = -PAST_ALL_IDS
        while True:
            sql = f"SELECT rowid, {self._names} FROM {self._table} WHERE rowid > ? ORDER BY rowid"
            before = self.has_lost
            self.has_lost = False
            for row in self._until_it_breaks(sql, last):
                if row[0] <= last:  # a page that leads back: there is no end to it
                    self.has_lost = True
                    break
                last = row[0]
                yield row[1:]
            broke, self.has_lost = self.has_lost, self.has_lost or before
            if not broke or (beyond := self._beyond(last)) is None:
                return
            sql = f"SELECT rowid, {self._names} FROM {self._table} WHERE rowid > ? AND rowid < ? ORDER BY rowid DESC"
            above = beyond[0]
            for row in self._until_it_breaks(sql, last, above):
                if not last < row[0] < above:
                    break
                above = row[0]
                yield row[1:]
            yield beyond[1:]
            last = beyond[0]

    def _beyond(self, last: int) -> tuple[Any, ...] | None:
        """The first row after a hole, roughly: steps grow until something can be read again."""
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

    def _until_it_breaks(self, sql: str, *params: int) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self._old.execute(sql, params)
        except UNREADABLE:
            self.has_lost = True


def _replace_lost_documents(new: apsw.Connection) -> None:
    """Passages whose document is gone get one that says so: what was said is worth more than its heading."""
    lanes = " ".join(f"WHEN {number} THEN '{source}'" for number, source in enumerate(SOURCES))
    orphans = new.execute(
        f"SELECT document_id, CASE (min(id) / {WIDTH}) / 2 {lanes} END, coalesce(min(created_at), {micros(now())}) "
        "FROM passages WHERE document_id NOT IN (SELECT id FROM documents) GROUP BY document_id"
    ).fetchall()
    for document_id, source, at in orphans:
        if source not in ("bus", "archive"):
            continue  # a session comes back from its transcript; pieces of a text are not the text
        new.execute(
            "INSERT INTO documents (id, source, native_id, title, created_at, modified_at) VALUES (?, ?, ?, ?, ?, ?)",
            (document_id, source, new_id(), f"Recovered {document_id}", at, at),
        )
    new.execute(
        "INSERT INTO threads (document_id, topic, status) "
        "SELECT id, coalesce(title, 'Recovered') || ' (recovered ' || id || ')', 'discuss' "
        "FROM documents WHERE source = 'bus' AND id NOT IN (SELECT document_id FROM threads)"
    )


def _remove_orphans(new: apsw.Connection, result: RecoveryResult) -> None:
    """Rows that belong to something lost: reactions to a message that is gone, and the like."""
    for _ in range(3):  # what belonged to them may follow
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


def _recount(new: apsw.Connection) -> None:
    """Numbers that are kept beside what they count."""
    new.execute(
        "UPDATE threads SET "
        "last_seq = max(last_seq, (SELECT coalesce(max(position), 0) FROM passages p "
        "WHERE p.document_id = threads.document_id)), "
        "message_count = (SELECT count(*) FROM passages p WHERE p.document_id = threads.document_id AND position > 0)"
    )
    new.execute(
        "INSERT INTO counters (name, value) SELECT 'events', coalesce(max(id), 0) FROM events WHERE true "
        "ON CONFLICT DO UPDATE SET value = max(value, excluded.value)"
    )
    new.execute(
        "UPDATE counters SET value = max(value, (SELECT coalesce(max(CAST(native_id AS INTEGER)), 0) FROM documents d "
        "WHERE d.source = counters.name)) WHERE name IN ('media', 'characters')"
    )
    if new.pragma("user_version") >= 6:
        new.execute(missing_tables.RESTART_SUBSTRING_INDEX)
