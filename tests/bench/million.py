"""Questions over a million passages in eight sources: `python tests/bench/million.py --passages 1000000`.

The passages are made up, the same on every run: their words fall off in frequency as in real speech, the most frequent
ones are the real English ones, and each document has a few words of its own that come back in it. A question takes some
words of one passage. With `--home` the workspace is kept and used again.

With `--vectors` the model is used: each passage gets a made-up vector. Those of the questions are made by the model.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil

sys.path.insert(0, str(Path(__file__).parent))

from measure import percentile
from palaver.app import App
from palaver.model.people import Caller
from palaver.operations.search.knowledge import SearchKnowledge, search_knowledge
from palaver.search.vectors import background, encoders, nearest
from palaver.settings import load
from palaver.store.engines.database import Change, Reader
from palaver.store.engines.id_ranges import SOURCES
from palaver.store.library import documents
from palaver.store.search import vectors

FREQUENT = [
    "the",
    "to",
    "and",
    "of",
    "a",
    "in",
    "i",
    "is",
    "that",
    "it",
    "for",
    "you",
    "was",
    "on",
    "with",
    "as",
    "have",
    "but",
    "be",
    "they",
    "at",
    "this",
    "are",
    "from",
    "or",
    "not",
    "by",
    "we",
    "he",
    "an",
    "so",
    "if",
    "what",
    "all",
    "there",
    "when",
    "can",
    "has",
    "more",
    "one",
    "had",
    "your",
    "will",
    "about",
    "my",
    "out",
    "up",
    "which",
    "do",
    "his",
    "just",
    "who",
    "me",
    "like",
    "no",
    "them",
    "their",
    "she",
    "would",
    "been",
    "get",
    "some",
    "how",
    "now",
    "other",
    "could",
    "our",
    "into",
    "than",
    "see",
    "know",
    "time",
    "good",
    "then",
    "people",
    "think",
    "also",
    "because",
    "only",
    "way",
    "new",
    "make",
    "use",
    "first",
    "want",
    "work",
    "day",
    "need",
    "these",
    "really",
    "well",
    "after",
    "over",
    "where",
    "most",
    "year",
    "much",
    "back",
    "even",
    "any",
    "may",
    "own",
    "say",
    "right",
    "very",
    "here",
    "go",
    "should",
    "still",
    "going",
    "take",
    "down",
    "long",
    "look",
    "through",
    "last",
    "great",
    "come",
    "something",
    "things",
    "again",
    "never",
    "same",
]
_BEGAN = datetime(2023, 1, 1, tzinfo=UTC)


class Language:
    """Sixty thousand words with their frequencies."""

    def __init__(self, size: int = 60_000, seed: int = 7) -> None:
        self.dice = random.Random(seed)
        syllables = [a + b for a in "bcdfghjklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "il", "or")]
        made = dict.fromkeys(FREQUENT)
        while len(made) < size:
            made["".join(self.dice.choices(syllables, k=self.dice.choice((2, 2, 3, 3, 3, 4))))] = None
        self.words = list(made)
        self.cumulative = list(accumulate(1 / (rank + 2.7) for rank in range(1, size + 1)))

    def speak(self, count: int) -> list[str]:
        return self.dice.choices(self.words, cum_weights=self.cumulative, k=count)

    def topic(self) -> list[str]:
        return [self.words[self.dice.randrange(200, 20_000)] for _ in range(30)]

    def document(self, passages: int) -> Iterator[str]:
        topic = self.topic()
        for _ in range(passages):
            long = self.dice.random() < 0.15
            length = self.dice.randint(80, 250) if long else self.dice.randint(4, 50)
            said = self.speak(length - length // 5) + self.dice.choices(topic, k=length // 5)
            self.dice.shuffle(said)
            yield " ".join(said)

    def question(self, passage: str) -> str:
        """Three to eight words: some of a passage, in their order, after a word that asks."""
        said = passage.split()
        count = min(self.dice.randint(2, 7), len(said))
        at = sorted(self.dice.sample(range(len(said)), count))
        return " ".join([self.dice.choice(("what", "when", "who", "where", "how")), *(said[n] for n in at)]) + "?"


def fill(change: Change, pile: list[tuple[int, list[str]]]) -> None:
    said: dict[str, list[documents.NewPassage]] = {}
    for number, texts in pile:
        source = SOURCES[number % len(SOURCES)]
        began = _BEGAN + timedelta(minutes=number)
        document_id = documents.add_document(
            change,
            source=source,
            native_id=str(number),
            title=" ".join(texts[0].split()[:5]),
            created_at=began,
            data={},
            is_found_by_title=source != "bus",
        )
        said.setdefault(source, []).extend(
            documents.NewPassage(document_id, at, f"{number}-{at}", text, began, role="user" if at % 2 else "assistant")
            for at, text in enumerate(texts, 1)
        )
    for source, some in said.items():
        documents.add_passages(change, source, some)


async def build(home: Path, passages: int, url: str) -> None:
    """Fill the workspace, unless somebody has."""
    app = App(load({"home": home, "database_url": url}))
    here = await app.open()
    language, made, number, spent = Language(), 0, 0, 0.0
    is_there = await here.read(lambda read: read.one("conversation", native_id="2"))
    while made < passages and not is_there:
        pile = []
        for _ in range(100):
            texts = list(language.document(language.dice.randint(5, 60)))
            pile.append((number, texts))
            made, number = made + len(texts), number + 1
        began = time.monotonic()
        await here.change(partial(fill, pile=pile))
        spent += time.monotonic() - began  # making up the texts is not counted
    if made:
        print(f"{made:,} passages, {made / spent:,.0f} a second", file=sys.stderr)
    await app.close()


class MadeUpVectors:
    """In place of the model, which takes 45 ms for a passage."""

    def __init__(self) -> None:
        import numpy as np

        self._dice = np.random.default_rng(7)

    def encode(self, texts: Sequence[str], _seconds: float) -> Any:
        return self._dice.standard_normal((len(texts), 384))


async def add_vectors(home: Path, url: str) -> None:
    """Give each passage a made-up vector, unless it has one."""
    app = App(load({"home": home, "database_url": url}))
    here, made_up = await app.open(), MadeUpVectors()
    with patch.object(encoders, "encoder", lambda *_, **__: made_up):
        await background.make_all(here)
    model = encoders.stored_name(here.settings.model)
    print(f"{await here.read(lambda read: vectors.counts(read, model).vectors):,} vectors", file=sys.stderr)
    await app.close()


def some_passage(read: Reader, dice: random.Random, passages: int) -> str:
    """Of one of the first documents: which number they have says where they are kept."""
    number = dice.randrange(passages // 50)
    document = read.must("document_by_native", source=SOURCES[number % len(SOURCES)], native_id=str(number))
    return str(dice.choice(read.all("whole_passages", document_id=document["id"], first=1, last=5))["text"])


async def ask(home: Path, passages: int, count: int, url: str) -> None:
    """Ask, and print what it cost: processor time of this process, which does nothing else."""
    app = App(load({"home": home, "database_url": url}))
    here = await app.open()
    language = Language()
    choose = partial(some_passage, dice=language.dice, passages=passages)
    asked = [language.question(await here.read(choose)) for _ in range(count)]
    await nearest.load_whole(here)
    spent, elapsed, found = [], [], 0
    for number, question in enumerate([asked[0], *asked]):
        began, clock = time.process_time(), time.monotonic()
        answer = await search_knowledge.work(here, Caller("human"), SearchKnowledge(query=question, dedupe=False))
        if number:  # the first one loads the model
            spent.append((time.process_time() - began) * 1000)
            elapsed.append((time.monotonic() - clock) * 1000)
            found += bool(answer.results)
    await app.close()
    print(f"{count} questions, {found} with results; milliseconds of CPU, and of waiting:")
    for share in (50, 90, 95, 99):
        print(f"  p{share}: {percentile(spent, share):6.1f} {percentile(elapsed, share):8.1f}")
    print(f"resident memory: {psutil.Process().memory_info().rss / 2**20:.0f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--vectors", action="store_true")
    parser.add_argument("--postgres", metavar="URL", default="", help="use this database, which is kept")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = given.home or Path(temporary)
        asyncio.run(build(place, given.passages, given.postgres))
        if given.vectors:
            asyncio.run(add_vectors(place, given.postgres))
        asyncio.run(ask(place, given.passages, given.questions, given.postgres))
