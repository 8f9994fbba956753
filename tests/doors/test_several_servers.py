"""Clients whose requests go to several servers on one database, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.conftest import Engine
from tests.helpers import EVERYTHING, Mcp, Thread, start_server, word


@dataclass
class InTurns:
    """A client behind a proxy that sends each request to the next server."""

    clients: list[httpx.Client]

    def __post_init__(self) -> None:
        self.asked = 0

    @property
    def next(self) -> httpx.Client:
        self.asked += 1
        return self.clients[self.asked % len(self.clients)]

    def post(self, path: str, **given: Any) -> httpx.Response:
        return self.next.post(path, **given)

    def get(self, path: str, **given: Any) -> httpx.Response:
        return self.next.get(path, **given)


@pytest.fixture(scope="module")
def clients(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[httpx.Client]]:
    url, home = engine.fresh(), tmp_path_factory.mktemp("several")
    with (
        start_server(home, PALAVER_DATABASE_URL=url) as one,
        start_server(home, PALAVER_DATABASE_URL=url) as other,
        one.client() as here,
        other.client() as there,
    ):
        yield [here, there]


@pytest.fixture
def proxy(clients: list[httpx.Client]) -> InTurns:
    return InTurns(clients)


class Prefers(Mcp):
    """A client that sends preferences with its initialize message."""

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        if method == "initialize":
            params["config"] = {"snippet_length": 60}
        return super().ask(method, **params)


def mcp(proxy: InTurns, kind: type[Mcp] = Mcp) -> Mcp:
    return kind(proxy, EVERYTHING)  # type: ignore[arg-type]


def write_notes(api: httpx.Client, topic: str, count: int) -> None:
    for number in range(count):
        made = api.post("/api/notes", json={"title": f"{topic} {number}", "content": f"{topic} is note {number}."})
        assert made.status_code == 201, made.text


def test_results_that_one_server_showed_are_left_out_by_the_other(proxy: InTurns, clients: list[httpx.Client]):
    topic = word()
    write_notes(clients[0], topic, 6)
    session, shown = dict[str, str](), list[str]()
    for _ in range(3):
        answer = proxy.get("/api/knowledge/search", params={"q": topic, "limit": 2, **session}).json()
        session = {"session_id": answer["session_id"]}
        shown += [one["uri"] for one in answer["results"]]
    assert len(set(shown)) == 6
    assert proxy.get("/api/knowledge/search", params={"q": topic, **session}).json()["results"][0]["seen"] is True


def test_pages_of_one_search_come_from_several_servers(proxy: InTurns, clients: list[httpx.Client]):
    topic = word()
    write_notes(clients[0], topic, 6)
    asked: dict[str, Any] = {"q": topic, "limit": 2}
    pages = []
    for _ in range(3):
        answer = proxy.get("/api/knowledge/search", params=asked).json()
        pages.append([one["uri"] for one in answer["results"]])
        asked |= {"session_id": answer["session_id"], "offset": answer["next_offset"]}
    assert [len(page) for page in pages] == [2, 2, 2]
    assert len({uri for page in pages for uri in page}) == 6
    assert answer["suppressed"] == 0


def test_the_search_session_of_an_mcp_session_is_known_to_all_servers(proxy: InTurns, clients: list[httpx.Client]):
    topic = word()
    write_notes(clients[0], topic, 4)
    client = mcp(proxy)
    found = [client.call("knowledge_search", query=topic, limit=2)["results"] for _ in range(2)]
    assert len({one["uri"] for some in found for one in some}) == 4


def test_a_note_is_opened_where_it_matches_the_search_that_another_server_answered(
    proxy: InTurns, clients: list[httpx.Client]
):
    rare, filler = word(), "Some words that say little. " * 600
    note = clients[0].post("/api/notes", json={"title": "long", "content": f"{filler}{rare} is here. {filler}"}).json()
    for tool in ("knowledge_search", "notes_search"):
        client = mcp(proxy)
        assert client.call(tool, query=rare)["results"]
        opened = client.call("notes_get", note_id=note["id"])
        assert rare in str(opened["content"])


def test_an_mcp_session_has_its_agent_and_its_program_on_every_server(proxy: InTurns, clients: list[httpx.Client]):
    thread, client = Thread(clients[0]), mcp(proxy)
    for _ in range(3):
        agent = client.call("bus_connect", thread_name=thread.topic, display_name=word())["agent"]
        for _ in range(3):
            posted = client.call("msg_post", thread_id=thread.id, content="hi")
            assert posted["author_id"] == agent["agent_id"]
    (known,) = [one for one in clients[0].get("/api/agents").json() if one["id"] == agent["agent_id"]]
    assert known["client"] == "tests"


def test_preferences_of_the_initialize_message_are_known_to_every_server(proxy: InTurns, clients: list[httpx.Client]):
    topic = word()
    write_notes(clients[0], topic, 1)
    clients[0].post("/api/notes", json={"title": topic, "content": f"{topic} " + "and so on " * 100})

    client = mcp(proxy, Prefers)
    for _ in range(4):
        results = client.call("knowledge_search", query=topic, dedupe=False)["results"]
        assert all(len(one["snippet"].replace("<mark>", "").replace("</mark>", "")) <= 62 for one in results)


def test_an_mcp_session_that_was_ended_on_one_server_is_not_continued_by_another(clients: list[httpx.Client]):
    client = Mcp(clients[0])
    assert clients[0].request("DELETE", "/mcp", headers=client.headers).status_code == 200
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    for one in clients:
        assert one.post("/mcp", json=asked, headers=client.headers).status_code == 404


@pytest.mark.parametrize("ending", [0, 1])
def test_all_servers_know_at_once_that_an_mcp_session_has_ended(clients: list[httpx.Client], ending: int):
    client = Mcp(clients[0])
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    for one in clients:  # both have it in memory now
        assert one.post("/mcp", json=asked, headers=client.headers).status_code == 200
    assert clients[ending].request("DELETE", "/mcp", headers=client.headers).status_code == 200
    for one in clients:
        assert one.post("/mcp", json=asked, headers=client.headers).status_code == 404
        assert one.request("DELETE", "/mcp", headers=client.headers).status_code == 404


def test_any_server_can_end_an_mcp_session(clients: list[httpx.Client]):
    client = Mcp(clients[0])
    assert clients[1].request("DELETE", "/mcp", headers=client.headers).status_code == 200
    asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    assert clients[1].post("/mcp", json=asked, headers=client.headers).status_code == 404


def test_a_server_without_the_shared_folder_says_so(engine: Engine, tmp_path: Path):
    url = engine.fresh()
    with (
        start_server(tmp_path / "one", PALAVER_DATABASE_URL=url) as one,
        start_server(tmp_path / "other", PALAVER_DATABASE_URL=url) as other,
        one.client() as here,
        other.client() as there,
    ):
        turn = {"role": "user", "content": word()}
        assert here.post("/api/v1/agents/bot/sessions/s/messages", json=turn).status_code == 201
        assert here.get("/readyz").status_code == 200
        answer = there.get("/readyz")
        assert answer.status_code == 503
        assert "1 of 1 transcripts are missing" in answer.text
