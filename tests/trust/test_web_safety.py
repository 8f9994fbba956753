"""Clients that are slow, silent or curious; what is written about requests, and what is not."""

from __future__ import annotations

import contextlib
import json
import re
import select
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from tests.helpers import PATIENCE, Server, Thread, eventually, listen, start_server, word
from tests.mcp_clients import Websocket
from tests.trust.people import Key
from tests.trust.policy import ROUTES
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

HASTY = """
from palaver.doors.http import timeouts
timeouts.HEADER_SECONDS = timeouts.BODY_GRACE_SECONDS = timeouts.STUCK_SECONDS = 1.0
timeouts.CHECK_SECONDS = 0.2
"""


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with short timeouts."""
    with start_server(tmp_path_factory.mktemp("hasty"), before=HASTY) as server:
        yield server


def connected(server: Server) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", server.port))
    sock.settimeout(PATIENCE)
    return sock


def is_cut_off(sock: socket.socket, drip: bytes = b"") -> bool:
    """Does the server hang up while we send a byte now and then?"""
    until = time.monotonic() + PATIENCE
    sock.settimeout(0.2)
    while time.monotonic() < until:
        try:
            if drip:
                sock.sendall(drip)
            if not sock.recv(4096):
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


@pytest.mark.examples(2)
@pytest.mark.parametrize(
    "begins, drip",
    [
        (b"", b""),
        (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"X: y\r\n"),
        (b"POST /api/threads HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\n{", b" "),
        (b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\n{", b" "),
        (b"POST /api/threads HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    ],
)
def test_who_takes_for_ever_to_say_something_is_cut_off(hasty: Server, begins: bytes, drip: bytes):
    with connected(hasty) as sock:
        sock.sendall(begins)
        assert is_cut_off(sock, drip)
    assert "Traceback" not in hasty.said()


def test_a_large_body_over_a_slow_line_is_welcome(hasty: Server):
    body = json.dumps({"topic": word(), "system_prompt": "x" * 60_000}).encode()
    head = f"POST /api/threads HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    with connected(hasty) as sock:
        sock.sendall(head.encode())
        began = time.monotonic()
        for at in range(0, len(body), 4_000):
            sock.sendall(body[at : at + 4_000])
            time.sleep(0.12)
        assert time.monotonic() - began > 1.5, "longer than the grace, or it would prove nothing"
        assert sock.recv(100).startswith(b"HTTP/1.1 201")


@pytest.mark.thorough
def test_who_does_not_take_the_answer_is_cut_off(hasty: Server):
    with hasty.client() as api:
        thread = Thread(api)
        for _ in range(12):
            thread.post("x" * 900_000)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with sock:
        sock.connect(("127.0.0.1", hasty.port))
        sock.sendall(f"GET {thread.path}/messages HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        mine = sock.getsockname()
        server = psutil.Process(hasty.pid)
        eventually(lambda: all(other.raddr != mine for other in server.net_connections("tcp")))
        sock.settimeout(PATIENCE)
        got = 0
        try:
            while piece := sock.recv(1 << 20):
                got += len(piece)
        except ConnectionError:
            pass
    assert got < 10_000_000
    assert "Traceback" not in hasty.said()


@pytest.mark.thorough
def test_a_listener_is_not_cut_off_for_being_quiet(hasty: Server):
    with hasty.client() as api, listen(api) as listener:
        time.sleep(2.5)  # the thing itself: longer than any deadline of this server
        thread = Thread(api)
        assert listener.next().data["thread_id"] == thread.id


# Headers


def test_private_answers_are_kept_nowhere_and_shared_with_nobody(human: Key):
    thread = Thread(human.api)
    for path in ("/api/threads", thread.path, "/api/search?q=x", "/api/config", "/metrics", "/api/nothing"):
        for origin in ({}, {"origin": human.server.url}):
            answer = human.api.get(path, headers=origin)
            assert answer.headers["cache-control"] == "no-store"
            assert "access-control-allow-origin" not in answer.headers
            assert "script-src 'self'" in answer.headers["content-security-policy"]


def test_no_door_answers_a_foreign_preflight(guarded: Server):
    asked = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    with guarded.client() as client:
        for door in {re.sub(r"{[^}]*}", "x", door.partition(" ")[2]) for door in ROUTES}:
            answer = client.options(door, headers=asked)
            assert (door, answer.status_code) == (door, 403)
            assert "access-control-allow-origin" not in answer.headers


def test_a_refusal_carries_the_safety_headers_too(guarded: Server):
    with guarded.client() as client:
        answer = client.get("/api/threads")
        assert answer.status_code == 401
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "data, status",
    [
        (b"\x89PNG\r\n\x1a\n", 200),
        (b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", 400),
        (b"<html><script>alert(1)</script>", 400),
        (b"MZ\x90\x00", 400),
        (b"", 400),
        (b"\x89PNG\r\n\x1a\n" + b"x" * 6_000_000, 413),
    ],
)
def test_only_images_of_a_fair_size_are_taken_and_shown_as_such(human: Key, data: bytes, status: int):
    answer = human.api.post("/api/upload/image", files={"file": ("a.html", data, "text/html")})
    assert answer.status_code == status
    if status == 200:
        shown = human.api.get(answer.json()["url"])
        assert shown.headers["content-type"] == "image/png"
        assert shown.headers["x-content-type-options"] == "nosniff"


# Numbers


def numbers(api: httpx.Client) -> dict[str, float]:
    lines = api.get("/metrics").text.splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}


def test_metrics_count_what_happens(guarded: Server, admin: Key, stranger: Key):
    thread = Thread(admin.api)
    eventually(
        lambda: numbers(admin.api)["palaver_listeners"] == 0
    )  # those of other tests have been noticed to be gone
    before, elsewhere = numbers(admin.api), numbers(stranger.api)
    for n in range(5):
        thread.post(f"hello {n}", author=None)
    admin.api.get("/api/search", params={"q": "hello"})
    admin.api.get("/api/threads/none")
    with listen(admin.api):
        after = numbers(admin.api)
        assert after["palaver_listeners"] == 1
    assert after["palaver_posts_total"] == before["palaver_posts_total"] + 5
    assert after["palaver_searches_total"] == before["palaver_searches_total"] + 1
    assert after["palaver_commit_seconds_count"] > before["palaver_commit_seconds_count"]
    assert after["palaver_commit_seconds_sum"] > before["palaver_commit_seconds_sum"]
    assert after['palaver_requests_total{method="POST",status="201"}'] >= 6
    missed = 'palaver_requests_total{method="GET",status="404"}'
    assert after[missed] == before.get(missed, 0) + 1
    assert after["palaver_writer_queue"] >= 0
    # Another workspace's numbers do not move, but for its own asking and its own check in the background.
    now = numbers(stranger.api)
    moved = {name for name in now if now[name] != elsewhere.get(name)}
    own = ("uptime", "palaver_check_", 'method="GET",status="200"', "get_status")
    assert {name for name in moved if not any(part in name for part in own)} == set()


# The log


def test_the_log_tells_of_requests_and_not_of_what_was_said(tmp_path: Path):
    secret, sought = word("secret"), word("sought")
    starting = start_server(tmp_path, PALAVER_LOG_LEVEL="info", PALAVER_LOG_FORMAT="json")
    with starting as server, server.client() as api:
        thread = Thread(api, f"topic {secret}")
        thread.post(f"hello {secret}")
        api.get("/api/search", params={"q": sought})
        api.delete(f"/api/messages/x/reactions/{sought}")
        api.get("/api/threads", headers={"authorization": f"Bearer plv_{secret}"})
        eventually(lambda: '"/api/search"' in server.said())
        said = server.said()
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    posts = [line for line in lines if line.get("door") == "/api/threads/{thread_id}/messages"]
    assert [(line["method"], line["status"], line["workspace"]) for line in posts] == [("POST", 201, "default")]
    assert secret not in said
    assert sought not in said
    assert "plv_" not in said


@pytest.mark.parametrize("format", ["text", "json"])
def test_nobody_forges_a_line_of_the_log_or_controls_a_terminal_with_it(tmp_path: Path, format: str):
    forged = "2026-01-01 00:00:00,000 INFO palaver: all is well"
    signs = "%0a%0d%1b%5b2J%c2%9b%e2%80%ae%e2%80%a8" + forged
    starting = start_server(tmp_path, PALAVER_LOG_LEVEL="info", PALAVER_LOG_FORMAT=format)
    with starting as server, server.client() as api:
        assert api.get(f"/{signs}").status_code == 404
        assert api.post(f"/messages/?session_id={signs}", json={}).status_code == 400
        api.get("/the-end")
        eventually(lambda: "/the-end" in server.said())
        said = server.said()
    assert said.count("all is well") >= 2
    assert not any(line.startswith(forged) for line in said.splitlines())
    assert not [sign for sign in "\r\x1b\x9b\u202e\u2028" if sign in said]


def test_not_even_a_debug_log_has_tokens_or_questions_of_websocket_users(tmp_path: Path):
    sought = word("sought")
    with start_server(tmp_path, PALAVER_LOG_LEVEL="debug") as server:
        headers = {"authorization": f"Bearer plv_{word('secret')}"}
        with contextlib.suppress(InvalidStatus):
            connect(f"ws://127.0.0.1:{server.port}/mcp/ws", additional_headers=headers).close()
        with connect(f"ws://127.0.0.1:{server.port}/mcp/ws") as socket_:
            Websocket(socket_).call("msg_search", query=sought)
        said = server.said()
    assert "plv_" not in said
    assert sought not in said


# Readiness


def test_readiness_tells_the_truth(tmp_path: Path):
    with start_server(tmp_path) as server, server.client() as api:
        assert api.get("/readyz").json() == {"status": "ready"}
        import apsw

        database = apsw.Connection(str(tmp_path / "workspaces" / "default.db"))
        database.execute("BEGIN IMMEDIATE")
        answer = api.get("/readyz")
        assert (answer.status_code, answer.json()["status"]) == (503, "unavailable")
        assert api.get("/healthz").status_code == 200
        database.execute("ROLLBACK")
        database.close()
        assert eventually(server.is_ready)


# Headers without end


def sent(server: Server, start: bytes, piece: bytes, most: int) -> bytes:
    """Send pieces until the server answers, or closes, or `most` bytes are sent; what it answered."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as raw:
        raw.sendall(start)
        total = 0
        with contextlib.suppress(ConnectionError):
            while total < most and not select.select([raw], [], [], 0)[0]:
                raw.sendall(piece)
                total += len(piece)
        with contextlib.suppress(ConnectionError):
            return raw.recv(65536)
    return b""


@pytest.mark.parametrize("path", ["/healthz", "/api/threads", "/mcp", "/mcp/ws"])
def test_an_endless_header_is_refused_before_it_is_read(server: Server, api: httpx.Client, path: str):
    start = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ".encode()
    answer = sent(server, start, b"a" * 4096, 50_000_000)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")
    assert api.get("/healthz").status_code == 200


def test_too_many_headers_are_refused(server: Server, api: httpx.Client):
    start = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    answer = sent(server, start, b"X-A: b\r\n" * 50, 10_000_000)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")
    assert api.get("/healthz", headers={f"x-{n}": "y" for n in range(150)}).status_code == 200
    assert api.get("/healthz", headers={"x-long": "y" * 60_000}).status_code == 200


def test_a_large_body_beside_small_headers_is_no_header(server: Server, api: httpx.Client):
    """Also where the end of the headers comes in two pieces."""
    body = b'{"topic": "' + b"x" * 400 + b'"}' + b" " * 500_000
    head = f"POST /api/threads HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r".encode()
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.sendall(head)
        assert api.get("/healthz").status_code == 200
        raw.sendall(b"\n" + body)
        assert raw.recv(65536).startswith(b"HTTP/1.1 201 ")
