"""Who may come in, what they may do, and as whom."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.doors.test_cli import Terminal
from tests.helpers import (
    PATIENCE,
    Mcp,
    Server,
    Thread,
    free_port,
    listen,
    start_server,
    started,
    started_with,
    word,
)
from tests.mcp_clients import Websocket
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from palaver.app import App
from palaver.operations import OPERATIONS
from palaver.settings import Settings

HIDDEN = "[human-only content hidden]"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server where everybody needs a token."""
    with start_server(tmp_path_factory.mktemp("guarded"), PALAVER_AUTH="token") as server:
        yield server


def with_app(home: Path, work: Callable[[App], Any]) -> Any:
    """Run work on the data of a running server, as an administrator does at the terminal."""

    async def go() -> Any:
        app = App(Settings(home=home))
        try:
            return await work(app)
        finally:
            await app.close()

    return asyncio.run(go())


class Key:
    """A token, and a client that carries it."""

    def __init__(self, server: Server, workspace: str, kind: Any, name: str, scopes: list[Any], **more: Any) -> None:
        self.server = server
        self.token, self.secret = with_app(
            server.home, lambda app: app.access.create_token(workspace, kind, name, scopes, **more)
        )
        self.api = server.client(headers={"authorization": f"Bearer {self.secret}"})

    @property
    def mcp(self) -> Mcp:
        return Mcp(self.api)

    def revoke(self) -> None:
        with_app(self.server.home, lambda app: app.access.revoke_token(self.token.id))


@pytest.fixture(scope="module")
def human(guarded: Server) -> Key:
    return Key(guarded, "default", "human", "ann", ["read", "write"])


@pytest.fixture(scope="module")
def admin(guarded: Server) -> Key:
    return Key(guarded, "default", "human", "root", ["read", "write", "admin"])


@pytest.fixture(scope="module")
def agent(guarded: Server) -> Key:
    return Key(guarded, "default", "agent", "robo", ["read", "write"])


@pytest.fixture(scope="module")
def other_agent(guarded: Server) -> Key:
    return Key(guarded, "default", "agent", "cyber", ["read", "write"])


@pytest.fixture(scope="module")
def reader(guarded: Server) -> Key:
    return Key(guarded, "default", "human", "reader", ["read"])


@pytest.fixture(scope="module")
def stranger(guarded: Server) -> Key:
    """Somebody in another workspace, who may do everything there."""
    with_app(guarded.home, lambda app: app.create_workspace("elsewhere"))
    return Key(guarded, "elsewhere", "human", "eve", ["read", "write", "admin"])


ROUTES: list[tuple[str, str]] = sorted(
    {(route.method, route.path) for operation in OPERATIONS for route in operation.routes}
)
OTHERS = [
    ("GET", "/events"),
    ("GET", "/api/threads/x/events"),
    ("GET", "/metrics"),
    ("POST", "/api/upload/image"),
    ("GET", "/uploads/x.png"),
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("DELETE", "/mcp"),
    ("GET", "/sse"),
    ("POST", "/messages/"),
]

BAD_TOKENS = [
    None,
    "Bearer plv_0000000000000000000000000000000000000",
    "Bearer nonsense",
    "Bearer",
    "Basic YTpi",
    "plv_x",
    "",
]


# Coming in


@pytest.mark.parametrize("method, path", ROUTES + OTHERS)
def test_nobody_comes_in_without_a_token(guarded: Server, method: str, path: str):
    with guarded.client() as api:
        response = api.request(method, re.sub(r"[{}]|:path", "", path))
    assert response.status_code == 401, response.text
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert "token" in response.text


@pytest.mark.parametrize("header", BAD_TOKENS)
def test_nobody_comes_in_with_a_bad_token(guarded: Server, header: str | None):
    headers = {} if header is None else {"authorization": header}
    with guarded.client(headers=headers) as api:
        for response in (api.get("/api/threads"), api.post("/mcp", json={}), api.get("/events")):
            assert response.status_code == 401
            assert response.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("token", ["", "plv_0000000000000000000000000000000000000"])
def test_the_command_line_says_to_set_the_token(guarded: Server, tmp_path: Path, token: str):
    for more in ({"PALAVER_URL": guarded.url}, {"PALAVER_AUTH": "token"}):
        if token or "PALAVER_URL" in more:  # on the data of this machine a token is not needed
            result = Terminal(tmp_path).run("thread", "list", PALAVER_TOKEN=token, **more)
            assert result.exit_code == 4
            assert "Set PALAVER_TOKEN" in result.stderr
            assert "Authorization" not in result.stderr
    result = Terminal(tmp_path).run("mcp", PALAVER_TOKEN=token, PALAVER_AUTH="token")
    assert result.exit_code == 4
    assert "Set PALAVER_TOKEN" in result.stderr


@pytest.mark.parametrize("place", ["?token={}", "?access_token={}", "?api_key={}"])
def test_a_token_in_the_address_does_not_count(guarded: Server, human: Key, place: str):
    with guarded.client() as api:
        assert api.get(f"/api/threads{place.format(human.secret)}").status_code == 401


def test_whether_the_server_lives_is_no_secret(guarded: Server):
    with guarded.client() as api:
        for path in ("/", "/healthz", "/readyz", "/docs", "/openapi.json"):
            assert api.get(path).status_code == 200


def test_a_good_token_comes_in_by_every_door(guarded: Server, human: Key, agent: Key):
    for key in (human, agent):
        assert key.api.get("/api/threads").status_code == 200
        assert key.mcp.call("msg_search", query=word())["total"] == 0
        with listen(key.api) as listener:
            assert listener.response.status_code == 200
        headers = {"authorization": f"Bearer {key.secret}"}
        with connect(f"ws://127.0.0.1:{guarded.port}/mcp/ws", additional_headers=headers) as socket:
            assert Websocket(socket).call("msg_search", query=word())["total"] == 0


@pytest.mark.parametrize("header", [h for h in BAD_TOKENS if h])
def test_a_websocket_without_a_good_token_is_refused(guarded: Server, header: str):
    for headers in ({}, {"authorization": header}):
        with (
            pytest.raises(InvalidStatus) as refused,
            connect(f"ws://127.0.0.1:{guarded.port}/mcp/ws", additional_headers=headers),
        ):
            pass
        assert refused.value.response.status_code in (401, 403)


def test_a_revoked_token_stops_at_once(guarded: Server):
    key = Key(guarded, "default", "human", "gone", ["read", "write"])
    mcp = key.mcp
    assert key.api.get("/api/threads").status_code == 200
    key.revoke()
    assert key.api.get("/api/threads").status_code == 401
    assert mcp.send({"id": 3, "method": "tools/list", "params": {}}).status_code == 401


def test_a_token_that_has_run_out_is_refused(guarded: Server):
    key = Key(guarded, "default", "human", "late", ["read"], expires_in=timedelta(seconds=-1))
    assert key.api.get("/api/threads").status_code == 401


def test_only_a_hash_of_the_token_is_stored(guarded: Server, human: Key):
    found = [path for path in guarded.home.rglob("*") if path.is_file() and human.secret.encode() in path.read_bytes()]
    assert found == []


def test_a_session_belongs_to_the_token_that_opened_it(human: Key, agent: Key):
    session = agent.mcp
    response = human.api.post(
        "/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
        headers={k: v for k, v in session.headers.items() if k != "authorization"},
    )
    assert response.status_code in (401, 403, 404)


def asked_with(key: Key, method: str, session_id: str) -> tuple[int, str]:
    """The whole answer to a request with a session id."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "bus_get_config", "arguments": {}}}
    headers = {"accept": "application/json, text/event-stream", "mcp-session-id": session_id}
    answer = key.api.request(method, "/mcp", json=asked if method == "POST" else None, headers=headers)
    return answer.status_code, answer.text.replace(session_id, "ID")


def test_a_session_id_of_another_workspace_is_answered_like_an_unknown_one(human: Key, stranger: Key):
    def theirs(*, ended: bool) -> str:
        session = stranger.mcp
        if ended:
            assert stranger.api.request("DELETE", "/mcp", headers=session.headers).status_code == 200
        return str(session.headers["mcp-session-id"])

    for methods in (["POST", "POST", "DELETE", "POST"], ["DELETE", "DELETE", "POST"]):
        answers = [
            [asked_with(human, method, session_id) for method in methods]
            for session_id in (uuid4().hex, theirs(ended=False), theirs(ended=True))
        ]
        assert answers[0] == answers[1] == answers[2]
        assert {status for status, _ in answers[0]} == {200, 404}


def test_what_others_do_with_a_session_id_does_not_touch_the_session_of_that_id(human: Key, stranger: Key):
    session = stranger.mcp
    for method in ("POST", "DELETE", "POST", "DELETE"):
        asked_with(human, method, session.headers["mcp-session-id"])
        assert session.call("bus_get_config")


def test_a_session_of_the_old_transport_is_answered_to_others_like_an_unknown_one(human: Key, stranger: Key):
    with stranger.api.stream("GET", "/sse") as stream:
        lines = stream.iter_lines()
        assert next(lines) == "event: endpoint"
        address = next(lines).removeprefix("data: ")
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        theirs = human.api.post(address, json=body)
        unknown = human.api.post(f"/messages/?session_id={uuid4().hex}", json=body)
        assert (theirs.status_code, theirs.text) == (unknown.status_code, unknown.text) == (404, unknown.text)
        assert stranger.api.post(address, json=body).status_code == 202


# Scopes


def _filled(path: str, thread: Thread, message_id: str) -> str:
    path = path.replace("{thread_id}", thread.id).replace("{message_id}", message_id)
    return path.replace("{reaction:any}", "agree").replace("{agent_id}", "robo").replace("{template_id}", "brainstorm")


KEPT = ("note_id", "media_id", "conversation_id", "character_id", "prompt_id")


def test_a_token_for_reading_reads_and_does_not_write(human: Key, reader: Key):
    thread = Thread(human.api)
    message = thread.post("hello", author=None)
    for operation in OPERATIONS:
        for route in operation.routes:
            asked = reader.api.build_request(
                route.method, _filled(route.path, thread, message["id"]), params={"q": "x", "timeout_ms": 0}
            )
            if route.method in ("POST", "PUT"):
                body = {"topic": "t", "content": "x", "reaction": "agree", "thread_name": "t", "id": "t", "name": "t"}
                asked = reader.api.build_request(route.method, asked.url, json=body)
            response = reader.api.send(asked)
            if operation.scope != "read":
                assert (route.path, response.status_code) == (route.path, 403)
                assert "scope" in response.json()[route.complaint[0]]
            else:  # where something must be there to be read, it is not
                assert (route.path, response.status_code // 100) in [(route.path, 2), (route.path, 4)]
                assert (route.path, response.status_code) not in [(route.path, 401), (route.path, 403)]
    assert reader.api.post("/api/upload/image", files={"file": ("a.png", b"\x89PNG\r\n\x1a\n")}).status_code == 403
    assert thread.messages() == [message]


def test_a_token_for_reading_does_not_write_as_a_tool_either(human: Key, reader: Key):
    thread = Thread(human.api)
    answer = reader.mcp.refused("msg_post", thread_id=thread.id, content="x")
    assert answer["error"] == "FORBIDDEN"
    assert reader.mcp.call("msg_list", thread_id=thread.id)["messages"] == []


# Workspaces


def test_another_workspaces_things_are_404_exactly_as_absent(human: Key, stranger: Key):
    thread = Thread(human.api)
    message = thread.post(f"secret {(unique := word())}", author=None)
    for operation in OPERATIONS:
        for route in operation.routes:
            if "{thread_id}" not in route.path and "{message_id}" not in route.path:
                continue
            body = {"content": "x", "reaction": "agree"} if route.method in ("POST", "PUT") else None

            def ask(thread_id: str, message_id: str, route: Any = route, body: Any = body) -> httpx.Response:
                path = route.path.replace("{thread_id}", thread_id).replace("{message_id}", message_id)
                return stranger.api.request(route.method, path.replace("{reaction:any}", "agree"), json=body)

            theirs, absent = ask(thread.id, message["id"]), ask("absent-thread", "absent-message")
            renamed = absent.text.replace("absent-thread", thread.id).replace("absent-message", message["id"])
            assert (route.path, theirs.status_code, theirs.text) == (route.path, absent.status_code, renamed)
            assert unique not in theirs.text
    for path in (f"{thread.path}/events", thread.path):
        assert stranger.api.get(path).status_code == 404
    assert thread.messages() == [message]


def test_a_search_finds_nothing_of_another_workspace(human: Key, stranger: Key):
    thread, unique = Thread(human.api), word()
    thread.post(unique, author=None)
    assert human.api.get("/api/search", params={"q": unique}).json()["total"] == 1
    for more in ({}, {"thread_id": thread.id}, {"workspace": "default"}, {"user_id": "ann"}):
        assert stranger.api.get("/api/search", params={"q": unique, **more}).json()["results"] == []
    assert stranger.mcp.call("msg_search", query=unique)["results"] == []
    assert thread.id not in stranger.api.get("/api/threads", params={"limit": 200}).text


def test_events_of_another_workspace_are_not_heard(human: Key, stranger: Key):
    own = Thread(stranger.api)
    with listen(stranger.api) as listener:
        Thread(human.api).post("not for you", author=None)
        message = own.post("for you", author=None)
        assert [t.data.get("id") for t in listener.until(lambda t: t.type == "msg.new")] == [message["id"]]


def test_the_same_topic_in_another_workspace_is_another_thread(human: Key, stranger: Key):
    topic = f"topic {word()}"
    assert Thread(human.api, topic).id != Thread(stranger.api, topic).id


def test_an_image_of_another_workspace_is_404(human: Key, stranger: Key):
    url = human.api.post("/api/upload/image", files={"file": ("a.png", b"\x89PNG\r\n\x1a\n")}).json()["url"]
    assert human.api.get(url).status_code == 200
    assert stranger.api.get(url).status_code == 404


def test_arguments_cannot_change_the_workspace(human: Key, stranger: Key):
    topic = f"topic {word()}"
    body = {"topic": topic, "workspace": "default", "user_id": "ann", "db_path": "x"}
    assert stranger.api.post("/api/threads", json=body, headers={"x-workspace": "default"}).status_code == 201
    assert human.api.get("/api/threads", params={"limit": 200}).text.count(topic) == 0


# The principal decides, not the door


def test_an_agents_token_over_rest_is_masked_like_mcp(human: Key, agent: Key):
    thread, secret = Thread(human.api), word("secret")
    with listen(agent.api, f"{thread.path}/events") as listener, listen(human.api, f"{thread.path}/events") as plain:
        message = thread.post(f"one {secret}", author=None, metadata={"visibility": "human_only", "note": secret})
        human.api.put(f"/api/messages/{message['id']}", json={"content": f"two {secret}"})
        told, seen = [listener.next(), listener.next()], [plain.next(), plain.next()]
    assert [t.data["content"] for t in told] == [HIDDEN, HIDDEN]
    assert [t.data["metadata"] for t in told] == [{"visibility": "human_only"}] * 2
    assert [t.data["content"] for t in seen] == [f"one {secret}", f"two {secret}"]
    paths = [
        f"{thread.path}/messages",
        f"{thread.path}/wait",
        f"{thread.path}/export",
        f"/api/messages/{message['id']}",
        f"/api/messages/{message['id']}/history",
    ]
    for path in paths:
        shown = agent.api.get(path)
        assert shown.status_code == 200
        assert HIDDEN in shown.text
        assert secret not in shown.text.replace(f'"query":"{secret}"', "")
        assert secret in human.api.get(path).text
    search = f"/api/search?q={secret}&thread_id={thread.id}"
    assert agent.api.get(search).json()["results"] == []
    assert len(human.api.get(search).json()["results"]) == 1
    conflict = {"content": "x", "expected_last_seq": 0}
    refused = agent.api.post(f"{thread.path}/messages", json=conflict)
    assert (refused.status_code, secret in refused.text) == (409, False)


def test_replayed_events_are_masked_for_agents_too(human: Key, agent: Key):
    thread, secret = Thread(human.api), word("secret")
    thread.post(secret, author=None, metadata={"audience": "human"}, mentions=[secret])
    with listen(agent.api, f"{thread.path}/events", after=0) as listener:
        told = listener.until(lambda t: t.type == "msg.new")
    assert secret not in str(told)


def test_a_humans_token_over_mcp_sees_everything(human: Key):
    thread, secret = Thread(human.api), word("secret")
    thread.post(secret, author=None, metadata={"visibility": "human_only"})
    assert human.mcp.call("msg_list", thread_id=thread.id)["messages"][0]["content"] == secret
    assert human.mcp.call("msg_search", query=secret)["results"][0]["snippet"] == f"<mark>{secret}</mark>"


# Nobody acts as somebody else


def test_nobody_posts_as_somebody_else(human: Key, agent: Key, other_agent: Key):
    thread = Thread(human.api)
    for key, name in ((agent, "cyber"), (agent, "ann"), (human, "robo"), (other_agent, agent.token.agent_id)):
        response = key.api.post(f"{thread.path}/messages", json={"author": name, "content": "it was me"})
        assert response.status_code == 403
        assert (
            key.mcp.refused("msg_post", thread_id=thread.id, author=name, content="it was me")["error"] == "FORBIDDEN"
        )
    assert thread.messages() == []


def test_everybody_posts_as_themselves(human: Key, agent: Key):
    thread = Thread(human.api)
    for author in (None, "robo", agent.token.agent_id):
        message = agent.mcp.call("msg_post", thread_id=thread.id, content="me", author=author)
        assert (message["author_id"], message["author_name"]) == (agent.token.agent_id, "robo")
    assert thread.post("me", author=None)["author"] == "ann"


def test_a_human_is_known_by_its_own_name_whatever_author_it_gives(human: Key):
    thread = Thread(human.api)
    message = thread.post("me", author="bob")
    assert (message["author"], message["author_name"]) == ("ann", "ann")


def test_only_the_author_edits_and_deletes(human: Key, admin: Key, agent: Key, other_agent: Key):
    thread = Thread(human.api)
    by_agent = agent.mcp.call("msg_post", thread_id=thread.id, content="mine")
    by_human = thread.post("mine too", author=None)
    for key, message in ((other_agent, by_agent), (human, by_agent), (agent, by_human), (other_agent, by_human)):
        path = f"/api/messages/{message['id']}"
        assert key.api.put(path, json={"content": "changed"}).status_code == 403
        assert key.api.delete(path).status_code == 403
        assert key.mcp.refused("msg_edit", message_id=message["id"], content="x")["error"] == "FORBIDDEN"
        assert key.mcp.refused("msg_delete", message_id=message["id"])["error"] == "FORBIDDEN"
    assert thread.messages() == [by_agent, by_human]
    assert agent.api.put(f"/api/messages/{by_agent['id']}", json={"content": "better"}).json()["edited_by"] == "robo"
    assert human.api.put(f"/api/messages/{by_human['id']}", json={"content": "better"}).json()["edited_by"] == "ann"
    assert admin.api.delete(f"/api/messages/{by_agent['id']}").status_code == 200  # people in charge may


def test_nobody_reacts_as_somebody_else(human: Key, agent: Key, other_agent: Key):
    path = f"/api/messages/{Thread(human.api).post('hello', author=None)['id']}/reactions"
    mine = agent.api.post(path, json={"reaction": "agree"}).json()
    assert (mine["agent_id"], mine["agent_name"]) == (agent.token.agent_id, "robo")
    by_human = human.api.post(path, json={"reaction": "agree"}).json()
    assert by_human["agent_name"] == "ann"
    for key in (human, other_agent):
        assert key.api.post(path, json={"reaction": "done", "agent_id": agent.token.agent_id}).status_code == 403
        assert key.api.delete(f"{path}/agree", params={"agent_id": agent.token.agent_id}).status_code == 403
    assert human.api.get(path).json() == [mine, by_human]
    assert human.api.delete(f"{path}/agree").json()["removed"] is True  # one's own
    assert human.api.get(path).json() == [mine]


def test_an_agents_token_cannot_become_another_agent(human: Key, agent: Key, guarded: Server):
    victim = human.api.post("/api/agents/register", json={"display_name": word("Victim")}).json()
    mcp = agent.mcp
    for tool in ("agent_resume", "agent_heartbeat", "agent_update", "agent_unregister"):
        assert mcp.answer(tool, agent_id=victim["id"]).is_error
        assert mcp.answer(tool, agent_id=victim["id"], token="wrong").is_error
    connected = mcp.call("bus_connect", thread_name=f"topic {word()}", display_name="Somebody else")
    assert connected["agent"]["agent_id"] == agent.token.agent_id
    assert mcp.call("agent_heartbeat") == {"ok": True}


def test_nobody_changes_an_agent_they_are_not(human: Key, agent: Key, other_agent: Key):
    for key in (human, other_agent):
        response = key.api.put(f"/api/agents/{agent.token.agent_id}", json={"description": "hacked"})
        assert response.status_code in (401, 403)
    assert human.api.get("/api/agents/robo").json()["description"] == ""


# Host and Origin


FOREIGN = ["evil.example", "evil.example:39765", "127.0.0.1.evil.example", "localhost.evil.example", "8.8.8.8", ""]
BROKEN = [
    "localhost:port",
    "localhost:",
    "localhost:99999",
    "localhost:80:80",
    "localhost/",
    "ann@localhost",
    "[localhost]",
    "::1",
    "[",
    "[::1",
    "[::1]evil.example",
    "[::1]:80x",
    "localhost evil.example",
]


@pytest.mark.parametrize("host", FOREIGN)
@pytest.mark.parametrize("path", ["/", "/api/threads", "/events", "/mcp", "/sse", "/healthz", "/metrics"])
def test_a_foreign_host_is_refused(guarded: Server, human: Key, path: str, host: str):
    response = human.api.get(path, headers={"host": host})
    assert response.status_code in ((403, 400) if host == "" else (403,))


@pytest.mark.parametrize("host", BROKEN)
def test_a_broken_host_or_origin_is_refused_at_every_door(human: Key, host: str):
    for path in ("/", "/healthz", "/api/threads", "/mcp", "/sse", "/events", "/authorize"):
        assert human.api.get(path, headers={"host": host}).status_code == 403, path
        assert human.api.get(path, headers={"origin": f"http://{host}"}).status_code == 403, path
    for path in ("/mcp", "/messages/", "/register", "/token", "/api/threads"):
        assert human.api.post(path, json={}, headers={"host": host}).status_code == 403, path
        assert human.api.post(path, json={}, headers={"origin": f"http://{host}"}).status_code == 403, path


def test_a_request_names_one_origin(guarded: Server, human: Key):
    own = ("origin", guarded.url)
    assert human.api.get("/api/threads", headers=[own]).status_code == 200
    assert human.api.get("/api/threads", headers=[own, ("origin", "http://evil.example")]).status_code == 403


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "https://127.0.0.1.evil.example",
        "null",
        "file://",
        "http://evil.example:39765",
        "garbage",
        "http://localhost:3000",
        "http://127.0.0.1",
        "https://localhost",
        "http://10.0.0.1:39765",
    ],
)
@pytest.mark.parametrize(
    "method, path",
    [
        ("GET", "/api/threads"),
        ("POST", "/api/threads"),
        ("GET", "/events"),
        ("POST", "/mcp"),
        ("GET", "/sse"),
        ("POST", "/messages/"),
    ],
)
def test_a_foreign_origin_is_refused(human: Key, origin: str, method: str, path: str):
    response = human.api.request(
        method, path, headers={"origin": origin}, json={"topic": "x"} if method == "POST" else None
    )
    assert response.status_code == 403
    assert "access-control-allow-origin" not in response.headers


def test_its_own_names_are_welcome(guarded: Server, human: Key):
    for host in ("127.0.0.1", "localhost", "[::1]", f"localhost:{guarded.port}", "LOCALHOST"):
        assert human.api.get("/api/threads", headers={"host": host}).status_code == 200
    for host in ("127.0.0.1", "localhost", "[::1]", "LOCALHOST"):
        origin = f"http://{host}:{guarded.port}"
        assert human.api.get("/api/threads", headers={"origin": origin}).status_code == 200


def test_a_request_names_one_host(guarded: Server, human: Key):
    import socket

    lines = [
        "GET /healthz HTTP/1.1",
        f"Host: 127.0.0.1:{guarded.port}",
        "Host: evil.example",
        "Connection: close",
        "",
        "",
    ]
    with socket.create_connection(("127.0.0.1", guarded.port), timeout=PATIENCE) as raw:
        raw.sendall("\r\n".join(lines).encode())
        assert raw.recv(1000).split()[1] in (b"400", b"403")


@pytest.mark.parametrize(
    "path, status", [("/readyz", b"200"), ("/healthz", b"200"), ("/", b"403"), ("/metrics", b"403")]
)
def test_a_load_balancer_may_ask_for_health_without_a_host(guarded: Server, path: str, status: bytes):
    import socket

    with socket.create_connection(("127.0.0.1", guarded.port), timeout=PATIENCE) as raw:
        raw.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        assert raw.recv(1000).split()[1] == status


@pytest.mark.parametrize("site, status", [("cross-site", 403), ("same-site", 403), ("same-origin", 201), ("none", 201)])
def test_another_sites_page_changes_nothing_although_its_origin_is_not_told(human: Key, site: str, status: int):
    body = {"topic": f"topic {word()}"}
    assert human.api.post("/api/threads", json=body, headers={"sec-fetch-site": site}).status_code == status
    assert human.api.get("/api/threads", headers={"sec-fetch-site": site}).status_code == 200


def test_a_site_that_was_allowed_by_name_may_use_the_server(api: httpx.Client, tmp_path: Path):
    allowed: dict[str, Any] = {"PALAVER_ALLOWED_HOSTS": "team.example,other.example:8443"}
    with start_server(tmp_path, PALAVER_PUBLIC_URL="https://bus.example", **allowed) as server, server.client() as api:
        for origin in ("https://team.example", "https://other.example:8443", "https://bus.example"):
            assert api.get("/api/threads", headers={"origin": origin}).status_code == 200
        for origin in ("https://team.example:8443", "https://other.example", "http://bus.example"):
            assert api.get("/api/threads", headers={"origin": origin}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Host": "evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Host": "localhost:port"},
        {"Host": "[::1]evil.example"},
    ],
)
def test_a_foreign_or_broken_websocket_is_refused(guarded: Server, human: Key, headers: dict[str, str]):
    import socket

    sent = {
        "Host": f"127.0.0.1:{guarded.port}",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
        "Authorization": f"Bearer {human.secret}",
        **headers,
    }
    lines = ["GET /mcp/ws HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items()), "", ""]
    with socket.create_connection(("127.0.0.1", guarded.port), timeout=PATIENCE) as raw:
        raw.sendall("\r\n".join(lines).encode())
        assert raw.recv(1000).startswith(b"HTTP/1.1 403")


def test_an_open_server_checks_host_and_origin_too(api: httpx.Client):
    assert api.get("/api/threads", headers={"host": "evil.example"}).status_code == 403
    assert api.get("/api/threads", headers={"origin": "http://evil.example"}).status_code == 403
    assert api.post("/mcp", json={}, headers={"origin": "http://evil.example"}).status_code == 403


def test_a_token_counts_on_an_open_server_too(api: httpx.Client):
    assert api.get("/api/threads", headers={"authorization": "Bearer nonsense"}).status_code == 401


def test_every_answer_carries_the_safety_headers(api: httpx.Client):
    for path in ("/", "/api/threads", "/docs"):
        headers = api.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "default-src 'self'" in headers["content-security-policy"]


# Not open to the world


@pytest.mark.parametrize("env", [{}, {"PALAVER_AUTH": "open"}, {"PALAVER_AUTH": "token"}])
@pytest.mark.parametrize("host", ["0.0.0.0"])
def test_a_server_others_can_reach_does_not_start_without_tokens(tmp_path: Path, env: dict[str, str], host: str):
    done = started(tmp_path, "serve", PALAVER_HOST=host, PALAVER_PORT=free_port(), **env)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "token" in said or "PALAVER_AUTH" in said
    assert "Traceback" not in said


def test_a_server_others_can_reach_starts_with_a_token_and_asks_for_it(tmp_path: Path):
    _, secret = with_app(tmp_path, lambda app: app.access.create_token("default", "human", "ann", ["read"]))
    with start_server(tmp_path, PALAVER_HOST="0.0.0.0") as server, server.client() as api:
        assert api.get("/api/threads").status_code == 401
        headers = {"authorization": f"Bearer {secret}"}
        assert api.get("/api/threads", headers=headers).status_code == 200
        assert api.get("/api/threads", headers={**headers, "host": "evil.example"}).status_code == 403


def test_a_token_made_at_the_terminal_works_and_stands_alone_on_standard_output(guarded: Server):
    def palaver(*words: str) -> str:
        done = started_with(guarded.env, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    secret = palaver("token", "create", "--agent", word("robo")).strip()
    with guarded.client(headers={"authorization": f"Bearer {secret}"}) as api:
        assert Mcp(api).call("agent_heartbeat") == {"ok": True}
        listed = json.loads(palaver("--json", "token", "list"))
        assert secret not in json.dumps(listed)
