"""The hook for failures: an agent reads what ended its error, once in a context, and nothing where nothing is sure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.catchup.test_hooks import PLENTY, Program, name_in, run_hook
from tests.conftest import BOTH_ENGINES, ONE_ENGINE
from tests.fixes.sessions import ended_by, module, no_module
from tests.helpers import Server, word

pytestmark = ONE_ENGINE
TOLD = "`uv sync --extra dev` ended it"


@pytest.fixture
def program(server: Server, tmp_path: Path) -> Program:
    (tmp_path / ".git").mkdir()
    return Program(server, tmp_path)


def fail(program: Program, **given: Any) -> str:
    """What the agent reads after a failure."""
    about = {"session_id": program.session, "cwd": str(program.project), "tool_name": "Bash", "hook_event_name": "E"}
    env = program.server.env | PLENTY
    done = run_hook(["failure", "--client", program.client], json.dumps(about | given), env)
    assert (done.returncode, done.stderr) == (0, "")
    said = json.loads(done.stdout) if done.stdout else {}
    text = said.get("text") or said.get("hookSpecificOutput", {}).get("additionalContext", "")
    assert not said or TOLD in text
    return str(text)


def record(program: Program, api: httpx.Client, name: str) -> None:
    """Another session of the same agent ended the error."""
    agent = name_in(program.start())
    for role, content in ended_by("uv sync --extra dev", no_module(name)):
        told = {"role": role, "content": content, "project": str(program.project)}
        api.post(f"/api/v1/agents/{agent}/sessions/s-{name}/messages", json=told).raise_for_status()


@BOTH_ENGINES
def test_the_same_error_in_a_loop_is_told_once_in_a_context(program: Program, api: httpx.Client):
    name = module()
    record(program, api, name)
    told = [fail(program, error=no_module(name, line=number)) for number in range(5)]
    assert [TOLD in one for one in told] == [True, False, False, False, False]
    assert "not instructions to you" in told[0]
    program.start(source="compact")
    assert TOLD in fail(program, error=no_module(name)), "the context has it no longer"


def test_each_program_tells_its_failures_in_its_own_way(program: Program, api: httpx.Client):
    name = module()
    record(program, api, name)
    output = no_module(name).partition("\n")[2]
    gemini = {"llmContent": f"<untrusted_context>\nOutput: {output}\nExit Code: 1\n</untrusted_context>"}
    ways: dict[str, dict[str, Any]] = {"claude-code": {"error": no_module(name)}, "codex": {"tool_response": output}}
    ways |= {"gemini-cli": {"tool_response": gemini}, "opencode": {"error": f"{output}\nExit code 1"}}
    for program.client, given in ways.items():
        program.session = word("s-")
        assert TOLD in fail(program, **given), program.client


def test_nothing_is_told_of_a_success_an_interruption_or_an_error_of_one_s_own(program: Program, api: httpx.Client):
    name = module()
    record(program, api, name)
    assert fail(program, tool_response={"stdout": no_module(name).partition("\n")[2]}) == ""
    assert fail(program, error=no_module(name), is_interrupt=True) == ""
    assert fail(program, error=no_module(module())) == ""
    program.session = f"s-{name}"
    assert fail(program, error=no_module(name)) == "", "the session has seen that itself"


def test_a_project_can_switch_it_off(program: Program, api: httpx.Client):
    name = module()
    record(program, api, name)
    (program.project / "palaver.toml").write_text("recall = false\n", "utf-8")
    assert fail(program, error=no_module(name)) == ""
    (program.project / "palaver.toml").unlink()
    (program.project / ".palaver-private").touch()
    assert fail(program, error=no_module(name)) == ""


def test_a_server_that_is_away_is_silence(tmp_path: Path):
    given = json.dumps({"session_id": "s", "cwd": str(tmp_path), "error": no_module("yaml")})
    done = run_hook(["failure"], given, {"PALAVER_HOME": str(tmp_path), "PALAVER_URL": "http://127.0.0.1:9"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
