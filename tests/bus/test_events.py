"""The event stream: frames, order, coming back, and what is told of what."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from tests.helpers import Mcp, Server, Thread, Told, eventually, listen, start_server, word

from palaver.doors.http import sse
from palaver.doors.mcp import requests as mcp_requests


def last_event_id(api: httpx.Client) -> int:
    return int(api.get("/api/status").json()["last_event_id"])


def test_a_stream_is_an_event_stream(api: httpx.Client, thread: Thread):
    for path in ("/events", f"{thread.path}/events"):
        with listen(api, path) as listener:
            assert listener.response.headers["content-type"].startswith("text/event-stream")
            assert listener.response.headers["cache-control"] == "no-store"


def test_who_asks_for_the_head_of_a_stream_gets_it_and_can_go_on(server: Server, thread: Thread):
    with server.client() as client:  # one connection: it is free again as soon as the answer is over
        for path in ("/events", f"{thread.path}/events", "/sse"):
            response = client.head(path)
            assert (response.status_code, response.content) == (200, b"")
            assert response.headers["content-type"].startswith("text/event-stream")
            assert client.get("/healthz").status_code == 200


def test_a_frame_has_an_id_an_event_and_the_payload_itself_as_data(api: httpx.Client, thread: Thread):
    with api.stream("GET", f"{thread.path}/events") as response:
        lines = response.iter_lines()
        assert [next(lines), next(lines)] == [": connected", ""]
        message = thread.post("line one\nline two\r\n  ünï 🚀")
        frame = [next(lines) for _ in range(4)]
    assert re.fullmatch(r"id: \d+", frame[0])
    assert frame[1] == "event: msg.new"
    assert frame[2].startswith('data: {"id":')
    assert frame[3] == ""
    with listen(api, f"{thread.path}/events", after=0) as listener:
        assert listener.until(lambda told: told.type == "msg.new")[-1].data == message


def test_everything_that_happens_is_told_in_order_and_nothing_else(api: httpx.Client):
    class Fresh(Mcp):
        program = word("program-")  # no agent of it was here before, so its coming is told

    topic, mcp = f"topic {word()}", Fresh(api)
    with listen(api) as listener:
        connected = mcp.call("bus_connect", thread_name=topic)
        thread_id, agent_id = connected["thread"]["thread_id"], connected["agent"]["agent_id"]
        message = mcp.call("msg_post", thread_id=thread_id, content="hello")
        mcp.call("msg_react", message_id=message["id"], agent_id=agent_id, reaction="agree")
        mcp.call("msg_edit", message_id=message["id"], content="hello again")
        mcp.call("msg_unreact", message_id=message["id"], agent_id=agent_id, reaction="agree")
        mcp.call("msg_delete", message_id=message["id"])
        mcp.call("thread_close", thread_id=thread_id)
        mcp.call("thread_delete", thread_id=thread_id)
        mcp.call("agent_unregister")
        told = listener.until(lambda t: t.type == "agent.offline" and t.data["agent_id"] == agent_id)
    mine = [t for t in told if t.data["thread_id"] == thread_id or t.data.get("agent_id") == agent_id]
    assert [t.type for t in mine] == [
        "agent.online",
        "thread.new",
        "msg.new",
        "msg.react",
        "msg.edit",
        "msg.unreact",
        "msg.delete",
        "thread.state",
        "thread.deleted",
        "agent.offline",
    ]
    assert all("thread_id" in t.data for t in told)
    assert [t.data["thread_id"] for t in mine] == [None] + [thread_id] * 8 + [None]
    assert [t.id for t in told] == list(range(told[0].id, told[-1].id + 1))  # without a gap
    (new,) = (t for t in mine if t.type == "thread.new")
    assert new.data == {
        "thread_id": thread_id,
        "topic": topic,
        "status": "discuss",
        "created_at": new.data["created_at"],
    }


def test_a_fresh_listener_starts_from_now(api: httpx.Client, thread: Thread):
    thread.post("before")
    with listen(api, f"{thread.path}/events") as listener:
        message = thread.post("after")
        assert listener.next().data == message


@pytest.mark.parametrize("given", ["", "abc", "-1", "1.5", "9" * 40, "१२"])
def test_a_last_event_id_that_is_none_is_as_good_as_no_other(api: httpx.Client, thread: Thread, given: str):
    thread.post("before")
    headers = {"last-event-id": given.encode()}
    with api.stream("GET", f"{thread.path}/events", headers=headers) as response:  # type: ignore[arg-type]
        assert response.status_code == 200
        lines = response.iter_lines()
        assert next(lines) == ": connected"
        message = thread.post("after")
        data = next(line for line in lines if line.startswith("data: "))
    assert message["id"] in data


def test_coming_back_with_last_event_id_misses_nothing_and_repeats_nothing(api: httpx.Client, thread: Thread):
    path = f"{thread.path}/events"
    with listen(api, path) as listener:
        posted = [thread.post("1"), thread.post("2")]
        seen = [listener.next(), listener.next()]
    posted += [thread.post("3"), thread.post("4")]
    with listen(api, path, after=seen[-1].id) as listener:
        posted.append(thread.post("5"))
        seen += [listener.next() for _ in range(3)]
    assert [told.data for told in seen] == posted
    assert [told.id for told in seen] == sorted({told.id for told in seen})
    with listen(api, f"{path}?last_event_id={seen[0].id}") as listener:
        assert [listener.next() for _ in range(4)] == seen[1:]


def test_coming_back_with_the_last_id_of_all_gives_what_comes_next(api: httpx.Client, thread: Thread):
    thread.post("before")
    with listen(api, after=last_event_id(api)) as listener:
        message = thread.post("after")
        assert [t.data for t in listener.until(lambda t: t.data.get("id") == message["id"])][-1] == message


def test_a_listener_who_comes_and_goes_while_many_post_hears_each_once(api: httpx.Client, thread: Thread):
    path = f"{thread.path}/events"
    with listen(api, path) as listener:
        thread.post("0")
        seen = [listener.next()]
    with ThreadPoolExecutor(4) as pool:
        posting = [pool.submit(thread.post, str(n)) for n in range(1, 121)]
        while len(seen) < 121:
            with listen(api, path, after=seen[-1].id) as listener:
                for _ in range(min(20, 121 - len(seen))):
                    seen.append(listener.next())
        assert all(done.result() for done in posting)
    assert [told.data["seq"] for told in seen] == list(range(1, 122))


def test_a_long_log_is_replayed_whole(api: httpx.Client, thread: Thread):
    first = thread.post("0")
    before = last_event_id(api)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: thread.post(str(n)), range(600)))
    with listen(api, f"{thread.path}/events", after=before) as listener:
        seen = [listener.next() for _ in range(600)]
        message = thread.post("live")
        assert listener.next().data == message
    assert [told.data["seq"] for told in seen] == list(range(first["seq"] + 1, 602))


def test_many_listeners_hear_the_same(api: httpx.Client, thread: Thread):
    with (
        listen(api, f"{thread.path}/events") as one,
        listen(api, f"{thread.path}/events") as two,
        listen(api) as all_of_it,
    ):
        message = thread.post("hello")
        mine = all_of_it.until(lambda told: told.data.get("id") == message["id"])[-1]
        assert one.next() == two.next() == mine


def test_the_stream_of_everything_can_be_narrowed_to_a_thread(api: httpx.Client, thread: Thread):
    with listen(api, f"/events?thread_id={thread.id}") as listener:
        Thread(api).post("elsewhere")
        message = thread.post("here")
        assert [t.data["id"] for t in listener.until(lambda t: t.type == "msg.new")] == [message["id"]]
    assert api.get("/events", params={"thread_id": "no-such"}).status_code == 404


def test_an_unknown_thread_has_no_stream(api: httpx.Client):
    response = api.get("/api/threads/no-such-thread/events")
    assert response.status_code == 404
    assert "no-such-thread" in response.json()["detail"]


def test_a_place_in_the_log_that_never_was_is_answered_with_reset(api: httpx.Client, thread: Thread):
    with listen(api, after=10**17) as listener:
        told = listener.next()
        assert (told.type, told.data["last_event_id"]) == ("reset", told.id)
        message = thread.post("after")
        assert listener.until(lambda t: t.data.get("id") == message["id"])[-1].data == message


# On a server of its own, where things happen faster


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    before = (
        "import palaver.doors.http.sse, palaver.doors.mcp.requests, palaver.operations.admin.maintenance\n"
        "palaver.doors.http.sse.KEEP_ALIVE_SECONDS = 0.1\n"
        "palaver.doors.mcp.requests.PROGRESS_SECONDS = 0.1\n"
        "palaver.operations.admin.maintenance.SWEEP_SECONDS = 0.05\n"
    )
    env: dict[str, Any] = {"PALAVER_HEARTBEAT_TIMEOUT": 0.5, "PALAVER_KEEP_EVENTS": 20}
    with start_server(tmp_path_factory.mktemp("quick"), before=before, **env) as server, server.client() as api:
        yield api


def test_a_quiet_stream_is_kept_alive_every_15_seconds(quick: httpx.Client):
    assert sse.KEEP_ALIVE_SECONDS == 15.0
    thread = Thread(quick)
    with listen(quick, f"{thread.path}/events") as listener:
        assert [listener.next_comment() for _ in range(3)] == ["keep-alive"] * 3
        message = thread.post("still there")
        assert listener.next().data == message


def test_waiting_reports_progress_at_least_every_10_seconds(quick: httpx.Client):
    assert mcp_requests.PROGRESS_SECONDS <= 10
    thread, mcp = Thread(quick), Mcp(quick)
    params = {
        "name": "msg_wait",
        "arguments": {"thread_id": thread.id, "timeout_ms": 2000},
        "_meta": {"progressToken": "p1"},
    }
    response = mcp.send({"id": 7, "method": "tools/call", "params": params})
    progress = re.findall(r'"progressToken":\s*"p1"', response.text)
    assert len(progress) >= 3
    assert '"timed_out":true' in response.text.replace(" ", "").replace("\\", "")


def test_an_agent_that_falls_silent_goes_offline_once(quick: httpx.Client):
    mcp = Mcp(quick)
    with listen(quick) as listener:
        agent = mcp.call("agent_register", display_name=word())
        mine: list[Told] = listener.until(
            lambda t: t.type == "agent.offline" and t.data["agent_id"] == agent["agent_id"]
        )
        assert [t.type for t in mine if t.data.get("agent_id") == agent["agent_id"]] == [
            "agent.online",
            "agent.offline",
        ]
        mcp.call("agent_heartbeat", agent_id=agent["agent_id"], token=agent["token"])
        back = listener.until(lambda t: t.data.get("agent_id") == agent["agent_id"])[-1]
        assert back.type == "agent.online"
    (shown,) = (a for a in quick.get("/api/agents").json() if a["id"] == agent["agent_id"])
    assert shown["last_heartbeat"] > shown["registered_at"]


def test_a_listener_too_far_behind_is_told_to_read_again(quick: httpx.Client):
    thread = Thread(quick)
    for n in range(60):
        thread.post(str(n))

    def first_event() -> Told:
        with listen(quick, after=1) as listener:
            return listener.next()

    def reset() -> Told | None:
        """Told when agents of other tests have fallen silent too, and nothing is new."""
        told = first_event()
        return told if told.type == "reset" and told.id == last_event_id(quick) else None

    told = eventually(reset)
    assert told.data == {"thread_id": None, "reason": "too far behind", "last_event_id": told.id}
