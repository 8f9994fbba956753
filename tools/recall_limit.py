"""How often recall speaks, on labelled questions: `python tools/recall_limit.py ../shared/bench/locomo_dev.json.gz`.

Each test set is filled with its conversations. Then its own questions are asked, which memory can answer, and questions
of other sets, which it cannot. Prints for several limits how often recall would speak.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from pathlib import Path

from evaluate import add_conversations, read
from palaver.app import App
from palaver.operations.catchup.recall import FEWEST_TERMS, LIMIT
from palaver.search import search
from palaver.search.question import parse
from palaver.settings import Settings
from palaver.store.engines.database import Reader, Scope

SETS, QUESTIONS = 30, 20


def confidence(reader: Reader, text: str) -> float:
    question = parse(text)
    if len(question.terms) < FEWEST_TERMS:
        return 0.0
    return search(reader, question, [Scope(("chats",))], "relevance", 1).confidence or 0.0


async def main(paths: list[str]) -> None:
    dice = random.Random(1)
    own: list[float] = []
    foreign: list[float] = []
    for path in paths:
        worlds = read(Path(path))
        dice.shuffle(worlds)
        for world in worlds[:SETS]:
            others = [asked.question for other in worlds if other is not world for asked in other.asked]
            mine = [asked.question for asked in world.asked]
            with tempfile.TemporaryDirectory() as home:
                app = App(Settings(home=Path(home)))
                here = await app.open()
                await add_conversations(here, world)
                for texts, found in ((mine, own), (others, foreign)):
                    for text in dice.sample(texts, min(QUESTIONS, len(texts))):
                        found.append(await here.read(lambda reader, text=text: confidence(reader, text)))
                await app.close()
    print("| limit | speaks where memory has the answer | speaks where it has none |\n|---|---|---|")
    for limit in (0.6, 0.7, LIMIT, 0.9):
        shares = [100 * sum(one >= limit for one in some) / max(1, len(some)) for some in (own, foreign)]
        print(f"| {limit} | {shares[0]:.0f} % | {shares[1]:.1f} % |")


asyncio.run(main(sys.argv[1:]))
