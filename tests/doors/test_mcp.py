"""MCP as a protocol: both eras over HTTP, WebSocket, SSE and stdio; sessions, spellings, and what is not MCP."""

from __future__ import annotations

import contextlib
import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import anyio.from_thread
import httpx
import pytest
from mcp.client.client import Client
from mcp_types import Implementation
from tests.conftest import Engine
from tests.faults.press import rss
from tests.helpers import (
    PATIENCE,
    Mcp,
    Server,
    Thread,
    environment,
    eventually,
    palaver_command,
    start_server,
    word,
)
from tests.mcp_clients import Websocket, through
from tests.trust.people import Key
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from palaver.operations import OPERATIONS

# What stands here is the same on either engine.
pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True, scope="session")

ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


def body(method: str, id: int | None = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params, **({"id": id} if id is not None else {})}


# Two eras on one address


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
def test_the_handshake_agrees_on_the_version_the_client_speaks(api: httpx.Client, version: str):
    class Older(Mcp):
        pass

    Older.version = version
    client = Older(api)
    assert client.greeting["protocolVersion"] == version
    assert client.greeting["serverInfo"]["name"] == "palaver"
    assert "bus_connect" in client.greeting["instructions"]
    assert client.headers["mcp-session-id"]
    assert client.call("msg_search", query=word())["total"] == 0


def test_the_stateless_era_needs_no_handshake_and_no_session(api: httpx.Client):
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {**ACCEPT, "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "msg_search"}
    asked = body("tools/call", name="msg_search", arguments={"query": word()}, _meta=meta)
    response = api.post("/mcp", json=asked, headers=headers)
    assert response.status_code == 200, response.text
    assert "mcp-session-id" not in response.headers
    assert '"total":0' in response.text.replace(" ", "").replace("\\", "")


def test_a_stateless_client_says_with_each_call_who_it_is(server: Server, api: httpx.Client, thread: Thread):
    with through("http-2026", server, api) as client:
        agent = client.call("bus_connect", thread_name=thread.topic)["agent"]
        who = {"agent_id": agent["agent_id"], "token": agent["token"]}
        assert client.call("agent_heartbeat", who) == {"ok": True}
        wrong = {**who, "token": "wrong"}
        assert client.refused("agent_heartbeat", wrong)["error"] == "UNAUTHORIZED"
        assert (
            client.call("msg_post", thread_id=thread.id, content="hi", author=agent["agent_id"])["author_id"]
            == agent["agent_id"]
        )


def test_a_session_ends_with_delete(api: httpx.Client):
    client = Mcp(api)
    assert api.request("DELETE", "/mcp", headers=client.headers).status_code in (200, 202, 204)
    response = client.send({"id": 5, "method": "tools/list", "params": {}})
    assert response.status_code == 404


@pytest.mark.parametrize("version", [{"mcp-protocol-version": "2025-11-25"}, {}])
def test_an_unknown_session_is_taken_up(api: httpx.Client, version: dict[str, str]):
    headers = {**ACCEPT, "mcp-session-id": word("session"), **version}
    for _ in range(2):
        response = api.post("/mcp", json=body("tools/list"), headers=headers)
        assert (response.status_code, "bus_connect" in response.text) == (200, True)
    assert api.request("DELETE", "/mcp", headers=headers).status_code == 200
    assert api.post("/mcp", json=body("tools/list"), headers=headers).status_code == 404


def test_two_sessions_are_two_agents(api: httpx.Client, thread: Thread):
    one, other = Mcp(api), Mcp(api)
    agents = [client.call("bus_connect", thread_name=thread.topic)["agent"]["agent_id"] for client in (one, other)]
    posted = [client.call("msg_post", thread_id=thread.id, content="hi")["author_id"] for client in (one, other)]
    assert posted == agents
    assert len(set(agents)) == 2


@pytest.mark.parametrize("door", ["websocket", "sse", "stdio", "stdio-alone", "http-2025"])
def test_a_connection_remembers_who_connected(server: Server, api: httpx.Client, thread: Thread, door: str):
    with through(door, server, api) as client:
        agent = client.call("bus_connect", thread_name=thread.topic)["agent"]
        assert client.call("msg_post", thread_id=thread.id, content="hi")["author_id"] == agent["agent_id"]
        assert (
            client.call("msg_react", message_id=thread.messages()[0]["id"], reaction="agree")["agent_id"]
            == agent["agent_id"]
        )


@pytest.mark.parametrize("door", ["http-2025", "http-2026", "websocket"])
def test_the_address_can_say_which_agent_a_client_is(server: Server, api: httpx.Client, thread: Thread, door: str):
    agent = api.post("/api/agents/register", json={"slug": word("a")}).json()
    with through(door, server, api, f"?answers=full&agent={agent['slug']}") as client:
        assert client.call("msg_post", thread_id=thread.id, content="hi")["author_id"] == agent["id"]


def test_dotted_and_plain_names_can_both_be_called(mcp: Mcp, api: httpx.Client):
    tools = [tool for operation in OPERATIONS for tool in operation.tools if tool.toolset != "deep-research"]
    plain = {tool["name"] for tool in mcp.ask("tools/list")["tools"]}
    dotted = {tool["name"] for tool in Mcp(api, "/mcp?names=dotted&tools=all").ask("tools/list")["tools"]}
    assert dotted == {tool.name for tool in tools}
    assert plain == {tool.listed or tool.name.replace(".", "_") for tool in tools}
    for tool in tools:
        spellings = (tool.name, tool.listed or tool.name.replace(".", "_"))
        said = [mcp.exchange("tools/call", name=name, arguments={"xyzzy": 1})["result"] for name in spellings]
        assert said[0] == said[1]
        assert said[0]["isError"]
    assert mcp.call("msg.search", query=word())["results"] == []


# What is not MCP


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"nonsense", b"[]", b"5", b"null", b'{"jsonrpc":"1.0"}', b'{"a":1}', b"\xff\xfe", b"[" * 100_000],
    ids=["empty", "torn", "nonsense", "list", "number", "null", "old", "object", "bytes", "deep"],
)
def test_what_is_not_json_rpc_is_refused_and_the_server_goes_on(api: httpx.Client, content: bytes):
    response = api.post("/mcp", content=content, headers=ACCEPT)
    assert 400 <= response.status_code < 500
    assert Mcp(api).call("msg_search", query=word())["total"] == 0


def test_an_unknown_method_is_an_error_by_number(mcp: Mcp):
    assert mcp.exchange("no/such/method")["error"]["code"] == -32601


@pytest.mark.parametrize("arguments", [[], "text", 5])
def test_arguments_must_be_an_object(mcp: Mcp, arguments: Any):
    response = mcp.send({"id": 9, "method": "tools/call", "params": {"name": "msg_list", "arguments": arguments}})
    assert response.status_code < 500
    assert '"error"' in response.text or '"isError":true' in response.text.replace(" ", "")
    assert mcp.call("msg_search", query=word())["total"] == 0


def test_a_body_of_twenty_megabytes_is_refused(api: httpx.Client, mcp: Mcp, thread: Thread):
    asked = body("tools/call", name="msg_post", arguments={"thread_id": thread.id, "content": "x" * 20_000_000})
    response = api.post("/mcp", json=asked, headers=mcp.headers)
    assert response.status_code == 413
    assert thread.messages() == []


def test_calling_without_arguments_is_fine(mcp: Mcp):
    assert mcp.ask("tools/call", name="agent_list")["structuredContent"]["agents"] is not None


# WebSocket


def test_the_websocket_speaks_the_mcp_subprotocol_if_asked(server: Server):
    address = f"ws://127.0.0.1:{server.port}/mcp/ws"
    with connect(address, subprotocols=["mcp"]) as socket:  # type: ignore[list-item]
        assert socket.subprotocol == "mcp"
        assert Websocket(socket).greeting["serverInfo"]["name"] == "palaver"
    with connect(address) as socket:
        assert socket.subprotocol is None


@pytest.mark.parametrize("frame", ["", "{", "nonsense", "[]", "null", '{"jsonrpc":"1.0"}', "[" * 50_000, '"\\ud800"'])
def test_a_frame_that_is_not_json_rpc_does_not_end_the_connection(server: Server, frame: str):
    with connect(f"ws://127.0.0.1:{server.port}/mcp/ws") as socket:
        client = Websocket(socket)
        socket.send(frame)
        assert client.call("msg_search", query=word())["total"] == 0


@pytest.mark.parametrize(
    "frame, code, id",
    [
        ("{", -32700, None), ("", -32700, None), ("[" * 50_000, -32700, None), ("[]", -32600, None),
        ('{"jsonrpc":"2.0","id":7}', -32600, None), ('{"jsonrpc":"1.0","id":"a","method":"ping"}', -32600, "a"),
    ],
)  # fmt: skip
def test_a_frame_that_is_not_json_rpc_is_answered_with_an_error(server: Server, frame: str, code: int, id: Any):
    with connect(f"ws://127.0.0.1:{server.port}/mcp/ws") as socket:
        Websocket(socket)
        socket.send(frame)
        heard = json.loads(socket.recv(PATIENCE))
    assert (heard["jsonrpc"], heard["id"], heard["error"]["code"]) == ("2.0", id, code)


def test_a_binary_frame_ends_at_most_its_own_connection(server: Server, api: httpx.Client):
    with connect(f"ws://127.0.0.1:{server.port}/mcp/ws") as socket:
        client = Websocket(socket)
        socket.send(b"\x00\x01")
        with contextlib.suppress(ConnectionClosed):
            assert client.call("msg_search", query=word())["total"] == 0
    assert "Traceback" not in server.said()
    with connect(f"ws://127.0.0.1:{server.port}/mcp/ws") as socket:
        assert Websocket(socket).call("msg_search", query=word())["total"] == 0


def test_a_websocket_answers_several_questions_at_once(server: Server, thread: Thread):
    """Whoever waits in a thread can go on asking on the same connection."""
    with connect(f"ws://127.0.0.1:{server.port}/mcp/ws?answers=full") as socket:
        client = Websocket(socket)
        waiting = {"name": "msg_wait", "arguments": {"thread_id": thread.id, "after_seq": 0, "timeout_ms": 30_000}}
        client.say({"id": 1000, "method": "tools/call", "params": waiting})
        assert client.call("msg_search", query=word())["total"] == 0
        message = client.call("msg_post", thread_id=thread.id, content="wake up")
        woken = json.loads(socket.recv(PATIENCE))
    assert woken["id"] == 1000
    assert woken["result"]["structuredContent"]["messages"] == [message]


# The old transport of two addresses


def test_the_old_sse_transport_names_its_address_for_posting(api: httpx.Client):
    with api.stream("GET", "/sse") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.iter_lines()
        assert next(lines) == "event: endpoint"
        address = next(lines).removeprefix("data: ")
        assert address.startswith("/messages/")
        posted = api.post(address, json=body("ping"), headers=ACCEPT)
        assert posted.status_code == 202


@pytest.mark.parametrize(
    "address", ["/messages/", "/messages/?session_id=no-such", "/messages/?session_id=" + "0" * 32]
)
def test_posting_to_no_session_is_refused(api: httpx.Client, address: str):
    assert 400 <= api.post(address, json=body("ping"), headers=ACCEPT).status_code < 500


# Standard input and output


def test_stdio_writes_nothing_but_json_rpc_to_standard_output(server: Server):
    lines = [
        body("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "t", "version": "1"}),
        body("notifications/initialized", id=None),
        body("tools/call", id=2, name="msg_search", arguments={"query": word()}),
    ]
    env = environment(server.home, **{k: v for k, v in server.env.items() if k.startswith("PALAVER_")})
    with subprocess.Popen(
        palaver_command("mcp"),
        env=env, cwd=server.home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin
        assert process.stdout
        said = []
        for line in lines:
            process.stdin.write(json.dumps(line) + "\n")
            process.stdin.flush()
            if "id" in line:
                said.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        rest = process.stdout.read()
        assert process.wait(PATIENCE) == 0
    assert [answer["id"] for answer in said] == [1, 2]
    assert said[1]["result"]["structuredContent"]["total"] == 0
    assert rest == ""


def test_stdio_answers_everything_that_was_asked_before_the_input_ended(server: Server):
    lines = [
        body("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "t", "version": "1"}),
        body("notifications/initialized", id=None),
        *(body("tools/call", id=n, name="knowledge_search", arguments={"query": word()}) for n in range(2, 6)),
    ]
    ended = subprocess.run(
        palaver_command("mcp"),
        env=environment(server.home, **{k: v for k, v in server.env.items() if k.startswith("PALAVER_")}),
        cwd=server.home, input="".join(json.dumps(line) + "\n" for line in lines), capture_output=True, text=True,
        timeout=PATIENCE,
    )  # fmt: skip
    said = [json.loads(line) for line in ended.stdout.splitlines()]
    assert sorted(answer["id"] for answer in said) == [1, 2, 3, 4, 5]
    assert all("result" in answer for answer in said)


def test_stdio_is_the_agent_the_environment_names(server: Server, api: httpx.Client, thread: Thread):
    from dataclasses import replace

    agent = api.post("/api/agents/register", json={"slug": word("a")}).json()
    named = replace(server, env={**server.env, "PALAVER_AGENT": agent["slug"]})
    with through("stdio", named, api) as client:
        assert client.call("msg_post", thread_id=thread.id, content="hi")["author_id"] == agent["id"]


FEW_SESSIONS = """
from palaver.doors.mcp import sessions
sessions.MAX_SESSIONS = 2
"""


def test_the_longest_idle_session_makes_room_and_goes_on_when_its_client_does(engine: Engine, tmp_path: Path):
    url = engine.fresh()
    with start_server(tmp_path, before=FEW_SESSIONS, PALAVER_DATABASE_URL=url) as server, server.client() as api:
        clients = [Mcp(api) for _ in range(5)]
        agents = [
            client.call("bus_connect", thread_name="t", display_name=f"agent {n}")["agent"]["agent_id"]
            for n, client in enumerate(clients)
        ]
        thread = api.get("/api/threads").json()["threads"][0]["id"]
        for client, agent in zip(clients, agents, strict=True):
            assert client.call("msg_post", thread_id=thread, content="still here", verbose=True)["author_id"] == agent


COUNTED = """
from palaver.doors.mcp import sessions
sessions.MAX_SESSIONS, sessions.MAX_OF_CALLER, sessions.MAX_BUSY = 4, 2, 3
admit = sessions.ResumingSessionManager._admit
def counted(self, scope):
    made = admit(self, scope)
    by_caller = [key[:2] for key in self._sessions]
    print("kept", len(by_caller), max(map(by_caller.count, by_caller), default=0), flush=True)
    return made
sessions.ResumingSessionManager._admit = counted
"""


def test_a_caller_and_all_callers_together_have_few_sessions_in_memory(engine: Engine, tmp_path: Path):
    with start_server(tmp_path, before=COUNTED, PALAVER_AUTH="token", PALAVER_DATABASE_URL=engine.fresh()) as server:
        keys = [Key(server, name=name) for name in ("ann", "bob", "cy")]
        clients = [key.mcp for _ in range(4) for key in keys]
        for client in clients:
            assert client.call("thread_list")["threads"] == []
        kept = [tuple(map(int, line.split()[1:])) for line in server.said().splitlines() if line.startswith("kept ")]
    assert len(kept) > len(clients)
    assert max(total for total, _ in kept) == 3  # and the one that is made
    assert max(most for _, most in kept) == 1


def test_a_session_with_an_open_request_is_not_dropped(engine: Engine, tmp_path: Path):
    url = engine.fresh()
    with (
        start_server(tmp_path, before=COUNTED, PALAVER_DATABASE_URL=url) as server,
        server.client() as api,
        ThreadPoolExecutor(3) as threads,
    ):
        thread = Thread(api)
        waiting = [Mcp(server.client()) for _ in range(3)]

        def wait(one: Mcp) -> Any:
            """Ask again if there was no room, because the request below took the last."""
            with contextlib.suppress(AssertionError):
                return one.call("msg_wait", thread_id=thread.id, timeout_ms=50_000)

        answers = [threads.submit(eventually, partial(wait, one)) for one in waiting]

        def is_refused() -> bool:
            """The three are open: there is no room for another one."""
            about: dict[str, Any] = {
                "clientInfo": {"name": "t", "version": "1"},
                "capabilities": {},
                "protocolVersion": "2025-11-25",
            }
            refused = api.post("/mcp", json=body("initialize", **about), headers=ACCEPT)
            return refused.status_code == 503

        eventually(is_refused)
        posted = thread.post("hello")
        assert [one.result()["messages"][0]["id"] for one in answers] == [posted["id"]] * 3
        assert Mcp(api).call("thread_list")["threads"]


@pytest.mark.thorough
def test_an_idle_session_keeps_neither_its_last_request_nor_its_last_answer(engine: Engine, tmp_path: Path):
    with start_server(tmp_path, PALAVER_DATABASE_URL=engine.fresh()) as server, server.client() as api:
        thread, text = Thread(api), "x" * 900_000
        message = thread.post(text)["id"]

        def use_sessions(count: int) -> float:
            for _ in range(count):
                assert Mcp(api).call("msg_get", message_id=message)["content"] == text
                assert (
                    Mcp(api)
                    .refused("msg_get", message_id=message, surprise=text)["error"]
                    .startswith("Unknown argument")
                )
            return rss(server)

        before = use_sessions(10)
        assert use_sessions(50) - before < 40  # megabytes; each text is almost one


def test_the_trace_of_a_call_is_kept_with_the_message(api: httpx.Client, mcp: Mcp, thread: Thread):
    trace = f"00-{'a1' * 16}-{'b2' * 8}-01"
    for told, content in ((trace, "one"), ("nonsense", "two")):
        arguments = {"thread_id": thread.id, "content": content}
        mcp.ask("tools/call", name="msg_post", arguments=arguments, _meta={"traceparent": told})
    assert [one["metadata"] for one in thread.messages()] == [{"traceparent": trace}, None]


# Changes of resources


def test_who_listens_hears_of_its_threads_and_its_inbox_alone(server: Server, api: httpx.Client):
    program, thread, other = word("program-"), Thread(api), Thread(api)
    watched = [f"chat://threads/{thread.id}/transcript", "chat://inbox", "notes://1", "chat://threads/no-such/state"]

    async def listen() -> list[str]:
        about = Implementation(name=program, version="1")
        async with Client(f"{server.url}/mcp", mode="2026-07-28", client_info=about) as client:
            joined = await client.call_tool("bus_connect", {"thread_name": other.topic})
            slug = (joined.structured_content or {})["agent"]["slug"]
            heard = []
            async with client.listen(resource_subscriptions=watched) as events:
                other.post("nothing to hear")
                other.post(f"@{slug} the parser drops the last line")
                heard.append((await anext(events)).uri)  # type: ignore[union-attr]
                inbox = await client.read_resource("chat://inbox")
                assert "the parser drops the last line" in str(inbox.contents)
                thread.post("hello")
                heard.append((await anext(events)).uri)  # type: ignore[union-attr]
            return heard

    with anyio.from_thread.start_blocking_portal() as portal:
        assert portal.call(listen) == ["chat://inbox", watched[0]]
    eventually(lambda: "palaver_listeners 0" in server.metrics())


def test_a_server_that_stops_ends_the_streams_of_listeners(engine: Engine, tmp_path: Path):
    with start_server(tmp_path, PALAVER_DATABASE_URL=engine.fresh()) as server, server.client() as api:
        thread = Thread(api)

        async def listen() -> list[str]:
            async with (
                Client(f"{server.url}/mcp", mode="2026-07-28") as client,
                client.listen(resource_subscriptions=[f"chat://threads/{thread.id}/state"]) as events,
            ):
                server.process.terminate()
                return [str(event) async for event in events]

        with anyio.from_thread.start_blocking_portal() as portal:
            assert portal.call(listen) == []
