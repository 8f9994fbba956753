"""Logging out closes what stands open with that login, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from tests.helpers import Listener, Server, Thread, listen, word
from tests.trust.people import Key, with_app

from palaver.store.admin.active_logins import ActiveLogins, LoginEnded


@contextmanager
def browser(server: Server, key: Key) -> Iterator[httpx.Client]:
    """Somebody who has logged in with this token."""
    with server.client() as client:
        client.headers["x-palaver-csrf"] = client.post("/api/session", json={"token": key.secret}).json()["csrf"]
        yield client


def ended(listener: Listener) -> bool:
    try:
        raise AssertionError(f"this was told: {listener.next()}")
    except httpx.RemoteProtocolError:
        return True  # broken off is ended too
    except AssertionError as problem:
        return "ended" in str(problem)


@pytest.mark.parametrize("how", ["here", "everywhere", "everywhere, at the terminal"])
def test_logging_out_closes_the_streams_of_that_login(guarded: Server, human: Key, how: str):
    key = Key(guarded, name=word("ann"))
    with browser(guarded, key) as one, browser(guarded, key) as other, guarded.client() as again:
        again.cookies, again.headers = one.cookies, one.headers
        with listen(one) as mine, listen(other) as others, listen(key.api) as bearers:
            if how == "here":
                assert again.delete("/api/session").json()["is_in"] is False
            elif how == "everywhere":
                assert again.delete("/api/session", params={"everywhere": "true"}).json()["is_in"] is False
            else:
                with_app(guarded, lambda app: app.access.log_out_everywhere(key.token.id))
            leaving, staying = ([mine], [others, bearers]) if how == "here" else ([mine, others], [bearers])
            assert all(ended(listener) for listener in leaving)
            thread = Thread(human.api)
            for listener in staying:
                assert listener.next().data["thread_id"] == thread.id
        assert one.get("/api/threads").status_code == 401
        assert other.get("/api/threads").status_code == (200 if how == "here" else 401)
        assert key.api.get("/api/threads").status_code == 200
    assert "Traceback" not in guarded.said()


async def test_whoever_ends_their_own_login_gets_the_answer_while_others_are_shown_out():
    """Another task may notice the end first: the periodic look of the server does."""
    present, told = ActiveLogins(), list[str]()

    async def somebody(name: str, *, ends_it: bool) -> None:
        try:
            with present.track("login"):
                if ends_it:
                    present.let_current_finish()
                await asyncio.sleep(0.05)
                told.append(f"{name} was answered")
        except LoginEnded:
            told.append(f"{name} was shown out")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(somebody("ann", ends_it=True))
        tasks.create_task(somebody("bob", ends_it=False))
        await asyncio.sleep(0)
        present.end("login")
    assert told == ["bob was shown out", "ann was answered"]
    assert present.keys == set()
