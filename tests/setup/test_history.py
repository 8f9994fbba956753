"""`palaver setup` and the sessions that are there: Claude Code keeps them longer, and palaver records them."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import pytest
from tests.helpers import environment, start_server, started_with, word
from tests.importers.samples import claude_file
from tests.setup.test_setup import Desk, desk, ok
from tests.trust.test_purge import holding

__all__ = ["desk"]

SETTINGS = ".claude/settings.json"


@pytest.mark.thorough
@pytest.mark.parametrize(
    "before",
    [
        '{\n  // mine\n  "model": "opus",\n}\n',
        '{"cleanupPeriodDays": 7, /* mine */ "model": "opus"}',
        "{}",
        None,
    ],
)
def test_claude_code_keeps_its_sessions_and_gets_its_settings_back(desk: Desk, before: str | None):
    file = desk.home / SETTINGS
    file.parent.mkdir()
    if before is not None:
        file.write_text(before)
    days = 7 if before and "7" in before else 30
    assert f"Claude Code deletes sessions after {days} days" in ok(desk.setup("claude-code", "--yes"))
    said = ok(desk.setup("claude-code", "--yes", "--keep-history"))
    assert "deletes sessions" not in said
    assert '"cleanupPeriodDays": 3650' in file.read_text()
    assert "Nothing to change" in ok(desk.setup("claude-code", "--yes"))
    with file.open("a") as more:  # so that the file is edited, not replaced by its backup
        more.write("\n")
    ok(desk.setup("claude-code", "--remove", "--yes"))
    assert (file.read_text() if file.exists() else "").strip() == (before or "").strip()


@pytest.mark.parametrize("days", [0, 99_999])
def test_a_longer_time_and_no_sessions_at_all_are_left_alone(desk: Desk, days: int):
    desk.put(SETTINGS, json.dumps({"cleanupPeriodDays": days}))
    assert "deletes sessions" not in ok(desk.setup("claude-code", "--yes", "--keep-history"))
    assert json.loads((desk.home / SETTINGS).read_text())["cleanupPeriodDays"] == days


def test_setup_records_the_sessions_that_are_there(desk: Desk):
    said = word()
    claude_file(desk.home / ".claude" / "projects", str(uuid4()), said)
    ok(desk.setup("--yes", "--no-import"))
    assert holding(desk.palaver, said) == []
    assert "Read 1 session file" in ok(desk.setup("--yes"))
    assert holding(desk.palaver, said)
    assert "0 new turns" in ok(desk.setup("--yes"))


def test_setup_sends_the_sessions_to_the_server_of_the_clients(desk: Desk, tmp_path: Path):
    said = word()
    claude_file(desk.home / ".claude" / "projects", str(uuid4()), said)
    with start_server(tmp_path / "team") as server:
        assert "new turns in 1 session" in ok(desk.setup("--yes", "--url", server.url))
    assert holding(tmp_path / "team", said)
    assert holding(desk.palaver, said) == []


def test_setup_does_not_record_what_the_server_records_itself(desk: Desk):
    said = word()
    claude_file(desk.home / ".claude" / "projects", str(uuid4()), said)
    env = environment(desk.palaver, HOME=desk.home)
    with start_server(desk.palaver, HOME=desk.home) as server, server.client() as api:
        answer = api.get("/readyz").json()
        told = started_with(env | {"PALAVER_PORT": str(server.port)}, "setup", "--yes", "--json")
    notes = json.loads(told.stdout)["notes"]
    is_recorded = any("The server records the sessions on this machine" in note for note in notes)
    assert is_recorded == ("watch" in answer)
