"""Options that all commands share: where the data is (on this machine or on a server), and the output format.

They can be given before the command and after it. The last one counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from palaver.settings import Settings

FORMATS = ("table", "json", "yaml", "ndjson")

ThreadOption = Literal["none", "filter", "required"]
"""Whether `thread_id` of a request can also be a topic, and whether that thread must exist."""

ALL = ("format", "json", "workspace", "url", "home", "database_url")
PLACE = "Settings belong in palaver.toml in PALAVER_HOME."
DATA = ("home", "database_url")
"""Options of commands that work only on local data."""


@dataclass
class Target:
    """The values of these options."""

    home: str | None = None
    database_url: str | None = None
    workspace: str | None = None
    url: str | None = None
    format: str = "table"

    @property
    def server(self) -> str | None:
        """The URL of the server to use, if any. An empty --url overrides PALAVER_URL."""
        return (os.environ.get("PALAVER_URL") if self.url is None else self.url) or None

    @property
    def token(self) -> str | None:
        return os.environ.get("PALAVER_TOKEN") or None

    @property
    def flags(self) -> dict[str, Any]:
        """The options that are settings."""
        from pathlib import Path

        return {"home": Path(self.home) if self.home else None, "database_url": self.database_url}

    def settings(self, **more: Any) -> Settings:
        from palaver.settings import load

        loaded = load(self.flags | more)
        report_project_file(loaded)
        return loaded


def report_project_file(settings: Settings) -> None:
    """Say which keys of the project's `palaver.toml` have no effect. It is not a place for settings."""
    from palaver.model.project_file import find_project_file, read_project_file

    try:
        path = find_project_file(os.getcwd())
    except FileNotFoundError:  # the working folder was deleted
        return
    if path is None or path.parent == settings.data.resolve():
        return
    found = read_project_file(path.parent)
    if found.ignored or found.problem:
        why = found.problem or f"it cannot set {', '.join(found.ignored)}"
        keys = "It can set project, private = true, recall = false and claims."
        click.echo(f"palaver: ignored in palaver.toml of this project: {why}. {keys} {PLACE}", err=True)


def target_of(ctx: click.Context) -> Target:
    return ctx.ensure_object(Target)


def workspace_name(given: str) -> str:
    """Names of workspaces are in lower case, however they are typed."""
    return given.strip().lower()


def _store(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Keep the value of an option in the context's `Target`."""
    if param.name == "as_json":
        if value:
            target_of(ctx).format = "json"
    elif value is not None and param.name:
        setattr(target_of(ctx), param.name, workspace_name(value) if param.name == "workspace" else value)


DEFINITIONS: dict[str, dict[str, Any]] = {
    "format": {"type": click.Choice(FORMATS), "help": "Output format. [default: table]"},
    "json": {"is_flag": True, "help": "Same as --format json."},
    "url": {"metavar": "URL", "help": "Use the server at this URL instead of the local data."},
    "home": {"metavar": "DIR", "help": "Directory with all data."},
    "database_url": {"metavar": "URL", "help": "sqlite:///DIRECTORY or postgresql://…"},
    "workspace": {"metavar": "NAME", "help": "Workspace to use. [default: default]"},
}


def make(*names: str, hidden: bool = False) -> list[click.Parameter]:
    """The options with these names, for a command. Their values go into the context's `Target`."""
    return [
        click.Option(
            ["--" + name.replace("_", "-"), "as_json" if name == "json" else name],
            callback=_store,
            expose_value=False,
            hidden=hidden,
            **DEFINITIONS[name],
        )
        for name in names
    ]


def add(*names: str) -> Callable[[click.Command], click.Command]:
    """Decorator that adds these options to a command: `@add("home") @click.command() def …`."""

    def wrap(command: click.Command) -> click.Command:
        command.params += make(*names)
        return command

    return wrap


def command(name: str, *names: str, **extra: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """Decorator that makes a command with these options. Its function gets the `Target` first."""

    def wrap(function: Callable[..., Any]) -> click.Command:
        decorate: Callable[..., click.Command] = click.command(name, **extra)
        return add(*names)(decorate(click.pass_obj(function)))

    return wrap
