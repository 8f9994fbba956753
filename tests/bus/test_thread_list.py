"""Threads at a glance, and the overview, on both engines."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest
from tests.helpers import Thread, word


def glance(api: httpx.Client, thread: Thread) -> dict[str, Any]:
    answer = api.get("/api/threads/glance?limit=500&include_archived=true").json()
    return next(one for one in answer["threads"] if one["thread"]["id"] == thread.id)


def test_a_thread_shows_how_its_last_message_begins_and_who_spoke_lately(api: httpx.Client):
    thread = Thread(api)
    api.put("/api/read-marks")
    assert glance(api, thread) == {
        "thread": api.get(thread.path).json(),
        "last_message": None,
        "participants": [],
        "read_seq": 0,
    }
    thread.post("first", author="ann")
    thread.post("second", author="bob")
    last = thread.post("x" * 1000, author="ann", metadata={"visibility": "human_only"})
    assert glance(api, thread) == {
        "thread": api.get(thread.path).json(),
        "last_message": {
            "seq": 3,
            "author_name": "ann",
            "text": "x" * 200,
            "is_human_only": True,
            "created_at": last["created_at"],
        },
        "participants": ["ann", "bob"],
        "read_seq": 0,
    }
    api.put(f"{thread.path}/read-mark", json={"seq": 2})
    assert glance(api, thread)["read_seq"] == 2


def test_the_thread_spoken_in_last_comes_first_and_pages_do_not_overlap(api: httpx.Client):
    old, new = Thread(api), Thread(api)
    assert api.get("/api/threads/glance?limit=1").json()["threads"][0]["thread"]["id"] == new.id
    old.post("later")
    pages = [api.get(f"/api/threads/glance?limit=1&offset={offset}").json() for offset in (0, 1)]
    assert [page["threads"][0]["thread"]["id"] for page in pages] == [old.id, new.id]
    assert pages[0]["has_more"] is True


def test_archived_threads_are_shown_only_when_asked_for(api: httpx.Client, thread: Thread):
    api.post(f"{thread.path}/archive")
    ids = [one["thread"]["id"] for one in api.get("/api/threads/glance?limit=500").json()["threads"]]
    assert thread.id not in ids
    assert glance(api, thread)["thread"]["status"] == "archived"


def test_the_overview_counts_messages_by_day_source_and_speaker(api: httpx.Client, thread: Thread):
    name = word("Nell")
    before = api.get("/api/overview?days=1").json()
    for number in range(30):
        thread.post(f"message {number}", author=name)
    after = api.get("/api/overview?days=1").json()
    today = datetime.now(UTC).date().isoformat()

    def said(overview: dict[str, Any]) -> int:
        return sum(day["messages"] for day in overview["days"] if (day["day"], day["source"]) == (today, "bus"))

    assert said(after) - said(before) == 30
    assert {"agent_id": None, "name": name, "messages": 30} in after["speakers"]
    assert after["documents"]["bus"] == before["documents"]["bus"]
    assert after["is_index_complete"] is True
    assert after["storage_bytes"] > 0


def test_the_days_of_the_overview_are_those_of_the_time_zone(api: httpx.Client, thread: Thread):
    thread.post("now")

    def days(zone: str) -> set[str]:
        answer = api.get("/api/overview", params={"days": 2, "timezone": zone}).json()
        return {day["day"] for day in answer["days"]} | {answer["since"]}

    for zone in ("Pacific/Kiritimati", "Pacific/Niue", "Asia/Kathmandu", "UTC"):
        today = datetime.now(ZoneInfo(zone)).date()
        assert today.isoformat() in days(zone)
        assert days(zone) <= {today.isoformat(), (today - timedelta(days=1)).isoformat()}


@pytest.mark.parametrize("zone", ["Nowhere/Land", "../../etc/passwd", "", "Europe"])
def test_an_unknown_time_zone_is_refused(api: httpx.Client, zone: str):
    answer = api.get("/api/overview", params={"timezone": zone})
    assert (answer.status_code, "time zone" in answer.text) == (422, True)
