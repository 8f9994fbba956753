"""Batches of an import are written at the same time where the engine can, and give the same result as one by one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.archive.test_conversation_search import NOON, chat
from tests.conftest import Engine
from tests.helpers import PATIENCE
from tests.importers.shapes import as_json
from tests.store.bus import Bus

from palaver.errors import PalaverError
from palaver.operations.archive import import_batches, import_files
from palaver.operations.archive.import_files import Summary, import_paths
from palaver.settings import Settings
from palaver.store.engines.database import Change, Scope
from palaver.store.library import archive
from palaver.store.workspaces import Workspace, open_engine


@pytest.fixture
async def here(engine: Engine, tmp_path: Path) -> AsyncIterator[Workspace]:
    settings = Settings(home=tmp_path / "home", database_url=engine.fresh())
    here = Workspace("default", open_engine(settings, "default"), settings)
    yield here
    here.close()


def write_export(folder: Path, name: str, *talks: dict[str, Any]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(as_json(list(talks)))


def talk(id: str, *texts: str, at: float = NOON) -> dict[str, Any]:
    return chat(f"talk {id}", *(("user", text, at + n) for n, text in enumerate(texts)), id=id)


async def texts_of(here: Workspace, id: str) -> list[str]:
    found = await here.read(lambda read: archive.conversation(read, f"chatgpt:{id}"))
    assert found is not None
    return [said.text for said in found.messages]


async def test_a_conversation_in_several_batches_ends_in_its_newest_state(
    here: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(import_batches, "MESSAGES_AT_ONCE", 1)
    folder = tmp_path / "export"
    for n in range(6):
        states = [talk("same", *(f"word{m}" for m in range(n + 1)), at=NOON + n), talk(f"other{n}", f"alone{n}")]
        write_export(folder, f"conversations-{n}.json", *states)
    summary = await import_paths(here, [folder])
    assert (summary.new, summary.changed, summary.skipped) == (7, 5, [])
    assert await texts_of(here, "same") == [f"word{m}" for m in range(6)]
    assert [await texts_of(here, f"other{n}") for n in range(6)] == [[f"alone{n}"] for n in range(6)]
    again = await import_paths(here, [folder])
    assert (again.new, again.changed) == (0, 0)


async def test_batches_are_counted_in_their_order(here: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(import_batches, "MESSAGES_AT_ONCE", 1)
    write_export(tmp_path / "export", "conversations.json", *(talk(f"c{n:02}", f"text{n}") for n in range(20)))
    seen: list[tuple[int, int]] = []
    summary = await import_paths(
        here, [tmp_path / "export"], progress=lambda so_far: seen.append((so_far.messages, so_far.bytes_read))
    )
    assert seen == sorted(seen)
    assert seen[-1][0] == 20
    assert [item.id for item in summary.items] == [f"chatgpt:c{n:02}" for n in range(20)]


async def test_after_an_error_the_other_batches_are_written_and_nothing_runs_on(
    here: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(import_batches, "MESSAGES_AT_ONCE", 1)
    write_export(tmp_path / "export", "conversations.json", *(talk(f"c{n}", f"text{n}") for n in range(6)))
    real = archive.put_all

    def put_all(change: Change, batch: list[archive.PreparedConversation]) -> list[archive.Outcome]:
        if batch[0].conversation.id == "chatgpt:c2":
            raise PalaverError("The disk is full.")
        return real(change, batch)

    monkeypatch.setattr(archive, "put_all", put_all)
    with pytest.raises(PalaverError, match="disk is full"):
        await import_paths(here, [tmp_path / "export"])
    assert await texts_of(here, "c0") == ["text0"]
    assert await texts_of(here, "c1") == ["text1"]
    monkeypatch.setattr(archive, "put_all", real)
    summary = await import_paths(here, [tmp_path / "export"])
    assert summary.new + summary.unchanged == 6
    assert [await texts_of(here, f"c{n}") for n in range(6)] == [[f"text{n}"] for n in range(6)]


@pytest.mark.parametrize("is_large", [False, True])
async def test_imported_texts_are_found_by_their_parts(
    here: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_large: bool
):
    """The reader does a part of the work of indexing, in its own process if the import is large."""
    if is_large:
        monkeypatch.setattr(import_batches, "LARGE_BYTES", 1)
    strange = {
        "plain": "the harbour-master's log, 1987: a/b/c",
        "del": "before\x7fafter the quay",
        "umlaut": "Überholverbot für Größe",
        "long": "x" * 50 + "needle" + "y" * 50,
        "words": " ".join(f"w{n}" for n in range(400)),
        "same": "again " * 300,
        "han": "海上の港 mixed with words",
    }
    write_export(tmp_path / "export", "conversations.json", *(talk(id, text) for id, text in strange.items()))
    await import_paths(here, [tmp_path / "export"])
    parts = {
        "plain": ["bour-mas", "r's lo", "1987: a/", "/b/"],
        "del": ["\x7f", "re\x7faf", "fter the q", "after"],
        "umlaut": ["berholver", "ür gr", "GRÖSSE", "ü"],
        "long": ["xneedley", "needle"],
        "words": ["w39 w40", "w399", "98 w9"],
        "same": ["again again", "gain"],
        "han": ["上の", "港 mi"],
    }
    for id, some in parts.items():
        for part in some:
            found = await here.read(partial(archive.search, part=part, scope=Scope(("archive",)), limit=50))
            assert f"chatgpt:{id}" in {one.conversation for one in found}, part
    assert await here.read(lambda read: archive.search(read, "afterthe", Scope(("archive",)), 50)) == []


async def test_other_changes_do_not_wait_for_a_long_one(on_postgres: Engine, tmp_path: Path):
    settings = Settings(home=tmp_path, database_url=on_postgres.fresh())
    here = Workspace("default", open_engine(settings, "default"), settings)
    go_on = threading.Event()
    try:
        long = asyncio.create_task(here.change_beside(lambda change: go_on.wait(PATIENCE)))
        for _ in range(3):
            assert await asyncio.wait_for(here.change(lambda change: "done"), PATIENCE / 2) == "done"
        assert not long.done()
        go_on.set()
        assert await long is True
    finally:
        go_on.set()
        here.close()


async def test_batches_are_smaller_where_posts_wait_or_two_are_in_memory(
    here: Workspace, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_export(tmp_path / "export", "conversations.json", talk("c", "text"))
    asked: list[int] = []
    real = import_batches.read_batches

    def read_batches(request: import_batches.ImportRequest, *, is_large: bool) -> Any:
        asked.append(request.messages_at_once)
        return real(request, is_large=is_large)

    monkeypatch.setattr(import_batches, "read_batches", read_batches)
    await import_paths(here, [tmp_path / "export"])
    await import_paths(here, [tmp_path / "export"], is_beside_server=True)
    assert asked == ([2_000, 500] if engine.name == "sqlite" else [1_000, 1_000])


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many conversations each transaction of an import wrote."""
    sizes: list[int] = []
    real = archive.put_all

    def put_all(change: Change, batch: list[archive.PreparedConversation], **more: bool) -> list[archive.Outcome]:
        sizes.append(len(batch))
        return real(change, batch, **more)

    monkeypatch.setattr(archive, "put_all", put_all)
    return sizes


async def import_talks(here: Workspace, folder: Path, progress: Callable[[Summary], None]) -> None:
    """Import 300 conversations of one message each, in batches of a hundred."""
    write_export(folder, "conversations.json", *(talk(f"c{n:03}", f"text{n}") for n in range(300)))
    summary = await import_paths(here, [folder], are_uploads=True, progress=progress)
    assert [item.id for item in summary.items] == [f"chatgpt:c{n:03}" for n in range(300)]
    assert (summary.new, summary.messages) == (300, 300)


async def test_an_import_alone_writes_whole_batches(
    here: Workspace, tmp_path: Path, written: list[int], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(import_batches, "MESSAGES_AT_ONCE_BESIDE_POSTS", 100)
    bus = Bus(here)
    await bus.post(await bus.thread(), "before the import")
    await import_talks(here, tmp_path / "export", lambda so_far: None)
    assert written == [100, 100, 100]


@pytest.mark.parametrize("seconds, last", [(60.0, 20), (0.0, 100)])
async def test_an_import_gives_way_for_a_while_to_somebody_who_writes(
    here: Workspace, tmp_path: Path, written: list[int], monkeypatch: pytest.MonkeyPatch, seconds: float, last: int
):
    monkeypatch.setattr(import_files, "GIVING_WAY_SECONDS", seconds)
    monkeypatch.setattr(import_batches, "MESSAGES_AT_ONCE_BESIDE_POSTS", 100)
    bus = Bus(here)
    thread, posts = await bus.thread(), list[asyncio.Task[Any]]()

    real = import_files.GivingWay._is_needed

    async def is_needed(giving: import_files.GivingWay) -> bool:
        await asyncio.gather(*posts)  # what was posted is committed before the import looks
        return await real(giving)

    monkeypatch.setattr(import_files.GivingWay, "_is_needed", is_needed)

    def post_once(so_far: Summary) -> None:
        if not posts:
            posts.append(asyncio.create_task(bus.post(thread, "during the import")))

    await import_talks(here, tmp_path / "export", post_once)
    await posts[0]
    assert written[0] == 100
    assert written[-1] == last
    assert sum(written) == 300


@given(st.lists(st.integers(0, 50), max_size=60), st.integers(0, 4))
async def test_every_item_is_written_once_and_in_order(sizes: list[int], posts_at: int):
    """Whatever the sizes of the items are, and whenever somebody writes."""
    events = 0

    class Here:
        async def last_event_id(self) -> int:
            return events

    parts: list[list[int]] = []

    async def write(some: Sequence[int]) -> list[archive.Outcome]:
        nonlocal events
        parts.append(list(some))
        events += len(parts) >= posts_at
        return ["new"] * len(some)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_files, "PAUSE_TIMES", 0.0)
        giving = import_files.GivingWay(cast(Workspace, Here()))
        for _ in range(3):
            parts.clear()
            outcomes = await giving.write(sizes, lambda size: size, write)
            assert [one for part in parts for one in part] == sizes
            assert len(outcomes) == len(sizes)
            # A part is as short as it can be, or everything that was left.
            assert all(sum(part[:-1]) < import_files.ITEMS_AT_ONCE for part in parts[:-1])
