"""`palaver hook`: what the hooks of coding agents get, and that they never disturb their client."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.conftest import Engine
from tests.helpers import PATIENCE, Server, Thread, environment, start_server, started, started_with, word
from tests.mcp_clients import Stateless
from tests.tokens import count_tokens

from palaver.doors import hook

PLENTY = {"PALAVER_HOOK_SECONDS": "20"}
"""Much time for an answer: other tests may keep the machine busy."""


class Program:
    """A coding agent that runs its hooks."""

    def __init__(self, server: Server, project: Path, client: str = "claude-code") -> None:
        self.server, self.project, self.client, self.session = server, project, client, word("session-")

    def hook(self, event: str, env: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
        given = json.dumps({"session_id": self.session, "cwd": str(self.project), **more})
        done = run_hook([event, "--client", self.client], given, self.server.env | (env or {}))
        assert (done.returncode, done.stderr) == (0, "")
        return dict(json.loads(done.stdout)) if done.stdout else {}

    def start(self, **more: Any) -> str:
        return str(self.hook("session-start", **more)["hookSpecificOutput"]["additionalContext"])

    def prompt(self, text: str = "go on") -> str:
        return str(self.hook("prompt", prompt=text).get("hookSpecificOutput", {}).get("additionalContext", ""))

    def stop(self) -> str:
        return str(self.hook("stop").get("reason", ""))

    def report(self, event: str, **more: Any) -> dict[str, Any]:
        """Report an event as a hook does, without writing the answer."""
        told = {"client": self.client, "session": self.session, "project": str(self.project), **more}
        with self.server.client() as api:
            return dict(api.post(f"/api/hooks/{event}", json=told).raise_for_status().json())


def run_hook(words: list[str], given: str | bytes, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    data = given.decode("utf-8", "replace") if isinstance(given, bytes) else given
    return subprocess.run(
        [sys.executable, "-m", "palaver", "hook", *words],
        input=data,
        env=env | PLENTY,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


@pytest.fixture(scope="module")
def place(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp(f"hooks-{engine.name}")
    with start_server(home, PALAVER_DATABASE_URL=engine.fresh()) as server:
        yield server


@pytest.fixture
def api(place: Server) -> Iterator[httpx.Client]:
    with place.client() as client:
        yield client


@pytest.fixture
def program(place: Server, tmp_path: Path) -> Program:
    (tmp_path / ".git").mkdir()
    return Program(place, tmp_path)


def name_in(briefing: str) -> str:
    return briefing.split()[4]


def credentials_in(briefing: str) -> dict[str, str]:
    """The agent_id and the token that a briefing tells; empty if it tells none."""
    found = re.search(r"agent_id (\S+), token (\S+)\. Pass both", briefing)
    assert briefing.count("token ") <= 1
    return {"agent_id": found[1], "token": found[2]} if found else {}


# Who the agent is


def test_the_briefing_says_who_the_agent_is_and_its_credentials_work(program: Program, api: httpx.Client):
    credentials = credentials_in(program.start())
    thread = Thread(api)
    client = Stateless(api, "claude-code")
    posted = client.call("msg_post", thread_id=thread.id, content="hello", **credentials)
    assert posted["author"] == "Claude Code" or posted["author"].startswith("Claude Code")


def test_bus_connect_gives_the_agent_that_the_hook_announced(program: Program, api: httpx.Client):
    name = name_in(program.start())
    client = Stateless(api, "claude-code", path=f"/mcp?project={program.project}")
    assert client.call("bus_connect", thread_name=word("topic "))["agent"]["slug"] == name


def test_two_sessions_at_once_are_two_agents_and_the_next_one_returns(program: Program, place: Server):
    first, second = name_in(program.start()), Program(place, program.project)
    assert name_in(second.start()) != first
    program.hook("session-end")
    assert name_in(Program(place, program.project).start()) == first


def test_a_client_that_was_killed_leaves_its_agent_to_the_next_session(program: Program, place: Server):
    client = subprocess.Popen(["sleep", "600"])
    told = {"client": "codex", "project": str(program.project), "pid": client.pid}
    with place.client() as api:
        first = api.post("/api/hooks/session-start", json={**told, "session": word()}).json()["agent"]
        alive = {**told, "pid": os.getpid(), "session": word()}
        assert api.post("/api/hooks/session-start", json=alive).json()["agent"] != first
        client.kill()
        client.wait()
        assert api.post("/api/hooks/session-start", json={**told, "session": word()}).json()["agent"] == first


def test_the_same_session_stays_the_same_agent_after_compaction(program: Program):
    assert name_in(program.start()) == name_in(program.start(source="compact"))


# The briefing


def test_the_briefing_has_messages_sessions_and_threads_of_the_project(program: Program, api: httpx.Client):
    name = name_in(program.start())
    program.hook("session-end")
    session = word("s-")
    record(program, session, "user", "Fix the tokenizer")
    record(program, session, "assistant", "I decided to split at blanks. TODO: tests.")
    thread = Thread(api)
    thread.post(f"@{name} which tokenizer do you use?")
    text = program.start()
    assert f"[{thread.topic} #1] ann, now: @{name} which tokenizer do you use?" in text
    assert "Fix the tokenizer" in text
    assert "I decided to split at blanks." in text
    assert "TODO: tests." in text
    assert count_tokens(text) <= 600


def record(program: Program, session: str, role: str, content: str) -> None:
    words = ["--agent", "codex", "--session", session, "--role", role, "--project", str(program.project), content]
    done = started_with(program.server.env, "session", "append", *words)
    assert done.returncode == 0, done.stderr


def test_sessions_of_another_project_are_left_out(program: Program, place: Server, tmp_path: Path):
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    secret = word()
    elsewhere = Program(place, other)
    record(elsewhere, word("s-"), "assistant", f"TODO: {secret}")
    assert secret not in program.start()
    assert secret in elsewhere.start()


def test_a_worktree_belongs_to_its_repository(program: Program, place: Server, tmp_path: Path):
    repository, worktree = tmp_path / "repository", tmp_path / "a work tree ü"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q", str(repository)], check=True)
    subprocess.run([*git, "-C", str(repository), "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*git, "-C", str(repository), "worktree", "add", "-q", "-b", "b", str(worktree)], check=True)
    unique = word()
    record(Program(place, repository), word("s-"), "assistant", f"TODO: {unique}")
    assert unique in Program(place, worktree).start()


def test_the_briefing_of_a_full_project_has_at_most_600_tokens(program: Program, api: httpx.Client):
    name = name_in(program.start())
    for number in range(12):
        thread = Thread(api, f"{word()} 消息搜索 migration of {number} tables/with_long_names")
        thread.post(f"@{name} `SELECT * FROM passages WHERE id = {number}` → what does this do?? 🎉 " * 6)
        record(program, word("s-"), "assistant", f"TODO: part {number} of {word()}. " * 5)
    assert 200 < count_tokens(program.start()) <= 600


# Prompts and stops


def test_a_prompt_gets_only_what_is_new_and_meant_for_the_agent(program: Program, api: httpx.Client):
    name = name_in(program.start())
    assert program.prompt() == ""
    thread = Thread(api)
    thread.post("not for you")
    thread.post(f"@{name} for you")
    text = program.prompt()
    assert "for you" in text
    assert "not for you" not in text
    assert program.prompt() == ""


def test_what_hooks_tell_has_no_control_characters(program: Program, api: httpx.Client):
    steering = "\x1b[2J\x07\x9b\u202e\u2066\u200f"
    name = name_in(program.start())
    program.hook("session-end")
    session = word("s-")
    record(program, session, "user", f"Fix{steering} the tokenizer")
    record(program, session, "assistant", f"I decided{steering} to split at blanks. TODO: {steering} tests.")
    thread = Thread(api, word(f"topic{steering}"))
    thread.post(f"@{name} {steering}which tokenizer?", author=f"an{steering}n")
    texts = [program.start()]
    thread.post(f"@{name} {steering}and why?", author=f"an{steering}n")
    texts.append(program.prompt())
    thread.post(f"@{name} {steering}go on", author=f"an{steering}n")
    texts.append(program.stop())
    for text, words in zip(texts, ["Fix the tokenizer", "ann, now", "go on"], strict=True):
        assert words in text
        assert not set(steering) & set(text) - set("[2J")


def test_a_stop_goes_on_with_a_message_once(program: Program, api: httpx.Client):
    name = name_in(program.start())
    assert program.hook("stop") == {}
    Thread(api).post(f"@{name} wait, the tests fail")
    answer = program.hook("stop", stop_hook_active=False)
    assert answer["decision"] == "block"
    assert "the tests fail" in answer["reason"]
    assert program.hook("stop", stop_hook_active=True) == {}


def test_five_hooks_at_once_show_a_message_once(program: Program, api: httpx.Client):
    name = name_in(program.start())
    unique = word()
    Thread(api).post(f"@{name} {unique}")
    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(lambda _: program.stop(), range(5)))
    assert sum(unique in answer for answer in answers) == 1


def test_what_the_agent_has_read_is_not_shown_at_a_prompt(program: Program, api: httpx.Client):
    briefing = program.start()
    thread = Thread(api)
    thread.post(f"@{name_in(briefing)} read me")
    Stateless(api, "claude-code").call("msg_list", thread_id=thread.id, **credentials_in(briefing))
    assert program.prompt() == ""


def test_the_first_prompt_gets_the_briefing_if_the_server_was_down_at_the_start(program: Program):
    assert program.prompt().startswith("You are the agent ")
    assert program.prompt() == ""


@pytest.mark.parametrize(
    "client, event, expected",
    [
        ("claude-code", "session-start", {"hookSpecificOutput": {"hookEventName": "SessionStart"}}),
        ("codex", "session-start", {"hookSpecificOutput": {"hookEventName": "SessionStart"}}),
        ("gemini-cli", "session-start", {"hookSpecificOutput": {"hookEventName": "SessionStart"}}),
        ("gemini-cli", "prompt", {"hookSpecificOutput": {"hookEventName": "BeforeAgent"}}),
        ("cursor", "session-start", {}),
        ("claude-code", "stop", {"decision": "block"}),
        ("codex", "stop", {"decision": "block"}),
        ("gemini-cli", "stop", {"decision": "deny"}),
        ("cursor", "stop", {}),
    ],
)
def test_the_answer_is_in_the_format_of_the_client(client: str, event: str, expected: dict[str, Any]):
    answer = hook.in_format_of(client, event, "text", {})
    inner = answer.get("hookSpecificOutput", answer)
    assert "text" in inner.values()
    assert {key: value for key, value in answer.items() if key == "decision"} == {
        key: value for key, value in expected.items() if key == "decision"
    }
    if "hookSpecificOutput" in expected:
        assert inner["hookEventName"] == expected["hookSpecificOutput"]["hookEventName"]


# Delivered means read by the model


def test_a_briefing_that_no_hook_wrote_comes_with_the_next_prompt_once(program: Program):
    assert program.report("session-start", confirmed=[])["text"].startswith("You are the agent ")
    assert program.prompt().startswith("You are the agent ")
    assert program.prompt() == ""


def test_a_message_that_no_hook_wrote_comes_with_the_next_event_once(program: Program, api: httpx.Client):
    name = name_in(program.start())
    Thread(api).post(f"@{name} the lighthouse is dark")
    lost = [program.report(event, confirmed=[])["text"] for event in ("prompt", "stop", "prompt")]
    assert all("the lighthouse is dark" in text for text in lost)
    assert "the lighthouse is dark" in program.stop()
    assert [program.stop(), program.prompt()] == ["", ""]


@contextmanager
def without_confirmations(server: Server) -> Iterator[str]:
    """The address of a server that passes every hook on, and loses the confirmations."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path != "/api/hooks/confirm":
                with server.client() as api:
                    answer = api.post(self.path, content=body, headers={"content-type": "application/json"})
                self.send_response(answer.status_code)
                self.end_headers()
                self.wfile.write(answer.content)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as between:
        threading.Thread(target=between.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{between.server_port}"
        between.shutdown()


def test_what_was_written_is_not_repeated_if_the_confirmation_was_lost(program: Program, api: httpx.Client):
    with without_confirmations(program.server) as url:
        env = {"PALAVER_URL": url}
        name = name_in(program.hook("session-start", env)["hookSpecificOutput"]["additionalContext"])
        assert program.hook("prompt", env) == {}
        Thread(api).post(f"@{name} the lighthouse is dark")
        assert "the lighthouse is dark" in program.hook("stop", env)["reason"]
        assert [program.hook("stop", env), program.hook("prompt", env)] == [{}, {}]


def test_a_client_that_never_confirms_is_not_kept_at_work_for_ever(program: Program, api: httpx.Client):
    name = name_in(program.start())
    Thread(api).post(f"@{name} wait")
    answers = [program.report("stop")["text"] for _ in range(8)]
    assert answers[0]
    assert answers[-3:] == ["", "", ""]


def test_a_delivery_is_confirmed_by_its_own_session_only(program: Program, place: Server):
    delivery = program.report("session-start", confirmed=[])["delivery"]
    other = Program(place, program.project)
    other.report("confirm", confirmed=[delivery])
    assert program.report("prompt", confirmed=[])["text"] != ""
    program.report("confirm", confirmed=[delivery])
    assert program.report("prompt", confirmed=[])["text"] == ""


def test_eight_messages_at_a_stop_arrive_as_eight(program: Program, api: httpx.Client):
    name = name_in(program.start())
    for number in range(8):
        Thread(api).post(f"@{name} job-{number} " + "and a long text that says much about it " * 40)
    text = program.stop()
    assert all(f"job-{number} " in text for number in range(8))
    assert "Read cut texts with msg_list." in text
    assert program.stop() == ""


def test_messages_without_room_come_next_time_and_each_once(program: Program, api: httpx.Client):
    name = name_in(program.start())
    for number in range(50):
        Thread(api, f"{word()} 消息搜索").post(f"@{name} job-{number}, 消息搜索消息搜索 " * 9)
    texts = [program.stop() for _ in range(12)]
    assert [sum(f"job-{number}," in text for text in texts) for number in range(50)] == [1] * 50
    assert texts[-1] == ""


def test_messages_without_room_in_the_briefing_come_with_the_prompts(program: Program, api: httpx.Client):
    name = name_in(program.start())
    program.hook("session-end")
    for number in range(20):
        Thread(api).post(f"@{name} job-{number}, " + "a long text that says much about it " * 10)
    texts = [program.start(), program.prompt(), program.prompt(), program.prompt()]
    assert [sum(f"job-{number}," in text for text in texts) for number in range(20)] == [1] * 20


def test_two_sessions_of_one_agent_share_its_messages(program: Program, place: Server, api: httpx.Client):
    name = word("bob")
    made = api.post("/api/tokens", json={"kind": "agent", "name": name, "scopes": ["read", "write"]}).json()
    env = {"PALAVER_URL": place.url, "PALAVER_TOKEN": made["secret"]}
    other = Program(place, program.project)
    for one in (program, other):
        assert one.hook("session-start", env)
    Thread(api).post(f"@{name} only one of you")
    assert "only one of you" in program.hook("stop", env)["reason"]
    assert other.hook("stop", env) == {}


def test_cursor_gets_at_a_stop_what_it_could_not_be_shown_at_a_prompt(place: Server, tmp_path: Path, api: httpx.Client):
    cursor = Program(place, tmp_path, "cursor")
    name = name_in(cursor.hook("session-start")["additional_context"])
    Thread(api).post(f"@{name} the lighthouse is dark")
    assert cursor.hook("prompt") == {}
    assert "the lighthouse is dark" in cursor.hook("stop")["followup_message"]
    assert cursor.hook("stop") == {}


# Handled messages do not return


@pytest.mark.examples(2)
@pytest.mark.parametrize("how", ["answered", "reacted", "read", "shown at a stop", "shown at a start"])
def test_a_handled_message_does_not_return(program: Program, place: Server, api: httpx.Client, how: str):
    briefing = program.start()
    name, credentials = name_in(briefing), credentials_in(briefing)
    client = Stateless(api, "claude-code", path=f"/mcp?tools=all&project={program.project}")
    thread = Thread(api)
    client.call("bus_connect", thread_name=thread.topic, **credentials)
    if how == "shown at a start":
        program.hook("session-end")
    message = thread.post(f"@{name} which lighthouse is dark?")
    if how == "answered":
        answer = {"content": "the small one", "reply_to_msg_id": message["id"]}
        client.call("msg_post", thread_id=thread.id, **answer, **credentials)
    elif how == "reacted":
        client.call("msg_react", message_id=message["id"], reaction="agree", **credentials)
    elif how == "read":
        client.call("msg_list", thread_id=thread.id, **credentials)
    elif how == "shown at a stop":
        assert "which lighthouse is dark" in program.stop()
        assert program.stop() == ""
    else:
        assert "which lighthouse is dark" in program.start(source="resume")
        assert program.prompt() == ""
    texts = [program.prompt(), program.stop(), *(program.start(source=one) for one in ("resume", "compact", "clear"))]
    program.hook("session-end")
    texts.append(Program(place, program.project).start(source="startup"))
    assert name_in(texts[-1]) == name
    assert not any("lighthouse" in text for text in texts)


def test_a_message_in_a_context_comes_again_only_when_the_context_is_gone(program: Program, api: httpx.Client):
    name = name_in(program.start())
    Thread(api).post(f"@{name} the lighthouse is dark")
    assert "the lighthouse is dark" in program.prompt()
    assert "the lighthouse is dark" not in program.start(source="resume")
    assert "the lighthouse is dark" in program.start(source="compact")
    assert "the lighthouse is dark" not in program.start(source="resume")


# Credentials


def test_a_session_has_one_token_and_is_told_again_only_when_its_context_is_gone(program: Program):
    told = credentials_in(program.start(source="startup"))
    assert told
    assert credentials_in(program.start(source="resume")) == {}
    assert [credentials_in(program.start(source=source)) for source in ("compact", "clear", "compact")] == [told] * 3
    program.hook("session-end")
    assert credentials_in(program.start(source="resume")) == {}


def test_the_token_of_a_compacted_session_is_still_valid(program: Program, api: httpx.Client):
    program.start()
    credentials = credentials_in(program.start(source="compact"))
    thread = Thread(api)
    posted = Stateless(api, "claude-code").call("msg_post", thread_id=thread.id, content="hello", **credentials)
    assert posted["seq"] == 1


def test_sessions_have_different_tokens(program: Program, place: Server):
    first = credentials_in(program.start())
    program.hook("session-end")
    second = credentials_in(Program(place, program.project).start())
    assert first["agent_id"] == second["agent_id"]
    assert first["token"] != second["token"]


def test_a_program_without_a_start_after_compaction_gets_its_briefing_with_the_next_prompt(program: Program):
    program.client = "gemini-cli"
    told = credentials_in(program.start())
    program.hook("pre-compact", trigger="auto")
    assert program.prompt() == "", "it tells this at each turn"
    program.hook("pre-compact", trigger="manual")
    assert credentials_in(program.prompt()) == told
    assert program.prompt() == ""
    assert credentials_in(program.start(source="resume")) == told, "it does not keep them in a resumed session"


# Many at once


@pytest.mark.thorough
def test_sixteen_sessions_that_start_at_once_on_a_busy_machine_are_each_briefed_once(place: Server, tmp_path: Path):
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(16)]
    try:
        programs = [Program(place, tmp_path, "codex") for _ in range(16)]

        def begin(program: Program) -> int:
            given = json.dumps({"session_id": program.session, "cwd": str(tmp_path)})
            usual = {key: value for key, value in place.env.items() if key != "PALAVER_HOOK_SECONDS"}
            command = [sys.executable, "-m", "palaver", "hook", "session-start", "--client", "codex"]
            done = subprocess.run(command, input=given, env=usual, capture_output=True, text=True, timeout=PATIENCE)
            return done.stdout.count("You are the agent")

        with ThreadPoolExecutor(16) as pool:
            at_start = list(pool.map(begin, programs))
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    later = [program.prompt().count("You are the agent") for program in programs]
    assert [sum(counts) for counts in zip(at_start, later, strict=True)] == [1] * 16
    assert [program.prompt() for program in programs] == [""] * 16


# Nothing disturbs the client


@pytest.mark.parametrize(
    "given",
    [
        "",
        "not json",
        "[]",
        "null",
        '{"session_id": 5}',
        '{"cwd": ["x"]}',
        "{" * 100_000,
        b"\xff\xfe\x00",
        '{"prompt": "\\ud800"}',
    ],
)
@pytest.mark.parametrize("event", ["session-start", "prompt", "stop", "session-end", "unknown"])
def test_malformed_input_is_answered_with_exit_0_and_no_error(place: Server, given: str | bytes, event: str):
    done = run_hook([event], given, place.env)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "" or json.loads(done.stdout)


def test_a_server_that_is_down_is_silence_and_doctor_tells(tmp_path: Path):
    env = environment(tmp_path, PALAVER_URL="http://127.0.0.1:9")
    done = run_hook(["session-start"], "{}", env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert "No palaver server answers" in json.loads((tmp_path / "hook-problem.json").read_text())["problem"]
    assert "hooks: last problem" in started(tmp_path, "doctor").stdout


@pytest.mark.parametrize("behaviour", ["silent", "garbage", "closes"])
def test_a_broken_server_is_given_up_soon(tmp_path: Path, behaviour: str):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        held = []

        def serve() -> None:
            connection, _ = listener.accept()
            held.append(connection)
            if behaviour == "garbage":
                connection.sendall(b"SSH-2.0-hello\r\n" * 1000)
            if behaviour != "silent":
                connection.close()

        threading.Thread(target=serve, daemon=True).start()
        env = environment(tmp_path, PALAVER_URL=f"http://127.0.0.1:{listener.getsockname()[1]}")
        done = subprocess.run(
            [sys.executable, "-m", "palaver", "hook", "prompt"], input="{}", env=env, capture_output=True, text=True, timeout=PATIENCE
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_input_that_is_left_open_does_not_hang_the_hook(place: Server, tmp_path: Path):
    read, write = os.pipe()
    os.write(write, json.dumps({"session_id": word(), "cwd": str(tmp_path)}).encode())
    command = [sys.executable, "-m", "palaver", "hook", "session-start"]
    done = subprocess.run(command, stdin=read, env=place.env | PLENTY, capture_output=True, text=True, timeout=PATIENCE)
    os.close(read)
    os.close(write)
    assert "You are the agent" in done.stdout


def test_the_data_directory_can_be_an_option(place: Server, tmp_path: Path):
    env = environment(tmp_path / "another")
    given = json.dumps({"session_id": word(), "cwd": str(tmp_path)})
    assert "You are the agent" in run_hook(["session-start", "--home", str(place.home)], given, env).stdout


def test_cursor_that_runs_the_hooks_of_claude_code_gets_nothing_twice(program: Program, place: Server):
    given = json.dumps({"session_id": program.session, "cwd": str(program.project)})
    inside = place.env | {"CURSOR_VERSION": "3.0"}
    assert run_hook(["session-start", "--client", "claude-code"], given, inside).stdout == ""
    assert "additional_context" in run_hook(["session-start", "--client", "cursor"], given, inside).stdout


def test_a_home_that_is_missing_does_not_matter(tmp_path: Path):
    env = environment(tmp_path / "nowhere", PALAVER_URL="http://127.0.0.1:9")
    env.pop("HOME", None)
    done = run_hook(["stop"], "{}", env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_it_imports_neither_the_server_nor_the_command_line():
    code = (
        "import sys; sys.argv = ['palaver', 'hook', '--help']\n"
        "import palaver.__main__ as m\n"
        "try: m.main()\nexcept SystemExit: pass\n"
        "heavy = {'click', 'pydantic', 'starlette', 'http.client', 'asyncio', 'subprocess', 'pathlib', 'urllib.parse'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], env=environment(Path("/nonexistent")), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "Usage: palaver hook" in done.stdout


# With tokens


def test_with_a_token_the_agent_is_that_of_the_token(engine: Engine, tmp_path: Path):
    with start_server(tmp_path / "home", PALAVER_DATABASE_URL=engine.fresh(), PALAVER_AUTH="token") as server:
        made = started_with(server.env, "token", "create", "--agent", "bob", "--json")
        token = json.loads(made.stdout)["token"]
        given = json.dumps({"session_id": "s", "cwd": str(tmp_path)})
        (tmp_path / "home" / "connection.json").write_text(json.dumps({"url": server.url, "token": token}))
        done = run_hook(["session-start"], given, server.env)
        text = json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]
        assert text.startswith("You are the agent bob in palaver.")
        assert "token" not in text
        (tmp_path / "home" / "connection.json").unlink()
        assert run_hook(["session-start"], given, server.env).stdout == ""
        problem = json.loads((tmp_path / "home" / "hook-problem.json").read_text())["problem"]
        assert "refused the token" in problem
