"""Measuring the search with labelled questions."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import nullcontext
from pathlib import Path

import click

from palaver.app import House
from palaver.doors.cli import output, target
from palaver.operations.admin import evaluation
from palaver.search.vectors import background
from palaver.settings import load


@target.takes("format", "json", "database_url")
@click.command("eval")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--budget", type=int, default=1024, show_default=True, help="Tokens the evidence must fit in.")
@click.option("--together", is_flag=True, help="Put all conversations of a file into one workspace.")
@click.option("--every", type=click.IntRange(1), default=1, help="Take only every so-manieth world: quicker.")
@click.pass_obj
def evaluate(where: target.Where, files: tuple[Path, ...], budget: int, together: bool, every: int) -> None:
    """Ask labelled questions through the search itself, and print how often the answers came.

    A file has one world a line: {"conversations": [{"id", "title", "messages": [{"id", "speaker", "text", "at"}]}],
    "questions": [{"question", "evidence": ["conversation/message"]}]}. LoCoMo and LongMemEval are read as they are,
    also packed with gzip. Everything happens in a directory that is gone afterwards. Where PALAVER_MODEL is set, that
    model first makes the vectors of all messages, which takes its time.
    """
    found = []
    for path in files:
        report = asyncio.run(_asked(where, path, budget, together, every))
        found.append({"file": path.name, **report.lines(budget)})
    if where.format != "table":
        output.show(found, where.format, rows="files")
        return
    for lines in found:
        output.say(output.bold(str(lines.pop("file"))))
        for name, value in lines.items():
            output.say(f"  {name:32} {value:>8}")


async def _asked(where: target.Where, path: Path, budget: int, together: bool, every: int) -> evaluation.Report:
    report, worlds = evaluation.Report(), evaluation.read(path)[::every]
    messages = sum(len(talk.lines) for world in worlds for talk in world.talks)
    with tempfile.TemporaryDirectory(prefix="palaver-eval-") as home:
        house = House(load({"home": Path(home), "database_url": where.database_url}))
        try:
            with (
                output.progress("Making vectors", messages)
                if background.is_set(house.settings)
                else nullcontext(_nobody) as told
            ):
                shared = await house.create_workspace("eval") if together else None
                for number, world in enumerate(worlds):
                    here = shared or await house.create_workspace(f"eval-{number}")
                    await evaluation.add_conversations(here, world)
                    await background.make_all(here, told)
                    if not together:
                        report.outcomes += [await evaluation.evaluate(here, asked, budget) for asked in world.asked]
            if shared:
                questions = [asked for world in worlds for asked in world.asked]
                report.outcomes += [await evaluation.evaluate(shared, asked, budget) for asked in questions]
        finally:
            await house.close()
    return report


def _nobody(more: int) -> None:
    pass
