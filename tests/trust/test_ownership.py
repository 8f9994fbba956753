"""Who may take away what others made."""

from __future__ import annotations

import pytest
from tests.helpers import Server, Thread, word
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
                assert other.api.post(f"{thread.path}/archive").status_code == 200
            creator.api.put(thread.path, json={"summary": "changed", "status": "discuss"})
            assert deleter.api.delete(thread.path).status_code == 200
            assert creator.api.get(thread.path).status_code == 404


def test_a_thread_opened_by_connecting_belongs_to_who_connected(human: Key, robot: Key):
    connected = robot.mcp.call("bus_connect", thread_name=f"topic {word()}")
    path = f"/api/threads/{connected['thread']['thread_id']}"
    assert human.api.delete(path).status_code == 403
    assert robot.api.delete(path).status_code == 200
