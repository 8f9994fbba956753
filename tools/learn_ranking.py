"""Learn how much each feature of a passage counts, from labelled questions: writes search/ranking/weights.toml.

    python tools/learn_ranking.py FILE… [--together FILE…] [--models DIR DIR] [--write]

Each question is asked in the workspace of its test set. Those about sessions of LongMemEval, in the files of
`--together`, are also asked in one workspace of all these sessions; in its own history such a question counts twice.
What the search knows about each passage that it reads is kept. Then, for talk with an assistant and for all other
texts, weights are sought under which each passage that answers is ahead of all that do not, held near those in
ranking_prior.toml. It learns from one half of the test sets and tests on the other, both ways, and prints that; at
last it learns from all. LoCoMo and BEAM are for testing only: their licences do not allow more.

With PALAVER_MODEL=words the tables without the model are learned, otherwise those “with meaning”. The shipped model has
learned from some of the questions. So that its features are not taken for better than they are, `--models` names two
models of tools/pack_model.py, made from adapters that learned from one half each (tools/train_model.py --half); a test
set is then searched with the model that has not learned from it. Making the vectors of 80,000 messages takes about two
hours of one core. Weights of titles, of the newest and of single words are set by hand.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from zlib import crc32

import numpy as np

import evaluate
from labelled_questions import Asked, World, renamed, worlds
from palaver.app import App
from palaver.search.question import parse
from palaver.search.ranking import score
from palaver.search.ranking.features import Features, passages_of
from palaver.search.ranking.score import FILE
from palaver.search.recall import choose, lookup
from palaver.search.vectors import background, encoders, meaning, nearest
from palaver.search.vectors.minilm import MiniLM
from palaver.settings import load
from palaver.store.engines.database import Reader, Scope
from palaver.store.workspaces import Workspace

HELD = 0.001
"""How strongly the weights are held where they begin."""
BY_HAND = ("title", "is_title", "newest")
KINDS = ("people", "assistant")
STEPS = 250
LONGMEMEVAL = "longmemeval"
"""What the names of test sets with sessions of LongMemEval have in them."""
PRIOR = Path(__file__).parent / "ranking_prior.toml"
Array = np.ndarray


@dataclass
class TestSet:
    name: str
    """The name of its file, and its own."""
    world: World


@dataclass
class Example:
    """What the search knew about the passages of one question."""

    name: str
    kind: str
    features: Array
    answers: Array
    talks: list[str]
    asked: Asked


def half_of(name: str) -> int:
    """The half, 0 or 1, in which a test set is. tools/train_model.py has the same rule."""
    return crc32(name.encode()) % 2


class LocalModel:
    """A model from a folder, in place of the shipped one."""

    def __init__(self, folder: Path) -> None:
        self._run = MiniLM(folder)

    def encode(self, texts: Sequence[str], seconds: float) -> Array:
        return self._run([text[: encoders.LONGEST_TEXT] for text in texts])


def example(read: Reader, asked: Asked, name: str) -> Example:
    question, scopes = parse(asked.question, asked.as_of, UTC), [Scope(("chats",))]
    candidates = choose.place_hits(read, lookup.find_hits(read, question, scopes))
    texts = choose.read_texts(read, question, candidates, scopes)
    scored = [one for one in score.rank(read, question, candidates, texts).passages if one.features]
    kinds = [one.kind for one in passages_of(question, texts)]
    wanted = {f"{talk}/{line}" for talk, line in asked.evidence}
    return Example(
        name,
        max(KINDS, key=kinds.count),
        np.array([one.features for one in scored], np.float32).reshape(-1, len(Features._fields)),
        np.array([one.at.native_id in wanted for one in scored], bool),
        [one.at.document for one in scored],
        asked,
    )


async def ask_all(here: Workspace, sets: Sequence[TestSet], half: int | None) -> list[Example]:
    """Add the conversations of all sets, and ask the questions of those that are not in a half."""
    for one in sets:
        await evaluate.add_conversations(here, one.world)
    await background.catch_up(here)
    await nearest.load_whole(here)
    return [
        await here.read(lambda read, asked=asked, name=one.name: example(read, asked, name))
        for one in sets
        if half_of(one.name) != half
        for asked in one.world.asked
    ]


async def examples(sets: Sequence[TestSet], together: Sequence[TestSet], half: int | None) -> list[Example]:
    found: list[Example] = []
    sets = [one for one in sets if half_of(one.name) != half]
    with tempfile.TemporaryDirectory(prefix="palaver-learn-") as home:
        app = App(load({"home": Path(home)}))
        for number, one in enumerate(sets):
            found += await ask_all(await app.create_workspace(f"set-{number}"), [one], half)
            print(f"\r{number + 1} of {len(sets)} test sets", end="", flush=True)
        if together:
            found += await ask_all(await app.create_workspace("together"), together, half)
        print()
        await app.close()
    return found


def read_sets(files: Sequence[Path]) -> list[TestSet]:
    """The test sets of some files. Those of LongMemEval share sessions, whose names stay."""
    found = []
    for path in files:
        for world in worlds(path):
            name = f"{path.name}:{world.id}"
            found.append(TestSet(name, world if LONGMEMEVAL in name else renamed(world, world.id)))
    return found


def learned(some: Sequence[Example], start: Array, held: float, free: Array) -> Array:
    """Adam over the loss log(1 + Σ exp(wrong - right)) of each right passage. All passages are in one array."""
    some = [one for one in some if one.answers.any()]
    features = np.concatenate([one.features for one in some])
    is_right = np.concatenate([one.answers for one in some])
    sizes = np.array([len(one.answers) for one in some])
    begins = np.cumsum(sizes) - sizes
    number = np.repeat(np.arange(len(some)), sizes)  # of the question, for each passage
    rights = np.add.reduceat(is_right.astype(float), begins)
    now, first, second = start.copy(), np.zeros_like(start), np.zeros_like(start)
    for step in range(1, STEPS + 1):
        points = (features @ now.astype(np.float32)).astype(float)
        points -= np.maximum.reduceat(points, begins)[number]
        wrong = np.exp(points) * ~is_right
        total = np.maximum(np.add.reduceat(wrong, begins), 1e-9)
        share = is_right / (1 + np.exp(points - np.log(total)[number])) / rights[number]
        pull = wrong / total[number] * np.add.reduceat(share, begins)[number] - share
        slope = (pull.astype(np.float32) @ features / len(some) + 2 * held * (now - start)) * free
        first = 0.9 * first + 0.1 * slope
        second = 0.99 * second + 0.01 * slope**2
        now -= 0.05 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
    return now


def quality(some: Sequence[Example], now: Array) -> Array:
    """Message recall@10; conversation hit@1 and hit@5."""
    rows = []
    for one in some:
        order = np.argsort(-(one.features @ now), kind="stable")
        talks = list(dict.fromkeys(one.talks[n] for n in order))
        right = [talk in one.asked.conversations for talk in talks[:5]]
        rows.append((one.answers[order[:10]].sum() / max(1, len(one.asked.evidence)), any(right[:1]), any(right)))
    return (100 * np.mean(rows, axis=0)).round(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--together", nargs="*", type=Path, default=[])
    parser.add_argument("--models", nargs=2, type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    has_model = background.is_set(load())
    found: list[Example] = []
    for half in (0, 1) if given.models and has_model else (None,):
        if half is not None:
            model = LocalModel(given.models[half])
            encoders.encoder = lambda *_, model=model, **__: model
            meaning._encoded.cache_clear()
        together = [one for one in read_sets(given.together) if LONGMEMEVAL in one.name]
        found += asyncio.run(examples(read_sets(given.files), together, half))
    prior, result = (tomllib.loads(path.read_text("utf-8")) for path in (PRIOR, FILE))
    names = Features._fields
    for kind in KINDS:
        some, table = [one for one in found if one.kind == kind], f"{kind} with meaning" if has_model else kind
        start = np.array([prior[table].get(name, 0.0) for name in names])
        free = np.array(
            [name not in BY_HAND and (has_model or not name.startswith("meaning")) for name in names], float
        )
        held = HELD["with meaning" if has_model else "words"]
        print(f"{table}: {len(some)} questions (recall@10, hit@1, hit@5)")
        for half in (0, 1):
            others = [one for one in some if half_of(one.name) != half]
            own = [one for one in some if half_of(one.name) == half]
            print(f"  half {half}, learned from the other:", quality(own, learned(others, start, held, free)))
        final = learned(some, start, held, free)
        print("  learned from all:", quality(some, final))
        result[table] = {
            name: round(float(value), 2) for name, value in zip(names, final, strict=True) if round(value, 2)
        }
    if given.write:
        FILE.write_text("".join(_table(name, values) for name, values in result.items()), "utf-8")


def _table(name: str, values: dict[str, float]) -> str:
    title = f'"{name}"' if " " in name else name
    return f"[{title}]\n" + "".join(f"{key} = {value}\n" for key, value in values.items()) + "\n"


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
