"""`palaver watch --url`: turns go to a server, each once, however the connection breaks. `--once` beside a watcher."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from tests.helpers import PATIENCE, Server, environment, eventually, started_with, word
from tests.importers.samples import TURNS_A_WORD, claude_file, claude_session, jsonl, typed
from tests.sessions.test_watch import Person, session

Fault = Literal["before", "after", "kill before", "kill after", "none"]


class Cutter:
    """A proxy that cuts connections: before a request reaches the server, or after the server has answered it.

    It can also kill the watcher at these moments.
    """

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.faults: list[Fault] = []
        """What happens to the next PUT requests. Others pass."""
        self.is_away = False
        self.requests = 0
        self.victim = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            while not self.is_away:
                raw = _message(client)
                if not raw or self.is_away:
                    return
                fault: Fault = "none"
                if raw.startswith(b"PUT "):
                    self.requests += 1
                    fault = self.faults.pop(0) if self.faults else "none"
                if fault == "kill before":
                    os.kill(self.victim, signal.SIGKILL)
                if fault in ("before", "kill before"):
                    return
                with socket.create_connection(("127.0.0.1", self._server_port)) as server:
                    server.sendall(raw)
                    answer = _message(server)
                if fault == "kill after":
                    os.kill(self.victim, signal.SIGKILL)
                if fault in ("after", "kill after"):
                    return
                client.sendall(answer)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _message(source: socket.socket) -> bytes:
    """One HTTP message with a content-length."""
    raw = b""
    while b"\r\n\r\n" not in raw:
        if not (data := source.recv(65536)):
            return b""
        raw += data
    head, _, body = raw.partition(b"\r\n\r\n")
    lines = [line.lower() for line in head.split(b"\r\n")]
    length = next((int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        data = source.recv(65536)
        if not data:
            return b""
        body += data
    return head + b"\r\n\r\n" + body


@contextmanager
def cutting(server: Server) -> Iterator[Cutter]:
    cutter = Cutter(server.port)
    try:
        yield cutter
    finally:
        cutter.close()


class Laptop(Person):
    """A person who feeds a server. Each has an agent of their own, as tests share the server."""

    def __init__(self, home: Path, server: Server, port: int) -> None:
        super().__init__(home)
        self.server, self.agent = server, word("agent")
        self.url = f"http://127.0.0.1:{port}"

    def command(self, *args: str) -> list[str]:
        return ["watch", *args, "--agent", self.agent, "--url", self.url]

    def run(self, *args: str) -> subprocess.CompletedProcess[str]:
        return started_with(self.env, *self.command("--once", *args))

    def follow(self, *args: str) -> subprocess.Popen[str]:
        quick = "from palaver.doors.cli import server_turns; server_turns.FIRST_PAUSE = 0.05"
        run = f"{quick}\nfrom palaver.doors.cli.main import main; main()"
        command = [sys.executable, "-c", run, *self.command(*args)]  # a process of its own, which can be killed
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)

    def on_server(self, api: httpx.Client, session_id: str) -> list[dict[str, Any]]:
        path = f"/api/v1/agents/{self.agent}/sessions/{session_id}/messages"
        answer = api.get(path, params={"limit": 1000})
        return list(answer.json()["turns"]) if answer.status_code == 200 else []

    def in_transcripts(self) -> Counter[str]:
        folder = self.server.home / "sessions" / "default" / self.agent
        lines = [line for file in folder.glob("*.jsonl") for line in file.read_text("utf-8").splitlines()]
        return Counter(httpx.Response(200, text=line).json().get("id") for line in lines if '"content"' in line)


@pytest.fixture
def cutter(server: Server) -> Iterator[Cutter]:
    with cutting(server) as one:
        yield one


@pytest.fixture
def laptop(tmp_path: Path, server: Server, cutter: Cutter) -> Laptop:
    return Laptop(tmp_path, server, cutter.port)


def test_turns_go_to_the_server_and_only_new_ones_the_second_time(laptop: Laptop, api: httpx.Client, cutter: Cutter):
    mine = session()
    path = claude_file(laptop.projects / "p", mine, word(), word())
    done = laptop.run(str(path))
    assert (done.returncode, done.stdout) == (0, "Read 1 session file: 8 new turns in 1 session.\n"), done.stderr
    assert len(laptop.on_server(api, mine)) == 2 * TURNS_A_WORD
    asked = cutter.requests
    assert laptop.run(str(path)).stdout == "Read 1 session file: 0 new turns.\n"
    assert cutter.requests == asked
    with path.open("ab") as file:
        file.write(claude_session(mine, word()))
    assert "4 new turns in 1 session" in laptop.run(str(path)).stdout
    assert set(laptop.in_transcripts().values()) == {1}
    assert not (laptop.home / "palaver" / "house.db").exists()  # nothing is kept here but the marks


@pytest.mark.thorough
@pytest.mark.parametrize("fault", ["before", "after"])
def test_a_connection_that_breaks_loses_and_doubles_nothing(
    laptop: Laptop, api: httpx.Client, cutter: Cutter, fault: Fault
):
    mine = session()
    path = claude_file(laptop.projects / "p", mine, *(word() for _ in range(300)))
    cutter.faults = [fault, "none", fault, fault]
    process = laptop.follow(str(path))
    try:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline().startswith("Read 1 session file: ")
        eventually(lambda: sum(laptop.in_transcripts().values()) == 300 * TURNS_A_WORD)
        with path.open("ab") as file:
            file.write(claude_session(mine, word()))
        eventually(lambda: sum(laptop.in_transcripts().values()) == 301 * TURNS_A_WORD)
    finally:
        process.terminate()
        _, said = process.communicate(timeout=PATIENCE)
    assert not cutter.faults
    assert set(laptop.in_transcripts().values()) == {1}
    assert said.count("Waiting for the server") == said.count("answers again") >= 1


def test_without_a_network_it_waits_and_says_so_once(laptop: Laptop, api: httpx.Client, cutter: Cutter):
    mine = session()
    path = claude_file(laptop.projects / "p", mine, word())
    cutter.is_away = True
    process = laptop.follow(str(laptop.projects))
    try:
        assert process.stdout
        assert process.stderr
        assert "Waiting for the server; nothing is lost." in process.stderr.readline()
        with path.open("ab") as file:
            file.write(claude_session(mine, word()))
        cutter.is_away = False
        assert "The server answers again." in process.stderr.readline()
        eventually(lambda: len(laptop.on_server(api, mine)) == 2 * TURNS_A_WORD)
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
    assert set(laptop.in_transcripts().values()) == {1}


def test_once_does_not_wait_for_a_server(laptop: Laptop, cutter: Cutter):
    path = claude_file(laptop.projects / "p", session(), word())
    cutter.is_away = True
    done = laptop.run(str(path))
    assert done.returncode == 5
    assert done.stderr.startswith("palaver: ")


def test_a_watcher_that_is_killed_goes_on_where_it_was(laptop: Laptop, api: httpx.Client, cutter: Cutter):
    mine = session()
    path = claude_file(laptop.projects / "p", mine, *(word() for _ in range(600)))
    faults: tuple[Fault, ...] = ("kill before", "kill after")
    for fault in (*faults, *faults):
        cutter.faults = ["none", fault]
        process = laptop.follow(str(path))
        cutter.victim = process.pid
        assert process.wait(PATIENCE) == -signal.SIGKILL
        process.communicate()
    recorded = laptop.in_transcripts()
    assert 0 < len(recorded) < 600 * TURNS_A_WORD
    done = laptop.run(str(path))
    assert done.returncode == 0, done.stderr
    assert len(laptop.in_transcripts()) == 600 * TURNS_A_WORD
    assert set(laptop.in_transcripts().values()) == {1}


def test_nothing_is_sent_again_and_an_incomplete_mark_does_no_harm(laptop: Laptop, cutter: Cutter):
    path = claude_file(laptop.projects / "p", session(), word())
    laptop.run(str(path))
    (mark,) = (laptop.home / "palaver" / "watch").rglob("*.json")
    mark.with_stem("torn").write_bytes(mark.read_bytes()[:40])
    asked = cutter.requests
    assert laptop.run(str(path)).stdout == "Read 1 session file: 0 new turns.\n"
    assert cutter.requests == asked
    mark.write_bytes(b"")  # the turns are sent again, and each is recorded once
    assert laptop.run(str(path)).returncode == 0
    assert set(laptop.in_transcripts().values()) == {1}
    assert mark.parent.stat().st_mode & 0o077 == 0


def test_rewound_turns_leave_the_server_too(laptop: Laptop, api: httpx.Client):
    path = laptop.projects / "p" / f"{session()}.jsonl"
    path.parent.mkdir(parents=True)
    first = [typed("first", path.stem, uuid="u1"), typed("dead", path.stem, uuid="u2", parentUuid="u1")]
    path.write_bytes(jsonl(*first))
    laptop.run(str(path))
    with path.open("ab") as file:
        file.write(jsonl(typed("instead", path.stem, uuid="u3", parentUuid="u1")))
    laptop.run(str(path))
    assert [turn["content"] for turn in laptop.on_server(api, path.stem)] == ["first", "instead"]


def test_a_token_that_was_refused_ends_the_command(laptop: Laptop):
    path = claude_file(laptop.projects / "p", session(), word())
    done = started_with(laptop.env, *laptop.command(str(path), "--token", "plv_nothing"))
    assert done.returncode == 4
    assert "workspace" not in started_with(laptop.env, *laptop.command("--workspace", "x")).stdout


# Merging over REST


def test_merging_again_changes_nothing_and_changed_texts_are_replaced(api: httpx.Client):
    path = f"/api/v1/agents/{word('agent')}/sessions/s/messages"
    turns = [{"id": f"t{n}", "role": "user", "content": f"text {n}", "ts": f"2026-01-0{n}T00:00:00Z"} for n in (1, 2)]
    counts = {"added": 2, "changed": 0, "removed": 0}
    assert api.put(path, json={"turns": turns}).json() == counts
    assert api.put(path, json={"turns": turns}).json() == {"added": 0, "changed": 0, "removed": 0}
    turns[1]["content"] = "another text"
    assert api.put(path, json={"turns": turns}).json() == {"added": 0, "changed": 0, "removed": 0}
    assert api.put(path, json={"turns": turns, "replace": True}).json() == {"added": 0, "changed": 1, "removed": 0}
    assert [turn["content"] for turn in api.get(path).json()["turns"]] == ["text 1", "another text"]
    gone = {"turns": [], "removed": ["t1", "unknown"]}
    assert api.put(path, json=gone).json() == {"added": 0, "changed": 0, "removed": 1}
    assert api.put(path, json=gone).json() == {"added": 0, "changed": 0, "removed": 0}
    assert [turn["content"] for turn in api.get(path).json()["turns"]] == ["another text"]
    assert api.put(path, json={"turns": [{"id": "x", "role": "user", "content": "without a time"}]}).status_code == 400


def test_many_requests_at_once_record_each_turn_once(server: Server, api: httpx.Client):
    agent = word("agent")
    path = f"/api/v1/agents/{agent}/sessions/s/messages"
    turns = [{"id": f"t{n}", "role": "user", "content": f"text {n}", "ts": "2026-01-01T00:00:00Z"} for n in range(100)]

    def send() -> None:
        with server.client() as client:
            assert client.put(path, json={"turns": turns}).status_code == 200

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    raw = (server.home / "sessions" / "default" / agent / "s.jsonl").read_text("utf-8")
    assert len(raw.splitlines()) == 100
    assert len(api.get(path, params={"limit": 1000}).json()["turns"]) == 100


# Beside a running watcher


def test_once_beside_a_watcher_records_each_turn_once(tmp_path: Path):
    person = Person(tmp_path)
    person.projects.mkdir(parents=True)
    process = person.start(str(person.projects))
    try:
        assert process.stdout
        assert process.stdout.readline().startswith("Read ")
        env = environment(person.home / "palaver", HOME=person.home)
        for _ in range(5):
            mine = session()
            path = claude_file(person.projects / "p", mine, *(word() for _ in range(20)))
            ones = [threading.Thread(target=started_with, args=(env, "watch", "--once", str(path))) for _ in range(2)]
            for one in ones:
                one.start()
            for one in ones:
                one.join()
            eventually(lambda: person.turns(mine) == 20 * TURNS_A_WORD)  # noqa: B023
        assert set(person.recorded().values()) == {1}
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
