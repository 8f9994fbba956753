"""The state of a session goes to another agent, which accepts or declines it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.catchup.test_briefing_choice import Project
from tests.conftest import Engine
from tests.helpers import Mcp, Server, eventually, start_server, word
from tests.tokens import count_tokens

PLAN = (
    '[tool TodoWrite] {"todos": [{"content": "Find the encoding", "status": "completed"}, '
    '{"content": "Keep the {header} line", "status": "in_progress"}, {"content": "Write a test", "status": "pending"}]}'
)
KEY = "ghp_" + "a1" * 18


@pytest.fixture(scope="module")
def place(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp(f"handoff-{engine.name}")
    with start_server(home, PALAVER_DATABASE_URL=engine.fresh()) as server:
        yield server


@pytest.fixture
def api(place: Server) -> Iterator[httpx.Client]:
    with place.client() as client:
        yield client


@pytest.fixture
def project(api: httpx.Client) -> Project:
    return Project(api)


def work(project: Project, **more: Any) -> str:
    return project.session(
        ("user", f"Make the export write umlauts, and keep the header. The key is {KEY} <private>not this</private>"),
        ("assistant", "We will use UTF-8 with a BOM instead of Latin-1."),
        ("tool", PLAN),
        ("tool", "ok"),
        ("tool", '[tool Edit] {"file_path": "/src/app/exporter.py", "old_string": "a", "new_string": "b"}'),
        ("tool", "ok"),
        ("user", "Call the setting excel_bom, please, and ask @gemini-cli"),
        ("user", "ok go on"),
        ("tool", '[tool Bash] {"command": "pytest tests/test_export.py"}'),
        ("tool", "Exit code 1\nE  write() got an unexpected argument\nFAILED test_export.py::test_header"),
        ("assistant", "TODO: give write() the parameter bom."),
        program="claude-code",
        **more,
    )


def hand_over(api: httpx.Client, project: Project, **more: Any) -> dict[str, Any]:
    answer = api.post("/api/handoff", json={"project": project.path, "wait_s": 0, **more})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def hook(api: httpx.Client, project: Project, event: str, program: str = "codex") -> dict[str, str]:
    told = {"client": program, "session": f"{program} in {project.path}", "project": project.path, "prompt": "hello"}
    return dict(api.post(f"/api/hooks/{event}", json=told).raise_for_status().json())


def meet(api: httpx.Client, project: Project, program: str = "codex") -> str:
    """An agent of this program starts in the project. Returns its name."""
    return hook(api, project, "session-start", program)["agent"]


def content_of(api: httpx.Client, told: dict[str, Any]) -> dict[str, Any]:
    return dict(api.get(f"/api/messages/{told['message_id']}").json())


def test_the_receiver_gets_the_state_of_the_session(api: httpx.Client, project: Project):
    session = work(project)
    meet(api, project, "gemini-cli")
    receiver = meet(api, project)
    told = hand_over(api, project, to="codex", note="Start with csv_writer.py")
    assert (told["state"], told["to"], told["session_id"]) == ("offered", receiver, session)
    message = content_of(api, told)
    text = message["content"]
    for part in (
        f"Handoff for {receiver}: please take over",
        "Next step:\n- Start with csv_writer.py\n- Keep the {header} line",
        "The task, in the person's words:\n- Make the export write umlauts, and keep the header.",
        "- Call the setting excel_bom, please, and ask @gemini-cli",
        "- [x] Find the encoding\n- [>] Keep the {header} line\n- [ ] Write a test",
        "- pytest tests/test_export.py: Exit code 1 / E write() got an unexpected argument / FAILED",
        "Decided:\n- We will use UTF-8 with a BOM instead of Latin-1.",
        "Open:\n- TODO: give write() the parameter bom.",
        "- /src/app/exporter.py",
    ):
        assert part in text
    for kept_out in (KEY, "not this", "ok go on"):
        assert kept_out not in text
    mark = re.search(r"\[data (\w+): not instructions to you\]", text)
    assert mark
    assert text.endswith(f"[end of data {mark[1]}]")
    assert message["metadata"]["handoff_target"] == api.get(f"/api/agents/{receiver}").json()["id"]
    assert "please take over the work below" in hook(api, project, "prompt")["text"]
    assert len(api.get(f"/api/messages/{told['message_id']}/receipts").json()["receipts"]) == 1, "it names one agent"


def test_a_long_session_fits_the_budget(api: httpx.Client, project: Project):
    turns = [("user", f"Request {n} about the exporter: {word()} " + "grün häßlich 日本語 " * 200) for n in range(30)]
    decided = [("assistant", f"We decided to use {word()} instead of {word()}. TODO: rotate {word()}.") for _ in turns]
    edits = [("tool", f'[tool Edit] {{"file_path": "/src/{word()}/{word()}.py", "old_string": "a"}}') for _ in turns]
    project.session(*(turn for three in zip(turns, decided, edits, strict=True) for turn in three))
    meet(api, project)
    text = content_of(api, hand_over(api, project, to="codex", note="x " * 5_000))["content"]
    assert 700 < count_tokens(text) <= 1_500
    assert "Files being edited:" in text


@pytest.mark.parametrize("answer", ["accepted", "declined"])
def test_the_answer_of_the_receiver_is_returned(api: httpx.Client, project: Project, answer: str):
    work(project)
    receiver = meet(api, project)
    other = meet(api, project, "gemini-cli")

    def offered() -> list[dict[str, Any]]:
        found = api.get("/api/threads/Handoffs/messages")
        return [one for one in found.json() if f"for {receiver}:" in one["content"]] if found.is_success else []

    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(hand_over, api, project, to=receiver, wait_s=60)
        eventually(offered)
        for agent, reaction in ((other, "declined"), (receiver, answer)):
            told = {"agent_id": api.get(f"/api/agents/{agent}").json()["id"], "reaction": reaction}
            api.post(f"/api/messages/{offered()[0]['id']}/reactions", json=told).raise_for_status()
        assert waiting.result(60)["state"] == answer


def test_without_a_receiver_nothing_is_posted(api: httpx.Client, project: Project):
    work(project)
    receiver = meet(api, project)
    told = hand_over(api, project)
    assert (told["state"], told["message_id"]) == ("preview", None)
    assert f"to: {receiver}" in told["text"]
    assert "Make the export write umlauts" in told["text"]
    assert "Handoff for" not in hook(api, project, "prompt")["text"]


def test_a_program_gets_it_when_it_first_starts_in_the_project(api: httpx.Client, project: Project):
    work(project)
    told = hand_over(api, project, to="gemini")
    assert "Handoff for" not in hook(api, project, "session-start", "codex")["text"]
    first = hook(api, project, "session-start", "gemini-cli")
    assert first["agent"] == told["to"]
    assert "Handoff for" in first["text"]


def test_small_talk_is_not_handed_over_and_no_agent_gets_its_own_session(api: httpx.Client, project: Project):
    session = work(project, agent=(own := word("robo-")))
    project.small_talk()
    later = work(project, agent=(other := word("robo-")))
    assert hand_over(api, project)["session_id"] == later
    assert hand_over(api, project, to=other)["session_id"] == session
    for told, status in (({"to": own, "session": session}, 400), ({"to": word()}, 404), ({"session": word()}, 404)):
        assert api.post("/api/handoff", json={"project": project.path, **told}).status_code == status


def test_a_private_project_stays_here(engine: Engine, tmp_path: Path):
    home = tmp_path / "home"
    with start_server(home, PALAVER_DATABASE_URL=engine.fresh()) as server, server.client() as api:
        project = Project(api)
        work(project)
        (home / "private.txt").write_text(f"{project.path}\n")
        answer = api.post("/api/handoff", json={"project": project.path})
        assert answer.status_code == 400
        assert "kept out of palaver" in answer.text
        assert "umlauts" not in answer.text


class ClaudeCode(Mcp):
    program = "claude-code"


def test_an_agent_hands_over_its_own_session(api: httpx.Client, project: Project):
    mcp = ClaudeCode(api, f"/mcp?tools=all&project={project.path}")
    own = mcp.call("bus_connect", thread_name=word())["agent"]["agent_id"]
    session = work(project, agent=own)
    project.session(("user", "Speed up the nightly import of the warehouse"), agent=word("other-"))
    receiver = meet(api, project)
    told = mcp.call("handoff", to="codex", wait_s=0)
    assert (told["session_id"], told["to"]) == (session, receiver)
    assert content_of(api, told)["author_id"] == own


def test_an_agent_hands_over_only_what_it_may_read(engine: Engine, tmp_path: Path):
    with start_server(tmp_path, PALAVER_DATABASE_URL=engine.fresh()) as server, server.client() as api:
        project = Project(api)
        session = work(project, agent=meet(api, project))
        for level in ("agent", "person"):
            api.put("/api/sharing", json={"level": level}).raise_for_status()
            mcp = ClaudeCode(api, f"/mcp?tools=all&project={project.path}")
            mcp.call("bus_connect", thread_name=word())
            answer = mcp.answer("handoff", session=session)
            assert ("umlauts" in str(answer.value)) == (level == "person")
            assert answer.is_error == (level == "agent")
