"""PostgreSQL drops connections and is restarted: nothing acknowledged is lost, and the server finds back by itself."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from tests.conftest import postgres_server, roomy_memory, stop_at_once
from tests.faults.press import IS_LONG, Client, must_be_whole, must_keep_its_promises, pressing, tell
from tests.faults.streams import Frame, Stream
from tests.helpers import PATIENCE, eventually, start_server, started
from tests.store.bus import opened

from palaver.errors import Timeout
from palaver.settings import Settings

DROPS, RESTARTS = (30, 8) if IS_LONG else (3, 1)


@pytest.fixture(scope="module")
def fragile() -> Iterator[Any]:
    """A PostgreSQL of our own, to be stopped and started."""
    with postgres_server(roomy_memory()) as server:
        yield server


def drop_everybody(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as raw:
        rows = raw.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        ).fetchall()
    return len(rows)


@pytest.mark.thorough
def test_dropped_connections_and_restarts_lose_nothing(fragile: Any, tmp_path: Path):
    url = fragile.get_uri()
    with start_server(tmp_path / "home", PALAVER_DATABASE_URL=url, PALAVER_SEARCH_TIMEOUT=2) as server:
        client = Client(server)
        rooms = [client.thread() for _ in range(3)]
        heard: list[Frame] = []
        stream = Stream(server, "/events")

        def hear() -> None:
            while frames := stream.next():
                heard.extend(frames)

        listening = threading.Thread(target=hear, daemon=True)
        listening.start()
        away: list[float] = []
        with pressing(server, rooms, clients=4, most=200_000) as promised:

            def more(count: int = 30) -> None:
                enough = len(promised.messages) + count
                eventually(lambda: len(promised.messages) >= enough, PATIENCE * 2)

            more()
            for _ in range(DROPS):
                assert drop_everybody(url) >= 1
                more()
            for _ in range(RESTARTS):
                stop_at_once(fragile)
                # Readiness tells the truth meanwhile; the process itself is well.
                answer = httpx.get(f"{server.url}/readyz", timeout=PATIENCE)
                assert answer.status_code == 503, answer.text
                assert httpx.get(f"{server.url}/healthz", timeout=PATIENCE).status_code == 200
                fragile.ensure_postgres_running()
                began = time.monotonic()
                eventually(server.is_ready, PATIENCE * 2)
                away.append(time.monotonic() - began)
                more()
        assert promised.broken == 0
        assert {status for status, _ in promised.refused} <= {503}
        must_keep_its_promises(server, rooms, promised, searches=20)
        must_be_whole(server)
        # Who listened all the time heard everything once.
        last = Client(server).post(rooms[0], "the last word")[1]["id"]
        eventually(lambda: any(frame.data.get("id") == last for frame in list(heard)), PATIENCE)
        said = server.said()
    listening.join(PATIENCE)
    assert [frame.id for frame in heard] == list(range(heard[0].id, heard[0].id + len(heard)))
    assert {m["id"] for m in promised.messages} <= {frame.data.get("id") for frame in heard}
    assert "Traceback" not in said
    tell(
        f"{len(promised.messages)} acknowledged over {DROPS} drops and {RESTARTS} restarts, none lost; "
        f"{len(promised.refused)} refused; ready again {max(away):.1f} s after PostgreSQL"
    )


def tool_call(api: httpx.Client, token: str, name: str, arguments: dict[str, Any]) -> httpx.Response:
    """A call of a stateless client."""
    about = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": name, "arguments": arguments, "_meta": about}
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": name,
    }
    if token:
        headers["authorization"] = f"Bearer {token}"
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    return api.post("/mcp?agent=bot", json=message, headers=headers)


def test_without_its_database_a_server_says_so_and_recording_goes_on(fragile: Any, tmp_path: Path):
    url, home = fragile.get_uri(), tmp_path / "home"
    settings = {"PALAVER_DATABASE_URL": url, "PALAVER_SEARCH_TIMEOUT": 1}
    append = ("session", "append", "--agent", "bot", "--session", "s-1", "--role", "user")
    assert started(home, *append, "harbour one", **settings).returncode == 0
    token = started(home, "token", "create", "--agent", "bot", **settings).stdout.strip()
    with (
        start_server(home, **settings) as open_one,
        start_server(home, PALAVER_AUTH="token", **settings) as closed,
        open_one.client() as api,
        closed.client() as guarded,
    ):
        stop_at_once(fragile)
        try:
            answer = tool_call(api, "", "conversation.search", {"query": "harbour"}).json()["result"]
            assert answer["structuredContent"]["available"] is False
            assert answer["structuredContent"]["message"].startswith("Conversation search is not available: ")
            answer = tool_call(guarded, token, "conversation.search", {"query": "harbour"}).json()
            assert answer["id"] == 7
            assert answer["result"]["isError"] is True
            assert "PostgreSQL is not reachable" in answer["result"]["content"][0]["text"]
            hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            answer = guarded.post(
                "/mcp",
                json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
                headers={"accept": "application/json, text/event-stream", "authorization": f"Bearer {token}"},
            ).json()
            assert (answer["id"], "PostgreSQL is not reachable" in answer["error"]["message"]) == (1, True)
            done = started(home, *append, "harbour two", **settings)
            assert (done.returncode, "The turn is in the transcript" in done.stderr) == (0, True)
            new = ("session", "append", "--agent", "stranger", "--session", "s-1", "--role", "user")
            assert started(home, *new, "harbour", **settings).returncode == 0
            unclear = ("session", "append", "--agent", "Some Name", "--session", "s-1", "--role", "user")
            assert started(home, *unclear, "harbour", **settings).returncode == 5
        finally:
            fragile.ensure_postgres_running()
        eventually(open_one.is_ready, PATIENCE * 2)
    found = started(home, "conversation", "search", "bot", "harbour", "--json", **settings)
    assert {hit["content"] for hit in json.loads(found.stdout)["hits"]} == {"harbour one", "harbour two"}


@pytest.mark.thorough
def test_turns_of_known_and_unseen_agents_are_recorded_without_the_database(fragile: Any, tmp_path: Path):
    """Each is answered with 201, is in its transcript, and is found later, under one agent."""
    with psycopg.connect(fragile.get_uri(), autocommit=True) as raw:
        raw.execute("CREATE DATABASE recording")
    url, home = fragile.get_uri(database="recording"), tmp_path / "home"
    settings = {"PALAVER_DATABASE_URL": url, "PALAVER_SEARCH_TIMEOUT": 2}
    person = started(home, "token", "create", "--human", "ann", **settings).stdout.strip()
    agent = started(home, "token", "create", "--agent", "bound", **settings).stdout.strip()
    with (
        start_server(home, **settings) as open_one,
        start_server(home, PALAVER_AUTH="token", **settings) as closed,
        open_one.client() as api,
        closed.client() as guarded,
    ):

        def say(content: str, agent: str, by: httpx.Client, token: str = "") -> tuple[int, Any]:
            answer = by.post(
                f"/api/v1/agents/{agent}/sessions/s-1/messages",
                json={"role": "user", "content": content},
                headers={"authorization": f"Bearer {token}"} if token else {},
                timeout=PATIENCE,
            )
            return answer.status_code, answer.json().get("agent_id")

        def found(agent: str) -> list[str]:
            asked = {"agent_id": agent, "query": "harbour", "limit": 100}
            hits = api.post("/api/v1/conversations/search", json=asked).json().get("hits", [])
            return sorted(hit["content"] for hit in hits)

        known_id = say("harbour 1", "known", api)[1]
        assert guarded.get("/api/threads", headers={"authorization": f"Bearer {person}"}).status_code == 200
        assert say("harbour 1", "bound", guarded, agent)[0] == 201
        stop_at_once(fragile)
        try:
            assert say("harbour 2", "known", api) == (201, known_id)
            status, unseen_id = say("harbour 1", "unseen", api)
            assert (status, say("harbour 2", "unseen", api)) == (201, (201, unseen_id))
            assert say("harbour 2", "bound", guarded, agent)[0] == 201
            assert say("harbour 3", "unseen", guarded, person) == (201, unseen_id)
            # Another agent, a caller that cannot be recognised, and a name that may be that of a known agent.
            assert say("harbour", "unseen", guarded, agent)[0] == 403
            assert say("harbour", "other", guarded, agent)[0] == 403
            wrong = person[:-1] + ("y" if person.endswith("x") else "x")
            assert say("harbour", "known", guarded, wrong)[0] == 503
            assert say("harbour", "Some%20Name", api)[0] == 503
            assert say("harbour", "99999999-9999-8999-8999-999999999999", api)[0] == 503
        finally:
            fragile.ensure_postgres_running()
        eventually(open_one.is_ready, PATIENCE * 2)
        assert say("harbour 4", "unseen", api) == (201, unseen_id)
        eventually(lambda: found("known") == ["harbour 1", "harbour 2"], PATIENCE * 2)
        assert found("unseen") == [f"harbour {n}" for n in range(1, 5)]
        eventually(lambda: found("bound") == ["harbour 1", "harbour 2"], PATIENCE * 2)
        assert {one["slug"] for one in api.get("/api/agents").json()} == {"known", "unseen", "bound"}


@pytest.mark.thorough
def test_a_locked_table_holds_a_write_up_for_some_seconds_only(postgres: Any, tmp_path: Path):
    settings = Settings(home=tmp_path, database_url=postgres())

    async def held_up() -> None:
        async with opened(settings) as bus:
            thread = await bus.thread()
            with psycopg.connect(settings.database_url) as raw:
                raw.execute("LOCK TABLE workspace_default.passages")
                with pytest.raises(Timeout):
                    await bus.post(thread, "not now")

    asyncio.run(held_up())
