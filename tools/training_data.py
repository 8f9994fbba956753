"""Collect the examples from which tools/train_model.py trains the model of meaning.

    python tools/training_data.py --out training.jsonl.gz FILE…

FILE… are labelled questions (docs/guides/ranking.md). Their conversations go into one workspace, and each test set also
into one of its own. Every question is asked in both with the search as it is. The output has three kinds of lines:

    {"text": "…"}                                   a message; messages are numbered in this order, from 0
    {"question": "…", "set": "…", "answers": [12], "best": [40, 7], "others": [3, 99]}
                                                    the messages that answer it, and wrong ones: those that the search
                                                    ranks highest, and some of the same workspace at random
    {"pair": [12, 13]}                              a message of a user, and the reply of the assistant

Messages are cut after 1,500 characters: the model reads no more.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import evaluate
from labelled_questions import Asked, World, renamed, worlds
from palaver.app import App
from palaver.model.people import Caller
from palaver.model.search import ResultItem
from palaver.operations.search.knowledge import SearchKnowledge, search_knowledge
from palaver.settings import load
from palaver.store.workspaces import Workspace

LONGEST = 1_500
BEST, OTHERS = 30, 60
OWN_WORKSPACE = 50
"""A test set with at least this many messages is also searched by itself."""


class Messages:
    """The messages of all files, each once, by the id that the workspaces know them by."""

    def __init__(self) -> None:
        self.number: dict[str, int] = {}
        self.texts: list[str] = []
        self.pairs: list[tuple[int, int]] = []

    def add(self, world: World) -> list[int]:
        found = []
        for talk in world.talks:
            before = None
            for line in talk.lines:
                name = f"{talk.id}/{line.id}"
                if name not in self.number:
                    self.number[name] = len(self.texts)
                    self.texts.append(line.text[:LONGEST])
                    if before and before.speaker == "user" and line.speaker == "assistant":
                        self.pairs.append((self.number[f"{talk.id}/{before.id}"], self.number[name]))
                before = line
                found.append(self.number[name])
        return found


def named_apart(path: Path) -> Iterator[World]:
    """The test sets of a file, with conversation ids that no other set has. Those of LongMemEval are such already."""
    for world in worlds(path):
        yield world if "longmemeval" in path.name else renamed(world, world.id)


async def example(here: Workspace, asked: Asked, messages: Messages, inside: Sequence[int]) -> dict[str, object]:
    wanted = {messages.number[f"{talk}/{line}"] for talk, line in asked.evidence if f"{talk}/{line}" in messages.number}
    request = SearchKnowledge(query=asked.question, limit=BEST + len(wanted), dedupe=False)
    answer = await search_knowledge.work(here, Caller("human", "training"), request)
    ids = [item.message_id for item in answer.results if isinstance(item, ResultItem) and item.message_id]
    best = [messages.number[id] for id in ids if id in messages.number and messages.number[id] not in wanted]
    dice = random.Random(asked.question)
    others = [number for number in dice.sample(inside, min(len(inside), OTHERS)) if number not in wanted]
    return {"question": asked.question, "answers": sorted(wanted), "best": best[:BEST], "others": others}


async def collect(files: Sequence[Path], out: Path) -> None:
    messages, rows = Messages(), []
    with tempfile.TemporaryDirectory(prefix="palaver-training-") as home:
        app = App(load({"home": Path(home)}))
        together = await app.create_workspace("together")
        sets = [(path.name, world) for path in files for world in named_apart(path)]
        for number, (file, world) in enumerate(sets):
            inside = messages.add(world)
            await evaluate.add_conversations(together, world)
            if len(inside) >= OWN_WORKSPACE:
                here = await app.create_workspace(f"set-{number}")
                await evaluate.add_conversations(here, world)
                for asked in world.asked:
                    found = await example(here, asked, messages, inside)
                    rows.append({"set": f"{file}:{world.id}", "room": "own", **found})
            print(f"{number + 1} of {len(sets)} test sets", flush=True)
        everything = range(len(messages.texts))
        for file, world in sets:
            for asked in world.asked:
                found = await example(together, asked, messages, everything)
                rows.append({"set": f"{file}:{world.id}", "room": "together", **found})
        await app.close()
    with gzip.open(out, "wt", encoding="utf-8") as file:
        for text in messages.texts:
            file.write(json.dumps({"text": text}, ensure_ascii=False) + "\n")
        for row in [row for row in rows if row["answers"]]:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
        for pair in messages.pairs:
            file.write(json.dumps({"pair": pair}) + "\n")
    print(f"{len(messages.texts)} messages, {len(rows)} questions, {len(messages.pairs)} pairs")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    asyncio.run(collect(given.files, given.out))
