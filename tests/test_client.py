"""The Python client for programs, as its docstring promises it."""

from __future__ import annotations

import pytest
from tests.helpers import Server, free_port, word

import palaver.client
from palaver.client import Palaver, Refusal
from palaver.errors import PalaverError

pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True, scope="session")


@pytest.fixture
def agent() -> str:
    return word("bot-")


def test_what_the_docstring_says_works(server: Server, agent: str):
    assert "palaver.record(" in (palaver.client.__doc__ or "")
    with Palaver(server.url) as client:
        said = client.record(agent, "session-42", "user", "please deploy the staging pipeline tonight")
        (hit,) = client.conversations(agent, "deploy pipeline")
    snippet = "please <mark>deploy</mark> the staging <mark>pipeline</mark> tonight"
    assert hit == {**said, "agent_id": agent, "agent": said["agent_id"], "snippet": snippet}


def test_a_retry_with_the_same_id_is_one_turn(server: Server, agent: str):
    with Palaver(server.url) as client:
        first = client.record(agent, "s-1", "user", "hello", id="t-1", ts="2026-06-01T10:00:00Z")
        assert client.record(agent, "s-1", "user", "hello", id="t-1", ts="2026-06-01T10:00:00Z") == first
        assert (first["id"], first["ts"]) == ("t-1", "2026-06-01T10:00:00Z")
        assert len(client.conversations(agent, "hello")) == 1


def test_limits_are_passed_on(server: Server, agent: str):
    with Palaver(server.url) as client:
        for n in range(3):
            client.record(agent, "s-1", "user", f"hello {n}")
        assert len(client.conversations(agent, "hello", limit=2)) == 2
        assert len(client.conversations(agent, "hello", limit=0)) == 1


@pytest.mark.parametrize("session", ["a/b", "..", ".", "ünï ?&#%", "two\nlines", "n" * 256])
def test_a_session_may_have_any_name(server: Server, agent: str, session: str):
    with Palaver(server.url) as client:
        assert client.record(agent, session, "user", "hello")["session_id"] == session
        assert [hit["session_id"] for hit in client.conversations(agent, "hello")] == [session]


def test_a_refusal_says_why(server: Server, agent: str):
    with Palaver(server.url) as client:
        with pytest.raises(Refusal, match="not found") as unknown:
            client.conversations(agent, "hello")
        assert unknown.value.status_code == 404
        with pytest.raises(Refusal, match="role") as blank:
            client.record(agent, "s-1", " ", "hello")
        assert blank.value.status_code == 400
        with pytest.raises(Refusal, match="query") as empty:
            client.conversations(agent, "")
        assert empty.value.status_code == 400
    assert issubclass(Refusal, PalaverError)


def test_a_token_is_sent_and_a_bad_one_is_refused(server: Server, agent: str):
    with Palaver(server.url, token="plv_nonsense") as client, pytest.raises(Refusal, match="not valid") as refused:
        client.record(agent, "s-1", "user", "hello")
    assert refused.value.status_code == 401


def test_no_server_is_said_plainly(server: Server):
    url = server.url.replace(str(server.port), str(free_port()))
    with Palaver(url) as client, pytest.raises(PalaverError, match=f"No server answers at {url}"):
        client.record("bot", "s-1", "user", "hello")


def test_no_proxy_stands_between_us_and_this_machine(server: Server, agent: str, monkeypatch: pytest.MonkeyPatch):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Palaver(server.url) as client:
        assert client.record(agent, "s-1", "user", "hello")["content"] == "hello"


def test_the_bus_is_reached_too(server: Server):
    topic, unique = word("topic "), word()
    with Palaver(server.url) as client:
        thread = client.thread(topic)
        assert client.thread(topic)["id"] == thread["id"]
        posted = client.post(thread["id"], "ann", unique, metadata={"a": 1})
        assert posted["metadata"] == {"a": 1}
        assert [message["id"] for message in client.wait(thread["id"])] == [posted["id"]]
        assert client.wait(thread["id"], after_seq=1, seconds=0) == []
        assert [hit["message_id"] for hit in client.search(unique)] == [posted["id"]]
        with pytest.raises(Refusal) as refused:
            client.post("no-such-thread", "ann", "hello")
    assert refused.value.status_code == 404
