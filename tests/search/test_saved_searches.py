"""Saved searches, completion of operators, and counts by source and month."""

from __future__ import annotations

from typing import Any

import httpx
from tests.helpers import Server, Thread, started_with, word
from tests.library_items import Library


def values(api: httpx.Client, operator: str, text: str = "", **more: Any) -> list[str]:
    answer = api.get("/api/knowledge/complete", params={"operator": operator, "text": text, **more})
    assert answer.status_code == 200, answer.text
    return [one["value"] for one in answer.json()]


def test_a_search_is_saved_renamed_and_removed(api: httpx.Client):
    name = word("Deploys ")
    saved = api.post("/api/searches", json={"name": f" {name} ", "query": "from:ada deploy"})
    assert saved.status_code == 201
    id = saved.json()["id"]
    assert {"id": id, "name": name, "query": "from:ada deploy"}.items() <= saved.json().items()
    again = api.post("/api/searches", json={"name": name.upper(), "query": "has:code"}).json()
    assert (again["id"], again["query"]) == (id, "has:code")
    renamed = api.put(f"/api/searches/{id}", json={"name": f"{name} two"}).json()
    assert (renamed["name"], renamed["query"]) == (f"{name} two", "has:code")
    assert renamed in api.get("/api/searches").json()
    assert api.delete(f"/api/searches/{id}").status_code == 200
    assert id not in {one["id"] for one in api.get("/api/searches").json()}
    assert api.delete(f"/api/searches/{id}").status_code == 404
    assert api.put(f"/api/searches/{id}", json={"name": "x"}).status_code == 404
    assert api.post("/api/searches", json={"name": "  ", "query": "x"}).status_code == 422


def test_the_command_line_saves_and_lists_searches(server: Server, api: httpx.Client):
    name = word("mine")
    added = started_with(server.env, "saved", "add", name, "from:ada", "deploy")
    assert added.returncode == 0, added.stderr
    listed = started_with(server.env, "saved", "list")
    assert name in listed.stdout
    assert "from:ada deploy" in listed.stdout


def test_values_of_operators_are_completed(api: httpx.Client, library: Library):
    person, slug, topic, project = word("Perla "), word("zoe"), word("Launch of "), word("appl")
    agent = api.post("/api/agents/register", json={"display_name": f"{slug} Bot", "slug": slug}).json()["agent_id"]
    thread = Thread(api, topic)
    thread.post("hello", author=person)
    thread.post("hello", author=agent)
    library.turn(slug, "hello", project=f"/src/{project}")
    assert values(api, "from", person[:8].lower()) == [person]
    assert values(api, "from", person.split()[1]) == [person]
    assert values(api, "from", slug) == [f"{slug} Bot"]
    assert values(api, "in", topic.lower()[:-1]) == [topic]
    assert values(api, "in", topic.split()[-1]) == [topic]
    assert topic in values(api, "in")
    assert values(api, "project", project[:5]) == [project]
    assert values(api, "source", "no") == ["notes"]
    assert values(api, "source", "imp") == ["archive"]
    assert values(api, "has") == ["code", "link", "image", "reaction", "table"]
    assert "yesterday" in values(api, "after")
    assert values(api, "from", word("nobody")) == []
    assert api.get("/api/knowledge/complete", params={"operator": "to"}).status_code == 422


def test_results_are_counted_by_source_and_month(library: Library):
    unique = word("gecko")
    for at in ("2026-04-30T23:30:00Z", "2026-05-02T10:00:00Z"):
        library.note(f"{unique} " + "filler text " * 500 + unique, created_at=at)
    library.archived(f"{unique} one", f"{unique} two", at=1_767_225_600)  # January 2026
    counts = library.search(unique, counts=True, time_zone="UTC")["counts"]
    assert counts == {
        "sources": {"notes": 2, "archive": 2},
        "months": {"2026-05": 1, "2026-04": 1, "2026-01": 2},
        "is_capped": False,
    }
    berlin = library.search(f"{unique} source:notes", counts=True, time_zone="Europe/Berlin")["counts"]
    assert berlin["months"] == {"2026-05": 2}
    assert library.search(unique)["counts"] is None
    assert library.search(word(), counts=True)["counts"] == {"sources": {}, "months": {}, "is_capped": False}


def test_a_list_without_words_is_counted_too(api: httpx.Client, library: Library):
    name, thread = word("Nia"), Thread(api)
    for number in range(3):
        thread.post(f"number {number}", author=name)
    counts = library.search(f"from:{name}", counts=True)["counts"]
    assert counts["sources"] == {"bus": 3}
    assert list(counts["months"].values()) == [3]


def test_the_command_line_shows_counts(server: Server, library: Library):
    unique = word("gull")
    library.note(f"{unique} a", created_at="2026-05-02T10:00:00Z")
    shown = started_with(server.env, "search", unique, "source:notes", "--counts")
    assert shown.returncode == 0, shown.stderr
    assert "sources: notes 1" in shown.stdout + shown.stderr
    assert "months: 2026-05 1" in shown.stdout + shown.stderr
    refused = started_with(server.env, "search", unique, "source:nowhere")
    assert refused.returncode != 0
    assert "Use one of notes" in refused.stderr
