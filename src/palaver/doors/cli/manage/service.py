"""Commands `service install` and `service remove`: run the server in the background, at every login.

The service is a systemd unit of the user on Linux, a launchd agent on macOS. Its file has mode 0600, because settings
such as PALAVER_DATABASE_URL may contain a password. It is recognised by its first lines, so that no other file is
replaced or removed.
"""

from __future__ import annotations

import difflib
import os
import plistlib
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from palaver.doors.cli import options, output
from palaver.doors.cli.serve import settings_options
from palaver.doors.local.running_server import answer_of
from palaver.errors import NotFoundMessage, Refused, Unavailable
from palaver.settings import Settings, given_settings, load
from palaver.setup import files
from palaver.setup.clients import is_temporary, palaver_path
from palaver.synced_files import make_folder

START_SECONDS = 20.0
"""How long installing waits for the first answer of the server."""
COMMAND_SECONDS = 30.0
"""Time limit for a command of systemd or launchd."""

MARKER = "Written by 'palaver service install'. 'palaver service remove' removes it."
FOLDERS_OF_PROGRAMS = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "COPILOT_HOME", "XDG_DATA_HOME")
"""Variables that say where coding agents keep their sessions. A service does not get them from the shell."""

UNIT = "palaver.service"
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


@dataclass(frozen=True)
class Service:
    """The file of the service, and the commands of systemd or launchd for it. Those that begin with - may fail."""

    path: Path
    content: str
    is_available: str
    """The command that succeeds where services can be started."""

    start: tuple[str, ...]
    """Starts the service, now and at every login. A running one is started again with its new file."""

    stop: tuple[str, ...]
    running: str
    state: str
    log: str
    forget: tuple[str, ...] = ()
    """Follows the removal of the file."""


def service(command: list[str], environment: Mapping[str, str]) -> Service:
    """The service that runs a command on this system."""
    try:
        home = Path.home()
    except RuntimeError:
        raise Refused("HOME is not set, so there is no place for a service. Set HOME and try again.") from None
    if sys.platform == "darwin":
        return launchd(home, command, environment)
    if sys.platform.startswith("linux"):
        return systemd(home, command, environment)
    raise Refused("Services are supported on Linux (systemd) and macOS (launchd). Run 'palaver serve --watch' instead.")


def systemd(home: Path, command: list[str], environment: Mapping[str, str]) -> Service:
    # Systemd refuses quotes and backslashes in the path of a program, and does not read $$ in it as $.
    if set(command[0]) & set("'\"\\$"):
        command = ["/bin/sh", "-c", 'exec "$0" "$@"', *command]
    variables = [f"Environment={_quoted(f'{name}={value}')}" for name, value in environment.items()]
    words = [_quoted(word.replace("$", "$$")) for word in command]
    systemctl = "systemctl --user"
    return Service(
        Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "systemd" / "user" / UNIT,
        SYSTEMD_UNIT.format(environment="\n".join(variables), command=" ".join(words)),
        is_available=f"{systemctl} show --property=Version",
        start=(f"{systemctl} daemon-reload", f"{systemctl} enable {UNIT}", f"{systemctl} restart {UNIT}"),
        stop=(f"{systemctl} disable --now {UNIT}",),
        running=f"{systemctl} is-active --quiet {UNIT}",
        state=f"{systemctl} status {UNIT}",
        log=f"journalctl --user --user-unit {UNIT} --follow",
        forget=(f"-{systemctl} daemon-reload", f"-{systemctl} reset-failed {UNIT}"),
    )


def _quoted(text: str) -> str:
    """An argument of a unit file. Systemd replaces %, and reads backslashes as in C."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\t", "\\t")
    return f'"{text}"'


def launchd(home: Path, command: list[str], environment: Mapping[str, str]) -> Service:
    path, log = home / "Library" / "LaunchAgents" / "palaver.plist", str(home / "Library" / "Logs" / "palaver.log")
    domain = f"gui/{os.getuid()}"
    stop = f"-launchctl bootout {domain}/palaver"
    agent = {
        "Label": "palaver",
        "ProgramArguments": command,
        "EnvironmentVariables": dict(environment),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "StandardOutPath": log,
        "StandardErrorPath": log,
        "Umask": 0o077,
    }
    return Service(
        path,
        plistlib.dumps(agent).decode().replace("<plist", f"<!-- {MARKER} -->\n<plist", 1),
        is_available="launchctl version",
        start=(stop, f"launchctl bootstrap {domain} {shlex.quote(str(path))}"),
        stop=(stop,),
        running=f"launchctl print {domain}/palaver",
        state=f"launchctl print {domain}/palaver",
        log=f"tail -f {shlex.quote(log)}",
    )


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


def _problem_of(command: str) -> str | None:
    """Run a command of systemd or launchd; None if it succeeds, else what it says."""
    words = shlex.split(command)
    try:
        done = subprocess.run(
            words, capture_output=True, encoding="utf-8", errors="replace", timeout=COMMAND_SECONDS,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except FileNotFoundError:
        return f"there is no {words[0]} on this machine"
    except subprocess.TimeoutExpired:
        return f"{words[0]} did not answer within {COMMAND_SECONDS:.0f} s"
    said = (done.stderr or done.stdout).strip().splitlines()
    return (said[-1] if said else f"exit code {done.returncode}") if done.returncode else None


def _run(*commands: str) -> None:
    for command in commands:
        problem = _problem_of(command.removeprefix("-"))
        if problem and not command.startswith("-"):
            raise Unavailable(f"'{command}' failed: {problem}")


# The commands


@settings_options("host", "port", "public_url", "auth", "log_level")
@options.command("install", *options.DATA)
@click.option("--no-watch", is_flag=True, help="Do not record the sessions of coding agents.")
def install(target: options.Target, /, no_watch: bool, **flags: Any) -> None:
    """Run 'palaver serve --watch' in the background, now and at every login.

    On Linux this is a systemd unit of the user, on macOS a launchd agent. It is started again when it fails. The
    options and the PALAVER_ variables of this command are written into its file, which only you can read. Run the
    command again to change them.
    """
    from palaver.doors.http.server import listening_socket  # a slow import

    given = target.flags | flags
    settings = load(given)
    program, environment = palaver_path(), service_environment(given)
    if is_temporary(program):
        raise Refused(
            "palaver runs from a temporary environment, which may be deleted. "
            "Install it first, for example with 'uv tool install palaver-bus'."
        )
    command = [program, "serve", "--no-watch" if no_watch else "--watch"]
    new = service(command, environment)
    make_folder(settings.data)
    if why := _problem_of(new.is_available):
        variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
        log = shlex.quote(str(settings.data.absolute() / "server.log"))
        output.say(f"{variables} nohup {shlex.join(command)} >> {log} 2>&1 &")
        raise Unavailable(
            f"A service cannot be installed: {why}. Containers often have none. "
            "Run the line above instead. It starts the server in the background, until the machine stops."
        )
    before, is_running = _own_content(new.path), not _problem_of(new.running)
    if before == new.content and is_running and _answers(settings):
        new.path.chmod(0o600)
        output.say(f"The service is installed and running. Nothing to do. {settings.base_url}/")
        return
    if not is_running:
        listening_socket(settings).close()  # the port must be free
    if before is not None and before != new.content:
        lines = difflib.unified_diff(before.splitlines(), new.content.splitlines(), "before", "now", lineterm="")
        output.say(re.sub("(PALAVER_MODEL_KEY=|PALAVER_DATABASE_URL=).*", r"\1…", "\n".join(lines)))
    files.write(new.path, new.content.encode(), mode=files.PRIVATE)
    _run(*new.start)
    until = time.monotonic() + START_SECONDS
    while not _answers(settings):
        if time.monotonic() > until:
            raise Unavailable(
                f"The service was installed, but {settings.base_url} does not answer. See its log: {new.log}"
            )
        time.sleep(0.1)
    output.say(
        f"The service runs now and at every login.\n"
        f"  URL    {settings.base_url}/\n  Data   {settings.data.absolute()}\n  File   {new.path}\n"
        f"  State  {new.state}\n  Log    {new.log}"
    )
    if shutil.which("loginctl") and not Path("/var/lib/systemd/linger", os.environ.get("USER") or "").exists():
        output.note("The service stops when you log out. To keep it running: loginctl enable-linger")


@options.command("remove")
def remove(target: options.Target) -> None:
    """Stop the service and remove its file. The data stays."""
    old = service(["palaver"], {})
    if _own_content(old.path) is None:
        raise NotFoundMessage("The service is not installed. Install it with 'palaver service install'.")
    is_available = not _problem_of(old.is_available)
    _run(*old.stop * is_available)
    old.path.unlink()
    _run(*old.forget * is_available)
    output.say("The service was removed. Its data stays.")


def _own_content(path: Path) -> str | None:
    """The file of the service as it is; None if there is none. Raises Refused if palaver did not write it."""
    try:
        content = path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as problem:
        raise Unavailable(f"{path} cannot be read: {problem}.") from None
    if MARKER not in content[:1000]:
        raise Refused(f"{path} was not written by palaver. Rename or delete it, then try again.")
    return content


def _answers(settings: Settings) -> bool:
    """Whether a palaver server answers at its own address. A public URL may lead through a proxy."""
    own = replace(settings, public_url="").base_url
    return "version" in (answer_of(own, "/healthz", host=urlsplit(settings.base_url).netloc) or {})
