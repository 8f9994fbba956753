"""Sessions under attack: what was acknowledged is in the transcript, and sooner or later in the index."""

from __future__ import annotations

import asyncio
import json
import random
import resource
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from tests.conftest import Engine
from tests.faults.conftest import Start
from tests.faults.press import IS_LONG, Client, kill, tell
from tests.faults.test_disk import small_disk
from tests.helpers import PATIENCE, Server, eventually, start_server, started_with, word

from palaver.app import App
from palaver.operations.sessions import session_index
from palaver.settings import Settings

PROCESSES, EACH = 8, 500 if IS_LONG else 40
KILLS = {"sqlite": 100 if IS_LONG else 2, "postgres": 50 if IS_LONG else 1}
QUICK = """
import palaver.store.engines.sqlite.engine
from palaver.operations.admin import maintenance
maintenance.SWEEP_SECONDS, maintenance.SWEEPS_PER_INDEX_CHECK = 0.1, 1
palaver.store.engines.sqlite.engine.BUSY_SECONDS = 0.2
"""
"""Catches up ten times a second instead of every half minute, and does not wait long for a lock."""


def record(client: Client, content: str, session: str = "s-1", agent: str = "bot") -> tuple[int, Any]:
    return client.ask(
        "POST", f"/api/v1/agents/{agent}/sessions/{session}/messages", {"role": "user", "content": content}
    )


def recorded(client: Client, content: str, session: str = "s-1", agent: str = "bot") -> dict[str, Any]:
    status, answer = record(client, content, session, agent)
    assert status == 201, answer
    return dict(answer)


def found(client: Client, query: str, agent: str = "bot") -> list[str]:
    asked = {"agent_id": agent, "query": query, "limit": 100}
    status, answer = client.ask("POST", "/api/v1/conversations/search", asked)
    assert status == 200, answer
    return [hit["id"] for hit in answer["hits"]]


def lines(home: Path, session: str = "s-1", agent: str = "bot") -> list[dict[str, Any]]:
    """A transcript whose every line is whole."""
    data = (home / "sessions" / "default" / agent / f"{session}.jsonl").read_bytes()
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


def differences(server: Server) -> list[session_index.Difference]:
    """What `palaver verify` finds wrong."""

    async def look() -> list[session_index.Difference]:
        app = App(Settings(home=server.home, database_url=server.env.get("PALAVER_DATABASE_URL", "")))
        try:
            return await session_index.verify(await app.open())
        finally:
            await app.close()

    return [difference for difference in asyncio.run(look()) if not difference.is_fine]


# Many at once


def test_many_processes_append_to_one_session_and_nothing_is_torn_or_missing(own: Server, client: Client):
    command = ["session", "append", "--agent", "bot", "--session", "s-1"]
    env = {name: value for name, value in own.env.items() if name != "PALAVER_PORT"}
    said = [f"common p{p}n{n} {'word ' * (n % 50)}" for p in range(PROCESSES) for n in range(EACH)]

    def append(number: int) -> subprocess.CompletedProcess[str]:
        mine = said[number * EACH : (number + 1) * EACH]
        return started_with(
            env, *command, input="".join(json.dumps({"role": "user", "content": c}) + "\n" for c in mine)
        )

    with ThreadPoolExecutor(PROCESSES) as at_once:
        for done in at_once.map(append, range(PROCESSES)):
            assert done.returncode == 0, done.stderr
    assert Counter(line["content"] for line in lines(own.home)) == Counter(said)
    assert differences(own) == []
    assert len(found(client, "common")) == 100
    for content in random.sample(said, 20):
        assert len(found(client, content.split()[1])) == 1
    assert len({line["agent_id"] for line in lines(own.home)}) == 1


@contextmanager
def recording(server: Server, clients: int = 6) -> Iterator[list[dict[str, Any]]]:
    """Clients record as fast as they are answered; what was acknowledged stands in the list."""
    promised: list[dict[str, Any]] = []
    refused: list[Any] = []

    def record_on(number: int) -> None:
        client = Client(server)
        for _ in range(5_000):
            try:
                status, answer = record(client, f"common {word()}", f"s-{number % 3}", f"bot-{number % 2}")
            except (OSError, HTTPException, ValueError):
                break
            (promised if status == 201 else refused).append(answer)
        client.close()

    threads = [threading.Thread(target=record_on, args=(number,), daemon=True) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield promised
    finally:
        for thread in threads:
            thread.join(PATIENCE)
    assert refused == []


def test_what_was_acknowledged_survives_a_kill(start: Start, engine: Engine):
    dice, kept, sessions_of = random.Random(), 0, ["s-0", "s-1", "s-2"]
    promised: list[dict[str, Any]] = []
    for kills in range(KILLS[engine.name] + 1):
        with start() as server:
            client = Client(server)
            if promised:
                there = {
                    line["id"]: line
                    for agent in ("bot-0", "bot-1")
                    for session in sessions_of
                    for line in _readable(server.home, session, agent)
                }
                for turn in promised:
                    assert {**turn, "recorded_at": there[turn["id"]]["recorded_at"]} == there[turn["id"]]
                assert differences(server) == []
                for turn in promised[-10:]:
                    assert found(client, turn["content"].split()[1], turn["agent_id"]) == [turn["id"]]
                kept += len(promised)
            if kills == KILLS[engine.name]:
                break
            enough = dice.randint(1, 60)
            with recording(server) as promised:
                eventually(partial(_are, promised, enough))
                kill(server)
    tell(f"{kept} acknowledged over {KILLS[engine.name]} kills, none lost")


def _are(promised: list[Any], enough: int) -> bool:
    return len(promised) >= enough


def _readable(home: Path, session: str, agent: str) -> Iterator[dict[str, Any]]:
    """What can be read of a transcript whose writer was killed."""
    path = home / "sessions" / "default" / agent / f"{session}.jsonl"
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            yield json.loads(line)
        except ValueError:
            continue


# The index is away for a while


@contextmanager
def away(url: str) -> Iterator[None]:
    """Nobody can write: another program has the file locked, or PostgreSQL lets nobody in."""
    if url.startswith("postgresql"):
        name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        with psycopg.connect(url, dbname="postgres", autocommit=True) as raw:
            raw.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false".encode())
            raw.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
            try:
                yield
            finally:
                raw.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true".encode())
    else:
        connection = apsw.Connection(str(Path(url.removeprefix("sqlite:///")) / "workspaces" / "default.db"))
        connection.set_busy_timeout(int(PATIENCE * 1000))
        connection.execute("BEGIN EXCLUSIVE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")
            connection.close()


@contextmanager
def broken(url: str) -> Iterator[None]:
    """The index is not there at all."""
    rename = "ALTER TABLE {} RENAME TO {}"
    if url.startswith("postgresql"):
        with psycopg.connect(url, autocommit=True, options="-c search_path=workspace_default") as raw:
            raw.execute(rename.format("passage_index", "gone").encode())
            yield
            raw.execute(rename.format("gone", "passage_index").encode())
    else:
        connection = apsw.Connection(str(Path(url.removeprefix("sqlite:///")) / "workspaces" / "default.db"))
        connection.set_busy_timeout(int(PATIENCE * 1000))
        connection.execute(rename.format("passage_index", "gone"))
        yield
        connection.execute(rename.format("gone", "passage_index"))
        connection.close()


@pytest.mark.thorough
def test_recording_goes_on_without_the_index_and_it_catches_up_by_itself(start: Start):
    with start(before=QUICK, PALAVER_SEARCH_TIMEOUT=0.3) as server:
        client, unique = Client(server), word()
        first = recorded(client, f"{unique} before")
        with away(server.env["PALAVER_DATABASE_URL"]):
            said = [recorded(client, f"{unique} meanwhile {n}", f"s-{n}") for n in range(3)]
            assert [line["id"] for n in range(3) for line in lines(server.home, f"s-{n}")][:1] == [said[0]["id"]]
        everything = {turn["id"] for turn in (first, *said)}
        asked = {"agent_id": "bot", "query": unique}

        def is_all_found() -> bool:  # it may take a moment until the database is reached again
            status, answer = client.ask("POST", "/api/v1/conversations/search", asked)
            return status == 200 and {hit["id"] for hit in answer["hits"]} == everything

        assert eventually(is_all_found)
        assert "Traceback" not in server.said()
        assert "not indexed yet" in server.said()


def test_the_next_turn_takes_the_missing_ones_along(start: Start):
    with start() as server:
        client, unique = Client(server), word()
        recorded(client, f"{unique} before")
        with broken(server.env["PALAVER_DATABASE_URL"]):
            recorded(client, f"{unique} meanwhile")
        recorded(client, f"{unique} after")
        assert len(found(client, unique)) == 3


def test_a_damaged_database_does_not_stop_recording(tmp_path: Path):
    with start_server(tmp_path, before=QUICK) as server:
        client = Client(server)
        first = recorded(client, "harbour one")
        path = tmp_path / "workspaces" / "default.db"
        for file in (path, path.with_name("default.db-wal")):
            with file.open("r+b") as damaged:
                damaged.write(random.Random(1).randbytes(file.stat().st_size))
        second = recorded(client, "harbour two")
        assert second["agent_id"] == first["agent_id"]
        status, answer = client.ask("POST", "/api/v1/conversations/search", {"agent_id": "bot", "query": "harbour"})
        assert status == 503, answer
        assert "damaged" in answer["error"]
    for file in path.parent.iterdir():
        file.unlink()
    with start_server(tmp_path) as server:
        assert set(eventually(lambda: found(Client(server), "harbour"))) == {first["id"], second["id"]}


# The disk is full

TEXT = " ".join(f"w{n:x}" for n in range(3000))


def full_and_free_again(server: Server, make_room: Callable[[], Any]) -> str:
    """Record until it is refused, make room, go on. Returns what was said when there was none."""
    client = Client(server)
    kept = [recorded(client, "number0")]
    for n in range(1, 2_000):
        status, answer = record(client, f"number{n} {TEXT}")
        if status != 201:
            break
        kept.append(answer)
    assert status == 503, answer
    assert len(kept) > 3
    assert [line["id"] for line in lines(server.home)] == [turn["id"] for turn in kept]
    assert record(client, f"again {TEXT}") == (503, answer)
    assert found(client, "again") == []
    assert found(client, f"number{len(kept) - 1}") == [kept[-1]["id"]]
    make_room()
    after = recorded(client, f"afterwards {TEXT}")
    assert [line["id"] for line in lines(server.home)] == [*(turn["id"] for turn in kept), after["id"]]
    assert found(client, "afterwards") == [after["id"]]
    assert "Traceback" not in server.said()
    assert str(server.home) not in answer["error"]
    return str(answer["error"])


def test_on_a_full_disk_recording_is_refused_and_earlier_turns_are_intact(tmp_path: Path):
    with small_disk(tmp_path / "disk", size="1m") as disk:
        (disk / "filler").write_bytes(b"\0" * 500_000)
        with start_server(disk, PALAVER_DATABASE_URL=f"sqlite:///{tmp_path / 'elsewhere'}") as server:
            said = full_and_free_again(server, (disk / "filler").unlink)
    assert said == "The disk is full: nothing was recorded. Free some space and try again."


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux can do this to a running process")
def test_when_the_transcript_may_not_grow_recording_is_refused_until_it_may(
    postgres: Callable[[], str], tmp_path: Path
):
    with start_server(tmp_path / "home", PALAVER_DATABASE_URL=postgres()) as server:
        hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (200_000, hard))
        said = full_and_free_again(server, lambda: resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (hard, hard)))
    assert "nothing was recorded" in said
