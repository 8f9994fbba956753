"""The library: notes, media, chats, characters and prompts are created, read, changed, deleted and restored."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.helpers import Mcp, word
from tests.library_items import GET_ID, LIBRARY, Library, search, titles

TEXT_OF = {
    "notes": "content",
    "media": "content",
    "chats": "title",
    "characters": "description",
    "prompts": "user_prompt",
}
NAME_OF = {"notes": "title", "media": "title", "chats": "title", "characters": "name", "prompts": "name"}
KEY_OF = {**GET_ID, "prompts": "prompt_id"}
WHOLE: dict[str, dict[str, Any]] = {
    "notes": {"title": "A", "content": "b", "keywords": ["k"]},
    "media": {
        "title": "A",
        "media_type": "podcast",
        "content": "b c",
        "url": "https://example.org/a",
        "chunks": [{"text": "b"}, {"text": "c"}],
        "transcript": {"segments": [{"start": 0.0, "end": 1.5, "text": "b"}]},
        "keywords": ["k"],
    },
    "chats": {"title": "A", "character_id": 7},
    "characters": {
        "name": "A",
        "description": "b",
        "personality": "c",
        "scenario": "d",
        "system_prompt": "e",
        "first_message": "f",
        "message_examples": "g",
        "alternate_greetings": ["h", "i"],
        "post_history_instructions": "j",
        "creator": "l",
        "creator_notes": "m",
        "character_version": "n",
        "tags": ["k"],
    },
    "prompts": {
        "name": "A",
        "author": "b",
        "details": "c",
        "system_prompt": "d",
        "user_prompt": "e",
        "keywords": ["k"],
    },
}


def create(api: httpx.Client, source: str, **more: Any) -> dict[str, Any]:
    body = {"media_type": "video"} if source == "media" else {}
    response = api.post(f"/api/{source}", json={NAME_OF[source]: f"thing {word()}", **body, **more})
    assert response.status_code == 201, response.text
    return dict(response.json())


def shown(source: str, given: dict[str, Any], back: dict[str, Any]) -> dict[str, Any]:
    """What was given, as it comes back."""
    return {name: [{"text": c["text"]} for c in back[name]] if name == "chunks" else back[name] for name in given}


# Creating and reading


@pytest.mark.parametrize("source", LIBRARY)
def test_a_post_answers_201_with_id_and_version_and_everything_that_was_given(api: httpx.Client, source: str):
    response = api.post(f"/api/{source}", json=WHOLE[source])
    assert response.status_code == 201
    made = response.json()
    assert made["version"] == 1
    assert isinstance(made["id"], int if source in ("media", "characters") else str)
    assert made["uri"] == f"{source}://{made['id']}"
    assert made["created_at"] == made["last_modified"]
    assert made["created_at"].endswith("Z")
    assert shown(source, WHOLE[source], made) == WHOLE[source]
    assert api.get(f"/api/{source}/{made['id']}").json() == made


@pytest.mark.parametrize("source", LIBRARY)
def test_created_at_may_be_given_and_last_modified_equals_it_until_an_edit(api: httpx.Client, source: str):
    made = create(api, source, created_at="2021-03-04T05:06:07+02:00")
    assert made["created_at"] == made["last_modified"] == "2021-03-04T03:06:07Z"
    edited = api.put(f"/api/{source}/{made['id']}", json={NAME_OF[source]: "another"}).json()
    assert edited["created_at"] == "2021-03-04T03:06:07Z"
    assert edited["last_modified"] > "2026"


def test_a_date_that_cannot_be_read_is_an_error_that_names_it(api: httpx.Client, mcp: Mcp):
    response = api.post("/api/notes", json={"title": "t", "created_at": "the other day"})
    assert response.status_code in (400, 422)
    assert "created_at" in response.text or "date" in response.text
    assert "date" in json.dumps(mcp.refused("media_search", query="x", date_from="the other day"))


@pytest.mark.parametrize(
    "path, body, field",
    [
        ("/api/notes", {"content": "x"}, "title"),
        ("/api/notes", {"title": 5}, "title"),
        ("/api/notes", {"title": "t", "keywords": "k"}, "keywords"),
        ("/api/media", {"title": "t"}, "media_type"),
        ("/api/media", {"title": "t", "media_type": ""}, "media_type"),
        ("/api/media", {"title": "t", "media_type": "v", "chunks": ["x"]}, "chunks"),
        ("/api/media", {"title": "t", "media_type": "v", "transcript": {"segments": [{"start": 1}]}}, "segments"),
        (
            "/api/media",
            {"title": "t", "media_type": "v", "transcript": {"segments": [{"start": -1, "end": 2, "text": "x"}]}},
            "start",
        ),
        ("/api/chats", {}, "title"),
        ("/api/characters", {"name": ""}, "name"),
        ("/api/prompts", {"name": ""}, "name"),
        ("/api/prompts", {"name": "p", "author": 7}, "author"),
    ],
)
def test_a_wrong_or_missing_field_is_422_and_named(api: httpx.Client, path: str, body: dict[str, Any], field: str):
    response = api.post(path, json=body)
    assert response.status_code == 422
    assert field in response.json()["detail"]


@pytest.mark.parametrize("second", [True, "1", "1.5"])
def test_a_second_is_a_number(api: httpx.Client, second: Any):
    said = {"segments": [{"start": second, "end": 2, "text": "x"}]}
    response = api.post("/api/media", json={"title": "x", "media_type": "audio", "transcript": said})
    assert response.status_code == 422
    assert "start" in response.json()["detail"]


def test_an_address_may_be_long(api: httpx.Client):
    url = "https://example.org/?" + "x" * 3900
    response = api.post("/api/media", json={"title": "x", "media_type": "article", "url": url})
    assert (response.status_code, response.json()["url"]) == (201, url)


@pytest.mark.parametrize("source", LIBRARY)
def test_null_is_the_same_as_absent(api: httpx.Client, source: str):
    least = {NAME_OF[source]: "A"} | ({"media_type": "x"} if source == "media" else {})
    nothing = dict.fromkeys(set(WHOLE[source]) - set(least))
    one, other = (api.post(f"/api/{source}", json=body).json() for body in (least, least | nothing))
    unlike = {"id", "conversation_id", "uri", "created_at", "last_modified"}
    assert {k: v for k, v in one.items() if k not in unlike} == {k: v for k, v in other.items() if k not in unlike}


@pytest.mark.parametrize("source", LIBRARY)
def test_a_list_is_paged_by_limit_and_offset_newest_change_first(api: httpx.Client, source: str):
    made = [create(api, source)["id"] for _ in range(3)]
    api.put(f"/api/{source}/{made[0]}", json={NAME_OF[source]: f"thing {word()}"})
    listed = [item["id"] for item in api.get(f"/api/{source}", params={"limit": 3}).json()]
    assert listed == [made[0], made[2], made[1]]
    paged = [
        item["id"] for n in range(3) for item in api.get(f"/api/{source}", params={"limit": 1, "offset": n}).json()
    ]
    assert paged == listed
    assert len(api.get(f"/api/{source}", params={"limit": 0}).json()) == 1
    assert api.get(f"/api/{source}", params={"offset": 10**9}).json() == []


def test_the_messages_of_a_chat_are_listed_in_order_and_paged(library: Library, api: httpx.Client):
    chat = library.chat("one", "two", "three")
    path = f"/api/chats/{chat['id']}/messages"
    assert [m["content"] for m in api.get(path).json()] == ["one", "two", "three"]
    assert [m["message_index"] for m in api.get(path).json()] == [0, 1, 2]
    assert api.get(path).json() == chat["messages"]
    assert [m["content"] for m in api.get(path, params={"limit": 1, "offset": 1}).json()] == ["two"]
    assert api.get(f"/api/chats/{chat['id']}").json()["message_count"] == 3


# Changing


@pytest.mark.parametrize("source", LIBRARY)
def test_a_put_with_the_version_answers_200_and_version_plus_one(api: httpx.Client, source: str):
    made = create(api, source)
    response = api.put(f"/api/{source}/{made['id']}", json={NAME_OF[source]: "new", "version": 1})
    assert response.status_code == 200
    assert response.json()["version"] == 2
    assert response.json()[NAME_OF[source]] == "new"
    assert api.get(f"/api/{source}/{made['id']}").json() == response.json()


@pytest.mark.parametrize("source", LIBRARY)
def test_a_stale_version_is_409_and_changes_nothing(api: httpx.Client, source: str):
    made = create(api, source)
    api.put(f"/api/{source}/{made['id']}", json={NAME_OF[source]: "new", "version": 1})
    for version in (1, 7, 0):
        response = api.put(f"/api/{source}/{made['id']}", json={NAME_OF[source]: "newer", "version": version})
        assert response.status_code == 409
        assert response.json()["detail"]["current_version"] == 2
    assert api.get(f"/api/{source}/{made['id']}").json()[NAME_OF[source]] == "new"


@pytest.mark.parametrize("source", LIBRARY)
def test_what_an_edit_leaves_out_stays_as_it_is(api: httpx.Client, source: str):
    made = api.post(f"/api/{source}", json=WHOLE[source]).json()
    edited = api.put(f"/api/{source}/{made['id']}", json={NAME_OF[source]: "B", "version": 1}).json()
    assert shown(source, WHOLE[source], edited) == {**WHOLE[source], NAME_OF[source]: "B"}


@pytest.mark.parametrize("source", LIBRARY)
def test_after_an_edit_the_new_words_find_it_and_the_old_ones_do_not(api: httpx.Client, mcp: Mcp, source: str):
    old, new, name = word(), word(), word()
    made = create(api, source, **{TEXT_OF[source]: f"it says {old}"})
    (hit,) = search(mcp, source, old)
    assert hit["id"] == made["id"]
    api.put(f"/api/{source}/{made['id']}", json={TEXT_OF[source]: f"it says {new}"})
    assert search(mcp, source, old) == []
    assert [hit["id"] for hit in search(mcp, source, new)] == [made["id"]]
    api.put(f"/api/{source}/{made['id']}", json={NAME_OF[source]: name})
    assert [(hit["id"], hit["title"], hit["version"]) for hit in search(mcp, source, name)] == [(made["id"], name, 3)]


def test_keywords_change_with_an_edit(library: Library, api: httpx.Client, mcp: Mcp):
    unique = word()
    note = library.note(unique, keywords=["Old One", "kept"])
    api.put(f"/api/notes/{note['id']}", json={"keywords": ["kept", "new"]})
    assert [len(search(mcp, "notes", unique, keywords=[k])) for k in ("old one", "kept", "NEW")] == [0, 1, 1]


def test_a_chat_with_another_character_is_found_under_that_one(library: Library, api: httpx.Client, mcp: Mcp):
    unique = word()
    chat = library.chat(f"hello {unique}", title=f"about {unique}", character_id=1, sender="ann")
    api.put(f"/api/chats/{chat['id']}", json={"character_id": 2})
    assert search(mcp, "chats", unique, character_id=1) == []
    assert len(search(mcp, "chats", unique, character_id=2)) == 2
    assert len(search(mcp, "chats", unique, character_id=2, sender="Ann")) == 1


# Deleting and restoring


@pytest.mark.parametrize("source", LIBRARY)
def test_deleted_is_404_everywhere_and_not_found_any_more(api: httpx.Client, mcp: Mcp, source: str):
    unique = word()
    made = create(api, source, **{NAME_OF[source]: f"called {unique}"})
    path = f"/api/{source}/{made['id']}"
    assert api.delete(path).status_code == 200
    assert api.get(path).status_code == api.delete(path).status_code == 404
    assert api.put(path, json={NAME_OF[source]: "x"}).status_code == 404
    assert made["id"] not in [item["id"] for item in api.get(f"/api/{source}", params={"limit": 1000}).json()]
    assert search(mcp, source, unique) == []
    assert mcp.call("knowledge_search", query=unique)["results"] == []
    for tool, arguments in (
        (f"{source}_get", {GET_ID[source]: made["id"]}),
        ("knowledge_get", {"source": source, "id": made["id"]}),
    ):
        assert mcp.refused(tool, arguments)["error"].endswith("NOT_FOUND")
    absent = api.get(f"/api/{source}/{'987654321' if source in ('media', 'characters') else 'absent'}")
    assert absent.status_code == 404
    assert absent.json()["detail"].replace("987654321", "absent") == api.get(path).json()["detail"].replace(
        str(made["id"]), "absent"
    )


@pytest.mark.parametrize("source", LIBRARY)
def test_deleting_with_a_stale_version_is_409_and_deletes_nothing(api: httpx.Client, mcp: Mcp, source: str):
    made = create(api, source)
    path = f"/api/{source}/{made['id']}"
    api.put(path, json={NAME_OF[source]: "changed meanwhile"})
    refused = api.delete(path, params={"version": 1})
    assert (refused.status_code, refused.json()["detail"]["current_version"]) == (409, 2)
    key = KEY_OF[source]
    assert mcp.refused(f"{source}_delete", {key: made["id"], "version": 1})["error"] == "CONFLICT"
    assert api.request("DELETE", path, json={"version": 1}).status_code == 409
    assert api.get(path).status_code == 200
    assert api.delete(path, params={"version": 2}).status_code == 200


def test_the_version_may_stand_in_the_address_of_an_edit(api: httpx.Client):
    path = f"/api/notes/{create(api, 'notes')['id']}"
    assert api.put(path, params={"version": 1}, json={"title": "second"}).json()["version"] == 2
    assert api.put(path, params={"version": 1}, json={"title": "third"}).status_code == 409
    assert api.put(path, params={"version": "two"}, json={"title": "third"}).status_code == 422
    assert api.get(path).json()["title"] == "second"


def test_a_number_with_nothing_behind_its_point_is_an_id(library: Library, mcp: Mcp):
    made = library.media("text")
    assert mcp.call("media_get", media_id=float(made["id"]))["meta"]["id"] == made["id"]
    for wrong in (1.5, True, [1]):
        assert mcp.refused("media_get", media_id=wrong)["error"] == "media_id: must be a whole number or text."


@pytest.mark.parametrize("source", LIBRARY)
def test_restored_is_back_with_its_text_and_found_again(api: httpx.Client, mcp: Mcp, source: str):
    unique = word()
    made = create(api, source, **{NAME_OF[source]: f"called {unique}"})
    path = f"/api/{source}/{made['id']}"
    before = search(mcp, source, unique)
    for _ in range(2):
        api.delete(path)
        response = api.post(f"{path}/restore")
        assert response.status_code == 200
    back = response.json()
    assert api.get(path).json() == back
    assert {**back, "version": 1} == made
    assert back["version"] > 1
    assert [{**hit, "version": 1} for hit in search(mcp, source, unique)] == before
    edited = api.put(path, json={NAME_OF[source]: f"now {unique}", "version": back["version"]})
    assert edited.status_code == 200
    assert titles(search(mcp, source, unique)) == [f"now {unique}"]


@pytest.mark.parametrize("source", LIBRARY)
def test_restoring_what_was_not_deleted_changes_nothing_and_what_never_was_is_404(api: httpx.Client, source: str):
    made = create(api, source)
    assert api.post(f"/api/{source}/{made['id']}/restore").json() == made
    assert api.post(f"/api/{source}/987654321/restore").status_code == 404


def test_a_deleted_chat_takes_its_messages_along_and_brings_them_back(library: Library, api: httpx.Client, mcp: Mcp):
    unique = word()
    chat = library.chat(f"one {unique}", f"two {unique}")
    path = f"/api/chats/{chat['id']}"
    api.delete(path)
    assert search(mcp, "chats", unique) == []
    assert api.get(f"{path}/messages").status_code == 404
    assert api.post(f"{path}/messages", json={"sender": "a", "content": "b"}).status_code == 404
    assert (
        mcp.refused("knowledge_get", source="chats", id=chat["messages"][0]["id"])["error"]
        == mcp.refused("knowledge_get", source="chats", id="absent")["error"]
    )
    api.post(f"{path}/restore")
    assert {hit["message_id"] for hit in search(mcp, "chats", unique)} == {m["id"] for m in chat["messages"]}


# The same as tools


@pytest.mark.parametrize("source", LIBRARY)
def test_the_same_can_be_done_with_tools(api: httpx.Client, mcp: Mcp, source: str):
    made = mcp.call(f"{source}_create", WHOLE[source])
    assert api.get(f"/api/{source}/{made['id']}").json() == made
    key = {KEY_OF[source]: made["id"]}
    edited = mcp.call(f"{source}.update", {**key, NAME_OF[source]: "B", "version": 1})
    assert (edited["version"], edited[NAME_OF[source]]) == (2, "B")
    stale = mcp.refused(f"{source}_update", {**key, NAME_OF[source]: "C", "version": 1})
    assert (stale["error"], stale["current_version"]) == ("CONFLICT", 2)
    assert mcp.call(f"{source}_delete", key) == {"ok": True}
    assert mcp.refused(f"{source}_delete", key)["error"].endswith("NOT_FOUND")
    assert mcp.call(f"{source}_restore", key)[NAME_OF[source]] == "B"


def test_the_writing_tools_are_a_toolset_of_their_own(api: httpx.Client):
    names = {tool["name"] for tool in Mcp(api, "/mcp?tools=library-writing").ask("tools/list")["tools"]}
    usual = {f"{source}_{what}" for source in LIBRARY for what in ("create", "update", "delete", "restore")}
    assert names == usual | {"chats_add_message"}
    reading = Mcp(api, "/mcp?tools=knowledge").ask("tools/list")["tools"]
    assert not names & {tool["name"] for tool in reading}
    assert all(tool["annotations"]["readOnlyHint"] for tool in reading)


def test_a_tool_adds_a_message_to_a_chat(library: Library, api: httpx.Client, mcp: Mcp):
    chat = library.chat()
    message = mcp.call("chats_add_message", conversation_id=chat["id"], sender="bot", content="hi")
    assert api.get(f"/api/chats/{chat['id']}/messages").json() == [message]


# Bytes in, bytes out

ODD = [
    "  leading and trailing blanks  \n\n",
    "line\r\nline\rline\n\ttab",
    "e\u0301 and é, ﬁ, \u212b, \u2028, \u200b, \ufeff",
    "日本語 👩‍👩‍👧‍👦 🇪🇺 \U0010ffff",
    "\x01\x1f\x7f",
    "<script>alert(1)</script> & &amp; %s {} \\ \\n ' \" ; --",
    "",
]


@pytest.mark.on_postgres(source=["notes"])
@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize("source", LIBRARY)
def test_nothing_is_trimmed_or_normalised(api: httpx.Client, mcp: Mcp, source: str, text: str):
    field = TEXT_OF[source]
    made = create(api, source, **{field: text})
    assert made[field] == text
    assert api.get(f"/api/{source}/{made['id']}").json()[field] == text
    edited = api.put(f"/api/{source}/{made['id']}", json={NAME_OF[source]: "x" if field != "title" else text})
    assert edited.json()[field] == text
    again = mcp.call(f"{source}_update", {KEY_OF[source]: made["id"], field: text + text})
    assert again[field] == text + text


@pytest.mark.parametrize("text", ODD)
def test_a_message_of_a_chat_and_keywords_are_kept_as_they_came(library: Library, api: httpx.Client, text: str):
    chat = library.chat(text, sender=text or "x")
    (message,) = api.get(f"/api/chats/{chat['id']}/messages").json()
    assert (message["content"], message["sender"]) == (text, text or "x")
    assert library.note("", keywords=[text])["keywords"] == [text]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=300))
def test_full_text_comes_back_character_for_character(library: Library, text: str):
    note = library.note(text)
    assert library.get("notes", note["id"], mode="full")["content"] == text


@pytest.mark.parametrize("bad", ['"a\\u0000b"', '"a\\ud800b"'])
@pytest.mark.parametrize("source", LIBRARY)
def test_nul_and_lone_surrogates_are_refused_by_name(api: httpx.Client, source: str, bad: str):
    field = TEXT_OF[source]
    body = json.dumps({NAME_OF[source]: "t", "media_type": "v", field: "@"}).replace('"@"', bad)
    response = api.post(f"/api/{source}", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 422
    assert field in response.json()["detail"]
    assert "remove them" in response.json()["detail"]


@pytest.mark.parametrize("id", ["absent", "0", "-1", "99999999999999999999999", "..%2Fnotes", "%00", "a" * 500, "1.0"])
@pytest.mark.parametrize("source", LIBRARY)
def test_an_id_that_is_not_there_is_404_or_misshapen(api: httpx.Client, mcp: Mcp, source: str, id: str):
    assert api.get(f"/api/{source}/{id}").status_code in (404, 422)
    answer = mcp.refused(f"{source}_get", {GET_ID[source]: id})
    assert "The server failed" not in json.dumps(answer)


@pytest.mark.parametrize("id", [10**30, -(10**30), 2**63, 2**64])
@pytest.mark.parametrize("source", LIBRARY)
def test_a_number_too_large_is_no_id(mcp: Mcp, source: str, id: int):
    assert mcp.refused(f"{source}_get", {GET_ID[source]: id})["error"].endswith("NOT_FOUND")
    assert mcp.refused(f"{source}_delete", {KEY_OF[source]: id})["error"].endswith("NOT_FOUND")


@pytest.mark.parametrize("number", [7, "seven", 2**63, 10**30])
def test_the_character_of_a_chat_may_have_any_id(mcp: Mcp, number: Any):
    unique = word()
    chat = mcp.call("chats_create", title=unique, character_id=number)
    assert str(chat["character_id"]) == str(number)
    assert len(search(mcp, "chats", unique, character_id=number)) == 1
    assert len(mcp.call("knowledge_search", query=unique, filters={"chats": {"character_id": number}})["results"]) == 1


# Prompts by name


def test_a_prompt_is_opened_by_its_id_or_its_name(library: Library, api: httpx.Client, mcp: Mcp):
    name = f"Ask / about? {word()}"
    prompt = library.prompt(name, user_prompt="x")
    by_id = mcp.call("prompts_get", prompt_id_or_name=prompt["id"])
    assert mcp.call("prompts_get", prompt_id_or_name=name) == by_id
    assert mcp.call("knowledge_get", source="prompts", id=name) == mcp.call(
        "knowledge_get", source="prompts", id=prompt["id"]
    )
    newer = library.prompt(name, user_prompt="y")
    assert mcp.call("prompts_get", prompt_id_or_name=name)["meta"]["id"] == newer["id"]


def test_a_prompt_with_a_slash_in_its_name_is_reached_by_it(library: Library, api: httpx.Client):
    name = f"{word()}/b"
    id = library.prompt(name, user_prompt="ask")["id"]
    path = f"/api/prompts/{quote(name, safe='')}"
    assert api.get(path).json()["id"] == id
    assert api.put(path, json={"user_prompt": "ask again"}).json()["user_prompt"] == "ask again"
    assert api.delete(path).status_code == 200
    assert api.get(path).status_code == 404
    assert api.post(f"{path}/restore").json()["id"] == id


def test_a_prompt_is_restored_by_its_id_or_its_name(library: Library, api: httpx.Client, mcp: Mcp):
    name = f"Bring back {word()}"
    older, newer = library.prompt(name, user_prompt="x"), library.prompt(name, user_prompt="y")
    for prompt in (newer, older):
        mcp.call("prompts_delete", prompt_id=prompt["id"])
    assert mcp.call("prompts_restore", prompt_id=name)["id"] == older["id"]  # the one that was deleted last
    assert api.post(f"/api/prompts/{name}/restore").json()["id"] == newer["id"]
    assert api.post(f"/api/prompts/{name}x/restore").status_code == 404


# Chunks


def test_chunks_are_kept_as_given_until_the_content_changes(library: Library, api: httpx.Client):
    chunks = [{"text": "  one "}, {"text": "two"}, {"text": "two"}]
    media = library.media("one two", chunks=chunks)
    path = f"/api/media/{media['id']}"
    assert [c["text"] for c in media["chunks"]] == ["  one ", "two", "two"]
    assert [c["chunk_index"] for c in media["chunks"]] == [0, 1, 2]
    assert len({c["chunk_uuid"] for c in media["chunks"]}) == 3
    for edit in ({"title": "x"}, {"content": "one two"}, {"url": "u"}, {"keywords": ["k"]}):
        kept = api.put(path, json=edit).json()
        assert [c["text"] for c in kept["chunks"]] == ["  one ", "two", "two"]
    changed = api.put(path, json={"content": "another text"}).json()
    assert [c["text"] for c in changed["chunks"]] == ["another text"]
    given = api.put(path, json={"content": "third", "chunks": [{"text": "thi"}, {"text": "rd"}]}).json()
    assert [c["text"] for c in given["chunks"]] == ["thi", "rd"]


def test_what_is_said_in_chunks_is_found_and_what_they_replace_is_not_doubled(library: Library, mcp: Mcp):
    unique = word()
    library.media(f"{unique} in content", chunks=[{"text": "first"}, {"text": f"{unique} in a chunk"}])
    (hit,) = search(mcp, "media", unique)
    assert hit["loc"]["chunk_index"] == 1
    assert hit["snippet"] == f"{unique} in a chunk"


def test_a_long_text_is_cut_into_chunks_that_together_are_all_of_it(library: Library):
    text = "".join(f"Sentence number {n} says something. " for n in range(500))
    chunks = [c["text"] for c in library.media(text)["chunks"]]
    assert len(chunks) > 10
    at = 0
    for chunk in chunks:
        assert chunk in text
        place = text.index(chunk)
        assert place <= at < place + len(chunk)
        at = place + len(chunk)
    assert at == len(text)


def test_twenty_million_characters_are_too_many_and_a_million_are_not(library: Library, api: httpx.Client):
    unique = word()
    text = "word " * 200_000 + unique
    note = library.note(text)
    assert library.get("notes", note["id"], mode="full", max_tokens=200_000)["truncated"]
    assert library.search(unique)["results"][0]["id"] == note["id"]
    assert api.post("/api/notes", json={"title": "t", "content": "x" * 17_000_000}).status_code == 413


def test_retries_with_a_version_change_only_once(library: Library, api: httpx.Client):
    from concurrent.futures import ThreadPoolExecutor

    note = library.note("a")
    with ThreadPoolExecutor(8) as pool:
        edits = [
            pool.submit(api.put, f"/api/notes/{note['id']}", json={"content": f"edit {n}", "version": 1})
            for n in range(8)
        ]
    statuses = sorted(edit.result().status_code for edit in edits)
    assert statuses == [200] + [409] * 7
    assert api.get(f"/api/notes/{note['id']}").json()["version"] == 2


def test_many_speak_in_a_chat_at_once_and_nobody_is_lost(library: Library, api: httpx.Client):
    from concurrent.futures import ThreadPoolExecutor

    chat = library.chat()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: library.say(chat, str(n)), range(24)))
    said = api.get(f"/api/chats/{chat['id']}/messages").json()
    assert [m["message_index"] for m in said] == list(range(24))
    assert sorted(int(m["content"]) for m in said) == list(range(24))
