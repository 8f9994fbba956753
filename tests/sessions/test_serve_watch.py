"""`palaver serve` records sessions on this machine, and a watch that fails never stops it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.helpers import NO_TLS, PATIENCE, environment, eventually, free_port, palaver_command, started, word
from tests.importers.samples import TURNS_A_WORD, claude_file, claude_session

SESSION = "11111111-2222-3333-4444-555555555555"


@contextmanager
def serving(home: Path, *options: str, before: str = "", **more: str) -> Iterator[httpx.Client]:
    port = free_port()
    usual = {"HOME": str(home), "CLAUDE_CONFIG_DIR": "", "CODEX_HOME": "", "PALAVER_PORT": str(port)}
    env = environment(home / "palaver", **(usual | more))
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            palaver_command("serve", *options, before=before),
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    api = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE, verify=NO_TLS)
    try:
        eventually(lambda: ready(api))
        yield api
    finally:
        api.close()
        process.terminate()
        assert process.wait(PATIENCE) == 0


def ready(api: httpx.Client) -> dict[str, Any]:
    try:
        return dict(api.get("/readyz").json())
    except httpx.TransportError:
        return {}


def found(api: httpx.Client, wanted: str) -> int:
    answer = api.post("/api/v1/conversations/search/all", json={"query": wanted, "limit": 100})
    return int(answer.json()["count"])


def test_a_server_records_what_is_there_and_what_comes(tmp_path: Path):
    ivy, oak = word(), word()
    path = claude_file(tmp_path / ".claude" / "projects" / "p", SESSION, ivy)
    with serving(tmp_path) as api:
        eventually(lambda: ready(api)["watch"]["state"] == "following")
        assert found(api, ivy) == TURNS_A_WORD
        with path.open("ab") as file:
            file.write(claude_session(SESSION, oak))
        eventually(lambda: found(api, oak) == TURNS_A_WORD)
        eventually(lambda: ready(api)["watch"]["turns"] == 2 * TURNS_A_WORD)
        assert ready(api)["status"] == "ready"
    said = (tmp_path / "log").read_text("utf-8")
    assert f"Records the sessions of coding agents (--no-watch turns it off), from:\n  {path.parents[1]}\n" in said


def test_a_program_that_is_installed_later_is_watched_too(tmp_path: Path):
    ivy = word()
    with serving(tmp_path) as api:
        eventually(lambda: ready(api)["watch"]["state"] == "following")
        claude_file(tmp_path / ".claude" / "projects" / "p", SESSION, ivy)
        eventually(lambda: found(api, ivy) == TURNS_A_WORD)


FAILS_TWICE = """
from palaver.operations.sessions import local_watch
local_watch.FIRST_PAUSE = 0.05
left = [1, 2]
class Failing(local_watch.Watch):
    async def read_all(self, **options):
        if left:
            raise RuntimeError(f"failure {left.pop(0)}")
        return await super().read_all(**options)
local_watch.Watch = Failing
"""


def test_a_watch_that_fails_is_logged_and_starts_again(tmp_path: Path):
    ivy = word()
    claude_file(tmp_path / ".claude" / "projects" / "p", SESSION, ivy)
    with serving(tmp_path, before=FAILS_TWICE) as api:
        eventually(lambda: found(api, ivy) == TURNS_A_WORD)
        eventually(lambda: ready(api)["watch"]["state"] == "following")
        assert ready(api)["watch"]["problem"] is None
    log = (tmp_path / "log").read_text("utf-8")
    assert "failure 1" in log
    assert "failure 2" in log


def test_without_watching_nothing_is_recorded_and_nothing_is_said(tmp_path: Path):
    claude_file(tmp_path / ".claude" / "projects" / "p", SESSION, word())
    with serving(tmp_path, "--no-watch") as api:
        assert "watch" not in ready(api)
    assert "Records the sessions" not in (tmp_path / "log").read_text("utf-8")


@pytest.mark.parametrize("more", [{"PALAVER_HOST": "0.0.0.0"}, {"PALAVER_AUTH": "token"}])
def test_a_server_for_others_records_only_when_asked(tmp_path: Path, more: dict[str, str]):
    assert started(tmp_path / "palaver", "token", "create", "--human", "ann").returncode == 0
    with serving(tmp_path, **more) as api:
        assert "watch" not in ready(api)
    with serving(tmp_path, "--watch", **more) as api:
        assert "watch" in ready(api)


def test_a_user_without_a_home_directory_records_nothing(tmp_path: Path):
    with serving(tmp_path, HOME=str(tmp_path / "none")) as api:
        assert "watch" not in ready(api)
