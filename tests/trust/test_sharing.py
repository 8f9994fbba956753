"""Whose sessions an agent reads: its own always, others' by the level of the workspace and the project."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from tests.conftest import Engine
from tests.helpers import Mcp, Server, ToolError, start_server, word
from tests.trust.people import Key, make_workspace, with_app
from tests.trust.test_hidden import READ_TOOLS, READS, alike
from tests.trust.worlds import in_path

from palaver.app import App
from palaver.store.bus import agents

LEVELS = ("agent", "person", "project")
HERE, ELSEWHERE = "/src/exporter", "/src/billing"
TURNS = "/api/v1/agents/{}/sessions/{}/messages"


@dataclass(frozen=True)
class Program:
    """A client program that works for somebody in a project of an open server."""

    server: Server
    slug: str
    agent_id: str
    secret: str
    project: str

    def call(self, tool: str, **arguments: Any) -> Any:
        with self.server.client() as api:
            mcp = Mcp(api, f"/mcp?project={self.project}" if self.project else "/mcp")
            return mcp.call(tool, agent_id=self.agent_id, token=self.secret, **arguments)

    def news(self) -> str:
        with self.server.client() as api:
            given = {"agent_id": self.agent_id, "token": self.secret}
            answer = Mcp(api, f"/mcp?project={self.project}").ask("tools/call", name="catch_up", arguments=given)
            return str(answer["content"][0]["text"])

    def hits(self, query: str, **arguments: Any) -> list[str]:
        return sorted(hit["snippet"] for hit in self.call("knowledge_search", query=query, **arguments)["results"])

    def own(self, query: str, **arguments: Any) -> list[str]:
        return [hit["content"] for hit in self.call("conversation_search_own", query=query, **arguments)["hits"]]


def program(server: Server, client: str, project: str, owner: str = "") -> Program:
    async def work(app: App) -> Program:
        here = await app.open()

        def make(change: Any) -> Program:
            agent, secret = agents.register(
                change, agents.NewAgent(word(client), client=client, project=project, owner=owner)
            )
            return Program(server, agent.slug, agent.id, secret, project)

        return await here.change(make)

    made: Program = with_app(server, work)
    return made


def say(api: httpx.Client, agent: str, text: str, project: str | None = None, session: str = "") -> str:
    """Record a turn, and return the id of its session."""
    session = session or word("s")
    body = {"role": "user", "content": text} | ({"project": project} if project else {})
    answer = api.post(TURNS.format(agent, session), json=body)
    assert answer.status_code == 201, answer.text
    return session


@pytest.fixture(scope="module")
def open_server(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_server(tmp_path_factory.mktemp(f"sharing-{engine.name}"), PALAVER_DATABASE_URL=engine.fresh()) as server:
        yield server


@pytest.fixture
def level(open_server: Server) -> Iterator[Any]:
    """Sets the level of the open server's workspace, and puts it back."""
    api = open_server.client()

    def put(name: str) -> None:
        assert api.put("/api/sharing", json={"level": name}).json() == {"level": name}

    yield put
    put("person")


def test_codex_finds_and_opens_what_claude_code_did_in_the_same_project(open_server: Server):
    claude, codex = (program(open_server, name, HERE) for name in ("claude-code", "codex"))
    unique = word()
    session = say(open_server.client(), claude.slug, f"the exporter streams {unique}", HERE)
    (hit,) = codex.call("knowledge_search", query=unique, verbose=True)["results"]
    assert hit["uri"].startswith(f"sessions://{claude.agent_id}/{session}")
    assert (hit["agent"], hit["project"]) == (claude.slug, HERE)
    assert unique in codex.call("knowledge_get", uri=hit["uri"])["content"]
    assert unique in codex.call("sessions_get", session_id=f"{claude.agent_id}/{session}")["content"]
    assert [one["uri"] for one in codex.call("sessions_search", query=unique)["results"]] == [hit["uri"]]
    assert unique in codex.news()


def test_gemini_cli_in_another_project_finds_nothing(open_server: Server):
    claude, gemini = program(open_server, "claude-code", HERE), program(open_server, "gemini-cli", ELSEWHERE)
    unique = word()
    session = say(open_server.client(), claude.slug, f"the exporter streams {unique}", HERE)
    for project in ({}, {"project": "*"}, {"project": "exporter"}, {"project": HERE}):
        answer = gemini.call("knowledge_search", query=unique, **project)
        assert answer["results"] == []
        assert "out of your reach: sharing is 'person'" in answer["hint"]
    with pytest.raises(ToolError, match="NOT_FOUND"):
        gemini.call("sessions_get", session_id=f"{claude.agent_id}/{session}")
    assert unique not in gemini.news()


def test_another_project_of_the_same_program_is_found_when_asked_for(open_server: Server):
    here, elsewhere = program(open_server, "opencode", HERE), program(open_server, "opencode", ELSEWHERE)
    unique = word()
    say(open_server.client(), elsewhere.slug, f"billing {unique}", ELSEWHERE)
    answer = here.call("knowledge_search", query=unique)
    assert answer["results"] == []
    assert "1 session in other projects matches: pass project: *" in answer["hint"]
    found = [f"billing {unique}"]
    assert here.hits(unique, project="*") == here.hits(unique, project="billing") == found
    assert here.hits(f"{unique} project:*") == here.hits(f"{unique} project:billing") == found
    assert here.own(unique) == found


def test_own_sessions_are_those_of_the_program_in_all_projects_this_project_first(open_server: Server):
    api, unique = open_server.client(), word()
    here, elsewhere = program(open_server, "cline", HERE), program(open_server, "cline", ELSEWHERE)
    other = program(open_server, "cursor", HERE)
    say(api, here.slug, f"{unique} beside many other words that are of no use", HERE)
    say(api, elsewhere.slug, unique, ELSEWHERE)
    say(api, here.slug, f"{unique} without a project")
    say(api, other.slug, f"{unique} by another program", HERE)
    assert here.own(unique)[0] == f"{unique} beside many other words that are of no use"
    assert elsewhere.own(unique)[0] == unique
    assert sorted(here.own(unique)) == sorted(elsewhere.own(unique))
    assert len(here.own(unique)) == 3
    assert here.own(unique, project="billing") == [unique]


def test_sessions_without_a_project_are_read_by_their_own_program_only(open_server: Server, level: Any):
    api, unique = open_server.client(), word()
    mine, peer = (program(open_server, name, HERE) for name in ("claude-code", "codex"))
    say(api, mine.slug, f"{unique} nowhere")
    level("project")
    assert mine.hits(unique) == [f"{unique} nowhere"]
    assert peer.hits(unique) == peer.hits(unique, project="*") == []


def test_an_agent_without_a_project_reads_its_own_sessions_only(open_server: Server, level: Any):
    api, unique = open_server.client(), word()
    other, lost = program(open_server, "claude-code", HERE), program(open_server, "codex", "")
    say(api, other.slug, unique, HERE)
    for name in LEVELS:
        level(name)
        assert lost.hits(unique, project="*") == []


def test_a_project_with_the_same_last_component_is_another_project(open_server: Server):
    """A project that palaver.toml names 'exporter' is not the one in the folder /src/exporter."""
    api, unique = open_server.client(), word()
    by_name, by_path = program(open_server, "claude-code", "exporter"), program(open_server, "codex", HERE)
    say(api, by_name.slug, f"{unique} by name", "exporter")
    say(api, by_path.slug, f"{unique} by path", HERE)
    assert by_name.hits(unique, project="*") == [f"{unique} by name"]
    assert by_path.hits(unique, project="*") == [f"{unique} by path"]


@pytest.mark.parametrize("name, found", [("agent", 1), ("person", 2), ("project", 3)])
def test_the_level_decides_how_far_an_agent_reads(open_server: Server, level: Any, name: str, found: int):
    api, unique = open_server.client(), word()
    mine, peer = (program(open_server, one, HERE) for one in ("claude-code", "codex"))
    stranger = program(open_server, "codex", HERE, owner="human:bob")
    for one in (mine, peer, stranger):
        say(api, one.slug, f"{unique} {one.slug}", HERE)
    level(name)
    expected = sorted(f"{unique} {one.slug}" for one in (mine, peer, stranger)[:found])
    assert mine.hits(unique) == mine.hits(unique, project="*") == expected
    assert mine.own(unique) == [f"{unique} {mine.slug}"]


# Two worlds


@dataclass
class World:
    """A workspace of a server with tokens, as the agent in it sees it. `name` is its name."""

    name: str
    agent: Key
    things: dict[str, Any]


QUERIES = (
    "walrus",
    "harbour",
    "zebra harbour",
    "which fleet sails?",
    "in:walrus",
    "project:secret",
    "from:rival harbour",
)


def _world(server: Server, level: str, has_others: bool) -> World:
    name = f"{level}{'with' if has_others else 'less'}"
    make_workspace(server, name)
    boss = Key(server, name, name="boss", scopes=("read", "write", "admin"))
    agent, rival = (Key(server, name, "agent", one) for one in ("scout", "rival"))
    assert boss.api.put("/api/sharing", json={"level": level}).status_code == 200
    say(agent.api, "scout", "the harbour plan", HERE, session="own")
    say(agent.api, "scout", "the harbour elsewhere", ELSEWHERE, session="far")
    say(rival.api, "rival", "the harbour of the rival", HERE, session="shared" if level == "project" else "first")
    if has_others:
        hidden = [("r1", "walrus harbour treaty", "/src/secret"), ("r2", "walrus zebra harbour", None)]
        hidden += [] if level == "project" else [("r3", "walrus harbour fleet sails", HERE)]
        for session, text, project in hidden:
            say(rival.api, "rival", text, project, session)
    things = {"agent": "rival", "agent_id": "scout", "session": "r1", "source": "sessions", "project": HERE}
    return World(name, agent, things)


def _asked(operation: Any, world: World, query: str) -> dict[str, Any] | None:
    given: dict[str, Any] = {}
    for name, about in operation.request.model_fields.items():
        if name == "query":
            given[name] = query
        elif name == "dedupe":
            given[name] = False
        elif name in ("choices", "counts", "outline"):
            given[name] = True
        elif about.is_required():
            if name not in world.things:
                return None
            given[name] = world.things[name]
    return given


def _answers(world: World, mcp: Mcp) -> dict[str, str]:
    """What the agent is told at every door that reads, by door and query."""
    found = {}
    for door, operation in READS:
        for query in QUERIES if "query" in operation.request.model_fields else ("",):
            if (given := _asked(operation, world, query)) is None:
                continue
            method, _, path = door.partition(" ")
            path, rest = in_path(path, given)
            sent: dict[str, Any] = {"params": rest} if method == "GET" else {"json": rest}
            answer = world.agent.api.request(method, path, **sent)
            found[f"{door} {query}"] = alike(world, f"{answer.status_code} {answer.text}")  # type: ignore[arg-type]
    for name, operation in READ_TOOLS:
        for query in QUERIES if "query" in operation.request.model_fields else ("",):
            if (given := _asked(operation, world, query)) is not None:
                result = mcp.ask("tools/call", name=name, arguments=given)
                text = f"{result.get('isError')} {result['content'][0]['text']}"
                found[f"{name} {query}"] = alike(world, text)  # type: ignore[arg-type]
    for operator in ("in", "project", "from"):
        answer = world.agent.api.get("/api/knowledge/complete", params={"operator": operator, "text": ""})
        found[f"complete {operator}"] = alike(world, answer.text)  # type: ignore[arg-type]
    return found


@pytest.mark.examples(1)
@pytest.mark.parametrize("level", LEVELS)
def test_sessions_out_of_reach_change_no_answer_at_any_door(guarded: Server, level: str):
    worlds = [_world(guarded, level, has_others) for has_others in (True, False)]
    told = [_answers(one, Mcp(one.agent.api, f"/mcp?tools=all&project={HERE}")) for one in worlds]
    different = {door: (told[0][door], told[1][door]) for door in told[0] if told[0][door] != told[1][door]}
    assert different == {}
    assert len(told[0]) > 100
    found = worlds[0].agent
    seen = found.mcp.call("knowledge_search", query="rival harbour", project="*")["results"]
    assert "walrus" not in json.dumps(seen)
    listed = found.api.get("/api/v1/sessions").json()["sessions"]
    assert {one["session_id"] for one in listed} >= {"own", "far"}


def test_an_empty_answer_counts_what_is_out_of_reach_whatever_was_asked(guarded: Server):
    make_workspace(guarded, "counting")
    mine, other = (Key(guarded, "counting", "agent", name) for name in ("scout", "rival"))
    for number in range(3):
        say(other.api, "rival", f"walrus number{number}", HERE)

    def hint(query: str) -> str:
        answer = mine.api.get("/api/knowledge/search", params={"q": query}).json()
        assert answer["results"] == []
        return str(re.sub(r"^.*?(?=\d+ session)", "", answer["hint"]))

    assert hint("walrus") == hint("zebra") == "3 sessions of others are out of your reach: sharing is 'person'."
    assert "walrus" not in hint("walrus")


# The setting


def test_only_people_with_the_admin_scope_change_the_level(guarded: Server):
    make_workspace(guarded, "levels")
    boss = Key(guarded, "levels", name="boss", scopes=("read", "write", "admin"))
    others = [
        Key(guarded, "levels", name="ann"),
        Key(guarded, "levels", "agent", "scout", scopes=("read", "write", "admin")),
    ]
    for other in others:
        assert other.api.put("/api/sharing", json={"level": "project"}).status_code == 403
        assert other.api.get("/api/sharing").json() == {"level": "person"}
    assert boss.api.put("/api/sharing", json={"level": "agent"}).json() == {"level": "agent"}
    assert boss.api.put("/api/sharing", json={"level": "everybody"}).status_code == 422
    assert others[0].api.get("/api/sharing").json() == {"level": "agent"}
