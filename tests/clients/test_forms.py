"""ask_human in a real Claude Code: its person gets a form at the terminal, while the question is in the inbox too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.clients.model import Call
from tests.clients.tap import listen_between
from tests.clients.terminal import Terminal
from tests.clients.test_wake import Seat, claude
from tests.clients.test_wake import seat as seat
from tests.helpers import eventually

pytestmark = [pytest.mark.clients, pytest.mark.thorough]

RIGHT, DOWN, ENTER, ESCAPE = "\x1b[C", "\x1b[B", "\r", "\x1b"
POINTER = "❯"


@dataclass
class Form:
    """The form in the terminal of a session whose model has asked."""

    seat: Seat
    terminal: Terminal

    def shows(self, words: str, known: int = 0) -> bool:
        return words.replace(" ", "") in self.terminal.text[known:].replace(" ", "")

    def press(self, key: str, shown: str) -> None:
        """Press a key and wait until it shows these words."""
        known = len(self.terminal.text)
        self.terminal.type(key)
        eventually(lambda: self.shows(shown, known))

    def choose(self, choice: str) -> None:
        self.press(RIGHT, "Space to select")
        if choice == "no":
            self.press(DOWN, POINTER)
        self.press(ENTER, f"Answer: {choice}")
        self.terminal.enter("", self.results)  # past the note, and "Accept"

    def question(self) -> dict[str, Any]:
        with self.seat.palaver.rest() as api:
            (found,) = api.get("/api/questions", params={"state": "all"}).raise_for_status().json()["questions"]
        return dict(found)

    def results(self) -> list[str]:
        """What the model read as the result of its call."""
        assert self.seat.model
        said = [one["content"] for _, body in self.seat.model.requests for one in body.get("messages", ())]
        parts = [part for parts in said if isinstance(parts, list) for part in parts]
        return [part["content"] for part in parts if part.get("tool_use_id") == "toolu_0"]

    def result(self) -> dict[str, Any]:
        return dict(json.loads(eventually(self.results)[0]))


@pytest.fixture
def form(seat: Seat) -> Iterator[Form]:
    seat.calls = [Call("ask_human", {"text": "Deploy now?", "choices": ["yes", "no"]})]
    with listen_between(seat.palaver.port) as tap:
        server = {"type": "http", "url": f"http://127.0.0.1:{tap.port}/mcp?tools=core,ask_human"}
        seat.more = ("--mcp-config", json.dumps({"mcpServers": {"palaver": server}}))
        with seat.open() as terminal:
            form = Form(seat, terminal)
            eventually(lambda: any(one.message.get("method") == "tools/list" and one.status for one in tap.exchanges))
            terminal.enter("Follow the script.", lambda: seat.turns)
            eventually(lambda: form.shows("Accept Decline"))
            yield form


@claude
@pytest.mark.parametrize("choice", ["yes", "no"])
def test_the_choice_in_the_form_is_the_answer(form: Form, choice: str):
    form.choose(choice)
    assert (form.result()["state"], form.result()["answer"]) == ("answered", choice)
    assert (form.question()["choice"], form.question()["answered_by"]) == (choice, "human")


@claude
def test_who_closes_the_form_leaves_the_question_in_the_inbox(form: Form):
    form.terminal.type(ESCAPE)
    assert form.result()["state"] == form.question()["state"] == "open"


@claude
def test_an_answer_in_the_inbox_counts_before_a_later_one_in_the_form(form: Form):
    with form.seat.palaver.rest() as api:
        told = {"answer": "no", "note": "not on Friday"}
        api.post(f"/api/questions/{form.question()['question_id']}/answer", json=told).raise_for_status()
    form.choose("yes")
    assert "not on Friday" in form.result()["answer"]
    assert form.question()["choice"] == "no"
