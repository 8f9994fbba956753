"""Commands `service install` and `service remove`: run the server in the background, at every login."""

from __future__ import annotations

import difflib
import os
import re
import shlex
import shutil
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from palaver.doors.cli import options, output
from palaver.doors.cli.serve import settings_options
from palaver.doors.local import background_service
from palaver.doors.local.background_service import Launchd, Systemd
from palaver.doors.local.running_server import answer_of
from palaver.errors import NotFoundMessage, Refused, Unavailable
from palaver.settings import Settings, load
from palaver.setup import files
from palaver.synced_files import make_folder

START_SECONDS = 20.0
"""How long installing waits for the first answer of the server."""


@options.add(*options.DATA)
@settings_options("host", "port", "public_url", "auth", "log_level")
@click.command("install")
@click.option("--no-watch", is_flag=True, help="Do not record the sessions of coding agents.")
@click.pass_obj
def install(target: options.Target, /, no_watch: bool, **flags: Any) -> None:
    """Run 'palaver serve --watch' in the background, now and at every login.

    On Linux this is a systemd unit of the user, on macOS a launchd agent. It is started again when it fails. The
    options and the PALAVER_ variables of this command are written into its file, which only you can read. Run the
    command again to change them.
    """
    manager = background_service.manager()
    given = target.flags | flags
    settings = load(given)
    environment = background_service.service_environment(given)
    command = [*background_service.palaver_command(), "serve", "--no-watch" if no_watch else "--watch"]
    make_folder(settings.data)
    if why := manager.why_unavailable():
        variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
        log = shlex.quote(str(settings.data.absolute() / "server.log"))
        output.say(f"{variables} nohup {shlex.join(command)} >> {log} 2>&1 &")
        raise Unavailable(
            f"A service cannot be installed: {why}. Containers often have none. "
            "Run the line above instead. It starts the server in the background, until the machine stops."
        )
    content, before = manager.content(command, environment), _content(manager)
    if before is not None and not background_service.is_ours(before):
        raise Refused(f"{manager.path} was not written by palaver. Rename or delete it, then try again.")
    is_running = background_service.succeeds(manager.running)
    if before == content and is_running and _health(settings):
        manager.path.chmod(0o600)
        output.say(f"The service is installed and running. Nothing to do. {settings.base_url}/")
        return
    if not is_running:
        _must_be_free(settings)
    if before is not None and before != content:
        lines = difflib.unified_diff(before.splitlines(), content.splitlines(), "before", "now", lineterm="")
        output.say(re.sub("(PALAVER_MODEL_KEY=|PALAVER_DATABASE_URL=).*", r"\1…", "\n".join(lines)))
    files.write(manager.path, content.encode(), mode=files.PRIVATE)
    background_service.run(*manager.start)
    until = time.monotonic() + START_SECONDS
    while not _health(settings):
        if time.monotonic() > until:
            raise Unavailable(
                f"The service was installed, but {settings.base_url} does not answer. See its log: {manager.log}"
            )
        time.sleep(0.1)
    output.say(
        f"The service runs now and at every login.\n"
        f"  URL    {settings.base_url}/\n  Data   {settings.data.absolute()}\n  File   {manager.path}\n"
        f"  State  {manager.state}\n  Log    {manager.log}"
    )
    if shutil.which("loginctl") and not Path("/var/lib/systemd/linger", os.environ.get("USER") or "").exists():
        output.note("The service stops when you log out. To keep it running: loginctl enable-linger")


def _must_be_free(settings: Settings) -> None:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((settings.host, settings.port))
        except OSError as problem:
            by = "another palaver server" if _health(settings) else "another program"
            raise Unavailable(
                f"Port {settings.port} is not free ({os.strerror(problem.errno or 0)}): {by} uses it. "
                "Stop it, or choose another port with --port."
            ) from None


@click.command("remove")
def remove() -> None:
    """Stop the service and remove its file. The data stays."""
    manager = background_service.manager()
    content = _content(manager)
    if content is None:
        raise NotFoundMessage("The service is not installed. Install it with 'palaver service install'.")
    if not background_service.is_ours(content):
        raise Refused(f"{manager.path} was not written by palaver, so it is not removed.")
    is_available = manager.why_unavailable() is None
    background_service.run(*manager.stop * is_available)
    manager.path.unlink()
    background_service.run(*manager.forget * is_available)
    output.say("The service was removed. Its data stays.")


def _content(manager: Systemd | Launchd) -> str | None:
    try:
        return manager.path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as problem:
        raise Unavailable(f"{manager.path} cannot be read: {problem}.") from None


def _health(settings: Settings) -> dict[str, Any] | None:
    """The answer of /healthz if a palaver server answers, else None. It is asked at its own address: a public URL may
    lead through a proxy."""
    own = replace(settings, public_url="").base_url
    found = answer_of(own, "/healthz", host=urlsplit(settings.base_url).netloc)
    return found if found and "version" in found else None
