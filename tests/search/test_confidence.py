"""A page says how likely the answer is on it, and when it is probably not in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.conftest import Engine
from tests.helpers import Mcp, start_server, word

import evaluate
from labelled_questions import worlds
from palaver.app import App
from palaver.search import hints
from palaver.search.ranking.confidence import Signs
from palaver.search.ranking.score import weights
from palaver.search.vectors import background
from palaver.settings import Settings

QUESTIONS = Path(__file__).parents[1] / "quality" / "questions.jsonl"


@pytest.mark.parametrize("model", ["words", "minilm"])
async def test_questions_with_and_without_an_answer_are_told_apart(database_url: str, tmp_path: Path, model: str):
    report, app = evaluate.Report(), App(Settings(home=tmp_path, database_url=database_url, model=model))
    sets = list(worlds(QUESTIONS))
    for world in sets:
        here = await app.create_workspace(f"{world.id}-{model}")
        await evaluate.add_conversations(here, world)
        await background.make_all(here)
        report.outcomes += [await evaluate.evaluate(here, asked, 1024) for asked in world.asked]
        for asked in evaluate.foreign_to(world, sets):
            answer = await evaluate.ask(here, asked)
            report.foreign.append(answer.confidence or 0.0)
    await app.close()
    found = report.of_confidence()
    assert found["confidence AUC"] > 0.9
    assert found["confidence ECE"] < 0.2  # of 60 questions; docs/guides/ranking.md has the figures of thousands


@pytest.fixture
def alone(engine: Engine, tmp_path: Path) -> Iterator[httpx.Client]:
    """A server of its own: the confidence depends on what else is there."""
    with start_server(tmp_path, PALAVER_DATABASE_URL=engine.fresh()) as server, server.client() as api:
        yield api


def test_a_question_about_something_else_is_probably_not_in_memory(alone: httpx.Client):
    api = alone
    boat, place = word(), word()
    id = api.post("/api/chats", json={"title": word()}).json()["id"]
    said = f"The {boat} needs a new mast before we sail to {place}"
    api.post(f"/api/chats/{id}/messages", json={"sender": "Ann", "content": said}).raise_for_status()

    def found(query: str, **more: object) -> dict:
        body = {"query": query, "dedupe": False, "sources": ["chats"], **more}
        return dict(api.post("/api/knowledge/search", json=body).json())

    known = found(f"What does the {boat} need before we sail to {place}?")
    assert known["confidence"] > 0.8
    assert known["hint"] is None
    other = f"Which {word()} did the {word()} of {word()} order when the {word()} was new?"
    unknown = found(other)
    assert unknown["confidence"] < 0.2
    assert hints.NOT_HERE in unknown["hint"]
    agent = Mcp(api, "/mcp?tools=core").call("knowledge_search", query=other, dedupe=False, sources=["chats"])
    assert hints.NOT_HERE in agent["hint"]
    assert agent["confidence"] == unknown["confidence"]
    assert found(id)["confidence"] == 1.0
    assert found(word(), sources=["notes"])["confidence"] == 0.0
    assert found("in:nowhere")["confidence"] is None


def test_every_weight_is_of_a_sign():
    for table in ("confidence", "confidence with meaning"):
        assert set(weights()[table]) <= set(Signs._fields)


def test_the_error_is_how_far_the_confidence_is_from_the_share_that_is_right():
    assert evaluate.expected_error([(0.95, True), (0.95, True), (0.05, False), (0.05, False)]) == pytest.approx(0.05)
    assert evaluate.expected_error([(0.9, False), (0.9, True)]) == pytest.approx(0.4)
