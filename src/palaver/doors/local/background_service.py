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
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol

from palaver import child_process
from palaver.errors import Refused, Unavailable
from palaver.settings import Settings, given_settings, load

NAME = "palaver"
UNIT = f"{NAME}.service"
MARKER = "Written by 'palaver service install'. 'palaver service remove' removes it."
SECONDS = 30.0
"""Time limit for a command of systemd or launchd."""

FOLDERS_OF_PROGRAMS = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "COPILOT_HOME", "XDG_DATA_HOME")
"""Variables that say where coding agents keep their sessions. A service does not get them from the shell."""

_TEMPORARY = re.compile(r"[/\\]\.?cache[/\\]uv[/\\]|[/\\]uv[/\\]archive-v\d+[/\\]|[/\\]pipx[/\\]\.cache[/\\]")


@dataclass(frozen=True, slots=True)
class ServiceState:
    """The state of an installed service."""

    is_running: bool
    since: str | None = None
    pid: int | None = None
    detail: str = ""


class ServiceManager(Protocol):
    """The program that starts services: systemd or launchd."""

    path: Path

    def why_unavailable(self) -> str | None:
        """Why services cannot be started here; None if they can."""

    def file(self, command: list[str], environment: Mapping[str, str]) -> str:
        """The content of the service's file."""

    def environment(self, content: str) -> dict[str, str]:
        """The environment in the content of a service's file."""

    def start(self) -> None:
        """Start the service, now and at every login. A running one is started again with its new file."""

    def stop(self) -> None:
        """Stop the service, now and at logins."""

    def reload(self) -> None:
        """Make the manager forget a file that was removed."""

    def state(self) -> ServiceState: ...

    def logs(self, lines: int, *, follow: bool) -> list[str]:
        """The command that shows the log."""


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
    known = {field.name for field in fields(Settings)}
    found: dict[str, str] = {}
    for name, (value, _) in given.items():
        if name in known:
            text = ",".join(map(str, value)) if isinstance(value, tuple) else _text(value)
            found[f"PALAVER_{name.upper()}"] = os.path.abspath(os.path.expanduser(text)) if _is_path(value) else text
    settings = load(flags, environ)
    found["PALAVER_HOME"] = os.path.abspath(settings.data)
    found |= {"PALAVER_HOST": settings.host, "PALAVER_PORT": str(settings.port)}
    found |= {name: environ[name] for name in FOLDERS_OF_PROGRAMS if environ.get(name)}
    if any("\n" in value or "\0" in value for value in found.values()):
        raise Refused("A setting has more than one line. A service cannot have it.")
    return dict(sorted(found.items()))


def _text(value: Any) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _is_path(value: Any) -> bool:
    return isinstance(value, Path)


def shell_line(command: list[str], environment: Mapping[str, str], log: Path) -> str:
    """A line for the shell that does the same as the service, until the machine stops."""
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
    return f"{settings} nohup {shlex.join(command)} >> {shlex.quote(str(log))} 2>&1 &"


# Managers


def manager() -> ServiceManager:
    try:
        home = Path.home()
    except RuntimeError:
        raise Refused("HOME is not set, so there is no place for a service. Set HOME and try again.") from None
    if sys.platform == "darwin":
        return Launchd(home)
    if sys.platform.startswith("linux"):
        return Systemd(home)
    raise Refused("Services are supported on Linux (systemd) and macOS (launchd). Run 'palaver serve --watch' instead.")


def is_ours(content: str) -> bool:
    return MARKER in content[:1000]


def write_private(path: Path, content: str) -> None:
    """Write a file with mode 0600, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(content)
        os.chmod(draft, 0o600)
        os.replace(draft, path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", timeout=SECONDS, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        return subprocess.CompletedProcess(command, 127, "", f"{command[0]}: command not found")
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"{command[0]} did not answer within {SECONDS:.0f} s")


def _must_run(command: list[str]) -> None:
    done = _run(command)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise Unavailable(f"'{shlex.join(command)}' failed: {said[-1] if said else f'exit code {done.returncode}'}")


class Systemd:
    """A user unit of systemd."""

    def __init__(self, home: Path) -> None:
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        self.path = folder / "systemd" / "user" / UNIT

    def why_unavailable(self) -> str | None:
        done = _run(["systemctl", "--user", "show", "--property=Version"])
        if done.returncode == 127:
            return "there is no systemd on this machine"
        if done.returncode:
            said = done.stderr.strip().splitlines()
            return f"systemd does not run for this user ({said[-1] if said else 'no answer'})"
        return None

    def file(self, command: list[str], environment: Mapping[str, str]) -> str:
        lines = [
            f"# {MARKER}",
            "[Unit]",
            "Description=palaver, a message bus and a memory shared by agents and people",
            "StartLimitIntervalSec=0",
            "",
            "[Service]",
            *(f"Environment={_quoted(f'{name}={value}')}" for name, value in environment.items()),
            f"ExecStart={' '.join(_quoted(part.replace('$', '$$')) for part in _executable(command))}",
            "Restart=on-failure",
            "RestartSec=2",
            "TimeoutStopSec=10",
            "UMask=0077",
            "",
            "[Install]",
            "WantedBy=default.target",
        ]
        return "\n".join(lines) + "\n"

    def environment(self, content: str) -> dict[str, str]:
        found = {}
        for line in content.splitlines():
            if line.startswith("Environment="):
                name, _, value = _unquoted(line.removeprefix("Environment=")).partition("=")
                found[name] = value
        return found

    def start(self) -> None:
        _must_run(["systemctl", "--user", "daemon-reload"])
        _must_run(["systemctl", "--user", "enable", UNIT])
        _must_run(["systemctl", "--user", "restart", UNIT])

    def stop(self) -> None:
        _must_run(["systemctl", "--user", "disable", "--now", UNIT])

    def reload(self) -> None:
        _run(["systemctl", "--user", "daemon-reload"])
        _run(["systemctl", "--user", "reset-failed", UNIT])

    def state(self) -> ServiceState:
        names = "ActiveState,SubState,Result,MainPID,ActiveEnterTimestamp,NRestarts"
        done = _run(["systemctl", "--user", "show", UNIT, f"--property={names}"])
        facts = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        if done.returncode or not facts:
            return ServiceState(False, detail=self.why_unavailable() or "systemd does not know it")
        is_running = facts.get("ActiveState") == "active"
        detail = f"{facts.get('ActiveState')} ({facts.get('SubState')})"
        if (restarts := facts.get("NRestarts", "0")) != "0":
            detail += f", restarted {restarts} times after failures"
        if not is_running and facts.get("Result") not in (None, "success"):
            detail += f", {facts['Result']}"
        pid = int(facts.get("MainPID") or 0) or None
        return ServiceState(is_running, facts.get("ActiveEnterTimestamp") if is_running else None, pid, detail)

    def logs(self, lines: int, *, follow: bool) -> list[str]:
        return ["journalctl", "--user", "--user-unit", UNIT, "--lines", str(lines), *(["--follow"] if follow else [])]


def _executable(command: list[str]) -> list[str]:
    """Systemd refuses quotes and backslashes in the path of a program, and does not read $$ in it as $."""
    if set(command[0]) & set("'\"\\$"):
        return ["/bin/sh", "-c", 'exec "$0" "$@"', *command]
    return command


def _quoted(text: str) -> str:
    """An argument of a unit file. Systemd replaces %, and reads backslashes as in C."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\t", "\\t")
    return f'"{text}"'


def _unquoted(text: str) -> str:
    text = text.strip().removeprefix('"').removesuffix('"').replace("%%", "%")
    return re.sub(r"\\(.)", lambda found: "\t" if found[1] == "t" else found[1], text)


class Launchd:
    """An agent of launchd."""

    def __init__(self, home: Path) -> None:
        self.path = home / "Library" / "LaunchAgents" / f"{NAME}.plist"
        self.log = home / "Library" / "Logs" / f"{NAME}.log"
        self._domain = f"gui/{os.getuid()}"

    def why_unavailable(self) -> str | None:
        return None if shutil.which("launchctl") else "there is no launchd on this machine"

    def file(self, command: list[str], environment: Mapping[str, str]) -> str:
        content = {
            "Label": NAME,
            "ProgramArguments": command,
            "EnvironmentVariables": dict(environment),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "StandardOutPath": str(self.log),
            "StandardErrorPath": str(self.log),
            "Umask": 0o077,
        }
        text = plistlib.dumps(content).decode()
        head, sign, rest = text.partition("<plist")
        return f"{head}<!-- {MARKER} -->\n{sign}{rest}"

    def environment(self, content: str) -> dict[str, str]:
        return dict(plistlib.loads(content.encode()).get("EnvironmentVariables", {}))

    def start(self) -> None:
        _run(["launchctl", "bootout", f"{self._domain}/{NAME}"])
        _must_run(["launchctl", "bootstrap", self._domain, str(self.path)])

    def stop(self) -> None:
        _run(["launchctl", "bootout", f"{self._domain}/{NAME}"])

    def reload(self) -> None:
        """Launchd forgets an agent when it is stopped."""

    def state(self) -> ServiceState:
        done = _run(["launchctl", "print", f"{self._domain}/{NAME}"])
        found = re.search(r"^\s*pid = (\d+)", done.stdout, re.MULTILINE)
        state = re.search(r"^\s*state = (.+)", done.stdout, re.MULTILINE)
        detail = state[1] if state else "launchd does not know it"
        return ServiceState(bool(found), None, int(found[1]) if found else None, detail)

    def logs(self, lines: int, *, follow: bool) -> list[str]:
        return ["tail", "-n", str(lines), *(["-f"] if follow else []), str(self.log)]
