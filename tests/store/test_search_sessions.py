"""What a session of searching remembers, and for how long."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from palaver.app import App
from palaver.model.search import SearchSession, SearchSessionKey
from palaver.settings import load
from palaver.store.search.search_sessions import (
    MOST_PAGED,
    MOST_SEEN,
    add_page,
    find,
    forget_all,
    forget_old,
    seen_before,
    store_page,
    store_query,
)
from palaver.store.workspaces import Workspace

ANN = SearchSessionKey("ann", "one")
NOTHING = frozenset[str]()


@pytest.fixture
async def here(database_url: str, tmp_path: Path) -> AsyncIterator[Workspace]:
    app = App(load({"home": tmp_path, "database_url": database_url, "session_ttl": 60.0}))
    yield await app.create_workspace("searching")
    await app.close()


async def show(here: Workspace, key: SearchSessionKey, *uris: str, query: str = "what?") -> None:
    await here.change(lambda change: store_page(change, key, "search", NOTHING, list(uris), query))


async def session_of(here: Workspace, key: SearchSessionKey) -> SearchSession | None:
    return await here.read(lambda read: find(read, key))


async def test_a_search_session_is_stored_and_belongs_to_its_owner(here: Workspace):
    await show(here, ANN, "notes://1", "notes://2")
    await show(here, ANN, "notes://3", query="")
    found = await session_of(here, ANN)
    assert found is not None
    assert list(found.seen) == ["notes://1", "notes://2", "notes://3"]
    assert found.query == "what?"
    assert await session_of(here, SearchSessionKey("bob", "one")) is None
    assert await session_of(here, SearchSessionKey("ann", "made up")) is None


async def test_a_query_alone_is_remembered_and_the_results_stay(here: Workspace):
    await show(here, ANN, "notes://1")
    await here.change(lambda change: store_query(change, ANN, "and then? " * 1000))
    found = await session_of(here, ANN)
    assert found is not None
    assert found.query.startswith("and then? ")
    assert len(found.query) == 1000
    assert list(found.seen) == ["notes://1"]


async def test_an_expired_search_session_starts_again_and_is_deleted(database_url: str, tmp_path: Path):
    app = App(load({"home": tmp_path, "database_url": database_url, "session_ttl": 0.000001}))
    here = await app.create_workspace("expired")
    await show(here, ANN, "notes://1")
    assert await session_of(here, ANN) is None
    await show(here, ANN, "notes://2")
    await here.change(forget_old)
    await app.close()
    app = App(load({"home": tmp_path, "database_url": database_url}))
    assert await session_of(await app.open("expired"), ANN) is None
    await app.close()


async def test_sessions_in_use_are_kept_and_a_purge_deletes_all(here: Workspace):
    await show(here, ANN, "notes://1")
    await here.change(forget_old)
    assert await session_of(here, ANN) is not None
    await here.change(forget_all)
    assert await session_of(here, ANN) is None


def test_the_list_of_shown_results_is_bounded_and_drops_the_oldest():
    session = SearchSession()
    for n in range(MOST_SEEN + 10):
        add_page(session, "search", NOTHING, [f"notes://{n}"])
    assert len(session.seen) == MOST_SEEN
    assert "notes://9" not in session.seen
    assert "notes://10" in session.seen
    add_page(session, "search", NOTHING, ["notes://10", "new"])  # seen again: it is young again
    assert "notes://10" in session.seen
    assert "notes://11" not in session.seen


def search(session: SearchSession, name: str, *shown: str, is_new: bool) -> frozenset[str]:
    before = seen_before(session, name, is_new=is_new)
    add_page(session, name, before, list(shown))
    return before


def test_paging_hides_only_results_shown_before_the_search_began():
    session = SearchSession(seen={"a": None})
    assert search(session, "first", "b", is_new=True) == {"a"}
    assert search(session, "first", "c", is_new=False) == {"a"}
    assert search(session, "second", is_new=True) == {"a", "b", "c"}
    assert search(session, "first", "d", is_new=False) == {"a"}  # it goes on where it was
    assert search(session, "second", is_new=False) == {"a", "b", "c"}
    assert search(session, "first", is_new=True) == {"a", "b", "c", "d"}
    assert search(SearchSession(), "any", is_new=False) == frozenset()


def test_only_the_latest_searches_are_paged_through():
    session = SearchSession()
    for n in range(MOST_PAGED + 1):
        search(session, str(n), str(n), is_new=True)
    assert search(session, "1", is_new=False) == {"0"}
    assert search(session, "0", is_new=False) == {str(n) for n in range(MOST_PAGED + 1)}
    assert len(session.paging) == MOST_PAGED
