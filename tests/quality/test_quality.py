"""The search keeps finding what it found: a small labelled set, asked through the same door as everybody's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import evaluate
from labelled_questions import worlds
from palaver.app import App
from palaver.model.people import Caller
from palaver.operations.search.knowledge import SearchKnowledge, search_knowledge
from palaver.settings import Settings

QUESTIONS = Path(__file__).parent / "questions.jsonl"


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, database_url=database_url)


async def test_the_answers_are_found(settings: Settings):
    report = evaluate.Report()
    app = App(settings)
    for world in worlds(QUESTIONS):
        here = await app.create_workspace(world.id)
        await evaluate.add_conversations(here, world)
        report.outcomes += [await evaluate.evaluate(here, asked, 1024) for asked in world.asked]
    await app.close()
    lines = report.lines(1024)
    assert lines["questions"] == 30
    assert lines["message recall@10"] >= 88
    assert lines["message MRR"] >= 65
    assert lines["conversation hit@1"] >= 93
    assert lines["conversation nDCG@10"] >= 95


async def first_ten(settings: Settings) -> list[list[str]]:
    """The uris of the best ten results of every question."""
    found, app = [], App(settings)
    for world in worlds(QUESTIONS):
        here = await app.create_workspace(world.id)
        await evaluate.add_conversations(here, world)
        for asked in world.asked:
            ask = SearchKnowledge(query=asked.question, limit=10, dedupe=False)
            answer = await search_knowledge.work(here, Caller("human"), ask)
            found.append([getattr(item, "uri", "") for item in answer.results])
    await app.close()
    return found


async def test_both_engines_give_the_same_ten_results(postgres: Callable[[], str], tmp_path: Path):
    one = await first_ten(Settings(home=tmp_path / "a", database_url=f"sqlite:///{tmp_path / 'a'}"))
    other = await first_ten(Settings(home=tmp_path / "b", database_url=postgres()))
    assert one == other


def test_the_questions_for_testing_are_not_those_for_learning():
    learn, test = ([*worlds(QUESTIONS.with_name(f"{half}.jsonl.gz"))] for half in ("learn", "test"))
    for some in (learn, test):
        for world in some:
            there = {(talk.id, line.id) for talk in world.talks for line in talk.lines}
            assert all(asked.evidence and asked.evidence <= there for asked in world.asked), world.id
    texts = [{line.text for world in some for talk in world.talks for line in talk.lines} for some in (learn, test)]
    questions = [{asked.question for world in some for asked in world.asked} for some in (learn, test)]
    assert not questions[0] & questions[1]
    assert len(texts[0] & texts[1]) < 20  # "Thank you!" and the like
    assert sum(map(len, questions)) >= 1_500
