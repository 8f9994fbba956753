"""The audit log: it holds what somebody may have to answer for, no word of what was said, and it cannot be rewritten."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from tests.conftest import Engine
from tests.helpers import Server, Thread, eventually, word
from tests.trust.people import Key, with_app

from palaver.app import App
from palaver.operations.admin.repair import repair
from palaver.settings import Settings


def deeds(server: Server, **narrow: Any) -> list[tuple[str, str, str]]:
    found = with_app(server, lambda app: app.audit_log(limit=1000, **narrow))
    return [(entry.kind, entry.who, entry.what) for entry in found]


def test_what_counts_is_written_down_with_who_did_it(guarded: Server, admin: Key, human: Key):
    thread, who = Thread(human.api), f"human ann (token {human.token.id})"
    secret = word("spoken")
    message = thread.post(secret, author=None)
    human.api.get(f"{thread.path}/export")
    human.api.delete(f"/api/messages/{message['id']}")
    human.api.delete("/api/tokens/x")
    guarded.client().get("/api/threads", headers={"authorization": "Bearer plv_wrong"})
    human.api.delete(thread.path)
    made = admin.api.post("/api/tokens", json={"name": word()}).json()["token"]["id"]
    admin.api.delete(f"/api/tokens/{made}")
    root = f"human root (token {admin.token.id})"
    newest = deeds(guarded)[:7]
    assert newest == [
        ("token", root, "revoke_token"),
        ("token", root, "create_token"),
        ("deletion", who, "delete_thread"),
        ("denied", "unknown caller at 127.0.0.1", "GET /api/threads"),
        ("denied", who, "revoke_token"),
        ("deletion", who, "delete_message"),
        ("export", who, "export_thread"),
    ]
    everything = str(with_app(guarded, lambda app: app.audit_log(limit=1000)))
    assert thread.id in everything
    assert message["id"] in everything
    assert secret not in everything
    assert "plv_" not in everything


def test_a_workspaces_admin_reads_its_own_part_and_nothing_of_others(guarded: Server, admin: Key, stranger: Key):
    thread = Thread(admin.api)
    admin.api.delete(thread.path)
    own = admin.api.get("/api/audit", params={"kind": "deletion"}).json()
    assert own[0]["facts"] == {"thread_id": thread.id}
    assert set(own[0]) == {"at", "kind", "who", "what", "facts"}
    theirs = stranger.api.get("/api/audit").text
    assert "create_token" in theirs
    assert thread.id not in theirs
    assert admin.token.id not in theirs


def test_logging_in_and_out_is_written_down(guarded: Server):
    key = Key(guarded, name=word("cora"))
    with guarded.client() as browser:
        csrf = browser.post("/api/session", json={"token": key.secret}).json()["csrf"]
        browser.delete("/api/session", headers={"x-palaver-csrf": csrf})
    who = f"human {key.token.name} (token {key.token.id})"
    assert deeds(guarded)[:2] == [("logout", who, "log_out"), ("login", who, "log_in")]


def test_who_knocks_all_the_time_does_not_fill_the_log(guarded: Server):
    with guarded.client() as nobody:
        before = len(deeds(guarded))
        for _ in range(50):
            assert nobody.get("/api/agents").status_code == 401
    assert len(deeds(guarded)) <= before + 1


# The chain


@pytest.fixture
async def app(engine: Engine, tmp_path: Path) -> AsyncIterator[App]:
    app = App(Settings(home=tmp_path, database_url=engine.fresh()))
    await app.open()
    for name in ("ann", "bob", "eve"):
        await app.access.create_token("default", "human", name, ["read"])
    yield app
    await app.close()


def run_raw(app: App, *statements: str) -> None:
    """Past everything: as somebody who has got hold of the database itself."""
    url = app.settings.database_url
    if url.startswith("postgresql"):
        with psycopg.connect(url, options="-c search_path=palaver") as raw:
            for statement in statements:
                raw.execute(statement.encode())
        return
    connection = apsw.Connection(str(Path(url.removeprefix("sqlite:///")) / "house.db"))
    try:
        for statement in statements:
            connection.execute(statement)
    finally:
        connection.close()


def without_triggers(app: App) -> None:
    if app.settings.database_url.startswith("postgresql"):
        run_raw(app, "DROP TRIGGER audit_is_not_changed ON audit")
    else:
        run_raw(app, "DROP TRIGGER audit_is_not_changed", "DROP TRIGGER audit_is_not_deleted")


async def test_a_whole_log_is_whole(app: App):
    assert await app.check() == []


@pytest.mark.parametrize(
    "tampering, says",
    [
        ("UPDATE audit SET who = 'somebody else' WHERE id = 2", "entry 2 of the audit log was changed"),
        ("UPDATE audit SET workspace = 'w' WHERE id = 3", "entry 3 of the audit log was changed"),
        ("DELETE FROM audit WHERE id = 2", "entries 2 to 2 of the audit log are missing"),
        ("DELETE FROM audit WHERE id = 3", "ends at entry 2, but 3 were written"),
        ("DELETE FROM audit", "ends at entry 0, but 3 were written"),
    ],
)
async def test_tampering_is_refused_and_found(app: App, tampering: str, says: str):
    with pytest.raises((apsw.Error, psycopg.Error), match="only grows"):
        run_raw(app, tampering)
    assert await app.check() == []
    without_triggers(app)
    run_raw(app, tampering)
    (problem,) = await app.check()
    assert says in problem


async def test_a_protection_that_was_removed_is_reported_and_created_again(app: App):
    is_postgres = app.settings.database_url.startswith("postgresql")
    disable = (
        "ALTER TABLE audit DISABLE TRIGGER audit_is_not_changed" if is_postgres else "DROP TRIGGER audit_is_not_deleted"
    )
    for remove in (partial(without_triggers, app), partial(run_raw, app, disable)):
        remove()
        again = App(app.settings)
        try:
            assert await again.check() == []
            assert "the protection of the audit log against changes was missing" in str(await again.losses())
        finally:
            await again.close()
        with pytest.raises((apsw.Error, psycopg.Error), match="only grows"):
            run_raw(app, "DELETE FROM audit")
        assert [one async for one in repair(app.settings)][-1].says.startswith("the protection of the audit log")
        assert await app.losses() == []


async def test_cutting_the_end_and_setting_the_head_back_is_found(app: App):
    without_triggers(app)
    run_raw(app, "DELETE FROM audit WHERE id = 3", "UPDATE audit_head SET id = 2")
    (problem,) = await app.check()
    assert "is not the one that was written" in problem


async def test_entries_written_at_once_are_one_chain(app: App, engine: Engine):
    import asyncio

    other = App(app.settings)  # as another process would
    try:
        await asyncio.gather(*(h.trail.note("login", f"n{n}", "x") for n in range(30) for h in (app, other)))
    finally:
        await other.close()
    assert await app.check() == []
    assert len(await app.audit_log(limit=1000)) == 63


def test_no_place_of_the_log_is_taken_by_what_was_undone(guarded: Server, admin: Key):
    """A token that could not be made leaves no gap behind."""
    before = with_app(guarded, lambda app: app.audit_log(limit=1))[0].id
    assert admin.api.delete("/api/tokens/never-was").status_code == 404
    after: Callable[[], bool] = lambda: with_app(guarded, lambda app: app.check()) == []  # noqa: E731
    assert eventually(after)
    assert with_app(guarded, lambda app: app.audit_log(limit=1))[0].id == before


def test_a_token_in_an_address_is_in_no_log(guarded: Server):
    secret = f"plv_{'x1' * 19}"
    assert guarded.client().get(f"/{secret}/api").status_code == 401
    assert ("denied", "unknown caller at 127.0.0.1", "GET /…/api") in deeds(guarded)
    assert secret not in guarded.said()


def test_a_failed_login_is_logged_with_its_address_and_without_the_token(guarded: Server):
    secret = f"plv_{'y2' * 19}"
    assert guarded.client().post("/api/session", json={"token": secret}).status_code == 401
    assert ("denied", "unknown caller at 127.0.0.1", "POST /api/session") in deeds(guarded)
    assert "unknown caller at 127.0.0.1 could not log in" in guarded.said()
    assert secret not in guarded.said()
