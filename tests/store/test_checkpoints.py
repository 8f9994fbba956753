"""The write-ahead log of SQLite is copied into the file beside the writer, and does not grow without end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.helpers import PATIENCE
from tests.store.bus import opened

from palaver.settings import Settings
from palaver.store.engines.sqlite import checkpoints
from palaver.store.engines.sqlite.checkpoints import Checkpoints

PAGE = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data.db"


@pytest.fixture
def writer(path: Path) -> Iterator[apsw.Connection]:
    writer = apsw.Connection(str(path))
    writer.execute("PRAGMA journal_mode = WAL").fetchall()
    writer.execute("CREATE TABLE notes (text)")
    yield writer
    writer.close()


@pytest.fixture(autouse=True)
def short_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "LOG_PAGES", 20)
    monkeypatch.setattr(checkpoints, "MOST_LOG_PAGES", 60)


class Later(Executor):
    """Keeps what it should run."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.kept.append(fn)
        return Future()


def add_page(writer: apsw.Connection) -> None:
    writer.execute("INSERT INTO notes VALUES (?)", (b"x" * PAGE,))


def log_pages(path: Path) -> int:
    return path.with_name(path.name + "-wal").stat().st_size // (PAGE + 24)


def test_a_long_log_is_copied_by_another_thread(path: Path, writer: apsw.Connection, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checkpoints, "MOST_LOG_PAGES", 1_000_000)
    with ThreadPoolExecutor(1) as threads:
        Checkpoints(path, writer, threads)
        before = path.stat().st_size
        until = time.monotonic() + PATIENCE
        while path.stat().st_size < before + 15 * PAGE and time.monotonic() < until:
            add_page(writer)
            time.sleep(0.002)
        assert path.stat().st_size >= before + 15 * PAGE


def test_a_commit_does_not_copy_the_log(path: Path, writer: apsw.Connection):
    later = Later()
    Checkpoints(path, writer, later)
    before = path.stat().st_size
    while log_pages(path) < 50:
        add_page(writer)
    assert path.stat().st_size == before
    assert len(later.kept) == 1  # it is not asked again before it is done
    later.kept.pop()()
    assert path.stat().st_size > before


def test_a_log_that_is_never_copied_in_time_is_copied_by_the_writer(path: Path, writer: apsw.Connection):
    Checkpoints(path, writer, Later())
    for _ in range(500):
        add_page(writer)
    assert log_pages(path) < 80


def test_a_commit_succeeds_when_the_threads_are_closed_and_the_log_cannot_be_copied(
    path: Path, writer: apsw.Connection
):
    threads = ThreadPoolExecutor(1)
    Checkpoints(path, writer, threads)
    threads.shutdown()
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN; SELECT count(*) FROM notes").fetchall()  # the log must not be begun anew
    for _ in range(100):
        add_page(writer)
    assert writer.execute("SELECT count(*) FROM notes").fetchall() == [(100,)]
    reader.close()


async def test_posts_are_stored_while_the_log_is_copied(tmp_path: Path):
    async with opened(Settings(home=tmp_path)) as bus:
        thread = await bus.thread()
        await bus.posts(thread, [f"message {n} of the harbour" for n in range(300)])
        assert len(await bus.messages(thread)) == 300
    async with opened(Settings(home=tmp_path)) as bus:
        assert len(await bus.found("harbour")) == 200
