"""Who may take away what others made."""

from __future__ import annotations

import httpx
import pytest
from tests.helpers import Mcp, Server, Thread, word
from tests.trust.people import Key


@pytest.fixture(scope="module")
def robot(guarded: Server) -> Key:
    return Key(guarded, kind="agent", name="robot")


def test_only_its_creator_or_an_admin_deletes_a_thread(human: Key, robot: Key, admin: Key, guarded: Server):
    bob = Key(guarded, name="bob")
    for creator, others in ((human, (bob, robot)), (robot, (human, bob))):
        for deleter in (creator, admin):
            thread = Thread(creator.api)
            for other in others:
                assert other.api.delete(thread.path).status_code == 403
                Thread(other.api, thread.topic).post(word(), author=None)
                assert other.api.post(f"{thread.path}/archive").status_code == 200
                assert creator.api.post(f"{thread.path}/unarchive").status_code == 200
            creator.api.put(thread.path, json={"summary": "changed", "status": "discuss"})
            assert deleter.api.delete(thread.path).status_code == 200
            assert creator.api.get(thread.path).status_code == 404


def test_a_thread_opened_by_connecting_belongs_to_who_connected(human: Key, robot: Key):
    connected = robot.mcp.call("bus_connect", thread_name=f"topic {word()}")
    path = f"/api/threads/{connected['thread']['thread_id']}"
    assert human.api.delete(path).status_code == 403
    assert robot.api.delete(path).status_code == 200


@pytest.mark.parametrize("act", ["close", "archive", "unarchive", "rename", "state"])
def test_an_agent_changes_a_thread_only_where_it_takes_part(human: Key, robot: Key, guarded: Server, act: str):
    other, thread = Key(guarded, kind="agent", name=word("other")), Thread(robot.api)

    def change(who: Key) -> int:
        if act == "rename":
            return who.api.put(thread.path, json={"topic": f"topic {word()}"}).status_code
        if act == "state":
            return who.api.post(f"{thread.path}/state", json={"state": "review"}).status_code
        return who.api.post(f"{thread.path}/{act}").status_code

    assert change(other) == 403
    assert (change(robot), change(human)) == (200, 200)
    human.api.put(thread.path, json={"status": "discuss"})
    assert other.api.post(f"{thread.path}/messages", json={"content": "may I?"}).status_code == 201
    assert change(other) == 200


def test_an_agent_of_an_open_server_changes_a_thread_only_where_it_takes_part(api: httpx.Client):
    """There its connection says who it is. A thread belongs to the agent that made it; people may change all."""
    made, other, person = Mcp(api), Mcp(api), Thread(api)
    topic = f"topic {word()}"
    thread_id = made.call("bus_connect", thread_name=topic, display_name=word("Ann"))["thread"]["thread_id"]
    other.call("bus_connect", thread_name=topic, display_name=word("Bob"))
    for one in (thread_id, person.id):
        for tool in ("thread_close", "thread_archive", "thread_update", "thread_delete"):
            refused = other.refused(tool, thread_id=one, **({"topic": word()} if tool == "thread_update" else {}))
            assert refused["error"] == "FORBIDDEN"
    assert made.call("thread_close", thread_id=thread_id)["status"] == "closed"
    assert api.post(f"/api/threads/{thread_id}/state", json={"state": "discuss"}).status_code == 200
    other.call("msg_post", thread_id=thread_id, content="I take part")
    assert other.call("thread_archive", thread_id=thread_id)["status"] == "archived"
    assert made.call("thread_delete", thread_id=thread_id)["ok"] is True
