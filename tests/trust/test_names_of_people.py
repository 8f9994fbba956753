"""No agent is called like a person, and no person like an agent, where tokens are required."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Engine
from tests.helpers import Server, Thread, start_server, started_with, word
from tests.trust.people import Key, with_app

from palaver.app import App
from palaver.store.engines.database import Change


@pytest.fixture
def person(guarded: Server) -> Key:
    return Key(guarded, name=word("Ann"))


@pytest.fixture
def robot(guarded: Server) -> Key:
    return Key(guarded, kind="agent", name=word("robot"))


def test_an_agent_does_not_take_the_name_of_a_person(person: Key, robot: Key):
    name = person.token.name
    for alike in (name, name.upper(), name.replace("A", "А"), f"human:{name}"):
        refused = robot.mcp.refused("agent_update", display_name=alike)
        assert refused["error"] == "CONFLICT"
        assert f"'{alike} 2' is free" in refused["message"]
        assert robot.api.put(f"/api/agents/{robot.token.name}/name", json={"name": alike}).status_code == 409
        assert "is taken" in str(robot.mcp.refused("agent_register", display_name=alike))
        connecting = {"thread_name": f"topic {word()}", "display_name": alike}
        assert "is taken" in str(robot.mcp.refused("bus_connect", **connecting))
    thread = Thread(person.api)
    assert robot.mcp.refused("msg_post", thread_id=thread.id, content="x", author=name)["error"] == "FORBIDDEN"
    posted = thread.post("it is me", author=name)
    assert (posted["author"], posted["author_id"]) == (name, None)
    assert thread.post(f"@{name.lower()}", author=None).get("unknown_names") is None


def test_a_message_for_a_person_says_that_it_reaches_them(person: Key, robot: Key):
    thread, other = Thread(person.api), Key(person.server, name=word("Bob"))
    posted = robot.api.post(f"{thread.path}/messages", json={"content": f"@{other.token.name.upper()} hello"}).json()
    assert (posted["reached"], posted["unknown_names"]) == ([other.token.name], [])
    assert [one["message_id"] for one in other.api.get("/api/mentions").json()] == [posted["id"]]


@pytest.mark.parametrize("door", ["rest", "command"])
def test_a_token_has_no_name_of_somebody_else(guarded: Server, person: Key, robot: Key, admin: Key, door: str):
    for kind, name in (("human", robot.token.name), ("human", person.token.name.upper()), ("agent", person.token.name)):
        if door == "rest":
            answer = admin.api.post("/api/tokens", json={"kind": kind, "name": name})
            assert answer.status_code == 409
            said = answer.text
        else:
            done = started_with(guarded.env, "token", "create", f"--{kind}", name)
            assert (done.returncode, done.stdout) == (1, "")
            said = done.stderr
        assert f"'{name}' is taken. '{name} 2' is free." in said
    assert admin.api.post("/api/tokens", json={"name": person.token.name}).status_code == 201
    assert admin.api.post("/api/tokens", json={"kind": "agent", "name": robot.token.name}).status_code == 201


def test_the_name_of_a_person_stays_theirs_when_the_token_is_revoked(person: Key, robot: Key):
    person.revoke()
    assert "is taken" in str(robot.mcp.refused("agent_update", display_name=person.token.name))


def test_data_with_a_clash_is_opened_and_the_person_still_posts(engine: Engine, tmp_path: Path):
    """In 0.2 an agent could take the name of a person, and names were not kept."""
    env: dict[str, Any] = {"PALAVER_DATABASE_URL": engine.fresh(), "PALAVER_AUTH": "token"}
    with start_server(tmp_path, **env) as server:
        ann, bob, robot = Key(server, name="Ann"), Key(server, name="Bob"), Key(server, kind="agent", name="robot")

        def as_before(change: Change) -> None:
            change.connection.run("DELETE FROM names", {})
            change.connection.run("UPDATE agents SET display_name = 'Ann'", {})

        async def change_data(app: App) -> None:
            await (await app.open()).change(as_before)

        with_app(server, change_data)
    with start_server(tmp_path, port=server.port, **env):
        posted = Thread(ann.api).post("it is me", author="Ann")
        assert (posted["author"], posted["author_id"]) == ("Ann", None)
        assert robot.mcp.call("agent_heartbeat") == {"ok": True}
        for name in ("Bob", "ann", "Ánn"):
            assert "is taken" in str(robot.mcp.refused("agent_update", display_name=name))
        assert Thread(bob.api).post("hello", author="Bob")["author"] == "Bob"


def test_an_agent_is_renamed_by_itself_its_owner_or_an_admin(guarded: Server, person: Key, robot: Key, admin: Key):
    stranger, new = Key(guarded, name=word("stranger")), word("new")
    for other in (stranger, person):
        assert other.api.put(f"/api/agents/{robot.token.name}/name", json={"name": new}).status_code == 403
    assert robot.mcp.call("agent_update", name=new)["slug"] == new
    assert admin.api.put(f"/api/agents/{new}/name", json={"name": (last := word("last"))}).status_code == 200
    owned = person.api.post("/api/agents", json={"display_name": word("Mine")}).json()
    assert stranger.api.put(f"/api/agents/{owned['slug']}/name", json={"name": word()}).status_code == 403
    assert person.api.put(f"/api/agents/{owned['slug']}/name", json={"name": word()}).status_code == 200
    posted = robot.api.post(f"{Thread(person.api).path}/messages", json={"content": "still me"}).json()
    assert posted["author"] == last
