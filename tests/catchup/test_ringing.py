"""Which messages begin turns: two agents that only thank each other stop, and quiet hours are quiet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from tests.catchup.test_wake import Desk, text_of
from tests.conftest import Engine
from tests.helpers import PATIENCE, Server, Thread, start_server
from tests.tokens import count_tokens

Start = Any


@pytest.fixture
def start(engine: Engine, tmp_path: Any) -> Start:
    @contextmanager
    def begin(**settings: Any) -> Iterator[tuple[Server, httpx.Client]]:
        with start_server(tmp_path, PALAVER_DATABASE_URL=engine.fresh(), **settings) as server, server.client() as api:
            yield server, api

    return begin


def is_woken(desk: Desk) -> bool:
    """Whether a message wakes the session now. Its turn ends at once."""
    woken = bool(desk.wait(wait_s=0).result(PATIENCE)["text"])
    assert desk.report("stop")["text"] == "", "what does not wake keeps nobody from stopping"
    return woken


def thank(thread: Thread, desks: list[Desk]) -> int:
    """Two agents thank each other as long as this wakes the other one. Returns how often."""
    for number in range(20):
        speaker, hearer = desks[number % 2], desks[1 - number % 2]
        thread.post(f"@{hearer.agent} thank you", author=speaker.agent)
        if not is_woken(hearer):
            return number
    return 20


def test_agents_that_thank_each_other_stop_until_a_person_writes(start: Start):
    with start(PALAVER_TURNS_WITHOUT_PERSON="4") as (server, api):
        desks, thread = [Desk(server), Desk(server)], Thread(api)
        thread.post("begin")
        assert thank(thread, desks) == 4
        assert thank(Thread(api), desks) == 4, "another thread"
        thread.post("go on")
        assert thank(thread, desks) == 4
        thread.post("palaver says", role="system")
        assert thank(thread, desks) == 0, "only a person's words count"
        assert "thank you" in desks[1].report("prompt", prompt="and?")["text"], "nothing is lost"


def test_agents_are_told_how_many_turns_are_left(start: Start):
    with start(PALAVER_TURNS_WITHOUT_PERSON="4") as (server, api):
        one, other = Desk(server), Desk(server)
        Thread(api, "a topic of forty characters, not a one m").post(
            f"@{one.agent} " + "x y " * 400, author=other.agent
        )
        text = text_of(one.wait())
        assert "You two may wake each other 3 more times here. Then a person must write." in text
        assert count_tokens(text) <= 150


def test_a_loop_at_stops_ends_too(start: Start):
    with start(PALAVER_TURNS_WITHOUT_PERSON="4") as (server, api):
        one, other, thread = Desk(server), Desk(server), Thread(api)
        one.report("prompt", prompt="begin")
        for number in range(6):
            thread.post(f"@{one.agent} thanks", author=other.agent)
            assert bool(one.report("stop")["text"]) is (number < 4)
            one.report("confirm")


def test_an_hour_has_so_many_turns_and_people_are_not_counted(start: Start):
    with start(PALAVER_TURNS_PER_HOUR="2") as (server, api):
        desks, thread = [Desk(server), Desk(server)], Thread(api)
        assert thank(thread, desks) == 2
        thread.post("go on")
        assert thank(thread, desks) == 0
        for _ in range(3):
            thread.post(f"@{desks[0].agent} hello")
            assert is_woken(desks[0])


def test_quiet_hours_and_priority_and_expects(start: Start):
    with start(PALAVER_QUIET_HOURS="00:00-24:00") as (server, api):
        desk, thread = Desk(server), Thread(api)
        thread.post(f"@{desk.agent} later")
        assert not is_woken(desk)
        thread.post(f"@{desk.agent} fire", priority="urgent")
        assert is_woken(desk)
    with start() as (server, api):
        desk, thread = Desk(server), Thread(api)
        assert thread.post(f"@{desk.agent} done", expects="none")["metadata"] == {"expects": "none"}
        thread.post(f"@{desk.agent} some day", priority="low")
        assert not is_woken(desk)
        text = desk.report("prompt", prompt="?")["text"]
        assert "done" in text
        assert "some day" in text


@pytest.mark.on_postgres(False)
def test_wrong_quiet_hours_are_refused(start: Start):
    with pytest.raises(Exception, match="use two times such as 22:00-07:00"), start(PALAVER_QUIET_HOURS="all night"):
        pass
