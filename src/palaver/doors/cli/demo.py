"""A story to look around in, from a terminal."""

from __future__ import annotations

import asyncio
import tomllib
from importlib.resources import files

import click

from palaver.doors.cli import output, target
from palaver.doors.cli.sessions import workspace
from palaver.operations.admin.demo import DemoCounts, tell


@target.takes("workspace", *target.ON_THE_DATA)
@click.command("demo")
@click.option("--anyway", is_flag=True, help="Also where threads exist already.")
def demo(anyway: bool) -> None:
    """Fill a workspace with a story: three weeks of a small team and its agents, to look around in.

    It wants an empty place: palaver --home /tmp/lantern demo, then palaver --home /tmp/lantern serve.
    """
    told = asyncio.run(_tell(anyway))
    output.say(
        f"{told.messages} messages in {told.threads} threads, {told.turns} turns of sessions, {told.kept} things in "
        "the library. Now 'palaver serve', and open the console."
    )


async def _tell(anyway: bool) -> DemoCounts:
    story = tomllib.loads((files("palaver.doors.cli") / "demo_story.toml").read_text("utf-8"))
    async with workspace() as here:
        return await tell(here, story, anyway=anyway)
