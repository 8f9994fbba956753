"""Permission requests: a coding agent's hook asks, and only a person's yes to this very request allows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.catchup.test_hooks import PLENTY, Program, run_hook
from tests.conftest import BOTH_ENGINES, ONE_ENGINE
from tests.helpers import Mcp, Server, eventually, word

from palaver.operations.catchup.permission_requests import command_of

pytestmark = ONE_ENGINE

Question = dict[str, Any]


@pytest.fixture
def program(server: Server, tmp_path: Path) -> Program:
    (tmp_path / ".git").mkdir()
    return Program(server, tmp_path)


@contextmanager
def asking(program: Program, command: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    """The hook of a program that wants to run a command, at work."""
    given = {"session_id": program.session, "cwd": str(program.project), "tool_name": "Bash"}
    hook = subprocess.Popen(
        [sys.executable, "-m", "palaver", "hook", "permission", "--client", program.client],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=program.server.env | PLENTY | env,
        text=True,
    )
    with hook:
        assert hook.stdin
        hook.stdin.write(json.dumps(given | {"tool_input": {"command": command, "description": "List"}}))
        hook.stdin.close()
        yield hook
        hook.kill()


def inbox(api: httpx.Client, command: str, state: str = "open") -> list[Question]:
    found = api.get("/api/questions", params={"state": state, "limit": 200}).json()["questions"]
    return [one for one in found if (one["permission"] or {}).get("command") == command]


def asked(api: httpx.Client, command: str) -> Question:
    eventually(lambda: bool(inbox(api, command)))
    (question,) = inbox(api, command)
    return question


def answer(api: httpx.Client, question: Question, text: str, **more: str) -> httpx.Response:
    return api.post(f"/api/questions/{question['question_id']}/answer", json={"answer": text, **more})


# Both engines


@BOTH_ENGINES
def test_the_exact_command_is_in_the_inbox_and_a_no_tells_why(api: httpx.Client, program: Program):
    command = f"rm -rf \u202e{word()}\nls"
    with asking(program, command) as hook:
        question = asked(api, command)
        about = {"program": "claude-code", "tool": "Bash", "command": command, "folder": str(program.project)}
        assert (question["permission"], question["choices"]) == (about, ["yes", "no"])
        answer(api, question, "no", note="not on Friday", author="ann").raise_for_status()
        assert hook.stdout
        said = json.loads(hook.stdout.read())
    decision = {"behavior": "deny", "message": "ann said no in palaver: not on Friday"}
    assert said == {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}


@pytest.mark.parametrize("client", ["claude-code", "codex", "opencode"])
def test_a_yes_allows_this_request_once(api: httpx.Client, program: Program, client: str):
    program.client, command = client, word("ls ")
    with asking(program, command) as hook:
        answer(api, asked(api, command), "yes", author="ann").raise_for_status()
        assert hook.stdout
        said = json.loads(hook.stdout.read())
    if client == "opencode":
        assert said == {"decision": "allow", "reason": "ann said yes in palaver."}
    else:
        assert said["hookSpecificOutput"]["decision"] == {"behavior": "allow"}
    with asking(program, command) as hook:
        assert [one["answer"] for one in asked(api, command)["earlier"]] == ["yes"]
        assert hook.poll() is None, "the next request is asked again"


def test_without_an_answer_nothing_is_said_and_the_program_asks(api: httpx.Client, program: Program):
    command = word("ls ")
    with asking(program, command, PALAVER_HOOK_SECONDS="1") as hook:
        assert hook.stdout
        assert hook.stdout.read() == ""
        assert hook.wait() == 0
    (question,) = inbox(api, command, "expired")
    assert answer(api, question, "yes").status_code == 409


@BOTH_ENGINES
def test_a_request_ends_when_the_program_kills_its_hook(api: httpx.Client, program: Program):
    command = word("ls ")
    with asking(program, command) as hook:
        question = asked(api, command)
        hook.kill()
        eventually(lambda: not inbox(api, command))
    assert answer(api, question, "yes").status_code == 409


def test_a_request_ends_when_it_is_answered_at_the_prompt_of_claude_code(
    api: httpx.Client, program: Program, tmp_path: Path
):
    command, status = word("ls "), tmp_path / "claude" / "sessions" / "4711.json"
    status.parent.mkdir(parents=True)
    status.write_text(json.dumps({"sessionId": program.session, "status": "waiting"}), "utf-8")
    with asking(program, command, CLAUDE_CONFIG_DIR=str(tmp_path / "claude")) as hook:
        asked(api, command)
        status.write_text(json.dumps({"sessionId": program.session, "status": "busy"}), "utf-8")
        assert hook.stdout
        assert hook.stdout.read() == ""
        assert hook.wait() == 0
    eventually(lambda: not inbox(api, command))


def test_other_agents_do_not_read_the_command(api: httpx.Client, mcp: Mcp, program: Program):
    command = word("ls ")
    with asking(program, command) as hook:
        question = asked(api, command)
        mcp.call("bus_connect", thread_name="Permission requests")
        listed = json.dumps(mcp.call("msg_list", thread_id=question["thread_id"]))
        assert command not in listed
        assert "human-only content hidden" in listed
        assert hook.poll() is None


@pytest.mark.parametrize("command", ["x" * 20_001, "a\0b", f"login ghp_{'a' * 36}"], ids=["long", "NUL", "secret"])
def test_what_cannot_be_shown_exactly_or_is_secret_is_not_asked(api: httpx.Client, program: Program, command: str):
    with asking(program, command) as hook:
        assert hook.stdout
        assert hook.stdout.read() == ""
        assert hook.wait() == 0
    assert inbox(api, command, "all") == []


def test_a_private_project_is_not_asked_about(api: httpx.Client, program: Program):
    (program.project / "palaver.toml").write_text("private = true\n", "utf-8")
    command = word("ls ")
    given = {"session_id": program.session, "cwd": str(program.project), "tool_name": "Bash"}
    done = run_hook(["permission"], json.dumps(given | {"tool_input": {"command": command}}), program.server.env)
    assert (done.stdout, done.returncode) == ("", 0)
    assert inbox(api, command, "all") == []


def test_the_arguments_of_other_tools_are_shown_one_by_one():
    given = {"content": "one\nfile_path: /safe", "file_path": "/etc/passwd", "mode": [1]}
    assert command_of(given) == "content: one\n    file_path: /safe\nfile_path: /etc/passwd\nmode: [1]"
    assert command_of({"command": "ls", "timeout": 5}) == "command: ls\ntimeout: 5"
