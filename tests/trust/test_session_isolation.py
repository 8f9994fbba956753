"""Who sees what: two workspaces with tokens, agents and their sessions, messages for humans only."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from tests.conftest import Engine
from tests.helpers import Mcp, Server, Thread, start_server, word
from tests.library_items import GET_ID, LIBRARY, SOURCES, Library
from tests.mcp_clients import Websocket
from websockets.sync.client import connect

from palaver.app import App
from palaver.settings import Settings

HIDDEN = "[human-only content hidden]"


@dataclass
class Someone:
    """Somebody with a token."""

    server: Server
    secret: str

    def __post_init__(self) -> None:
        self.api = self.server.client(headers={"authorization": f"Bearer {self.secret}"})
        self.library = Library(self.api)

    def mcp(self, query: str = "") -> Mcp:
        return Mcp(self.api, f"/mcp{query}")


@dataclass
class World:
    """Two workspaces on one server."""

    ann: Someone
    robo: Someone
    cyber: Someone
    eve: Someone
    spy: Someone


@pytest.fixture(scope="module")
def world(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home, url = tmp_path_factory.mktemp(f"guarded-{engine.name}"), engine.fresh()
    with start_server(home, PALAVER_DATABASE_URL=url, PALAVER_AUTH="token") as server:

        def with_app(work: Callable[[App], Any]) -> Any:
            async def go() -> Any:
                app = App(Settings(home=home, database_url=url))
                try:
                    return await work(app)
                finally:
                    await app.close()

            return asyncio.run(go())

        async def tokens(app: App) -> list[str]:
            await app.create_workspace("elsewhere")
            people = [
                ("default", "human", "ann"), ("default", "agent", "robo"), ("default", "agent", "cyber"),
                ("elsewhere", "human", "eve"), ("elsewhere", "agent", "spy"),
            ]  # fmt: skip
            made = [await app.access.create_token(place, kind, name, ["read", "write"]) for place, kind, name in people]  # type: ignore[arg-type]
            return [secret for _, secret in made]

        yield World(*(Someone(server, secret) for secret in with_app(tokens)))


@pytest.fixture(scope="module")
def kept(world: World) -> tuple[str, dict[str, dict[str, Any]]]:
    """A word, and one thing of each source in Ann's workspace that says it."""
    unique = word()
    for source in SOURCES:
        world.ann.library.put_in(source, f"it says {unique} here", "robo")
    found = world.ann.library.search(unique)["results"]
    assert sorted(hit["source"] for hit in found) == sorted(SOURCES)
    return unique, {hit["source"]: hit for hit in found}


LibraryItem = tuple[str, dict[str, dict[str, Any]]]


# Two workspaces


def test_a_search_finds_nothing_of_another_workspace(world: World, kept: LibraryItem):
    unique, _ = kept
    assert len(world.ann.library.search(unique)["results"]) == 8
    for someone in (world.eve, world.spy):
        assert someone.library.search(unique)["results"] == []
        for client in (someone.mcp(), someone.mcp("?profile=deep-research")):
            assert client.call("knowledge_search", query=unique)["results"] == []
            assert client.call("search", query=unique) == {"results": []}
            for source in SOURCES:
                answer = client.call(f"{source}_search", query=unique)
                assert (answer["results"], answer["total_estimated"]) == ([], 0)


@pytest.mark.parametrize("source", SOURCES)
def test_ids_of_another_workspace_are_exactly_as_absent(world: World, kept: LibraryItem, source: str):
    hit = kept[1][source]
    absent: Any = 987654 if source in ("media", "characters") else "absent"

    def same(one: Any, other: Any, id: Any = hit["id"], missing: Any = absent) -> None:
        assert json.dumps(one).replace(str(id), "?") == json.dumps(other).replace(str(missing), "?")

    for someone in (world.eve, world.spy):
        client = someone.mcp()
        for tool, key in (("knowledge_get", "id"), (f"{source}_get", GET_ID[source])):
            more = {"source": source} if tool == "knowledge_get" else {}
            theirs, nobodys = (client.refused(tool, {key: id, **more}) for id in (hit["id"], absent))
            assert theirs["error"].endswith("NOT_FOUND")
            same(theirs, nobodys)
        other, bare = f"{source}://{absent}", hit["uri"].partition("://")[2]
        same(client.refused("fetch", id=hit["uri"]), client.refused("fetch", id=other), bare)
        theirs, nobodys = (client.exchange("resources/read", uri=uri)["error"] for uri in (hit["uri"], other))
        same(theirs, nobodys, bare)
        document = hit["conversation_id"]
        if document:
            assert client.refused("knowledge_get", source=source, id=document)["error"].endswith("NOT_FOUND")
        theirs = someone.api.get("/api/knowledge/open", params={"uri": hit["uri"]})
        assert theirs.status_code == 404
        assert kept[0] not in theirs.text


@pytest.mark.parametrize("source", LIBRARY)
def test_nothing_of_another_workspace_can_be_read_or_changed(world: World, kept: LibraryItem, source: str):
    hit = kept[1][source]
    id = hit["conversation_id"] or hit["id"]
    path = f"/api/{source}/{id}"
    before = world.ann.api.get(path).json()
    for someone in (world.eve, world.spy):
        asked = [
            someone.api.get(path),
            someone.api.put(path, json={"title": "x", "name": "x"}),
            someone.api.delete(path),
            someone.api.post(f"{path}/restore"),
        ]
        if source == "chats":
            asked += [
                someone.api.get(f"{path}/messages"),
                someone.api.post(f"{path}/messages", json={"sender": "x", "content": "x"}),
            ]
        if source == "media":
            asked.append(someone.api.get(f"{path}/transcript"))
        assert {response.status_code for response in asked} == {404}
        assert id not in [item["id"] for item in someone.api.get(f"/api/{source}", params={"limit": 1000}).json()]
    assert world.ann.api.get(path).json() == before


def test_prompts_transcripts_and_types_of_another_workspace_do_not_exist(world: World):
    name, kind = f"prompt {word()}", word("type")
    world.ann.library.prompt(name, user_prompt="secret {{thing}}")
    segments = [{"start": 0, "end": 1, "text": "secret"}]
    media = world.ann.library.media("secret", media_type=kind, transcript={"segments": segments})
    for someone in (world.eve, world.spy):
        client = someone.mcp()
        assert name not in json.dumps(client.ask("prompts/list"))
        assert "error" in client.exchange("prompts/get", name=name, arguments={"thing": "x"})
        assert client.refused("prompts_get", prompt_id_or_name=name)["error"].endswith("NOT_FOUND")
        assert client.refused("media_transcript", media_id=media["id"])["error"].endswith("NOT_FOUND")
        assert kind not in client.read("media://types")
    client = world.robo.mcp()
    assert name in json.dumps(client.ask("prompts/list"))
    assert kind in client.read("media://types")
    assert client.call("media_transcript", media_id=media["id"])["content"] == "secret"


def test_numbers_are_given_out_in_each_workspace_by_itself(world: World):
    theirs = world.eve.library.media("theirs")
    assert world.eve.api.get(f"/api/media/{theirs['id']}").json()["content"] == "theirs"
    assert theirs["id"] < 50  # however many the other workspace has


@pytest.mark.parametrize("name", ["user_id", "workspace", "db_path", "client_id", "_context", "db_paths", "tenant"])
def test_no_argument_reaches_another_workspace(world: World, kept: LibraryItem, name: str):
    unique, hits = kept
    for value in ("default", "ann", {"user_id": "ann", "db_paths": {"media": "default.db"}}):
        for client in (world.spy.mcp(), world.eve.mcp()):
            assert (
                f"Unknown argument '{name}'"
                in client.refused("knowledge_search", {"query": unique, name: value})["error"]
            )
            said = client.refused("notes_get", {"note_id": hits["notes"]["id"], name: value})
            assert f"Unknown argument '{name}'" in said["error"]
    found = world.eve.api.post("/api/knowledge/search", json={"query": unique, name: "default"})
    assert found.json()["results"] == []
    found = world.eve.api.get("/api/knowledge/search", params={"q": unique, name: "default"})
    assert found.json()["results"] == []


def test_neither_address_nor_header_nor_config_reaches_another_workspace(world: World, kept: LibraryItem):
    import base64

    unique, _ = kept
    wanted = base64.b64encode(json.dumps({"workspace": "default", "user_id": "ann"}).encode()).decode()
    for query in ("?workspace=default", "?user_id=ann", "?agent=robo", f"?config={wanted}"):
        assert world.spy.mcp(query).call("knowledge_search", query=unique)["results"] == []
    headers = {"x-workspace": "default", "x-user-id": "ann"}
    found = world.eve.api.post("/api/knowledge/search", json={"query": unique}, headers=headers)
    assert found.json()["results"] == []


def test_a_session_of_searching_belongs_to_one_caller(world: World):
    world.ann.library.note(unique := word())
    session = world.ann.library.search(unique)["session_id"]
    assert world.ann.library.search(unique, session_id=session)["results"][0]["seen"] is True
    # Whoever hears of its id learns nothing from it.
    assert len(world.robo.library.search(unique, session_id=session)["results"]) == 1
    assert world.eve.library.search(unique, session_id=session)["session_id"] != session


def test_the_websocket_keeps_workspaces_apart_too(world: World, kept: LibraryItem):
    unique, hits = kept
    for someone, count in ((world.robo, 8), (world.spy, 0)):
        headers = {"authorization": f"Bearer {someone.secret}"}
        with connect(f"ws://127.0.0.1:{someone.server.port}/mcp/ws", additional_headers=headers) as socket:
            client = Websocket(socket)
            assert len(client.call("knowledge_search", query=unique)["results"]) == count
            answer = client.answer("knowledge_get", source="notes", id=hits["notes"]["id"])
            assert answer.is_error == (count == 0)


# Agents and their sessions


def test_an_agent_finds_and_opens_only_its_own_sessions(world: World, kept: LibraryItem):
    unique, hits = kept
    hit = hits["sessions"]
    mine, theirs = world.robo.mcp(), world.cyber.mcp()
    assert len(mine.call("sessions_search", query=unique)["results"]) == 1
    assert unique in mine.call("knowledge_get", source="sessions", id=hit["id"])["content"]
    assert unique in mine.call("sessions_get", session_id="s-1")["content"]
    assert unique in mine.read(hit["uri"])
    for more in ({}, {"agent": "robo"}, {"agent": "robo", "session_id": "s-1"}):
        assert theirs.call("sessions_search", query=unique, **more)["results"] == []
        asked = {"query": unique, "dedupe": False, "filters": {"sessions": more}}
        assert "sessions" not in [hit["source"] for hit in theirs.call("knowledge_search", asked)["results"]]
    for id in (hit["id"], hit["conversation_id"]):
        assert theirs.refused("knowledge_get", source="sessions", id=id)["error"].endswith("NOT_FOUND")
        assert theirs.refused("sessions_get", session_id=id)["error"].endswith("NOT_FOUND")
    assert theirs.refused("fetch", id=hit["uri"])["error"].endswith("NOT_FOUND")
    assert "error" in theirs.exchange("resources/read", uri=hit["uri"])
    assert world.cyber.api.get("/api/knowledge/open", params={"uri": hit["uri"]}).status_code == 404
    assert "sessions" not in {hit["source"] for hit in world.cyber.library.search(unique)["results"]}


def test_a_person_finds_the_sessions_of_all_agents(world: World, kept: LibraryItem):
    hits = world.ann.library.search(kept[0], sources=["sessions"], filters={"sessions": {"agent": "robo"}})
    assert len(hits["results"]) == 1
    said = world.ann.api.post(
        "/api/knowledge/search", json={"query": "x", "filters": {"sessions": {"session_id": "s-1"}}}
    )
    assert said.status_code == 400
    assert "agent" in said.text


def test_an_agent_without_a_name_sees_no_sessions(library: Library, mcp: Mcp, api: httpx.Client):
    library.turn(agent := word("agent-"), f"I said {(unique := word())}")
    (hit,) = library.search(unique)["results"]
    assert mcp.call("knowledge_search", query=unique)["results"] == []
    assert mcp.call("sessions_search", query=unique, agent=agent)["results"] == []
    assert mcp.refused("knowledge_get", source="sessions", id=hit["id"])["error"].endswith("NOT_FOUND")
    named = Mcp(api, f"/mcp?agent={agent}")
    assert [one["id"] for one in named.call("knowledge_search", query=unique)["results"]] == [hit["id"]]


# For humans only


@pytest.fixture(scope="module")
def secret(world: World) -> dict[str, Any]:
    unique = word()
    thread = Thread(world.ann.api, f"about {word()}")
    first = thread.post(f"{unique} begin", author=None, metadata={"visibility": "human_only"})
    thread.post(f"{unique} open", author=None)
    last = thread.post(f"{unique} end", author=None, metadata={"audience": "human"})
    return {"word": unique, "thread": thread, "hidden": [first, last]}


def test_an_agent_does_not_find_what_is_hidden_from_it(world: World, secret: dict[str, Any]):
    def snippets(results: list[dict[str, Any]]) -> list[str]:
        return sorted(hit["snippet"] for hit in results)

    said = sorted(f"{secret['word']} {n}" for n in ("begin", "open", "end"))
    seen = [f"{secret['word']} open"]
    assert snippets(world.ann.library.search(secret["word"])["results"]) == said
    assert snippets(world.robo.library.search(secret["word"])["results"]) == seen
    client = world.robo.mcp()
    for tool in ("knowledge_search", "bus_search"):
        assert snippets(client.call(tool, query=secret["word"])["results"]) == seen
    human = world.ann.mcp()
    assert snippets(human.call("bus_search", query=secret["word"])["results"]) == said


def test_a_title_does_not_show_how_a_hidden_message_begins(world: World, secret: dict[str, Any]):
    topic = secret["thread"].topic
    for tool in ("knowledge_search", "bus_search"):
        for hit in world.robo.mcp().call(tool, query=topic.split()[-1])["results"]:
            assert secret["word"] not in hit["snippet"]


@pytest.mark.parametrize("mode", ["snippet", "chunk", "chunk_with_siblings", "full", "auto"])
def test_opening_shows_an_agent_nothing_hidden(world: World, secret: dict[str, Any], mode: str):
    client, unique = world.robo.mcp(), secret["word"]
    client.call("knowledge_search", query=unique)
    for id in (secret["thread"].id, *(message["id"] for message in secret["hidden"])):
        for more in ({}, {"query": unique}, {"max_tokens": 500}):
            answer = client.call("knowledge_get", source="bus", id=id, retrieval={"mode": mode, **more})
            for gone in ("begin", "end"):
                assert f"{unique} {gone}" not in json.dumps(answer)
    ask = {"mode": mode, "max_tokens": 500, "sibling_window": 5}
    seen = world.ann.mcp().call("knowledge_get", source="bus", id=secret["thread"].id, retrieval=ask)
    if mode in ("chunk_with_siblings", "full", "auto"):
        assert f"{unique} end" in seen["content"]


def test_neither_pages_resources_nor_fetch_show_an_agent_what_is_hidden(world: World, secret: dict[str, Any]):
    client, unique = world.robo.mcp(), secret["word"]
    shown = [
        json.dumps(client.call("bus_get", thread_id=secret["thread"].id)),
        client.read(f"bus://{secret['thread'].id}"),
        client.read(f"bus://{secret['thread'].id}/{secret['hidden'][0]['id']}"),
        json.dumps(client.call("fetch", id=f"bus://{secret['thread'].id}")),
        json.dumps(client.call("fetch", id=f"bus://{secret['thread'].id}/{secret['hidden'][1]['id']}")),
        world.robo.api.get("/api/knowledge/open", params={"uri": f"bus://{secret['thread'].id}", "mode": "full"}).text,
    ]
    for text in shown:
        assert HIDDEN in text
        assert f"{unique} open" in text
        assert f"{unique} begin" not in text
        assert f"{unique} end" not in text
    assert f"{unique} begin" in world.ann.mcp().read(f"bus://{secret['thread'].id}")
