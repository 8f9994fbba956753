"""Where a command works (on the data of this machine, or through a server) and in which form it answers.

These options are taken before the command and after it; the one that stands last counts.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from palaver.settings import Settings

FORMATS = ("table", "json", "yaml", "ndjson")


@dataclass
class Where:
    home: str | None = None
    database_url: str | None = None
    workspace: str | None = None
    url: str | None = None
    format: str = "table"

    @property
    def server(self) -> str | None:
        """The server to ask, if any. An empty --url means: none, whatever the environment says."""
        return (os.environ.get("PALAVER_URL") if self.url is None else self.url) or None

    @property
    def token(self) -> str | None:
        return os.environ.get("PALAVER_TOKEN") or None

    @property
    def flags(self) -> dict[str, Any]:
        """What was said about the data, as settings know it."""
        from pathlib import Path

        return {"home": Path(self.home) if self.home else None, "database_url": self.database_url}

    def settings(self, **more: Any) -> Settings:
        from palaver.settings import load

        return load(self.flags | more)


def here(ctx: click.Context) -> Where:
    return ctx.ensure_object(Where)


def workspace_name(given: str) -> str:
    """Workspaces are named in small letters, however they are typed."""
    return given.strip().lower()


def _settle(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value is not None and param.name:
        setattr(here(ctx), param.name, workspace_name(value) if param.name == "workspace" else value)


def _settle_json(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        here(ctx).format = "json"


HELP = {
    "url": "Ask the server at this address instead of opening the data here.",
    "home": "The directory with all data.",
    "database_url": "sqlite:///DIRECTORY or postgresql://…",
    "workspace": "The workspace to work in; 'default' if left out.",
}
EVERYWHERE = ("format", "json", "workspace", "url", "home", "database_url")
ON_THE_DATA = ("home", "database_url")


def options(*names: str, hidden: bool = False) -> list[click.Parameter]:
    """The options of these names, ready for a command. They leave their values in the context's `Where`."""
    return [_option(name, hidden) for name in names]


def takes(*names: str) -> Callable[[click.Command], click.Command]:
    """Put these options behind a command's own: `@takes("home") @click.command() def …`."""

    def wrap(command: click.Command) -> click.Command:
        command.params += options(*names)
        return command

    return wrap


def _option(name: str, hidden: bool) -> click.Option:
    if name == "format":
        return click.Option(
            ["--format"],
            type=click.Choice(FORMATS),
            callback=_settle,
            expose_value=False,
            hidden=hidden,
            help="How to show the answer; a table if left out.",
        )
    if name == "json":
        return click.Option(
            ["--json", "as_json"],
            is_flag=True,
            callback=_settle_json,
            expose_value=False,
            hidden=hidden,
            help="Short for --format json.",
        )
    return click.Option(
        ["--" + name.replace("_", "-"), name],
        metavar={"home": "DIR", "workspace": "NAME"}.get(name, "URL"),
        callback=_settle,
        expose_value=False,
        hidden=hidden,
        help=HELP[name],
    )
