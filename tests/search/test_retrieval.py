"""Opening what was found: a snippet, a chunk, a chunk with its neighbours, all of it; always within the budget."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.conftest import BOTH_ENGINES, ONE_ENGINE
from tests.helpers import Mcp, Server, Thread, word
from tests.library_items import GET_ID, SAID, SOURCES, Library, search, tokens
from tests.mcp_clients import through

pytestmark = ONE_ENGINE
"""Passages are cut and put together above the store. What reads them from it is tested on both engines."""

SENTENCES = [f"Sentence number {n} says that the thing called item{n} is blue. " for n in range(400)]
LONG = "".join(SENTENCES)
FILLER = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor. "


@pytest.fixture(scope="module")
def agent() -> str:
    return word("agent-")


@pytest.fixture(scope="module")
def mine(api: httpx.Client, agent: str) -> Mcp:
    api.post(f"/api/v1/agents/{agent}/sessions/first/messages", json={"role": "user", "content": "hello"})
    return Mcp(api, f"/mcp?agent={agent}")


def get(mcp: Mcp, source: str, id: Any, **retrieval: Any) -> dict[str, Any]:
    return dict(mcp.call("knowledge_get", source=source, id=id, retrieval=retrieval))


@pytest.fixture(scope="module")
def note(library: Library) -> dict[str, Any]:
    return library.note(LONG, title="A long note")


@pytest.fixture(scope="module")
def film(library: Library) -> dict[str, Any]:
    chunks = [{"text": f"Chunk {n} of the film, about scene{n}."} for n in range(30)]
    return library.media("whatever", title="A film", chunks=chunks)


@pytest.fixture(scope="module")
def chat(library: Library) -> dict[str, Any]:
    return library.chat(*(f"message {n} about topic{n}" for n in range(30)), title="A long chat")


# The answer


@pytest.mark.on_postgres(mode=["chunk_with_siblings"])
@pytest.mark.parametrize("mode", ["snippet", "chunk", "chunk_with_siblings", "full", "auto"])
@pytest.mark.parametrize("source", SOURCES)
def test_get_answers_meta_content_and_attachments_in_every_mode(
    library: Library, mine: Mcp, agent: str, source: str, mode: str
):
    library.put_in(source, f"it says {(unique := word())}", agent)
    (hit,) = search(mine, source, unique)
    retrieval = {"mode": mode, "loc": hit["loc"]} if mode != "full" else {"mode": mode}
    answer = mine.call("knowledge_get", source=source, id=hit["id"], retrieval=retrieval)
    assert {"meta", "content", "attachments", "truncated", "next_cursor"} <= set(answer)
    assert unique in answer["content"]
    assert answer["truncated"] is False
    meta = answer["meta"]
    assert set(meta) == set(hit)
    for name in ("source", "title", "version", "tags", "media_type", "url"):
        assert meta[name] == hit[name]
    if source not in SAID:
        assert (meta["id"], meta["uri"]) == (hit["id"], hit["uri"])
    same = mine.call(f"{source}_get", {GET_ID[source]: hit["id"], "retrieval": retrieval})
    assert same == answer


@pytest.mark.examples(8)
@BOTH_ENGINES
@pytest.mark.parametrize("source", SOURCES)
def test_a_uri_opens_as_well_as_source_and_id(library: Library, api: httpx.Client, mine: Mcp, agent: str, source: str):
    library.put_in(source, f"it says {(unique := word())}", agent)
    (hit,) = search(mine, source, unique)
    by_id = mine.call("knowledge_get", source=source, id=hit["id"], retrieval={"mode": "chunk"})
    assert unique in by_id["content"]
    assert mine.call("knowledge_get", source=source, id=hit["uri"], retrieval={"mode": "chunk"}) == by_id
    assert mine.call(f"{source}_get", {GET_ID[source]: hit["uri"]}, retrieval={"mode": "chunk"}) == by_id
    opened = api.get("/api/knowledge/open", params={"uri": hit["uri"], "mode": "chunk"}).json()
    assert opened["content"] == by_id["content"]


def test_what_looks_like_a_uri_of_elsewhere_is_an_id_of_its_source(library: Library, mcp: Mcp):
    note, name = library.note("text"), f"notes://{word()}"
    prompt = library.prompt(name)
    assert mcp.call("knowledge_get", source="prompts", id=name)["meta"]["id"] == prompt["id"]
    assert mcp.call("prompts_get", prompt_id_or_name=prompt["uri"]) == mcp.call("prompts_get", prompt_id_or_name=name)
    assert mcp.refused("knowledge_get", source="media", id=note["uri"])["error"] == "ITEM_NOT_FOUND"


def test_the_default_mode_is_a_snippet_of_300_characters(mcp: Mcp, note: dict[str, Any]):
    for answer in (
        mcp.call("notes_get", note_id=note["id"]),
        mcp.call("notes_get", note_id=note["id"], retrieval={}),
        mcp.call("knowledge_get", source="notes", id=note["id"]),
    ):
        assert 200 < len(answer["content"]) <= 300
        assert answer["content"] == LONG[: len(answer["content"])].strip()
        assert answer["meta"]["snippet"] == answer["content"]


@pytest.mark.parametrize("length, most", [(50, 50), (1, 50), (1000, 1000), (10**6, 1000), (None, 300)])
def test_a_snippet_is_as_long_as_asked_at_most(mcp: Mcp, note: dict[str, Any], length: int | None, most: int):
    content = get(mcp, "notes", note["id"], mode="snippet", snippet_length=length)["content"]
    assert most * 0.6 < len(content) <= most


@pytest.mark.parametrize(
    "field", ["max_tokens", "chars_per_token", "sibling_window", "chunk_size_tokens", "snippet_length"]
)
@pytest.mark.parametrize("value", ["x", True, []])
def test_a_wrong_type_is_an_error_that_names_the_field(mcp: Mcp, note: dict[str, Any], field: str, value: Any):
    assert field in mcp.refused("notes_get", note_id=note["id"], retrieval={field: value})["error"]


def test_null_is_the_same_as_absent_in_retrieval_too(mcp: Mcp, note: dict[str, Any]):
    names = [
        "mode", "snippet_length", "max_tokens", "chars_per_token", "chunk_size_tokens", "chunk_overlap_tokens",
        "sibling_window", "prefer_prechunked", "loc", "query", "cursor",
    ]  # fmt: skip
    assert get(mcp, "notes", note["id"], **dict.fromkeys(names)) == get(mcp, "notes", note["id"])


def test_an_unknown_mode_is_refused(mcp: Mcp, note: dict[str, Any]):
    assert "mode" in mcp.refused("notes_get", note_id=note["id"], retrieval={"mode": "whole"})["error"]


# The anchor


def test_a_chunk_is_the_one_at_the_loc(mcp: Mcp, note: dict[str, Any]):
    for n in (0, 5, 9):
        answer = get(mcp, "notes", note["id"], mode="chunk", loc={"chunk_index": n})
        assert answer["content"] in LONG
        assert len(answer["content"]) <= 1200
        assert answer["attachments"] == [{"chunk_index": n}]
    first = get(mcp, "notes", note["id"], mode="chunk", loc={"chunk_index": 0})["content"]
    assert LONG.startswith(first)
    assert get(mcp, "notes", note["id"], mode="chunk")["content"] == first


@pytest.mark.parametrize("n", [0, 77, 399])
def test_an_approximate_offset_lands_on_its_chunk(mcp: Mcp, note: dict[str, Any], n: int):
    offset = LONG.index(f"item{n} ")
    for mode in ("chunk", "chunk_with_siblings", "snippet"):
        assert f"item{n} " in get(mcp, "notes", note["id"], mode=mode, loc={"approx_offset": offset})["content"]


@BOTH_ENGINES
@pytest.mark.parametrize("n", [0, 77, 399])
def test_a_query_finds_the_anchor(mcp: Mcp, note: dict[str, Any], n: int):
    for mode in ("chunk", "chunk_with_siblings", "snippet"):
        assert f"item{n} " in get(mcp, "notes", note["id"], mode=mode, query=f"item{n}")["content"]
    nothing = get(mcp, "notes", note["id"], mode="chunk", query=word())["content"]
    assert LONG.startswith(nothing)


@BOTH_ENGINES
@pytest.mark.parametrize("search", ["knowledge_search", "notes_search"])
def test_without_loc_the_last_search_of_the_session_says_where(api: httpx.Client, note: dict[str, Any], search: str):
    client = Mcp(api)
    client.call(search, query="item313")
    for mode in ("snippet", "chunk"):
        assert "item313 " in get(client, "notes", note["id"], mode=mode)["content"]
        assert "item5 " in get(client, "notes", note["id"], mode=mode, query="item5")["content"]
    offset = LONG.index("item200 ")
    assert "item200 " in get(client, "notes", note["id"], loc={"approx_offset": offset}, snippet_length=50)["content"]


@pytest.mark.parametrize("index", [-1, 30, 10**9])
def test_a_chunk_index_out_of_range_is_an_error(mcp: Mcp, film: dict[str, Any], index: int):
    said = mcp.refused("media_get", media_id=film["id"], retrieval={"mode": "chunk", "loc": {"chunk_index": index}})
    assert "chunk_index: must be between 0 and 29" in said["error"]


@pytest.mark.parametrize(
    "loc", [{"chunk_index": "1"}, {"chunk_index": 1.5}, {"chunk_index": True}, {"chunk_uuid": "absent"}, {"field": "x"}]
)
def test_a_loc_that_makes_no_sense_is_an_error(mcp: Mcp, film: dict[str, Any], loc: dict[str, Any]):
    assert (
        "retrieval.loc"
        in mcp.refused("media_get", media_id=film["id"], retrieval={"mode": "chunk", "loc": loc})["error"]
    )


ODD: list[Any] = [
    -1,
    10**9,
    2**31,
    2**63,
    10**30,
    -(10**30),
    1.5,
    "1",
    "",
    "x",
    True,
    [],
    {},
    [1],
    {"a": 1},
    "é\x01",
    "\x00",
    "\ud800",
]
PLACES = ["chunk_index", "chunk_uuid", "chunk_offset", "approx_offset", "field", "message_id", "message_index", "seq", "index", "media_id", "else"]  # fmt: skip


@pytest.mark.parametrize("key", PLACES)
def test_whatever_the_loc_it_is_answered_or_refused_with_a_reason(
    api: httpx.Client, note: dict[str, Any], film: dict[str, Any], chat: dict[str, Any], key: str
):
    for source, id in (("notes", note["id"]), ("media", film["id"]), ("chats", chat["id"])):
        for value in [*ODD, "@"]:
            body = {"source": source, "id": id, "retrieval": {"mode": "chunk", "loc": {key: value}}}
            content = json.dumps(body).replace('"@"', "1e999")
            response = api.post("/api/knowledge/get", content=content, headers={"content-type": "application/json"})
            assert response.status_code in (200, 400, 404, 422), (source, value, response.text)
            assert response.status_code == 200 or "loc" in response.text or "not found" in response.text


def test_the_loc_of_another_item_is_refused(library: Library, mcp: Mcp, film: dict[str, Any], chat: dict[str, Any]):
    other = library.media("x")
    loc = {"media_id": other["id"], "chunk_index": 0}
    assert "another item" in mcp.refused("media_get", media_id=film["id"], retrieval={"loc": loc})["error"]
    loc = {"conversation_id": "another"}
    assert "another item" in mcp.refused("chats_get", conversation_id=chat["id"], retrieval={"loc": loc})["error"]


@BOTH_ENGINES
def test_given_chunks_are_found_by_index_and_by_uuid(mcp: Mcp, film: dict[str, Any]):
    chunk = film["chunks"][7]
    for loc in ({"chunk_index": 7}, {"chunk_uuid": chunk["chunk_uuid"]}, {"media_id": film["id"], "chunk_index": 7}):
        assert get(mcp, "media", film["id"], mode="chunk", loc=loc)["content"] == chunk["text"]
        assert get(mcp, "media", str(film["id"]), mode="snippet", loc=loc)["content"] == chunk["text"]


def test_prefer_prechunked_false_cuts_the_text_itself(mcp: Mcp, film: dict[str, Any]):
    answer = get(mcp, "media", film["id"], mode="chunk", prefer_prechunked=False)
    assert answer["content"] == "whatever"
    assert get(mcp, "media", film["id"], mode="chunk", prefer_prechunked=True)["content"] == film["chunks"][0]["text"]


@pytest.mark.parametrize("preferred", [True, None])
def test_a_chunk_size_does_not_overrule_stored_chunks(
    mcp: Mcp, film: dict[str, Any], note: dict[str, Any], preferred: bool | None
):
    """`prefer_prechunked`: default true for Media; chunk_size_tokens is for what is not prechunked."""
    sized = {"mode": "chunk", "chunk_size_tokens": 3, "chunk_overlap_tokens": 1, "prefer_prechunked": preferred}
    for number in (0, 7):
        content = get(mcp, "media", film["id"], **sized, loc={"chunk_index": number})["content"]
        assert content == film["chunks"][number]["text"]
    assert len(get(mcp, "notes", note["id"], **sized)["content"]) <= 12  # nothing is stored in chunks here


@BOTH_ENGINES
def test_a_match_in_a_stored_chunk_and_in_the_transcript_is_told_as_the_chunk(library: Library, mcp: Mcp):
    """media.search returns a more precise loc when prechunked data exists: {chunk_index: N}."""
    unique = word()
    chunks = ["the beginning", f"a longer chunk that says {unique} among many other words", "the end"]
    said = [(0, "hello"), (2, unique), (4, f"{unique} {unique}")]
    segments = [{"start": start, "end": start + 1, "text": text} for start, text in said]
    media = library.media("whatever", chunks=[{"text": text} for text in chunks], transcript={"segments": segments})
    for tool in ("media_search", "knowledge_search"):
        (hit,) = mcp.call(tool, query=unique)["results"]
        assert (hit["loc"]["chunk_index"], "field" in hit["loc"]) == (1, False)
        assert f"says {unique}" in hit["snippet"]
    for place in ({"loc": hit["loc"]}, {"query": unique}, {}):  # without a place, the last search gives it
        assert get(mcp, "media", media["id"], mode="chunk", **place)["content"] == chunks[1]
    only_spoken = library.media(
        "whatever",
        chunks=[{"text": "no such word"}],
        transcript={"segments": [{**segments[0], "text": word("spoken")}]},
    )
    spoken = only_spoken["transcript"]["segments"][0]["text"]
    (hit,) = mcp.call("media_search", query=spoken)["results"]
    assert hit["loc"]["field"] == "transcript"
    assert get(mcp, "media", only_spoken["id"], mode="chunk", loc=hit["loc"])["content"] == spoken


def test_the_tools_say_how_long_a_page_of_full_is(mcp: Mcp):
    tools = {tool["name"]: tool for tool in mcp.ask("tools/list")["tools"]}
    for name in ("knowledge_get", "notes_get", "media_get"):
        said = tools[name]["inputSchema"]["properties"]["retrieval"]["description"]
        assert "full: pages of 1,000,000 characters" in said


@pytest.mark.parametrize("cut", [{"prefer_prechunked": False}, {"chunk_size_tokens": 8}, {"chunk_size_tokens": 50}])
@pytest.mark.parametrize("is_kept", [True, False])
def test_the_loc_of_a_given_chunk_lands_on_the_match_however_the_text_is_cut(
    library: Library, mcp: Mcp, cut: dict[str, Any], is_kept: bool
):
    unique = word()
    chunks = ["".join(SENTENCES[n : n + 3]) for n in range(0, 30, 3)]
    chunks[6] += f"{unique} "
    media = library.media("".join(chunks) if is_kept else "whatever", chunks=[{"text": chunk} for chunk in chunks])
    (hit,) = mcp.call("media_search", query=unique)["results"]
    assert hit["loc"]["chunk_index"] == 6
    for mode in ("snippet", "chunk", "chunk_with_siblings"):
        assert unique in get(mcp, "media", media["id"], mode=mode, loc=hit["loc"], **cut)["content"]


def test_chunks_of_a_size_and_overlap_are_cut_on_the_way(mcp: Mcp, note: dict[str, Any]):
    sized = {"mode": "chunk", "chunk_size_tokens": 50, "chunk_overlap_tokens": 0, "chars_per_token": 4}
    content = get(mcp, "notes", note["id"], **sized, loc={"approx_offset": LONG.index("item200 ")})["content"]
    assert "item200 " in content
    assert len(content) <= 200
    first, second = (get(mcp, "notes", note["id"], **sized, loc={"chunk_index": n})["content"] for n in (0, 1))
    assert LONG.startswith(first + second)
    overlapping = get(mcp, "notes", note["id"], **{**sized, "chunk_overlap_tokens": 20}, loc={"chunk_index": 1})[
        "content"
    ]
    assert LONG.index(overlapping) < len(first)


# A loc from a search lands on text with the match

LANDINGS = ["snippet", "chunk", "chunk_with_siblings", "auto"]


@pytest.mark.examples(8)
@BOTH_ENGINES
@pytest.mark.parametrize("source", SOURCES)
def test_the_loc_of_a_result_lands_on_text_with_the_match(
    library: Library, api: httpx.Client, mine: Mcp, agent: str, source: str
):
    first, second = word(), word()
    library.put_in(source, FILLER * 40 + f"{first} is followed by {second}. " + FILLER * 40, agent)
    for query in (first, f"where is {second} after {first}?"):
        (hit,) = search(mine, source, query)
        for mode in LANDINGS:
            for budget in (None, 40, 2000):
                retrieval = {"mode": mode, "loc": hit["loc"], "max_tokens": budget}
                content = mine.call("knowledge_get", source=source, id=hit["id"], retrieval=retrieval)["content"]
                assert first in content, (mode, budget)
        # The document itself, opened at the loc, as a person does it.
        document = hit["conversation_id"] or hit["id"]
        for mode in LANDINGS:
            body = {"source": source, "id": document, "retrieval": {"mode": mode, "loc": hit["loc"]}}
            assert first in api.post("/api/knowledge/get", json=body).json()["content"]


@pytest.mark.parametrize("source", [name for name in SOURCES if name != "sessions"])
def test_the_loc_of_a_title_lands_on_the_title(library: Library, mine: Mcp, source: str):
    unique = word()
    library.title(source, f"A rather long title, as titles go, which says {unique} only at its very end: {unique}")
    (hit,) = search(mine, source, unique)
    for mode in LANDINGS:
        for more in ({}, {"max_tokens": 40}, {"snippet_length": 50}):
            assert unique in get(mine, source, hit["id"], mode=mode, loc=hit["loc"], **more)["content"]


@BOTH_ENGINES
@pytest.mark.parametrize(
    "source, field",
    [
        ("notes", "keywords"), ("media", "keywords"), ("characters", "tags"), ("characters", "alternate_greetings"),
        ("characters", "creator_notes"), ("prompts", "keywords"), ("prompts", "author"), ("prompts", "system_prompt"),
    ],
)  # fmt: skip
def test_the_loc_of_any_field_lands_on_it(library: Library, mcp: Mcp, source: str, field: str):
    unique = word()
    texts = [f"number {n} of them all" for n in range(40)] + [unique, "last"]
    value: Any = texts if field in ("keywords", "tags", "alternate_greetings") else f"somebody called {unique}"
    match source:
        case "notes":
            library.note("content", **{field: value})
        case "media":
            library.media("content", **{field: value})
        case "characters":
            library.character(description="content", **{field: value})
        case _:
            library.prompt(user_prompt="content", **{field: value})
    (hit,) = search(mcp, source, unique)
    assert hit["loc"]["field"] == field
    for mode in LANDINGS:
        for budget in (None, 40):
            content = get(mcp, source, hit["id"], mode=mode, loc=hit["loc"], max_tokens=budget)["content"]
            assert unique in content, (mode, budget)


@pytest.mark.parametrize("shape", ["chunks", "transcript"])
def test_the_loc_of_a_medium_lands_in_its_chunks_or_its_transcript(library: Library, mcp: Mcp, shape: str):
    unique = word()
    text = FILLER * 30 + unique + " " + FILLER * 30
    if shape == "chunks":
        library.media("something else", chunks=[{"text": FILLER}, {"text": text}, {"text": FILLER}])
    else:
        parts = [{"start": n, "end": n + 1, "text": part} for n, part in enumerate([FILLER, text, FILLER])]
        library.media("something else", transcript={"segments": parts})
    (hit,) = search(mcp, "media", unique)
    for mode in LANDINGS:
        for budget in (None, 40):
            content = get(mcp, "media", hit["id"], mode=mode, loc=hit["loc"], max_tokens=budget)["content"]
            assert unique in content, (mode, budget)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_the_loc_of_a_word_anywhere_in_a_text_opens_at_it(library: Library, data: st.DataObject):
    words = st.sampled_from(["one", "two.", "three\n", "vier!", "五。", "six\r\n\r\n", "seven" * 30, "é", "8"])
    before, after = data.draw(st.lists(words, max_size=400)), data.draw(st.lists(words, max_size=400))
    source, unique = data.draw(st.sampled_from(["notes", "prompts", "chats"])), word()
    library.put_in(source, " ".join([*before, unique, *after]))
    (hit,) = library.search(unique)["results"]
    for mode in ("snippet", "chunk", "chunk_with_siblings"):
        for budget in (None, 20):
            assert unique in library.get(source, hit["id"], mode=mode, loc=hit["loc"], max_tokens=budget)["content"]
            assert unique in library.get(source, hit["id"], mode=mode, query=unique, max_tokens=budget)["content"]


# The budget


@BOTH_ENGINES
def test_siblings_come_on_both_sides_within_the_window(mcp: Mcp, film: dict[str, Any], chat: dict[str, Any]):
    texts = [chunk["text"] for chunk in film["chunks"]]
    for window, wanted in ((0, [10]), (1, [9, 10, 11]), (3, [7, 8, 9, 10, 11, 12, 13]), (None, [8, 9, 10, 11, 12])):
        answer = get(
            mcp, "media", film["id"], mode="chunk_with_siblings", sibling_window=window, loc={"chunk_index": 10}
        )
        assert answer["content"] == "\n\n".join(texts[n] for n in wanted)
        assert answer["attachments"] == [{"chunk_index": n} for n in wanted]
        loc = {"message_index": 10}
        answer = get(mcp, "chats", chat["id"], mode="chunk_with_siblings", sibling_window=window, loc=loc)
        assert answer["content"] == "\n\n".join(f"user: message {n} about topic{n}" for n in wanted)
        assert [m["message_index"] for m in answer["attachments"]] == wanted


def test_the_window_also_limits_under_a_budget(mcp: Mcp, film: dict[str, Any]):
    ask = {"mode": "chunk_with_siblings", "max_tokens": 200_000, "loc": {"chunk_index": 10}}
    alone = get(mcp, "media", film["id"], **ask, sibling_window=0)
    assert alone["content"] == film["chunks"][10]["text"]
    assert len(get(mcp, "media", film["id"], **ask, sibling_window=1)["attachments"]) == 3
    assert len(get(mcp, "media", film["id"], **ask)["attachments"]) == 30
    assert len(get(mcp, "media", film["id"], **ask, sibling_window=99)["attachments"]) == 21  # ten on each side


def test_at_the_edges_siblings_come_from_the_other_side(mcp: Mcp, film: dict[str, Any]):
    for index, wanted in ((0, [0, 1, 2]), (29, [27, 28, 29])):
        answer = get(mcp, "media", film["id"], mode="chunk_with_siblings", loc={"chunk_index": index})
        assert [a["chunk_index"] for a in answer["attachments"]] == wanted


def test_auto_is_siblings_with_a_budget_and_a_snippet_without(mcp: Mcp, film: dict[str, Any]):
    loc = {"chunk_index": 10}
    with_budget = get(mcp, "media", film["id"], mode="auto", max_tokens=60, loc=loc)
    assert with_budget == get(mcp, "media", film["id"], mode="chunk_with_siblings", max_tokens=60, loc=loc)
    assert get(mcp, "media", film["id"], mode="auto", loc=loc) == get(mcp, "media", film["id"], mode="snippet", loc=loc)


def test_a_too_large_anchor_is_cut_and_says_so(mcp: Mcp, note: dict[str, Any]):
    for mode in ("chunk", "chunk_with_siblings"):
        answer = get(mcp, "notes", note["id"], mode=mode, max_tokens=20, loc={"approx_offset": LONG.index("item200 ")})
        assert answer["truncated"] is True
        assert "item200" in answer["content"]
        assert tokens(answer["content"]) <= 20


@pytest.mark.parametrize("asked", [0, 1, 5, 15, 16])
def test_a_budget_is_never_raised(mcp: Mcp, note: dict[str, Any], asked: int):
    for mode in ("snippet", "chunk", "chunk_with_siblings", "full"):
        answer = get(mcp, "notes", note["id"], mode=mode, max_tokens=asked)
        assert tokens(answer["content"]) <= asked


def test_characters_of_a_token_are_counted_as_asked(mcp: Mcp, note: dict[str, Any]):
    for per_token in (1, 2.5, 4, 20, 0, 99):
        ask = {"mode": "chunk_with_siblings", "max_tokens": 300, "chars_per_token": per_token}
        content = get(mcp, "notes", note["id"], **ask)["content"]
        assert tokens(content, min(max(per_token, 1), 20)) <= 300
        assert len(content) > 100


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    budget=st.integers(0, 2_000),
    per_token=st.sampled_from([1, 1.3, 3, 4, 7.9, 20]),
    window=st.none() | st.integers(0, 10),
    mode=st.sampled_from(["snippet", "chunk", "chunk_with_siblings", "full", "auto"]),
    size=st.none() | st.integers(1, 400),
    overlap=st.none() | st.integers(0, 400),
    which=st.sampled_from(["note", "film", "chat", "bus"]),
    n=st.integers(0, 29),
)
def test_the_budget_is_never_exceeded(
    library: Library,
    note: dict[str, Any],
    film: dict[str, Any],
    chat: dict[str, Any],
    thread_of_thirty: Thread,
    which: str,
    n: int,
    **how: Any,
):
    retrieval = {
        "mode": how["mode"],
        "max_tokens": how["budget"],
        "chars_per_token": how["per_token"],
        "sibling_window": how["window"],
        "chunk_size_tokens": how["size"],
        "chunk_overlap_tokens": how["overlap"],
    }
    match which:
        case "note":
            answer = library.get("notes", note["id"], **retrieval, loc={"approx_offset": LONG.index(f"item{13 * n} ")})
        case "film":
            answer = library.get(
                "media", film["id"], **{**retrieval, "chunk_size_tokens": None}, loc={"chunk_index": n}
            )
        case "chat":
            answer = library.get("chats", chat["id"], **retrieval, loc={"message_index": n})
        case _:
            answer = library.get("bus", thread_of_thirty.id, **retrieval, loc={"seq": n + 1})
    assert tokens(answer["content"], how["per_token"]) <= how["budget"]
    texts = json.dumps([a.get("content", "") for a in answer["attachments"] or []])
    assert "message" not in texts  # what is left out for its length does not come back beside


@pytest.fixture(scope="module")
def thread_of_thirty(api: httpx.Client) -> Thread:
    thread = Thread(api)
    for n in range(30):
        thread.post(f"message {n} " + "and so on " * n)
    return thread


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=st.integers(0, 399), window=st.integers(0, 10), size=st.none() | st.integers(5, 300))
def test_neighbours_put_together_are_one_piece_of_the_text(
    library: Library, note: dict[str, Any], first: int, window: int, size: int | None
):
    ask = {"mode": "chunk_with_siblings", "sibling_window": window, "chunk_size_tokens": size, "max_tokens": 200_000}
    content = library.get("notes", note["id"], **ask, loc={"approx_offset": LONG.index(f"item{first} ")})["content"]
    assert content in LONG
    assert LONG.count(content) == 1


def test_overlapping_chunks_are_joined_without_repetition(library: Library, mcp: Mcp):
    text = "".join(SENTENCES[:30])
    chunks = [{"text": text[start : start + 400]} for start in range(0, len(text), 300)]
    media = library.media(text, chunks=chunks)
    loc = {"chunk_index": 2}
    content = get(mcp, "media", media["id"], mode="chunk_with_siblings", max_tokens=100_000, loc=loc)["content"]
    assert content == text


def test_short_chunks_are_put_together_as_they_stand_in_the_text(library: Library, mcp: Mcp):
    text = "one two three four five six. seven eight\nnine"
    chunks = ["one two three four", "three four five six.", "seven eight", "nine"]
    media = library.media(text, chunks=[{"text": chunk} for chunk in chunks])
    for n, chunk in enumerate(chunks):
        assert get(mcp, "media", media["id"], mode="chunk", loc={"chunk_index": n})["content"] == chunk
        around = {"mode": "chunk_with_siblings", "max_tokens": 500, "loc": {"chunk_index": n}}
        assert get(mcp, "media", media["id"], **around)["content"] == text


# Full


@BOTH_ENGINES
def test_full_is_everything_as_it_was_kept(library: Library, mcp: Mcp, note: dict[str, Any]):
    answer = get(mcp, "notes", note["id"], mode="full")
    assert (answer["content"], answer["truncated"], answer["next_cursor"]) == (LONG, False, None)
    odd = " \r\n odd \u2028 text \t\n "
    assert get(mcp, "media", library.media(odd)["id"], mode="full")["content"] == odd


def pages_of(library: Library, source: str, id: Any, **more: Any) -> list[dict[str, Any]]:
    pages, cursor = [library.get(source, id, mode="full", **more)], None
    while cursor := pages[-1]["next_cursor"]:
        assert pages[-1]["truncated"]
        assert len(pages) < 1000
        pages.append(library.get(source, id, mode="full", cursor=cursor, **more))
    assert not pages[-1]["truncated"]
    return pages


@BOTH_ENGINES
@pytest.mark.parametrize("source, count", [("notes", 2), ("media", 3)])
def test_a_text_of_more_than_a_million_characters_is_paged_and_comes_together_exactly(
    library: Library, source: str, count: int
):
    text = "".join(f"{n} 行 \r\n" for n in range(92_000 * (count - 1) + 20_000))
    assert len(text) > 1_000_000
    made = library.note(text) if source == "notes" else library.media(text, chunks=[{"text": "x"}])
    pages = pages_of(library, source, made["id"])
    assert [len(page["content"]) for page in pages[:-1]] == [1_000_000] * (count - 1)
    assert "".join(page["content"] for page in pages) == text


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(budget=st.integers(20, 500))
def test_pages_of_any_size_come_together_exactly(
    library: Library, chat: dict[str, Any], thread_of_thirty: Thread, budget: int
):
    for source, id in (("chats", chat["id"]), ("bus", thread_of_thirty.id)):
        whole = library.get(source, id, mode="full")["content"]
        pages = pages_of(library, source, id, max_tokens=budget)
        assert "".join(page["content"] for page in pages) == whole
        assert all(tokens(page["content"]) <= budget for page in pages)


@BOTH_ENGINES
def test_a_conversation_of_more_than_a_million_characters_is_paged(library: Library, api: httpx.Client):
    chat = library.chat(*(f"{n}: " + "x" * 400_000 for n in range(4)))
    pages = pages_of(library, "chats", chat["id"])
    assert len(pages) > 1
    assert all(len(page["content"]) <= 1_000_000 for page in pages)
    whole = "\n\n".join(f"user: {n}: " + "x" * 400_000 for n in range(4))
    assert "".join(page["content"] for page in pages) == whole


@pytest.mark.parametrize("cursor", ["", "x", "t:", "t:-1", "t:x", "m:1:1", "t:999999999", "t:1:1", "t:" + "9" * 30])
def test_a_cursor_that_is_none_is_refused(mcp: Mcp, note: dict[str, Any], cursor: str):
    said = mcp.refused("notes_get", note_id=note["id"], retrieval={"mode": "full", "cursor": cursor})
    assert "cursor" in said["error"]


def test_with_no_room_at_all_there_is_no_next_page(library: Library, note: dict[str, Any], chat: dict[str, Any]):
    for source, id in (("notes", note["id"]), ("chats", chat["id"])):
        answer = library.get(source, id, mode="full", max_tokens=0)
        assert (answer["content"], answer["truncated"], answer["next_cursor"]) == ("", True, None)


# Chats by the page, cards as cards


@BOTH_ENGINES
def test_a_chat_is_read_by_pages_of_fifty(library: Library, mcp: Mcp):
    chat = library.chat(*(f"message {n}" for n in range(60)))
    first = mcp.call("chats_get", conversation_id=chat["id"])
    assert len(first["attachments"]) == 50
    assert [m["content"] for m in first["attachments"]] == [f"message {n}" for n in range(50)]
    assert first["paging"] == {"page": 1, "page_size": 50, "total_messages": 60, "has_more": True}
    second = mcp.call("chats_get", conversation_id=chat["id"], page=2)
    assert [m["content"] for m in second["attachments"]] == [f"message {n}" for n in range(50, 60)]
    assert second["paging"]["has_more"] is False
    assert second["content"].startswith("user: message 50\n\nuser: message 51")
    small = mcp.call("chats_get", conversation_id=chat["id"], page=3, page_size=7)
    assert [m["message_index"] for m in small["attachments"]] == list(range(14, 21))
    assert mcp.call("chats_get", conversation_id=chat["id"], page=99)["attachments"] == []
    most = mcp.call("chats_get", conversation_id=chat["id"], page=-1, page_size=10_000)["paging"]
    assert (most["page"], most["page_size"]) == (1, 200)


@pytest.mark.parametrize("tokens", [0, 1, 7, 100, 10_000])
def test_a_page_of_a_chat_keeps_to_the_budget_and_goes_on_with_its_cursor(library: Library, mcp: Mcp, tokens: int):
    chat = library.chat(*(f"message {n} " * n for n in range(12)))
    whole = mcp.call("chats_get", conversation_id=chat["id"], retrieval={"mode": "full"})["content"]
    budget = {"mode": "full", "max_tokens": tokens}
    page = mcp.call("chats_get", conversation_id=chat["id"], page=1, page_size=12, retrieval=budget)
    assert len(page["content"]) == min(4 * tokens, len(whole))
    assert page["truncated"] is (len(page["content"]) < len(whole))
    if cursor := page["next_cursor"]:
        rest = mcp.call("chats_get", conversation_id=chat["id"], retrieval={"mode": "full", "cursor": cursor})
        assert page["content"] + rest["content"] == whole


def test_a_retrieval_limits_a_chat_to_a_window_around_the_anchor(mcp: Mcp, chat: dict[str, Any]):
    message = chat["messages"][12]
    for loc in (
        {"message_id": message["id"]},
        {"message_index": 12},
        {"conversation_id": chat["id"], "message_index": 12},
    ):
        ask = {"mode": "chunk_with_siblings", "sibling_window": 1, "loc": loc}
        answer = mcp.call("chats_get", conversation_id=chat["id"], retrieval=ask)
        assert [m["message_index"] for m in answer["attachments"]] == [11, 12, 13]
        assert answer["meta"]["message_id"] == message["id"]
    assert (
        "absent"
        in mcp.refused("chats_get", conversation_id=chat["id"], retrieval={"loc": {"message_id": "absent"}})["message"]
    )
    for index in (-1, 30):
        said = mcp.refused("chats_get", conversation_id=chat["id"], retrieval={"loc": {"message_index": index}})
        assert "message_index" in said["error"]


@BOTH_ENGINES
def test_a_thread_of_the_bus_is_opened_at_a_seq(mcp: Mcp, thread_of_thirty: Thread):
    answer = mcp.call("bus_get", thread_id=thread_of_thirty.id, retrieval={"mode": "chunk", "loc": {"seq": 5}})
    assert answer["content"].startswith("message 4 ")


@BOTH_ENGINES
def test_characters_get_gives_the_whole_card(library: Library, mcp: Mcp):
    card: dict[str, Any] = {
        "name": "Ann",
        "description": " tall ",
        "personality": "kind",
        "scenario": "a ship",
        "system_prompt": "be Ann",
        "first_message": "hi",
        "message_examples": "x",
        "alternate_greetings": ["hey", "ho"],
        "post_history_instructions": "y",
        "creator": "z",
        "creator_notes": "n",
        "character_version": "1",
        "tags": ["a"],
    }
    character = library.character(**card)
    answer = mcp.call("characters_get", character_id=character["id"])
    assert answer["content"] == card
    assert answer["meta"]["tags"] == ["a"]
    whole = get(mcp, "characters", character["id"], mode="full")["content"]
    for text in (" tall ", "kind", "a ship", "be Ann", "hey", "ho"):
        assert text in whole


@BOTH_ENGINES
def test_prompts_get_gives_all_fields(library: Library, mcp: Mcp):
    fields: dict[str, Any] = {
        "name": f"p {word()}",
        "author": "a",
        "details": "d",
        "system_prompt": "s",
        "user_prompt": "u",
        "keywords": ["k"],
    }
    library.prompt(**fields)
    assert mcp.call("prompts_get", prompt_id_or_name=fields["name"])["content"] == fields


@BOTH_ENGINES
@pytest.mark.parametrize("source", SOURCES)
def test_what_is_not_there_is_not_found(mine: Mcp, source: str):
    for tool, ask in (
        ("knowledge_get", {"source": source, "id": "absent"}),
        (f"{source}_get", {GET_ID[source]: "absent"}),
    ):
        said = mine.refused(tool, ask)
        assert said["error"].endswith("NOT_FOUND")
        assert "absent" in said["message"]


def test_a_missing_argument_of_get_is_named(mcp: Mcp):
    assert "source" in mcp.refused("knowledge_get", id="x")["error"]
    assert "id" in mcp.refused("knowledge_get", source="notes")["error"]
    assert "source" in mcp.refused("knowledge_get", source="tapes", id="x")["error"]


def test_without_a_match_a_snippet_is_how_it_begins_however_short_its_chunks_are(library: Library, mcp: Mcp):
    """Prefer fragment centered on first match; otherwise the first `snippet_length` chars."""
    chunks = [{"text": f"Chunk {n} is short."} for n in range(40)]
    media = library.media("", chunks=chunks)
    for arguments, length in (({}, 300), ({"retrieval": {"snippet_length": 100}}, 100)):
        content = mcp.call("media_get", media_id=media["id"], **arguments)["content"]
        assert content.startswith("Chunk 0 is short. Chunk 1 is short.")
        assert length - 20 < len(content) <= length
    at = mcp.call("media_get", media_id=media["id"], retrieval={"loc": {"chunk_index": 7}})
    assert at["content"] == "Chunk 7 is short."


def test_a_medium_that_came_in_chunks_alone_opens_whole(library: Library, mcp: Mcp):
    media = library.media("", chunks=[{"text": "One is first."}, {"text": "Two is last."}])
    for retrieval in ({"mode": "full"}, {"mode": "chunk", "prefer_prechunked": False}):
        opened = mcp.call("media_get", media_id=media["id"], retrieval=retrieval)
        assert opened["content"] == "One is first.\n\nTwo is last."
    assert mcp.read(media["uri"]) == "One is first.\n\nTwo is last."


@pytest.mark.parametrize("door", ["http-2025", "http-2026", "websocket", "stdio"])
def test_a_whole_page_gets_through_every_door(server: Server, api: httpx.Client, library: Library, door: str):
    """A `full` page has at most 1,000,000 characters, and the official client takes it."""
    note = library.note("a word or two. " * 80_000)
    with through(door, server, api) as client:
        first = client.call("notes_get", note_id=note["id"], retrieval={"mode": "full"})
        rest = client.call("notes_get", note_id=note["id"], retrieval={"mode": "full", "cursor": first["next_cursor"]})
    assert (len(first["content"]), first["truncated"]) == (1_000_000, True)
    assert first["content"] + rest["content"] == note["content"]
