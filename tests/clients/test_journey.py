"""The whole journey of a person with four coding agents: they remember what was done in a project, whoever did it.

Claude Code works in A, Codex goes on in A, Gemini CLI in B knows nothing of A, opencode finds A's decision. Once on one
machine, and once with a team's server that wants tokens.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.clients.install import path_of, to_test
from tests.clients.model import Call, Script, start_model
from tests.clients.programs import PROGRAMS, Start
from tests.clients.run import Palaver, start_palaver
from tests.clients.test_hooks import NAMES
from tests.helpers import environment, eventually, started_with

pytestmark = pytest.mark.clients

DECIDED = "We will write the export as UTF-8 with a marmalade header instead of Latin-1."
ASKED = "Which encoding does the export have? marmalade"


@dataclass
class Person:
    """Somebody with a home, two repositories, and a palaver server."""

    home: Path
    palaver: Palaver
    token: str = ""

    def repository(self, name: str) -> Path:
        root = self.home / "src" / name
        if not root.exists():
            root.mkdir(parents=True)
            subprocess.run(["git", "init", "-q", str(root)], check=True)
            with (root / ".git" / "config").open("a") as file:
                file.write(f'[remote "origin"]\n\turl = git@github.com:acme/{name}.git\n')
        return root

    def work(self, client: str, project: str, prompt: str, answers: Script) -> tuple[list[str], list[str]]:
        """Let a client work on a prompt. Returns what its model read, and the results of its tools."""
        program = next(one for one in PROGRAMS if one.name == client)
        place = to_test(program)
        if not place:
            pytest.skip(f"{client} is not installed: run tools/clients {client}")
        results: list[str] = []

        def script() -> Script:
            try:
                call = next(answers)
                while True:
                    results.append((yield call))
                    call = answers.send(results[-1])
            except StopIteration:
                return

        with start_model(script()) as model:
            start = Start(self.home, place, f"{self.palaver_url}/mcp?tools=core", model.base_url)
            env = {name: os.environ[name] for name in ("LANG", "TERM", "TMPDIR", "USER") if name in os.environ}
            env |= {"PATH": f"{path_of(program, place)}:{os.environ['PATH']}", "HOME": str(self.home)}
            env |= {"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1,localhost", "CI": "true"}
            env |= {"PALAVER_HOME": str(self.client_home), "PALAVER_HOOK_SECONDS": "30", "DO_NOT_TRACK": "1"}
            env |= program.environment(start)
            for name, content in program.settings(start).items():
                (self.home / name).parent.mkdir(parents=True, exist_ok=True)
                if not (self.home / name).exists():
                    (self.home / name).write_text(content, "utf-8")
            remote = ["--url", self.palaver_url, "--token", self.token] if self.token else []
            done = started_with(env, "setup", NAMES[client], "--no-import", *remote)
            assert done.returncode == 0, (done.stdout, done.stderr)
            command = program.command(start)
            if client == "codex":
                command[2:2] = ["--dangerously-bypass-hook-trust"]
            command[command.index("Follow the script.")] = prompt
            ran = subprocess.run(
                command, env=env, cwd=self.repository(project), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=110,
            )  # fmt: skip
            assert ran.returncode == 0, (ran.stdout[-2000:], ran.stderr[-2000:])
            read = [json.dumps(body) for _, body in model.requests if "bus_connect" in json.dumps(body)]
        started_with(env, "watch", "--once", "--quiet")
        return read, results

    @property
    def palaver_url(self) -> str:
        return f"http://127.0.0.1:{self.palaver.port}"

    @property
    def client_home(self) -> Path:
        """PALAVER_HOME of the clients: that of the server on this machine, or one of their own."""
        return self.home / "palaver" if self.token else self.palaver.home

    def recorded(self, text: str) -> bool:
        with self.palaver.rest() as api:
            headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
            found = api.post("/api/v1/conversations/search/all", json={"query": text}, headers=headers).json()
            return bool(found.get("count"))


def says_nothing() -> Script:
    return
    yield


def searches() -> Script:
    yield Call("knowledge_search", {"query": "marmalade export encoding"})


@pytest.fixture(params=["one machine", "team"])
def person(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Person]:
    settings = {"PALAVER_AUTH": "token"} if request.param == "team" else {}
    with start_palaver(tmp_path / "server", **settings) as palaver:
        home = tmp_path / "home"
        home.mkdir()
        token = ""
        if settings:
            made = started_with(environment(palaver.home), "token", "create", "--agent", "anns-agent")
            token = made.stdout.strip()
        yield Person(home, palaver, token)


@pytest.mark.thorough
def test_agents_of_a_person_remember_what_was_done_in_a_project(person: Person):
    person.work("claude", "exporter", f"Note this: {DECIDED}", says_nothing())
    eventually(lambda: person.recorded("marmalade"))
    briefed, found = person.work("codex", "exporter", "Go on with the export.", searches())
    assert "marmalade" in found[0], "Codex finds what Claude Code did"
    assert "exporter" in briefed[0]
    briefed, found = person.work("gemini", "importer", "Look around.", searches())
    assert "UTF-8" not in found[0], "in another project nothing is known of it"
    assert "UTF-8" not in briefed[0]
    _, found = person.work("opencode", "exporter", "Look around.", searches())
    assert "marmalade header" in found[0]
