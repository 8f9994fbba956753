"""`palaver mcp` beside a running server: it passes messages on, survives a restart, and grants nothing new."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import (
    PATIENCE,
    Mcp,
    Server,
    environment,
    eventually,
    free_port,
    palaver_command,
    start_server,
    started,
    word,
)

from palaver.doors.local import mcp_pipe, server_socket

SLOW = {"mcp", "mcp_types", "pydantic", "asyncio", "click", "httpx2", "orjson", "apsw", "http.client", "dataclasses"}
"""Modules that take long to import, or much memory."""
SOON = "from palaver.doors.local import mcp_pipe; mcp_pipe.RESTART_SECONDS = 0.3"
"""Python for a process that does not wait long for a new server."""


class Stdio(Mcp):
    """A client of `palaver mcp`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process, self._ids = process, 0
        about = {"name": "tests", "version": "1"}
        self.greeting = self.ask("initialize", protocolVersion=self.version, capabilities={}, clientInfo=about)
        self.say({"method": "notifications/initialized"})

    def say(self, message: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()

    def begin(self, method: str, **params: Any) -> int:
        self._ids += 1
        self.say({"id": self._ids, "method": method, "params": params})
        return self._ids

    def hear(self) -> dict[str, Any]:
        assert self._process.stdout
        return dict(json.loads(self._process.stdout.readline()))

    def has_spoken(self) -> bool:
        """Is there something to hear?"""
        assert self._process.stdout
        return bool(select.select([self._process.stdout], [], [], 0)[0])

    def exchange(self, method: str, **params: Any) -> dict[str, Any]:
        id = self.begin(method, **params)
        while (heard := self.hear()).get("id") != id:
            pass
        return heard

    @property
    def pid(self) -> int:
        return self._process.pid

    def modules(self) -> str:
        """The shared libraries that the process has loaded."""
        return Path(f"/proc/{self.pid}/maps").read_text()


@contextlib.contextmanager
def stdio(home: Path, *args: str, before: str = "", **env: Any) -> Iterator[Stdio]:
    process = subprocess.Popen(
        [sys.executable, "-c", f"{before}\nfrom palaver.__main__ import main; main()", "mcp", *args],
        env=environment(home, **env), cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield Stdio(process)
        assert process.stdin
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()


def is_pipe(client: Stdio) -> bool:
    """A process that opened the data itself has loaded SQLite."""
    return "apsw" not in client.modules()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_server(tmp_path_factory.mktemp("running")) as server:
        yield server


def thread_of(server: Server) -> str:
    with server.client() as api:
        return str(api.post("/api/threads", json={"topic": word("topic ")}).json()["id"])


def contents(server: Server, thread: str) -> list[str]:
    with server.client() as api:
        return [message["content"] for message in api.get(f"/api/threads/{thread}/messages").json()]


# What it is


def test_the_pipe_imports_nothing_that_is_slow(running: Server):
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}) + "\n"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "palaver", "mcp"],
        env=environment(running.home), cwd=running.home, input=line, capture_output=True, text=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["id"] == 1
    imported = set(re.findall(r"\| +(\S+)$", done.stderr, re.MULTILINE))
    assert "palaver.doors.local.mcp_pipe" in imported
    assert imported & SLOW == set()


def test_it_posts_reads_and_waits_like_a_process_of_its_own(running: Server):
    thread = thread_of(running)
    with stdio(running.home) as one, stdio(running.home, "--alone") as other:
        assert is_pipe(one)
        assert not is_pipe(other)
        assert one.greeting == other.greeting
        assert one.ask("tools/list") == other.ask("tools/list")
        assert one.ask("resources/list") == other.ask("resources/list")
        assert one.ask("prompts/list") == other.ask("prompts/list")
        waiting = one.begin("tools/call", name="msg_wait", arguments={"thread_id": thread, "timeout_ms": 20_000})
        other.call("msg_post", thread_id=thread, content="hello", author="ann")
        heard = one.hear()
        assert heard["id"] == waiting
        assert "hello" in json.dumps(heard["result"])


def test_options_and_environment_are_those_of_the_process(running: Server):
    with stdio(running.home, "--toolsets", "core", "--tool-names=dotted", "--agent", "zoe") as client:
        assert is_pipe(client)
        names = {tool["name"] for tool in client.ask("tools/list")["tools"]}
        assert "knowledge.search" in names
        thread = thread_of(running)
        assert client.call("msg_post", thread_id=thread, content="hi", verbose=True)["author"] == "zoe"
    with stdio(running.home, PALAVER_TOOLSETS="all", PALAVER_ANSWERS="full") as client:
        assert is_pipe(client)
        assert len(client.ask("tools/list")["tools"]) > len(names)
        assert "created_at" in client.call("msg_post", thread_id=thread, content="hi", author="bob")


def test_a_cancelled_wait_ends_and_a_large_message_arrives(running: Server):
    thread = thread_of(running)
    with stdio(running.home) as client:
        waiting = client.begin("tools/call", name="msg_wait", arguments={"thread_id": thread, "timeout_ms": 60_000})
        client.say({"method": "notifications/cancelled", "params": {"requestId": waiting}})
        large = "word " * 150_000
        client.call("msg_post", thread_id=thread, content=large, author="ann")
        assert contents(running, thread) == [large]


def test_lines_that_are_no_json_are_answered_as_without_a_server(running: Server):
    heard = []
    for args in ((), ("--alone",)):
        with stdio(running.home, *args) as client:
            assert client._process.stdin
            client._process.stdin.write(b"no json\n\n[]\n")
            heard.append(client.ask("ping"))
    assert heard == [{}, {}]


def test_a_long_path_of_the_home_is_no_obstacle(tmp_path: Path):
    home = tmp_path / ("long" * 30)
    with start_server(home) as server, stdio(home) as client:
        assert is_pipe(client)
        assert contents(server, thread_of(server)) == []


# When there is no server for it


def test_without_a_server_it_opens_the_data_itself(tmp_path: Path):
    with stdio(tmp_path) as client:
        assert not is_pipe(client)
        assert client.ask("ping") == {}


def test_the_socket_of_a_killed_server_is_ignored_and_replaced(tmp_path: Path):
    with start_server(tmp_path) as server:
        os.kill(server.pid, signal.SIGKILL)
        server.process.wait(PATIENCE)
    assert (tmp_path / server_socket.NAME).is_socket()
    with stdio(tmp_path) as client:
        assert not is_pipe(client)
    with start_server(tmp_path), stdio(tmp_path) as client:
        assert is_pipe(client)
    assert not (tmp_path / server_socket.NAME).exists()


@pytest.mark.thorough
def test_a_server_that_does_not_answer_is_not_waited_for(tmp_path: Path):
    with start_server(tmp_path) as server:
        os.kill(server.pid, signal.SIGSTOP)
        try:
            with stdio(tmp_path) as client:
                assert not is_pipe(client)
        finally:
            os.kill(server.pid, signal.SIGCONT)


@pytest.mark.thorough
def test_a_process_with_a_setting_of_its_own_opens_the_data_itself(running: Server):
    secret = "sk-" + "ant-api03-" + "a1B2c3D4" * 11
    thread = thread_of(running)
    with stdio(running.home) as client:
        client.refused("msg_post", thread_id=thread, content=secret, author="ann")
    with stdio(running.home, PALAVER_CONTENT_FILTER="off") as client:
        assert not is_pipe(client)
        client.call("msg_post", thread_id=thread, content=secret, author="ann")
    (running.home / "sub").mkdir()
    (running.home / "sub" / "palaver.toml").write_text("content_filter = false\n")
    done = subprocess.run(
        palaver_command("mcp", "--home", str(running.home)), env=environment(running.home), cwd=running.home / "sub",
        input=json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}) + "\n", capture_output=True, text=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["id"] == 1


def test_an_invalid_settings_file_is_reported_in_one_line(tmp_path: Path):
    (tmp_path / "palaver.toml").write_text("= nonsense\n")
    command = [sys.executable, "-m", "palaver", "mcp"]
    done = subprocess.run(command, env=environment(tmp_path), cwd=tmp_path, input="", capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("palaver: palaver.toml is not valid TOML")


def test_a_process_of_another_version_opens_the_data_itself(running: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(running.home)
    monkeypatch.setattr(server_socket, "__version__", "0.0.1")
    assert server_socket.connect(str(running.home), "mcp", {}) is None


# Access


def test_only_the_owner_can_connect(running: Server):
    assert stat.S_IMODE((running.home / server_socket.NAME).stat().st_mode) == 0o600


def test_another_user_is_refused_even_if_the_file_lets_it_in(running: Server, monkeypatch: pytest.MonkeyPatch):
    """The server compares the process id too: a process in another container has another one."""
    monkeypatch.chdir(running.home)
    connection = server_socket.connect(str(running.home), "mcp", {})
    assert connection
    connection.close()
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert server_socket.connect(str(running.home), "mcp", {}) is None


def test_a_token_decides_as_it_does_without_a_server(tmp_path: Path):
    secret = started(tmp_path, "token", "create", "--agent", "bot", "--scope", "read").stdout.strip()
    with start_server(tmp_path, PALAVER_AUTH="token"):
        with stdio(tmp_path, PALAVER_TOKEN=secret) as client:
            assert is_pipe(client)
            assert "FORBIDDEN" in json.dumps(client.refused("thread_create", topic="t"))
        with stdio(tmp_path) as client:  # the files can be read without a token, so the socket needs none either
            assert is_pipe(client)
            client.call("thread_create", topic="t")
        for env in ({"PALAVER_AUTH": "token"}, {"PALAVER_TOKEN": "plv_wrong"}):
            done = started(tmp_path, "mcp", **env)
            assert done.returncode == 4
            assert "PALAVER_TOKEN" in done.stderr


# When the server stops


def test_after_a_restart_the_client_goes_on_as_the_same_agent(tmp_path: Path):
    port = free_port()
    with contextlib.ExitStack() as stack:
        with start_server(tmp_path, port=port) as server:
            thread = thread_of(server)
            client = stack.enter_context(stdio(tmp_path))
            agent = client.call("bus_connect", thread_name="t", display_name="Ann")["agent"]["agent_id"]
            client.call("msg_post", thread_id=thread, content="before")
        with start_server(tmp_path, port=port) as server:
            posted = client.call("msg_post", thread_id=thread, content="after", verbose=True)
            assert posted["author_id"] == agent
            assert is_pipe(client)
            assert contents(server, thread) == ["before", "after"]


def test_without_a_new_server_requests_fail_until_there_is_one(tmp_path: Path):
    with contextlib.ExitStack() as stack:
        with start_server(tmp_path) as server:
            thread = thread_of(server)
            client = stack.enter_context(stdio(tmp_path, before=SOON))
            agent = client.call("bus_connect", thread_name="t", display_name="Ann")["agent"]["agent_id"]
        for _ in range(2):
            heard = client.exchange("tools/call", name="msg_post", arguments={"thread_id": thread, "content": "lost"})
            assert heard["result"]["isError"] is True
            assert mcp_pipe.AWAY in heard["result"]["content"][0]["text"]
        assert client.exchange("ping")["error"] == {"code": mcp_pipe.SERVER_ERROR, "message": mcp_pipe.AWAY}
        assert is_pipe(client)
        with start_server(tmp_path) as server:
            assert client.call("msg_post", thread_id=thread, content="kept", verbose=True)["author_id"] == agent
            assert contents(server, thread) == ["kept"]


def test_requests_during_which_the_server_is_killed_fail_and_say_so(tmp_path: Path):
    with contextlib.ExitStack() as stack:
        with start_server(tmp_path) as server:
            thread = thread_of(server)
            client = stack.enter_context(stdio(tmp_path, before=SOON))
            waiting = client.begin("tools/call", name="msg_wait", arguments={"thread_id": thread, "timeout_ms": 60_000})
            client.ask("ping")  # the wait has arrived
            os.kill(server.pid, signal.SIGKILL)
            heard = client.hear()
            assert heard["id"] == waiting
            assert heard["result"]["isError"] is True
            assert mcp_pipe.STOPPED in heard["result"]["content"][0]["text"]
        with start_server(tmp_path):
            assert client.ask("ping") == {}


def test_every_acknowledged_post_is_there_after_many_restarts(tmp_path: Path):
    port, acknowledged = free_port(), []
    with contextlib.ExitStack() as stack:
        thread, client = "", None
        for number in range(3):
            with start_server(tmp_path, port=port) as server:
                thread = thread or thread_of(server)
                client = client or stack.enter_context(stdio(tmp_path))
                for n in range(10):
                    content = f"{number}-{n}"
                    if not client.answer("msg_post", thread_id=thread, content=content, author="ann").is_error:
                        acknowledged.append(content)
                if number == 1:
                    os.kill(server.pid, signal.SIGKILL)
                    server.process.wait(PATIENCE)
        with start_server(tmp_path, port=port) as server:
            assert contents(server, thread) == acknowledged
    assert len(acknowledged) == 30


def test_the_input_can_end_while_no_server_is_there(tmp_path: Path):
    with contextlib.ExitStack() as stack, start_server(tmp_path):
        stack.enter_context(stdio(tmp_path))


def test_the_agent_is_free_when_the_client_has_gone(running: Server):
    with stdio(running.home) as client:
        first = client.call("bus_connect", thread_name="t")["agent"]["agent_id"]

    def is_free() -> bool:
        with stdio(running.home) as client:
            return bool(client.call("bus_connect", thread_name="t")["agent"]["agent_id"] == first)

    eventually(is_free)
