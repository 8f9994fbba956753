"""Sessions of searching: what was shown is not shown again. What a client prefers. Deep research."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from mcp.client.client import Client
from mcp_types import Implementation
from tests.conftest import Engine
from tests.helpers import Mcp, Server, start_server, word
from tests.library_items import SOURCES, Library
from tests.mcp_clients import DOORS, Websocket, through
from websockets.sync.client import connect


def uris(answer: dict[str, Any]) -> list[str]:
    return [hit["uri"] for hit in answer["results"]]


def config(**wanted: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(wanted).encode()).decode().rstrip("=")


@pytest.fixture(scope="module")
def five(library: Library) -> tuple[str, str]:
    """A word that five notes have, and one that only two of them have."""
    many, few = word(), word()
    for n in range(5):
        library.note(f"{many} {few if n < 2 else ''} " + "x " * n)
    return many, few


# Dedupe


@pytest.fixture(scope="module")
def twenty(library: Library) -> list[str]:
    """Words that all of twenty notes have."""
    all_have = [word() for _ in range(5)]
    for _ in range(20):
        library.note(" ".join(all_have))
    return all_have


def test_searches_at_the_same_time_show_different_results(mcp: Mcp, twenty: list[str]):
    def ask(number: int) -> dict[str, Any]:
        same = copy(mcp)  # of the same session, with request ids of its own
        same._ids = 100 * (number + 1)
        return dict(same.call("knowledge_search", query=twenty[number], limit=5))

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, range(4)))
    shown = [uri for answer in answers for uri in uris(answer)]
    assert len(shown) == len(set(shown)) == 20
    assert sorted(answer["suppressed"] for answer in answers) == [0, 5, 10, 15]


def test_so_do_searches_that_name_their_session(api: httpx.Client, twenty: list[str]):
    def ask(query: str, **more: Any) -> dict[str, Any]:
        return dict(api.get("/api/knowledge/search", params={"q": query, "limit": 4, **more}).raise_for_status().json())

    first = ask(twenty[0])
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda one: ask(one, session_id=first["session_id"]), twenty[1:]))
    shown = [uri for answer in (first, *answers) for uri in uris(answer)]
    assert len(shown) == len(set(shown)) == 20


@pytest.mark.on_postgres(door=["stdio"])
@pytest.mark.parametrize("door", ["http-2025", "websocket", "sse", "stdio"])
def test_a_session_is_shown_nothing_twice(server: Server, api: httpx.Client, five: tuple[str, str], door: str):
    many, few = five
    with through(door, server, api) as client:
        first = client.call("knowledge_search", query=few)
        assert len(first["results"]) == 2
        assert first["suppressed"] == 0
        second = client.call("knowledge_search", query=many)
        assert len(second["results"]) == second["total_estimated"] == 3
        assert second["suppressed"] == 2
        assert "dedupe: false" in second["hint"]
        assert not any("seen" in hit for hit in first["results"] + second["results"])
        assert not set(uris(first)) & set(uris(second))
        # All has been seen: it is shown again, and the answer says so.
        third = client.call("knowledge_search", query=many)
        assert set(uris(third)) == set(uris(first)) | set(uris(second))
        assert (third["suppressed"], third["has_more"], third["next_offset"]) == (0, False, None)
        assert third["total_estimated"] == 5
        assert all(hit["seen"] is True for hit in third["results"])
        assert "shown again" in third["hint"]
        if door == "stdio":  # whose connection has no id that the client knows: the answers say one
            named = client.call("knowledge_search", query=many, session_id=first["session_id"])
            assert (named["session_id"], named["hint"]) == (third["session_id"], third["hint"])
    with through(door, server, api) as client:  # another session has seen nothing
        assert len(client.call("knowledge_search", query=many)["results"]) == 5


@pytest.mark.parametrize("door", ["http-2026", "rest"])
def test_a_session_id_keeps_a_session_for_clients_without_one(
    server: Server, api: httpx.Client, five: tuple[str, str], door: str
):
    many, few = five

    def search(client: Any, **ask: Any) -> dict[str, Any]:
        if door == "rest":
            return dict(api.post("/api/knowledge/search", json=ask).json())
        return dict(client.call("knowledge_search", ask))

    with through(door if door != "rest" else "http-2026", server, api) as client:
        first = search(client, query=few)
        session = first["session_id"]
        assert session
        second = search(client, query=many, session_id=session)
        assert second["session_id"] == session
        assert (len(second["results"]), second["suppressed"]) == (3, 2)
        again = search(client, query=many, session_id=session)
        assert [hit["seen"] for hit in again["results"]] == [True] * 5
        without = search(client, query=many)
        assert len(without["results"]) == 5
        assert without["session_id"] != session


def test_the_server_makes_the_session_ids(api: httpx.Client, five: tuple[str, str]):
    made_up = word("mine")
    answers = [api.post("/api/knowledge/search", json={"query": five[0], "session_id": made_up}).json() for _ in "ab"]
    assert [len(answer["results"]) for answer in answers] == [5, 5]
    assert made_up not in [answer["session_id"] for answer in answers]


def test_an_agents_session_is_not_a_persons(api: httpx.Client, server: Server, five: tuple[str, str]):
    session = api.post("/api/knowledge/search", json={"query": five[0]}).json()["session_id"]
    with through("http-2026", server, api) as client:
        theirs = client.call("knowledge_search", query=five[0], session_id=session)
    assert len(theirs["results"]) == 5
    assert theirs["session_id"] != session


def test_only_what_was_returned_counts_as_seen(mcp: Mcp, five: tuple[str, str]):
    first = mcp.call("knowledge_search", query=five[0], limit=2)
    assert (len(first["results"]), first["total_estimated"], first["next_offset"]) == (2, 5, 2)
    second = mcp.call("knowledge_search", query=five[0], limit=2)
    assert (second["suppressed"], second["total_estimated"]) == (2, 3)
    assert not set(uris(first)) & set(uris(second))


def test_paging_inside_one_query_is_not_broken(mcp: Mcp, five: tuple[str, str]):
    whole = uris(mcp.call("knowledge_search", query=five[0], dedupe=False))
    mcp.call("knowledge_search", query=five[1], limit=1)
    found: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = mcp.call("knowledge_search", query=five[0], limit=2, offset=offset)
        assert (page["suppressed"], page["total_estimated"]) == (1, 4)
        found += uris(page)
        offset = page["next_offset"]
    assert len(found) == len(set(found)) == 4
    assert set(found) < set(whole)
    again = mcp.call("knowledge_search", query=five[0], limit=2, offset=2)  # the same page once more
    assert uris(again) == found[2:]
    # By now all of them were shown. Shown again they are paged through like any others.
    found, offset = [], 0
    while offset is not None:
        page = mcp.call("knowledge_search", query=five[0], limit=2, offset=offset)
        assert (page["suppressed"], page["total_estimated"]) == (0, 5)
        assert "shown again" in page["hint"]
        assert all(hit["seen"] for hit in page["results"])
        found += uris(page)
        offset = page["next_offset"]
    assert found == whole


def test_two_searches_may_be_paged_through_by_turns(library: Library, mcp: Mcp):
    one, other = word(), word()
    for n in range(6):
        library.note(f"{one} {n}")
    library.note(other)
    found = uris(mcp.call("knowledge_search", query=one, limit=2))
    for offset in (2, 4):
        mcp.call("knowledge_search", query=other if offset == 2 else f"{other} {one}", limit=1)
        page = mcp.call("knowledge_search", query=one, limit=2, offset=offset)
        assert page["total_estimated"] == 6
        found += uris(page)
    assert len(set(found)) == 6


def test_scores_do_not_change_when_some_have_been_seen(mcp: Mcp, five: tuple[str, str]):
    fresh = {hit["uri"]: hit["score"] for hit in mcp.call("knowledge_search", query=five[0], dedupe=False)["results"]}
    mcp.call("knowledge_search", query=five[0], limit=1)
    for hit in mcp.call("knowledge_search", query=five[0])["results"]:
        assert hit["score"] == fresh[hit["uri"]]


def test_dedupe_false_neither_hides_nor_remembers(mcp: Mcp, five: tuple[str, str]):
    for _ in range(2):
        answer = mcp.call("knowledge_search", query=five[0], dedupe=False)
        assert (len(answer["results"]), answer["suppressed"]) == (5, 0)
    mcp.call("knowledge_search", query=five[0])
    assert len(mcp.call("knowledge_search", query=five[0], dedupe=False)["results"]) == 5


def test_only_knowledge_search_dedupes(mcp: Mcp, five: tuple[str, str]):
    mcp.call("knowledge_search", query=five[0])
    for _ in range(2):
        assert len(mcp.call("notes_search", query=five[0])["results"]) == 5
    fresh = Mcp(mcp._client)
    fresh.call("notes_search", query=five[0])
    assert len(fresh.call("knowledge_search", query=five[0])["results"]) == 5


def test_two_hits_of_one_conversation_are_two_results(library: Library, mcp: Mcp):
    library.chat(f"{(unique := word())} one", f"{unique} two")
    assert len(mcp.call("knowledge_search", query=unique, limit=1)["results"]) == 1
    second = mcp.call("knowledge_search", query=unique)
    assert (len(second["results"]), second["suppressed"]) == (1, 1)


def test_initialize_gives_a_session_and_delete_ends_it(api: httpx.Client, five: tuple[str, str]):
    client = Mcp(api)
    assert client.headers["mcp-session-id"]
    client.call("knowledge_search", query=five[0])
    assert "shown again" in client.call("knowledge_search", query=five[0])["hint"]
    assert api.request("DELETE", "/mcp", headers=client.headers).status_code in (200, 202, 204)
    assert client.send({"id": 9, "method": "tools/list", "params": {}}).status_code == 404
    assert len(Mcp(api).call("knowledge_search", query=five[0])["results"]) == 5


@pytest.mark.parametrize("where", ["headers", "params"])
def test_whoever_names_a_session_when_it_begins_gets_one(api: httpx.Client, where: str):
    """Create and return one for first-time sessions."""
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    accept = {"Accept": "application/json, text/event-stream"}
    named: dict[str, Any] = {"headers": accept, "params": {}}
    named[where] = named[where] | {"mcp-session-id": "one-of-my-own"}
    begun = api.post("/mcp", json=body, **named)
    assert (begun.status_code, bool(begun.headers.get("mcp-session-id"))) == (200, True)
    later = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    session = {"mcp-session-id": begun.headers["mcp-session-id"], "mcp-protocol-version": "2025-06-18"}
    assert api.post("/mcp", json=later, headers=accept | session).status_code == 200
    assert begun.headers["mcp-session-id"] != "one-of-my-own"


def test_the_session_may_stand_in_the_address(api: httpx.Client, five: tuple[str, str]):
    client = Mcp(api)
    client.call("knowledge_search", query=five[0])
    session = client.headers.pop("mcp-session-id")
    client._path = f"/mcp?mcp-session-id={session}"
    assert "shown again" in client.call("knowledge_search", query=five[0])["hint"]
    assert api.request("DELETE", client._path, headers=client.headers).status_code in (200, 202, 204)


# Settings of the server


@pytest.fixture(scope="module")
def settled(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with its own settings: sessions are over at once, links lead elsewhere, deep research is on."""
    env: dict[str, Any] = {
        "PALAVER_SESSION_TTL": "0",
        "PALAVER_PUBLIC_URL": "https://talk.example.org/palaver/",
        "PALAVER_PROFILE": "deep-research",
        "PALAVER_SESSIONS_INDEX": "off",
        "PALAVER_TOOL_NAMES": "dotted",
    }
    home = tmp_path_factory.mktemp(f"settled-{engine.name}")
    with start_server(home, PALAVER_DATABASE_URL=engine.fresh(), **env) as server:
        yield server


def test_a_session_forgets_after_its_time(settled: Server):
    with settled.client() as api:
        Library(api).note(unique := word())
        client = Mcp(api)
        for _ in range(2):
            answer = client.call("knowledge_search", query=unique)
            assert (len(answer["results"]), answer["suppressed"]) == (1, 0)
        session = api.post("/api/knowledge/search", json={"query": unique}).json()["session_id"]
        later = api.post("/api/knowledge/search", json={"query": unique, "session_id": session}).json()
        assert len(later["results"]) == 1
        assert later["session_id"] != session


def test_a_source_that_is_off_is_reported_and_the_others_answer(settled: Server):
    with settled.client() as api:
        Library(api).note(unique := word())
        client = Mcp(api)
        answer = client.call("knowledge.search", query=unique, dedupe=False)
        assert len(answer["results"]) == 1
        assert list(answer["errors"]) == ["sessions"]
        assert client.call("knowledge.search", query=unique, sources=["notes"], dedupe=False)["errors"] is None
        assert client.refused("knowledge.search", query=unique, sources=["sessions"])["error"] == "UNAVAILABLE"
        assert client.refused("sessions.search", query=unique)["error"] == "UNAVAILABLE"
        assert client.refused("knowledge.get", source="sessions", id="x")["error"] == "UNAVAILABLE"


# What a client prefers


@pytest.fixture(scope="module")
def long_note(library: Library) -> dict[str, Any]:
    unique = word()
    text = "".join(f"Sentence {n} is about {unique}x{n}. " for n in range(300))
    return library.note(text, title=unique)


def content(client: Mcp, note: dict[str, Any], **retrieval: Any) -> str:
    return str(client.call("notes_get", note_id=note["id"], retrieval=retrieval or None)["content"])


def test_config_gives_soft_defaults_for_the_session(api: httpx.Client, long_note: dict[str, Any]):
    wanted = config(snippet_length=60, max_tokens=50, sibling_window=0, chars_per_token=2, order_by="recent")
    client = Mcp(api, f"/mcp?config={wanted}")
    client._path = "/mcp"  # from now on only the session knows
    assert len(content(client, long_note)) <= 60
    assert len(content(client, long_note, mode="chunk_with_siblings")) <= 100
    assert len(content(client, long_note, mode="auto", sibling_window=10)) <= 100
    (hit,) = client.call("notes_search", query=long_note["title"])["results"]
    assert len(hit["snippet"]) <= 60
    # What is asked for goes before what is preferred.
    assert 250 < len(content(client, long_note, snippet_length=300, max_tokens=5000)) <= 300
    ask = {"mode": "chunk_with_siblings", "max_tokens": 5000, "chars_per_token": 4, "sibling_window": 1}
    assert len(content(client, long_note, **ask)) > 1000
    (hit,) = client.call("notes_search", query=long_note["title"], snippet_length=200)["results"]
    assert len(hit["snippet"]) > 60


def test_config_on_a_request_holds_for_that_request_and_before_the_sessions(
    api: httpx.Client, long_note: dict[str, Any]
):
    client = Mcp(api, f"/mcp?config={config(snippet_length=60)}")
    client._path = f"/mcp?config={config(snippet_length=120)}"
    assert 60 < len(content(client, long_note)) <= 120
    client._path = "/mcp"
    assert len(content(client, long_note)) <= 60
    plain = Mcp(api)
    plain._path = f"/mcp?config={config(snippet_length=60)}"
    assert len(content(plain, long_note)) <= 60
    plain._path = "/mcp"
    assert len(content(plain, long_note)) > 200


def test_config_orders_results(library: Library, api: httpx.Client):
    unique = word()
    library.note(f"{unique} {unique}", title="best", created_at="2020-01-01")
    library.note(f"{unique} and other words " * 2 + "x " * 60, title="newest")
    client = Mcp(api, f"/mcp?config={config(order_by='recent')}")
    for tool, more in (("knowledge_search", {"dedupe": False}), ("notes_search", {})):
        assert client.call(tool, query=unique, **more)["results"][0]["title"] == "newest"
    asked = client.call("knowledge_search", query=unique, order_by="relevance")
    assert asked["results"][0]["title"] == "best"


def test_config_is_clamped_and_only_some_names_count(api: httpx.Client, long_note: dict[str, Any]):
    wanted = config(snippet_length=99_999, user_id="x", workspace="other", token="secret", db_path="/etc", limit=1)
    client = Mcp(api, f"/mcp?config={wanted}")
    assert 900 < len(content(client, long_note)) <= 1000
    low = Mcp(api, f"/mcp?config={config(snippet_length=-5, max_tokens=10**9, sibling_window=99, chars_per_token=0)}")
    assert len(content(low, long_note)) <= 50


def test_both_alphabets_of_base64_are_read_with_and_without_padding(api: httpx.Client, long_note: dict[str, Any]):
    raw = json.dumps({"snippet_length": 60, "note": "???>>>ÿ"}, ensure_ascii=False).encode()
    for text in (base64.b64encode(raw), base64.urlsafe_b64encode(raw), base64.b64encode(raw).rstrip(b"=")):
        client = Mcp(api)
        client._path = str(httpx.URL("/mcp", params={"config": text.decode()}))
        assert len(content(client, long_note)) <= 60


@pytest.mark.parametrize(
    "bad",
    [
        "%%%",
        "!",
        "x",
        base64.b64encode(b"secretword").decode(),
        base64.b64encode(b"[1]").decode(),
        base64.b64encode(b'"secretword"').decode(),
        config(snippet_length="secretword"),
        config(order_by="secretword"),
        config(max_tokens=[1]),
        "A" * 5000,
    ],
)
def test_a_malformed_config_is_400_without_an_echo(api: httpx.Client, mcp: Mcp, bad: str):
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    response = api.post("/mcp", params={"config": bad}, json=body, headers=mcp.headers)
    assert response.status_code == 400
    assert "base64" in response.text
    assert "secretword" not in response.text
    assert len(bad) < 3 or bad not in response.text
    for path in ("/sse", "/api/knowledge/search?query=x"):  # every door over HTTP reads it alike
        assert api.get(httpx.URL(path).copy_merge_params({"config": bad})).text == response.text


def test_config_holds_for_a_rest_request_too(library: Library, api: httpx.Client, long_note: dict[str, Any]):
    wanted = {"config": config(snippet_length=60, max_tokens=50, chars_per_token=2)}
    (hit,) = api.get("/api/knowledge/search", params={"query": long_note["title"], **wanted}).json()["results"]
    assert len(hit["snippet"]) <= 60
    ask = {"source": "notes", "id": long_note["id"], "retrieval": {"mode": "auto"}}
    assert len(api.post("/api/knowledge/get", params=wanted, json=ask).json()["content"]) <= 100
    ask["retrieval"] = {"mode": "auto", "max_tokens": 200}  # what is asked for goes before what is preferred
    assert len(api.post("/api/knowledge/get", params=wanted, json=ask).json()["content"]) > 100


@pytest.mark.parametrize("where", ["headers", "params"])
def test_a_session_may_be_named_in_a_rest_request_by_header_or_query(
    api: httpx.Client, five: tuple[str, str], where: str
):
    first = api.get("/api/knowledge/search", params={"query": five[1]})
    assert first.headers["mcp-session-id"] == first.json()["session_id"]
    again = api.get("/api/knowledge/search", params={"query": five[1]}, headers={})
    assert again.json()["suppressed"] == 0
    named: dict[str, Any] = {"headers": {}, "params": {"query": five[0]}}
    named[where] = named[where] | {"mcp-session-id": first.json()["session_id"]}
    assert api.get("/api/knowledge/search", **named).json()["suppressed"] == 2


@pytest.mark.parametrize("name", ["café", "名前", "two\nlines", " "])
def test_a_name_no_header_can_carry_is_answered_all_the_same(api: httpx.Client, name: str):
    response = api.get("/api/knowledge/search", params={"q": "x", "dedupe": "false", "session_id": name})
    assert (response.status_code, response.json()["session_id"]) == (200, name)
    assert "mcp-session-id" not in response.headers


@pytest.mark.parametrize("door", ["http-2026", "websocket", "sse"])
def test_config_works_by_the_other_doors(server: Server, api: httpx.Client, long_note: dict[str, Any], door: str):
    with through(door, server, api, f"?config={config(snippet_length=60)}") as client:
        assert len(content(client, long_note)) <= 60


class Preferring(Websocket):
    wanted: Any = None

    def exchange(self, method: str, **params: Any) -> dict[str, Any]:
        return super().exchange(method, **(params | ({"config": self.wanted} if method == "initialize" else {})))


def test_a_websocket_says_what_it_prefers_in_its_first_message(server: Server, long_note: dict[str, Any]):
    with connect(f"ws://127.0.0.1:{server.port}/mcp/ws") as socket:
        Preferring.wanted = {"snippet_length": 60, "user_id": "x"}
        client = Preferring(socket)
        assert len(content(client, long_note)) <= 60
        assert len(content(client, long_note, snippet_length=200)) > 60
    with connect(f"ws://127.0.0.1:{server.port}/mcp/ws") as socket:
        Preferring.wanted = {"snippet_length": "secretword"}
        with pytest.raises(AssertionError) as refused:
            Preferring(socket)
        assert "base64" in str(refused.value) or "config" in str(refused.value)


ODD = {"snippet_length": 60, "note": "???>>>~~~"}
"""Its base64 differs in the two alphabets, and it has padding."""


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("is_padded", [True, False])
@pytest.mark.parametrize("is_wrapped", [True, False])
def test_a_websocket_takes_every_kind_of_base64(
    server: Server, long_note: dict[str, Any], encode: Any, is_padded: bool, is_wrapped: bool
):
    text = encode(json.dumps(ODD).encode()).decode()
    assert text.endswith("=")
    assert set(text) & set("+/-_")
    text = text if is_padded else text.rstrip("=")
    text = f"{text[:20]}\n{text[20:]}\n" if is_wrapped else text
    with connect(f"ws://127.0.0.1:{server.port}/mcp/ws?config={quote(text, safe='+/=')}") as socket:
        assert len(content(Websocket(socket), long_note)) <= 60
    with connect(f"ws://127.0.0.1:{server.port}/mcp/ws") as socket:
        Preferring.wanted = text
        assert len(content(Preferring(socket), long_note)) <= 60


# Deep research


def names(client: Mcp) -> set[str]:
    return {tool["name"] for tool in client.ask("tools/list")["tools"]}


class OpenAi(Mcp):
    """The client that calls itself so."""

    def exchange(self, method: str, **params: Any) -> dict[str, Any]:
        about = {"clientInfo": {"name": "openai-mcp", "version": "1"}} if method == "initialize" else {}
        return super().exchange(method, **(params | about))


@contextmanager
def modern(server: Server, name: str) -> Iterator[set[str]]:
    import anyio.from_thread

    client = Client(
        f"{server.url}/mcp?tools=all", mode="2026-07-28", client_info=Implementation(name=name, version="1")
    )
    with anyio.from_thread.start_blocking_portal() as portal, portal.wrap_async_context_manager(client):
        yield {tool.name for tool in portal.call(client.list_tools).tools}


def test_search_and_fetch_are_listed_for_those_who_look_for_them(server: Server, api: httpx.Client, settled: Server):
    usual = names(Mcp(api))
    assert not usual & {"search", "fetch"}
    assert names(Mcp(api, "/mcp?profile=deep-research&tools=all")) == usual | {"search", "fetch"}
    assert names(OpenAi(api)) == usual | {"search", "fetch"}
    with modern(server, "openai-mcp") as listed:
        assert listed == usual | {"search", "fetch"}
    with modern(server, "tests") as listed:
        assert listed == usual
    with settled.client() as other:
        assert {"search", "fetch", "knowledge.search"} <= names(Mcp(other))


def test_their_inputs_are_exactly_query_and_id(api: httpx.Client):
    tools = {t["name"]: t for t in Mcp(api, "/mcp?profile=deep-research").ask("tools/list")["tools"]}
    assert list(tools["search"]["inputSchema"]["properties"]) == tools["search"]["inputSchema"]["required"] == ["query"]
    assert list(tools["fetch"]["inputSchema"]["properties"]) == tools["fetch"]["inputSchema"]["required"] == ["id"]
    for name in ("search", "fetch"):
        assert tools[name]["annotations"]["readOnlyHint"] is True
        assert "not instructions" in tools[name]["description"]


@pytest.mark.parametrize("source", SOURCES)
def test_what_search_finds_fetch_opens(library: Library, api: httpx.Client, source: str):
    agent, unique = word("agent-"), word()
    library.put_in(source, f"it says {unique} here", agent)
    client = Mcp(api, f"/mcp?profile=deep-research&agent={agent}")
    for _ in range(2):  # research may ask the same thing twice
        answer = client.call("search", query=unique)
        assert list(answer) == ["results"]
        (item,) = answer["results"]
    assert set(item) == {"id", "title", "url"}
    assert item["title"]
    document = client.call("fetch", id=item["id"])
    assert set(document) == {"id", "title", "text", "url", "metadata"}
    assert (document["id"], document["url"]) == (item["id"], item["url"])
    assert unique in document["text"]
    assert document["metadata"]["source"] == source


def test_fetch_gives_the_whole_text_and_says_when_it_cannot(library: Library, api: httpx.Client):
    client = Mcp(api, "/mcp?profile=deep-research")
    text = "Many words. " * 5_000
    document = client.call("fetch", id=library.note(text)["uri"])
    assert document["text"] == text
    assert "truncated" not in document["metadata"]
    media = library.media("x" * 1_000_001, chunks=[{"text": "x"}])
    document = client.call("fetch", id=media["uri"])
    assert (len(document["text"]), document["metadata"]["truncated"]) == (1_000_000, True)


@pytest.mark.parametrize(
    "id",
    [
        "",
        "absent",
        "notes://absent",
        "tapes://1",
        "notes://",
        "media://x",
        "http://x",
        "bus://a/b",
        "bus://a%00b",
        "prompts://%00",
    ],
)
def test_fetching_what_is_not_there_is_an_error(api: httpx.Client, id: str):
    said = Mcp(api, "/mcp?profile=deep-research").refused("fetch", id=id)
    assert said["error"].endswith("NOT_FOUND")


def test_links_are_absolute_and_open_the_item_in_the_console(server: Server, library: Library, api: httpx.Client):
    note = library.note(unique := word())
    (item,) = Mcp(api, "/mcp?profile=deep-research").call("search", query=unique)["results"]
    assert item["url"] == f"{server.url}/#/open/notes/{note['id']}"
    assert library.search(unique)["results"][0]["link"] == item["url"]


def test_links_lead_where_people_reach_the_server(settled: Server):
    with settled.client() as api:
        note = Library(api).note(unique := word())
        (item,) = Mcp(api).call("search", query=unique)["results"]
        assert item["url"] == f"https://talk.example.org/palaver/#/open/notes/{note['id']}"
        assert Mcp(api).call("fetch", id=item["id"])["url"] == item["url"]


# Every door


@pytest.mark.on_postgres(door=["stdio"])
@pytest.mark.parametrize("door", DOORS)
def test_the_same_is_found_and_opened_through_every_door(
    server: Server, api: httpx.Client, library: Library, door: str
):
    note = library.note(f"it says {(unique := word())}")
    with through(door, server, api) as client:
        first = client.call("knowledge_search", query=unique)
        (hit,) = first["results"]
        again = client.call("knowledge_search", query=unique, session_id=first["session_id"])
        assert (again["results"], again["suppressed"]) == ([{**hit, "seen": True}], 0)
        rest = library.search(unique)["results"]
        strip = {"link": None}  # on stdio nobody knows at which address people come in
        assert {**hit, **strip} == {**rest[0], **strip}
        answer = client.call("knowledge_get", source="notes", id=note["id"], retrieval={"mode": "full"})
        assert answer["content"] == f"it says {unique}"
        assert client.call("notes_get", note_id=note["id"])["content"] == f"it says {unique}"
        assert client.refused("knowledge_search", query="x", sources=[])["error"]
