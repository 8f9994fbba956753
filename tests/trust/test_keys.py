"""Tokens: managed over REST by who looks after a workspace, and ended at once, with everything done in their name."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest
from tests.helpers import PATIENCE, Mcp, Server, Thread, environment, eventually, palaver_command, word
from tests.mcp_clients import Websocket
from tests.trust.people import Key
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

# Managing them


def test_an_admin_makes_lists_and_ends_tokens_of_their_own_workspace(guarded: Server, admin: Key):
    answer = admin.api.post("/api/tokens", json={"name": "bob", "scopes": ["read"]})
    assert answer.status_code == 201
    made = answer.json()
    secret, token = made["secret"], made["token"]
    assert secret.startswith("plv_")
    assert token | {"id": "", "created_at": ""} == {
        "id": "",
        "workspace": "default",
        "kind": "human",
        "name": "bob",
        "agent_id": None,
        "scopes": ["read"],
        "created_at": "",
        "expires_at": None,
        "last_used_at": None,
    }
    with guarded.client(headers={"authorization": f"Bearer {secret}"}) as bob:
        assert bob.get("/api/threads").status_code == 200
        assert bob.post("/api/threads", json={"topic": word()}).status_code == 403
        listed = admin.api.get("/api/tokens")
        assert secret not in listed.text
        (seen,) = [t for t in listed.json() if t["id"] == token["id"]]
        assert seen["last_used_at"] is not None
        ended = admin.api.delete(f"/api/tokens/{token['id']}")
        assert (ended.status_code, ended.json()) == (200, {"revoked": token["id"]})
        assert bob.get("/api/threads").status_code == 401
    assert admin.api.delete(f"/api/tokens/{token['id']}").status_code == 404


def test_a_token_for_an_agent_makes_the_agent(admin: Key):
    slug = word("robo")
    made = admin.api.post("/api/tokens", json={"name": slug, "kind": "agent"}).json()
    assert made["token"]["agent_id"] == admin.api.get(f"/api/agents/{slug}").json()["agent_id"]


@pytest.mark.parametrize(
    "body, status",
    [
        ({}, 422),
        ({"name": " "}, 422),
        ({"name": "a\nb"}, 422),
        ({"name": "a", "scopes": ["everything"]}, 422),
        ({"name": "a", "scopes": []}, 422),
        ({"name": "a", "kind": "robot"}, 422),
        ({"name": "a", "expires_at": "soon"}, 422),
        ({"name": "a", "expires_at": "2001-01-01"}, 400),
    ],
)
def test_a_token_that_makes_no_sense_is_not_made(admin: Key, body: dict[str, Any], status: int):
    before = admin.api.get("/api/tokens").json()
    assert admin.api.post("/api/tokens", json=body).status_code == status
    assert admin.api.get("/api/tokens").json() == before


def test_who_is_no_admin_manages_nothing(human: Key, guarded: Server):
    agent = Key(guarded, kind="agent", name=word("robo"))
    for who in (human, agent):
        for method, path in [("GET", "/api/tokens"), ("POST", "/api/tokens"), ("GET", "/api/audit")]:
            asked = who.api.request(method, path, json={"name": "x"} if method == "POST" else None)
            assert (path, asked.status_code) == (path, 403)
        assert who.api.delete(f"/api/tokens/{human.token.id}").status_code == 403


def test_an_admin_reaches_no_other_workspaces_tokens(admin: Key, human: Key, stranger: Key):
    theirs = stranger.api.get("/api/tokens").text
    assert human.token.id not in theirs
    assert "default" not in theirs
    absent = stranger.api.delete("/api/tokens/no-such-1")
    foreign = stranger.api.delete(f"/api/tokens/{human.token.id}")
    assert absent.status_code == foreign.status_code == 404
    assert foreign.json()["detail"].replace(human.token.id, "no-such-1") == absent.json()["detail"]
    assert human.api.get("/api/threads").status_code == 200
    for workspace in ("default", "no-such"):
        refused = stranger.api.post("/api/tokens", json={"name": "x", "workspace": workspace})
        assert (refused.status_code, refused.json()) == (404, {"detail": f"Workspace '{workspace}' not found."})
    assert stranger.api.get("/api/workspaces").json() == ["elsewhere"]
    assert admin.api.get("/api/workspaces").json() == ["default"]


def test_nobody_makes_or_names_workspaces_through_a_door(admin: Key, stranger: Key):
    """The default workspace is one like any other: its admin is not the others' too."""
    assert admin.api.post("/api/workspaces", json={"name": word("w")}).status_code == 405
    refused = admin.api.post("/api/tokens", json={"name": "x", "workspace": "elsewhere"})
    assert refused.status_code == 404
    assert stranger.token.id not in admin.api.get("/api/tokens").text
    assert admin.api.delete(f"/api/tokens/{stranger.token.id}").status_code == 404


def test_an_agent_manages_no_tokens_whatever_its_scopes(guarded: Server):
    agent = Key(guarded, kind="agent", name=word("robo"), scopes=("read", "write", "admin"))
    assert agent.api.get("/api/tokens").status_code == 403
    assert agent.api.post("/api/tokens", json={"name": "x"}).status_code == 403
    assert agent.api.delete(f"/api/tokens/{agent.token.id}").status_code == 403


# Ending them


@contextmanager
def _stream(key: Key, path: str, **more: Any) -> Iterator[Callable[[], None]]:
    """An open stream; what is yielded waits for its end."""
    with key.api.stream("GET", path, timeout=PATIENCE, **more) as response:
        assert response.status_code == 200, response.read()
        lines = response.iter_lines()

        def ended() -> None:
            try:
                for _ in lines:
                    pass
            except httpx.ReadTimeout:
                raise AssertionError("the stream went on") from None
            except httpx.RemoteProtocolError:
                pass  # broken off is ended too

        yield ended


@contextmanager
def _events(key: Key) -> Iterator[Callable[[], None]]:
    with _stream(key, "/events") as ended:
        yield ended


@contextmanager
def _thread_events(key: Key) -> Iterator[Callable[[], None]]:
    with _stream(key, f"{Thread(key.api).path}/events") as ended:
        yield ended


@contextmanager
def _mcp_stream(key: Key) -> Iterator[Callable[[], None]]:
    with _stream(key, "/mcp", headers=key.mcp.headers) as ended:
        yield ended


@contextmanager
def _legacy_sse(key: Key) -> Iterator[Callable[[], None]]:
    with _stream(key, "/sse") as ended:
        yield ended


@contextmanager
def _websocket(key: Key) -> Iterator[Callable[[], None]]:
    with connect(f"ws://127.0.0.1:{key.server.port}/mcp/ws", additional_headers=key.headers) as connection:
        client = Websocket(connection)
        client.ask("tools/list")

        def ended() -> None:
            with pytest.raises(ConnectionClosed) as closed:
                connection.recv(PATIENCE)
            assert closed.value.rcvd
            assert closed.value.rcvd.code == 4401

        yield ended


@contextmanager
def _waiting(key: Key, headers: dict[str, str], **meta: Any) -> Iterator[Callable[[], None]]:
    arguments = {"thread_id": Thread(key.api).id, "timeout_ms": 60_000}
    params = {"name": "msg_wait", "arguments": arguments, **meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params})
    said: list[Any] = []

    def wait() -> None:
        try:
            said.append(key.api.post("/mcp", content=body, headers=headers, timeout=PATIENCE).text)
        except httpx.HTTPError as problem:
            said.append(problem)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()

    def ended() -> None:
        waiting.join(PATIENCE)
        assert not waiting.is_alive(), "the call went on waiting"
        assert not isinstance(said[0], httpx.TimeoutException)
        assert "messages" not in str(said[0])

    yield ended


@contextmanager
def _waiting_in_a_session(key: Key) -> Iterator[Callable[[], None]]:
    with _waiting(key, key.mcp.headers) as ended:
        yield ended


@contextmanager
def _waiting_without_a_session(key: Key) -> Iterator[Callable[[], None]]:
    """As of 2026-07-28: one request, and nothing before it."""
    version = "2026-07-28"
    headers = {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": version,
        "mcp-method": "tools/call",
        "mcp-name": "msg_wait",
    }
    about = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    with _waiting(key, headers, _meta=about) as ended:
        yield ended


STANDING = [
    _events,
    _thread_events,
    _mcp_stream,
    _legacy_sse,
    _websocket,
    _waiting_in_a_session,
    _waiting_without_a_session,
]


SPANS = [timedelta(seconds=seconds) for seconds in (3, 12, 48)]


def _opened(server: Server, opened: Any, stack: ExitStack, *, runs_out: bool) -> tuple[Key, Any]:
    """A key, and something that stands open with it. On a busy machine a short key may run out before that."""
    for span in SPANS if runs_out else (None,):
        key = Key(server, name=word("temp"), expires_in=span)
        try:
            return key, stack.enter_context(opened(key))
        except Exception:
            if span in (None, SPANS[-1]) or key.api.get("/api/threads").status_code != 401:
                raise
    raise AssertionError


@pytest.mark.examples(9)
@pytest.mark.on_postgres(opened=[_events, _waiting_in_a_session])
@pytest.mark.parametrize("opened", STANDING)
@pytest.mark.parametrize("how", ["over REST", "at the terminal", "by running out"])
def test_when_a_token_ends_everything_that_stands_open_with_it_closes(
    guarded: Server, admin: Key, opened: Any, how: str
):
    with ExitStack() as stack:
        key, ended = _opened(guarded, opened, stack, runs_out=how == "by running out")
        if how == "over REST":
            assert admin.api.delete(f"/api/tokens/{key.token.id}").status_code == 200
        elif how == "at the terminal":
            key.revoke()
        ended()
    assert key.api.get("/api/threads").status_code == 401
    assert admin.api.get("/api/threads").status_code == 200
    assert "Traceback" not in guarded.said()


def test_others_are_not_disturbed_when_a_token_ends(guarded: Server, admin: Key):
    staying, leaving = Key(guarded, name=word("stays")), Key(guarded, name=word("leaves"))
    thread = Thread(admin.api)
    with staying.api.stream("GET", f"{thread.path}/events", timeout=PATIENCE) as response:
        lines = response.iter_lines()
        assert next(lines) == ": connected"
        assert admin.api.delete(f"/api/tokens/{leaving.token.id}").status_code == 200
        unique = word()
        thread.post(unique, author=None)
        assert any(unique in line for line in lines)


def test_who_ends_their_own_token_is_answered(guarded: Server):
    key = Key(guarded, name=word("own"), scopes=("read", "write", "admin"))
    assert key.api.delete(f"/api/tokens/{key.token.id}").status_code == 200
    assert key.api.get("/api/threads").status_code == 401


def test_an_agent_on_stdio_is_shown_out_too(guarded: Server, admin: Key):
    key = Key(guarded, kind="agent", name=word("stdio"))
    env = {k: v for k, v in guarded.env.items() if k.startswith("PALAVER_")}
    process = subprocess.Popen(
        palaver_command("mcp"),
        env=environment(guarded.home, **env, PALAVER_TOKEN=key.secret),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    hello = {"protocolVersion": Mcp.version, "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    process.stdin.write(json.dumps(asked).encode() + b"\n")
    process.stdin.flush()
    assert b"serverInfo" in process.stdout.readline()
    key.revoke()
    try:
        assert process.wait(PATIENCE) == 4
        assert b"revoked" in process.stderr.read()
    finally:
        process.kill()


def test_revoked_while_many_requests_are_under_way_every_later_one_is_refused(guarded: Server, admin: Key):
    key = Key(guarded, name=word("busy"))
    statuses: list[list[int]] = [[], [], []]
    enough = threading.Event()

    def ask_on(mine: list[int]) -> None:
        with guarded.client(headers=key.headers) as client:
            while not enough.is_set():
                mine.append(client.get("/api/status").status_code)

    asking = [threading.Thread(target=ask_on, args=(mine,), daemon=True) for mine in statuses]
    for thread in asking:
        thread.start()
    eventually(lambda: all(len(mine) > 5 for mine in statuses))
    assert admin.api.delete(f"/api/tokens/{key.token.id}").status_code == 200
    before = [len(mine) for mine in statuses]
    eventually(lambda: all(len(mine) > known + 10 for mine, known in zip(statuses, before, strict=True)))
    enough.set()
    for thread in asking:
        thread.join(PATIENCE)
    for mine, known in zip(statuses, before, strict=True):
        assert set(mine[:known]) <= {200, 401}
        assert set(mine[known + 1 :]) == {401}  # one may have been under way
