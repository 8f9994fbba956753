"""The doorbell in real programs: a message begins a turn in a session that is idle in a terminal."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg
import pytest
from tests.clients.install import to_test
from tests.clients.model import start_model
from tests.clients.programs import PROGRAMS
from tests.clients.run import start_palaver
from tests.clients.terminal import Terminal, open_terminal
from tests.clients.test_hooks import Desk
from tests.conftest import Engine
from tests.helpers import eventually, started_with

pytestmark = pytest.mark.clients

ASKS = {"claude": "❯", "codex": "Ask Codex", "opencode": "Ask anything", "gemini": "Type your message"}
"""What a program shows when it waits for a prompt."""
LONG = 120.0
WOKEN = ("claude", "codex", "opencode")


@dataclass
class Seat(Desk):
    """A desk where the client runs in a terminal."""

    more: tuple[str, ...] = ()
    """Further arguments of the client."""

    @contextmanager
    def open(self) -> Iterator[Terminal]:
        work = self.home / "work"
        work.mkdir(exist_ok=True)
        with start_model(self.script()) as self.model:
            for name, content in {**self.program.settings(self.start), **self.first_answers(work)}.items():
                (self.home / name).parent.mkdir(parents=True, exist_ok=True)
                (self.home / name).write_text(content, "utf-8")
            done = started_with(self.env, "setup", self.name)
            assert done.returncode == 0, (done.stdout, done.stderr)
            env = {**self.env, "TERM": "xterm-256color", "CI": ""}
            with open_terminal(self.command(), env, work) as terminal:
                eventually(lambda: ASKS[self.program.name] in terminal.text, LONG)
                yield terminal

    def first_answers(self, work: Path) -> dict[str, str]:
        """What the program asks a person at its first start."""
        if self.program.name == "codex":
            return {".codex/config.toml": f'[projects."{work}"]\ntrust_level = "trusted"\n'}
        if self.program.name != "claude":
            return {}
        trust = {str(work): {"hasTrustDialogAccepted": True}}
        key = {"approved": [self.program.environment(self.start)["ANTHROPIC_API_KEY"]]}
        told = {"hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": key, "projects": trust}
        return {".claude.json": json.dumps(told)}

    def command(self) -> list[str]:
        trust = ["--dangerously-bypass-hook-trust"] if self.program.name == "codex" else []
        left_out = ("exec", "--skip-git-repo-check", "-p", "run", "Follow the script.")
        return [word for word in self.program.command(self.start) if word not in left_out] + trust + list(self.more)

    @property
    def turns(self) -> list[str]:
        """What the model read, turn by turn."""
        assert self.model
        return [json.dumps(body) for _, body in self.model.requests if body.get("tools")]

    @property
    def is_idle(self) -> bool:
        """Whether its last turn ended and it waits for a message, if it can."""
        file = self.palaver.home / "workspaces" / "default.db"
        waits = "waiter <> ''" if self.program.name in WOKEN else "id_hash LIKE 'hook:%'"
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
            found = database.execute(f"SELECT state FROM agent_connections WHERE {waits}").fetchall()
        return ("idle",) in found

    @property
    def waiters(self) -> list[int]:
        """The processes that wait for a message."""
        found = subprocess.run(["pgrep", "-f", f"hook wait .*{self.palaver.home}"], stdout=subprocess.PIPE, text=True)
        return [int(pid) for pid in found.stdout.split()]

    def work_once(self, terminal: Terminal) -> None:
        """Let it work on a prompt until it is idle."""
        terminal.enter("Follow the script.", lambda: self.turns)
        eventually(lambda: self.is_idle)

    def is_woken(self, text: str) -> None:
        """Post a message, and see that it begins one turn that reads it once."""
        eventually(lambda: self.is_idle)
        self.post(f"@{self.name} {text}")
        eventually(lambda: any(text in turn for turn in self.turns))
        assert self.turns[-1].count(text) == 1


@pytest.fixture(params=WOKEN)
def seat(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Seat]:
    program = next(program for program in PROGRAMS if program.name == request.param)
    place = to_test(program)
    if not place:
        pytest.skip(f"{program.name} is not installed: run tools/clients {program.name}")
    with start_palaver(tmp_path / "palaver") as palaver:
        (tmp_path / "home").mkdir()
        yield Seat(program, place, tmp_path / "home", palaver)


claude = pytest.mark.parametrize("seat", ["claude"], indirect=True)


def test_messages_wake_a_session_and_its_waiter_ends_with_it(seat: Seat):
    with seat.open() as terminal:
        seat.work_once(terminal)
        for number in range(2):
            seat.is_woken(f"lighthouse {number}")
        assert [seat.turns[-1].count(f"lighthouse {number}") for number in range(2)] == [1, 1]
        eventually(lambda: seat.is_idle and seat.waiters)
        os.kill(terminal.pid, signal.SIGKILL)
        eventually(lambda: not seat.waiters)


@claude
def test_a_message_wakes_a_session_that_had_no_prompt_after_a_restart_of_palaver(seat: Seat):
    with seat.open() as terminal:
        eventually(lambda: seat.is_idle)
        seat.palaver.restart()
        seat.is_woken("the lighthouse is dark")
        eventually(lambda: seat.is_idle and seat.waiters)
        terminal.enter("/exit", lambda: terminal.has_ended)
        eventually(lambda: not seat.waiters)


@claude
def test_a_killed_waiter_is_followed_by_another_at_the_next_stop(seat: Seat):
    with seat.open() as terminal:
        seat.work_once(terminal)
        os.kill(min(seat.waiters), signal.SIGKILL)  # one that was started at the stop may not have ended yet
        terminal.enter("Go on.", lambda: any("Go on." in turn for turn in seat.turns))
        seat.is_woken("the lighthouse is dark")


@claude
@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_a_message_at_another_server_of_the_database_wakes(seat: Seat, engine: Engine, tmp_path: Path):
    """Its own server is killed while it waits, and a palaver of somebody else has an agent of the same name."""
    url = engine.fresh()
    with (
        start_palaver(tmp_path / "own", PALAVER_DATABASE_URL=url) as own,
        start_palaver(tmp_path / "other", PALAVER_DATABASE_URL=url) as other,
        psycopg.connect(url, autocommit=True) as database,
    ):
        strange, seat.palaver = replace(seat), own

        def is_idle() -> bool:
            found = database.execute(
                "SELECT state FROM workspace_default.agent_connections WHERE waiter <> ''"
            ).fetchall()
            return ("idle",) in found

        strange.meet()
        with seat.open():
            for restarts in (False, True):
                eventually(is_idle)
                if restarts:
                    own.restart()
                strange.post(f"@{seat.agent} a stranger speaks {restarts}")
                text = f"the lighthouse is dark {restarts}"
                replace(seat, palaver=other).post(f"@{seat.agent} {text}")
                eventually(lambda: any(text in turn for turn in seat.turns))  # noqa: B023
                assert seat.turns[-1].count(text) == 1
                assert "a stranger speaks" not in seat.turns[-1]
