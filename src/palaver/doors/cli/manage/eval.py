"""Command `eval`: measure search quality with labelled questions."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import click

from palaver.app import App
from palaver.doors.cli import options, output
from palaver.operations.admin import evaluation
from palaver.search.vectors import background, nearest
from palaver.settings import load


@options.add("format", "json", "database_url")
@click.command("eval")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--budget", type=int, default=1024, show_default=True, help="Token budget of the evidence.")
@click.option("--together", is_flag=True, help="Use one workspace for all test sets of all files.")
@click.option("--every", type=click.IntRange(1), default=1, help="Use only every Nth test set.", metavar="N")
@click.option("--types", is_flag=True, help="Add the figures of each question type.")
@click.pass_obj
def evaluate(
    target: options.Target, files: tuple[Path, ...], budget: int, together: bool, every: int, types: bool
) -> None:
    """Measure the search with labelled questions, and print how often it finds the evidence.

    Each line of a file is a test set: {"conversations": [{"id", "title", "messages": [{"id", "speaker", "text",
    "at"}]}], "questions": [{"question", "evidence": ["conversation/message"], "as_of", "type"}]}. LoCoMo and
    LongMemEval files can be used directly, also compressed with gzip. All data goes into a temporary directory. If
    PALAVER_MODEL is set, that model first makes the vectors of all messages, which can take long.
    """
    reports = list[evaluation.Report]()
    for some in [files] if together else [[path] for path in files]:
        reports += asyncio.run(_measure(target, some, budget, together, every))
    found: list[dict[str, str | float]] = []
    for path, report in zip(files, reports, strict=True):
        found.append({"file": path.name, **report.lines(budget)})
        if types:
            by_type = report.types().items()
            found += [{"file": path.name, "type": name or "none", **one.lines(budget)} for name, one in by_type]
    if target.format != "table":
        output.show(found, target.format, rows="files")
        return
    for lines in found:
        name, type = str(lines.pop("file")), lines.pop("type", None)
        output.say(output.bold(f"{name}: {type}" if type else name))
        for name, value in lines.items():
            output.say(f"  {name:32} {value:>8}")


async def _measure(
    target: options.Target, paths: Sequence[Path], budget: int, together: bool, every: int
) -> list[evaluation.Report]:
    """A report for each file. `together` puts all test sets of all files into one workspace."""
    files = [evaluation.read(path)[::every] for path in paths]
    files = evaluation.with_own_ids(files) if together else files
    reports = [evaluation.Report() for _ in files]
    messages = sum(len(talk.lines) for worlds in files for world in worlds for talk in world.talks)
    with tempfile.TemporaryDirectory(prefix="palaver-eval-") as home:
        app = App(load({"home": Path(home), "database_url": target.database_url}))
        try:
            with (
                output.progress("Making vectors", messages)
                if background.is_set(app.settings)
                else nullcontext(lambda more: None) as progress
            ):
                shared = await app.create_workspace("eval") if together else None
                for report, worlds in zip(reports, files, strict=True):
                    for number, world in enumerate(worlds):
                        here = shared or await app.create_workspace(f"eval-{number}")
                        await evaluation.add_conversations(here, world)
                        await background.make_all(here, progress)
                        if not together:
                            report.outcomes += [await evaluation.evaluate(here, asked, budget) for asked in world.asked]
            if shared:
                await nearest.load_whole(shared)
                for report, worlds in zip(reports, files, strict=True):
                    questions = [asked for world in worlds for asked in world.asked]
                    report.outcomes += [await evaluation.evaluate(shared, asked, budget) for asked in questions]
        finally:
            await app.close()
    return reports
