"""Following what happens."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing

import click

from palaver.doors.cli import output, target
from palaver.doors.cli.connection import reach, thread_id_of


@target.takes(*target.EVERYWHERE)
@click.command()
@click.option("--thread", metavar="THREAD", help="Only what happens in this thread (id or topic).")
@click.option("--after", type=click.IntRange(0), metavar="ID", help="Begin after this event instead of from now.")
@click.option("--count", type=click.IntRange(1), metavar="N", help="End after so many events.")
@click.pass_obj
def events(where: target.Where, thread: str | None, after: int | None, count: int | None) -> None:
    """Follow what happens, one line for each event, until Ctrl-C.

    With --json each line is an object with id, type and data.
    """
    asyncio.run(_follow(where, thread, after, count))


async def _follow(where: target.Where, thread: str | None, after: int | None, count: int | None) -> None:
    async with reach(where) as there:
        thread_id = await thread_id_of(there, thread) if thread else None
        told = 0
        async with aclosing(there.events(after, thread_id)) as stream:
            async for event in stream:
                if where.format == "table":
                    output.say(output.event_line(event.id, event.type, event.data))
                else:
                    line = {"id": event.id, "type": event.type, "data": event.data}
                    output.say(("- " if where.format == "yaml" else "") + json.dumps(line, ensure_ascii=False))
                told += 1
                if told == count:
                    return
