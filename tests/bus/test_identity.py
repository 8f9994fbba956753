"""An agent stays itself: contract 5, "who an MCP caller is", through every way to say it, on both engines."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.conftest import Engine
from tests.helpers import Mcp, Server, Thread, eventually, start_server, started_with, word
from tests.mcp_clients import Stateless, through
from tests.store.bus import opened

from palaver.settings import Settings
from palaver.store.bus import agents


class Program(Mcp):
    """A client with a handshake that has a name of its own."""

    def __init__(self, api: httpx.Client, program: str, path: str = "/mcp", token: str | None = None) -> None:
        self.program = program
        super().__init__(api, path, token)


@pytest.fixture
def program() -> str:
    """A client program that no other test uses."""
    return word("program-")


def connected(client: Mcp, **more: Any) -> dict[str, Any]:
    return dict(client.call("bus_connect", **{"thread_name": f"topic {word()}", **more}))


def who(answer: dict[str, Any]) -> dict[str, str]:
    return {"agent_id": answer["agent"]["agent_id"], "token": answer["agent"]["token"]}


def author_of(api: httpx.Client, posted: dict[str, Any]) -> str | None:
    found = api.get(f"/api/messages/{posted['id']}").json()["author_id"]
    return None if found is None else str(found)


# Every call can say who makes it


def test_every_acting_tool_takes_agent_id_and_token(api: httpx.Client, program: str, thread: Thread):
    client, other = Stateless(api, program), Stateless(api, program)
    ann, bob = connected(client, thread_name=thread.topic), connected(other, thread_name=thread.topic)
    assert ann["agent"]["agent_id"] != bob["agent"]["agent_id"]
    assert "agent_id and token" in ann["next"]
    for answer in (ann, bob):
        me, unique = who(answer), word()
        posted = client.call("msg_post", thread_id=thread.id, content=unique, **me)
        assert author_of(api, posted) == me["agent_id"]
        edited = client.call("msg_edit", message_id=posted["id"], content=f"{unique} again", **me)
        assert edited["edited_by"] == answer["agent"]["name"]
        assert client.call("msg_react", message_id=posted["id"], reaction="done", **me)["agent_id"] == me["agent_id"]
        turn = {"session_id": "s", "role": "user", "content": f"turn {unique}"}
        assert client.call("session_append", **turn, **me)["agent_id"] == me["agent_id"]
        assert client.call("conversation_search_own", query=unique, **me)["count"] == 1
        found = client.call("knowledge_search", query=unique, sources=["sessions"], **me)["results"]
        assert [item["source"] for item in found] == ["sessions"]
        waited = client.call("msg_wait", thread_id=thread.id, timeout_ms=0, **me)
        assert author_of(
            api, client.call("msg_post", thread_id=thread.id, content="x", reply_token=waited["reply_token"])
        )
    for wrong in ({**who(ann), "token": "wrong"}, {"agent_id": who(ann)["agent_id"]}):
        for tool, arguments in (
            ("msg_post", {"thread_id": thread.id, "content": "no"}),
            ("session_append", {"session_id": "s", "role": "user", "content": "no"}),
            ("conversation_search_own", {"query": "x"}),
            ("msg_list", {"thread_id": thread.id}),
        ):
            assert client.refused(tool, **arguments, **wrong)["error"] == "UNAUTHORIZED"
    taken = {**who(ann), "agent_id": who(bob)["agent_id"]}
    assert client.refused("msg_post", thread_id=thread.id, content="no", **taken)["error"] == "UNAUTHORIZED"


@pytest.mark.parametrize("tool", ["bus_connect", "msg_wait", "msg_list"])
def test_a_reply_token_carries_the_agent(api: httpx.Client, program: str, thread: Thread, tool: str):
    client, other = Stateless(api, program), Stateless(api, program)
    ann = connected(client, thread_name=thread.topic)
    connected(other, thread_name=thread.topic)
    arguments: dict[str, Any] = {} if tool == "bus_connect" else {"thread_id": thread.id, **who(ann)}
    arguments |= {"timeout_ms": 0} if tool == "msg_wait" else {}
    token = ann["reply_token"] if tool == "bus_connect" else client.call(tool, **arguments)["reply_token"]
    post = {"thread_id": thread.id, "content": "hi", "reply_token": token}
    first = client.call("msg_post", **post)
    assert author_of(api, first) == ann["agent"]["agent_id"]
    assert client.call("msg_post", **post)["id"] == first["id"]
    assert client.call("conversation_search_own", query="x", reply_token=token)["available"] is True


def test_a_reply_token_cannot_be_made_up(api: httpx.Client, program: str, thread: Thread):
    client = Stateless(api, program)
    ann, _ = connected(client), connected(Stateless(api, program))
    agent_id, nonce, signature = ann["reply_token"].split(".")
    for forged in (f"{agent_id}.{nonce}", f"{agent_id}.{nonce}.", f"{agent_id}.other.{signature}", f"{agent_id}.x.y"):
        answer = client.call("conversation_search_own", query="x", reply_token=forged)
        assert (answer["available"], "agent_id" in answer["message"]) == (False, True)
        assert (
            "agent_id and token"
            in client.refused("msg_post", thread_id=thread.id, content="x", reply_token=forged)["error"]
        )


# A connection is its agent, also after a restart


@pytest.mark.on_postgres(way=["session"])
@pytest.mark.parametrize("way", ["session", "stateless"])
def test_a_restart_changes_nothing(engine: Engine, tmp_path: Path, way: str):
    url = engine.fresh()
    with start_server(tmp_path, PALAVER_DATABASE_URL=url) as server, server.client() as api:
        client: Mcp = Program(api, "codex") if way == "session" else Stateless(api, "codex")
        answer = connected(client)
        thread_id, port = answer["thread"]["thread_id"], server.port
        client.call("session_append", session_id="s", role="user", content="before the restart")
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
    with start_server(tmp_path, port=port, PALAVER_DATABASE_URL=url) as server, server.client() as api:
        client._client = api
        posted = client.call("msg_post", thread_id=thread_id, content="after it")
        assert author_of(api, posted) == answer["agent"]["agent_id"]
        assert client.call("conversation_search_own", query="restart")["count"] == 1
        assert connected(client)["agent"]["agent_id"] == answer["agent"]["agent_id"] or way == "stateless"


def test_connecting_again_in_a_session_is_the_same_agent(api: httpx.Client, program: str):
    client = Program(api, program)
    first, again = connected(client), connected(client)
    assert again["agent"]["agent_id"] == first["agent"]["agent_id"]
    renamed = connected(client, display_name=(name := word("Ann")))["agent"]
    assert (renamed["agent_id"], renamed["display_name"]) == (first["agent"]["agent_id"], name)
    other = connected(client, display_name=word("Bob"))["agent"]
    assert other["agent_id"] != first["agent"]["agent_id"]


# Coming back


def test_a_client_that_left_comes_back_as_the_same_agent(api: httpx.Client, program: str):
    client = Program(api, program)
    first = connected(client)
    beside = connected(Program(api, program))
    assert beside["agent"]["agent_id"] != first["agent"]["agent_id"]
    assert beside["agent"]["name"] == f"{program} 2"
    assert api.request("DELETE", "/mcp", headers=client.headers).status_code == 200
    back = connected(Program(api, program))
    assert (back["agent"]["agent_id"], back["agent"]["name"]) == (first["agent"]["agent_id"], program)
    assert back["agent"]["token"] != first["agent"]["token"]
    for token in (first["agent"]["token"], back["agent"]["token"]):
        assert api.post(
            "/api/agents/heartbeat", json={"agent_id": first["agent"]["agent_id"], "token": token}
        ).is_success


def test_a_different_name_does_not_resume_the_agent(api: httpx.Client, program: str):
    client = Program(api, program)
    first = connected(client, ide="Editor", model="one", display_name=word("Ann"))["agent"]["agent_id"]
    api.request("DELETE", "/mcp", headers=client.headers)
    for more in ({"ide": "Other"}, {"model": "two"}, {"display_name": word("Bob")}):
        assert connected(Program(api, program), **more)["agent"]["agent_id"] != first
    assert connected(Program(api, program), ide="editor", model="ONE")["agent"]["agent_id"] == first


def test_a_new_display_name_is_a_new_agent(api: httpx.Client, program: str):
    unnamed = Program(api, program)
    first = connected(unnamed)["agent"]["agent_id"]
    api.request("DELETE", "/mcp", headers=unnamed.headers)
    assert connected(Program(api, program), display_name=word("Bob"))["agent"]["agent_id"] != first
    assert connected(Program(api, program))["agent"]["agent_id"] == first


def test_who_comes_back_in_a_project_may_have_another_model(api: httpx.Client, program: str):
    ids = []
    for model in ("m-1", "m-2"):
        client = Program(api, program, "/mcp?project=/src/one")
        ids.append(connected(client, model=model)["agent"]["agent_id"])
        api.request("DELETE", "/mcp", headers=client.headers)
    assert ids[0] == ids[1]
    assert api.get(f"/api/agents/{ids[0]}").json()["model"] == "m-2"


def test_a_client_that_only_closed_its_stream_comes_back(server: Server, api: httpx.Client, program: str):
    """Gemini CLI and opencode end without a DELETE: the stream they listen on is closed."""
    client = Program(api, program)
    first = connected(client)["agent"]["agent_id"]
    with api.stream("GET", "/mcp", headers={**client.headers, "accept": "text/event-stream"}) as stream:
        assert stream.status_code == 200
    eventually(lambda: connected(Program(api, program))["agent"]["agent_id"] == first)


@pytest.mark.parametrize("door", ["websocket", "sse", "stdio", "stdio-alone"])
def test_the_end_of_a_connection_frees_its_agent(server: Server, api: httpx.Client, door: str):
    name = {"display_name": word("Ann")}  # all clients of the SDK have one name here
    with through(door, server, api) as client:
        first = connected(client, **name)["agent"]["agent_id"]

    def comes_back() -> bool:
        with through(door, server, api) as again:
            return bool(connected(again, **name)["agent"]["agent_id"] == first)

    eventually(comes_back)


def test_projects_keep_agents_apart(api: httpx.Client, program: str):
    ids: dict[str, set[str]] = {}
    for project in ("/src/one", "/src/two", "/src/one"):
        client = Program(api, program, f"/mcp?project={project}")
        ids.setdefault(project, set()).add(connected(client)["agent"]["agent_id"])
        api.request("DELETE", "/mcp", headers=client.headers)
    assert [len(found) for found in ids.values()] == [1, 1]
    assert ids["/src/one"] != ids["/src/two"]


@pytest.mark.parametrize("folder, project", [("/src/Zoë/项目", "/src/Zoë/项目"), ("$PWD", "")])
def test_a_header_names_the_folder_of_a_client(api: httpx.Client, program: str, folder: str, project: str):
    client = Stateless(api, program)
    client.headers["palaver-folder"] = folder.encode()  # type: ignore[assignment]
    agent = api.get(f"/api/agents/{connected(client)['agent']['agent_id']}").json()
    assert (agent["project"] or "") == project


def test_a_client_finds_what_was_recorded_of_its_program(api: httpx.Client, program: str):
    """Turns were recorded under the program's name; the first client of it becomes that agent. All find them."""
    turn = {"role": "user", "content": f"recorded {(unique := word())}"}
    assert api.post(f"/api/v1/agents/{program}/sessions/s/messages", json=turn).status_code == 201
    client = Program(api, program)
    assert connected(client, ide=program.upper(), model="m-1")["agent"]["slug"] == program
    assert client.call("conversation_search_own", query=unique)["count"] == 1
    beside = Program(api, program)
    assert connected(beside)["agent"]["slug"] != program
    assert beside.call("conversation_search_own", query=unique)["count"] == 1


def test_an_agent_silent_for_an_hour_is_free(engine: Engine, tmp_path: Path):
    settings = Settings(home=tmp_path, database_url=engine.fresh())

    async def play() -> list[list[str]]:
        async with opened(settings) as bus:
            agent, _ = await bus.here.change(
                lambda change: agents.register(change, agents.NewAgent("A", client="c", project="p"))
            )
            found = []
            for since in (agent.last_heartbeat, agent.last_heartbeat + timedelta(seconds=1)):
                free = await bus.here.read(
                    partial(agents.free_of_client, owner="", client="c", project="p", active_since=since)
                )
                found.append([one.name for one in free])
            return found

    assert asyncio.run(play()) == [[], ["A"]]


def test_an_agent_is_named_after_its_client(api: httpx.Client, program: str):
    assert connected(Program(api, program))["agent"]["name"] == program
    assert connected(Stateless(api, program), model="m-1")["agent"]["name"] == f"{program.title()} (m-1)"
    assert connected(Program(api, f"{program}-mcp-client"), ide="X", model="Y")["agent"]["name"].startswith("X (Y)")


# Named by the settings


@pytest.mark.parametrize("door", ["http-2025", "http-2026", "websocket", "sse"])
def test_the_address_names_the_agent_everywhere(server: Server, api: httpx.Client, thread: Thread, door: str):
    slug, unique = word("agent-"), word()
    api.post(f"/api/v1/agents/{slug}/sessions/s/messages", json={"role": "user", "content": f"recorded {unique}"})
    agent_id = api.get(f"/api/agents/{slug}").json()["id"]
    with through(door, server, api, f"?agent={slug}") as client:
        assert client.call("conversation_search_own", query=unique)["count"] == 1
        assert author_of(api, client.call("msg_post", thread_id=thread.id, content="before")) == agent_id
        assert connected(client)["agent"]["agent_id"] == agent_id
        assert author_of(api, client.call("msg_post", thread_id=thread.id, content="after")) == agent_id
        assert client.call("conversation_search_own", query=unique)["count"] == 1


def test_an_agent_named_by_the_address_comes_to_be_by_what_it_does(api: httpx.Client, thread: Thread):
    for number, act in enumerate(("post", "append", "connect")):
        slug = word("agent-")
        client = Program(api, "any", f"/mcp?agent={slug}")
        if act == "post":
            client.call("msg_post", thread_id=thread.id, content=f"hi {number}")
        elif act == "append":
            client.call("session_append", session_id="s", role="user", content="hi")
        else:
            assert connected(client)["agent"]["slug"] == slug
        assert api.get(f"/api/agents/{slug}").status_code == 200


def test_a_header_names_the_agent_too(api: httpx.Client, thread: Thread, program: str):
    slug = word("agent-")
    client = Stateless(api, program)
    client.headers["x-palaver-agent"] = slug
    posted = client.call("msg_post", thread_id=thread.id, content="hi")
    assert author_of(api, posted) == api.get(f"/api/agents/{slug}").json()["id"]


def test_stdio_with_an_agent_keeps_its_memory_after_connecting(tmp_path: Path):
    with start_server(tmp_path, PALAVER_AGENT="claude-code") as server, server.client() as api:
        turn = {"role": "user", "content": "recorded by palaver watch"}
        assert api.post("/api/v1/agents/claude-code/sessions/s/messages", json=turn).status_code == 201
        with through("stdio", server, api) as client:
            assert client.call("conversation_search_own", query="recorded")["count"] == 1
            assert connected(client)["agent"]["slug"] == "claude-code"
            assert client.call("conversation_search_own", query="recorded")["count"] == 1


# Where nothing says who it is


def test_a_stateless_client_is_its_only_agent_and_is_told_so(api: httpx.Client, program: str, thread: Thread):
    client = Stateless(api, program)
    refusal = client.refused("msg_post", thread_id=thread.id, content="nobody")["error"]
    assert "bus_connect" in refusal
    assert "agent_id and token" in refusal
    agent = connected(client)["agent"]
    posted = client.call("msg_post", thread_id=thread.id, content="me")
    assert author_of(api, posted) == agent["agent_id"]
    assert agent["name"] in posted["assumed"]
    assert client.call("session_append", session_id="s", role="user", content="x")["agent_id"] == agent["agent_id"]
    assert "assumed" not in client.call("msg_post", thread_id=thread.id, content="me", **who({"agent": agent}))
    connected(client)
    for tool, arguments in (
        ("msg_post", {"thread_id": thread.id, "content": "which?"}),
        ("session_append", {"session_id": "s", "role": "user", "content": "which?"}),
    ):
        assert "agent_id and token" in client.refused(tool, **arguments)["error"]
    assert client.call("conversation_search_own", query="x")["available"] is False
    assert Stateless(api, word("other")).call("conversation_search_own", query="x")["available"] is False


def test_a_session_that_did_not_connect_has_no_history(api: httpx.Client, program: str):
    agent = connected(Program(api, program))["agent"]
    answer = Program(api, program).call("conversation_search_own", query="x")
    assert (answer["available"], agent["agent_id"] in json.dumps(answer)) == (False, False)


# With tokens the credential alone decides


@pytest.fixture(scope="module")
def guarded(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp(f"guarded-{engine.name}")
    with start_server(home, PALAVER_AUTH="token", PALAVER_DATABASE_URL=engine.fresh()) as server:
        yield server


@pytest.fixture(scope="module")
def tokens(guarded: Server) -> dict[str, str]:
    made = {name: started_with(guarded.env, "token", "create", "--agent", name) for name in ("ann", "bob")}
    return {name: done.stdout.strip() for name, done in made.items()}


@pytest.mark.parametrize("kind", ["session", "stateless"])
def test_with_tokens_nobody_becomes_another_agent(guarded: Server, tokens: dict[str, str], kind: str):
    def client_of(name: str, path: str = "/mcp") -> Mcp:
        if kind == "stateless":
            return Stateless(api, "tests", path, tokens[name])
        return Program(api, "tests", path, tokens[name])

    with guarded.client(headers={"authorization": f"Bearer {tokens['ann']}"}) as api:
        bob = connected(client_of("bob"))
        ann = client_of("ann", f"/mcp?agent=bob&project={word()}")
        ann.headers["x-palaver-agent"] = "bob"
        mine = connected(ann)
        assert mine["agent"]["slug"] == "ann"
        thread_id = mine["thread"]["thread_id"]
        assert (
            api.get(f"/api/messages/{ann.call('msg_post', thread_id=thread_id, content='x')['id']}").json()["author_id"]
            == mine["agent"]["agent_id"]
        )
        posted = ann.call("msg_post", thread_id=thread_id, content="y", reply_token=bob["reply_token"])
        assert api.get(f"/api/messages/{posted['id']}").json()["author_id"] == mine["agent"]["agent_id"]
        for arguments in ({"agent_id": bob["agent"]["agent_id"], "token": "any"},):
            refused = ann.refused("msg_post", thread_id=thread_id, content="z", **arguments)
            assert refused["error"] == "FORBIDDEN"
            assert ann.refused("conversation_search_own", query="x", **arguments)["error"] == "FORBIDDEN"
        turn = ann.call("session_append", session_id="s", role="user", content="x", reply_token=bob["reply_token"])
        assert turn["agent_id"] == mine["agent"]["agent_id"]
        if kind == "session":  # another's session id is worth nothing without their credential
            other = client_of("bob")
            stolen = {**ann.headers, "mcp-session-id": other.headers["mcp-session-id"]}
            asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
            assert api.post("/mcp", json=asked, headers=stolen).status_code == 404


# Looking after agents


@pytest.mark.thorough
def test_agents_not_seen_for_long_leave_the_list(tmp_path: Path):
    with start_server(tmp_path, PALAVER_AGENT_TTL=0, PALAVER_HEARTBEAT_TIMEOUT=0) as server, server.client() as api:
        client = Program(api, "tests")
        name = connected(client)["agent"]["name"]
        eventually(lambda: api.get("/api/agents").json() == [])
        answer = client.call("agent_list")
        assert (answer["agents"], "include_inactive" in answer["hint"]) == ([], True)
        assert [agent["name"] for agent in client.call("agent_list", include_inactive=True)["agents"]] == [name]
        assert [agent["name"] for agent in api.get("/api/agents?include_inactive=true").json()] == [name]


def test_an_agent_can_be_removed(api: httpx.Client, program: str, server: Server):
    client = Program(api, program)
    answer = connected(client)
    posted = client.call("msg_post", thread_id=answer["thread"]["thread_id"], content="stays")
    client.call("session_append", session_id="s", role="user", content="goes")
    path = f"/api/agents/{answer['agent']['slug']}"
    assert api.delete(path).status_code == 409
    assert api.delete(path, params={"with_sessions": True}).json()["sessions_deleted"] == 1
    assert api.get(path).status_code == 404
    assert api.get(f"/api/messages/{posted['id']}").json()["author"] == answer["agent"]["name"]
    back = connected(client)["agent"]
    assert back["agent_id"] != answer["agent"]["agent_id"]
