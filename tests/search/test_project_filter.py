"""Projects, and one result for each message however often it is kept (contract, section 8)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.archive.test_import_uploads import send
from tests.helpers import Mcp, Server, word
from tests.importers.samples import answered, jsonl, text, typed
from tests.library_items import Library
from tests.sessions.test_session_search import Talk, lines, talk, transcripts

from palaver.model.sessions import Owner, Turn
from palaver.store.sessions.transcripts import Transcripts

__all__ = ["talk"]


def knowledge(api: httpx.Client, query: str, **more: Any) -> list[dict[str, Any]]:
    response = api.post("/api/knowledge/search", json={"query": query, "dedupe": False, **more})
    assert response.status_code == 200, response.text
    return list(response.json()["results"])


def bring(api: httpx.Client, session: str, *lines: dict[str, Any]) -> None:
    """Import a session of Claude Code."""
    done = send(api, (f"{session}.jsonl", jsonl(*lines)))
    assert done["status"] == "done", done


@pytest.fixture
def place() -> str:
    """A project of the test's own, on some other machine."""
    return f"/nowhere/ann/{word('app')}"


# Projects


def test_a_turn_keeps_its_project_and_later_turns_belong_to_it_too(server: Server, talk: Talk, place: str):
    unique = word()
    first = talk.say(f"{unique} one", project=place)
    talk.say(f"{unique} two")
    talk.say(f"{unique} three", "elsewhere")
    assert first["project"] == place
    assert [line.get("project") for line in lines(server, talk)] == [place, None]
    for name in (place, f"{place}/", place.rpartition("/")[2], place.upper()):
        assert {hit["content"] for hit in talk.hits(unique, project=name)} == {f"{unique} one", f"{unique} two"}
    assert {hit["project"] for hit in talk.hits(unique, project=place)} == {place}
    assert {hit["content"] for hit in talk.all(unique, project=place)} == {f"{unique} one", f"{unique} two"}
    for name in ("ann", "/nowhere/ann", "/" + place.rpartition("/")[2], word()):
        assert talk.hits(unique, project=name) == []
    (without,) = [hit for hit in talk.hits(unique) if hit["content"] == f"{unique} three"]
    assert "project" not in without
    assert talk.post("x", project=" ").status_code == 400


def test_sessions_are_listed_with_their_agent_and_project(talk: Talk, place: str):
    talk.say("one", "with", project=place)
    talk.say("two", "without")
    listed = talk.api.get("/api/v1/sessions", params={"agent": talk.agent}).json()["sessions"]
    assert {(one["session_id"], one["agent"], one.get("project")) for one in listed} == {
        ("with", talk.agent, place),
        ("without", talk.agent, None),
    }
    name = place.rpartition("/")[2]
    narrow = talk.api.get("/api/v1/sessions", params={"project": name}).json()["sessions"]
    assert [one["session_id"] for one in narrow] == ["with"]
    assert talk.api.get("/api/v1/sessions", params={"project": word()}).json()["sessions"] == []


def test_an_agent_narrows_its_own_memory_by_project(api: httpx.Client, talk: Talk, place: str):
    unique = word()
    mine = Mcp(api, f"/mcp?agent={talk.agent}")
    mine.call("session_append", session_id="s", role="user", content=f"{unique} here", project=place)
    mine.call("session_append", session_id="t", role="user", content=f"{unique} there")
    assert len(mine.call("conversation_search_own", query=unique)["hits"]) == 2
    (hit,) = mine.call("conversation_search_own", query=unique, project=place)["hits"]
    assert (hit["content"], hit["project"]) == (f"{unique} here", place)
    (found,) = mine.call("sessions_search", query=unique, project=place, verbose=True)["results"]
    assert found["project"] == place


def test_an_imported_coding_conversation_keeps_its_project(api: httpx.Client, place: str):
    unique, session = word(), str(uuid4())
    cwd = f"{place}/.claude/worktrees/fix-{word()}"
    bring(
        api,
        session,
        typed(f"{unique} asked", session, cwd=cwd),
        {"type": "custom-title", "customTitle": unique, "sessionId": session},
    )
    mcp = Mcp(api)
    found = mcp.call("archive_search", query=unique, project=place)["results"]
    assert {(hit["conversation_id"], hit["project"]) for hit in found} == {(f"claude-code:{session}", place)}
    assert len(found) == 2  # its title, and what was asked
    assert mcp.call("archive_search", query=unique, project=word())["results"] == []
    listed = api.get("/api/archive", params={"project": place}).json()["conversations"]
    assert [(one["id"], one["project"]) for one in listed] == [(f"claude-code:{session}", place)]
    assert api.get(f"/api/archive/claude-code:{session}").json()["project"] == place


def test_knowledge_of_a_project_leaves_out_sources_that_have_none(
    api: httpx.Client, library: Library, talk: Talk, place: str
):
    unique, session = word(), str(uuid4())
    library.note(f"{unique} noted")
    talk.say(f"{unique} recorded", project=place)
    talk.say(f"{unique} elsewhere", "other", project="/nowhere/other")
    bring(api, session, typed(f"{unique} imported", session, cwd=place))
    assert len(knowledge(api, unique)) == 4
    found = knowledge(api, unique, project=place)
    assert {(hit["source"], hit["project"]) for hit in found} == {("sessions", place), ("archive", place)}
    assert [hit["source"] for hit in knowledge(api, unique, project=place, sources=["archive", "notes"])] == ["archive"]
    assert knowledge(api, unique, project=place, sources=["notes"]) == []
    narrow = {"sessions": {"role": "user"}, "archive": {"roles": ["tool"]}}
    assert [hit["source"] for hit in knowledge(api, unique, project=place, filters=narrow)] == ["sessions"]
    assert all("project" not in hit for hit in knowledge(api, unique, sources=["notes"]))


# No doubles


def test_a_conversation_that_was_recorded_and_imported_is_one_result(api: httpx.Client, talk: Talk):
    unique, session = word(), str(uuid4())
    said = [typed(f"{unique} asked", session), answered(text(f"{unique} answered"), session=session)]
    bring(api, session, *said)
    for line, content, role in zip(said, ("asked", "answered"), ("user", "assistant"), strict=True):
        talk.say(f"{unique} {content}", session, role, id=line["uuid"], ts=line["timestamp"])
    answer = api.post("/api/knowledge/search", json={"query": unique, "dedupe": False}).json()
    assert (len(answer["results"]), answer["total_estimated"]) == (2, 2)
    for source in ("sessions", "archive"):
        assert len(knowledge(api, unique, sources=[source])) == 2
    # What was shown as one copy is not new as the other.
    shown = api.post("/api/knowledge/search", json={"query": unique, "sources": ["sessions"]}).json()
    again = api.post("/api/knowledge/search", json={"query": unique, "session_id": shown["session_id"]}).json()
    assert [hit["seen"] for hit in again["results"]] == [True, True]


def test_what_a_fork_copied_is_found_once_for_each_turn(api: httpx.Client, talk: Talk):
    unique, copied = word(), [str(uuid4()) for _ in range(3)]
    for session in ("origin", "fork"):
        for number, id in enumerate(copied):
            talk.say(f"{unique} {number}", session, id=id, ts=f"2026-05-01T10:00:0{number}Z")
    talk.say(f"{unique} new", "fork", ts="2026-05-02T10:00:00Z")
    everything = [f"{unique} new", f"{unique} 2", f"{unique} 1", f"{unique} 0"]
    assert talk.contents(unique) == everything
    assert [hit["content"] for hit in talk.all(unique)] == everything
    for limit in (1, 2, 3):
        assert talk.contents(unique, limit=limit) == everything[:limit]
    assert len(talk.hits(unique, session_id="origin")) == 3
    assert len(talk.hits(unique, session_id="fork")) == 4
    mine = Mcp(api, f"/mcp?agent={talk.agent}")
    assert mine.call("conversation_search_own", query=unique)["count"] == 4
    assert len(knowledge(api, unique)) == 4
    pages: list[str] = []
    offset: int | None = 0
    while offset is not None:
        page = api.post(
            "/api/knowledge/search", json={"query": unique, "dedupe": False, "limit": 3, "offset": offset}
        ).json()
        assert page["total_estimated"] == 4
        pages += [hit["snippet"] for hit in page["results"]]
        offset = page["next_offset"]
    assert sorted(pages) == sorted(everything)


def test_many_copies_are_counted_once_and_paged_through_to_the_end(server: Server, talk: Talk):
    unique = word()
    ids = [str(uuid4()) for _ in range(400)]
    first = talk.say("many are to come", "origin")
    _write(server, talk, first["agent_id"], "origin", [(id, f"{unique} number {n}") for n, id in enumerate(ids)])
    _write(server, talk, first["agent_id"], "fork", [(id, f"{unique} number {n}") for n, id in enumerate(ids)])
    found: list[str] = []
    offset: int | None = 0
    while offset is not None:
        ask = {"query": unique, "dedupe": False, "limit": 100, "offset": offset}
        page = talk.api.post("/api/knowledge/search", json=ask).json()
        assert page["total_estimated"] == 400
        found += [hit["message_id"] for hit in page["results"]]
        offset = page["next_offset"]
    assert sorted(found) == sorted(ids)


def _write(server: Server, talk: Talk, agent_id: str, session: str, turns: list[tuple[str, str]]) -> None:
    """Many turns at once, straight into the transcript; one more over REST takes them all into the index."""
    at = datetime(2026, 5, 1, tzinfo=UTC)
    made = [Turn(id, session, agent_id, "user", content, at, at) for id, content in turns]
    Transcripts(transcripts(server)).append(Owner(agent_id, talk.agent, talk.agent), session, made)
    talk.say("those were many", session)


def test_equal_ids_that_are_no_uuids_are_turns_of_their_own(talk: Talk):
    unique = word()
    for session in ("one", "two"):
        talk.say(f"{unique} yes", session, id="1", ts="2026-05-01T10:00:00Z")
    assert len(talk.hits(unique)) == 2
    assert len(knowledge(talk.api, unique)) == 2
