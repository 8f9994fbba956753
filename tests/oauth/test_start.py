"""Requests to a server that has just started: MCP and OAuth wait until the MCP SDK is loaded."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests.conftest import ONE_ENGINE
from tests.helpers import NO_TLS, PATIENCE, environment, eventually, free_port, palaver_command

CLIENT = {"client_name": "Scribe", "redirect_uris": ["http://127.0.0.1:4567/callback"]}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}},
}
BOTH = {"accept": "application/json, text/event-stream"}


@contextmanager
def just_started(command: list[str], home: Path) -> Iterator[httpx.Client]:
    """A server that answers its first request."""
    port = free_port()
    env = environment(home, PALAVER_PORT=port, PALAVER_AUTH="token")
    with (home / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env=env, cwd=home, stdout=log, stderr=log)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE, verify=NO_TLS) as client:

            def is_alive() -> bool:
                try:
                    return client.get("/healthz").status_code == 200
                except httpx.TransportError:
                    return False

            eventually(is_alive, PATIENCE * 3)
            yield client
    finally:
        process.terminate()
        process.wait(PATIENCE)


@pytest.mark.thorough
@ONE_ENGINE
@pytest.mark.parametrize("turn", range(2))
def test_the_first_requests_of_oauth_and_mcp_are_all_answered(turn: int, tmp_path: Path):
    create = [sys.executable, "-m", "palaver", "token", "create", "--human", "ann"]
    made = subprocess.run(create, env=environment(tmp_path), capture_output=True, text=True, check=True)
    headers = BOTH | {"authorization": f"Bearer {made.stdout.strip()}"}
    with just_started([sys.executable, "-m", "palaver", "serve"], tmp_path) as client:
        with ThreadPoolExecutor(6) as threads:
            registering = [threads.submit(client.post, "/register", json=CLIENT) for _ in range(3)]
            asking = threads.submit(client.get, "/authorize", params={"client_id": "unknown"})
            greeting = [threads.submit(client.post, "/mcp", json=HELLO, headers=headers) for _ in range(2)]
            assert [one.result().status_code for one in registering] == [201] * 3
            assert asking.result().status_code == 400
            assert [one.result().status_code for one in greeting] == [200] * 2
        assert client.get("/readyz").status_code == 200


@ONE_ENGINE
def test_a_server_is_alive_at_once_and_ready_when_mcp_and_oauth_answer(tmp_path: Path):
    gate = "import time, pathlib\nwhile not pathlib.Path('open').exists(): time.sleep(0.01)"
    (tmp_path / "gate.py").write_text(gate)
    before = (
        f"import sys; sys.path.append({str(tmp_path)!r}); from palaver.doors.mcp import lazy_app; "
        "lazy_app.MODULES = ('gate', *lazy_app.MODULES)"
    )
    with just_started(palaver_command("serve", before=before), tmp_path) as client, ThreadPoolExecutor(1) as threads:
        registering = threads.submit(client.post, "/register", json=CLIENT)
        waits = client.get("/readyz")
        assert (waits.status_code, "being loaded" in waits.json()["detail"]) == (503, True)
        assert client.get("/api/threads").status_code == 401
        assert not registering.done()
        (tmp_path / "open").touch()
        assert registering.result().status_code == 201
        assert client.get("/readyz").status_code == 200


@ONE_ENGINE
def test_an_sdk_that_cannot_be_loaded_is_told_to_everybody_who_needs_it(tmp_path: Path):
    before = "import sys; sys.modules['palaver.doors.mcp.server'] = None"
    with just_started(palaver_command("serve", before=before), tmp_path) as client:
        refused = client.post("/register", json=CLIENT)
        assert (refused.status_code, "Its log says why" in refused.text) == (503, True)
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["detail"]) == (503, refused.json()["detail"])
        assert client.get("/.well-known/oauth-authorization-server").status_code == 200
    assert "palaver.doors.mcp.server" in (tmp_path / "server.log").read_text()
