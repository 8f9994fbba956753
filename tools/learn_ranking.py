"""Learn how much each feature of a passage counts, from labelled questions: writes src/palaver/search/weights.toml.

    python tools/learn_ranking.py ../shared/bench/locomo_dev.json.gz ../shared/bench/longmemeval_dev.jsonl.gz
    python tools/learn_ranking.py FILE… --write

Every question is put to the search as it is, and what it saw of each passage is kept. Then, for each kind of talk,
weights are sought under which the passages that answer stand out (softmax over the passages of a question), held near
the ones in ranking_prior.toml: there are few questions and many weights. Before anything is written it learns from one
half of the conversations and tests on the other, both ways, and prints what came of it. Nothing is learned about
titles, about what is newest, or about written text: no labelled questions tell of them, so those are set by hand.

With PALAVER_MODEL set its vectors are made first, and then it is learned what the stronger model's likeness counts, all
others staying as they are without it: who sets no model has the same weights. Without it what a stronger model counts
stays what it is today.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import tomllib
from collections import defaultdict
from dataclasses import dataclass, replace
from math import log2
from pathlib import Path

import numpy as np

from palaver.app import App
from palaver.importers.chats.labelled_questions import Asked, worlds
from palaver.operations.admin import evaluation
from palaver.search import recall
from palaver.search.expand import expand
from palaver.search.question import parse
from palaver.search.ranking import score
from palaver.search.ranking.features import Features
from palaver.search.ranking.weights import FILE
from palaver.search.vectors import background
from palaver.settings import load
from palaver.store.engines.database import Reader, Scope

HELD = {"people": 0.002, "assistant": 0.01, "stronger": 0.01}
"""How strongly the weights are held where they are: the fewer questions, the more."""
BY_HAND = ("title", "is_title", "newest")
STRONGER = ("stronger", "stronger_before", "stronger_behind")
STEPS = 600
PRIOR = Path(__file__).parent / "ranking_prior.toml"


@dataclass
class Example:
    world: str
    seen: np.ndarray
    answers: np.ndarray
    talks: list[str]
    asked: Asked


async def examples(path: Path) -> tuple[str, list[Example]]:
    """What the search saw of the passages of each question, and which of them answer it."""
    found, kind = [], "people"
    with tempfile.TemporaryDirectory(prefix="palaver-learn-") as home:
        app = App(load({"home": Path(home)}))
        for number, world in enumerate(worlds(path)):
            if not world.asked:
                continue
            here = await app.create_workspace(f"w{number}")
            await evaluation.add_conversations(here, world)
            await background.catch_up(here)
            if {line.speaker for talk in world.talks for line in talk.lines} <= {"user", "assistant"}:
                kind = "assistant"
            for asked in world.asked:
                found.append(await here.read(lambda read, a=asked, w=world.id: _example(read, a, w)))
        await app.close()
    return kind, found


def _example(read: Reader, asked: Asked, world: str) -> Example:
    question, scopes = parse(asked.question), [Scope(("chats",))]
    candidates = recall.place_hits(read, recall.find_hits(read, expand(question), scopes))
    texts = recall.read_texts(read, question, candidates, scopes)
    scored = [one for one in score.rank(read, question, candidates, texts).passages if one.features]
    wanted = {f"{talk}/{line}" for talk, line in asked.evidence}
    seen = np.array([one.features for one in scored]) if scored else np.zeros((0, len(Features._fields)))
    answers = np.array([one.at.native_id in wanted for one in scored], bool)
    return Example(world, seen, answers, [one.at.document for one in scored], asked)


def learned(examples: list[Example], start: np.ndarray, held: float) -> np.ndarray:
    """What everything counts but a stronger model; then, where there is one, what that counts beside it."""
    of_stronger = np.array([name in STRONGER for name in Features._fields], float)
    by_hand = np.array([name in BY_HAND for name in Features._fields], float)
    without = [replace(one, seen=one.seen * (1 - of_stronger)) for one in examples]
    now = _learned(without, start, held, (1 - of_stronger) * (1 - by_hand))
    is_set = any((one.seen * of_stronger).any() for one in examples)
    return _learned(examples, now, HELD["stronger"], of_stronger) if is_set else now


def _learned(examples: list[Example], start: np.ndarray, held: float, free: np.ndarray) -> np.ndarray:
    """Adam over the softmax of each question."""
    some = [one for one in examples if one.answers.any()]
    now, first, second = start.copy(), np.zeros_like(start), np.zeros_like(start)
    for step in range(1, STEPS + 1):
        slope = np.zeros_like(start)
        for one in some:
            points = one.seen @ now
            share = np.exp(points - points.max())
            right = share * one.answers
            slope -= (right / right.sum() - share / share.sum()) @ one.seen
        slope = (slope / len(some) + 2 * held * (now - start)) * free
        first = 0.9 * first + 0.1 * slope
        second = 0.99 * second + 0.01 * slope**2
        now -= 0.05 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
    return now


def quality(examples: list[Example], now: np.ndarray) -> np.ndarray:
    """Message recall@10; conversation hit@1, hit@5 and nDCG@10."""
    rows = []
    for one in examples:
        order = np.argsort(-(one.seen @ now), kind="stable")
        recall = one.answers[order[:10]].sum() / max(1, len(one.asked.evidence))
        talks = list(dict.fromkeys(one.talks[n] for n in order))[:10]
        right = [talk in one.asked.conversations for talk in talks]
        ideal = sum(1 / log2(n + 2) for n in range(min(10, len(one.asked.conversations))))
        gain = sum(1 / log2(n + 2) for n, is_right in enumerate(right) if is_right) / ideal
        rows.append((recall, any(right[:1]), any(right[:5]), gain))
    return 100 * np.mean(rows, axis=0)


def halves(examples: list[Example]) -> list[tuple[list[Example], list[Example]]]:
    names = list(dict.fromkeys(one.world for one in examples))
    odd = set(names[::2])
    one = [example for example in examples if example.world in odd]
    other = [example for example in examples if example.world not in odd]
    return [(one, other), (other, one)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    by_kind: dict[str, list[Example]] = defaultdict(list)
    for path in asked.files:
        kind, found = asyncio.run(examples(path))
        by_kind[kind] += found
    result, today = (tomllib.loads(path.read_text("utf-8")) for path in (PRIOR, FILE))
    for kind, found in by_kind.items():
        if not background.is_set(load()):
            result[kind] |= {name: today[kind].get(name, 0.0) for name in STRONGER}
        start = np.array([result[kind].get(name, 0.0) for name in Features._fields])
        print(f"{kind}: {len(found)} questions (recall@10, hit@1, hit@5, nDCG@10)")
        print("  where it begins: ", quality(found, start).round(1))
        tested = [(quality(test, learned(train, start, HELD[kind])), len(test)) for train, test in halves(found)]
        print(
            "  other half:      ", np.average([q for q, _ in tested], axis=0, weights=[n for _, n in tested]).round(1)
        )
        final = learned(found, start, HELD[kind])
        print("  learned from all:", quality(found, final).round(1))
        result[kind] = {
            name: round(float(value), 2) for name, value in zip(Features._fields, final, strict=True) if value
        }
    if asked.write:
        FILE.write_text("".join(_table(kind, values) for kind, values in result.items()), "utf-8")


def _table(kind: str, values: dict[str, float]) -> str:
    return f"[{kind}]\n" + "".join(f"{name} = {value}\n" for name, value in values.items()) + "\n"


if __name__ == "__main__":
    main()
