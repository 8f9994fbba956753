"""Questions to people: asked by agents, answered once by a person, and never by an agent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.conftest import BOTH_ENGINES, ONE_ENGINE, Engine
from tests.helpers import Listener, Mcp, Server, Thread, eventually, listen, start_server, started_with, word
from tests.trust.people import Key, make_workspace

pytestmark = ONE_ENGINE


def ask(api: httpx.Client, text: str, **more: Any) -> dict[str, Any]:
    answer = api.post("/api/questions", json={"text": text, "wait_s": 0, **more})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def answer(api: httpx.Client, question: dict[str, Any], text: str, **more: Any) -> httpx.Response:
    return api.post(f"/api/questions/{question['question_id']}/answer", json={"answer": text, **more})


def inbox(api: httpx.Client, state: str = "open") -> dict[str, dict[str, Any]]:
    found = api.get("/api/questions", params={"state": state, "limit": 200}).json()["questions"]
    return {one["question_id"]: one for one in found}


def told(heard: Listener, type: str) -> dict[str, Any]:
    return dict(heard.until(lambda one: one.type == type)[-1].data)


def news(agent: Mcp) -> str:
    return str(agent.ask("tools/call", name="catch_up", arguments={})["content"][0]["text"])


@pytest.fixture
def agent(mcp: Mcp) -> Mcp:
    """An agent that is known to the server."""
    mcp.call("bus_connect", thread_name=word("topic "))
    return mcp


# Asking and answering


@BOTH_ENGINES
def test_a_question_waits_in_the_inbox_and_its_answer_replies_to_it(api: httpx.Client, agent: Mcp, thread: Thread):
    text = word("Shall I deploy ")
    asked = agent.call("ask_human", text=text, choices=["yes", "no"], thread_id=thread.id, wait_s=0)
    assert (asked["state"], asked["answer"], asked["thread_id"]) == ("open", None, thread.id)
    question = inbox(api)[asked["question_id"]]
    assert (question["text"], question["choices"], question["topic"]) == (text, ["yes", "no"], thread.topic)

    done = answer(api, question, "Yes", note="but not on Friday").json()
    assert (done["state"], done["choice"], done["answered_by"]) == ("answered", "yes", "human")
    assert asked["question_id"] not in inbox(api)
    message, reply = thread.messages()
    assert message["id"] == question["question_id"]
    assert (reply["reply_to_msg_id"], reply["content"]) == (message["id"], "yes\n\nbut not on Friday")
    assert (reply["author_id"], reply["author"]) == (None, "human")

    again = agent.call("ask_human", question_id=asked["question_id"], wait_s=0)
    assert (again["state"], again["answer"]) == ("answered", "yes\n\nbut not on Friday")


@BOTH_ENGINES
def test_the_answer_ends_the_waiting_call(api: httpx.Client, agent: Mcp):
    text = word("Which port? ")
    with ThreadPoolExecutor(1) as background:
        waiting = background.submit(agent.call, "ask_human", text=text, wait_s=60)
        eventually(lambda: text in json.dumps(inbox(api)))
        (question,) = [one for one in inbox(api).values() if one["text"] == text]
        answer(api, question, "8080").raise_for_status()
        assert waiting.result()["answer"] == "8080"
    assert "8080" not in news(agent), "it has the answer already"


def test_an_answer_that_came_later_is_news_for_the_agent(api: httpx.Client, agent: Mcp):
    asked = agent.call("ask_human", text=word("Which port? "), wait_s=0)
    assert "wait on" in asked["hint"]
    answer(api, asked, "8081").raise_for_status()
    assert "8081" in news(agent)


def test_without_a_thread_it_is_asked_in_the_thread_questions(api: httpx.Client, agent: Mcp):
    asked = agent.call("ask_human", text=word("why? "), wait_s=0)
    assert inbox(api)[asked["question_id"]]["topic"] == "Questions"


def test_with_choices_only_these_are_answers(api: httpx.Client):
    question = ask(api, word("ok? "), choices=["yes", "no"])
    refused = answer(api, question, "maybe")
    assert (refused.status_code, "yes, no" in refused.text) == (400, True)
    assert inbox(api)[question["question_id"]]["state"] == "open"
    assert answer(api, question, " NO ").json()["choice"] == "no"


@BOTH_ENGINES
def test_the_first_answer_counts_and_the_second_is_told_who_was_first(api: httpx.Client):
    question = ask(api, word("ok? "))
    answer(api, question, "go", author="ann").raise_for_status()
    late = answer(api, question, "stop", author="bob")
    assert late.status_code == 409
    assert "ann has already answered this question: go" in late.text
    assert api.get(f"/api/questions/{question['question_id']}").json()["answer"] == "go"


def test_earlier_answers_to_the_same_question_are_shown(api: httpx.Client):
    text = word("May I use tabs ")
    first = ask(api, text, choices=["yes", "no"])
    answer(api, first, "no", author="ann")
    other = ask(api, text, choices=["never", "no"])
    same = ask(api, f"  {text}\n", choices=["yes", "no"])
    shown = inbox(api)
    (earlier,) = shown[same["question_id"]]["earlier"]
    assert (earlier["question_id"], earlier["answer"], earlier["answered_by"]) == (first["question_id"], "no", "ann")
    assert shown[other["question_id"]]["earlier"] == [], "it gives other choices"


def test_the_words_of_a_question_and_its_answer_stay(api: httpx.Client, agent: Mcp):
    asked = agent.call("ask_human", text="May I list the files?", wait_s=0)
    for message_id in (asked["question_id"], answer(api, asked, "yes").json()["answer_id"]):
        assert "stay as they are" in str(agent.refused("msg_edit", message_id=message_id, content="May I delete it?"))
        assert api.put(f"/api/messages/{message_id}", json={"content": "changed"}).status_code == 400


def test_a_deleted_question_is_gone(api: httpx.Client):
    question = ask(api, word("ok? "))
    api.delete(f"/api/messages/{question['question_id']}").raise_for_status()
    assert question["question_id"] not in inbox(api, "all")
    assert answer(api, question, "yes").status_code == 404


def test_a_secret_is_refused_as_in_a_message(api: httpx.Client):
    refused = api.post("/api/questions", json={"text": f"Use ghp_{'a' * 36}?", "wait_s": 0})
    assert (refused.status_code, "a GitHub token" in refused.text) == (400, True)


# Expiring


class Clock:
    """A server whose questions are moved into the past while it is stopped."""

    def __init__(self, home: Path, url: str) -> None:
        self.home, self.url = home, url

    def server(self) -> Any:
        return start_server(self.home, PALAVER_DATABASE_URL=self.url)

    def move(self, seconds: int) -> None:
        sql = f"UPDATE {{}}questions SET expires_at = expires_at - {seconds * 1_000_000}"
        if self.url.startswith("postgresql"):
            import psycopg

            with psycopg.connect(self.url) as connection:
                connection.execute(sql.format("workspace_default.").encode())
        else:
            import apsw

            file = Path(self.url.removeprefix("sqlite:///")) / "workspaces" / "default.db"
            apsw.Connection(str(file)).execute(sql.format(""))


@pytest.fixture
def clock(engine: Engine, tmp_path: Path) -> Clock:
    return Clock(tmp_path / "home", engine.fresh())


@BOTH_ENGINES
def test_a_question_that_expired_during_a_restart_is_answered_no(clock: Clock):
    with clock.server() as server, server.client() as api:
        question = ask(api, "Shall I?", choices=["yes", "no"], deadline_s=100)
    clock.move(200)
    with clock.server() as server, server.client() as api, listen(api, after=0) as heard:
        assert inbox(api) == {}
        (expired,) = inbox(api, "expired").values()
        assert (expired["question_id"], expired["answer"]) == (question["question_id"], "no")
        refused = answer(api, question, "yes")
        assert (refused.status_code, "expired" in refused.text) == (409, True)
        assert told(heard, "question.expired")["question_id"] == question["question_id"]


def test_a_call_stops_waiting_when_its_question_expires(agent: Mcp):
    asked = agent.call("ask_human", text="Quick?", deadline_s=5, wait_s=600)
    assert (asked["state"], asked["answer"]) == ("expired", "no")
    assert "Nobody answered in time" in asked["hint"]


# Who is a person


@pytest.fixture(scope="module")
def guarded(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp(f"guarded-{engine.name}")
    with start_server(home, PALAVER_AUTH="token", PALAVER_DATABASE_URL=engine.fresh()) as server:
        yield server


def test_agents_never_answer_for_a_person(api: httpx.Client, mcp: Mcp, agent: Mcp, guarded: Server):
    question = ask(api, word("ok? "), choices=["yes", "no"])
    assert "answer_question" not in [tool["name"] for tool in mcp.ask("tools/list")["tools"]]
    known = api.post("/api/agents/register", json={"ide": "Cursor", "model": word()}).json()
    for said in ({"agent_id": known["id"], "token": known["token"]}, {"author": known["name"]}):
        refused = answer(api, question, "yes", **said)
        assert (refused.status_code, "agent" in refused.text) == (403, True), refused.text
    agent.call("msg_post", thread_id=question["thread_id"], content="yes", reply_to_msg_id=question["question_id"])
    assert api.get(f"/api/questions/{question['question_id']}").json()["state"] == "open", "a reply is no answer"

    one = Key(guarded, kind="agent", name=word("robo"), scopes=("read", "write", "admin"))
    person = Key(guarded, name=word("ann"))
    own = one.mcp.call("ask_human", text="May I?", wait_s=0)
    refused = answer(one.api, own, "yes")
    assert (refused.status_code, "Only people" in refused.text) == (403, True)
    assert answer(person.api, own, "yes", author=one.token.name).status_code == 403
    done = answer(person.api, own, "no")
    assert done.json()["answered_by"] == person.token.name


def test_agents_see_only_their_own_questions(guarded: Server):
    one, other = (Key(guarded, kind="agent", name=word("robo")) for _ in range(2))
    person, reader = Key(guarded, name=word("ann")), Key(guarded, name=word("bob"), scopes=("read",))
    secret = word("Is the merger ")
    asked = one.mcp.call("ask_human", text=secret, wait_s=0)
    place = f"/api/questions/{asked['question_id']}"
    assert one.api.get(place).json()["text"] == secret
    assert set(inbox(one.api, "all")) == {asked["question_id"]}
    assert other.api.get(place).status_code == 404
    assert inbox(other.api, "all") == {}
    assert other.mcp.refused("ask_human", question_id=asked["question_id"], wait_s=0)["error"] == "QUESTION_NOT_FOUND"
    assert asked["question_id"] in inbox(reader.api)
    assert answer(reader.api, asked, "yes").status_code == 403
    answer(person.api, asked, "yes").raise_for_status()


def test_nobody_in_another_workspace_sees_a_question(guarded: Server):
    make_workspace(guarded, "elsewhere")
    stranger = Key(guarded, "elsewhere", name="eve", scopes=("read", "write", "admin"))
    asked = Key(guarded, kind="agent", name=word("robo")).mcp.call("ask_human", text="May I?", wait_s=0)
    assert inbox(stranger.api, "all") == {}
    assert answer(stranger.api, asked, "yes").status_code == 404


# Events


def test_listeners_hear_of_questions_and_agents_do_not_read_them(guarded: Server):
    robo, person = Key(guarded, kind="agent", name=word("robo")), Key(guarded, name=word("ann"))
    secret = word("Is the merger ")
    with listen(person.api) as heard, listen(Key(guarded, kind="agent", name=word("x")).api) as overheard:
        asked = robo.mcp.call("ask_human", text=secret, choices=["yes", "no"], wait_s=0)
        answer(person.api, asked, "yes").raise_for_status()
        new, answered = told(heard, "question.new"), told(heard, "question.answered")
        masked = told(overheard, "question.new")
    assert (new["content"], new["metadata"]["question"]["choices"]) == (secret, ["yes", "no"])
    assert new["asked_by"] == robo.token.name
    assert (answered["choice"], answered["answered_by"]) == ("yes", person.token.name)
    assert masked["question_id"] == asked["question_id"]
    assert secret not in json.dumps(masked)


# The command line


def test_a_person_answers_at_the_terminal(clock: Clock):
    with clock.server() as server:
        asking = ("ask", "--wait-s", "0", "--choices", "yes,no", "--json", "Shall I?")
        asked = json.loads(started_with(server.env, *asking).stdout)
        listed = started_with(server.env, "inbox").stdout
        assert "Shall I?" in listed
        assert asked["question_id"] in listed
        assert started_with(server.env, "answer", asked["question_id"], "yes").returncode == 0
        late = started_with(server.env, "answer", asked["question_id"], "no")
        assert (late.returncode, "already answered" in late.stderr) == (1, True)


# Races


@BOTH_ENGINES
def test_no_answer_goes_to_another_question(api: httpx.Client):
    assert race(api, 40) == {"wrong": 0, "answered": 40, "refused": 40}


@pytest.mark.thorough
@pytest.mark.timeout(900)  # four thousand requests
@BOTH_ENGINES
def test_no_answer_of_a_thousand_goes_to_another_question(api: httpx.Client):
    assert race(api, 1_000) == {"wrong": 0, "answered": 1_000, "refused": 1_000}


def race(api: httpx.Client, count: int) -> dict[str, int]:
    """A call waits for each question, and two people answer it at once."""
    counts = {"wrong": 0, "answered": 0, "refused": 0}
    lock, mark = threading.Lock(), word("race")

    def play(number: int) -> None:
        text = f"{mark} {number}"
        question = ask(api, text)
        with ThreadPoolExecutor(3) as crowd:
            waiting = crowd.submit(ask, api, "", question_id=question["question_id"], wait_s=120)
            said = [f"answer to {number} by {who}" for who in ("ann", "bob")]
            given = list(crowd.map(lambda one: answer(api, question, one).status_code, said))
            got = waiting.result()
        with lock:
            counts["wrong"] += got["answer"] not in said or got["text"] != text
            counts["answered"] += given.count(200)
            counts["refused"] += given.count(409)

    with ThreadPoolExecutor(8) as crowd:
        list(crowd.map(play, range(count)))
    return counts
