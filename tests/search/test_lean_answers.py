"""What a search costs a model: lean hits with the core tools, the fields of the specification at a plain /mcp."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio.from_thread
import httpx
import jsonschema  # type: ignore[import-untyped]
import pytest
from mcp import Client
from tests.conftest import ONE_ENGINE
from tests.helpers import Mcp, Server, Thread, start_server, started_with, word
from tests.library_items import GET_ID, SOURCES, Library
from tests.mcp_clients import Sdk, Stateless, stdio_server
from tests.tokens import compact, count_tokens

SPECIFIED = {
    "id", "source", "title", "snippet", "uri", "score", "score_type", "created_at", "last_modified", "version", "tags",
    "media_type", "url", "conversation_id", "message_id", "sender", "loc",
}  # fmt: skip
RESPONSE = {"results", "has_more", "next_offset", "total_estimated"}
LEAN = {"uri", "title", "author", "created_at", "snippet", "source", "project"}
SAYS = "The exporter writes Parquet files since version two, and CSV only on request"


def agent_at(api: httpx.Client, path: str) -> tuple[Mcp, str]:
    """A client that has become an agent, and the slug of the agent."""
    slug = word("agent-")
    client = Mcp(api, f"{path}{'&' if '?' in path else '?'}agent={slug}")
    client.call("session.append", session_id=str(uuid4()), role="user", content="hello")
    return client, slug


def page_of(client: Mcp, tool: str = "knowledge_search", **arguments: Any) -> tuple[dict[str, Any], int]:
    """The answer to a search, and how many tokens a model reads."""
    answer = client.answer(tool, arguments)
    return dict(answer.value), count_tokens(answer.raw["content"][0]["text"])


# A plain /mcp


@pytest.mark.parametrize("source", SOURCES)
def test_a_result_at_a_plain_mcp_has_exactly_the_fields_of_the_specification(
    api: httpx.Client, library: Library, source: str
):
    unique = word()
    client, slug = agent_at(api, "/mcp")
    library.put_in(source, f"{SAYS} {unique}", slug)
    answer = client.call("knowledge_search", query=unique)
    (item,) = answer["results"]
    assert set(answer) == RESPONSE
    assert set(item) == SPECIFIED
    assert (item["source"], item["score"], answer["total_estimated"], answer["next_offset"]) == (source, 1.0, 1, None)
    (same,) = client.call(f"{source}_search", query=unique)["results"]
    assert same == item
    opened = client.call("knowledge_get", source=source, id=item["id"], retrieval={"loc": item["loc"]})
    assert set(opened["meta"]) == SPECIFIED
    full = Mcp(api, f"/mcp?answers=full&agent={slug}").call("knowledge_search", query=unique)
    assert {"matched", "capped", "operators"} < set(full)
    assert {**full["results"][0], **item} == full["results"][0]
    assert "link" in full["results"][0]


def test_what_there_is_to_say_about_a_page_is_said_at_a_plain_mcp(api: httpx.Client, library: Library):
    unique = word()
    library.note(f"{SAYS} {unique}")
    client = Mcp(api, "/mcp")
    assert client.call("knowledge_search", query=unique)["results"]
    library.note(f"more of {unique}")
    second = client.call("knowledge_search", query=unique)
    assert (second["suppressed"], set(second)) == (1, RESPONSE | {"suppressed", "hint"})
    stateless = Stateless(api, word("program"))  # of which no agent is active
    assert set(stateless.call("knowledge_search", query=unique)) == RESPONSE | {"session_id"}
    counted = client.call("knowledge_search", query=unique, counts=True, dedupe=False)
    assert counted["counts"]["sources"] == {"notes": 2}


@ONE_ENGINE
def test_the_form_is_the_same_as_in_the_listed_output_schema(api: httpx.Client, library: Library):
    unique = word()
    library.chat(f"{SAYS} {unique}")
    for query in ("", "tools=core", "answers=compact&tools=all", "answers=full"):
        client = Mcp(api, f"/mcp?schemas=output&{query}")
        schemas = {tool["name"]: tool.get("outputSchema") for tool in client.ask("tools/list")["tools"]}
        found = client.call("knowledge_search", query=unique)
        jsonschema.validate(found, schemas["knowledge_search"])
        opened = client.call("knowledge_get", source="chats", id=found["results"][0]["uri"])
        jsonschema.validate(opened, schemas["knowledge_get"])


# Lean hits


@pytest.mark.parametrize("path", ["/mcp?tools=core", "/mcp?tools=CORE,thread_get", "/mcp?answers=compact"])
@ONE_ENGINE
def test_hits_are_lean_with_the_core_tools_or_on_request(api: httpx.Client, library: Library, path: str):
    unique = word()
    library.note(f"{SAYS} {unique}", title="Formats")
    answer = Mcp(api, path).call("knowledge_search", query=unique)
    (hit,) = answer["results"]
    assert set(answer) == {"results", "has_more", "confidence"}
    assert set(hit) == {"uri", "title", "created_at", "snippet", "source"}
    assert (hit["title"], hit["source"], unique in hit["snippet"]) == ("Formats", "notes", True)
    verbose = Mcp(api, path).call("knowledge_search", query=unique, verbose=True)["results"][0]
    assert SPECIFIED | {"link"} == set(verbose)


@ONE_ENGINE
def test_hits_are_lean_on_stdio_with_the_core_tools(server: Server, library: Library):
    unique = word()
    library.note(f"{SAYS} {unique}")
    for options, fields in ((("--toolsets", "core"), LEAN - {"author", "project"}), ((), SPECIFIED)):
        client = Client(stdio_server(server.env, server.home, *options), mode="legacy")
        with anyio.from_thread.start_blocking_portal() as portal, portal.wrap_async_context_manager(client):
            answer = Sdk(client, portal).call("knowledge_search", query=unique)
            assert set(answer["results"][0]) == fields


@pytest.mark.parametrize("source", SOURCES)
def test_a_short_hit_has_at_most_90_tokens_and_its_uri_opens_it(api: httpx.Client, library: Library, source: str):
    unique, session = word("")[:8], str(uuid4())
    client, slug = agent_at(api, "/mcp?tools=core")
    if source == "sessions":
        library.turn(slug, "Export the tables", session)
        library.turn(slug, f"{SAYS} {unique}", session, role="assistant", id=str(uuid4()))
    else:
        library.put_in(source, f"{SAYS} {unique}", slug)
    answer, tokens = page_of(client, query=unique)
    (hit,) = answer["results"]
    assert set(hit) <= LEAN
    assert None not in hit.values()
    # A title of random letters has more tokens than words have.
    assert count_tokens(re.sub(r"w[0-9a-f]{16}", "plans", compact(hit))) <= 90
    assert tokens <= 120
    for opened in (
        client.call("knowledge_get", uri=hit["uri"]),
        client.call("knowledge_get", source=source, id=hit["uri"]),
        client.call(f"{source}_get", {GET_ID[source]: hit["uri"]})
        if source != "characters"
        else client.call("knowledge_get", id=hit["uri"]),
    ):
        assert unique in str(opened["content"])
    assert unique in client.call("fetch", id=hit["uri"])["text"]


@pytest.mark.parametrize("source", SOURCES)
def test_a_lean_uri_opens_a_long_text_at_the_match(api: httpx.Client, library: Library, source: str):
    unique, other = word(), word()
    client, slug = agent_at(api, "/mcp?tools=core")
    text = f"{'Some words about other things. ' * 200}{unique} is here. {'And more of them. ' * 200}"
    library.put_in(source, text, slug)
    (hit,) = client.call("knowledge_search", query=unique)["results"]
    library.note(other)
    client.call("knowledge_search", query=other)  # the last search does not help to find the place
    opened = client.call("knowledge_get", uri=hit["uri"])
    assert unique in opened["content"]
    assert len(opened["content"]) < 1_000
    assert set(opened["meta"]) <= LEAN


def test_a_chunk_a_transcript_and_a_title_have_places_too(api: httpx.Client, library: Library):
    client = Mcp(api, "/mcp?tools=core")
    in_chunk, in_transcript, in_title = word(), word(), word()
    library.media("", chunks=[{"text": "first"}, {"text": f"second {'x ' * 300}{in_chunk}"}])
    segments = [{"start": n, "end": n + 1, "text": f"talk {n} {'y ' * 100}"} for n in range(9)]
    library.media("about", transcript={"segments": [*segments, {"start": 10, "end": 11, "text": in_transcript}]})
    library.chat("hello", title=f"Chat {in_title}")
    for unique, place in ((in_chunk, "#chunk1."), (in_transcript, "#transcript."), (in_title, "#title")):
        (hit,) = client.call("knowledge_search", query=unique)["results"]
        client.call("knowledge_search", query=word())
        assert place in hit["uri"]
        assert unique in client.call("knowledge_get", uri=hit["uri"])["content"]


def test_a_message_found_is_opened_by_msg_get(api: httpx.Client, thread: Thread):
    unique = word()
    thread.post("before")
    message = thread.post(f"{SAYS} {unique}")
    thread.post("after")
    client = Mcp(api, "/mcp?tools=core")
    (hit,) = client.call("knowledge_search", query=unique)["results"]
    assert (hit["uri"], hit["author"], hit["title"]) == (f"bus://{thread.id}#2", "ann", thread.topic)
    assert client.call("msg_get", message_id=hit["uri"])["id"] == message["id"]
    assert client.call("msg_get", message_id=f"bus://{thread.id}/{message['id']}")["id"] == message["id"]
    assert client.refused("msg_get", message_id=f"bus://{thread.id}#99")["error"] == "MESSAGE_NOT_FOUND"


def test_a_session_hit_names_another_agent_and_another_project(api: httpx.Client, library: Library, tmp_path: Path):
    unique = word()
    client, slug = agent_at(api, "/mcp?tools=core&project=/src/exporter")
    for number, project in enumerate(("/src/exporter", "/src/importer")):
        library.turn(slug, f"{SAYS} {unique}", f"s-{number}", role="assistant", project=project)
    library.turn(slug, f"Why? {unique}", "s-2")
    hits = {
        hit["uri"].partition("/s-")[2]: hit
        for hit in client.call("knowledge_search", query=unique, project="*")["results"]
    }
    assert "title" not in hits["0#0"]  # the session is called like its first turn
    assert (hits["0#0"]["author"], hits["2#0"]["author"]) == ("assistant", "user")
    assert ("project" in hits["0#0"], hits["1#0"]["project"], "project" in hits["2#0"]) == (False, "importer", False)
    with start_server(tmp_path, PALAVER_AUTH="token") as server:  # a person reads the sessions of all agents
        made = started_with(server.env, "token", "create", "--human", "Ada", "--scope", "read,write").stdout.strip()
        with server.client(headers={"authorization": f"Bearer {made}"}) as door:
            Library(door).turn(slug, f"Why? {unique}", "s-2")
            Library(door).turn(slug, f"{SAYS} {unique}", "s-3", role="assistant")
            hits = Mcp(door, "/mcp?tools=core").call("knowledge_search", query=unique)["results"]
            assert {hit["author"] for hit in hits} == {slug, f"user, {slug}"}


def test_own_sessions_are_lean_too(api: httpx.Client, library: Library):
    unique, session = word(), str(uuid4())
    client, slug = agent_at(api, "/mcp?tools=core")
    library.turn(slug, "Export the tables", session)
    for _ in range(3):
        library.turn(slug, f"{SAYS} {unique} {'and more ' * 100}", session, role="assistant")
    answer = client.call("conversation_search_own", query=unique)
    (hit,) = answer["hits"]
    assert set(answer) == {"count", "hits"}
    assert set(hit) <= LEAN
    assert hit["uri"].startswith(f"sessions://{session}#")
    assert unique in client.call("knowledge_get", uri=hit["uri"])["content"]
    for number in range(12):
        library.turn(slug, f"{SAYS} {unique} {'and more ' * 100}", f"s-{number}")
    answer, tokens = page_of(client, "conversation_search_own", query=unique)
    assert (answer["count"], tokens <= 1_000) == (8, True)
    assert answer["hint"] == "5 more sessions match; set limit to see them."
    assert len(client.call("conversation_search_own", query=unique, limit=50)["hits"]) == 13


# A page


def test_a_page_of_many_matches_has_eight_hits_and_at_most_1000_tokens(api: httpx.Client, library: Library):
    unique = word()
    client, slug = agent_at(api, "/mcp?tools=core")
    for number in range(10):
        library.note(f"{unique} {number}: {SAYS}. " * 20, title=f"Notes about the formats of the exporter, {number}")
        Thread(api, f"{word()} about formats").post(f"{unique} {number}: {SAYS}. " * 20)
        library.turn(slug, f"{unique} {number}: {SAYS}. " * 20, str(uuid4()), role="assistant", project="/src/exporter")
    answer, tokens = page_of(client, query=unique)
    assert (len(answer["results"]), answer["has_more"], answer["next_offset"]) == (8, True, 8)
    assert tokens <= 1_000
    uris = [hit["uri"] for hit in answer["results"]]
    while answer["has_more"]:
        answer, tokens = page_of(client, query=unique, offset=answer["next_offset"])
        assert tokens <= 1_000
        uris += [hit["uri"] for hit in answer["results"]]
    assert len(uris) == len(set(uris)) == 30


def test_a_given_limit_is_obeyed_and_max_tokens_sets_the_budget(api: httpx.Client, library: Library):
    unique = word()
    for number in range(30):
        library.note(f"{unique} {number}: {SAYS}. " * 20, title=f"Notes about the formats of the exporter, {number}")
    client = Mcp(api, "/mcp?tools=core")
    assert len(client.call("knowledge_search", query=unique, limit=25, dedupe=False)["results"]) == 25
    for budget, most in ((500, 5), (300, 3), (200, 2)):
        answer, tokens = page_of(client, query=unique, limit=25, max_tokens=budget, dedupe=False)
        assert tokens <= budget
        assert 1 <= len(answer["results"]) <= most
        assert (answer["has_more"], answer["next_offset"]) == (True, len(answer["results"]))
    long = client.call("knowledge_search", query=unique, snippet_length=900, dedupe=False)
    assert (len(long["results"]) < 8, len(long["results"][0]["snippet"]) > 600) == (True, True)
    plain, tokens = page_of(Mcp(api, "/mcp"), query=unique)
    assert len(plain["results"]) == 20
    cut, tokens = page_of(Mcp(api, "/mcp"), query=unique, max_tokens=1_500)
    assert (tokens <= 1_500, len(cut["results"]) < 20, cut["next_offset"]) == (True, True, len(cut["results"]))


def test_only_what_a_cut_page_shows_counts_as_seen(api: httpx.Client, library: Library):
    unique = word()
    for number in range(6):
        library.note(f"{unique} {number}: {SAYS}. " * 20)
    client = Mcp(api, "/mcp?tools=core")
    uris: list[str] = []
    for _ in range(6):
        hits = client.call("knowledge_search", query=unique, max_tokens=300)["results"]
        uris += [hit["uri"] for hit in hits if hit["uri"] not in uris]
    assert len(uris) == 6


@pytest.mark.parametrize("source", ["chats", "bus", "sessions", "archive"])
def test_a_conversation_is_one_hit(api: httpx.Client, library: Library, source: str):
    unique = word()
    client, slug = agent_at(api, "/mcp?tools=core")
    said = [f"We talk about {unique}.", f"{unique} {unique}", f"Then about {unique} and other things for a while."]
    match source:
        case "chats":
            library.chat(*said)
        case "bus":
            thread = Thread(api)
            for text in said:
                thread.post(text)
        case "sessions":
            for text in said:
                library.turn(slug, text)
        case _:
            library.archived(*said)
    library.note(f"a note about {unique}")
    hits = client.call("knowledge_search", query=unique)["results"]
    assert sorted(hit["source"] for hit in hits) == sorted([source, "notes"])
    best = Mcp(api, f"/mcp?agent={slug}").call("knowledge_search", query=unique, sources=[source])["results"]
    assert len(best) == 3
    (hit,) = [one for one in hits if one["source"] == source]
    assert hit["snippet"] == best[0]["snippet"]


def test_results_far_below_the_best_are_left_out_and_counted(api: httpx.Client, library: Library):
    one, two, three = word(), word(), word()
    library.note(f"We decided that the {one} {two} writes {three}.", title="Decision")
    library.note(f"The {three} that the {two} reads comes from {one}.", title="All words")
    for number in range(12):
        library.note(f"Lunch number {number} was fine, and then came {two}.", title="Diary")
    client = Mcp(api, "/mcp?tools=core")
    answer = client.call("knowledge_search", query=f"{one} {two} {three}", dedupe=False)
    assert [hit["title"] for hit in answer["results"]] == ["Decision", "All words"]
    assert answer["has_more"] is False
    assert answer["hint"] == "12 far weaker results are left out; set limit to see more."
    everything = client.call("knowledge_search", query=f"{one} {two} {three}", limit=20, dedupe=False)
    assert len(everything["results"]) == 14
    newest = client.call("knowledge_search", query=f"{one} {two} {three}", order_by="recent", dedupe=False)
    assert (len(newest["results"]), newest["has_more"]) == (8, True)


@ONE_ENGINE
def test_the_first_results_are_those_of_a_plain_mcp(api: httpx.Client, library: Library):
    unique = word()
    for number in range(8):
        library.note(f"{unique} " * (number + 1) + "word " * number)
    lean = Mcp(api, "/mcp?tools=core").call("knowledge_search", query=unique)["results"]
    plain = Mcp(api, "/mcp").call("knowledge_search", query=unique)["results"]
    assert [hit["uri"].partition("#")[0] for hit in lean] == [item["uri"] for item in plain[:8]]


@ONE_ENGINE
def test_operators_alone_list_every_message(api: httpx.Client):
    thread = Thread(api)
    author = word()
    for number in range(5):
        thread.post(f"message {number}", author=author)
    hits = Mcp(api, "/mcp?tools=core").call("knowledge_search", query=f"from:{author}")["results"]
    assert [hit["uri"] for hit in hits] == [f"bus://{thread.id}#{seq}" for seq in (5, 4, 3, 2, 1)]


@ONE_ENGINE
def test_the_list_of_tools_says_how_large_a_page_is(api: httpx.Client):
    def limits(path: str) -> dict[str, Any]:
        tools = {tool["name"]: tool for tool in Mcp(api, path).ask("tools/list")["tools"]}
        properties = tools["knowledge_search"]["inputSchema"]["properties"]
        return {name: properties.get(name, {}).get("default") for name in ("limit", "max_tokens")}

    assert limits("/mcp?tools=core") == {"limit": 8, "max_tokens": 1_000}
    assert limits("/mcp") == {"limit": 20, "max_tokens": None}


@ONE_ENGINE
def test_another_agent_that_uses_the_same_session_id_does_not_take_its_place(api: httpx.Client, library: Library):
    """A short URI has no agent. The caller gets the session that it may read."""
    unique, session = word(), str(uuid4())
    client, slug = agent_at(api, "/mcp?tools=core")
    library.turn(word("agent-"), "somebody else's", session)
    library.turn(slug, f"{SAYS} {unique}", session)
    (hit,) = client.call("knowledge_search", query=unique)["results"]
    assert hit["uri"] == f"sessions://{session}#0"
    assert unique in client.call("knowledge_get", uri=hit["uri"])["content"]
    stranger, _ = agent_at(api, "/mcp?tools=core")
    assert stranger.answer("knowledge_get", uri=hit["uri"]).is_error
