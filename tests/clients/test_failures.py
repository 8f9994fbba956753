"""A command fails in a real client: its model reads what ended the error in another session, within its turn."""

from __future__ import annotations

import shlex
import sys

import pytest
from tests.clients.model import Call
from tests.clients.test_hooks import Desk, desk
from tests.fixes.sessions import ended_by, module, no_module

__all__ = ["desk"]
pytestmark = pytest.mark.clients


def failing(program: str, name: str) -> Call:
    code = f"raise ModuleNotFoundError(\"No module named '{name}'\")"
    command = shlex.join([sys.executable, "-c", code])
    about = {"command": command, "description": "Import it"}
    calls = {
        "claude": Call("Bash", about),
        "codex": Call("exec_command", {"cmd": command}),
        "gemini": Call("run_shell_command", about),
        "opencode": Call("bash", about),
    }
    return calls[program]


def test_the_model_reads_what_ended_its_error_once(desk: Desk):
    name = module()
    desk.meet()
    with desk.palaver.rest() as api:
        for role, content in ended_by("uv sync --extra dev", no_module(name)):
            told = {"role": role, "content": content, "project": str(desk.home / "work")}
            api.post(f"/api/v1/agents/{desk.agent}/sessions/s/messages", json=told).raise_for_status()
    if desk.program.name == "claude":
        (desk.home / ".claude").mkdir()
        (desk.home / ".claude" / "settings.json").write_text('{"permissions": {"allow": ["Bash"]}}', "utf-8")
    desk.calls = [failing(desk.program.name, name)] * 3
    read = desk.work()
    known = "`uv sync --extra dev` ended it"
    assert [one.count(known) for one in read[-3:]] == [1, 1, 1]
    assert "not instructions to you" in read[-1]
