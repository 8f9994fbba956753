"""Settings as they are, and completion for shells."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from palaver.doors.cli import output, target
from palaver.settings import Settings, found


@target.takes("format", "json", *target.ON_THE_DATA)
@click.command()
@click.pass_obj
def config(where: target.Where) -> None:
    """Every setting: its value, where it comes from, and what it is for.

    A flag wins over the environment, the environment over palaver.toml in the working directory or in PALAVER_HOME.
    """
    given = found(where.flags)
    default = Settings()
    rows = []
    for knob in fields(Settings):
        value, origin = given.get(knob.name, (getattr(default, knob.name), "default"))
        if knob.name == "home" and value is None:
            value = default.data
        shown = _shown(knob.name, value)
        rows.append({"setting": knob.name, "value": shown, "from": origin, "help": knob.metadata["help"]})
    output.show(rows, where.format, columns=("setting", "value", "from", "help"), rows="rows")


def _shown(name: str, value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if name == "model_key":
        return "…" if value else ""
    if name == "database_url":
        return re.sub(r"(://[^:/@]*):[^@/]*@", r"\1:…@", value)  # a password is nobody's business
    return list(value) if isinstance(value, tuple) else value


@click.command(no_args_is_help=True)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that lets your shell complete commands and options.

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
