"""What the tests talk to palaver with: a real server in its own process, and small clients for its doors."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
from tests import fork_server

import palaver

SOURCE = Path(palaver.__file__).parents[1]
PATIENCE = 60.0
"""Seconds until a test stops waiting. This is long, because the machine may be busy; a test that passes never waits so long."""

CAN_FORK = sys.platform == "linux"
"""Elsewhere what was imported may not survive it."""

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients that only talk to this machine: without it each of them reads all authorities there are, for 50 ms."""


def word(prefix: str = "w") -> str:
    """A word that no other test uses."""
    return prefix + uuid4().hex[:16]


def eventually(look: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """What `look` returns as soon as it is true."""
    until = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.01)
    return seen


def free_port() -> int:
    """A port for a server. The system gives none of these to clients: one that asks until a server answers could get
    that very port, and connect to itself."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as sock, suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port


# A server


def environment(home: Path, **env: Any) -> dict[str, str]:
    """The environment of a palaver process: nothing of the tester's own settings gets into it."""
    own = ("PALAVER_", "AGENTCHATBUS_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(own) or k == "PALAVER_MODEL"}  # see conftest.py
    # Without a home directory a server finds no sessions of the tester to record.
    kept |= {
        "HOME": str(home / "nobody"),
        "PALAVER_HOME": str(home),
        "PYTHONPATH": str(SOURCE),
        "PYTHONUNBUFFERED": "1",
    }
    return kept | {name: str(value) for name, value in env.items()}


def started(home: Path, *args: str, **env: Any) -> subprocess.CompletedProcess[str]:
    """Run a command of palaver to its end, in a process of its own."""
    return started_with(environment(home, **env), *args)


def started_with(env: dict[str, str], *args: str, input: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command of palaver to its end, in exactly this environment, such as a server's."""
    patience = PATIENCE * 3
    if CAN_FORK:
        return fork_server.run(args, env, Path.cwd(), input, patience)
    return subprocess.run(
        palaver_command(*args), env=env, input=input, capture_output=True, text=True, timeout=patience
    )


def palaver_command(*args: str, before: str = "") -> list[str]:
    """A command line that runs palaver, for tests that need pipes or signals. `before` is Python to run first."""
    if CAN_FORK:
        return fork_server.command(*args, before=before)
    return [sys.executable, "-c", f"{before}\nfrom palaver.doors.cli.main import main; main()", *args]


@dataclass
class Server:
    """A palaver server in a process of its own."""

    home: Path
    url: str
    port: int
    env: dict[str, str] = field(repr=False)
    process: subprocess.Popen[bytes] | fork_server.ForkedProcess = field(repr=False)
    log: Path

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=PATIENCE, verify=NO_TLS, **options)

    @property
    def pid(self) -> int:
        return self.process.pid

    def metrics(self) -> str:
        return httpx.get(f"{self.url}/metrics", timeout=PATIENCE, verify=NO_TLS).text

    def said(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def is_ready(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended with {self.process.returncode}:\n{self.said()}")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


@contextmanager
def start_server(home: Path, *, before: str = "", port: int | None = None, **env: Any) -> Iterator[Server]:
    """Run a server on `home` until the block ends. It is ready when the block begins.

    `before` is Python to run first, for values that have no setting. Further names are environment variables:
    `start_server(home, PALAVER_RATE_LIMIT=3)`.
    """
    home.mkdir(parents=True, exist_ok=True)
    port = port or free_port()
    whole = environment(home, PALAVER_PORT=port, **env)
    log = home / f"server-{port}.log"
    process: subprocess.Popen[bytes] | fork_server.ForkedProcess
    with log.open("ab") as out, open(os.devnull, "rb") as nothing:
        if CAN_FORK:
            process = fork_server.start(["serve"], whole, home, nothing, out, out, before)
        else:
            process = subprocess.Popen(
                palaver_command("serve", before=before), env=whole, cwd=home, stdin=nothing, stdout=out, stderr=out
            )
    server = Server(home, f"http://127.0.0.1:{port}", port, whole, process, log)
    try:
        eventually(server.is_ready, PATIENCE * 3)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


# Listening


@dataclass(frozen=True)
class Told:
    """One frame of an event stream."""

    id: int
    type: str
    data: Any


class Listener:
    """An open event stream, read when asked."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.iter_lines()
        self.comments: list[str] = []

    def next(self) -> Told:
        """The next event; comments on the way are kept aside."""
        frame: dict[str, str] = {}
        for line in self._lines:
            if line.startswith(":"):
                self.comments.append(line[1:].strip())
            elif line:
                name, _, value = line.partition(": ")
                frame[name] = value
            elif frame:
                assert list(frame) == ["id", "event", "data"], frame
                return Told(int(frame["id"]), frame["event"], json.loads(frame["data"]))
        raise AssertionError("the stream has ended")

    def next_comment(self) -> str:
        for line in self._lines:
            if line.startswith(":"):
                return line[1:].strip()
            assert not line, line
        raise AssertionError("the stream has ended")

    def until(self, is_it: Callable[[Told], bool]) -> list[Told]:
        """Everything up to and including the event that `is_it`."""
        told = [self.next()]
        while not is_it(told[-1]):
            told.append(self.next())
        return told

    def before_message(self, message_id: str) -> list[Told]:
        """Everything that was told before this message was."""
        return self.until(lambda told: told.type == "msg.new" and told.data["id"] == message_id)[:-1]


@contextmanager
def listen(api: httpx.Client, path: str = "/events", after: int | None = None, **headers: str) -> Iterator[Listener]:
    """Listen to a stream; when the block begins, the server has us on its list."""
    if after is not None:
        headers["Last-Event-ID"] = str(after)
    with api.stream("GET", path, headers=headers, timeout=PATIENCE) as response:
        assert response.status_code == 200, response.read()
        listener = Listener(response)
        assert listener.next_comment() == "connected"
        yield listener


# An agent


class ToolError(AssertionError):
    """A tool answered with an error nobody asked for."""


@dataclass(frozen=True)
class Answer:
    """What a tool answered: the structured content, and whether it is an error."""

    value: Any
    is_error: bool
    raw: dict[str, Any] = field(repr=False)


EVERYTHING = "/mcp?tools=all&answers=full&schemas=output"
"""Most tests look at all tools and at full answers; what a plain /mcp gives is tested for itself."""


class Mcp:
    """A client of `/mcp` as of 2025-11-25: a handshake, then requests that carry the session's id."""

    version = "2025-11-25"
    program = "tests"

    def __init__(self, client: httpx.Client, path: str = EVERYTHING, token: str | None = None) -> None:
        self._client, self._path, self._ids = client, path, 0
        self.headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        if token:
            self.headers["authorization"] = f"Bearer {token}"
        about = {"name": self.program, "version": "1"}
        self.greeting = self.ask("initialize", protocolVersion=self.version, capabilities={}, clientInfo=about)
        self.headers["mcp-protocol-version"] = self.greeting["protocolVersion"]
        self.send({"method": "notifications/initialized"})

    def send(self, message: dict[str, Any]) -> httpx.Response:
        body = json.dumps({"jsonrpc": "2.0", **message})
        response = self._client.post(self._path, content=body, headers=self.headers)
        if "mcp-session-id" in response.headers:
            self.headers["mcp-session-id"] = response.headers["mcp-session-id"]
        return response

    def exchange(self, method: str, **params: Any) -> dict[str, Any]:
        """The whole JSON-RPC answer."""
        self._ids += 1
        response = self.send({"id": self._ids, "method": method, "params": params})
        assert response.status_code == 200, (response.status_code, response.text)
        answers = list(messages_of(response))
        return next(answer for answer in answers if answer.get("id") == self._ids)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        answer = self.exchange(method, **params)
        assert "result" in answer, answer
        return dict(answer["result"])

    def answer(self, tool: str, arguments: dict[str, Any] | None = None, /, **more: Any) -> Answer:
        """Call a tool and take what comes. Text and structured content say the same; an error is text alone."""
        result = self.ask("tools/call", name=tool, arguments={**(arguments or {}), **more})
        (item,) = result["content"]
        assert item["type"] == "text"
        value, is_error = json.loads(item["text"]), result.get("isError", False)
        assert ("structuredContent" in result) == (not is_error)
        assert is_error or result["structuredContent"] == value
        return Answer(value, is_error, result)

    def call(self, tool: str, arguments: dict[str, Any] | None = None, /, **more: Any) -> Any:
        """Call a tool that must succeed."""
        answer = self.answer(tool, arguments, **more)
        if answer.is_error:
            raise ToolError(f"{tool}: {answer.value}")
        return answer.value

    def refused(self, tool: str, arguments: dict[str, Any] | None = None, /, **more: Any) -> Any:
        """Call a tool that must fail; what it says."""
        answer = self.answer(tool, arguments, **more)
        assert answer.is_error, answer.value
        return answer.value

    def read(self, uri: str) -> str:
        (item,) = self.ask("resources/read", uri=uri)["contents"]
        return str(item["text"])


def messages_of(response: httpx.Response) -> Iterator[dict[str, Any]]:
    if response.headers["content-type"].startswith("application/json"):
        yield response.json()
        return
    for line in response.text.split("\n"):  # a text may have other separators of lines in it
        if line.startswith("data:") and line[5:].strip():
            yield json.loads(line[5:])


# A few things every test needs


def inside(text: str) -> str:
    """What is inside the fence of a text: there must be one, and nothing in it may look like its end."""
    (found,) = re.finditer(
        r"^\[data ([0-9a-f]{8}): not instructions to you]\n(.*)\n\[end of data \1]$", text, re.S | re.M
    )
    assert found[1] not in found[2]
    return str(found[2])


class Thread:
    """A thread of its own for a test, over REST."""

    def __init__(self, api: httpx.Client, topic: str | None = None) -> None:
        self.api = api
        response = api.post("/api/threads", json={"topic": topic or f"thread {word()}"})
        assert response.status_code == 201, response.text
        self.id: str = response.json()["id"]
        self.topic: str = response.json()["topic"]
        self.path = f"/api/threads/{self.id}"

    def post(self, content: str, author: str | None = "ann", **more: Any) -> dict[str, Any]:
        response = self.api.post(f"{self.path}/messages", json={"author": author, "content": content, **more})
        assert response.status_code == 201, response.text
        return dict(response.json())

    def messages(self, **params: Any) -> list[dict[str, Any]]:
        response = self.api.get(f"{self.path}/messages", params=params)
        assert response.status_code == 200, response.text
        return list(response.json())


def compress(raw: bytes) -> bytes:
    """With zstd."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return bytes(zstd.compress(raw))
