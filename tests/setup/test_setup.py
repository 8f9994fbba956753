"""`palaver setup` edits the settings of clients and restores them. It loses nothing in between."""

from __future__ import annotations

import http.server
import json
import os
import pty
import re
import stat
import subprocess
import threading
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import environment, free_port, palaver_command, start_server, started, started_with
from tests.setup.test_jsonc import documents

from palaver import __version__
from palaver.doors.cli import recording_problem
from palaver.setup import changes, files, jsonc, toml_text
from palaver.setup.changes import SetupTask
from palaver.setup.clients import BY_NAME, CLIENTS, Machine, Options, Server, hook_command, palaver_path

TOKEN = "plv_secret-of-the-test_1234567890"

FOLDERS = {
    "claude-code": ".claude",
    "claude-desktop": ".config/Claude",
    "codex": ".codex",
    "gemini-cli": ".gemini",
    "cursor": ".cursor",
    "vs-code": ".config/Code/User",
    "opencode": ".config/opencode",
    "windsurf": ".codeium/windsurf",
    "zed": ".config/zed",
    "cline": ".cline/data",
}

# Files as people have them: comments, trailing commas, tabs, other servers and other hooks.
FILES = {
    "claude-code": {
        ".claude.json": '{"numStartups": 3, "mcpServers": {"other": {"type": "http", "url": "http://x/"}}, "projects": {}}',
        ".claude/settings.json": '{\n\t"model": "opus",\n\t"hooks": {\n\t\t"Stop": [\n\t\t\t{"hooks": [{"type": "command", "command": "say done"}]}\n\t\t]\n\t}\n}',
    },
    "codex": {
        ".codex/config.toml": '# mine\nmodel = "gpt"  # best\n\n[mcp_servers.other]\ncommand = "x"\n\n[tui]\ntheme = "dark"\n',
        ".codex/hooks.json": '{ "hooks": {} }\n',
    },
    "gemini-cli": {".gemini/settings.json": '{\r\n  // mine\r\n  "ui": {"theme": "x"},\r\n}\r\n'},
    "cursor": {".cursor/hooks.json": '{"version": 1, "hooks": {"stop": [{"command": "./mine.sh"}]}}'},
    "vs-code": {".config/Code/User/mcp.json": '\ufeff{\n    "servers": {\n    },\n    "inputs": []\n}\n'},
    "opencode": {".config/opencode/opencode.jsonc": '{\n  "theme": "x" // dark\n  /* end */\n}\n'},
    "windsurf": {".codeium/windsurf/mcp_config.json": ""},
    "zed": {
        ".config/zed/settings.json": '// Zed settings\n{\n  "vim_mode": true,\n  "context_servers": {}, // none\n}\n'
    },
    "cline": {".cline/data/settings/cline_mcp_settings.json": '{\n  "mcpServers": {}\n}'},
    "claude-desktop": {".config/Claude/claude_desktop_config.json": '{"globalShortcut": "", "mcpServers": {}}'},
}


@dataclass
class Desk:
    """A home directory with clients, and palaver's own directory."""

    home: Path

    @property
    def palaver(self) -> Path:
        return self.home / "palaver data"

    def setup(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        (self.home / "empty").mkdir(exist_ok=True)
        env = {"HOME": str(self.home), "PATH": str(self.home / "empty"), "XDG_CONFIG_HOME": "", **env}
        env = {"CLAUDE_CONFIG_DIR": "", "CODEX_HOME": "", "PALAVER_PORT": "1", **env}
        return started(self.palaver, "setup", *args, **env)

    def put(self, path: str, content: str | bytes) -> Path:
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def files(self) -> dict[str, bytes]:
        """Every file of the clients, by path."""
        found = [path for path in self.home.rglob("*") if path.is_file() and self.palaver not in path.parents]
        return {path.relative_to(self.home).as_posix(): path.read_bytes() for path in found}

    def json(self, path: str):
        return jsonc.parse((self.home / path).read_text("utf-8"))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    home = tmp_path / "home of Zoë"
    home.mkdir()
    return Desk(home)


@pytest.fixture
def full(desk: Desk) -> Desk:
    """A home with every client."""
    for folder in FOLDERS.values():
        (desk.home / folder).mkdir(parents=True)
    for client in FILES.values():
        for path, content in client.items():
            desk.put(path, content)
    return desk


def ok(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


# Set up, repeat, remove


def test_all_clients_are_set_up_and_restored_byte_for_byte(full: Desk):
    before = full.files()
    said = ok(full.setup())
    assert all(client.title in said for client in CLIENTS)
    assert full.json(".claude.json")["mcpServers"]["palaver"] == {
        "type": "http",
        "url": "http://127.0.0.1:1/mcp?tools=core",
    }
    assert full.json(".claude.json")["mcpServers"]["other"]["url"] == "http://x/"
    codex = tomllib.loads((full.home / ".codex/config.toml").read_text("utf-8"))
    assert codex["mcp_servers"] == {
        "other": {"command": "x"},
        "palaver": {
            "url": "http://127.0.0.1:1/mcp?tools=core",
            "env_http_headers": {"Palaver-Folder": "PWD"},
        },
    }
    assert full.json(".config/Claude/claude_desktop_config.json")["mcpServers"]["palaver"]["args"][0] == "mcp"
    assert [len(groups) for groups in full.json(".claude/settings.json")["hooks"].values()] == [2, 1, 1, 1, 1, 1, 1]
    assert full.json(".cursor/hooks.json")["hooks"]["stop"][0] == {"command": "./mine.sh"}
    for path, content in before.items():
        assert (full.home / (path + files.BACKUP)).read_bytes() == content
    ok(full.setup("--remove"))
    assert full.files() == before
    assert not (full.palaver / "setup.json").exists()


def test_a_second_run_changes_nothing(full: Desk):
    ok(full.setup())
    before = full.files()
    assert "Nothing to change." in ok(full.setup())
    assert full.files() == before
    answer = json.loads(ok(full.setup("--json")))
    assert {client["status"] for client in answer["clients"]} == {"unchanged"}


def test_permissions_are_asked_in_the_inbox_only_when_that_is_turned_on(full: Desk):
    before = full.files()

    def asks() -> list[bool]:
        hooks = [full.json(path)["hooks"] for path in (".claude/settings.json", ".codex/hooks.json")]
        plugin = full.files()[".config/opencode/plugins/palaver.js"]
        on = [" hook permission --client " in json.dumps(one.get("PermissionRequest", [])) for one in hooks]
        return [*on, b"ASKS_PERMISSION = true" in plugin]

    own = {"hooks": [{"type": "command", "command": "mine"}]}
    ok(full.setup())
    assert asks() == [False] * 3
    usual = full.files()
    ok(full.setup("--ask-permission"))
    assert asks() == [True] * 3
    on = full.files()
    ok(full.setup("--ask-permission"))
    assert full.files() == on
    ok(full.setup())
    assert full.files() == usual
    ok(full.setup("--ask-permission"))
    ok(full.setup("--remove"))
    assert full.files() == before

    full.put(".codex/hooks.json", json.dumps({"hooks": {"PermissionRequest": [own]}}))
    ok(full.setup("--ask-permission"))
    ok(full.setup())
    assert full.json(".codex/hooks.json")["hooks"]["PermissionRequest"] == [own], "a hook of a person stays"


def test_folders_that_setup_made_are_removed_again(desk: Desk):
    (desk.home / ".cursor").mkdir()
    ok(desk.setup("cursor"))
    assert (desk.home / ".cursor/skills/palaver/SKILL.md").exists()
    ok(desk.setup("cursor", "--remove"))
    assert list((desk.home / ".cursor").iterdir()) == []


def test_edits_of_other_programs_survive_the_removal(full: Desk):
    ok(full.setup())
    settings = full.home / ".claude/settings.json"
    settings.write_text(jsonc.put(settings.read_text("utf-8"), ("theme",), "dark"), "utf-8")
    config = full.home / ".codex/config.toml"
    config.write_text(config.read_text("utf-8") + '\n[projects."/x"]\ntrust_level = "trusted"\n', "utf-8")
    ok(full.setup("--remove"))
    assert settings.read_text("utf-8") == jsonc.put(FILES["claude-code"][".claude/settings.json"], ("theme",), "dark")
    left = tomllib.loads(config.read_text("utf-8"))
    assert left["projects"] == {"/x": {"trust_level": "trusted"}}
    assert "palaver" not in left["mcp_servers"]
    assert "# best" in config.read_text("utf-8")


def test_edits_between_two_runs_survive_the_removal(full: Desk):
    ok(full.setup("claude-code"))
    state = full.home / ".claude.json"
    state.write_text(jsonc.put(state.read_text("utf-8"), ("numStartups",), 4), "utf-8")
    ok(full.setup("claude-code", PALAVER_PORT="2"))
    assert full.json(".claude.json")["mcpServers"]["palaver"]["url"] == "http://127.0.0.1:2/mcp?tools=core"
    ok(full.setup("claude-code", "--remove"))
    assert state.read_text("utf-8") == FILES["claude-code"][".claude.json"].replace("3", "4")


def test_a_file_that_setup_made_and_others_filled_is_kept(desk: Desk):
    (desk.home / ".gemini").mkdir()
    ok(desk.setup())
    settings = desk.home / ".gemini/settings.json"
    settings.write_text(jsonc.put(settings.read_text("utf-8"), ("ui",), {}), "utf-8")
    ok(desk.setup("--remove"))
    assert desk.json(".gemini/settings.json") == {"ui": {}}


def test_a_file_that_others_filled_between_two_runs_is_kept(desk: Desk):
    (desk.home / ".gemini").mkdir()
    ok(desk.setup())
    settings = desk.home / ".gemini/settings.json"
    settings.write_text(jsonc.put(settings.read_text("utf-8"), ("ui",), {}), "utf-8")
    ok(desk.setup(PALAVER_PORT="2"))
    ok(desk.setup("--remove"))
    assert desk.json(".gemini/settings.json") == {"ui": {}}


def test_the_record_of_an_older_version_is_understood(full: Desk):
    ok(full.setup())
    record = full.palaver / "setup.json"
    read = json.loads(record.read_text("utf-8"))
    for written in read["files"].values():
        entry = {"path": ["mcpServers", "palaver"], "value": written.pop("server")}
        written |= {"entries": [entry] if entry["value"] else [], "containers": []}
    record.write_text(json.dumps(read), "utf-8")
    state = full.home / ".claude.json"
    state.write_text(jsonc.put(state.read_text("utf-8"), ("numStartups",), 4), "utf-8")
    ok(full.setup("--url", "https://palaver.example", "--token", TOKEN))
    servers = full.json(".claude.json")["mcpServers"]
    assert servers["palaver"]["url"] == "https://palaver.example/mcp?tools=core"
    ok(full.setup("--remove"))
    left = {path: content for path, content in full.files().items() if not path.endswith(files.BACKUP)}
    before = FILES["claude-code"][".claude.json"].replace("3", "4").encode()
    assert left.pop(".claude.json") == before
    assert left.items() <= {path: text.encode() for one in FILES.values() for path, text in one.items()}.items()


def test_without_hooks_and_skill_only_the_server_is_added(desk: Desk):
    (desk.home / ".claude").mkdir()
    ok(desk.setup("--no-hooks", "--no-skill"))
    assert list(desk.files()) == [".claude.json"]


@given(documents(), st.booleans())
def test_any_settings_file_comes_back_byte_for_byte(tmp_path_factory, document, is_hooks: bool):
    home = tmp_path_factory.mktemp("any")
    text = document[0]
    settings = home / ".gemini/settings.json"
    settings.parent.mkdir()
    settings.write_bytes(text.encode())
    record, machine = files.Record(home), Machine(home)
    server = Server("http://127.0.0.1:39765/mcp?tools=core", "/opt/a b/palaver")
    client, wanted = BY_NAME["gemini-cli"], SetupTask(machine, server, record, Options(is_hooks, False))
    plan = changes.plan(client, wanted)
    for change in plan.changes:
        changes.make(change, record)
    value = jsonc.parse(settings.read_text("utf-8"))
    assert plan.problems == []
    assert value["mcpServers"].pop("palaver")["url"] == server.url
    assert {key: value[key] for key in document[1]} == document[1]
    for change in changes.plan(client, replace(wanted, is_removal=True)).changes:
        changes.make(change, record)
    assert settings.read_bytes() == text.encode()


@given(
    st.lists(
        st.sampled_from(['a = 1 # "x"', "[t]", "[t.u]", "k.v = 'é'", "", "# c", "[[l]]", "[mcp_servers.o]"]), max_size=6
    ),
    st.sampled_from(["\n", "\r\n"]),
)
def test_a_table_is_added_to_toml_and_taken_out(lines: list[str], end: str):
    text = "".join(line + end for line in lines)
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    entry = {"url": "http://x/mcp?tools=core", "http_headers": {"Authorization": "Bearer x"}}
    added = toml_text.put(text, ("mcp_servers", "palaver"), entry)
    assert tomllib.loads(added) == value | {"mcp_servers": value.get("mcp_servers", {}) | {"palaver": entry}}
    without = toml_text.delete(added, ("mcp_servers", "palaver"))
    assert tomllib.loads(without) in (value, value | {"mcp_servers": {}})
    left, given = (sorted(filter(None, one.splitlines())) for one in (without, text))
    assert left == given  # tomlkit brings an array of tables together


@pytest.mark.parametrize("text", ['mcp_servers = {a = {url = "x"}}\n', 'mcp_servers.a.url = "x"\n\n[z]\n'])
def test_toml_of_other_forms_is_edited_too(text: str):
    value = tomllib.loads(text)
    added = toml_text.put(text, ("mcp_servers", "palaver"), {"url": "y"})
    assert tomllib.loads(added) == value | {"mcp_servers": value["mcp_servers"] | {"palaver": {"url": "y"}}}
    assert tomllib.loads(toml_text.delete(added, ("mcp_servers", "palaver"))) == value


# Hooks


def test_a_hook_runs_from_a_path_with_spaces_and_quotes(tmp_path: Path):
    program = tmp_path / 'Zoë\'s "tools" $HOME' / "palaver"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@"\ncat\n', "utf-8")
    program.chmod(0o755)
    command = hook_command(str(program), "session-start", "claude-code")
    for shell in ("sh", "bash"):
        done = subprocess.run([shell, "-c", command], input="in", capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "hook session-start --client claude-code\nin", "")


def test_a_hook_of_a_removed_palaver_is_silent(tmp_path: Path):
    done = subprocess.run(
        ["sh", "-c", hook_command(str(tmp_path / "gone"), "stop", "codex")], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_hook_that_fails_does_not_fail_in_the_client(tmp_path: Path):
    (tmp_path / "palaver").write_text("#!/bin/sh\nexit 2\n", "utf-8")
    (tmp_path / "palaver").chmod(0o755)
    assert subprocess.run(["sh", "-c", hook_command(str(tmp_path / "palaver"), "stop", "codex")]).returncode == 0


def test_the_path_of_hooks_is_the_stable_link_on_path(tmp_path: Path):
    own = Path(palaver_path({}))
    assert own.is_absolute()
    (tmp_path / "palaver").symlink_to(own)
    assert palaver_path({"PATH": str(tmp_path)}) == str(tmp_path / "palaver")
    (tmp_path / "palaver").unlink()
    (tmp_path / "palaver").write_text("#!/bin/sh\n", "utf-8")  # another installation
    (tmp_path / "palaver").chmod(0o755)
    assert palaver_path({"PATH": str(tmp_path)}) == str(own)


def test_hooks_of_an_older_path_are_replaced_and_not_doubled(desk: Desk):
    old = "[ -x /old/palaver ] && /old/palaver hook stop --client claude-code || true"
    mine = {"type": "command", "command": "say done"}
    groups = [{"hooks": [mine, {"type": "command", "command": old}]}, {"hooks": [{"type": "command", "command": old}]}]
    desk.put(".claude/settings.json", json.dumps({"hooks": {"Stop": groups}}))
    ok(desk.setup())
    hooks = [hook for group in desk.json(".claude/settings.json")["hooks"]["Stop"] for hook in group["hooks"]]
    assert hooks[0] == mine
    assert [re.findall(" hook ([a-z]+)", hook["command"]) for hook in hooks] == [[], ["stop"], ["wait"]]
    assert "/old/" not in hooks[1]["command"]


# Bad cases


def test_the_hook_that_waits_is_added_shown_left_out_and_taken_out(desk: Desk):
    file = desk.put(".claude/settings.json", '{"model": "opus"}')

    def waits() -> list[str]:
        events = desk.json(".claude/settings.json").get("hooks", {})
        return [e for e, groups in events.items() for g in groups for h in g["hooks"] if h.get("asyncRewake")]

    def checked() -> bool:
        found = json.loads(desk.setup("--check", "claude-code", "--json").stdout)["clients"][0]
        assert found["hooks"] == "7 of 7"
        return bool(found["wakes"])

    for _ in range(2):
        ok(desk.setup())
        assert (waits(), checked()) == (["SessionStart", "Stop"], True)
        ok(desk.setup("--no-wake"))
        assert (waits(), checked()) == ([], False)
    ok(desk.setup())
    ok(desk.setup("--remove"))
    assert file.read_text() == '{"model": "opus"}'


def test_a_broken_file_is_left_alone_and_the_others_are_done(full: Desk):
    broken = full.put(".claude/settings.json", '{\n  "hooks": {\n    "Stop": [\n  }\n}')
    toml = full.put(".codex/config.toml", 'model = "x"\nbroken = \n')
    done = full.setup("claude-code", "codex", "gemini-cli")
    assert done.returncode == 1
    assert f"{broken} cannot be read: line 4, column 3: a value is expected here" in done.stderr
    assert f"{toml} cannot be read: line 2, column 10" in done.stderr
    assert broken.read_text("utf-8").endswith("[\n  }\n}")
    assert "palaver" in full.json(".claude.json")["mcpServers"]
    assert "palaver" in full.json(".gemini/settings.json")["mcpServers"]


def test_a_value_of_the_wrong_kind_is_left_alone(desk: Desk):
    file = desk.put(".cursor/mcp.json", '{"mcpServers": []}')
    done = desk.setup("--no-hooks", "--no-skill")
    assert done.returncode == 1
    assert "line 1, column 16: an object is expected here" in done.stderr
    assert file.read_text("utf-8") == '{"mcpServers": []}'


def test_a_file_that_is_not_utf8_is_left_alone(desk: Desk):
    file = desk.put(".cursor/mcp.json", b'{"a": "\xff"}')
    done = desk.setup("--no-hooks", "--no-skill")
    assert done.returncode == 1
    assert "is not UTF-8" in done.stderr
    assert file.read_bytes() == b'{"a": "\xff"}'


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_folder_that_cannot_be_written_is_named(desk: Desk):
    file = desk.put(".cursor/mcp.json", "{}")
    file.parent.chmod(0o500)
    try:
        done = desk.setup("--no-hooks", "--no-skill")
    finally:
        file.parent.chmod(0o700)
    assert done.returncode == 1
    assert f"You may not write {file}" in done.stderr
    assert desk.files() == {".cursor/mcp.json": b"{}"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_read_only_file_is_not_replaced(desk: Desk):
    file = desk.put(".cursor/mcp.json", "{}")
    file.chmod(0o400)
    done = desk.setup("--no-hooks", "--no-skill")
    assert f"You may not write {file}" in done.stderr
    assert desk.files() == {".cursor/mcp.json": b"{}"}


def test_a_file_where_a_folder_should_be_is_named_and_the_rest_is_done(desk: Desk):
    desk.put(".cursor/skills", "not a folder")
    done = desk.setup("cursor", "--json")
    assert done.returncode == 1
    (client,) = json.loads(done.stdout)["clients"]
    assert client["status"] == "failed"
    assert "SKILL.md cannot be read or written" in client["problems"][0]
    assert "palaver" in desk.json(".cursor/mcp.json")["mcpServers"]


def test_a_client_that_is_not_installed_is_said(desk: Desk):
    done = desk.setup("zed")
    assert (done.returncode, "Zed: not installed" in done.stdout) == (1, True)
    assert desk.files() == {}
    assert "No client was found" in desk.setup().stderr


def test_an_unknown_client_is_refused(desk: Desk):
    done = desk.setup("emacs")
    assert done.returncode == 2
    assert "'emacs' is not a known client. Known clients: claude-code," in done.stderr


def test_a_link_stays_a_link_and_the_mode_stays(desk: Desk):
    real = desk.put("dotfiles/claude.json", "{}")
    real.chmod(0o640)
    (desk.home / ".claude").mkdir()
    (desk.home / ".claude.json").symlink_to(real)
    ok(desk.setup("--no-hooks", "--no-skill"))
    assert (desk.home / ".claude.json").is_symlink()
    assert "palaver" in desk.json("dotfiles/claude.json")["mcpServers"]
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    ok(desk.setup("--remove"))
    assert (desk.home / ".claude.json").is_symlink()
    assert real.read_text("utf-8") == "{}"


def test_a_byte_order_mark_and_line_breaks_stay(full: Desk):
    ok(full.setup("vs-code", "gemini-cli"))
    assert (full.home / ".config/Code/User/mcp.json").read_bytes().startswith(b"\xef\xbb\xbf{\n")
    text = (full.home / ".gemini/settings.json").read_bytes()
    assert text.count(b"\n") == text.count(b"\r\n") > 10


def test_a_missing_home_is_said(desk: Desk):
    done = desk.setup(HOME=str(desk.home / "nowhere"))
    assert done.returncode == 2
    assert "There is no home directory. Set HOME" in done.stderr


def test_two_runs_at_once_write_one_entry(full: Desk):
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: full.setup("--yes"), range(4)))
    assert [one.returncode for one in done] == [0] * 4
    assert sum("Connected" in one.stdout for one in done) == 1
    assert [len(groups) for groups in full.json(".claude/settings.json")["hooks"].values()] == [2, 1, 1, 1, 1, 1, 1]


def test_without_a_server_the_clients_are_set_up_and_the_command_is_said(desk: Desk):
    (desk.home / ".cursor").mkdir()
    assert "The server does not answer yet. No server answers. Run: palaver serve" in ok(desk.setup())


@contextmanager
def answering(body: dict, status: int = 200) -> Iterator[int]:
    """Another program on a port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            text = json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), "result": body}).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.examples(1)
@pytest.mark.parametrize(
    "body, status, says",
    [
        (
            {"serverInfo": {"name": "palaver", "version": "0.0.9"}},
            200,
            f"The server is version 0.0.9, this command is {__version__}.",
        ),
        ({"serverInfo": {"name": "other", "version": "1"}}, 200, "is not palaver, but 'other'"),
        ({}, 404, "answers with status 404. Another program may use this port."),
        ({}, 401, "The server refuses the token."),
    ],
)
def test_another_server_on_the_port_is_said(desk: Desk, body: dict, status: int, says: str):
    (desk.home / ".cursor").mkdir()
    with answering(body, status) as port:
        assert says in ok(desk.setup(PALAVER_PORT=str(port)))
        done = desk.setup("--check", PALAVER_PORT=str(port))
    assert done.returncode == 1
    assert says in done.stdout


# Entries that a person wrote


def test_an_entry_that_a_person_wrote_is_kept_and_shown(desk: Desk):
    text = '{"mcpServers": {"palaver": {"url": "https://team/mcp", "headers": {"Authorization": "Bearer abc"}}}}'
    file = desk.put(".cursor/mcp.json", text)
    said = ok(desk.setup("--no-hooks", "--no-skill"))
    assert "was written by a person" in said
    assert "https://team/mcp" in said
    assert "abc" not in said
    assert file.read_text("utf-8") == text
    ok(desk.setup("--no-hooks", "--no-skill", "--remove"))
    assert file.read_text("utf-8") == text


def test_only_the_port_of_an_entry_by_hand_is_changed(desk: Desk):
    entry = {"url": "http://localhost:39765/mcp?tools=core", "type": "http", "trust": True, "timeout": 9}
    file = desk.put(".gemini/settings.json", json.dumps({"mcpServers": {"palaver": entry}}))
    ok(desk.setup("--no-hooks", "--no-skill"))
    url = "http://127.0.0.1:1/mcp?tools=core"
    assert desk.json(".gemini/settings.json")["mcpServers"]["palaver"] == entry | {"url": url}
    file.write_text(jsonc.put(file.read_text("utf-8"), ("x",), 1), "utf-8")
    ok(desk.setup("--remove"))
    assert desk.json(".gemini/settings.json") == {"mcpServers": {"palaver": entry}, "x": 1}


def test_a_skill_that_a_person_wrote_is_kept(desk: Desk):
    file = desk.put(".cursor/skills/palaver/SKILL.md", "mine")
    assert "was not written by setup" in ok(desk.setup())
    assert file.read_text("utf-8") == "mine"
    ok(desk.setup("--remove"))
    assert file.read_text("utf-8") == "mine"


def test_a_plugin_makes_setup_unnecessary(desk: Desk):
    desk.put(".claude/settings.json", '{"enabledPlugins": {"palaver@palaver": true}}')
    before = desk.files()
    assert "plugin or extension is installed" in ok(desk.setup())
    assert desk.files() == before


# A team's server


def test_a_token_is_stored_privately_and_never_printed(full: Desk):
    shown = ok(full.setup("--url", "https://palaver.example/", "--token", TOKEN, "--dry-run"))
    assert full.files().keys() == {path for client in FILES.values() for path in client}
    assert not full.palaver.exists() or not list(full.palaver.iterdir())
    done = full.setup("--url", "https://palaver.example/", "--token", TOKEN)
    again = full.setup("--json")
    for text in (shown, ok(done), done.stderr, ok(again), again.stderr, full.setup("--check").stdout):
        assert TOKEN not in text
    assert '"Authorization": "Bearer ***"' in shown
    connection = full.palaver / "connection.json"
    assert json.loads(connection.read_text("utf-8")) == {"url": "https://palaver.example", "token": TOKEN}
    assert {client["status"] for client in json.loads(again.stdout)["clients"]} == {"unchanged"}
    with_token = [path for path in full.home.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]
    assert len(with_token) == 11  # nine clients (not Claude Desktop), connection.json and the record
    assert {stat.S_IMODE(path.stat().st_mode) for path in with_token} == {0o600}
    codex = tomllib.loads((full.home / ".codex/config.toml").read_text("utf-8"))["mcp_servers"]["palaver"]
    assert codex == {
        "url": "https://palaver.example/mcp?tools=core",
        "http_headers": {"Authorization": f"Bearer {TOKEN}"},
    }
    assert "only starts programs" in done.stdout
    ok(full.setup("--remove"))
    assert not connection.exists()
    assert [path for path in full.home.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()] == []


def test_a_dry_run_answers_with_a_diff_and_changes_nothing(desk: Desk):
    desk.put(".cursor/mcp.json", "{}\n")
    before = desk.files()
    asked = ("--dry-run", "--json", "--no-hooks", "--no-skill", "--url", "https://palaver.example", "--token", TOKEN)
    (client,) = json.loads(ok(desk.setup(*asked)))["clients"]
    assert client["status"] == "would change"
    assert '-{}\n+{\n+  "mcpServers": {\n+    "palaver": {' in client["files"][0]["diff"]
    assert "***" in client["files"][0]["diff"]
    assert TOKEN not in client["files"][0]["diff"]
    assert desk.files() == before
    assert not (desk.palaver / "connection.json").exists()


def test_an_empty_url_goes_back_to_this_machine(desk: Desk):
    (desk.home / ".cursor").mkdir()
    ok(desk.setup("--url", "https://palaver.example", "--token", TOKEN))
    ok(desk.setup("--url", ""))
    assert desk.json(".cursor/mcp.json")["mcpServers"]["palaver"] == {"url": "http://127.0.0.1:1/mcp?tools=core"}
    assert not (desk.palaver / "connection.json").exists()


@pytest.mark.parametrize("url", ["palaver.example", "ftp://x", "https://"])
def test_a_wrong_url_is_refused(desk: Desk, url: str):
    done = desk.setup("--url", url)
    assert done.returncode == 2
    assert "is not the URL of a server" in done.stderr


# Questions


@pytest.mark.parametrize("typed, is_done", [("n\n", False), ("\n", True)])
def test_setup_asks_on_a_terminal(desk: Desk, typed: str, is_done: bool):
    (desk.home / ".cursor").mkdir()
    env = environment(desk.palaver, HOME=desk.home, PATH=os.environ["PATH"], PALAVER_PORT="1", TERM="dumb")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(palaver_command("setup", "cursor"), stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    said = b""
    while b"[Y/n]" not in said:
        said += os.read(ours, 4096)
    os.write(ours, typed.encode())
    with suppress(OSError):  # the other end was closed
        while os.read(ours, 4096):
            pass
    assert process.wait(60) == (0 if is_done else 1)
    assert b"create " in said
    assert ("palaver" in "".join(desk.files())) == is_done


# Checks


def test_a_check_shakes_hands_with_the_running_server(full: Desk, tmp_path: Path):
    port = free_port()
    with start_server(full.palaver, port=port):
        ok(full.setup(PALAVER_PORT="7"))  # the running server is found by its note, whatever the setting says
        rows = json.loads(ok(full.setup("--check", "--json")))["clients"]
    by_name = {row["client"]: row for row in rows}
    assert {row["status"] for row in rows} == {"connected"}
    assert by_name["claude-code"]["server"] == f"http://127.0.0.1:{port}/mcp?tools=core"
    assert by_name["claude-code"]["hooks"] == "7 of 7"
    assert by_name["claude-desktop"]["server"].endswith(f"mcp --home '{full.palaver}'")
    assert all(row["tools"] > 5 and row["version"] == __version__ for row in rows)


def test_a_check_says_what_is_not_set_up(desk: Desk):
    (desk.home / ".cursor").mkdir()
    rows = json.loads(ok(desk.setup("--check", "--json")))["clients"]
    assert {row["client"]: row["status"] for row in rows if row["status"] != "not installed"} == {
        "cursor": "not set up"
    }


@pytest.mark.examples(1)
@pytest.mark.parametrize(
    "name, second",
    [
        ("bus", {"url": "http://localhost:39765/mcp"}),
        ("bus", {"url": "http://127.0.0.1:8000/mcp?tools=core"}),
        ("bus", {"command": "/old/bin/palaver", "args": ["mcp"]}),
        ("palaver-old", {"url": "https://team.example/mcp"}),
    ],
)
def test_a_check_finds_two_servers_and_a_missing_program(desk: Desk, name: str, second: dict):
    (desk.home / ".cursor").mkdir()
    ok(desk.setup())
    file = desk.home / ".cursor/mcp.json"
    file.write_text(jsonc.put(file.read_text("utf-8"), ("mcpServers", name), second), "utf-8")
    hooks = desk.home / ".cursor/hooks.json"
    hooks.write_text(re.sub(r"/\S*/palaver", "/gone/palaver", hooks.read_text("utf-8")), "utf-8")
    done = desk.setup("--check")
    assert done.returncode == 1
    assert f"'{name}' is a second palaver server" in done.stdout
    assert "The hook stop runs /gone/palaver, which is not there. Run: palaver setup cursor" in done.stdout


def test_doctor_names_the_clients(desk: Desk):
    (desk.home / ".cursor").mkdir()
    env = {"HOME": str(desk.home), "PATH": "", "PALAVER_PORT": "1", "XDG_CONFIG_HOME": ""}
    assert "– Cursor: not set up" in ok(started(desk.palaver, "doctor", **env))
    ok(desk.setup())
    done = started(desk.palaver, "doctor", **env)
    assert done.returncode == 0, done.stdout
    assert "Cursor: set up, http://127.0.0.1:1/mcp?tools=core" in done.stdout


# AGENTS.md


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


@pytest.mark.examples(2)
@pytest.mark.parametrize("text", ["", "# Rules", "# Rules\n", "# Rules\r\n\r\n", "é\n\n\n", None])
def test_the_block_in_agents_md_is_added_once_and_taken_out(desk: Desk, folder: Path, text: str | None):
    file = folder / "AGENTS.md"
    if text is not None:
        file.write_bytes(text.encode())
    ok(desk.setup("--agents-md"))
    first = file.read_bytes()
    assert first.count(b"<!-- palaver:begin -->") == 1
    assert first.startswith((text or "").encode())
    ok(desk.setup("--agents-md"))
    assert file.read_bytes() == first
    ok(desk.setup("--agents-md", "--remove"))
    assert (file.read_bytes() if file.exists() else None) == (text.encode() if text is not None else None)


def test_the_block_is_put_into_claude_md_too_and_replaced(desk: Desk, folder: Path):
    (folder / "CLAUDE.md").write_text("a\n<!-- palaver:begin -->\nold\n<!-- palaver:end -->\nb\n", "utf-8")
    ok(desk.setup("--agents-md"))
    text = (folder / "CLAUDE.md").read_text("utf-8")
    assert text.startswith("a\n<!-- palaver:begin -->\n## palaver")
    assert text.endswith("<!-- palaver:end -->\nb\n")
    block = (folder / "AGENTS.md").read_text("utf-8")
    assert len(re.sub("<!--.*?-->", "", block).split()) <= 120
    assert "catch_up" in block


def test_a_claude_md_that_includes_agents_md_is_left_alone(desk: Desk, folder: Path):
    (folder / "CLAUDE.md").write_text("@AGENTS.md\n", "utf-8")
    ok(desk.setup("--agents-md"))
    assert (folder / "CLAUDE.md").read_text("utf-8") == "@AGENTS.md\n"


def test_a_broken_block_is_refused(desk: Desk, folder: Path):
    (folder / "AGENTS.md").write_text("<!-- palaver:begin -->\n", "utf-8")
    done = desk.setup("--agents-md")
    assert done.returncode == 2
    assert "Correct it by hand" in done.stderr


def test_an_entry_of_codex_without_the_folder_gets_it(desk: Desk):
    config = desk.put(".codex/config.toml", '[mcp_servers.palaver]\nurl = "http://127.0.0.1:1/mcp?tools=core"\n')
    before = config.read_bytes()
    ok(desk.setup("codex"))
    assert tomllib.loads(config.read_text("utf-8"))["mcp_servers"]["palaver"]["env_http_headers"]
    ok(desk.setup("--remove", "codex"))
    assert config.read_bytes() == before


# The port of the server


def test_setup_before_the_server_runs_writes_the_port_of_the_settings(desk: Desk):
    (desk.home / ".cursor").mkdir()
    desk.palaver.mkdir()
    (desk.palaver / "palaver.toml").write_text("port = 41234\n", "utf-8")
    ok(desk.setup("cursor", PALAVER_PORT=""))
    assert desk.json(".cursor/mcp.json")["mcpServers"]["palaver"]["url"] == "http://127.0.0.1:41234/mcp?tools=core"


def test_a_server_with_another_port_than_its_clients_says_so(desk: Desk):
    (desk.home / ".cursor").mkdir()
    said = ok(desk.setup("cursor"))
    assert "Clients look for it at http://127.0.0.1:1/mcp?tools=core. If it gets another port, run setup again." in said
    with start_server(desk.palaver) as server:
        assert "Clients were set up for port 1. Run 'palaver setup' again while this server runs." in server.said()
        ok(desk.setup("cursor"))
    with start_server(desk.palaver, port=server.port) as again:
        assert again.said().count("Clients were set up") == 1, "only the first time"


def test_the_default_folder_named_by_hand_needs_no_option(desk: Desk):
    (desk.home / ".claude").mkdir()
    env = {"HOME": str(desk.home), "PATH": "", "XDG_DATA_HOME": ""}
    home = desk.home / ".local" / "share" / "palaver"
    ok(started(home, "setup", "claude-code", "--yes", **env))
    without = {name: value for name, value in environment(home, **env).items() if name != "PALAVER_HOME"}
    assert "other arguments" not in started_with(without, "doctor").stdout
    assert "--home" not in (desk.home / ".claude" / "settings.json").read_text("utf-8")
    other = desk.home / "other"
    ok(started(other, "setup", "claude-code", "--yes", **env))
    said = started_with(without, "doctor").stdout
    assert said.count("other arguments than expected") == 1, "one line for all hooks"


def test_doctor_and_config_look_at_the_running_server(desk: Desk):
    port = free_port()
    with start_server(desk.palaver, port=port):
        env = {"HOME": str(desk.home), "PATH": "", "PALAVER_PORT": ""}
        assert f"answers at http://127.0.0.1:{port}" in started(desk.palaver, "doctor", **env).stdout
        rows = json.loads(ok(started(desk.palaver, "config", "--json", **env)))
    rows = rows if isinstance(rows, list) else rows["rows"]
    assert [(row["value"], row["from"]) for row in rows if row["setting"] == "port"] == [(port, "running server")]


# Removal


def test_removal_reaches_the_folder_that_a_variable_named_at_set_up(desk: Desk):
    elsewhere = desk.home / "codex of work"
    config = desk.put("codex of work/config.toml", 'model = "x"\n')
    ok(desk.setup("codex", CODEX_HOME=str(elsewhere)))
    config.write_text(config.read_text("utf-8") + '\n[projects."/src"]\ntrust_level = "trusted"\n', "utf-8")
    said = ok(desk.setup("--remove", "codex"))
    assert f"change {config}" in said
    assert "palaver" not in config.read_text("utf-8")
    assert 'trust_level = "trusted"' in config.read_text("utf-8")
    assert sorted(path.name for path in elsewhere.iterdir()) == ["config.toml", "config.toml.palaver-backup"]


def test_removal_says_where_it_found_nothing(desk: Desk):
    (desk.home / ".cursor").mkdir()
    said = ok(desk.setup("--remove", "cursor"))
    assert f"palaver was not found in {desk.home}/.cursor/mcp.json" in said
    assert "Removed" not in said


def test_removal_does_not_claim_what_a_person_did(desk: Desk):
    (desk.home / ".cursor").mkdir()
    ok(desk.setup("cursor", "--no-hooks", "--no-skill"))
    desk.put(".cursor/mcp.json", '{"mcpServers": {"other": {"url": "http://x"}}}')
    said = ok(desk.setup("--remove", "cursor"))
    assert f"{desk.home}/.cursor/mcp.json has no entry of palaver any more." in said
    assert "Removed" not in said
    assert not (desk.palaver / "setup.json").exists()


# The plugin of opencode


def test_a_plugin_of_a_person_is_kept_and_a_marked_one_is_replaced(desk: Desk):
    plugin = desk.put(".config/opencode/plugins/palaver.js", "// mine\n")
    for option in ((), ("--remove",)):
        assert f"kept: {plugin} was not written by setup." in ok(desk.setup("opencode", *option))
        assert plugin.read_text("utf-8") == "// mine\n"
    plugin.unlink()
    ok(desk.setup("opencode"))
    written = plugin.read_text("utf-8")
    assert str(desk.palaver) in written
    plugin.write_text(written + "// mine\n", "utf-8")
    ok(desk.setup("opencode"))
    assert plugin.read_text("utf-8") == written
    ok(desk.setup("opencode", "--remove"))
    assert not plugin.exists()


def test_the_npm_settings_of_a_person_are_left_alone(desk: Desk):
    npm = desk.put(".config/opencode/.npmrc", "registry=http://localhost:1/\n")
    ok(desk.setup("opencode"))
    ok(desk.setup("opencode", "--remove"))
    assert npm.read_text("utf-8") == "registry=http://localhost:1/\n"


# Recording


def test_a_check_records_a_probe_session_and_deletes_it(desk: Desk):
    (desk.home / ".cursor").mkdir()
    recording_problem.note(desk.palaver, "It was refused.", "/a/session.jsonl")
    env = {"HOME": str(desk.home), "PATH": ""}
    with start_server(desk.palaver) as server:
        ok(desk.setup("cursor"))
        before = started(desk.palaver, "doctor", **env)
        assert before.returncode == 1
        assert "✗ recording: /a/session.jsonl could not be recorded at " in before.stdout
        assert "✓ Recording: a probe session was recorded, found and deleted" in ok(desk.setup("--check", "cursor"))
        assert "recording:" not in ok(started(desk.palaver, "doctor", **env))
        with server.client() as api:
            assert api.get("/api/v1/sessions").json()["sessions"] == []


def test_an_address_on_this_machine_decides_the_server_too(desk: Desk, tmp_path: Path):
    (desk.home / ".cursor").mkdir()
    with start_server(tmp_path / "team", PALAVER_AUTH="token") as team:
        token = ok(started_with(team.env, "token", "create", "--human", "ann")).strip()
        ok(desk.setup("cursor", "--url", team.url, "--token", token))
        answer = json.loads(ok(desk.setup("--check", "cursor", "--json")))
        assert answer["recording"] == {"is_well": True, "problem": None}
        said = ok(started(desk.palaver, "doctor", HOME=str(desk.home), PATH="", PALAVER_PORT=""))
        assert f"✓ server: palaver {__version__} answers at {team.url}" in said
        assert not list(desk.palaver.rglob("*.db")), "nothing was written into a database of this machine"
    said = ok(started(desk.palaver, "doctor", HOME=str(desk.home), PATH="", PALAVER_PORT=""))
    assert f"– server: no server at {team.url}; 'palaver setup --url URL' names another one" in said


@pytest.mark.thorough
def test_a_check_says_why_nothing_can_be_recorded(desk: Desk, tmp_path: Path):
    (desk.home / ".cursor").mkdir()
    with start_server(tmp_path / "team", PALAVER_AUTH="token") as team:
        token = ok(started_with(team.env, "token", "create", "--human", "ann", "--scope", "read")).strip()
        ok(desk.setup("cursor", "--url", team.url, "--token", token))
        done = desk.setup("--check", "cursor")
    assert done.returncode == 1
    assert "✗ Recording: not possible" in done.stdout
    assert "write" in done.stdout.partition("Recording")[2]
    assert token not in done.stdout
    said = started(desk.palaver, "doctor", HOME=str(desk.home), PATH="").stdout
    assert "✗ recording: a session could not be recorded at " in said
    gone = desk.setup("--check", "cursor")
    assert f"No server answers at {team.url}" in gone.stdout.partition("Recording")[2]
