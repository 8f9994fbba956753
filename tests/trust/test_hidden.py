"""What an agent may not read takes no part in anything it can ask.

Two workspaces are filled alike, but for what is hidden from an agent: the words of a human-only message, other agents'
sessions, and what was deleted. Everything the agent asks, through every door, has the same answer in both.

Others differ in how many texts are hidden, how long they are and how old. An agent sees in lists that messages are
hidden, but no search tells it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest
from tests.helpers import Thread, listen
from tests.trust.people import Key, make_workspace
from tests.trust.policy import ROUTES, TOOLS
from tests.trust.worlds import in_path

from palaver.operations import OPERATIONS
from palaver.operations.operation import Operation

HUMAN_ONLY = {"visibility": "human_only"}
HIDDEN = {
    "hidden1": "walrus treaty zebra sails tuesday with the tangerine fleet",
    "hidden2": "quartz lantern",
}
WORDS = ["harbour", "zebra mango", "juniper", "berries and other things", "ships of the port sail in a week"]
QUERIES = [
    "walrus", "tang*", "t*", "quartz OR zebra", "zebra OR mango", "mango OR zebra", "lantern OR mango", "harbour",
    "harbour NOT walrus", "NEAR(harbour zebra, 9)", "which fleet sails on tuesday?", "when does the harbour open?",
    "zebra mango harbour", "treaty", "what did boss say about zebra?", "messages by rival about the harbour",
    "what was said today?", "what happened today?", "today", "this week",
    "walrsu harbour", "quarzt", "which fleeet sails?", "zbera mango",
]  # fmt: skip


@dataclass
class World:
    """One workspace as the agent in it sees it."""

    name: str
    agent: Key
    things: dict[str, Any]


@pytest.fixture(scope="module")
def worlds(guarded: Any) -> list[World]:
    return [_world(guarded, name, text) for name, text in HIDDEN.items()]


@dataclass(frozen=True)
class Crowd:
    """Texts that are hidden from the agent, besides those of every world."""

    older: int = 0
    newer: int = 0
    length: int = 1
    """How many times the words are repeated."""


NOBODY = Crowd()
CROWDS = {
    "crowd1": NOBODY,
    "crowd2": Crowd(newer=1),
    "crowd3": Crowd(older=500, length=20),
    "crowd4": Crowd(newer=500),
}


@pytest.fixture(scope="module")
def crowds(guarded: Any) -> list[World]:
    return [_world(guarded, name, HIDDEN["hidden1"], crowd) for name, crowd in CROWDS.items()]


def _world(server: Any, name: str, hidden: str, crowd: Crowd = NOBODY) -> World:
    make_workspace(server, name)
    boss = Key(server, name, name="boss", scopes=("read", "write", "admin"))
    agent, other = Key(server, name, "agent", "scout"), Key(server, name, "agent", "rival")

    def make(key: Key, path: str, **body: Any) -> Any:
        answer = key.api.post(path, json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()

    def hide(count: int, year: int, where: Thread) -> None:
        """Post human-only messages, and record turns of another agent."""
        for number in range(count):
            text = f"{' '.join([WORDS[number % len(WORDS)]] * crowd.length)} number{number}"
            where.post(text, author=None, metadata=HUMAN_ONLY)
            if number % 5 == 0:
                turn = {"role": "user", "content": text, "ts": f"{year}-01-02T00:00:00Z"}
                make(other, turns.format("rival", f"s{year}"), **turn)

    turns = "/api/v1/agents/{}/sessions/{}/messages"
    room = Thread(boss.api, "closed room")
    hide(crowd.older, 2001, room)
    thread = Thread(boss.api, "the harbour")
    for text in ("the harbour opens at nine", "zebra crossing", "mango juice", "is the harbour open? zebra", "mango"):
        said = thread.post(text, author=None)
    secret = thread.post(
        f"harbour {hidden}", author=None, metadata=HUMAN_ONLY, mentions=["scout"] if "z" in hidden else []
    )
    boss.api.put(f"/api/messages/{secret['id']}", json={"content": f"harbour: {hidden} indeed"})
    thread.post("yes, it is", author=None)
    gone = thread.post(f"gone {hidden}", author=None)
    boss.api.delete(f"/api/messages/{gone['id']}")
    for number in range(len(hidden) // 10):
        turn = {"role": "user", "content": f"zebra harbour {hidden}", "project": f"/src/{hidden.split()[0]}"}
        make(other, turns.format("rival", f"r{number}"), **turn)
    for text in ("the harbour plan", "zebra or mango", "mango plan"):
        make(agent, turns.format("scout", "own"), role="user", content=text)
    note = make(boss, "/api/notes", title="harbour notes", content="zebra and mango at the harbour", keywords=["port"])
    lost = make(boss, "/api/notes", title=f"lost {hidden}", content=hidden * 3, keywords=["gone"])
    boss.api.delete(f"/api/notes/{lost['id']}")
    if name in CROWDS:  # more than are read for one search
        for number in range(130):
            text = " ".join(["juniper berries", *["and other things"] * (number * 7 % 11), *["berries"] * (number % 3)])
            make(boss, "/api/notes", title=f"plan {number}", content=text, created_at=f"2019-03-{number % 28 + 1:02}")
    hide(crowd.newer, 2030, thread)
    return World(
        name,
        agent,
        {
            "thread_id": thread.id,
            "message_id": secret["id"],
            "agent_id": "scout",
            "agent": "scout",
            "for_agent": "scout",
            "session": "r0",
            "session_id": None,
            "note_id": lost["id"],
            "id": note["id"],
            "source": "notes",
            "uri": f"bus://{thread.id}",
            "last": said["seq"],
            "timeout_ms": 0,
            "dedupe": False,
        },
    )


_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{8,40}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?[.\d]*(Z|\+00:00)?")
_OUT_OF_REACH = re.compile(r" \d+ sessions? of others (is|are) out of your reach: sharing is '\w+'\.")
_TOKEN = re.compile(r'("reply_token": ?")[^"]+')


def alike(world: World, answer: str) -> str:
    """An answer without what is never the same: ids are numbered in the order they come in, times are all one. An
    empty answer may tell how many sessions are out of reach, whatever was asked."""
    numbers: dict[str, str] = {}
    answer = _OUT_OF_REACH.sub("", answer)
    text = _TIME.sub("TIME", _TOKEN.sub(r"\1", answer)).replace(world.name, "WORLD")
    return _ID.sub(lambda found: numbers.setdefault(found[0], f"ID{len(numbers)}"), text)


def asked(operation: Operation, world: World, query: str) -> dict[str, Any] | None:
    """What to ask: everything the operation must be told. None where this world has nothing to give."""
    given: dict[str, Any] = {}
    for name, about in operation.request.model_fields.items():
        if name == "query":
            given[name] = query
        elif world.things.get(name) is not None and (
            about.is_required() or name in ("for_agent", "timeout_ms", "dedupe")
        ):
            given[name] = world.things[name]
        elif about.is_required():
            return None
    return given


READS = [
    (f"{route.method} {route.path}", operation)
    for operation in OPERATIONS
    for route in operation.routes
    if ROUTES[f"{route.method} {route.path}"] == "read"
]
READ_TOOLS = [
    (tool.name, operation) for operation in OPERATIONS for tool in operation.tools if TOOLS[tool.name] == "read"
]


def queries_of(operation: Operation, half: int) -> list[str]:
    """Half of the queries: routes ask one half and tools the other, so that each operation is asked all of them."""
    return QUERIES[half::2] if "query" in operation.request.model_fields else [""]


def _answer(world: World, door: str, given: dict[str, Any]) -> str:
    method, _, path = door.partition(" ")
    path, rest = in_path(path, given)
    body = None if method == "GET" else rest
    answer = world.agent.api.request(method, path, params=None if body else rest, json=body)
    return alike(world, f"{answer.status_code} {answer.text}")


def test_no_route_tells_an_agent_of_what_is_hidden(worlds: list[World]):
    answered = 0
    for door, operation in READS:
        for query in queries_of(operation, 0):
            answers = []
            for world in worlds:
                if (given := asked(operation, world, query)) is None:
                    continue
                answers.append(_answer(world, door, given))
            assert len(set(answers)) <= 1, (door, query, answers)
            answered += len(answers) == 2 and answers[0].startswith("200")
    assert answered > 30


def test_no_tool_tells_an_agent_of_what_is_hidden(worlds: list[World]):
    clients, answered = [world.agent.mcp for world in worlds], 0
    for name, operation in READ_TOOLS:
        for query in queries_of(operation, 1):
            answers = []
            for world, mcp in zip(worlds, clients, strict=True):
                if (given := asked(operation, world, query)) is None:
                    continue
                answer = mcp.ask("tools/call", name=name, arguments=given)
                answers.append(alike(world, f"{answer.get('isError')} {answer['content'][0]['text']}"))
            assert len(set(answers)) <= 1, (name, query, answers)
            answered += len(answers) == 2
    assert answered > 75


@pytest.mark.parametrize("query", ["walrus", "quartz lantern", "which fleet sails on tuesday?", "zebra mango"])
def test_opening_a_thread_by_words_does_not_lead_to_what_is_hidden(worlds: list[World], query: str):
    answers = []
    for world in worlds:
        retrieval = {"query": query, "mode": "chunk_with_siblings", "sibling_window": 1}
        answer = world.agent.mcp.call("knowledge.get", source="bus", id=world.things["thread_id"], retrieval=retrieval)
        answers.append(alike(world, json.dumps(answer)))
    assert answers[0] == answers[1]


TYPED = ["wal", "tan", "ta", "zebra ta", "qu", "from:boss harbour", "from:rival zebra", "from:user", "from:boss", "has:code",
         "in:harbour", "in:harbour zebra", "in:r0 zebra", "in:walrus", "project:walrus", "project:quartz zebra",
         "source:sessions", "source:sessions zebra", "after:2020", "after:2020 wal", "before:tomorrow"]  # fmt: skip


def test_operators_counts_and_unfinished_words_tell_nothing_of_what_is_hidden(worlds: list[World]):
    for query in (*QUERIES, *TYPED):
        answers = []
        for world in worlds:
            body = {"query": query, "as_you_type": True, "counts": True, "dedupe": False, "limit": 100}
            answer = world.agent.api.post("/api/knowledge/search", json=body)
            assert answer.status_code == 200, answer.text
            answers.append(alike(world, answer.text))
        assert answers[0] == answers[1], query
    found = worlds[0].agent.api.post("/api/knowledge/search", json={"query": "harbour", "counts": True}).json()
    assert found["counts"]["sources"] == {"bus": 3, "sessions": 1, "notes": 1}


def test_words_of_hidden_texts_are_never_suggested_for_misspelt_ones(worlds: list[World], guarded: Any):
    """Nor does a hidden text make a word known, and so keep it from being read as another."""

    def read_as(key: Key, query: str) -> dict[str, str] | None:
        answer = key.api.get("/api/knowledge/search", params={"q": query, "dedupe": "false"})
        assert answer.status_code == 200, answer.text
        return answer.json()["read_as"]

    boss = Key(guarded, worlds[0].name, name="boss", scopes=("read", "write", "admin"))
    assert read_as(boss, "walrsu") == {"walrsu": "walrus"}
    assert read_as(worlds[0].agent, "walrsu") is None
    assert read_as(worlds[0].agent, "harbuor") == {"harbuor": "harbour"}
    thread = Thread(boss.api, "misspelt")
    thread.post("the harboor is closed", author=None, metadata=HUMAN_ONLY)
    assert read_as(boss, "harboor") is None
    assert read_as(worlds[0].agent, "harboor") == {"harboor": "harbour"}
    boss.api.delete(f"/api/threads/{thread.id}")


SEARCHES = [
    (f"{route.method} {route.path}", operation)
    for operation in OPERATIONS
    for route in operation.routes
    if ROUTES[f"{route.method} {route.path}"] == "read" and "query" in operation.request.model_fields
]
COUNTED = ["zebra OR mango", "harbour", "which fleet sails on tuesday?", "zebra mango harbour", "what happened today?", "juniper berries",
           "berries things", "where are juniper berries?", "what other things are in the plan of march 2019?", "jun", "from:boss harbour",
           "in:harbour zebra", "after:2020", "source:sessions"]  # fmt: skip


def test_no_search_tells_how_many_texts_are_hidden(crowds: list[World]):
    for door, operation in SEARCHES:
        for query in COUNTED:
            asks = [(world, asked(operation, world, query)) for world in crowds]
            answers = {_answer(world, door, given) for world, given in asks if given is not None}
            assert len(answers) <= 1, (door, query, answers)


def test_counts_and_unfinished_words_do_not_tell_how_many_texts_are_hidden(crowds: list[World]):
    for query in COUNTED:
        body = {"query": query, "as_you_type": True, "counts": True, "dedupe": False, "limit": 100}
        found = [world.agent.api.post("/api/knowledge/search", json=body) for world in crowds]
        assert {one.status_code for one in found} == {200}
        assert len({alike(world, one.text) for world, one in zip(crowds, found, strict=True)}) == 1, query


def test_completion_tells_nothing_of_what_is_hidden(worlds: list[World], guarded: Any):
    def values(key: Key, **params: str) -> list[str]:
        answer = key.api.get("/api/knowledge/complete", params=params)
        assert answer.status_code == 200, answer.text
        return [one["value"] for one in answer.json()]

    for operator in ("from", "in", "project", "source", "has", "before", "after"):
        for text in ("", "w", "q", "h", "t", "z", "lo", "walrus", "quartz", "r"):
            first, second = (values(world.agent, operator=operator, text=text) for world in worlds)
            assert first == second, (operator, text)
    agent, person = worlds[0].agent, Key(guarded, "hidden1", name="pat")
    assert values(agent, operator="project", text="") == []
    assert values(person, operator="project", text="") == ["walrus"]
    assert "boss" in values(agent, operator="from", text="bo")
    assert "the harbour" in values(agent, operator="in", text="harb")


def test_connecting_and_the_event_stream_are_the_same(worlds: list[World]):
    answers = []
    for world in worlds:
        connected = world.agent.mcp.call("bus_connect", thread_name="the harbour", after_seq=0)
        with listen(world.agent.api, after=0) as listener:
            told = [(one.type, one.data) for one in listener.until(lambda one: one.type == "msg.delete")]
        transcript = world.agent.mcp.read(f"chat://threads/{world.things['thread_id']}/transcript")
        answers.append(alike(world, json.dumps([connected, told, transcript])))
    assert answers[0] == answers[1]


def test_a_person_still_finds_all_of_it(guarded: Any, worlds: list[World]):
    person = Key(guarded, "hidden1", name="pat")
    (hit,) = person.api.get("/api/search", params={"q": "tang*"}).json()["results"]
    assert "<mark>tangerine</mark>" in hit["snippet"]
    found = person.api.get("/api/knowledge/search", params={"q": "tangerine fleet"}).json()["results"]
    assert {one["source"] for one in found} >= {"bus", "sessions"}
