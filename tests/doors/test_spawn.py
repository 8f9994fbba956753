"""`palaver spawn`: a message to an agent that does not run starts its program, with the message as the prompt."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Engine
from tests.helpers import PATIENCE, Server, Thread, eventually, palaver_command, start_server, started_with

PROGRAM = """
import json, os, pathlib, sys
place = pathlib.Path(sys.argv[1])
run = {"text": sys.argv[2], "folder": os.getcwd(), "pid": os.getpid(), "words": len(sys.argv)}
with (place / "runs").open("a") as runs:
    runs.write(json.dumps(run) + "\\n")
code = (place / "end").open().read()
print("what it said last")
sys.exit(int(code))
"""
"""A stand-in for a coding agent: it writes how it was started, and ends with the code that the test writes."""


@dataclass
class Desk:
    server: Server
    place: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def spawn(self, *folders: str, options: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        for folder in folders:
            (self.place / folder).mkdir(exist_ok=True)
        program = self.place / "program.py"
        program.write_text(PROGRAM, "utf-8")
        if not (self.place / "end").exists():
            os.mkfifo(self.place / "end")
        command = shlex.join([sys.executable, str(program), str(self.place)]) + " {text}"
        places = [str(self.place / folder) for folder in folders]
        process = subprocess.Popen(
            palaver_command("spawn", "claude-code", *places, "--command", command, *options),
            env=self.server.env,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        with self.server.client() as api:
            for folder in folders:
                eventually(lambda folder=folder: f"claude-code-{folder}" in api.get("/api/agents").text)  # type: ignore[misc]
        return process

    @property
    def runs(self) -> list[dict[str, Any]]:
        log = self.place / "runs"
        lines = log.read_text("utf-8").splitlines(keepends=True) if log.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def started(self, count: int) -> list[str]:
        """The texts of so many starts."""
        eventually(lambda: len(self.runs) >= count)
        assert len(self.runs) == count
        return [run["text"] for run in self.runs]

    def end(self, code: int = 0) -> None:
        """End the program that runs."""
        (self.place / "end").write_text(str(code))

    def report(self, event: str, pid: int) -> str:
        """What an event of another session in the folder is answered."""
        told = {"client": "claude-code", "session": "other", "project": str(self.place / "work"), "pid": pid}
        with self.server.client() as api:
            return str(api.post(f"/api/hooks/{event}", json=told | {"confirmed": []}).raise_for_status().json()["text"])


@pytest.fixture
def desk(engine: Engine, tmp_path: Path) -> Iterator[Desk]:
    with start_server(tmp_path / "home", PALAVER_DATABASE_URL=engine.fresh()) as server:
        desk = Desk(server, tmp_path)
        yield desk
        for process in desk.processes:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE)


@pytest.fixture
def post(desk: Desk) -> Iterator[Callable[..., dict[str, Any]]]:
    with desk.server.client() as api:
        yield Thread(api).post


Post = Callable[..., dict[str, Any]]


def receipt_of(desk: Desk, message: dict[str, Any]) -> tuple[str, str | None, int | None]:
    with desk.server.client() as api:
        (found,) = api.get(f"/api/messages/{message['id']}/receipts").json()["receipts"]
    return found["state"], found["way"], found["turn"]


def test_a_message_starts_the_program_once_and_those_of_meanwhile_start_it_again(desk: Desk, post: Post):
    desk.spawn("work")
    first = post("@claude-code-work look; rm -rf '$HOME' `id`\n{text}")
    (text,) = desk.started(1)
    assert text.startswith("palaver: you were called. Answer with msg_post in the thread, or react.\n[data ")
    assert "look; rm -rf '$HOME' `id`" in text
    assert (desk.runs[0]["folder"], desk.runs[0]["words"]) == (str(desk.place / "work"), 3)
    assert receipt_of(desk, first) == ("read", "spawn", 1)
    for number in range(2):
        post(f"@claude-code-work meanwhile {number}")
    desk.end()
    again = desk.started(2)[1]
    assert ("look;" in again, "meanwhile 0" in again, "meanwhile 1" in again) == (False, True, True)


def test_the_agent_is_offline_and_can_be_reached(desk: Desk, post: Post):
    desk.spawn("work")
    with desk.server.client() as api:
        (agent,) = api.get("/api/agents", params={"include_inactive": True}).json()
        assert not agent["is_online"]
    assert receipt_of(desk, post("@claude-code-work hello", priority="low"))[0] == "stored"
    desk.processes[0].send_signal(signal.SIGINT)
    eventually(lambda: receipt_of(desk, post("@claude-code-work hello"))[0] == "not_reached")


def test_a_session_of_the_agent_takes_precedence_until_it_ends(desk: Desk, post: Post):
    desk.spawn("work")
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    for pid in (ended.pid, os.getpid()):  # it was killed and is resumed
        desk.report("session-start", pid)
    post("@claude-code-work are you there?")
    assert "are you there?" in desk.report("stop", os.getpid())
    post("@claude-code-work and now?")
    desk.report("session-end", os.getpid())
    (text,) = desk.started(1)
    assert ("are you there?" in text, "and now?" in text) == (False, True)


def test_a_program_that_fails_is_not_started_again_with_its_message(desk: Desk, post: Post):
    process = desk.spawn("work")
    failed = post("@claude-code-work break")
    desk.started(1)
    desk.end(3)
    eventually(lambda: receipt_of(desk, failed)[0] == "delivered")
    post("@claude-code-work go on")
    text = desk.started(2)[1]
    assert ("break" in text, "go on" in text) == (False, True)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=PATIENCE)[1]
    assert "failed with exit code 3.\n  what it said last" in said


def test_it_goes_on_when_the_server_was_killed(desk: Desk, engine: Engine):
    desk.spawn("work")
    desk.server.process.kill()
    with (
        start_server(desk.server.home, PALAVER_DATABASE_URL=desk.server.env["PALAVER_DATABASE_URL"]) as server,
        server.client() as api,
    ):
        Thread(api).post("@claude-code-work back again?")
        assert "back again?" in desk.started(1)[0]
        desk.end()


def test_no_more_than_most_run_at_once(desk: Desk, post: Post):
    desk.spawn("work", "play", "rest", options=("--most", "2"))
    for folder in ("work", "play", "rest"):
        post(f"@claude-code-{folder} hello")
    desk.started(2)
    desk.end()
    desk.started(3)


def test_ctrl_c_ends_the_program_too(desk: Desk, post: Post):
    process = desk.spawn("work")
    post("@claude-code-work hello")
    desk.started(1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    with pytest.raises(ProcessLookupError):
        os.kill(desk.runs[0]["pid"], 0)


def test_a_folder_has_one_spawn_and_the_command_needs_the_message(desk: Desk):
    desk.spawn("work")
    second = started_with(desk.server.env, "spawn", "claude-code", str(desk.place / "work"), "--command", "sh {text}")
    assert (second.returncode, "Another palaver spawn" in second.stderr) == (2, True)
    without = started_with(desk.server.env, "spawn", "claude-code", "--command", "claude -p hello")
    assert "--command needs {text}" in without.stderr


def test_a_program_in_the_folder_is_not_taken_for_the_one_that_was_named(desk: Desk):
    stranger = desk.place / "stranger"
    stranger.write_text("#!/bin/sh\n", "utf-8")
    stranger.chmod(0o755)
    env = desk.server.env | {"PATH": f":{desk.server.env['PATH']}"}
    done = started_with(env, "spawn", "claude-code", str(desk.place), "--command", "stranger {text}")
    assert (done.returncode, "stranger is not on PATH" in done.stderr) == (2, True)
