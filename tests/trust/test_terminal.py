"""The terminal's part: people, the audit log, the doctor; and what others on the machine can read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import apsw
import pytest
from tests.doors.test_cli import Terminal, terminal
from tests.helpers import Thread, start_server

__all__ = ["terminal"]


def test_a_person_is_added_listed_and_removed_with_all_their_tokens(terminal: Terminal):
    terminal.ok("workspace", "create", "team")
    secrets = [terminal.ok("user", "add", "ann", "--workspace", "team").strip() for _ in range(2)]
    terminal.ok("user", "add", "ann", "--scope", "read")
    assert [(u["name"], u["workspace"], u["scopes"], u["tokens"]) for u in terminal.json("user", "list")] == [
        ("ann", "default", ["read"], 1),
        ("ann", "team", ["read", "write"], 2),
    ]
    terminal.ok("status", PALAVER_TOKEN=secrets[0])
    terminal.ok("user", "remove", "ann", "--workspace", "team")
    for secret in secrets:
        assert terminal.run("status", PALAVER_TOKEN=secret).exit_code == 4
    assert [u["workspace"] for u in terminal.json("user", "list")] == ["default"]
    assert terminal.run("user", "remove", "ann", "--workspace", "team").exit_code == 3


def test_the_audit_log_is_shown_and_verified(terminal: Terminal):
    terminal.ok("thread", "create", "plans")
    terminal.ok("thread", "delete", "plans")
    terminal.ok("user", "add", "ann")
    kinds = [entry["kind"] for entry in terminal.json("audit")]
    assert kinds == ["token", "deletion"]
    assert [entry["what"] for entry in terminal.json("audit", "--kind", "deletion")] == ["delete_thread"]
    newest = terminal.json("audit", "--limit", "1")[0]
    assert terminal.json("audit", "--verify") == {"is_whole": True, "id": newest["id"], "hash": newest["hash"]}


def test_the_doctor_sees_an_audit_log_that_was_rewritten(terminal: Terminal):
    terminal.ok("user", "add", "ann")
    assert "✓ server database: opens; the audit log is intact" in terminal.ok("doctor")
    database = apsw.Connection(str(terminal.home / "house.db"))
    database.execute("DROP TRIGGER audit_is_not_changed; UPDATE audit SET who = 'nobody'")
    database.close()
    for command in (("doctor",), ("audit", "--verify")):
        result = terminal.run(*command)
        assert result.exit_code == 1
        assert "entry 1 of the audit log was changed" in result.output


@pytest.mark.skipif(os.name != "posix", reason="rights are of another kind there")
def test_nobody_else_on_the_machine_can_read_anything(tmp_path: Path):
    old = os.umask(0o022)
    try:
        home = tmp_path / "deep" / "home"
        with start_server(tmp_path / "log", PALAVER_HOME=home) as server, server.client() as api:
            thread = Thread(api)
            thread.post("hello")
            api.post("/api/upload/image", files={"file": ("a.png", b"\x89PNG\r\n\x1a\n")})
            turn = {"role": "user", "content": "hello"}
            assert api.post("/api/v1/agents/robo/sessions/s/messages", json=turn).status_code == 201
            loose = [
                f"{path.relative_to(home)} {stat.filemode(path.stat().st_mode)}"
                for path in (home, *home.rglob("*"))
                if path.stat().st_mode & 0o077
            ]
            names = {path.name for path in home.rglob("*")}
    finally:
        os.umask(old)
    assert loose == []
    assert {"house.db", "default.db", "default.db-wal", "uploads", "sessions"} <= names


def test_a_token_from_the_terminal_is_not_written_anywhere(terminal: Terminal):
    secret = terminal.ok("token", "create").strip()
    for path in terminal.home.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes()
