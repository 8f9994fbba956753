"""Commands `config` (show all settings) and `completion` (shell completion)."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from palaver.doors.cli import options, output
from palaver.doors.local.running_server import running_note
from palaver.settings import Settings, given_settings


@options.command("config", "format", "json", *options.DATA)
def config(target: options.Target) -> None:
    """Show every setting: its value, its origin and its meaning.

    An option overrides the environment. The environment overrides palaver.toml in PALAVER_HOME. If a server runs on the
    same data with another host or port, these are shown.
    """
    settings = target.settings()  # reports invalid settings, and a file in the wrong place
    given = given_settings(target.flags)
    running = running_note(settings) or {}
    for name in ("host", "port"):
        if running.get(name, getattr(settings, name)) != getattr(settings, name):
            given[name] = running[name], "running server"
    default = Settings()
    rows = []
    for field in fields(Settings):
        value, origin = given.get(field.name, (getattr(default, field.name), "default"))
        if field.name == "home" and value is None:
            value = default.data
        shown = _shown(field.name, value)
        rows.append({"setting": field.name, "value": shown, "from": origin, "help": field.metadata["help"]})
    output.show(rows, target.format, columns=("setting", "value", "from", "help"), rows="rows")


def _shown(name: str, value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if name == "model_key":
        return "…" if value else ""
    if name == "database_url":
        return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:…@", value)  # hide the password
    return list(value) if isinstance(value, tuple) else value


@click.command(no_args_is_help=True)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the shell script that completes commands and options.

    \b
    bash:  palaver completion bash >> ~/.bashrc
    zsh:   palaver completion zsh >> ~/.zshrc
    fish:  palaver completion fish > ~/.config/fish/completions/palaver.fish
    """
    from click.shell_completion import get_completion_class

    from palaver.doors.cli.main import palaver

    script = get_completion_class(shell)
    assert script is not None
    output.say(script(palaver, {}, "palaver", "_PALAVER_COMPLETE").source())
