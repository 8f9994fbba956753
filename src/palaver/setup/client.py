"""The words of this package: a client, the machine it runs on, the server it connects to, and edits of its files."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from palaver.errors import Invalid
from palaver.settings import LOOPBACK

NAME = "palaver"
"""The name of the server in every client's settings."""

EVENTS = ("session-start", "prompt", "stop", "pre-compact", "session-end")
"""The events of `palaver hook`."""

TIMEOUT = 30
"""Seconds after which a client gives up on a hook. On a busy machine it takes seconds to start one."""

_HOOK = re.compile(r"palaver(?:-bus)?['\"]? hook (?:[a-z-]+) --client [a-z-]+")


@dataclass(frozen=True)
class Machine:
    """The computer that the clients are installed on."""

    home: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    is_mac: bool = False

    def folder(self, variable: str, default: str) -> Path:
        """A folder that a variable can name, else one below the home directory."""
        named = self.environ.get(variable)
        return Path(named).expanduser() if named else self.home / default

    @property
    def applications(self) -> Path:
        """Where programs with windows keep their settings."""
        if self.is_mac:
            return self.home / "Library" / "Application Support"
        return self.folder("XDG_CONFIG_HOME", ".config")

    def has_program(self, *names: str) -> bool:
        return any(shutil.which(name, path=self.environ.get("PATH", "")) for name in names)


def this_machine(environ: Mapping[str, str] = os.environ) -> Machine:
    try:
        home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    except RuntimeError:
        home = Path()
    if not home.is_absolute() or not home.is_dir():
        raise Invalid("There is no home directory. Set HOME to the folder with the settings of your clients.")
    return Machine(home, environ, sys.platform == "darwin")


@dataclass(frozen=True)
class Server:
    """The server that clients shall use."""

    url: str
    """The address of its MCP endpoint."""

    command: str
    """The absolute path of `palaver`, for hooks and for clients that start their servers."""

    arguments: tuple[str, ...] = ("mcp",)
    token: str = field(default="", repr=False)
    is_remote: bool = False
    """It is on another machine: 'palaver mcp' cannot reach it."""

    use_stdio: bool = False

    @property
    def data_options(self) -> tuple[str, ...]:
        """The options that name the data directory, if it is not the usual one."""
        return self.arguments[1:]

    @property
    def headers(self) -> dict[str, Any]:
        return {"headers": {"Authorization": f"Bearer {self.token}"}} if self.token else {}

    @property
    def environment(self) -> dict[str, str]:
        return {"PALAVER_TOKEN": self.token} if self.token else {}

    def stdio(self, **more: Any) -> dict[str, Any]:
        """The usual entry for a client that starts its servers."""
        env = {"env": self.environment} if self.token else {}
        return {**more, "command": self.command, "args": list(self.arguments), **env}


@dataclass(frozen=True)
class Member:
    """A named value in a settings file: the entry of the MCP server."""

    path: tuple[str, ...]
    value: dict[str, Any]


@dataclass(frozen=True)
class Item:
    """A value in a list of a settings file: a hook."""

    path: tuple[str, ...]
    value: dict[str, Any]


@dataclass(frozen=True)
class Default:
    """A value that the file must have. It stays as it is if it is there."""

    path: tuple[str, ...]
    value: Any
    is_least: bool = False
    """A smaller number is replaced. Removal puts it back."""


Entry = Member | Item | Default


@dataclass(frozen=True)
class Edit:
    """The entries that belong into one file, or the whole text of a file that is ours alone."""

    path: Path
    what: str
    """"MCP server", "hooks" or "skill"."""

    entries: tuple[Entry, ...] = ()
    text: str | None = None

    @property
    def is_toml(self) -> bool:
        return self.path.suffix == ".toml"


@dataclass(frozen=True)
class Options:
    with_hooks: bool = True
    with_skill: bool = True
    keep_history: bool = False
    """Claude Code keeps its sessions for ten years."""


@dataclass(frozen=True)
class Client:
    """A program that palaver can be set up in. Each one is a file in `clients/` and a row in its table."""

    name: str
    title: str
    is_installed: Callable[[Machine], bool]
    edits: Callable[[Machine, Server, Options], list[Edit]]
    starts_programs_only: bool = False
    has_package: Callable[[Machine], bool] = lambda machine: False
    """Whether a plugin or an extension with the same hooks is installed."""

    advice: str = ""
    """What is left for a person to do after a change."""

    hook_advice: str = ""
    """What is left for a person to do after a change of the hooks."""

    hook_problems: Callable[[Machine], list[str]] = lambda machine: []
    """Why the client does not run hooks that are in its settings, as far as it can be asked."""


@dataclass(frozen=True)
class Found:
    """The server that a client's settings name: an address, or a command."""

    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def says(self) -> str:
        return self.url or shlex.join(self.command)

    @property
    def is_palaver(self) -> bool:
        """Whether it looks like a palaver server, whatever its name is."""
        if self.command:
            return Path(self.command[0]).name in ("palaver", "palaver-bus") or "palaver-bus" in self.command
        place = urlsplit(self.url)
        if place.hostname not in LOOPBACK or place.path.rstrip("/") not in ("/mcp", "/sse"):
            return False
        return ":39765" in place.netloc or bool(re.search(r"\b(tools|agent|project)=", place.query))


def found_server(entry: Any) -> Found:
    """Read an entry in the usual form, whichever of its names a client has for the address."""
    if not isinstance(entry, dict):
        return Found()
    url = next((entry[key] for key in ("url", "httpUrl", "serverUrl") if isinstance(entry.get(key), str)), "")
    headers: dict[str, str] = next(
        (entry[key] for key in ("headers", "http_headers") if isinstance(entry.get(key), dict)), {}
    )
    env: dict[str, str] = next((entry[key] for key in ("env", "environment") if isinstance(entry.get(key), dict)), {})
    command = entry.get("command") or []
    if isinstance(command, dict):  # older versions of Zed
        command, entry = command.get("path", ""), command
    command = [command, *(entry.get("args") or [])] if isinstance(command, str) else command
    return Found(url, headers, tuple(map(str, command)) if not url else (), env)


def hook_command(command: str, event: str, client: str, options: Sequence[str] = ()) -> str:
    """The shell command of a hook. If palaver was removed, it does nothing and succeeds."""
    program = shlex.quote(command)
    return f"[ -x {program} ] && {program} hook {shlex.join([event, '--client', client, *options])} || true"


def is_own_hook(command: Any) -> bool:
    """Whether a shell command runs `palaver hook`."""
    return isinstance(command, str) and bool(_HOOK.search(command))


def grouped_hooks(
    events: Mapping[str, str], command: Callable[[str], str], timeout: Callable[[str], int]
) -> tuple[Item, ...]:
    """Hooks as Claude Code, Codex and Gemini CLI have them: `hooks.EVENT` is a list of groups with a list of hooks."""
    return tuple(
        Item(
            ("hooks", theirs),
            {"hooks": [{"type": "command", "command": command(event), "timeout": timeout(event)}]},
        )
        for event, theirs in events.items()
    )


def skill(folder: Path) -> Edit:
    from palaver.setup.texts import SKILL

    return Edit(folder / "palaver" / "SKILL.md", "skill", text=SKILL)
