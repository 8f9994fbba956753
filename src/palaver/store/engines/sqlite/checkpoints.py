"""Copy the write-ahead log into the database file, in a thread beside the writer.

SQLite itself copies it in the COMMIT that makes the log too long, and the caller of that change waits.
"""

from __future__ import annotations

from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path

import apsw

from palaver.store.engines.sqlite.commit_mark import CommitMark

LOG_PAGES = 4_000
"""The log is copied each time it has grown by this many pages of 4 kB."""
MOST_LOG_PAGES = 16_000
"""The writer itself copies a log of this length, because the log can only begin anew while nobody writes."""


class Checkpoints:
    """Watches the length of one file's log after each commit."""

    def __init__(self, path: Path, writer: apsw.Connection, threads: Executor) -> None:
        self._path, self._threads = path, threads
        self.mark = CommitMark(path)
        self._copied = 0
        """How long the log was when it was last copied."""
        self._is_copying = False
        writer.set_wal_hook(self._after_commit)

    def _after_commit(self, writer: apsw.Connection, _: str, pages: int) -> int:
        """An error here would be taken for an error of the commit, which has succeeded."""
        self.mark.write(pages)
        if pages < self._copied:  # the log has begun anew
            self._copied = 0
        if pages >= MOST_LOG_PAGES:
            with suppress(apsw.Error):
                writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        elif pages - self._copied >= LOG_PAGES and not self._is_copying:
            self._copied, self._is_copying = pages, True
            try:
                self._threads.submit(self._copy)
            except RuntimeError:  # the threads are being closed: closing the file copies the log
                self._is_copying = False
        return apsw.SQLITE_OK

    def _copy(self) -> None:
        try:
            with suppress(apsw.Error):
                own = apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READWRITE)
                try:
                    own.execute("SELECT 1 FROM sqlite_schema").fetchall()  # a new connection does not know the log yet
                    own.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
                finally:
                    own.close()
        finally:
            self._is_copying = False
