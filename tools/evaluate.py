"""Measure the search with labelled questions: `make eval`, or `.venv/bin/python tools/evaluate.py FILE…`.

The questions go through the search operations, in a temporary directory or in the database of `--database-url`.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from math import log2
from pathlib import Path
from statistics import mean
from urllib.parse import quote

import click

from labelled_questions import Asked, Talk, World, renamed, worlds
from palaver.app import App
from palaver.doors.cli import options, output
from palaver.doors.cli.main import run_to_exit_code
from palaver.errors import Refused
from palaver.model.people import Caller
from palaver.model.search import ResultItem, SearchResponse
from palaver.model.times import iso, now
from palaver.operations.search.knowledge import AnswerContext, SearchKnowledge, answer_context, search_knowledge
from palaver.search.vectors import background, nearest
from palaver.settings import load
from palaver.store.engines.database import Change
from palaver.store.library import documents
from palaver.store.search.found_passages import document_id_of
from palaver.store.workspaces import Workspace

DEEP = 50
"""Results to look at for each question."""
FEWEST_FOREIGN = 3
WRONG = 0.02
"""The share of questions without an answer that may be taken for answered."""
_ASKER = Caller("human", "eval")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The measures of one question. Ranks count from 1."""

    recall: float | None
    """The share of the evidence among the first ten messages; None where no message is named."""
    first_message: int | None
    first_conversation: int | None
    gain: float
    """nDCG of the first ten conversations."""
    in_budget: float | None
    """The share of the evidence that fits in the budget."""
    milliseconds: float
    type: str = ""
    """The type of the question."""
    confidence: float = 0.0
    is_answered: bool = False
    """An answer is among the first ten results."""


@dataclass
class Report:
    outcomes: list[Outcome] = field(default_factory=list)
    foreign: list[float] = field(default_factory=list)
    """The confidence of questions that have no answer here."""

    def lines(self, budget: int) -> dict[str, float]:
        found = self.outcomes
        turns = [one for one in found if one.recall is not None]
        times = sorted(one.milliseconds for one in found)
        packed = [one.in_budget for one in found if one.in_budget is not None]
        return {
            "questions": len(found),
            "message recall@10": _percent(one.recall or 0 for one in turns),
            "message hit@1": _percent(one.first_message == 1 for one in turns),
            "message MRR": _percent(1 / one.first_message if one.first_message else 0 for one in turns),
            "conversation hit@1": _percent(one.first_conversation == 1 for one in found),
            "conversation hit@5": _percent((one.first_conversation or DEEP) <= 5 for one in found),
            "conversation nDCG@10": _percent(one.gain for one in found),
            f"evidence in {budget} tokens": _percent(packed),
            f"some evidence in {budget} tokens": _percent(share > 0 for share in packed),
            "CPU ms p50": round(times[len(times) // 2], 1) if times else 0.0,
            "CPU ms p95": round(times[int(len(times) * 0.95)], 1) if times else 0.0,
            **(self.of_confidence() if self.foreign else {}),
        }

    def of_confidence(self) -> dict[str, float]:
        """How good the confidence is, over the questions and as many that have no answer here."""
        said = [(one.confidence, one.is_answered) for one in self.outcomes] + [(one, False) for one in self.foreign]
        right, wrong = ([value for value, is_right in said if is_right is wanted] for wanted in (True, False))
        pairs = [(one > other) + (one == other) / 2 for one in right for other in wrong]
        limit = sorted(self.foreign)[int(len(self.foreign) * (1 - WRONG))]
        return {
            "confidence ECE": round(expected_error(said), 3),
            "confidence AUC": round(mean(pairs), 3) if pairs else 0.0,
            f"surer than {1 - WRONG:.0%} of the foreign": _percent(one.confidence > limit for one in self.outcomes),
        }

    def types(self) -> dict[str, Report]:
        """A report for each type of question, by name."""
        names = sorted({one.type for one in self.outcomes})
        return {name: Report([one for one in self.outcomes if one.type == name]) for name in names}


def expected_error(said: Sequence[tuple[float, bool]]) -> float:
    """The expected calibration error: in ten bins of equal width, how far the mean confidence is from the share that is
    right, each bin by its share of the questions."""
    bins: dict[int, list[tuple[float, bool]]] = {}
    for one in said:
        bins.setdefault(min(9, int(one[0] * 10)), []).append(one)
    return sum(abs(sum(value - is_right for value, is_right in some)) for some in bins.values()) / max(1, len(said))


def _percent(values: Iterable[float]) -> float:
    some = list(values)
    return round(100 * mean(some), 1) if some else 0.0


def read(path: Path) -> list[World]:
    """The test sets of a file of labelled questions."""
    try:
        return list(worlds(path))
    except (ValueError, KeyError, TypeError, OSError) as problem:
        raise Refused(f"{path.name} cannot be read as labelled questions ({problem}); see --help.") from None


def with_own_ids(files: Iterable[Iterable[World]]) -> list[list[World]]:
    """The test sets of some files, ready for one workspace: each conversation has the name of its set before its id,
    unless the sets share their conversations."""
    used = Counter[str]()

    def own(world: World) -> World:
        if world.shares_talks:
            return world
        used[world.id] += 1
        return renamed(world, world.id if used[world.id] == 1 else f"{world.id}-{used[world.id]}")

    return [[own(world) for world in some] for some in files]


async def add_conversations(workspace: Workspace, world: World) -> None:
    """Store the conversations of a test set in a workspace, as chats. Conversations that exist are skipped."""

    def add(change: Change, talks: Sequence[Talk]) -> None:
        for talk in talks:
            if document_id_of(change, "chats", talk.id) is not None:
                continue
            at = next((line.at for line in talk.lines if line.at), None) or now()
            document_id = documents.add_document(
                change, source="chats", native_id=talk.id, title=talk.title or None, created_at=at, data={}
            )
            for position, line in enumerate(talk.lines, 1):
                id = f"{talk.id}/{line.id}"
                new = documents.NewPassage(document_id, position, id, line.text, line.at, author=line.speaker)
                documents.add_passage(change, "chats", new)

    for at in range(0, len(world.talks), 50):
        await workspace.change(partial(add, talks=world.talks[at : at + 50]))


async def ask(workspace: Workspace, asked: Asked) -> SearchResponse:
    as_of = iso(asked.as_of) if asked.as_of else None
    request = SearchKnowledge(query=asked.question, limit=DEEP, dedupe=False, as_of=as_of, time_zone="UTC")
    answer: SearchResponse = await search_knowledge.work(workspace, _ASKER, request)
    return answer


async def evaluate(workspace: Workspace, asked: Asked, budget: int) -> Outcome:
    """Search for one question, and measure where its evidence is in the results."""
    as_of = iso(asked.as_of) if asked.as_of else None
    began = time.process_time()
    answer = await ask(workspace, asked)
    spent = (time.process_time() - began) * 1000
    context = await workspace.read(
        lambda read: answer_context.work(
            read, _ASKER, AnswerContext(query=asked.question, max_tokens=budget, as_of=as_of, time_zone="UTC")
        )
    )
    items = [item for item in answer.results if isinstance(item, ResultItem)]
    messages = [item.message_id for item in items if item.message_id]
    talks = list(dict.fromkeys(item.conversation_id for item in items if item.conversation_id))
    wanted = {f"{talk}/{line}" for talk, line in asked.evidence}
    ranks = [rank for rank, id in enumerate(messages, 1) if id in wanted]
    talk_ranks = [rank for rank, id in enumerate(talks, 1) if id in asked.conversations]
    ideal = sum(1 / log2(rank + 1) for rank in range(1, min(10, len(asked.conversations)) + 1))
    return Outcome(
        recall=sum(rank <= 10 for rank in ranks) / len(wanted) if wanted else None,
        first_message=ranks[0] if ranks else None,
        first_conversation=talk_ranks[0] if talk_ranks else None,
        gain=sum(1 / log2(rank + 1) for rank in talk_ranks if rank <= 10) / ideal if ideal else 0.0,
        in_budget=_share_in(context.text, asked),
        milliseconds=spent,
        type=asked.type,
        confidence=answer.confidence or 0.0,
        is_answered=any(rank <= 10 for rank in ranks),
    )


def foreign_to(world: World, others: Iterable[World]) -> list[Asked]:
    """As many questions of other test sets as the set has itself, chosen at random."""
    own = {talk.id for talk in world.talks}
    some = [one for other in others if other is not world for one in other.asked if not own & one.conversations]
    return random.Random(world.id).sample(some, min(len(some), max(FEWEST_FOREIGN, len(world.asked))))


def _share_in(text: str, asked: Asked) -> float | None:
    """The share of the evidence messages that the text contains, whole or in part."""
    if not asked.evidence:
        return None
    there, heading = set(), ""
    for line in text.split("\n"):
        if line.startswith("# "):
            heading = line
        elif line.startswith("[") and "]" in line:
            there.add((heading, line[1 : line.index("]")]))
    found = [
        any(f"chats://{quote(talk, safe='/:@')}," in heading and number == place for heading, number in there)
        for talk, place in asked.places
    ]
    return mean(found)


@options.add("format", "json", "database_url")
@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--budget", type=int, default=1024, show_default=True, help="Token budget of the evidence.")
@click.option("--together", is_flag=True, help="Use one workspace for all test sets of all files.")
@click.option("--every", type=click.IntRange(1), default=1, help="Use only every Nth test set.", metavar="N")
@click.option("--types", is_flag=True, help="Add the figures of each question type.")
@click.option("--foreign", is_flag=True, help="Also ask questions of other test sets, and measure the confidence.")
@click.pass_obj
def main(
    target: options.Target,
    files: tuple[Path, ...],
    budget: int,
    together: bool,
    every: int,
    types: bool,
    foreign: bool,
) -> None:
    """Measure the search with labelled questions, and print how often it finds the evidence.

    Each line of a file is a test set: {"conversations": [{"id", "title", "messages": [{"id", "speaker", "text",
    "at"}]}], "questions": [{"question", "evidence": ["conversation/message"], "as_of", "type"}]}. LoCoMo and
    LongMemEval files can be used directly, also compressed with gzip. All data goes into a temporary directory. If
    PALAVER_MODEL is set, that model first makes the vectors of all messages, which can take long.
    """
    reports = list[Report]()
    for some in [files] if together else [[path] for path in files]:
        reports += asyncio.run(_measure(target, some, budget, together, every, foreign))
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
    target: options.Target, paths: Sequence[Path], budget: int, together: bool, every: int, foreign: bool
) -> list[Report]:
    """A report for each file. `together` puts all test sets of all files into one workspace."""
    files = [read(path)[::every] for path in paths]
    files = with_own_ids(files) if together else files
    reports = [Report() for _ in files]
    everywhere = [world for some in files for world in some]
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
                        await add_conversations(here, world)
                        await background.make_all(here, progress)
                        if not together:
                            report.outcomes += [await evaluate(here, asked, budget) for asked in world.asked]
                        for asked in foreign_to(world, everywhere) if foreign and not together else ():
                            report.foreign.append((await ask(here, asked)).confidence or 0.0)
            if shared:
                await nearest.load_whole(shared)
                for report, worlds in zip(reports, files, strict=True):
                    questions = [asked for world in worlds for asked in world.asked]
                    report.outcomes += [await evaluate(shared, asked, budget) for asked in questions]
        finally:
            await app.close()
    return reports


if __name__ == "__main__":
    sys.exit(run_to_exit_code(lambda: main.main(standalone_mode=False, obj=options.Target())))
