"""Official clients connect with OAuth: the SDKs of Python and TypeScript, mcp-remote and coding agents. The browser is
scripted, and the server takes registered clients only: documents of their makers are on the internet.

`make oauth-clients` installs those that are not there, and runs all.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import pytest
from tests.clients.install import NotInstalled, install, installed, path_of
from tests.clients.programs import PROGRAMS
from tests.clients.programs import Program as Client
from tests.conftest import ONE_ENGINE
from tests.helpers import PATIENCE, Server, eventually, free_port, start_server
from tests.oauth.flow import Person, parameters
from tests.trust.people import Key

pytestmark = [ONE_ENGINE, pytest.mark.clients]

SCRIPTS = Path(__file__).parent / "programs"
REMOTE = Client("mcp-remote", "mcp-remote", "0.15.1", command=lambda start: [])
SHORT_TOKENS = (
    "from datetime import timedelta; from palaver.store.admin import oauth; "
    "oauth.ACCESS_LASTS, oauth.LEEWAY = timedelta(seconds=1), timedelta(seconds=3)"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Its access tokens run out soon, so that clients must refresh them."""
    with start_server(
        tmp_path_factory.mktemp("clients"),
        before=SHORT_TOKENS,
        PALAVER_AUTH="token",
        PALAVER_OAUTH="registration",
        PALAVER_DATABASE_URL="",
    ) as server:
        yield server


@pytest.fixture(scope="module")
def person(server: Server) -> Person:
    return Person(server, Key(server, name="ann"))


def place_of(client: Client) -> Path:
    if os.environ.get("PALAVER_OAUTH_CLIENTS") == "install":
        try:
            return install(client)
        except NotInstalled as problem:
            pytest.fail(str(problem))
    place = installed(client)
    if place is None:
        pytest.skip(f"{client.name} is not installed: run make oauth-clients")
    return place


class Running:
    """A client in a process of its own. It says line by line what it does."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self._lines, self.said = process, Queue[str](), ""
        for stream in (process.stdout, process.stderr):
            threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream: Any) -> None:
        for line in stream:
            self._lines.put(line)
        self._lines.put("")

    def says(self, *beginnings: str) -> str:
        """The rest of the next line that begins so."""
        ends = 0
        while ends < 2:
            try:
                line = self._lines.get(timeout=PATIENCE)
            except Empty:
                break
            ends += not line
            self.said += line
            for beginning in beginnings:
                if line.strip().startswith(beginning):
                    return line.strip().removeprefix(beginning).strip()
        raise AssertionError(f"it did not say {beginnings}:\n{self.said[-3000:]}")

    @property
    def newest_token(self) -> str:
        return str(re.findall(r"^TOKEN (\S+)$", self.said, re.MULTILINE)[-1])

    def hears(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()


@contextmanager
def running(command: list[str], home: Path) -> Iterator[Running]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    process = subprocess.Popen(
        command,
        env={**kept, "HOME": str(home), "MCP_REMOTE_CONFIG_DIR": str(home), "BROWSER": "none"},
        cwd=home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Running(process)
    finally:
        process.kill()
        process.wait()


def goes_through(person: Person, address: str) -> str:
    """The browser of a person opens the address, and allows what is asked. Where it is sent back to."""
    with person.browser.stream("GET", address) as answer:
        assert answer.status_code == 302, address
        page = str(answer.headers["location"])
    assert "#/connect?" in page, page
    decided = person.decides(page, scopes=("read", "write"))
    assert decided.status_code == 200, decided.text
    return str(decided.json()["redirect"])


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["python-v2", "python-v1", "ts-v1", "ts-v2"])
def test_an_sdk_connects_works_and_refreshes_its_token(server: Server, person: Person, tmp_path: Path, name: str):
    if name == "python-v2":  # palaver's own version of the SDK
        command = [sys.executable, str(SCRIPTS / "python_v2.py")]
    else:
        (client,) = [one for one in PROGRAMS if one.name == name]
        place = place_of(client)
        script = SCRIPTS / (name.replace("-", "_") + (".py" if client.is_python else ".mjs"))
        copied = Path(shutil.copy(script, place / f"oauth_{script.name}"))  # node looks for modules beside a script
        command = [str(place / "bin" / "python") if client.is_python else "node", str(copied)]
    with running([*command, f"{server.url}/mcp?tools=core"], tmp_path) as client_process:
        client_process.hears(goes_through(person, client_process.says("OPEN")))
        assert int(client_process.says("DONE")) > 5
        access = client_process.newest_token

        def works_with_another_token() -> bool:
            """Some clients refresh a token before it runs out, others when it is refused."""
            client_process.hears("again")
            assert int(client_process.says("DONE")) > 5
            return client_process.newest_token != access

        eventually(works_with_another_token)
        assert client_process.said.count("OPEN") == 1
        client_process.hears("stop")


def test_mcp_remote_connects(server: Server, person: Person, tmp_path: Path):
    place = place_of(REMOTE)
    command = ["node", str(place / "node_modules" / "mcp-remote" / "dist" / "proxy.js"), f"{server.url}/mcp"]
    with running([*command, str(free_port()), "--host", "127.0.0.1"], tmp_path) as remote:
        remote.says("Please authorize this client by visiting:")
        address = remote.says("http")
        back = goes_through(person, "http" + address)
        assert parameters(back)["code"]
        with server.client() as browser:
            assert browser.get(back).status_code == 200
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        remote.hears(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}))
        assert '"id":1' in remote.says('{"jsonrpc"', '{"result"').replace(" ", "")
        remote.hears(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        remote.hears(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}))
        assert "msg_post" in remote.says('{"jsonrpc"', '{"result"')


@dataclass(frozen=True)
class CodingAgent:
    """A coding agent that is told its server in a file or by a command, logs in, and shows the state of its servers."""

    name: str
    settings: Callable[[str], dict[str, str]]
    commands: tuple[str, str]
    is_connected: str
    adds: str = ""


CODING_AGENTS = (
    CodingAgent(
        "claude", lambda url: {}, ("mcp login palaver", "mcp list"), "✔ Connected", "mcp add --transport http palaver"
    ),
    CodingAgent(
        "codex",
        lambda url: {
            ".codex/config.toml": f'mcp_oauth_credentials_store = "file"\n[mcp_servers.palaver]\nurl = "{url}"\n'
        },
        ("mcp login palaver", "mcp list"),
        "OAuth",
    ),
    CodingAgent(
        "opencode",
        lambda url: {"opencode.json": json.dumps({"mcp": {"palaver": {"type": "remote", "url": url}}})},
        ("mcp auth palaver", "mcp list"),
        "connected",
    ),
)


@pytest.mark.thorough
@pytest.mark.parametrize("agent", CODING_AGENTS, ids=lambda agent: agent.name)
def test_a_coding_agent_logs_in(server: Server, person: Person, tmp_path: Path, agent: CodingAgent):
    (client,) = [one for one in PROGRAMS if one.name == agent.name]
    place = place_of(client)
    dead = {"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1,localhost"}  # nothing leaves the machine
    env = {"HOME": str(tmp_path), "PATH": f"{path_of(client, place)}:{os.environ['PATH']}", "BROWSER": "true", **dead}
    for name, text in agent.settings(f"{server.url}/mcp").items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")

    def run(command: str) -> str:
        words = [agent.name, *command.split()]
        done = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    if agent.adds:
        run(f"{agent.adds} {server.url}/mcp")
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 2000, 0, 0))  # addresses stay in one line
    login = subprocess.Popen(
        [agent.name, *agent.commands[0].split()],
        env=env,
        cwd=tmp_path,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    said, address = "", None
    try:
        while address is None:
            said += os.read(screen, 65536).decode("utf-8", "replace")
            address = re.search(rf"{server.url}/authorize\?[^\s\x1b\x07]+(?=[\s\x1b\x07])", said)
        with server.client() as browser:
            assert browser.get(goes_through(person, address[0])).status_code == 200
        with contextlib.suppress(OSError):  # the terminal is closed
            while more := os.read(screen, 65536):
                said += more.decode("utf-8", "replace")
        assert login.wait(PATIENCE) == 0, said
    finally:
        login.kill()
        login.wait()
        os.close(screen)
    assert agent.is_connected in run(agent.commands[1])
