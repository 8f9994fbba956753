"""JSON answers are compressed for clients that accept gzip. Short answers, streams, exports and MCP are not."""

from __future__ import annotations

import gzip
import json

import httpx
import pytest
from tests.helpers import Mcp, Thread


def raw(api: httpx.Client, path: str, accepted: str) -> tuple[httpx.Headers, bytes]:
    with api.stream("GET", path, headers={"accept-encoding": accepted}) as answer:
        assert answer.status_code == 200
        return answer.headers, b"".join(answer.iter_raw())


@pytest.fixture
def long(thread: Thread) -> Thread:
    for number in range(100):
        thread.post(f"message {number} " + "about the migration of the tables " * 20)
    return thread


def test_a_long_answer_is_compressed_only_for_who_accepts_it(api: httpx.Client, long: Thread):
    path = f"{long.path}/messages"
    plain_headers, plain = raw(api, path, "identity")
    headers, data = raw(api, path, "gzip, deflate, br")
    assert "content-encoding" not in plain_headers
    assert (headers["content-encoding"], headers["content-length"]) == ("gzip", str(len(data)))
    assert headers["vary"].lower() == plain_headers["vary"].lower() == "accept-encoding"
    assert json.loads(gzip.decompress(data)) == json.loads(plain)
    assert len(data) < len(plain) / 5
    assert headers["content-security-policy"] == plain_headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"


def test_a_short_answer_is_sent_as_it_is(api: httpx.Client, thread: Thread):
    headers, data = raw(api, thread.path, "gzip")
    assert len(data) < 1_000
    assert "content-encoding" not in headers
    assert json.loads(data)["id"] == thread.id


def test_an_export_is_not_compressed(api: httpx.Client, long: Thread):
    headers, data = raw(api, f"{long.path}/export", "gzip")
    assert len(data) > 10_000
    assert "content-encoding" not in headers


def test_event_streams_are_not_compressed_and_begin_at_once(api: httpx.Client, thread: Thread):
    thread.post("x" * 5_000)
    for path in ("/events?last_event_id=0", f"{thread.path}/events?last_event_id=0"):
        with api.stream("GET", f"{path}", headers={"accept-encoding": "gzip"}) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert "content-encoding" not in answer.headers
            assert next(answer.iter_raw())


def test_answers_of_mcp_are_not_compressed(api: httpx.Client):
    client = Mcp(api)
    client.headers["accept-encoding"] = "gzip"
    answer = client.send({"id": 7, "method": "tools/list", "params": {}})
    assert len(answer.content) > 10_000
    assert "content-encoding" not in answer.headers
