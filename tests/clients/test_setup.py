"""`palaver setup` and the packages in `integrations/`, read by the real programs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.clients.install import path_of, to_test
from tests.clients.model import Model, Script, start_model
from tests.clients.programs import PROGRAMS, ROOT, Program, Start
from tests.clients.run import Palaver, start_palaver
from tests.helpers import start_server, started_with

from palaver.setup.clients import EVENTS

pytestmark = pytest.mark.clients

INTEGRATIONS = ROOT / "integrations"
NAMES = {"claude": "claude-code", "codex": "codex", "gemini": "gemini-cli", "opencode": "opencode"}
LISTS = {
    "claude": (["claude", "mcp", "list"], r"palaver: .*Connected"),
    "codex": (["codex", "mcp", "list"], r"palaver +http://127\.0\.0\.1:\d+/mcp\?tools=core .*enabled"),
    "gemini": (["gemini", "mcp", "list"], r"✓ palaver: .*Connected"),
    "opencode": (["opencode", "mcp", "list"], r"✓ palaver .*connected"),
}


def silent() -> Script:
    """A model that calls no tool."""
    return
    yield


@dataclass
class Desk:
    """A home directory, a client, a palaver server and a stub of `palaver` that records how hooks call it."""

    program: Program
    place: Path
    home: Path
    palaver: Palaver
    model: Model

    @property
    def stub(self) -> Path:
        return self.home / "bin of Zoë" / "palaver"

    @property
    def start(self) -> Start:
        url = f"http://127.0.0.1:{self.palaver.port}/mcp?tools=core"
        return Start(self.home, self.place, url, self.model.base_url)

    @property
    def env(self) -> dict[str, str]:
        env = {name: os.environ[name] for name in ("LANG", "TERM", "TMPDIR", "USER") if name in os.environ}
        path = f"{self.stub.parent}:{path_of(self.program, self.place)}:{os.environ['PATH']}"
        env |= {"PATH": path, "HOME": str(self.home), "CI": "true", "DO_NOT_TRACK": "1"}
        env |= {"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1,localhost"}
        return env | {"PALAVER_HOME": str(self.palaver.home)} | self.program.environment(self.start)

    def run(self, *command: str) -> str:
        work = self.home / "work"
        work.mkdir(exist_ok=True)
        done = subprocess.run(
            command, env=self.env, cwd=work, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=110
        )
        assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout + done.stderr

    def setup(self, *args: str) -> None:
        done = started_with(self.env, "setup", *args)
        assert done.returncode == 0, (done.stdout, done.stderr)

    def talk(self) -> None:
        """One turn of the client with the scripted model."""
        command = self.program.command(self.start)
        if self.program.name == "codex":  # a person trusts the hooks in /hooks
            command[2:2] = ["--dangerously-bypass-hook-trust"]
        self.run(*command)

    def hooks(self) -> dict[str, dict]:
        """The input of each hook that ran, by its arguments."""
        calls = re.findall(r"^ARGS (.*)\n(.*)\n", (self.home / "calls.txt").read_text("utf-8"), re.MULTILINE)
        return {arguments.partition(" --home ")[0]: json.loads(given) for arguments, given in calls}

    def told(self) -> str:
        """Everything that the client sent to the model."""
        return json.dumps(self.model.requests)


@pytest.fixture
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    program = next(program for program in PROGRAMS if program.name == request.param)
    place = to_test(program)
    if not place:
        pytest.skip(f"{program.name} is not installed: run tools/clients {program.name}")
    home = tmp_path / "home"
    with start_palaver(tmp_path / "palaver") as palaver, start_model(silent()) as model:
        desk = Desk(program, place, home, palaver, model)
        desk.stub.parent.mkdir(parents=True)
        real = Path(sys.executable).parent / "palaver"
        server = f'[ "$1" = mcp ] && exec "{real}" "$@"\n'
        record = f"""given=$(cat); printf 'ARGS %s\\n%s\\n' "$*" "$given" >> "{home}/calls.txt"\n"""
        desk.stub.write_text(f"#!/bin/sh\n{server}{record}", "utf-8")
        desk.stub.chmod(0o755)
        for name, content in program.settings(desk.start).items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(content, "utf-8")
        yield desk


def every(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("desk", names, indirect=True)


@every("claude", "codex", "gemini", "opencode")
def test_a_client_that_was_set_up_is_connected_and_has_the_skill(desk: Desk):
    desk.setup(NAMES[desk.program.name])
    command, pattern = LISTS[desk.program.name]
    assert re.search(pattern, re.sub(r"\x1b\[\d*m", "", desk.run(*command)))
    desk.talk()
    assert "Talk with other agents and people, and search shared memory" in desk.told()
    assert "knowledge_search" in desk.told()


@every("claude", "gemini", "opencode")
def test_a_client_that_starts_palaver_itself_is_connected(desk: Desk):
    desk.setup(NAMES[desk.program.name], "--stdio", "--no-hooks", "--no-skill")
    said = re.sub(r"\x1b\[\d*m", "", desk.run(*LISTS[desk.program.name][0]))
    assert re.search(r"(?i)palaver.*connected", said)
    assert "http://" not in said


@pytest.mark.thorough
@every("claude", "codex", "gemini", "opencode")
def test_a_token_is_sent_to_a_teams_server(desk: Desk, tmp_path: Path):
    with start_server(tmp_path / "team", PALAVER_AUTH="token") as team:
        made = started_with(team.env, "token", "create", "--agent", "tester", "--json")
        token = json.loads(made.stdout)["token"]
        desk.setup(NAMES[desk.program.name], "--url", team.url, "--token", token, "--no-hooks", "--no-skill")
        if desk.program.name == "codex":
            desk.talk()
            assert "knowledge_search" in desk.told()
        else:
            said = re.sub(r"\x1b\[\d*m", "", desk.run(*LISTS[desk.program.name][0]))
            assert re.search(r"(?i)palaver.*connected", said)
        checked = started_with(desk.env, "setup", "--check", "--json", NAMES[desk.program.name])
    (client,) = json.loads(checked.stdout)["clients"]
    assert (client["status"], client["problems"]) == ("connected", [])


@every("claude", "codex", "gemini", "opencode")
def test_hooks_run_with_the_session_on_standard_input(desk: Desk):
    desk.setup(NAMES[desk.program.name])
    _point_hooks_at_the_stub(desk)
    desk.talk()
    name = NAMES[desk.program.name]
    ran = desk.hooks()
    for event in EVENTS:
        if event != "pre-compact":
            assert ran[f"hook {event} --client {name}"]["session_id"], event
    assert ran[f"hook prompt --client {name}"]["prompt"].strip('"') == "Follow the script."


@every("codex")
def test_a_check_says_that_codex_has_not_been_told_to_trust_the_hooks(desk: Desk):
    desk.setup("codex")
    done = started_with(desk.env, "setup", "--check", "codex")
    assert done.returncode == 1
    assert "Codex does not run 9 of 9 hooks, as they are not trusted yet. Type /hooks in Codex." in done.stdout
    assert "a message wakes it: no" in done.stdout


@pytest.mark.thorough
@every("claude", "codex", "gemini", "opencode")
def test_a_client_still_starts_after_palaver_is_removed(desk: Desk):
    before = sorted(path for path in desk.home.rglob("*"))
    desk.setup(NAMES[desk.program.name])
    desk.stub.unlink()
    _point_hooks_at_the_stub(desk)
    desk.talk()
    desk.setup("--remove", NAMES[desk.program.name])
    written = [path for path in desk.home.rglob("*") if path.is_file() and path not in before]
    mentions = [
        path for path in written if path.suffix in (".json", ".toml", ".md") and b"palaver hook" in path.read_bytes()
    ]
    assert mentions == []


def _point_hooks_at_the_stub(desk: Desk) -> None:
    """Replace the path of this installation in the hooks by that of the stub."""
    for name in (".claude/settings.json", ".codex/hooks.json", ".gemini/settings.json"):
        file = desk.home / name
        if file.exists():
            text = file.read_text("utf-8")
            text = re.sub(r"\[ -x \S+ \] && \S+ hook", f"[ -x '{desk.stub}' ] && '{desk.stub}' hook", text)
            file.write_text(text, "utf-8")
    plugin = desk.home / ".config/opencode/plugins/palaver.js"
    if plugin.exists():
        text = re.sub(r'COMMAND = ".*"', f'COMMAND = "{desk.stub}"', plugin.read_text("utf-8"))
        plugin.write_text(text, "utf-8")


# Packages


@every("claude")
def test_the_plugin_and_its_marketplace_are_valid(desk: Desk):
    for path in (INTEGRATIONS / "claude-code", ROOT):
        assert "Validation passed" in desk.run("claude", "plugin", "validate", "--strict", str(path))


@pytest.mark.thorough
@every("claude")
def test_the_plugin_has_hooks_a_skill_and_commands(desk: Desk):
    desk.run(*desk.program.command(desk.start), "--plugin-dir", str(INTEGRATIONS / "claude-code"))
    ran = desk.hooks()
    assert {name for name in ran if name.startswith("hook")} >= {
        f"hook {event} --client claude-code" for event in EVENTS if event != "pre-compact"
    }
    for name in ("palaver:palaver", "palaver:catchup", "palaver:recall"):
        assert name in desk.told()


@pytest.mark.thorough
@every("claude")
def test_the_plugin_is_installed_from_the_repository(desk: Desk):
    desk.run("claude", "plugin", "marketplace", "add", str(ROOT))
    desk.run("claude", "plugin", "install", "palaver@palaver")
    assert "palaver@palaver" in desk.run("claude", "plugin", "list")
    assert re.search(r"plugin:palaver:palaver: palaver mcp .*Connected", desk.run("claude", "mcp", "list"))
    done = started_with(desk.env, "setup", "claude-code")
    assert "The palaver plugin or extension is installed." in done.stdout


@every("gemini")
def test_the_extension_is_valid_and_its_hooks_run(desk: Desk):
    extension = desk.home / "palaver"
    shutil.copytree(INTEGRATIONS / "gemini-cli", extension)
    desk.run("gemini", "extensions", "validate", str(extension))
    desk.run("gemini", "extensions", "install", str(extension), "--consent", "--skip-settings")
    assert "palaver" in desk.run("gemini", "extensions", "list")
    desk.talk()
    ran = desk.hooks()
    assert {name for name in ran if name.startswith("hook")} >= {
        f"hook {event} --client gemini-cli" for event in EVENTS if event != "pre-compact"
    }
    assert "Agents and people who work on this project talk on palaver" in desk.told()
    assert "knowledge_search" in json.dumps([body.get("tools") for _, body in desk.model.requests])
    done = started_with(desk.env, "setup", "gemini-cli")
    assert "The palaver plugin or extension is installed." in done.stdout
