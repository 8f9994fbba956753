"""Nobody is called like somebody else, agents can be renamed, and a name that was taken stays taken."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.conftest import ONE_ENGINE, Engine
from tests.helpers import Mcp, Server, Thread, start_server, started_with, word
from tests.mcp_clients import Stateless

from palaver.text.folded_names import fold, keys_of

# What is the same name


@pytest.mark.parametrize(
    "name",
    ["ANN", "Ánn", "Аnn", "Αnn", "Ａｎｎ", "𝐀nn", "A\u200bnn", "ann\u2060", "a\u00adnn", "ann\ufe0f", " ann ", "@ann"],
)
def test_names_that_look_the_same_have_one_key(name: str):
    assert fold(name) == "ann"


@pytest.mark.parametrize("name", ["Anna", "An", "Hans", "राम", "部署", "🤖", "ann-2"])
def test_other_names_have_other_keys(name: str):
    assert fold(name) not in ("ann", fold("रम"), fold("部"), fold("🚀"))


@pytest.mark.parametrize(
    "name, meant", [("AIice", "alice"), ("A1ice", "alice"), ("al1ce", "alice"), ("B0b", "bob"), ("BiII", "bill")]
)
def test_digits_and_capitals_that_look_like_letters_take_the_name_too(name: str, meant: str):
    assert meant in keys_of(name)
    assert meant != fold(name)


def test_blanks_and_hyphens_are_the_same():
    assert fold("Claude Code") == fold("claude_code") == fold("claude – code") == "claude-code"
    assert fold("gpt-40") != fold("gpt-4o")


# A clash


@pytest.fixture
def ann(api: httpx.Client) -> dict[str, Any]:
    return dict(api.post("/api/agents", json={"display_name": word("Ann")}).json())


def alike(name: str) -> str:
    return name.replace("A", "А").swapcase()


@pytest.mark.parametrize("door", ["register", "slug", "connect", "update", "rest", "rename", "recorded", "address"])
def test_a_name_that_is_taken_is_refused_with_a_free_one(
    server: Server, api: httpx.Client, mcp: Mcp, ann: dict[str, Any], door: str
):
    name = ann["slug"] if door in ("slug", "recorded", "address") else alike(ann["display_name"])
    other = mcp.call("bus_connect", thread_name=f"topic {word()}", display_name=word("Bob"))["agent"]
    if door == "register":
        said = mcp.refused("agent_register", display_name=name)
    elif door == "slug":
        said = mcp.refused("agent_register", slug=name)
    elif door == "connect":
        said = Mcp(api).refused("bus_connect", thread_name=f"topic {word()}", display_name=name)
    elif door == "update":
        said = mcp.refused("agent_update", display_name=name)
    elif door == "rest":
        answer = api.post("/api/agents/register", json={"display_name": name})
        assert answer.status_code == 409
        said = answer.json()["detail"]
    elif door == "rename":
        done = started_with(server.env, "--url", server.url, "agent", "rename", other["slug"], name)
        assert done.returncode == 1
        said = done.stderr
    elif door == "recorded":
        api.delete(f"/api/agents/{ann['slug']}")
        said = api.post(f"/api/v1/agents/{name}/sessions/s/messages", json={"role": "user", "content": "x"}).json()
    else:
        api.delete(f"/api/agents/{ann['slug']}")
        thread = Thread(api)
        said = Mcp(api, f"/mcp?agent={name}").refused("msg_post", thread_id=thread.id, content="x")
    assert "is taken" in str(said)
    assert f"{name}{'-' if door in ('slug', 'recorded', 'address') else ' '}2' is free" in str(said)
    assert api.get(f"/api/agents/{other['agent_id']}").json()["display_name"] == other["display_name"]


@pytest.mark.parametrize("name", ["all", "Here", "human", "SYSTEM", "me", "Claude Code", "claude-code", "Сodex"])
def test_words_and_other_programs_are_not_names_of_agents(mcp: Mcp, name: str):
    mcp.call("bus_connect", thread_name=f"topic {word()}", display_name=word("Bob"))
    said = mcp.refused("agent_update", display_name=name)["message"]
    assert re.fullmatch(rf"'{name}' is taken\. '{name} \d+' is free\.", said)
    assert "is taken" in str(mcp.refused("agent_register", display_name=name))


@ONE_ENGINE
def test_a_program_may_have_its_own_name(engine: Engine, tmp_path: Path):
    with start_server(tmp_path) as server, server.client() as api:
        agent = Stateless(api, "codex").call("bus_connect", thread_name="t", display_name="Codex")["agent"]
        assert (agent["display_name"], agent["slug"]) == ("Codex", "codex")
        again = Mcp(api).call("agent_register", ide="Codex")
        assert (again["name"], again["slug"]) == ("Codex 2", "codex-2")


def test_a_name_of_its_own_is_never_taken(mcp: Mcp, api: httpx.Client):
    me = mcp.call("bus_connect", thread_name=f"topic {word()}", display_name=(name := word("Ann")))["agent"]
    assert mcp.call("agent_update", display_name=name.upper())["display_name"] == name.upper()
    assert mcp.call("agent_update", display_name=name)["display_name"] == name
    assert api.get(f"/api/agents/{me['slug']}").json()["id"] == me["agent_id"]


def test_names_that_the_server_makes_get_the_next_number(mcp: Mcp, api: httpx.Client):
    ide = word("Editor")
    names = [mcp.call("agent_register", ide=given)["name"] for given in (ide, ide.upper(), ide)]
    assert names == [ide, f"{ide.upper()} 2", f"{ide} 3"]


def test_the_id_of_an_agent_is_not_a_name(mcp: Mcp, ann: dict[str, Any]):
    assert "is taken" in str(mcp.refused("agent_register", display_name=ann["id"]))


# Writing under a name


@pytest.fixture(params=["session", "stateless"])
def bob(request: pytest.FixtureRequest, api: httpx.Client) -> Mcp:
    """A connected agent."""
    client = Mcp(api) if request.param == "session" else Stateless(api, word("program-"))
    client.call("bus_connect", thread_name=f"topic {word()}", display_name=word("Bob"))
    return client


def test_a_connected_agent_writes_only_in_its_own_name(api: httpx.Client, bob: Mcp, ann: dict[str, Any]):
    thread = Thread(api)
    for author in (ann["id"], ann["slug"], alike(ann["display_name"]), "human", "all"):
        said = bob.refused("msg_post", thread_id=thread.id, content="x", author=author)
        assert said["error"] == "FORBIDDEN"
        assert "Leave author out" in str(said) or "leave author out" in str(said)
    assert thread.messages() == []


def test_who_is_not_connected_uses_no_name_of_others(api: httpx.Client, mcp: Mcp, ann: dict[str, Any]):
    thread, unused = Thread(api), word("somebody")
    for author in (ann["id"], ann["slug"], ann["display_name"], "human", "Claude Code"):
        assert mcp.refused("msg_post", thread_id=thread.id, content="x", author=author)["error"] == "FORBIDDEN"
    assert mcp.call("msg_post", thread_id=thread.id, content="x", author=unused)["author"] == unused
    mine = mcp.call("agent_register", display_name=word("Mine"))
    posted = mcp.call("msg_post", thread_id=thread.id, content="x", author=mine["slug"])
    assert posted["author_id"] == mine["id"]


def test_a_connected_agent_reacts_only_as_itself(api: httpx.Client, mcp: Mcp, ann: dict[str, Any]):
    me = mcp.call("bus_connect", thread_name=f"topic {word()}", display_name=word("Bob"))["agent"]
    message = Thread(api).post("hello")["id"]
    for agent_id in (ann["id"], ann["slug"], "human:human"):
        for tool in ("msg_react", "msg_unreact"):
            assert mcp.refused(tool, message_id=message, reaction="x", agent_id=agent_id)["error"] == "FORBIDDEN"
    mine = mcp.call("msg_react", message_id=message, reaction="x", agent_id=me["agent_id"])
    assert mine["agent_id"] == me["agent_id"]


def test_who_is_not_connected_edits_no_messages_of_others(api: httpx.Client, mcp: Mcp, ann: dict[str, Any]):
    thread, unused = Thread(api), word("somebody")
    of_agent, of_person = thread.post("one", author=ann["id"]), thread.post("two", author="human")
    for message in (of_agent, of_person):
        assert mcp.refused("msg_edit", message_id=message["id"], content="no")["error"] == "FORBIDDEN"
        assert mcp.refused("msg_delete", message_id=message["id"])["error"] == "FORBIDDEN"
    own = mcp.call("msg_post", thread_id=thread.id, content="x", author=unused)
    assert mcp.call("msg_edit", message_id=own["id"], content="y")["content"] == "y"


def test_people_on_this_machine_write_under_any_name(api: httpx.Client, ann: dict[str, Any]):
    assert Thread(api).post("x", author=ann["slug"])["author_id"] == ann["id"]


# Renaming and removing


@pytest.mark.parametrize("door", ["tool", "rest", "command"])
def test_old_names_of_a_renamed_agent_still_mean_it(server: Server, api: httpx.Client, mcp: Mcp, door: str):
    thread, old, new = Thread(api), word("Old "), word("New ")
    me = mcp.call("bus_connect", thread_name=thread.topic, display_name=old)["agent"]
    before = thread.post(f"@{me['slug']} before")
    turn = {"role": "user", "content": f"recorded {(unique := word())}"}
    assert api.post(f"/api/v1/agents/{me['slug']}/sessions/s/messages", json=turn).status_code == 201
    if door == "tool":
        renamed = mcp.call("agent_update", name=new)
    elif door == "rest":
        renamed = api.put(f"/api/agents/{me['slug']}/name", json={"name": new}).json()
    else:
        done = started_with(server.env, "--url", server.url, "agent", "rename", me["slug"], new)
        assert done.returncode == 0, done.stderr
        renamed = api.get(f"/api/agents/{me['agent_id']}").json()
    assert (renamed["display_name"], renamed["slug"]) == (new, new.lower().replace(" ", "-"))
    for name in (me["slug"], old, old.upper(), renamed["slug"], new):
        assert api.get(f"/api/agents/{name}").json()["id"] == me["agent_id"]
        assert thread.post("x", mentions=[name])["reached"] == [renamed["slug"]]
    after = thread.post(f"@{me['slug']} after")
    assert after["reached"] == [renamed["slug"]]
    said = str(Mcp(api, f"/mcp?agent={me['slug']}").ask("tools/call", name="catch_up", arguments={}))
    assert before["content"] in said
    assert after["content"] in said
    posted = mcp.call("msg_post", thread_id=thread.id, content=unique, author=old)
    assert (posted["author"], posted["author_id"]) == (new, me["agent_id"])
    for name in (old, new):
        asked = {"query": f'{unique} from:"{name}"', "sources": ["bus"], "dedupe": False}
        found = api.post("/api/knowledge/search", json=asked).json()["results"]
        assert [hit["id"] for hit in found] == [posted["id"]]
    more = {"role": "user", "content": "more"}
    assert api.post(f"/api/v1/agents/{renamed['slug']}/sessions/s/messages", json=more).status_code == 201
    shown = api.get(f"/api/v1/agents/{me['slug']}/sessions/s/messages").json()
    assert [one["content"] for one in shown["turns"]] == [turn["content"], "more"]
    assert len((server.home / "sessions" / "default" / me["slug"] / "s.jsonl").read_bytes().splitlines()) == 2
    assert "is taken" in str(Mcp(api).refused("agent_register", slug=me["slug"]))


def test_the_name_of_a_removed_agent_is_not_given_away(api: httpx.Client, mcp: Mcp):
    ide, thread = word("Editor"), Thread(api)
    first = mcp.call("agent_register", ide=ide)
    assert api.delete(f"/api/agents/{first['id']}").status_code == 200
    posted = thread.post(f"@{first['slug']} are you there?")
    assert (posted["reached"], posted["unknown_names"]) == ([], [first["slug"]])
    second = mcp.call("agent_register", ide=ide)
    assert (second["slug"], second["name"]) == (f"{first['slug']}-2", f"{ide} 2")
    assert api.get(f"/api/agents/{first['slug']}").status_code == 404
    assert first["slug"] in str(mcp.refused("msg_post", thread_id=thread.id, content="x", author=first["slug"]))
