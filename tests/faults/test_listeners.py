"""Listeners: quick, complete, cheap, and no burden when they do not listen."""

from __future__ import annotations

import asyncio
import random
import resource
import threading
import time

import pytest
from tests.conftest import ONE_ENGINE
from tests.faults.conftest import Start
from tests.faults.press import IS_LONG, Client, cpu, kill, percentile, pressing, rss, tell
from tests.faults.streams import Frame, Stream
from tests.helpers import PATIENCE, Mcp, Server, eventually, free_port


def test_a_listener_hears_each_message(own: Server, client: Client):
    room = client.thread()
    heard: dict[str, float] = {}
    with Stream(own, f"/api/threads/{room}/events") as stream:

        def listen() -> None:
            while len(heard) < 150 and (frames := stream.next()):
                heard.update({frame.data["id"]: frame.at for frame in frames})

        listening = threading.Thread(target=listen, daemon=True)
        listening.start()
        answered = {}
        for n in range(150):
            status, answer = client.post(room, f"word {n}")
            assert status == 201, answer
            answered[answer["id"]] = time.perf_counter()
        listening.join(PATIENCE)
    late = [max(0.0, heard[id] - at) for id, at in answered.items()]
    tell(f"answer to frame: p50 {percentile(late, 50) * 1000:.1f} ms, p95 {percentile(late, 95) * 1000:.1f} ms")


def test_a_waiting_client_is_woken_by_each_message(own: Server, client: Client):
    room, late = client.thread(), []
    waiting = Client(own)
    for n in range(25):
        woken: list[tuple[float, dict]] = []

        def wait(n=n, woken=woken) -> None:
            status, answer = waiting.ask("GET", f"/api/threads/{room}/wait?after_seq={n}&timeout_ms=60000")
            woken.append((time.perf_counter(), answer))
            assert status == 200, answer

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        eventually(lambda: "palaver_listeners 1" in own.metrics())
        status, answer = client.post(room, f"word {n}")
        answered = time.perf_counter()
        assert status == 201, answer
        thread.join(PATIENCE)
        ((at, waited),) = woken
        assert [m["id"] for m in waited["messages"]] == [answer["id"]]
        assert waited["timed_out"] is False
        late.append(max(0.0, at - answered))
    tell(f"answer to waking: p50 {percentile(late, 50) * 1000:.1f} ms, p95 {percentile(late, 95) * 1000:.1f} ms")


def test_coming_back_again_and_again_loses_and_repeats_nothing(own: Server, client: Client):
    dice = random.Random(5)
    rooms = [client.thread() for _ in range(3)]
    begun = client.ask("GET", "/api/threads")[1]["total"]
    heard: list[int] = []
    with pressing(own, rooms, clients=3) as promised:
        while len(promised.messages) < (10_000 if IS_LONG else 500):
            with Stream(own, after=heard[-1] if heard else begun) as stream:
                for _ in range(dice.choice([1, 1, 2, 5])):
                    heard += [frame.id for frame in stream.next() or []]
    wanted = list(range(begun + 1, begun + len(promised.messages) + 1))
    with Stream(own, after=heard[-1]) as stream:
        if heard[-1] < wanted[-1]:
            heard += [frame.id for frame in stream.take(wanted[-1] - heard[-1])]
    assert heard == wanted


def test_listeners_hear_everything_once_through_a_kill(start: Start):
    """They come back with the last id they saw, as browsers do."""
    port, done = free_port(), threading.Event()
    heard: list[list[Frame]] = [[] for _ in range(3)]

    def listen(mine: list[Frame], server: Server) -> None:
        while not done.is_set():
            try:
                with Stream(server, after=mine[-1].id if mine else 0) as stream:
                    while (frames := stream.next()) is not None:
                        mine += frames
                        if done.is_set() and frames[-1].type == "thread.deleted":
                            return
            except (OSError, AssertionError):
                time.sleep(0.02)

    with start(port=port) as server:
        room = Client(server).thread()
        listeners = [threading.Thread(target=listen, args=(mine, server), daemon=True) for mine in heard]
        for listener in listeners:
            listener.start()
        with pressing(server, [room], clients=4) as before:
            before.wait_for(100)
            kill(server)
    with start(port=port) as server:
        client = Client(server)
        with pressing(server, [room], clients=4) as promised:
            promised.wait_for(100)
        last = len(client.messages(room)) + 1  # the thread was the first to be told of
        assert promised.refused == []
        eventually(lambda: all(mine and mine[-1].id >= last for mine in heard))
        done.set()
        client.ask("DELETE", f"/api/threads/{room}")
        for listener in listeners:
            listener.join(15)
    for mine in heard:
        assert [frame.id for frame in mine] == list(range(1, last + 2))
        assert [frame.data["seq"] for frame in mine if frame.type == "msg.new"] == list(range(1, last))


def test_a_listener_hears_what_another_process_commits(start: Start):
    with start() as one, start() as other:
        here, there = Client(one), Client(other)
        room, late = here.thread(), []
        with Stream(other, f"/api/threads/{room}/events") as stream:
            for n in range(40):
                status, answer = here.post(room, f"word {n}")
                answered = time.perf_counter()
                assert status == 201, answer
                (frame,) = stream.take(1)
                assert frame.data["id"] == answer["id"]
                late.append(max(0.0, frame.at - answered))
            status, answer = there.post(room, "and back")
            (frame,) = stream.take(1)
            assert frame.data["seq"] == 41
    p50, p95 = percentile(late, 50) * 1000, percentile(late, 95) * 1000
    tell(f"answer to frame in the other process: p50 {p50:.1f} ms, p95 {p95:.1f} ms")


@ONE_ENGINE
@pytest.mark.thorough
def test_a_thousand_idle_listeners_cost_little(start: Start):
    count = 1000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count * 2 + 200:
        pytest.skip(f"this needs {count * 2 + 200} open files: raise the limit with ulimit -Hn")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count * 2 + 200), hard))
    with start() as server:
        client = Client(server)
        room = client.thread()
        for n in range(50):
            client.post(room, f"warm {n}")
        Stream(server).close()
        with server.client() as web:
            Mcp(web)  # its library loads a little later than the rest, and is not what we measure
        before = rss(server)
        asyncio.run(_idle(server, client, room, count, before))


async def _idle(server: Server, client: Client, room: str, count: int, before: float) -> None:
    request = b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(request)
        await asyncio.wait_for(reader.readuntil(b": connected\n\n"), 30)
        return reader, writer

    streams = []
    for _ in range(count // 50):
        streams += await asyncio.gather(*(connect() for _ in range(50)))
    grown = (rss(server) - before) * 1000 / count
    used = cpu(server)
    await asyncio.sleep(2)
    idle = (cpu(server) - used) / 2 * 100
    began = time.perf_counter()
    await asyncio.to_thread(client.post, room, "for everybody")
    await asyncio.gather(*(asyncio.wait_for(reader.readuntil(b"for everybody"), 30) for reader, _ in streams))
    everybody = time.perf_counter() - began
    for _, writer in streams:
        writer.close()
    tell(f"{grown:.0f} KB a listener, {idle:.1f} % CPU while idle, all {count} told within {everybody * 1000:.0f} ms")
    assert grown < 100
    assert idle < 25


MANY = 5_000 if IS_LONG else 3_000
"""Events. Kept in memory for 20 listeners, even the fewer would need twice the memory that the test allows."""


@pytest.mark.thorough
@ONE_ENGINE
@pytest.mark.timeout(300)
def test_listeners_who_never_read_do_not_fill_the_memory(start: Start):
    with start() as server:
        client = Client(server)
        room = client.thread()
        for n in range(300):
            client.post(room, f"warm {n} " + "x" * 2000)
        stuck = [Stream(server, buffer=4096) for _ in range(20)]
        with Stream(server, f"/api/threads/{room}/events") as awake:
            before = rss(server)
            heard: list[int] = []

            def listen() -> None:
                while len(heard) < MANY and (frames := awake.next()):
                    heard.extend(frame.data["seq"] for frame in frames)

            listening = threading.Thread(target=listen, daemon=True)
            listening.start()
            with pressing(server, [room], clients=4, most=MANY, content="y" * 2000) as promised:
                eventually(lambda: len(promised.messages) >= MANY, seconds=200)
            listening.join(PATIENCE)
            grown = rss(server) - before
        for stream in stuck:
            stream.close()
        tell(f"grown by {grown:.1f} MB with 20 who never read {MANY:,} events of 2 KB")
        assert heard == list(range(301, 301 + MANY))
        assert promised.refused == []
        assert grown < 60
        status, _ = client.post(room, "still well")
        assert status == 201
