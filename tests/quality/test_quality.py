"""The search keeps finding what it found: a small labelled set, asked through the same door as everybody's."""

from __future__ import annotations

from pathlib import Path

import pytest

from palaver.house import House
from palaver.importers.labelled import worlds
from palaver.operations import evaluating
from palaver.settings import Settings

QUESTIONS = Path(__file__).parent / "questions.jsonl"


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, database_url=database_url)


async def test_the_answers_are_found(settings: Settings):
    report = evaluating.Report()
    house = House(settings)
    for world in worlds(QUESTIONS):
        here = await house.create_workspace(world.id)
        await evaluating.settle(here, world)
        report.outcomes += [await evaluating.ask(here, asked, 1024) for asked in world.asked]
    await house.close()
    lines = report.lines(1024)
    assert lines["questions"] == 30
    assert lines["message recall@10"] >= 88
    assert lines["message MRR"] >= 65
    assert lines["conversation hit@1"] >= 93
    assert lines["conversation nDCG@10"] >= 95
