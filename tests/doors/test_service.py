"""`palaver service`: installed, changed, shown and removed, with a stand-in for systemctl that runs the unit."""

from __future__ import annotations

import os
import plistlib
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.helpers import PATIENCE, SOURCE, eventually, free_port, started_with, word
from tests.importers.samples import claude_file

from palaver.doors.cli.manage.service import MARKER, launchd, service, service_environment, systemd
from palaver.errors import Refused
from palaver.setup.clients import is_temporary

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="systemd is on Linux")


class Account:
    """A user with systemd, whose home has blanks, quotes and other letters in its name."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / 'Änne\'s "home" 100%'
        self.state, self.port = folder / "state", free_port()
        programs = self.home / ".local" / "bin"
        programs.mkdir(parents=True)
        self.state.mkdir()
        shutil.copy(Path(__file__).with_name("fake_systemctl.py"), programs / "systemctl")
        (programs / "systemctl").chmod(0o755)
        run = "from palaver.doors.cli.main import main; main()"
        (programs / "palaver").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "{run}" "$@"\n')
        (programs / "palaver").chmod(0o755)
        self.env = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(self.home), "PYTHONPATH": str(SOURCE)}
        self.env |= {"FAKE_SYSTEMD": str(self.state), "PALAVER_HOME": str(self.home / "my data")}
        self.unit = self.home / ".config" / "systemd" / "user" / "palaver.service"

    def run(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        return started_with(self.env | env, "service", *args)

    def install(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        return self.run("install", "--port", str(self.port), *args, **env)

    def ready(self) -> dict[str, Any]:
        return dict(httpx.get(f"http://127.0.0.1:{self.port}/readyz").json())

    def calls(self) -> list[str]:
        return (self.state / "calls").read_text().splitlines()


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Account]:
    one = Account(tmp_path)
    try:
        yield one
    finally:
        (one.state / "away").unlink(missing_ok=True)
        one.run("remove")


def test_a_service_is_installed_runs_watches_and_is_removed(account: Account):
    ivy = word()
    claude_file(account.home / ".claude" / "projects" / "p", "11111111-2222-3333-4444-555555555555", ivy)
    done = account.install()
    assert done.returncode == 0, done.stderr
    assert f"http://127.0.0.1:{account.port}/" in done.stdout
    assert account.unit.stat().st_mode & 0o777 == 0o600
    assert "systemctl --user status palaver.service" in done.stdout
    assert "journalctl --user --user-unit palaver.service --follow" in done.stdout
    eventually(lambda: account.ready()["watch"]["turns"] == 4)
    eventually(lambda: account.ready()["watch"]["state"] == "following")
    before = {path for path in account.home.rglob("*") if "my data" not in str(path)}
    done = account.run("remove")
    assert done.returncode == 0, done.stderr
    gone = before - set(account.home.rglob("*"))
    assert {path.name for path in gone} == {"palaver.service"}
    assert (account.home / "my data" / "workspaces" / "default.db").exists()
    assert account.run("remove").returncode == 3


@pytest.mark.thorough
def test_installing_again_does_nothing_and_a_change_is_shown(account: Account):
    assert account.install().returncode == 0
    calls = len([call for call in account.calls() if "restart" in call])
    again = account.install()
    assert "Nothing to do" in again.stdout
    assert len([call for call in account.calls() if "restart" in call]) == calls
    changed = account.install("--log-level", "info", PALAVER_MODEL_KEY="sk-secret")
    assert changed.returncode == 0, changed.stderr
    assert '+Environment="PALAVER_LOG_LEVEL=info"' in changed.stdout
    assert "sk-secret" not in changed.stdout
    assert "sk-secret" in account.unit.read_text("utf-8")
    assert account.ready()


def test_a_port_in_use_is_named_before_anything_is_written(account: Account):
    with socket.create_server(("127.0.0.1", account.port)):
        done = account.install()
    assert done.returncode == 5
    assert f"Cannot listen on 127.0.0.1:{account.port} (Address already in use)" in done.stderr
    assert not account.unit.exists()


def test_a_file_of_somebody_else_is_left_alone(account: Account):
    account.unit.parent.mkdir(parents=True)
    account.unit.write_text("[Service]\nExecStart=/bin/true\n")
    assert account.install().returncode == 2
    assert account.run("remove").returncode == 2
    assert account.unit.read_text() == "[Service]\nExecStart=/bin/true\n"
    account.unit.unlink()


def test_without_systemd_the_line_to_run_instead_is_shown(account: Account):
    (account.state / "away").touch()
    done = account.install()
    assert done.returncode == 5
    assert "A service cannot be installed: " in done.stderr
    assert not account.unit.exists()
    line = done.stdout.strip()
    process = subprocess.run(["sh", "-c", f"{line} echo $!"], env=account.env, capture_output=True, text=True)
    pid = int(process.stdout)
    try:
        log = account.home / "my data" / "server.log"
        eventually(lambda: log.exists() and "is listening" in log.read_text("utf-8"))
    finally:
        os.kill(pid, 15)
        eventually(lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text())


@pytest.mark.thorough
def test_a_server_that_fails_is_reported(account: Account):
    done = account.install("--host", "127.0.0.1", PALAVER_TOOLSETS="nonsense")
    assert done.returncode == 5
    assert "does not answer" in done.stderr


# The parts


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
@pytest.mark.parametrize("name", ["plain", "with blanks", "Ünïcode", "it's", 'say "so"', "back\\slash", "100% $x"])
def test_systemd_accepts_the_unit(tmp_path: Path, name: str):
    program = tmp_path / name / "palaver"
    program.parent.mkdir()
    program.symlink_to("/bin/true")
    unit = tmp_path / "palaver.service"
    environment = {"PALAVER_HOME": str(tmp_path / name)}
    unit.write_text(systemd(tmp_path, [str(program), "serve", "--watch"], environment).content, "utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=PATIENCE
    )
    assert unit.name not in done.stderr, done.stderr


@pytest.mark.parametrize("folder", ["/home/ann/.cache/uv/archive-v0/abc/bin", "/home/ann/.local/pipx/.cache/d1/bin"])
def test_a_temporary_installation_is_recognised(folder: str):
    assert is_temporary(f"{folder}/palaver")
    assert not is_temporary("/home/ann/.local/bin/palaver")


def test_settings_of_the_installation_are_kept(tmp_path: Path):
    environ = {"PALAVER_TOOLSETS": "core,bus", "PALAVER_TOKEN": "plv_x", "CODEX_HOME": "/c", "PALAVER_FETCH": "1"}
    found = service_environment({"home": Path(tmp_path / "h"), "port": 7}, environ)
    assert found == {
        "CODEX_HOME": "/c",
        "PALAVER_FETCH": "on",
        "PALAVER_HOME": str(tmp_path / "h"),
        "PALAVER_HOST": "127.0.0.1",
        "PALAVER_PORT": "7",
        "PALAVER_TOOLSETS": "core,bus",
    }
    with pytest.raises(Refused, match="more than one line"):
        service_environment({}, {"PALAVER_LANGUAGE": "two\nlines"})


def test_the_launchd_agent_is_a_valid_property_list(tmp_path: Path):
    environment = {"PALAVER_HOME": '/Users/Änne & co/"x"'}
    content = launchd(tmp_path, ["/usr/local/bin/palaver", "serve", "--watch"], environment).content
    assert MARKER in content[:1000]
    found = plistlib.loads(content.encode())
    assert found["EnvironmentVariables"] == environment
    assert found["ProgramArguments"] == ["/usr/local/bin/palaver", "serve", "--watch"]
    assert (found["RunAtLoad"], found["KeepAlive"]) == (True, {"SuccessfulExit": False})


def test_without_a_home_it_says_so(monkeypatch: pytest.MonkeyPatch):
    def fail() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", fail)
    with pytest.raises(Refused, match="HOME is not set"):
        service(["palaver"], {})
