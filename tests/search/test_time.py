"""A question that names a time: what was said then comes first."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from tests.helpers import Mcp, started_with, word
from tests.search.test_features import passage, seen

from palaver.model.times import micros
from palaver.search.question import parse

MAY = "2023-05-08T12:00:00Z"
JULY = "2023-07-20T12:00:00Z"


def chat(api: httpx.Client, *said: tuple[str, str]) -> str:
    """A chat with messages, each at its time."""
    id = str(api.post("/api/chats", json={"title": word()}).json()["id"])
    for at, content in said:
        body = {"sender": "Ann", "content": content, "created_at": at}
        api.post(f"/api/chats/{id}/messages", json=body).raise_for_status()
    return id


def own_day() -> datetime:
    """A day of which no other test says anything."""
    return datetime(1971, 1, 1, 12, tzinfo=UTC) + timedelta(days=int.from_bytes(word().encode()) % 9_000)


def ask(api: httpx.Client, query: str, **more: object) -> dict:
    body = {"query": query, "dedupe": False, "sources": ["chats"], **more}
    answer = api.post("/api/knowledge/search", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def texts(answer: dict) -> list[str]:
    return [hit["snippet"] for hit in answer["results"]]


def test_what_was_said_at_the_time_comes_first(api: httpx.Client):
    unique = word()
    chat(api, (MAY, f"the {unique} is red"), (JULY, f"the {unique} is blue"))
    for query, first in [
        (f"What colour was the {unique} in May 2023?", "red"),
        (f"What colour was the {unique} in July 2023?", "blue"),
        (f"Welche Farbe hatte {unique} im Mai 2023?", "red"),
        (f"{unique} July 2023", "blue"),
    ]:
        assert texts(ask(api, query))[0].endswith(first), query


def test_the_time_is_relative_to_the_asking_date(api: httpx.Client):
    unique = word()
    chat(api, (MAY, f"the {unique} is red"), (JULY, f"the {unique} is blue"))
    query = f"What colour did the {unique} have last week?"
    assert texts(ask(api, query, as_of="2023-05-17T10:00:00Z"))[0].endswith("red")
    assert texts(ask(api, query, as_of="2023-07-26T10:00:00Z"))[0].endswith("blue")


def test_the_answer_shows_the_range_that_was_understood(api: httpx.Client):
    answer = ask(api, f"{word()} yesterday", as_of="2023-05-09T01:00:00+02:00", explain=True)
    yesterday = {"text": "yesterday", "from": "2023-05-07T22:00:00Z", "to": "2023-05-08T22:00:00Z"}
    assert answer["time"] == [yesterday]
    other = ask(api, f"{word()} yesterday", as_of="2023-05-09T01:00:00Z", time_zone="America/New_York", explain=True)
    assert other["time"][0]["from"] == "2023-05-07T04:00:00Z"
    before = ask(api, f"{word()} before 2022", time_zone="UTC", explain=True)
    assert before["time"] == [{"text": "before 2022", "from": None, "to": "2022-01-01T00:00:00Z"}]
    assert ask(api, word(), explain=True)["time"] == []
    assert ask(api, f"{word()} yesterday")["time"] is None


def test_an_unknown_time_zone_is_refused(api: httpx.Client):
    for zone in ("Europe/Nowhere", "America", "../etc/passwd", "/etc/localtime", "+99:99"):
        answer = api.get("/api/knowledge/search", params={"q": "x", "time_zone": zone})
        assert answer.status_code == 422, zone
        assert "must be a time zone as in Europe/Berlin" in answer.text
    assert api.get("/api/knowledge/search", params={"q": "x", "time_zone": "", "as_of": ""}).status_code == 200


def assert_first_is_red(context: str) -> None:
    """What was said at another time comes later. If other tests said much, it has no room."""
    before, is_red, _ = context.partition("is red")
    assert is_red
    assert "is blue" not in before


def test_tools_accept_the_asking_date(mcp: Mcp, api: httpx.Client):
    unique = word()
    chat(api, (MAY, f"the {unique} is red"), (JULY, f"the {unique} is blue"))
    asked = {"query": f"What did we say of the {unique} last week?", "as_of": "2023-05-17", "time_zone": "UTC"}
    for tool in ("knowledge_search", "chats_search"):
        assert mcp.call(tool, **asked)["results"][0]["snippet"].endswith("red")
    context = mcp.call("knowledge_answer_context", **asked)["text"]
    assert_first_is_red(context)


def test_commands_take_the_asking_date(api: httpx.Client):
    unique = word()
    chat(api, (MAY, f"the {unique} is red"), (JULY, f"the {unique} is blue"))
    query, asking = f"What did we say of the {unique} last week?", ("--as-of", "2023-05-17", "--time-zone", "UTC")
    env = {name: value for name, value in os.environ.items() if not name.startswith("PALAVER_")}
    found = started_with(env, "search", query, *asking, "--json", "--url", str(api.base_url))
    assert found.returncode == 0, found.stderr
    assert texts(json.loads(found.stdout))[0].endswith("red")
    context = started_with(env, "context", query, *asking, "--url", str(api.base_url)).stdout
    assert_first_is_red(context)


def test_a_question_that_only_names_a_time_finds_what_was_said_then(api: httpx.Client):
    day = own_day()
    chat(api, (day.isoformat(), "the harbour is full"), ((day + timedelta(days=400)).isoformat(), "nobody came"))
    for query in (f"What happened on {day:%-d %B %Y}?", f"{day:%Y-%m-%d}", "yesterday"):
        found = texts(ask(api, query, as_of=(day + timedelta(days=1)).isoformat(), time_zone="UTC"))
        assert "the harbour is full" in found, query
        assert "nobody came" not in found[:1]


def test_filters_hold_for_passages_that_were_found_by_their_time(api: httpx.Client):
    day = own_day()
    chat(api, (day.isoformat(), "the harbour is full"))
    query = f"What happened on {day:%-d %B %Y}?"
    assert "the harbour is full" in texts(ask(api, query))
    assert "the harbour is full" not in texts(ask(api, query, sources=["notes"]))
    assert "the harbour is full" not in texts(ask(api, query, date_from=(day + timedelta(days=1)).isoformat()))
    assert "the harbour is full" not in texts(ask(api, query, filters={"chats": {"sender": "Bob"}}))


def test_a_deleted_chat_is_not_found_by_its_time(api: httpx.Client):
    day = own_day()
    id = chat(api, (day.isoformat(), "the harbour is full"))
    query = f"What happened on {day:%-d %B %Y}?"
    assert "the harbour is full" in texts(ask(api, query))
    api.delete(f"/api/chats/{id}").raise_for_status()
    assert "the harbour is full" not in texts(ask(api, query))


# Features


def at(moment: str) -> int:
    return micros(datetime.fromisoformat(moment))


def test_a_passage_of_the_period_is_in_time_and_others_less():
    inside, near, before, far = seen(
        "What did Ann say on 8 May 2023?",
        passage("yes", at=at("2023-05-08T23:00Z")),
        passage("yes", at=at("2023-05-10T00:00Z"), position=5),
        passage("yes", at=at("2023-05-07T00:00Z"), position=9),
        passage("yes", at=at("2024-05-08T00:00Z"), position=13),
    )
    assert inside.in_time == 1.0
    assert 1.0 > near.in_time > before.in_time > 0.3
    assert far.in_time < 0.01


def test_a_text_that_names_the_day_is_seen():
    that_day, other_day, month = seen(
        "What did Ann do on 7 May 2023?",
        passage("I went sailing yesterday", at=at("2023-05-08T12:00Z")),
        passage("I went sailing yesterday", at=at("2023-05-09T12:00Z"), position=5),
        passage("I went sailing in May", at=at("2023-06-09T12:00Z"), position=9),
    )
    assert that_day.names_time == 1.0
    assert other_day.names_time == 0.0
    assert 0.0 < month.names_time < 0.1


def test_without_a_time_in_the_question_time_counts_nothing():
    (one,) = seen("What did Ann do?", passage("I went sailing yesterday", at=at("2023-05-08T12:00Z")))
    assert one.in_time == one.names_time == 0.0


@pytest.mark.parametrize("question", ["When did Ann sail?", "Wann segelte Ann?", "In welchem Monat segelte sie?"])
def test_a_question_for_a_time_prefers_texts_with_one(question: str):
    dated, german, other = seen(
        question,
        passage("I sailed on Friday"),
        passage("Ich segelte letzten Monat", position=5),
        passage("I sailed alone", position=9),
    )
    assert (dated.time, german.time, other.time) == (1.0, 1.0, 0.0)


def test_words_of_the_time_are_still_looked_for():
    question = parse("What did Ann say in March 2023?", datetime(2023, 6, 1, tzinfo=UTC), UTC)
    assert [" ".join(term.words) for term in question.terms] == ["ann", "say", "march", "2023"]
    assert {" ".join(term.words) for term in question.time_terms} == {"march", "2023"}
    assert [one.text for one in question.times] == ["March 2023"]
