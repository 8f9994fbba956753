"""Run `palaver serve --watch` as a service of the user: a systemd unit on Linux, a launchd agent on macOS.

The file of the service has mode 0600, because settings such as PALAVER_DATABASE_URL may contain a password. It is
written only here, and it is recognised by its first lines, so that no other file is replaced or removed.
"""

from __future__ import annotations

import os
import plistlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from palaver import child_process
from palaver.errors import Refused, Unavailable
from palaver.settings import Settings, given_settings, load

NAME = "palaver"
UNIT = f"{NAME}.service"
MARKER = "Written by 'palaver service install'. 'palaver service remove' removes it."
COMMAND_SECONDS = 30.0
"""Time limit for a command of systemd or launchd."""

FOLDERS_OF_PROGRAMS = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "COPILOT_HOME", "XDG_DATA_HOME")
"""Variables that say where coding agents keep their sessions. A service does not get them from the shell."""

SYSTEMD_UNIT = f"""\
# {MARKER}
[Unit]
Description=palaver, a message bus and a memory shared by agents and people
StartLimitIntervalSec=0

[Service]
{{environment}}
ExecStart={{command}}
Restart=on-failure
RestartSec=2
TimeoutStopSec=10
UMask=0077

[Install]
WantedBy=default.target
"""

_TEMPORARY = re.compile(r"[/\\]\.?cache[/\\]uv[/\\]|[/\\]uv[/\\]archive-v\d+[/\\]|[/\\]pipx[/\\]\.cache[/\\]")


def manager() -> Systemd | Launchd:
    try:
        home = Path.home()
    except RuntimeError:
        raise Refused("HOME is not set, so there is no place for a service. Set HOME and try again.") from None
    if sys.platform == "darwin":
        return Launchd(home)
    if sys.platform.startswith("linux"):
        return Systemd(home)
    raise Refused("Services are supported on Linux (systemd) and macOS (launchd). Run 'palaver serve --watch' instead.")


def run(*commands: str) -> None:
    """Run commands of systemd or launchd. Those that begin with - may fail."""
    for command in commands:
        done = _run(command.removeprefix("-"))
        if done.returncode and not command.startswith("-"):
            said = (done.stderr or done.stdout).strip().splitlines()
            raise Unavailable(f"'{command}' failed: {said[-1] if said else f'exit code {done.returncode}'}")


def succeeds(command: str) -> bool:
    return _run(command).returncode == 0


def _run(command: str) -> subprocess.CompletedProcess[str]:
    words = shlex.split(command)
    try:
        return subprocess.run(
            words, capture_output=True, encoding="utf-8", errors="replace", timeout=COMMAND_SECONDS,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except FileNotFoundError:
        return subprocess.CompletedProcess(words, 127, "", f"{words[0]}: command not found")
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, "", f"{words[0]} did not answer within {COMMAND_SECONDS:.0f} s")


# What runs


def palaver_command() -> list[str]:
    """The command of palaver, with an absolute path that stays the same after an upgrade.

    It is the `palaver` on PATH if that is outside of a virtual environment, else this interpreter.
    """
    found = shutil.which(NAME)
    if found and not _TEMPORARY.search(os.path.realpath(found)):
        path = Path(os.path.abspath(found))
        if path.is_symlink() or not (path.parent.parent / "pyvenv.cfg").exists():
            return [str(path)]
    if not sys.executable or _TEMPORARY.search(sys.executable):
        raise Refused(
            "palaver runs from a temporary environment, which may be deleted. "
            "Install it first, for example with 'uv tool install palaver-bus'."
        )
    return child_process.python("-m", NAME)


def service_environment(flags: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The settings that are given now, as variables. The data directory and the address are always named."""
    given = given_settings(flags, environ)
    found: dict[str, str] = {}
    for field in fields(Settings):
        match given.get(field.name, (None, ""))[0]:
            case None:
                continue
            case bool() as value:
                text = "on" if value else "off"
            case tuple() as value:
                text = ",".join(map(str, value))
            case Path() as value:
                text = os.path.abspath(value.expanduser())
            case value:
                text = str(value)
        found[f"PALAVER_{field.name.upper()}"] = text
    settings = load(flags, environ)
    found["PALAVER_HOME"] = os.path.abspath(settings.data)
    found |= {"PALAVER_HOST": settings.host, "PALAVER_PORT": str(settings.port)}
    found |= {name: environ[name] for name in FOLDERS_OF_PROGRAMS if environ.get(name)}
    if any("\n" in value or "\0" in value for value in found.values()):
        raise Refused("A setting has more than one line. A service cannot have it.")
    return dict(sorted(found.items()))


def is_ours(content: str) -> bool:
    return MARKER in content[:1000]


class Systemd:
    """A user unit of systemd."""

    start = (
        "systemctl --user daemon-reload",
        f"systemctl --user enable {UNIT}",
        f"systemctl --user restart {UNIT}",
    )
    """Starts the service, now and at every login. A running one is started again with its new file."""
    stop = (f"systemctl --user disable --now {UNIT}",)
    forget = ("-systemctl --user daemon-reload", f"-systemctl --user reset-failed {UNIT}")
    """Follows the removal of the file."""
    running = f"systemctl --user is-active --quiet {UNIT}"
    state = f"systemctl --user status {UNIT}"
    log = f"journalctl --user --user-unit {UNIT} --follow"

    def __init__(self, home: Path) -> None:
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        self.path = folder / "systemd" / "user" / UNIT

    def why_unavailable(self) -> str | None:
        """Why services cannot be started here; None if they can."""
        done = _run("systemctl --user show --property=Version")
        if done.returncode == 127:
            return "there is no systemd on this machine"
        said = done.stderr.strip().splitlines()
        return f"systemd does not run for this user ({said[-1] if said else 'no answer'})" if done.returncode else None

    def content(self, command: list[str], environment: Mapping[str, str]) -> str:
        """The content of the service's file."""
        # Systemd refuses quotes and backslashes in the path of a program, and does not read $$ in it as $.
        if set(command[0]) & set("'\"\\$"):
            command = ["/bin/sh", "-c", 'exec "$0" "$@"', *command]
        variables = [f"Environment={_quoted(f'{name}={value}')}" for name, value in environment.items()]
        words = [_quoted(word.replace("$", "$$")) for word in command]
        return SYSTEMD_UNIT.format(environment="\n".join(variables), command=" ".join(words))


def _quoted(text: str) -> str:
    """An argument of a unit file. Systemd replaces %, and reads backslashes as in C."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\t", "\\t")
    return f'"{text}"'


class Launchd:
    """An agent of launchd."""

    forget = ()

    def __init__(self, home: Path) -> None:
        self.path = home / "Library" / "LaunchAgents" / f"{NAME}.plist"
        self._log = str(home / "Library" / "Logs" / f"{NAME}.log")
        domain = f"gui/{os.getuid()}"
        self._name = f"{domain}/{NAME}"
        self.stop = (f"-launchctl bootout {self._name}",)
        self.start = (*self.stop, f"launchctl bootstrap {domain} {shlex.quote(str(self.path))}")
        self.running = self.state = f"launchctl print {self._name}"
        self.log = f"tail -f {shlex.quote(self._log)}"

    def why_unavailable(self) -> str | None:
        return None if shutil.which("launchctl") else "there is no launchd on this machine"

    def content(self, command: list[str], environment: Mapping[str, str]) -> str:
        plist = {
            "Label": NAME,
            "ProgramArguments": command,
            "EnvironmentVariables": dict(environment),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "StandardOutPath": self._log,
            "StandardErrorPath": self._log,
            "Umask": 0o077,
        }
        return plistlib.dumps(plist).decode().replace("<plist", f"<!-- {MARKER} -->\n<plist", 1)
