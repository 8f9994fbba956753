"""Which sessions a briefing shows, how open points are closed, and what a session reads after a compaction."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.conftest import Engine
from tests.helpers import Mcp, Server, start_server, started_with, word
from tests.tokens import count_tokens
from tests.trust.people import Key

from palaver.app import App
from palaver.model.people import Caller, Client
from palaver.operations.catchup.briefing import compaction_briefing
from palaver.settings import Settings


@pytest.fixture(scope="module")
def place(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp(f"choice-{engine.name}")
    with start_server(home, PALAVER_DATABASE_URL=engine.fresh()) as server:
        yield server


@pytest.fixture
def api(place: Server) -> Iterator[httpx.Client]:
    with place.client() as client:
        yield client


class Project:
    """A project in which sessions are recorded."""

    def __init__(self, api: httpx.Client) -> None:
        self.api, self.path = api, f"/src/{word('project-')}"

    def session(self, *turns: tuple[str, str], agent: str = "codex", id: str | None = None, **more: Any) -> str:
        id = id or word("session-")
        for role, content in turns:
            told = {"role": role, "content": content, "project": self.path, **more}
            answer = self.api.post(f"/api/v1/agents/{agent}/sessions/{id}/messages", json=told)
            assert answer.status_code == 201, answer.text
        return id

    def work(self, **more: Any) -> str:
        return self.session(
            ("user", "Write umlauts into the CSV export"),
            ("tool", '[tool Edit] {"file_path": "/src/app/exporter.py", "old_string": "a", "new_string": "b"}'),
            ("tool", "ok"),
            ("assistant", "We decided to write UTF-8 with a BOM. TODO: rotate the keys."),
            **more,
        )

    def small_talk(self) -> str:
        return self.session(("user", "hello"), ("assistant", "hi there"))

    def briefing(self) -> str:
        told = {"client": "claude-code", "session": word("s-"), "project": self.path}
        return str(self.api.post("/api/hooks/session-start", json=told).json()["text"])

    def news(self, **more: Any) -> dict[str, Any]:
        return dict(self.api.post("/api/catch-up", json={"project": self.path, **more}).json())

    def points(self) -> list[dict[str, Any]]:
        return list(self.api.get("/api/open-points", params={"project": self.path}).json()["points"])


@pytest.fixture
def project(api: httpx.Client) -> Project:
    return Project(api)


# Which sessions are shown


def test_later_small_talk_does_not_push_out_the_work(project: Project):
    work = project.work()
    for _ in range(7):
        project.small_talk()
    text = project.briefing()
    assert "Codex, now: Write umlauts into the CSV export. Edited exporter.py." in text
    assert "Decided: We decided to write UTF-8 with a BOM. Open: TODO: rotate the keys." in text
    assert "hi there" not in text
    assert "hello" not in text
    assert "knowledge_search" in text
    assert [one["session_id"] for one in project.news()["sessions"]] == [work]


def test_small_talk_alone_is_not_shown(project: Project):
    for _ in range(3):
        project.small_talk()
    project.session(("user", "wait until Monday, please"), ("assistant", "Understood, I wait until Monday."))
    text = project.briefing()
    assert "Work in this project" not in text
    assert "Monday" not in text
    assert project.news()["sessions"] == []


def test_a_request_that_decides_is_told_once(project: Project):
    said = "We will write the export as UTF-8 with a BOM, and we drop Latin-1 in all of our files."
    project.session(("user", said), ("assistant", "I see."))
    assert f"- Codex, now: Decided: {said}" in project.briefing()


def test_a_question_about_the_project_comes_after_the_work(project: Project):
    asked = project.session(("user", "Why does the export lose umlauts?"), ("assistant", "Latin-1 has them."))
    work = project.work(ts="2025-11-05T10:00:00Z")
    project.small_talk()
    assert [one["session_id"] for one in project.news()["sessions"]] == [asked, work]


def test_more_work_comes_before_less_and_recent_work_before_old(project: Project):
    old = project.work(ts="2025-01-05T10:00:00Z")
    recent = project.work()
    little = project.session(("user", "why?"), ("assistant", "The tests still fail on ARM."))
    found = [one["session_id"] for one in project.news()["sessions"]]
    assert found == [recent, little, old]


def test_a_briefing_of_much_work_has_at_most_600_tokens(project: Project):
    for number in range(12):
        sentence = f"We decided to use approach {number} for the part {word()}, because it is faster and much simpler. "
        project.session(("user", f"Do the part {number} " * 30), ("assistant", sentence * 5 + "TODO: measure it. " * 5))
    assert count_tokens(project.briefing()) <= 600


# Open points


def test_a_closed_point_does_not_appear_again(project: Project, api: httpx.Client):
    project.work()
    (point,) = project.points()
    assert (point["text"], point["project"]) == ("TODO: rotate the keys.", project.path)
    closed = api.post(f"/api/open-points/{point['point']}/close").json()
    assert closed == {**point, "is_closed": True}
    assert project.points() == []
    assert "rotate the keys" not in project.briefing()
    assert project.news()["sessions"][0]["left_open"] == []


def test_a_point_that_two_sessions_name_is_closed_once(project: Project, api: httpx.Client):
    project.work()
    project.session(("user", "what is left?"), ("assistant", "Open: rotate the keys!"))
    (point,) = project.points()
    api.post(f"/api/open-points/{point['point']}/close")
    assert project.points() == []


def test_a_tool_and_a_command_close_a_point_by_its_text(project: Project, api: httpx.Client, place: Server):
    first, second = word("alpha"), word("beta")
    project.session(("user", "go"), ("assistant", f"TODO: rotate the {first}. TODO: rename the {second}."))
    assert (
        Mcp(api, f"/mcp?tools=all&project={project.path}").call("point_close", point=f"rotate the {first}")["is_closed"]
        is True
    )
    assert first not in project.briefing()
    done = started_with(place.env, "point", "close", f"rename the {second}")
    assert done.returncode == 0, done.stderr
    assert project.points() == []
    assert started_with(place.env, "point", "close", word("gamma")).returncode == 3


@pytest.mark.parametrize("role", ["assistant", "user"])
def test_a_later_turn_of_any_session_of_the_project_closes_a_point(project: Project, role: str):
    project.session(("user", "export"), ("assistant", "The export of umlauts is still broken."))
    assert "export of umlauts" in project.briefing()
    project.session((role, "The export of umlauts is fixed now."), agent="gemini-cli")
    assert project.points() == []
    assert "still broken" not in project.briefing()


def test_a_report_of_another_point_project_or_time_closes_nothing(project: Project, api: httpx.Client):
    project.session(("assistant", "Done: rotate the keys."), ts="2025-01-05T10:00:00Z")
    project.session(("user", "go"), ("assistant", "TODO: rotate the keys."))
    project.session(("assistant", "Done: rename the keys. Rotating the keys will be done on Monday."))
    Project(api).session(("assistant", "Done: rotate the keys."))
    assert [one["text"] for one in project.points()] == ["TODO: rotate the keys."]


def test_a_failure_in_the_middle_of_the_work_is_not_left_open(project: Project):
    project.session(
        ("user", "fix the parser"),
        ("assistant", "The parser still fails on empty input."),
        ("assistant", "It handles every input of the corpus."),
    )
    assert project.points() == []


# After a compaction


def test_a_compacted_session_reads_about_itself(engine: Engine, tmp_path: Path):
    home = tmp_path / "home"
    url = engine.fresh()
    with start_server(home, PALAVER_DATABASE_URL=url) as server, server.client() as api:
        project = Project(api)
        project.work(agent="gemini-cli")
        session = project.session(
            ("user", "Make the export write umlauts, and keep the header"),
            ("assistant", "We will use UTF-8 with a BOM instead of Latin-1."),
            ("tool", '[tool Edit] {"file_path": "/src/app/exporter.py", "old_string": "a", "new_string": "b"}'),
            ("tool", "ok"),
            ("tool", '[tool Bash] {"command": "pytest tests/test_export.py"}'),
            ("tool", "Exit code 1\nFAILED tests/test_export.py::test_header"),
            ("tool", '[tool Bash] {"command": "ruff check"}'),
            ("tool", "Exit code 1\nE501"),
            ("tool", '[tool Bash] {"command": "ruff check"}'),
            ("tool", "All checks passed"),
            ("assistant", "The header is written. TODO: update the guide."),
            ("user", "Now the semicolons, please"),
            agent="claude-code",
        )

    text = asyncio.run(compacted(home, url, session, project.path))
    assert "Make the export write umlauts, and keep the header" in text
    assert "Now the semicolons, please" in text
    assert "We will use UTF-8 with a BOM instead of Latin-1." in text
    assert "/src/app/exporter.py" in text
    assert "pytest tests/test_export.py: FAILED tests/test_export.py::test_header" in text
    assert "ruff" not in text
    assert "TODO: update the guide." in text
    assert "rotate the keys" not in text  # that is another session
    assert count_tokens(text) <= 500


async def compacted(home: Path, url: str, session: str, project: str | None) -> str:
    app = App(Settings(home=home, database_url=url))
    try:
        workspace = await app.open()
        caller = Caller(kind="agent", client=Client("claude-code", "Claude Code", project or ""))
        return await compaction_briefing(workspace, caller, None, session, project)
    finally:
        await app.close()


def test_a_compacted_session_of_which_nothing_is_recorded_reads_nothing(tmp_path: Path):
    assert asyncio.run(compacted(tmp_path, "", word(), "/src/nowhere")) == ""


# Who may close a point


@pytest.fixture(scope="module")
def guarded(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp(f"guarded-{engine.name}")
    with start_server(home, PALAVER_DATABASE_URL=engine.fresh(), PALAVER_AUTH="token") as server:
        yield server


def test_an_agent_neither_lists_nor_closes_points_of_sessions_that_it_may_not_read(guarded: Server):
    owner, stranger = (Key(guarded, kind="agent", name=word("robo")) for _ in range(2))
    person = Key(guarded, name=word("ann"))
    project = Project(owner.api)
    project.session(("assistant", f"TODO: rotate the {word()}"), agent=owner.token.name)
    (point,) = project.points()
    assert stranger.api.get("/api/open-points").json() == {"points": []}
    absent = stranger.api.post("/api/open-points/0123456789/close")
    refused = stranger.api.post(f"/api/open-points/{point['point']}/close")
    assert (refused.status_code, absent.status_code) == (404, 404)
    assert refused.text.replace(point["point"], "") == absent.text.replace("0123456789", "")
    assert project.points() == [point]
    reader = Key(guarded, name=word("reader"), scopes=("read",))
    assert reader.api.post(f"/api/open-points/{point['point']}/close").status_code == 403
    assert person.api.post(f"/api/open-points/{point['point']}/close").status_code == 200
    assert project.points() == []
