"""The programs that palaver can be set up in. `clients.toml` says where their settings are and what they look like."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from palaver.errors import Invalid
from palaver.setup import jsonc

MARK = "Written by 'palaver setup'. It is replaced when setup runs again."
"""A line of each file that is ours alone."""

SKILL_DESCRIPTION = (
    "Talk with other agents and people, and search shared memory. Use at the start of work, before asking a person, "
    "when a decision was made, and when you were named in a message."
)
SKILL_BODY = (files("palaver.setup") / "skill.md").read_text("utf-8")
SKILL = f"---\nname: palaver\ndescription: {SKILL_DESCRIPTION}\n---\n\n<!-- {MARK} -->\n\n{SKILL_BODY}"

NAME = "palaver"
"""The name of the server in every client's settings."""

EVENTS = ("session-start", "prompt", "stop", "pre-compact", "session-end")
"""The events of `palaver hook`."""

WAIT = "wait"
"""`palaver hook wait` waits for a message to an idle session."""

PERMISSION = "permission"
"""`palaver hook permission` asks a person in the inbox whether a tool may run."""

EDIT = "edit"
"""`palaver hook edit` stops an edit once if another agent edits the same file."""

FAILURE = "failure"
"""`palaver hook failure` says what ended the error of a tool in an earlier session."""

PERMISSION_SECONDS = 4_000
"""A client gives up on that hook after this time. It ends before by itself."""

HOOK_SECONDS = 30
"""A client gives up on a hook after this time. On a busy machine it takes seconds to start one."""

WAIT_SECONDS = 20 * 86_400
"""A client ends `palaver hook wait` after this time, and the next stop starts another one. Claude Code can count to 24
days."""

WAKES: dict[str, dict[str, Any]] = {
    "rewake": {
        "timeout": WAIT_SECONDS,
        "asyncRewake": True,
        "rewakeMessage": "A message arrived.",
        "rewakeSummary": "palaver: a message arrived",
    },
    "queue": {"timeout": HOOK_SECONDS},
}
"""The hook that waits. Claude Code runs it beside its work; if it exits with 2, its standard error begins a turn. In
Codex it leaves a process behind, which runs `codex queue`."""

DAYS_KEPT = "cleanupPeriodDays"
"""The setting of Claude Code that says after how many days it deletes a session."""

USUAL_DAYS = 30
MANY_DAYS = 3_650

NO_RETRIES = f"# {MARK}\nfetch-retries=0\n"
"""Before opencode loads a plugin, it waits for an npm package of its own. Without this, it waits for 70 seconds at each
start where npm cannot be reached (https://github.com/anomalyco/opencode/issues/47212)."""

TRUST = "Type /hooks in Codex."

_HOOK = re.compile(r"palaver(?:-bus)?['\"]? hook (?:[a-z-]+) --client [a-z-]+")


@dataclass(frozen=True)
class Machine:
    """The computer that the clients are installed on."""

    home: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    is_mac: bool = False

    def path(self, template: str) -> Path:
        """A path of the table, such as "{config}/zed". Variables of the environment can name some of the folders."""
        config = self._folder("XDG_CONFIG_HOME", ".config")
        claude = self._folder("CLAUDE_CONFIG_DIR", ".claude")
        places = {
            "home": self.home,
            "config": config,
            # Where programs with windows keep their settings.
            "applications": self.home / "Library" / "Application Support" if self.is_mac else config,
            "claude": claude,
            "claude_state": claude if self.environ.get("CLAUDE_CONFIG_DIR") else self.home,
            "codex": self._folder("CODEX_HOME", ".codex"),
        }
        return Path(template.format_map(places))

    def _folder(self, variable: str, default: str) -> Path:
        named = self.environ.get(variable)
        return Path(named).expanduser() if named else self.home / default

    def program(self, name: str) -> str | None:
        return shutil.which(name, path=self.environ.get("PATH", ""))


def this_machine(environ: Mapping[str, str] = os.environ) -> Machine:
    try:
        home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    except RuntimeError:
        home = Path()
    if not home.is_absolute() or not home.is_dir():
        raise Invalid("There is no home directory. Set HOME to the folder with the settings of your clients.")
    return Machine(home, environ, sys.platform == "darwin")


def palaver_path(environ: Mapping[str, str] = os.environ) -> str:
    """The path of `palaver` that clients run. It must survive an upgrade.

    That is the command on PATH if it is this installation (often a link that an upgrade keeps), else this one's script.
    """
    called = Path(sys.argv[0])
    scripts = [called, called.with_name("palaver"), Path(sys.executable).parent / "palaver"]
    if called.name not in ("palaver", "palaver-bus"):
        scripts = scripts[2:]
    own = next(
        (path for path in scripts if path.name == "palaver" and os.access(path, os.X_OK)), scripts[-1]
    ).absolute()
    found = shutil.which("palaver", path=environ.get("PATH", ""))
    if found and os.path.isabs(found) and os.path.realpath(found) == os.path.realpath(own):
        return found
    return str(own)


def is_temporary(command: str) -> bool:
    """Whether `uvx` or `pipx run` made the installation with this command. They delete it later."""
    parts = Path(command).parts
    return any(part.startswith("archive-v") for part in parts) or ("pipx" in parts and ".cache" in parts)


@dataclass(frozen=True)
class Server:
    """The server that clients shall use."""

    url: str
    """The address of its MCP endpoint."""

    command: str
    """The absolute path of `palaver`, for hooks and for clients that start their servers."""

    arguments: tuple[str, ...] = ("mcp",)
    """The ones after "mcp" are the options that name the data directory, if it is not the usual one."""

    token: str = field(default="", repr=False)
    is_remote: bool = False
    """It is on another machine: 'palaver mcp' cannot reach it."""

    use_stdio: bool = False

    @property
    def authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


@dataclass(frozen=True)
class SettingsEntry:
    """A value that belongs into a settings file."""

    kind: Literal["server", "hook", "default", "minimum"]
    """A hook is an item of the list at the path; without a value there shall be none. A default replaces no value,
    a minimum only a smaller one."""

    path: tuple[str, ...]
    value: Any


@dataclass(frozen=True)
class FileEdit:
    """The entries that belong into one file, or the whole text of a file that is ours alone."""

    path: Path
    what: str
    """"MCP server", "hooks" or "skill"."""

    entries: tuple[SettingsEntry, ...] = ()
    text: str | None = None


@dataclass(frozen=True)
class Options:
    with_hooks: bool = True
    with_skill: bool = True
    keep_history: bool = False
    """Claude Code keeps its sessions for ten years."""

    wakes: bool = True
    """A message to an idle agent begins a turn."""

    ask_permission: bool = False
    """A person is asked in the inbox, too, before a tool runs."""


@dataclass(frozen=True)
class ClientProgram:
    """A program that palaver can be set up in. Paths are templates of `Machine.path`."""

    name: str
    title: str
    folders: tuple[str, ...]
    """Where its settings are. Setup edits those that exist, or the first one."""

    server_files: tuple[str, ...]
    """The file with the MCP servers: the first one that exists, or the last one."""

    server_key: str
    http: Mapping[str, str] = field(default_factory=dict)
    """The entry of a server with an address. Without it, the client only starts programs."""

    stdio: Mapping[str, str] = field(default_factory=dict)
    """What the entry of a server that is started has besides command, args and env."""

    signs: tuple[str, ...] = ()
    """Other files and folders that show that it is installed."""

    programs: tuple[str, ...] = ()
    hooks_file: str = ""
    """Clients with hooks have skills too."""

    events: tuple[str, ...] = ()
    """Their names of `EVENTS`."""

    permission_event: str = ""
    """The event at which it would ask a person for permission."""

    edit_event: str = ""
    """The event before a tool runs."""

    edit_tools: str = ""
    """A pattern for the names of its tools that edit files."""

    edit_sign: str = ""
    """What the calls of these tools have if they edit files, as a pattern of the shell. Without it they all do."""

    failure_event: str = ""
    """The event after a tool has failed, or after any tool."""

    failure_tools: str = ""
    """A pattern for the names of its tools that run commands."""

    failure_sign: str = ""
    """What the input of the hook has if a tool failed, as a pattern of the shell."""

    hook_unit: int = 1
    """How many units a second has in the timeout of a hook."""

    wakes: Literal["", "rewake", "queue", "plugin"] = ""
    """How a message wakes an idle session: a hook that waits, or our plugin. "": it arrives with the next event."""

    longest_end: int = HOOK_SECONDS
    """The longest timeout in seconds of a hook for the end of a session."""

    has_groups: bool = True
    """`hooks.EVENT` is a list of groups with a list of hooks, and not a list of hooks."""

    extension: str = ""
    """The folder of an extension that has the same hooks."""

    advice: str = ""
    """What is left for a person to do after a change."""

    hook_advice: str = ""
    """What is left for a person to do after a change of the hooks."""

    @property
    def starts_programs_only(self) -> bool:
        return not self.http

    def has_package(self, machine: Machine) -> bool:
        """Whether a plugin or an extension with the same hooks is installed."""
        if self.name == "claude-code":
            return _has_claude_plugin(machine)
        return bool(self.extension) and machine.path(self.extension).is_dir()

    def is_installed(self, machine: Machine) -> bool:
        return (
            any(machine.path(folder).is_dir() for folder in self.folders)
            or any(machine.path(sign).exists() for sign in self.signs)
            or any(machine.program(program) for program in self.programs)
        )

    def edits(self, machine: Machine, server: Server, options: Options) -> list[FileEdit]:
        folders = [path for path in map(machine.path, self.folders) if path.is_dir()]
        folders = folders or [machine.path(self.folders[0])]
        entry = SettingsEntry("server", (self.server_key, NAME), self.server_entry(server))
        made = []
        for folder in folders:
            paths = [folder / machine.path(name) for name in self.server_files]
            made.append(FileEdit(next(filter(Path.exists, paths), paths[-1]), "MCP server", (entry,)))
        folder = folders[0]
        if options.with_hooks and self.events:
            version = () if self.has_groups else (SettingsEntry("default", ("version",), 1),)
            command = partial(hook_command, server.command, client=self.name, options=server.arguments[1:])
            hooks = self.hooks(command, options)
            made.append(FileEdit(folder / self.hooks_file, "hooks", (*version, *hooks)))
        elif options.with_hooks and self.hooks_file:
            made.append(FileEdit(folder / self.hooks_file, "hooks", text=_opencode_plugin(server, options)))
            npm = folder / ".npmrc"
            if not npm.exists() or MARK.encode() in npm.read_bytes():
                made.append(FileEdit(npm, "npm settings", text=NO_RETRIES))
        if options.keep_history and self.name == "claude-code":
            kept = SettingsEntry("minimum", (DAYS_KEPT,), MANY_DAYS)
            made.append(FileEdit(folder / self.hooks_file, "sessions are kept", (kept,)))
        if options.with_skill and self.hooks_file:
            made.append(FileEdit(folder / "skills" / "palaver" / "SKILL.md", "skill", text=SKILL))
        return made

    def server_entry(self, server: Server) -> dict[str, Any]:
        if not (server.use_stdio or self.starts_programs_only):
            entry: dict[str, Any] = {key: text.format(url=server.url) for key, text in self.http.items()}
            if self.name != "codex":
                return entry | ({"headers": server.authorization} if server.token else {})
            if server.token:
                return entry | {"http_headers": server.authorization}
            # Another machine does not know the folders of this one.
            return entry if server.is_remote else entry | {"env_http_headers": {"Palaver-Folder": "PWD"}}
        environment = {"PALAVER_TOKEN": server.token} if server.token else {}
        if self.name == "opencode":
            entry = {"type": "local", "command": [server.command, *server.arguments]}
            return entry | ({"environment": environment} if environment else {})
        entry = {**self.stdio, "command": server.command, "args": list(server.arguments)}
        return entry | ({"env": environment} if environment else {})

    def hooks(self, command: Callable[[str], str], options: Options) -> Iterator[SettingsEntry]:
        """Its hooks, with a shell command for each event."""
        for event, theirs in zip(EVENTS, self.events, strict=True):
            seconds = self.longest_end if event == "session-end" else HOOK_SECONDS
            hook: dict[str, Any] = {"command": command(event), "timeout": seconds * self.hook_unit}
            if self.has_groups:
                hook = {"hooks": [{"type": "command", **hook}]}
            if options.wakes and self.wakes in WAKES and event in ("session-start", "stop"):
                hook["hooks"].append({"type": "command", "command": command(WAIT), **WAKES[self.wakes]})
            yield SettingsEntry("hook", ("hooks", theirs), hook)
        for event, tools, sign, told in (
            (EDIT, self.edit_tools, self.edit_sign, self.edit_event),
            (FAILURE, self.failure_tools, self.failure_sign, self.failure_event),
        ):
            run = command(event)
            if sign:  # the shell looks for it, as it is there already
                run = f"""in=$(cat); case "$in" in {sign}) printf %s "$in" | ({run});; esac"""
            hook = {"type": "command", "command": run, "timeout": HOOK_SECONDS * self.hook_unit}
            if told:
                yield SettingsEntry("hook", ("hooks", told), {"matcher": tools, "hooks": [hook]})
        if self.permission_event:
            hook = {"type": "command", "command": command(PERMISSION), "timeout": PERMISSION_SECONDS}
            asking = {"hooks": [hook]} if options.ask_permission else None
            yield SettingsEntry("hook", ("hooks", self.permission_event), asking)


def hook_command(command: str, event: str, client: str, options: Sequence[str] = ()) -> str:
    """The shell command of a hook. If palaver was removed, it does nothing and succeeds."""
    program = shlex.quote(command)
    if event == WAIT:  # its exit code wakes
        return f"[ ! -x {program} ] || exec {program} hook {shlex.join([event, '--client', client, *options])}"
    return f"[ -x {program} ] && {program} hook {shlex.join([event, '--client', client, *options])} || true"


def is_own_hook(hook: Any) -> bool:
    """Whether a hook runs `palaver hook`."""
    command = hook.get("command") if isinstance(hook, dict) else None
    return isinstance(command, str) and bool(_HOOK.search(command))


def _opencode_plugin(server: Server, options: Options) -> str:
    """opencode has no hooks in its settings, but plugins. This one runs `palaver hook` of this installation."""
    text = (files("palaver.setup") / "opencode_plugin.js").read_text("utf-8")
    text = text.replace('COMMAND = "palaver"', f"COMMAND = {json.dumps(server.command, ensure_ascii=False)}")
    text = text if options.wakes else text.replace("WAKES = true", "WAKES = false")
    text = text.replace("ASKS_PERMISSION = false", "ASKS_PERMISSION = true") if options.ask_permission else text
    return text.replace("OPTIONS = []", f"OPTIONS = {json.dumps(server.arguments[1:], ensure_ascii=False)}")


def _claude_settings(machine: Machine) -> dict[str, Any]:
    try:
        read = jsonc.parse(machine.path("{claude}/settings.json").read_text("utf-8-sig"))
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}


def _has_claude_plugin(machine: Machine) -> bool:
    plugins = _claude_settings(machine).get("enabledPlugins")
    return isinstance(plugins, dict) and any(
        name.startswith("palaver@") and is_on is True for name, is_on in plugins.items()
    )


def about_history(machine: Machine) -> str:
    """A sentence about sessions that Claude Code will delete; '' if it keeps them for long, or stores none."""
    if not BY_NAME["claude-code"].is_installed(machine):
        return ""
    days = _claude_settings(machine).get(DAYS_KEPT)
    if type(days) is not int:
        days = USUAL_DAYS
    if days == 0 or days >= MANY_DAYS:  # 0 means that no session is stored: a choice of the user
        return ""
    return f"Claude Code deletes sessions after {days} days ({DAYS_KEPT} in its settings.json)."


def _clients() -> Iterator[ClientProgram]:
    table = tomllib.loads((files("palaver.setup") / "clients.toml").read_text("utf-8"))
    for row in table["client"]:
        values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
        yield ClientProgram(**values)


CLIENTS = tuple(_clients())
BY_NAME = {client.name: client for client in CLIENTS}
