"""The overview counts by day who said how much and in which project. An agent gets only the counts of its own sessions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.helpers import Server, Thread, word
from tests.trust.people import Key, make_workspace

NOW = datetime.now(UTC)
TODAY, YESTERDAY = NOW.date().isoformat(), (NOW - timedelta(days=1)).date().isoformat()


def record(key: Key, agent: str, turns: int, project: str) -> None:
    """Record a session whose turns alternate between today and yesterday."""
    days = [(NOW - timedelta(days=number % 2)).isoformat() for number in range(turns)]
    given = [{"id": word(), "role": "user", "content": "turn", "ts": day, "project": project} for day in days]
    path = f"/api/v1/agents/{agent}/sessions/{word()}/messages"
    answer = key.api.put(path, json={"turns": given})
    assert answer.status_code == 200, answer.text


def overview(key: Key, days: int = 3) -> dict[str, Any]:
    answer = key.api.get("/api/overview", params={"days": days})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.fixture
def workspace(guarded: Server) -> str:
    name = word("space")
    make_workspace(guarded, name)
    return name


@pytest.fixture
def person(guarded: Server, workspace: str) -> Key:
    return Key(guarded, workspace, name="nell")


def test_messages_of_authors_and_projects_are_counted_by_day(person: Key):
    record(person, "coder", 5, "/src/garden")
    record(person, "painter", 2, "/src/house")
    Thread(person.api).post("hello", author=None)
    found = overview(person)
    named = [(one["name"], one["days"]) for one in found["authors"]]
    assert named == [
        ("coder", {TODAY: 3, YESTERDAY: 2}),
        ("painter", {TODAY: 1, YESTERDAY: 1}),
        ("nell", {TODAY: 1}),
    ]
    assert found["projects"] == [
        {"project": "/src/garden", "days": {TODAY: 3, YESTERDAY: 2}},
        {"project": "/src/house", "days": {TODAY: 1, YESTERDAY: 1}},
    ]
    assert overview(person, days=1)["projects"][0]["days"] == {TODAY: 3}


def test_only_the_most_active_projects_are_listed(person: Key):
    for number in range(1, 11):
        record(person, "coder", number, f"/src/{number}")
    assert [one["project"] for one in overview(person)["projects"]] == [f"/src/{number}" for number in range(10, 2, -1)]


def test_an_agent_gets_no_counts_of_sessions_of_others(guarded: Server, workspace: str, person: Key):
    own = Key(guarded, workspace, "agent", "robo")
    record(person, "coder", 5, "/src/garden")
    record(own, str(own.token.agent_id), 2, "/src/house")
    found = overview(own)
    assert [(one["name"], sum(one["days"].values())) for one in found["authors"]] == [("robo", 2)]
    assert [one["project"] for one in found["projects"]] == ["/src/house"]
    assert [one["project"] for one in overview(person)["projects"]] == ["/src/garden", "/src/house"]
