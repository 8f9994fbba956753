"""`palaver hook wait`: it wakes an idle session, costs little, and ends with its client."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import Any

import pytest
from tests.helpers import PATIENCE, environment, free_port, word

from palaver.doors import hook
from palaver.text import hook_text

WOKEN = {"agent": "claude-code-work", "text": "[plans #3] ann: the parser\ndrops «the» last line", "delivery": "d1"}
OVER = {"agent": None, "text": "", "delivery": None}
Json = dict[str, Any]


class StandIn:
    """A server that holds requests to wait until the test answers them. Its answer to the others says nothing."""

    def __init__(self, port: int) -> None:
        self.asked: Queue[tuple[str, Json]] = Queue()
        """The requests, and the connections that were closed by the other side."""
        self.answers: Queue[Json | int | None] = Queue()
        """What waiting requests are answered: JSON, a status, or None for a lost connection."""
        self.port = port

    def start(self) -> None:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                event = self.path.rpartition("/")[2]
                outer.asked.put((event, body))
                if event == "wait":
                    Thread(target=self.watch, daemon=True).start()
                answer = outer.answers.get() if event == "wait" else OVER
                if answer is not None:
                    self.send_response(answer if isinstance(answer, int) else 200)
                    self.end_headers()
                    self.wfile.write(json.dumps(answer).encode())

            def watch(self) -> None:
                with suppress(OSError):
                    if not self.connection.recv(1, socket.MSG_PEEK):
                        outer.asked.put(("closed", {}))

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self.http = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.http.daemon_threads = True
        Thread(target=self.http.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self.http.shutdown()
        self.http.server_close()

    def next(self, event: str) -> Json:
        """The next request, which must be of this event."""
        found, body = self.asked.get(timeout=PATIENCE)
        assert found == event
        return body


@pytest.fixture
def server() -> Iterator[StandIn]:
    made = StandIn(free_port())
    made.start()
    yield made
    made.stop()


@pytest.fixture
def env(server: StandIn, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "server.json").write_text(json.dumps({"port": server.port}))
    claude = {"CLAUDE_CODE_ENTRYPOINT": "cli", "AI_AGENT": "claude-code_2-1-327_harness"}
    return environment(tmp_path, **claude)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "palaver", "hook", *words]


class Waiter:
    def __init__(self, env: dict[str, str], session: str = "", client: str = "claude-code") -> None:
        self.session = session or word("session-")
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command("wait", "--client", client), env=env, stdin=pipe, stdout=pipe, stderr=pipe
        )
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"session_id": self.session, "cwd": "/"}).encode())
        self.process.stdin.close()
        self.process.stdin = None

    def end(self) -> tuple[int, str, str]:
        """Its exit code, and what it wrote."""
        said, warned = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, said.decode(), warned.decode()


def test_a_message_wakes_claude_code_and_is_confirmed_once_it_is_written(server: StandIn, env: dict[str, str]):
    waiter = Waiter(env)
    asked = server.next("wait")
    assert asked["session"] == waiter.session
    assert asked["confirmed"] == [], "it can confirm"
    server.answers.put(WOKEN)
    assert waiter.end() == (2, "", "[plans #3] ann: the parser\ndrops «the» last line\n")
    while (found := server.asked.get(timeout=PATIENCE))[0] == "closed":
        pass
    assert (found[0], found[1]["session"], found[1]["confirmed"]) == ("confirm", waiter.session, ["d1"])


def test_a_wake_whose_confirmation_is_lost_is_confirmed_by_the_next_event(server: StandIn, env: dict[str, str]):
    waiter = Waiter(env)
    server.next("wait")
    server.stop()
    server.answers.put(WOKEN)
    assert waiter.end()[0] == 2
    again = StandIn(server.port)
    again.start()
    told = json.dumps({"session_id": waiter.session, "cwd": "/"}).encode()
    subprocess.run(command("stop"), input=told, env=env, check=True, timeout=PATIENCE)
    assert again.next("stop")["confirmed"] == ["d1"]
    again.stop()
    server.start()


def test_a_wake_is_confirmed_before_the_session_waits_again(server: StandIn, env: dict[str, str]):
    waiter = Waiter(env)
    server.next("wait")
    server.stop()
    server.answers.put(WOKEN)
    assert waiter.end()[0] == 2
    again = StandIn(server.port)
    next_one = Waiter(env, waiter.session)
    again.start()
    asked = again.next("confirm")
    assert (asked["session"], asked["confirmed"]) == (waiter.session, ["d1"])
    assert again.next("wait")["confirmed"] == []
    again.answers.put(OVER)
    assert next_one.end()[0] == 0
    again.stop()
    server.start()


def test_opencode_gets_the_message_as_json(server: StandIn, env: dict[str, str]):
    waiter = Waiter(env, client="opencode")
    server.next("wait")
    server.answers.put(WOKEN)
    _, said, warned = waiter.end()
    assert (json.loads(said), warned) == ({"text": WOKEN["text"]}, "")


def test_the_end_of_the_session_ends_it_quietly(server: StandIn, env: dict[str, str]):
    waiter = Waiter(env)
    server.next("wait")
    server.answers.put(OVER)
    assert waiter.end() == (0, "", "")
    assert list((Path(env["PALAVER_HOME"]) / "hooks").iterdir()) == []


@pytest.mark.parametrize("lost", [None, 503], ids=["connection", "status"])
def test_it_waits_again_when_the_server_is_back(server: StandIn, env: dict[str, str], lost: int | None):
    waiter = Waiter(env)
    server.next("wait")
    server.answers.put(lost)
    while server.asked.get(timeout=PATIENCE)[0] == "closed":
        pass
    server.answers.put(WOKEN)
    assert waiter.end()[0] == 2


def test_it_finds_a_server_that_comes_back_on_another_port(server: StandIn, env: dict[str, str]):
    other = StandIn(free_port())
    other.start()
    waiter = Waiter(env)
    server.next("wait")
    (Path(env["PALAVER_HOME"]) / "server.json").write_text(json.dumps({"port": other.port}))
    server.answers.put(None)
    assert other.next("wait")["session"] == waiter.session
    other.answers.put(OVER)
    assert waiter.end()[0] == 0
    other.stop()


def test_an_older_server_ends_it_quietly(server: StandIn, env: dict[str, str]):
    waiter = Waiter(env)
    server.next("wait")
    server.answers.put(404)
    assert waiter.end() == (0, "", "")


def test_a_session_has_one_waiter(server: StandIn, env: dict[str, str]):
    first = Waiter(env)
    server.next("wait")
    assert Waiter(env, first.session).end() == (0, "", "")
    assert server.asked.empty()
    other = Waiter(env)
    assert server.next("wait")["session"] == other.session
    first.process.kill()
    first.end()
    server.next("closed")
    again = Waiter(env, first.session)
    assert server.next("wait")["session"] == first.session, "a killed waiter leaves its place"
    for _ in (first, other, again):
        server.answers.put(OVER)
    for waiter in (other, again):
        assert waiter.end()[0] == 0


@pytest.mark.parametrize("name", ["claude-code", "codex", "opencode"])
def test_it_ends_with_a_client_that_was_killed(server: StandIn, env: dict[str, str], name: str):
    client = (
        "import subprocess, sys\n"
        "pipe = subprocess.PIPE\n"
        "waiter = subprocess.Popen(sys.argv[1:], stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)\n"
        'waiter.stdin.write(b\'{"session_id": "s"}\')\n'
        "waiter.stdin.close()\n"
        "waiter.wait()\n"
        "sys.stdin.read()\n"
    )
    words = command("wait", "--client", name)
    process = subprocess.Popen([sys.executable, "-c", client, *words], env=env, stdin=subprocess.PIPE)
    assert server.next("wait")["pid"] == process.pid
    process.send_signal(signal.SIGKILL)
    process.communicate()
    server.next("closed")


@pytest.mark.parametrize("variable", ["CLAUDE_CODE_ENTRYPOINT", "AI_AGENT"])
def test_it_holds_up_no_client_that_waits_for_its_hooks(server: StandIn, env: dict[str, str], variable: str):
    env.pop(variable)
    assert Waiter(env).end() == (0, "", "")
    assert server.asked.empty()


def test_it_does_not_stay_when_the_client_was_gone_before_it_began(server: StandIn, env: dict[str, str]):
    done = subprocess.run(
        command("wait", "--client", "codex"), input=b"", env=env, capture_output=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert list(Path(env["PALAVER_HOME"]).glob("hooks/*")) == []


def test_codex_goes_on_while_another_process_waits(server: StandIn, env: dict[str, str]):
    waiter = Waiter(env, client="codex")
    assert waiter.end() == (0, "", "")
    assert server.next("wait")["session"] == waiter.session
    assert Waiter(env, waiter.session, "codex").end() == (0, "", "")
    server.answers.put(OVER)
    server.next("closed")
    assert server.asked.empty(), "the session had one waiter"


def test_the_prompt_that_wakes_codex_counts_as_ours():
    assert hook.RUNG == hook_text.RUNG
    assert hook_text.is_hook_text(hook.RUNG)


@pytest.mark.parametrize(
    "prompt",
    [
        hook.RUNG,
        "<task-notification>palaver: a message arrived</task-notification>",
        '<channel source="palaver" agent="zoe">\n…',
    ],
)
def test_a_wake_is_no_prompt_of_the_user(server: StandIn, env: dict[str, str], prompt: str):
    told = json.dumps({"session_id": "s", "cwd": "/", "prompt": prompt}).encode()
    subprocess.run(command("prompt"), input=told, env=env, check=True, timeout=PATIENCE)
    assert "prompt" not in server.next("prompt")


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="needs /proc")
def test_it_is_small(server: StandIn, env: dict[str, str]):
    waiter = Waiter(env)
    server.next("wait")
    lines = Path(f"/proc/{waiter.process.pid}/smaps_rollup").read_text().splitlines()
    private = sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
    assert private <= 12 * 1024, "kilobytes"
    server.answers.put(OVER)
    waiter.end()
