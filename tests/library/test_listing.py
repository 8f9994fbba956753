"""The listing of the library: filters, order, pages, deleted items, and the values to filter by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.conftest import Engine
from tests.helpers import Server, start_server, started_with, word
from tests.trust.people import Key, make_workspace


@pytest.fixture(scope="module")
def guarded(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp(f"listing-{engine.name}")
    with start_server(home, PALAVER_AUTH="token", PALAVER_DATABASE_URL=engine.fresh()) as server:
        yield server


@pytest.fixture
def workspace(guarded: Server) -> str:
    name = word("space")
    make_workspace(guarded, name)
    return name


@pytest.fixture
def person(guarded: Server, workspace: str) -> Key:
    """A person in a workspace of their own."""
    return Key(guarded, workspace, name="nell")


def make(key: Key, path: str, **what: Any) -> str:
    answer = key.api.post(path, json=what)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def listed(key: Key, source: str, **asked: Any) -> dict[str, Any]:
    answer = key.api.get(f"/api/library/{source}", params=asked)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def titles(key: Key, source: str, **asked: Any) -> list[str]:
    return [one["title"] for one in listed(key, source, **asked)["documents"]]


def three_notes(key: Key) -> None:
    make(key, "/api/notes", title="Äpfel", content="red", keywords=["fruit", "Herbst"], created_at="2024-01-03")
    make(key, "/api/notes", title="Bread", content="b" * 1000, keywords=["baking"], created_at="2024-01-01")
    make(key, "/api/notes", title="apple pie", content="", keywords=["fruit", "baking"], created_at="2024-01-02")


def test_notes_are_sorted_by_change_creation_or_title(person: Key):
    three_notes(person)
    changed = make(person, "/api/notes", title="Zucchini", created_at="2023-01-01")
    person.api.put(f"/api/notes/{changed}", json={"content": "green"})
    assert titles(person, "notes") == ["Zucchini", "Äpfel", "apple pie", "Bread"]
    assert titles(person, "notes", sort="created") == ["Äpfel", "apple pie", "Bread", "Zucchini"]
    assert titles(person, "notes", sort="title") == ["apple pie", "Bread", "Zucchini", "Äpfel"]


def test_words_are_found_in_titles_and_tags_whatever_their_case(person: Key):
    three_notes(person)
    assert titles(person, "notes", text="ÄPF") == ["Äpfel"]
    assert titles(person, "notes", text="FRUIT") == ["Äpfel", "apple pie"]
    assert titles(person, "notes", text="bak app") == ["apple pie"]
    assert titles(person, "notes", text="% _") == []
    assert titles(person, "notes", tag="baking", sort="title") == ["apple pie", "Bread"]
    assert titles(person, "notes", tag="bak") == []


def test_pages_say_how_many_documents_there_are(person: Key):
    three_notes(person)
    first = listed(person, "notes", limit=2)
    assert first["total"] == 3
    assert len(first["documents"]) == 2
    assert titles(person, "notes", limit=2, offset=2) == ["Bread"]
    assert listed(person, "notes", tag="fruit", limit=1)["total"] == 2
    assert listed(person, "notes", offset=5) == {"documents": [], "total": 3, "choices": None}


def test_a_card_has_the_start_of_the_text(person: Key):
    three_notes(person)
    found = {one["title"]: one for one in listed(person, "notes")["documents"]}
    assert found["Bread"]["text"] == "b" * 300
    assert [tag.casefold() for tag in found["Äpfel"]["tags"]] == ["fruit", "herbst"]
    make(person, "/api/prompts", name="Review", user_prompt="Look at {{diff}}", author="Ann")
    [prompt] = listed(person, "prompts")["documents"]
    assert (prompt["text"], prompt["author"]) == ("Look at {{diff}}", "Ann")
    make(person, "/api/characters", name="Ada", description="knows", creator="Ben")
    assert listed(person, "characters")["documents"][0]["text"] == "knows"


def test_the_values_to_filter_by_are_counted(person: Key):
    three_notes(person)
    tags = listed(person, "notes", choices=True, text="pie")["choices"]["tags"]
    assert [(one["value"].casefold(), one["documents"]) for one in tags] == [("baking", 2), ("fruit", 2), ("herbst", 1)]
    make(person, "/api/media", title="Talk", media_type="video", content="x", url="https://example.org/talk")
    make(person, "/api/media", title="Book", media_type="epub", content="x")
    make(person, "/api/media", title="Film", media_type="video", content="x")
    found = listed(person, "media", choices=True)
    assert found["choices"]["origins"] == [
        {"value": "video", "documents": 2},
        {"value": "epub", "documents": 1},
    ]
    assert titles(person, "media", origin="epub") == ["Book"]
    assert [one["text"] for one in found["documents"] if one["title"] == "Talk"] == ["https://example.org/talk"]


def test_deleted_items_are_listed_apart_and_can_be_restored(person: Key):
    three_notes(person)
    gone = [one["id"] for one in listed(person, "notes")["documents"] if one["title"] != "Bread"]
    for id in gone:
        person.api.delete(f"/api/notes/{id}")
    assert titles(person, "notes") == ["Bread"]
    deleted = listed(person, "notes", deleted=True)
    assert [one["id"] for one in deleted["documents"]] == gone[::-1]  # the one deleted last comes first
    assert all(one["deleted_at"] for one in deleted["documents"])
    person.api.post(f"/api/notes/{gone[0]}/restore")
    assert listed(person, "notes", deleted=True)["total"] == 1
    assert listed(person, "notes")["total"] == 2


def record(key: Key, agent: str, project: str) -> None:
    turn = {"id": word(), "role": "user", "content": "work", "project": project, "ts": "2026-01-01T00:00:00Z"}
    answer = key.api.put(f"/api/v1/agents/{agent}/sessions/{word()}/messages", json={"turns": [turn]})
    assert answer.status_code == 200, answer.text


def test_sessions_are_filtered_by_project_and_agent(person: Key):
    record(person, "coder", "/src/garden")
    record(person, "painter", "/src/house")
    [garden] = listed(person, "sessions", project="garden")["documents"]
    assert (garden["origin"], garden["project"], garden["messages"]) == ("coder", "/src/garden", 1)
    assert garden["agent_id"]
    assert garden["session_id"]
    assert listed(person, "sessions", origin="painter")["documents"][0]["project"] == "/src/house"
    projects = listed(person, "sessions", choices=True)["choices"]["projects"]
    assert [one["value"] for one in projects] == ["/src/garden", "/src/house"]


def test_an_agent_lists_only_its_own_sessions(guarded: Server, workspace: str, person: Key):
    record(person, "coder", "/src/garden")
    record(person, "painter", "/src/house")
    agent = Key(guarded, workspace, kind="agent", name="painter")
    found = listed(agent, "sessions", choices=True)
    assert [one["origin"] for one in found["documents"]] == ["painter"]
    assert [one["value"] for one in found["choices"]["projects"]] == ["/src/house"]


def test_an_unknown_source_is_refused(person: Key):
    answer = person.api.get("/api/library/nonsense")
    assert answer.status_code == 422
    assert "notes" in answer.text


def test_imported_files_are_found_by_their_folder(
    api: httpx.Client, server: Server, tmp_path_factory: pytest.TempPathFactory
):
    folder = tmp_path_factory.mktemp("files") / word("vault")
    folder.mkdir()
    (folder / "one.md").write_text(f"# One\n\n{word()}")
    done = started_with(server.env, "import", str(folder))
    assert done.returncode == 0, done.stderr
    found = api.get("/api/library/notes", params={"origin": folder.name}).json()
    assert [one["origin"] for one in found["documents"]] == [folder.name]


def test_a_tag_and_a_type_are_filtered_by_in_every_source_that_has_them(person: Key):
    make(person, "/api/notes", title="", content="no title", keywords=["Ärger", "x"])
    make(person, "/api/notes", title="Other", content="ärger", keywords=["x"])
    make(person, "/api/prompts", name="Review", user_prompt="Look", keywords=["ärger"])
    make(person, "/api/characters", name="Ada", description="knows", tags=["Ärger"])
    for title, media_type in (("Film", "video"), ("Tape", "audio")):
        make(person, "/api/media", title=title, media_type=media_type, content="text", keywords=["ärger"])
    for source, expected in {
        "notes": [""],
        "prompts": ["Review"],
        "characters": ["Ada"],
        "media": ["Tape", "Film"],
    }.items():
        assert titles(person, source, tag="ÄRGER") == expected
        assert listed(person, source, tag="ärger", limit=1)["total"] == len(expected)
        assert titles(person, source, tag="ärger", text="nowhere") == []
    assert titles(person, "media", origin="video", tag="ärger") == ["Film"]
    assert titles(person, "media", origin="Video") == []
    assert titles(person, "media", tag="ärger", sort="title") == ["Film", "Tape"]
    gone = person.api.get("/api/library/characters").json()["documents"][0]["id"]
    person.api.delete(f"/api/characters/{gone}")
    assert titles(person, "characters", tag="ärger") == []
    assert titles(person, "characters", tag="ärger", deleted=True) == ["Ada"]
