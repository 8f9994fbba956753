"""Operators in a query: from, in, source, project, before, after, has."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.conftest import ONE_ENGINE
from tests.helpers import Mcp, Thread, word
from tests.library_items import Library


def found(api: httpx.Client, query: str, **more: Any) -> list[str]:
    answer = Library(api).search(query, dedupe=False, limit=100, **more)
    return [one["snippet"] for one in answer["results"]]


def test_from_names_a_person_an_agent_or_a_role(api: httpx.Client, library: Library):
    unique, slug = word("otter"), word("wren")
    agent = api.post("/api/agents/register", json={"display_name": f"{slug} Display", "slug": slug}).json()["agent_id"]
    thread, name = Thread(api), word("Änne Löwe ")
    thread.post(f"{unique} by a person", author=name)
    thread.post(f"{unique} by an agent", author=agent)
    thread.post(f"{unique} by another", author="someone")
    library.chat(f"{unique} in a chat", sender=name)
    library.turn(slug, f"{unique} asked in a session", role="user")
    library.turn(slug, f"{unique} answered in a session", role="assistant")
    library.archived(f"{unique} imported")
    library.note(f"{unique} in a note")
    by_person = {f"{unique} by a person", f"{unique} in a chat"}
    for spelling in (name, name.lower(), name.upper()):
        assert set(found(api, f'{unique} from:"{spelling}"')) == by_person
    by_agent = {f"{unique} by an agent", f"{unique} answered in a session"}
    for called in (slug, f"@{slug}", f'"{slug} Display"', agent):
        assert set(found(api, f"from:{called} {unique}")) == by_agent
    assert set(found(api, f"{unique} from:user")) == {f"{unique} asked in a session", f"{unique} imported"}
    assert set(found(api, f'{unique} from:{slug} from:"{name}"')) == by_agent | by_person
    assert found(api, f"{unique} from:{word('nobody')}") == []


def test_from_me_is_who_asks(api: httpx.Client):
    unique, thread = word(), Thread(api)
    thread.post(f"{unique} mine", author="human")
    thread.post(f"{unique} theirs", author="someone")
    assert found(api, f"{unique} from:me") == [f"{unique} mine"]


def test_in_names_a_conversation_or_a_document(api: httpx.Client, library: Library):
    unique, topic = word("heron"), word("Deploy of ")
    thread = Thread(api, topic)
    thread.post(f"{unique} here")
    Thread(api, f"{topic} again").post(f"{unique} again")
    Thread(api).post(f"{unique} elsewhere")
    library.note(f"{unique} in a note", title=f"Note {topic}")
    for place in (f'"{topic}"', f'"{topic.lower()}"', thread.id):
        assert found(api, f"{unique} in:{place}") == [f"{unique} here"]
    # No title is just this word, so titles that have it count.
    assert set(found(api, f"{unique} in:{topic.split()[-1][:-2]}")) == {
        f"{unique} here",
        f"{unique} again",
        f"{unique} in a note",
    }
    assert found(api, f"{unique} in:{word('nowhere')}") == []


def test_source_names_one_or_more_sources(api: httpx.Client, library: Library):
    unique = word("ibis")
    for source in ("notes", "prompts", "bus"):
        library.put_in(source, f"{unique} in {source}")
    assert found(api, f"{unique} source:notes") == [f"{unique} in notes"]
    assert found(api, f"{unique} source:thread") == [f"{unique} in bus"]
    both = {f"{unique} in notes", f"{unique} in prompts"}
    assert set(found(api, f"{unique} source:notes,prompts")) == both
    assert set(found(api, f"{unique} source:note source:prompt")) == both
    assert found(api, f"{unique} source:notes", sources=["bus"]) == []
    assert found(api, f"{unique} source:notes", sources=["bus", "notes"]) == [f"{unique} in notes"]


def test_project_names_a_project(library: Library, api: httpx.Client):
    unique, name, agent = word("lynx"), word("app"), word("bot")
    library.turn(agent, f"{unique} inside", session="s", project=f"/nowhere/{name}")
    library.turn(agent, f"{unique} outside", session="t")
    library.note(f"{unique} in a note")
    for project in (name, f"/nowhere/{name}"):
        assert found(api, f"{unique} project:{project}") == [f"{unique} inside"]
    assert found(api, f"{unique} project:{name}", project=word("other")) == []


def test_before_and_after_take_dates_months_years_and_words(library: Library, api: httpx.Client):
    unique = word("newt")
    for day in ("2025-12-31", "2026-04-30", "2026-05-01", "2026-05-31"):
        library.note(f"{unique} {day}", created_at=f"{day}T12:00:00Z")
    april, may = [f"{unique} 2025-12-31", f"{unique} 2026-04-30"], [f"{unique} 2026-05-01", f"{unique} 2026-05-31"]
    for value in ("2026-05-01", "2026-05", "2026-05-01T00:00:00Z", '"May 2026"', "1.5.2026"):
        assert sorted(found(api, f"{unique} before:{value}", time_zone="UTC")) == april
        assert sorted(found(api, f"{unique} after:{value}", time_zone="UTC")) == may
    assert found(api, f"{unique} before:2026") == [f"{unique} 2025-12-31"]
    assert found(api, f"{unique} after:2026 before:2026-05") == [f"{unique} 2026-04-30"]
    assert found(api, f"{unique} after:2026", date_to="2026-04-30") == [f"{unique} 2026-04-30"]
    asked = {"as_of": "2026-06-02T10:00:00Z", "time_zone": "UTC"}
    assert found(api, f"{unique} after:3d", **asked) == [f"{unique} 2026-05-31"]
    assert found(api, f'{unique} after:"3 days ago"', **asked) == [f"{unique} 2026-05-31"]
    assert found(api, f"{unique} after:last-week", **asked) == [f"{unique} 2026-05-31"]
    assert found(api, f"{unique} after:yesterday", **asked) == []


def test_a_day_begins_where_the_asker_is(library: Library, api: httpx.Client):
    unique = word("mole")
    library.note(unique, created_at="2026-05-01T22:30:00Z")
    assert found(api, f"{unique} after:2026-05-02", time_zone="UTC") == []
    assert found(api, f"{unique} after:2026-05-02", time_zone="Europe/Berlin") == [unique]


def test_has_says_what_is_in_a_text(api: httpx.Client, library: Library):
    unique, thread = word("vole"), Thread(api)
    texts = {
        "code": f"{unique} run\n```\nmake\n```",
        "link": f"{unique} see HTTPS://example.org",
        "table": f"{unique}\n\n| a | b |\n| --- | --- |\n| 1 | 2 |",
        "reaction": f"{unique} agreed",
    }
    sent = {name: thread.post(text) for name, text in texts.items()}
    thread.post(f"{unique} plain")
    thread.post(f"{unique} picture", images=[{"url": "/uploads/a.png", "name": "a.png"}])
    library.note(f"{unique} note with ```code```")
    api.post(f"/api/messages/{sent['reaction']['id']}/reactions", json={"reaction": "👍"})
    assert len(found(api, f"{unique} has:code")) == 2
    assert [len(found(api, f"{unique} has:{name}")) for name in ("link", "table", "reaction", "image")] == [1, 1, 1, 1]
    assert found(api, f"{unique} has:attachment") == [f"{unique} picture"]
    assert found(api, f"{unique} has:code source:bus") == [f"{unique} run ``` make ```"]
    assert found(api, f"{unique} has:code has:link") == []


def test_operators_alone_list_the_newest_first(library: Library, api: httpx.Client):
    name, thread = word("Ada"), Thread(api)
    for number in range(5):
        thread.post(f"number {number}", author=name)
    thread.post("not hers", author="someone")
    answer = library.search(f"from:{name}", limit=3)
    assert [one["snippet"] for one in answer["results"]] == ["number 4", "number 3", "number 2"]
    assert (answer["total_estimated"], answer["next_offset"], answer["matched"]) == (5, 3, "all words")
    rest = library.search(f"from:{name}", limit=3, offset=3)
    assert [one["snippet"] for one in rest["results"]] == ["number 1", "number 0"]
    assert found(api, f"in:{thread.id}")[0] == "not hers"
    assert found(api, f"from:{name} in:{thread.id} after:2020") == [f"number {n}" for n in (4, 3, 2, 1, 0)]
    assert found(api, f"from:{name} has:code") == []
    title = word("Title")
    library.note("the text of a note", title=title)
    assert found(api, f"in:{title}") == ["the text of a note"]
    assert "the text of a note" in found(api, "source:notes after:today")


def test_the_answer_says_what_was_read(library: Library):
    answer = library.search('from:"Ada L" after:2026-05 source:note has:links xyzzy', time_zone="UTC")
    assert answer["operators"] == {
        "from": ["Ada L"],
        "after": ["2026-05-01T00:00:00Z"],
        "source": ["notes"],
        "has": ["link"],
    }
    assert "from:, after:, source:, has:" in answer["hint"]
    assert library.search("http://example.org 12:30 TODO:fix")["operators"] is None


@ONE_ENGINE
@pytest.mark.parametrize(
    "query, advice",
    [
        ("source:book x", "Use one of notes, media"),
        ("has:everything x", "use one of code, link"),
        ("before:whenever x", "Use before:2026-05-01"),
        ("after:2026-13-45 x", "Use after:2026-05-01"),
    ],
)
def test_a_value_without_meaning_is_refused_with_advice(api: httpx.Client, mcp: Mcp, query: str, advice: str):
    response = api.post("/api/knowledge/search", json={"query": query})
    assert response.status_code == 400
    assert advice in response.json()["detail"]
    assert "double quotes" in response.json()["detail"]
    for path in ("search", "context"):
        assert api.get(f"/api/knowledge/{path}", params={"q": query}).status_code == 400
    assert advice in str(mcp.refused("knowledge_search", query=query))


def test_evidence_takes_the_same_operators(api: httpx.Client):
    unique, thread = word("stoat"), Thread(api)
    thread.post(f"the {unique} is brown", author="Ada")
    thread.post(f"the {unique} is white", author="Bob")
    text = api.get("/api/knowledge/context", params={"q": f"which colour has the {unique} from:bob"}).json()["text"]
    assert "white" in text
    assert "brown" not in text


def test_a_minus_excludes_an_author(api: httpx.Client, library: Library):
    unique, slug, name = word("stork"), word("wren"), word("Änne Löwe ")
    agent = api.post("/api/agents/register", json={"display_name": f"{slug} Display", "slug": slug}).json()["agent_id"]
    thread = Thread(api)
    thread.post(f"{unique} by a person", author=name)
    thread.post(f"{unique} by an agent", author=agent)
    thread.post(f"{unique} by another", author="someone")
    library.chat(f"{unique} in a chat", sender=name)
    library.turn(slug, f"{unique} asked in a session", role="user")
    library.turn(slug, f"{unique} answered in a session", role="assistant")
    library.turn(word("robin"), f"{unique} answered by another", role="assistant")
    library.archived(f"{unique} imported")
    library.note(f"{unique} in a note")
    everything = set(found(api, unique))
    assert len(everything) == 9
    by_agent = {f"{unique} by an agent", f"{unique} answered in a session"}
    by_person = {f"{unique} by a person", f"{unique} in a chat"}
    for query, left_out in {
        f'-from:"{name.upper()}"': by_person,
        f"-from:@{slug}": by_agent,
        f'-from:"{name}" -from:{agent}': by_person | by_agent,
        "-from:user": {f"{unique} asked in a session", f"{unique} imported"},
        "-from:assistant": {f"{unique} answered in a session", f"{unique} answered by another"},
        f"-from:{word('nobody')}": set(),
        f"from:{slug} -from:{slug}": everything,
    }.items():
        assert set(found(api, f"{unique} {query}")) == everything - left_out, query
    assert set(found(api, f'from:{slug} from:"{name}" -from:assistant {unique}')) == by_person | {
        f"{unique} by an agent"
    }


def test_a_minus_excludes_places_sources_projects_and_what_texts_have(api: httpx.Client, library: Library):
    unique, topic = word("crane"), word("Deploy of ")
    thread = Thread(api, topic)
    thread.post(f"{unique} here")
    Thread(api).post(f"{unique} with ```code```")
    library.note(f"{unique} in a note", title=f"Note {unique}")
    library.turn(word("robin"), f"{unique} in a project", project="/src/walrus")
    library.turn(word("robin"), f"{unique} in another", project="/src/otter")
    everything = set(found(api, unique))
    assert len(everything) == 5
    for query, left_out in {
        f'-in:"{topic}"': {f"{unique} here"},
        f"-in:{thread.id}": {f"{unique} here"},
        "-source:bus": {f"{unique} here", f"{unique} with ```code```"},
        "-source:sessions,bus": everything - {f"{unique} in a note"},
        "-project:walrus": {f"{unique} in a project"},
        "-project:/src/walrus -project:otter": {f"{unique} in a project", f"{unique} in another"},
        "-has:code": {f"{unique} with ```code```"},
        "-has:link -has:table": set(),
        "source:bus -has:code": everything - {f"{unique} here"},
    }.items():
        assert set(found(api, f"{unique} {query}")) == everything - left_out, query
    # The exact title does not bring back what is excluded, and operators alone list the rest.
    assert f"{unique} in a note" not in found(api, f'Note {unique} -in:"Note {unique}"')
    assert f"{unique} here" not in found(api, f'-in:"{topic}" -source:notes')
    assert f"{unique} with ```code```" in found(api, f'-in:"{topic}" -source:notes')
    assert set(found(api, f"{unique} -before:2020")) >= everything  # a word
    answer = Library(api).search(f"{unique} -from:ada -has:code,link", dedupe=False)
    assert answer["operators"] == {"-from": ["ada"], "-has": ["code", "link"]}


@pytest.mark.parametrize("query", ["-source:book", "-has:spoons"])
def test_an_excluded_value_without_meaning_is_refused(api: httpx.Client, query: str):
    answer = api.post("/api/knowledge/search", json={"query": f"word {query}"})
    assert answer.status_code == 400
