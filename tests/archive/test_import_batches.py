"""Much is read in a process of its own: the same batches come of it, and whatever happens to it is told."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.archive.test_conversation_search import NOON, chat
from tests.conftest import Engine
from tests.helpers import PATIENCE, eventually
from tests.importers.shapes import as_json

from palaver.operations.admin.maintenance import complete_index
from palaver.operations.archive import import_batches
from palaver.operations.archive.import_batches import Batch, ImportRequest
from palaver.operations.archive.import_files import Summary, import_paths
from palaver.settings import Settings
from palaver.store.library import documents
from palaver.store.workspaces import Workspace, open_engine


def history(folder: Path, *, count: int = 300, each: int = 20) -> Path:
    """An export of several batches, and something nobody can read."""
    folder.mkdir()
    talks = [
        chat(f"talk {c}", *(("user", f"talk {c} wörd {n}", NOON + c * 100 + n) for n in range(each)), id=f"c{c}")
        for c in range(count)
    ]
    (folder / "conversations.json").write_bytes(as_json(talks))
    (folder / "broken.zip").write_bytes(b"PK\x03\x04 and no more")
    return folder


async def all_batches(*paths: Path, is_large: bool) -> list[Batch]:
    async with aclosing(import_batches.read_batches(ImportRequest(list(paths)), is_large=is_large)) as batches:
        return [batch async for batch in batches]


def children() -> list[psutil.Process]:
    return [one for one in psutil.Process().children() if import_batches.READER in " ".join(one.cmdline())]


async def test_imports_that_overlap_leave_the_garbage_collector_as_it_was(tmp_path: Path):
    """The second began while the first had changed its settings. It must not restore those."""
    path = history(tmp_path / "history", count=30)
    before = (gc.get_threshold(), sys.getswitchinterval())
    first = import_batches.read_batches(ImportRequest([path]))
    await anext(first)
    assert gc.get_threshold() != before[0]
    second = import_batches.read_batches(ImportRequest([path]))
    await anext(second)
    await first.aclose()
    assert gc.get_threshold() != before[0]
    await second.aclose()
    assert (gc.get_threshold(), sys.getswitchinterval()) == before


async def test_a_process_of_its_own_reads_the_same(tmp_path: Path):
    folder = history(tmp_path / "history")
    note = tmp_path / "note.md"
    note.write_text("# A note\n\nwith a few words", "utf-8")
    apart = await all_batches(folder, note, is_large=True)
    assert apart == await all_batches(folder, note, is_large=False)
    assert sum(len(batch.conversations) for batch in apart) == 300
    assert [getattr(piece.piece, "title", None) for batch in apart for piece in batch.pieces] == ["note"]
    assert [Path(skipped.name).name for batch in apart for skipped in batch.skipped] == ["broken.zip"]
    assert apart[-1].bytes_read == apart[-1].bytes_total > 0
    assert not children()


def test_much_is_a_matter_of_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "deep" / "er"
    folder.mkdir(parents=True)
    for name in "ab":
        (folder / name).write_bytes(b"x" * 600)
    monkeypatch.setattr(import_batches, "LARGE_BYTES", 1_000)
    assert import_batches.is_large([tmp_path / "deep"])
    assert import_batches.is_large([folder / "a", folder / "b"])
    assert not import_batches.is_large([folder / "a"])
    assert not import_batches.is_large([tmp_path / "not there", Path("nul\0")])


@pytest.fixture
async def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(import_batches, "LARGE_BYTES", 1)
    settings = Settings(home=tmp_path / "home")
    workspace = Workspace("default", open_engine(settings, "default"), settings)
    yield workspace
    workspace.close()


@pytest.mark.thorough
async def test_what_was_read_before_the_reader_died_is_kept_and_the_rest_comes_next_time(
    here: Workspace, tmp_path: Path
):
    folder = history(tmp_path / "history", count=600)

    def kill(summary: Summary) -> None:
        if summary.new:
            for child in children():
                child.send_signal(signal.SIGKILL)

    summary = await import_paths(here, [folder], progress=kill)
    assert summary.failed
    assert 0 < summary.new < 600
    assert "signal 9" in summary.skipped[-1].why
    again = await import_paths(here, [folder])
    assert (again.new, again.unchanged) == (600 - summary.new, summary.new)
    assert await here.read(documents.seems_complete)


async def test_who_gives_up_leaves_no_reader_behind(here: Workspace, tmp_path: Path):
    began = asyncio.Event()
    task = asyncio.create_task(
        import_paths(here, [history(tmp_path / "history", count=600)], progress=lambda summary: began.set())
    )
    async with asyncio.timeout(PATIENCE):
        await began.wait()
    assert children()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not children()


async def test_a_reader_whose_parent_was_killed_ends(tmp_path: Path):
    folder = history(tmp_path / "history", count=800)
    code = (
        "import asyncio, pathlib, sys\n"
        "from palaver.operations.archive import import_batches as r\n"
        "async def main():\n"
        "    async for batch in r.read_batches(r.ImportRequest([pathlib.Path(sys.argv[1])]), is_large=True):\n"
        "        print('began', flush=True)\n"
        "        await asyncio.sleep(3600)\n"
        "asyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(folder), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    async with asyncio.timeout(PATIENCE):
        assert await parent.stdout.readline() == b"began\n"
    (reader,) = psutil.Process(parent.pid).children()
    parent.kill()
    await parent.wait()
    eventually(lambda: not reader.is_running() or reader.status() == psutil.STATUS_ZOMBIE, PATIENCE)


async def test_a_module_in_the_current_folder_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = history(tmp_path / "history", count=1)
    trap = tmp_path / "trap"
    trap.mkdir()
    (trap / "orjson.py").write_text(f"open({str(trap / 'sprung')!r}, 'w').close()", "utf-8")
    monkeypatch.chdir(trap)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    await all_batches(folder, is_large=True)
    assert not os.path.exists(trap / "sprung")


async def test_what_goes_wrong_there_is_raised_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    broken = "import palaver.operations.archive.import_batches as r; r.find_sources = None; r.send_batches()"
    monkeypatch.setattr(import_batches, "READER", broken)
    with pytest.raises(TypeError):
        await all_batches(tmp_path, is_large=True)


async def test_what_a_reader_prints_is_not_taken_for_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = history(tmp_path / "history", count=3)
    expected = await all_batches(folder, is_large=False)
    loud = (
        "import os, palaver.operations.archive.import_batches as r\n"
        "real = r.find_sources\n"
        "def find_sources(*args, **rest):\n"
        "    print('a warning', flush=True); os.write(1, b'another')\n"
        "    return real(*args, **rest)\n"
        "r.find_sources = find_sources; r.send_batches()"
    )
    monkeypatch.setattr(import_batches, "READER", loud)
    assert await all_batches(folder, is_large=True) == expected


async def test_for_much_the_engine_is_set_up_and_put_back(here: Workspace, tmp_path: Path):
    def merging(read: Any) -> dict[str, int]:
        rows = read.connection.fetch("SELECT k, v FROM passage_index_config WHERE k LIKE '%merge'", {})
        return {row["k"]: row["v"] for row in rows}

    seen: list[dict[str, int]] = []
    async with here.bulk_writes():
        seen.append(await here.read(merging))
        await complete_index(here)  # the background work of a server beside it
        seen.append(await here.read(merging))
    seen.append(await here.read(merging))
    bulk, usual = {"automerge": 64, "crisismerge": 512}, {"automerge": 8, "crisismerge": 512}
    assert seen == [bulk, bulk, usual]
    await here.change(lambda change: change.run("begin_bulk_writes"))  # and then the process is killed
    assert await here.read(merging) == bulk
    await complete_index(here)
    assert await here.read(merging) == usual


async def test_postgres_gets_longer_lists_for_much_and_its_own_limit_back(on_postgres: Engine, tmp_path: Path):
    settings = Settings(home=tmp_path, database_url=on_postgres.fresh())

    def limits(read: Any) -> list[Any]:
        rows = read.connection.fetch(
            "SELECT reloptions FROM pg_class WHERE relname IN ('passage_index_words', 'passage_trigrams_gin')", {}
        )
        return [row["reloptions"] for row in rows]

    here = Workspace("default", open_engine(settings, "default"), settings)
    try:
        assert await here.read(limits) == [["gin_pending_list_limit=256"]] * 2
        async with here.bulk_writes():
            assert await here.read(limits) == [["gin_pending_list_limit=16384"]] * 2
        assert await here.read(limits) == [["gin_pending_list_limit=256"]] * 2
        await here.change(lambda change: change.run("begin_bulk_writes"))  # and then the process is killed
        await complete_index(here)
        assert await here.read(limits) == [["gin_pending_list_limit=16384"]] * 2  # it may still be running
        long_ago = "UPDATE counters SET value = value - 6 * 3600 - 1 WHERE name = 'bulk writes'"
        await here.change(lambda change: change.connection.run(long_ago, {}))
        await complete_index(here)
        assert await here.read(limits) == [["gin_pending_list_limit=256"]] * 2
    finally:
        here.close()


async def test_an_index_that_is_made_again_has_its_settings(on_postgres: Engine, tmp_path: Path):
    settings = Settings(home=tmp_path, database_url=on_postgres.fresh())
    here = Workspace("default", open_engine(settings, "default"), settings)
    try:
        await here.change(lambda change: change.connection.run("DROP INDEX passage_index_words", {}))
        await asyncio.to_thread(here.engine.create_missing_tables)
        sql = "SELECT reloptions FROM pg_class WHERE relname = 'passage_index_words'"
        rows = await here.read(lambda read: read.connection.fetch(sql, {}))
        assert rows == [{"reloptions": ["gin_pending_list_limit=256"]}]
    finally:
        here.close()


def test_a_batch_says_how_far_reading_has_come(tmp_path: Path):
    folder = history(tmp_path / "history")
    come = [(one.bytes_read, one.bytes_total) for one in import_batches.batches_of(ImportRequest([folder]))]
    assert come == sorted(come)
    assert all(read <= total for read, total in come)


def test_a_request_says_how_large_batches_are(tmp_path: Path):
    folder = history(tmp_path / "history", count=60)

    def largest(request: ImportRequest) -> int:
        batches = import_batches.batches_of(request)
        return max(sum(len(one.conversation.messages) for one in batch.conversations) for batch in batches)

    assert largest(ImportRequest([folder])) == 1_200
    assert largest(ImportRequest([folder], messages_at_once=500)) == 500
