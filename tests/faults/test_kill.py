"""Killed in the middle of it: what was acknowledged is there, and there is no half of anything."""

from __future__ import annotations

import random
import signal
import subprocess

import psutil
import pytest
from tests.archive.test_conversation_search import NOON, chat
from tests.conftest import Engine
from tests.faults.conftest import Start
from tests.faults.press import IS_LONG, Client, Promised, kill, must_be_whole, must_keep_its_promises, pressing, tell
from tests.faults.streams import Stream
from tests.helpers import PATIENCE, Mcp, environment, eventually, palaver_command
from tests.importers.shapes import as_json

KILLS = {"sqlite": 300 if IS_LONG else 3, "postgres": 130 if IS_LONG else 2}
"""With those in test_sessions.py and mixed/test_kills.py the long run kills 700 and 300 servers."""
FULL_CHECK = 10 if IS_LONG else 1
"""After so many kills the tables are checked too, and the clients move on to new threads."""


def test_what_was_acknowledged_survives_a_kill(start: Start, engine: Engine):
    dice = random.Random()
    rooms: list[str] = []
    promised, kept = Promised(), 0
    for kills in range(KILLS[engine.name] + 1):
        with start(PALAVER_KEEP_EVENTS=10_000_000) as server:  # all of them, to compare them with the messages
            client = Client(server)
            rooms = rooms or [client.thread() for _ in range(3)]
            is_full = kills % FULL_CHECK == 0 or kills == KILLS[engine.name]
            must_keep_its_promises(server, rooms, promised, searches=20 if is_full else 5)
            if is_full:
                must_be_whole(server)
                rooms = [client.thread() for _ in range(3)]
            status, answer = client.post(rooms[0], "life goes on")
            assert status == 201, answer
            kept += len(promised.messages)
            if kills == KILLS[engine.name]:
                break
            with pressing(server, rooms) as promised:
                promised.wait_for(dice.randrange(10, 300))
                kill(server)
            assert promised.refused == []
    tell(f"{kept} acknowledged over {KILLS[engine.name]} kills, none lost")
    assert kept > 20


def test_ending_politely_under_load_is_quick_and_loses_nothing(start: Start):
    with start() as server:
        room = Client(server).thread()
        with server.client() as web:
            Mcp(web)  # all doors are open by now, also the one that opens a little later
        streams = [Stream(server, "/events") for _ in range(5)]
        with pressing(server, [room], clients=4) as promised:
            promised.wait_for(200)
            server.process.send_signal(signal.SIGTERM)
            code = server.process.wait(10)
        said = server.said()
        for stream in streams:
            stream.until_end()
            stream.close()
            assert stream.ended_well
    with start() as server:
        must_keep_its_promises(server, [room], promised, searches=20)
        must_be_whole(server)
    tell(f"{len(promised.messages)} acknowledged")
    assert code == 0
    assert "Traceback" not in said
    assert [status for status, _ in promised.refused if status != 503] == []


@pytest.mark.thorough
def test_ending_politely_in_the_middle_of_a_large_import_is_quick_too(start: Start):
    """What is read in a process of its own ends with it; what was written until then is whole."""
    pad = "as long as what people are told by machines, " * 20
    talks = [
        chat(f"talk {c}", *(("user", f"{c} {n} {pad}", NOON + n) for n in range(20)), id=f"c{c}") for c in range(2_000)
    ]
    with start() as server:
        with server.client() as web:
            Mcp(web)
            asked = web.post("/api/import", files={"file": ("conversations.json", as_json(talks))})
            assert asked.status_code == 202, asked.text
            job = f"/api/import/{asked.json()['id']}"
            eventually(lambda: web.get(job).json()["messages"] > 0, PATIENCE)
            (reader,) = psutil.Process(server.process.pid).children()
            before = web.get(job).json()
        assert before["status"] == "running"
        server.process.send_signal(signal.SIGTERM)
        code = server.process.wait(10)
        said = server.said()
    assert code == 0
    assert "Traceback" not in said
    assert not reader.is_running()
    with start() as server, server.client() as web:
        kept = [
            one["messages"]
            for offset in (0, 1_000)
            for one in web.get("/api/archive", params={"limit": 1_000, "offset": offset}).json()["conversations"]
        ]
    assert set(kept) == {20}
    assert before["messages"] <= sum(kept) < 40_000


def test_a_server_and_an_agent_on_stdio_share_the_data(start: Start):
    import json

    with start() as server:
        client = Client(server)
        room = client.thread()
        env = environment(server.home, **{k: v for k, v in server.env.items() if k.startswith("PALAVER_")})
        process = subprocess.Popen(
            palaver_command("mcp"),
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdin
        assert process.stdout

        def send(message: dict) -> None:
            assert process.stdin
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            process.stdin.flush()

        def answer(id: int) -> dict:
            assert process.stdout
            for _ in range(50):
                line = json.loads(process.stdout.readline())
                if line.get("id") == id:
                    return dict(line["result"])
            raise AssertionError("no answer")

        try:
            about = {"name": "tests", "version": "1"}
            hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about}
            send({"id": 1, "method": "initialize", "params": hello})
            answer(1)
            send({"method": "notifications/initialized"})
            # It waits, the server is posted to: it wakes.
            wait = {"thread_id": room, "after_seq": 0, "timeout_ms": 10_000}
            send({"id": 2, "method": "tools/call", "params": {"name": "msg_wait", "arguments": wait}})
            eventually(lambda: "palaver_listeners 1" in server.metrics())
            client.post(room, "from the server")
            woken = answer(2)["structuredContent"]
            assert [m["content"] for m in woken["messages"]] == ["from the server"]
            # It posts, a listener of the server hears it.
            with Stream(server, f"/api/threads/{room}/events") as stream:
                post = {"thread_id": room, "content": "from stdio", "author": "ann"}
                send({"id": 3, "method": "tools/call", "params": {"name": "msg_post", "arguments": post}})
                assert answer(3)["structuredContent"]["seq"] == 2
                (frame,) = stream.take(1)
                assert frame.data["content"] == "from stdio"
            # Both at once.
            with pressing(server, [room], clients=2) as promised:
                for n in range(50):
                    post = {"thread_id": room, "content": f"stdio {n}", "author": "ann"}
                    send({"id": 100 + n, "method": "tools/call", "params": {"name": "msg_post", "arguments": post}})
                    assert "seq" in answer(100 + n)["structuredContent"]
            assert promised.refused == []
            must_keep_its_promises(server, [room], promised, searches=10)
            must_be_whole(server)
        finally:
            process.stdin.close()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
