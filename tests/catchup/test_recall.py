"""Recall: evidence for a prompt, and silence where memory has nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.conftest import Engine
from tests.helpers import Server, Thread, start_server, started_with, word
from tests.tokens import count_tokens


@pytest.fixture(scope="module")
def place(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp(f"recall-{engine.name}")
    with start_server(home, PALAVER_DATABASE_URL=engine.fresh(), PALAVER_RECALL="on") as server, server.client() as api:
        for text in TALK:
            Thread(api).post(text)
        yield server


TALK = [
    "The staging database of the payment service runs on port 6543, behind the harbour proxy.",
    "We decided that invoices are rounded to two decimal places, half to even.",
    "The release notes are written on Fridays by whoever has the pager.",
    *(f"Lunch on day {number} was soup with bread, and somebody brought apples." for number in range(40)),
]


def prompt(place: Server, text: str, session: str = "", project: Path | None = None) -> str:
    told = {"client": "codex", "session": session or word(), "prompt": text, "project": project and str(project)}
    with httpx.Client(base_url=place.url) as api:
        briefing = api.post("/api/hooks/session-start", json={**told, "prompt": None}).raise_for_status().json()
        shown = {"confirmed": [briefing["delivery"]]}
        answer = api.post("/api/hooks/prompt", json=told | shown).raise_for_status().json()
        api.post("/api/hooks/session-end", json=told)
        return str(answer["text"])


@pytest.mark.parametrize(
    "text, found",
    [
        ("Which port does the staging database of the payment service run on?", "6543"),
        ("How are invoices rounded to decimal places?", "half to even"),
    ],
)
def test_evidence_comes_with_the_prompt(place: Server, text: str, found: str):
    answer = prompt(place, text)
    assert found in answer
    assert answer.startswith("palaver: from memory")
    assert count_tokens(answer) <= 400


@pytest.mark.parametrize(
    "text",
    [
        "go on",
        "thanks, looks good",
        "fix the failing test in the parser",
        "Add type hints to the function that draws the chart, please.",
        "Why does the compiler complain about the missing semicolon?",
        "?",
        "x" * 5_000,
    ],
)
def test_it_is_silent_where_memory_has_nothing(place: Server, text: str):
    assert prompt(place, text) == ""


def test_a_project_can_turn_it_off(place: Server, tmp_path: Path):
    question = "Which port does the staging database of the payment service run on?"
    assert "6543" in prompt(place, question, project=tmp_path)
    (tmp_path / "palaver.toml").write_text('recall = "off"\n')
    assert "6543" not in prompt(place, question, project=tmp_path)


def test_the_text_of_earlier_hooks_in_a_prompt_is_not_searched_for(place: Server):
    context = "<hook_context>Which port does the staging database of the payment service run on?</hook_context>"
    assert prompt(place, f"{context}\n\ngo on") == ""
    assert "6543" in prompt(place, "<hook_context>x</hook_context>\nWhich port does the payment service database use?")


def test_what_was_said_in_the_same_session_is_left_out(place: Server, tmp_path: Path):
    unique = word()
    for session in ("this", "another"):
        turn = json.dumps({"role": "user", "content": f"The {unique} lighthouse keeper {session} signals at midnight."})
        words = ["session", "append", "--agent", "codex", "--session", f"{unique}-{session}"]
        assert started_with(place.env, *words, input=turn).returncode == 0
    answer = prompt(place, f"When does the {unique} lighthouse keeper signal?", f"{unique}-this")
    assert "keeper another signals" in answer
    assert "keeper this signals" not in answer


def test_it_is_off_by_default(api: httpx.Client):
    unique = word()
    Thread(api).post(f"The {unique} harbour proxy listens on port 6543.")
    told = {"client": "codex", "session": word()}
    briefing = api.post("/api/hooks/session-start", json=told).json()
    asked = {
        **told,
        "confirmed": [briefing["delivery"]],
        "prompt": f"Which port does the {unique} harbour proxy listen on?",
    }
    assert api.post("/api/hooks/prompt", json=asked).json()["text"] == ""
