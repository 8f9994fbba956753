"""The inbox of the console: what agents ask people."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, Page, ViewportSize, expect
from tests.console.conftest import Opening, both_sizes, both_themes
from tests.console.test_mentions import NOTIFICATIONS
from tests.helpers import Thread, eventually, word

Question = dict[str, Any]
MENU = ".rail a[href='#/questions']"


def ask(rest: httpx.Client, text: str, **more: Any) -> Question:
    answer = rest.post("/api/questions", json={"text": text, "wait_s": 0, **more})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def answered(rest: httpx.Client, question: Question) -> Question:
    return dict(rest.get(f"/api/questions/{question['question_id']}").json())


def card(page: Page, question: Question) -> Locator:
    return page.locator(f"#q-{question['question_id']}")


@pytest.fixture(autouse=True)
def empty_inbox(rest: httpx.Client) -> None:
    """Other tests leave no open questions."""
    for one in rest.get("/api/questions").json()["questions"]:
        rest.post(f"/api/questions/{one['question_id']}/answer", json={"answer": (one["choices"] or ["-"])[0]})


@both_themes
@both_sizes
def test_a_question_arrives_is_counted_and_a_choice_answers_it(
    window: Opening, rest: httpx.Client, viewport: ViewportSize, scheme: str
):
    text = word("Shall I deploy ")
    first = ask(rest, text, choices=["yes", "no"])
    rest.post(f"/api/questions/{first['question_id']}/answer", json={"answer": "no", "author": "ann"})
    page = window("#/threads", viewport=viewport, color_scheme=scheme)
    entry = page.locator(MENU)
    question = ask(rest, text, choices=["yes", "no"])
    expect(entry).to_contain_text("1")
    entry.click()
    shown = card(page, question)
    expect(shown).to_contain_text(text)
    expect(shown.locator(".before")).to_contain_text("no ann")
    shown.get_by_label("Note to the agent").fill("but not on Friday")
    shown.get_by_role("button", name="yes", exact=True).click()
    expect(shown.locator(".result")).to_contain_text("yes")
    expect(shown).to_be_focused()
    expect(entry).not_to_contain_text("1")
    assert answered(rest, question)["answer"] == "yes\n\nbut not on Friday"
    assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]


def test_a_free_answer_is_sent_with_the_keyboard(window: Opening, rest: httpx.Client):
    question = ask(rest, word("Which port? "))
    page = window("#/threads")
    expect(page.locator(MENU)).to_contain_text("1")
    page.keyboard.press("g")
    page.keyboard.press("q")
    expect(card(page, question)).to_be_visible()
    page.keyboard.press("j")
    expect(card(page, question)).to_be_focused()
    for key in ("Tab", "Tab"):  # the link to the thread, and the field
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    assert answered(rest, question)["state"] == "open", "an empty answer is not sent"
    page.keyboard.type("8081")
    page.keyboard.press("Enter")
    expect(card(page, question).locator(".result")).to_contain_text("8081")
    assert answered(rest, question)["answer"] == "8081"


def test_enter_in_a_note_presses_no_choice(window: Opening, rest: httpx.Client):
    question = ask(rest, word("ok? "), choices=["yes", "no"])
    page = window("#/questions")
    field = card(page, question).get_by_label("Note to the agent")
    field.fill("not yet")
    field.press("Enter")
    card(page, question).get_by_role("button", name="no", exact=True).click()
    expect(card(page, question).locator(".result")).to_contain_text("no")
    assert answered(rest, question)["choice"] == "no"


def test_a_question_that_somebody_else_answers_stays_in_its_place(window: Opening, rest: httpx.Client):
    first, second = (ask(rest, word("ok? "), choices=["yes", "no"]) for _ in range(2))
    page = window("#/questions")
    expect(page.locator(".question")).to_have_count(2)
    rest.post(f"/api/questions/{first['question_id']}/answer", json={"answer": "no", "author": "ann"})
    expect(card(page, first).locator(".result")).to_contain_text("no ann")
    third = ask(rest, word("ok? "))
    expect(card(page, third)).to_be_visible()
    shown = page.locator(".question").evaluate_all("all => all.map((one) => one.id.slice(2))")
    assert shown == [one["question_id"] for one in (first, second, third)]
    page.evaluate("location.hash = '#/threads'")
    page.locator(MENU).click()
    expect(page.locator(".question")).to_have_count(2)
    expect(page.locator(".earlier li", has_text=first["text"])).to_contain_text("no · ann")


def test_a_late_answer_is_refused_and_the_page_shows_the_first(window: Opening, rest: httpx.Client):
    question = ask(rest, word("Which port? "))
    page = window("#/questions")
    card(page, question).get_by_label("Answer").fill("8082")
    page.route("**/events*", lambda route: route.abort())
    page.route("**/api/questions?*", lambda route: route.abort())
    rest.post(f"/api/questions/{question['question_id']}/answer", json={"answer": "8081", "author": "ann"})
    card(page, question).get_by_role("button", name="Send answer").click()
    expect(page.get_by_text("ann has already answered this question: 8081")).to_be_visible()
    page.unroute_all()
    assert answered(rest, question)["answer"] == "8081"


def test_characters_that_deceive_the_reader_are_shown_and_not_obeyed(window: Opening, rest: httpx.Client):
    question = ask(rest, f"Run {word()}\u202egnp.exe a\u200bb \x1b[2K?", choices=["y\u2066es", "no"])
    page = window("#/questions")
    marks = card(page, question).locator(".invisible")
    expect(marks).to_have_text(["U+202E", "U+200B", "U+001B", "U+2066"])
    assert card(page, question).evaluate("one => /[\\u202e\\u200b\\u001b\\u2066]/.test(one.textContent)") is False
    card(page, question).get_by_role("button", name="yU+2066es").click()
    expect(card(page, question).locator(".result")).to_be_visible()
    assert answered(rest, question)["choice"] == "y\u2066es"


@both_themes
@both_sizes
def test_a_permission_request_shows_the_exact_command_and_is_allowed_once(
    window: Opening, rest: httpx.Client, viewport: ViewportSize, scheme: str
):
    command = f"rm -rf {word()} \u202egnp.exe\n{'x' * 300}"
    told = {"client": "codex", "session": word(), "project": "/srv/work", "tool": "Bash", "seconds": 60}
    page = window("#/questions", viewport=viewport, color_scheme=scheme)
    expect(page.get_by_text("No open questions")).to_be_visible()
    with ThreadPoolExecutor(1) as background:
        waiting = background.submit(rest.post, "/api/hooks/permission", json=told | {"input": {"command": command}})
        shown = page.locator(".question")
        expect(shown).to_contain_text("asks for permission to use Bash")
        expect(shown.locator(".exact")).to_have_text(command.replace("\u202e", "U+202E"))
        expect(shown.locator(".place")).to_have_text("in /srv/work")
        assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]
        shown.get_by_role("button", name="Allow this once").click()
        assert waiting.result().json() == {"decision": "allow", "reason": "human said yes in palaver."}
    expect(shown.locator(".result")).to_contain_text("yes")


def test_a_request_that_was_answered_elsewhere_says_so(window: Opening, rest: httpx.Client):
    told = {"client": "codex", "session": word(), "project": "/srv/work", "tool": "Bash", "seconds": 1}
    page = window("#/questions")
    expect(page.get_by_text("No open questions")).to_be_visible()
    assert rest.post("/api/hooks/permission", json=told | {"input": {"command": "ls"}}).json()["decision"] == ""
    expect(page.locator(".question .result")).to_have_text("The program does not wait for an answer here any more.")


def test_a_question_in_its_thread_leads_to_the_inbox(window: Opening, rest: httpx.Client, thread: Thread):
    question = ask(rest, word("ok? "), thread_id=thread.id)
    page = window(f"#/threads/{thread.id}")
    page.get_by_role("link", name="See it under Questions").click()
    expect(card(page, question)).to_be_focused()


def test_the_system_tells_of_a_question_after_a_click_and_leads_to_it(window: Opening, rest: httpx.Client):
    page = window("#/questions")
    page.evaluate(NOTIFICATIONS)
    expect(page.get_by_text("No open questions")).to_be_visible()
    page.get_by_role("button", name="Notify me").click()
    expect(page.get_by_role("button", name="Notify me")).to_have_count(0)
    page.evaluate("document.hasFocus = () => false")
    text = word("Shall I deploy ")
    ask(rest, text)
    eventually(lambda: page.evaluate("shown.length") == 1)
    assert page.evaluate("shown") == [["human asks you", text]]
