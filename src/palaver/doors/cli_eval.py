"""Measuring the search with labelled questions."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import click

from palaver.doors import cli_where, printing
from palaver.house import House
from palaver.operations import evaluating
from palaver.settings import load


@cli_where.takes("format", "json", "database_url")
@click.command("eval")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--budget", type=int, default=1024, show_default=True, help="Tokens the evidence must fit in.")
@click.option("--together", is_flag=True, help="Put all conversations of a file into one workspace.")
@click.pass_obj
def evaluate(where: cli_where.Where, files: tuple[Path, ...], budget: int, together: bool) -> None:
    """Ask labelled questions through the search itself, and print how often the answers came.

    A file has one world a line: {"conversations": [{"id", "title", "messages": [{"id", "speaker", "text", "at"}]}],
    "questions": [{"question", "evidence": ["conversation/message"]}]}. LoCoMo and LongMemEval are read as they are,
    also packed with gzip. Everything happens in a directory that is gone afterwards.
    """
    found = [{"file": path.name, **asyncio.run(_asked(where, path, budget, together)).lines(budget)} for path in files]
    if where.format != "table":
        printing.show(found, where.format, rows="files")
        return
    for lines in found:
        printing.say(printing.bold(str(lines.pop("file"))))
        for name, value in lines.items():
            printing.say(f"  {name:32} {value:>8}")


async def _asked(where: cli_where.Where, path: Path, budget: int, together: bool) -> evaluating.Report:
    report = evaluating.Report()
    with tempfile.TemporaryDirectory(prefix="palaver-eval-") as home:
        house = House(load({"home": Path(home), "database_url": where.database_url}))
        try:
            everything = evaluating.read(path)
            shared = await house.create_workspace("eval") if together else None
            for number, world in enumerate(everything):
                here = shared or await house.create_workspace(f"eval-{number}")
                await evaluating.settle(here, world)
                if not together:
                    report.outcomes += [await evaluating.ask(here, asked, budget) for asked in world.asked]
            if shared:
                every = [asked for world in everything for asked in world.asked]
                report.outcomes += [await evaluating.ask(shared, asked, budget) for asked in every]
        finally:
            await house.close()
    return report
