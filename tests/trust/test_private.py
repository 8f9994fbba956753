"""Kept out: private folders, projects and parts leave no word in what palaver stores."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from tests.doors.test_cli import Terminal
from tests.helpers import Mcp, Server, start_server, word
from tests.importers.samples import answered, jsonl, text, tool_use, typed
from tests.trust.test_purge import holding

QUIET = {"CLAUDE_CONFIG_DIR": "", "CODEX_HOME": ""}


class Machine:
    """A person's machine: a home, a project, and sessions of Claude Code in it."""

    def __init__(self, place: Path) -> None:
        self.home, self.data = place / "home", place / "home" / "palaver"
        self.project = place / "work" / "diary"
        self.project.mkdir(parents=True)
        self.terminal = Terminal(self.data)

    def says(self, *texts: str, cwd: Path | None = None) -> Path:
        session = str(uuid4())
        place = self.home / ".claude" / "projects" / "-work-diary" / f"{session}.jsonl"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(jsonl(*(typed(one, session, cwd=str(cwd or self.project)) for one in texts)))
        return place

    def records(self) -> str:
        return self.terminal.ok("watch", "--once", HOME=str(self.home), **QUIET)

    def has(self, *words: str) -> bool:
        return bool(holding(self.data, *words))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_folder_with_the_file_is_not_recorded_and_not_imported(machine: Machine):
    secret = word()
    (machine.project.parent / ".palaver-private").touch()
    place = machine.says(f"dear diary {secret}")
    assert "private" in machine.records()
    assert "private" in machine.terminal.run("import", str(place)).output
    assert not machine.has(secret)


def test_a_place_on_the_list_is_not_recorded_until_it_is_removed(machine: Machine):
    first, second, third = word(), word(), word()
    place = machine.says(f"dear diary {first}")
    machine.records()
    assert machine.has(first)
    machine.terminal.ok("privacy", "add", str(machine.project))
    assert str(machine.project) in machine.terminal.ok("privacy")
    with place.open("ab") as file:
        file.write(jsonl(typed(second, place.stem, cwd=str(machine.project))))
    machine.records()
    assert not machine.has(second), "a session that was recorded before the rule"
    machine.terminal.ok("privacy", "remove", str(machine.project))
    with place.open("ab") as file:
        file.write(jsonl(typed(third, place.stem, cwd=str(machine.project))))
    machine.records()
    assert machine.has(third)
    assert not machine.has(second)


def test_the_setting_and_the_name_of_a_project_keep_it_out(machine: Machine):
    secret = word()
    machine.data.mkdir(parents=True)
    (machine.data / "palaver.toml").write_text('private = ["diary"]\n')
    machine.says(f"dear {secret}")
    machine.records()
    assert not machine.has(secret)
    assert "diary" in machine.terminal.ok("privacy")
    assert machine.terminal.run("privacy", "remove", "nothing").exit_code == 3


def test_private_parts_of_a_session_are_stored_nowhere(machine: Machine):
    secret, kept = word(), word()
    call = tool_use("Bash", command=f"echo <private>{secret}</private>")
    place = machine.says(f"{kept} <private>{secret}</private> after", f"open <Private>\n{secret}")
    with place.open("ab") as file:
        file.write(jsonl(answered(text(f"so <private>{secret}"), call, session=place.stem)))
    machine.records()
    machine.terminal.ok("import", str(place))
    assert not machine.has(secret)
    assert machine.has(f"{kept} [private] after")
    assert machine.has("echo [private]")


def test_no_door_stores_a_private_part(server: Server, api: httpx.Client, mcp: Mcp):
    secret, session = word(), word("s")
    turn = {"role": "user", "content": f"a <private>{secret}</private> b"}
    told = api.post(f"/api/v1/agents/door/sessions/{session}/messages", json=turn)
    assert (told.status_code, told.json()["content"]) == (201, "a [private] b")
    merged = {"turns": [turn | {"id": "t1", "ts": "2026-01-01T00:00:00Z"}], "replace": True}
    for added in (1, 0):
        answer = api.put(f"/api/v1/agents/door/sessions/{session}-2/messages", json=merged)
        assert answer.json() == {"added": added, "changed": 0, "removed": 0}
    mcp.call("bus_connect", thread_name=word("thread"))
    assert mcp.call("session_append", session_id=session, **turn)["content"] == "a [private] b"
    assert holding(server.home, secret) == []


def test_recording_over_the_doors_refuses_a_private_project(tmp_path: Path):
    project, secret = tmp_path / "diary", word()
    project.mkdir()
    (project / ".palaver-private").touch()
    with start_server(tmp_path / "home") as server, server.client() as api:
        turn = {"role": "user", "content": secret, "project": str(project)}
        told = api.post("/api/v1/agents/door/sessions/s1/messages", json=turn)
        assert told.status_code == 400
        assert "kept out" in told.text
        merged = {"turns": [turn | {"id": "t1", "ts": "2026-01-01T00:00:00Z"}]}
        answer = api.put("/api/v1/agents/door/sessions/s2/messages", json=merged)
        assert answer.json()["added"] == 0
        mcp = Mcp(api)
        mcp.call("bus_connect", thread_name="t")
        assert "kept out" in str(mcp.refused("session_append", session_id="s3", **turn))
        hooked = {"client": "claude-code", "session": "x", "project": str(project), "prompt": secret}
        assert api.post("/api/hooks/prompt", json=hooked).status_code == 200
        api.post("/api/threads", json={"topic": "hello"})
    assert holding(tmp_path / "home", secret) == []
