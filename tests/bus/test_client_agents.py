"""Who an agent is and where it works: hooks, MCP and the recorder agree, for every owner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.bus.test_identity import Program, connected
from tests.helpers import Server, started_with, word

CLIENTS = ["claude-code", "codex", "gemini-cli", "opencode"]


def hook(api: httpx.Client, event: str, client: str, session: str, project: str, **more: Any) -> str:
    told = {"client": client, "session": session, "project": project, **more}
    answer = api.post(f"/api/hooks/{event}", json=told)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["agent"])


def record(api: httpx.Client, program: str, session: str, project: str | None, text: str = "said") -> httpx.Response:
    turn = {"id": word(), "role": "user", "content": text, "ts": "2026-11-01T10:00:00Z"}
    turn |= {"project": project} if project else {}
    path = f"/api/v1/agents/{program}/sessions/{session}/messages"
    return api.put(path, json={"turns": [turn], "program": program})


def agent_of(api: httpx.Client, session: str) -> dict[str, Any]:
    """The agent that a session is recorded for."""
    listed = api.get("/api/v1/sessions", params={"limit": 500}).json()["sessions"]
    found = next(one for one in listed if one["session_id"] == session)
    return dict(api.get(f"/api/agents/{found['agent_id']}").json())


@pytest.fixture
def project() -> str:
    return f"/nowhere/{word('p')}"


@pytest.mark.parametrize("client", CLIENTS)
def test_hooks_and_the_recorder_mean_the_same_agent(api: httpx.Client, client: str, project: str):
    name = project.rpartition("/")[2]
    started, unseen = word("session-"), word("session-")
    slug = hook(api, "session-start", client, started, project)
    assert slug == f"{client}-{name}"
    assert record(api, client, started, project).status_code == 200
    assert record(api, client, unseen, project).status_code == 200
    for session in (started, unseen):
        agent = agent_of(api, session)
        assert (agent["slug"], agent["client"], agent["project"]) == (slug, client, project)
        assert agent["name"].endswith(f" in {name}")


def test_the_recorder_may_come_first(api: httpx.Client, project: str):
    session = word("session-")
    record(api, "gemini", session, project)
    slug = agent_of(api, session)["slug"]
    assert slug == f"gemini-cli-{project.rpartition('/')[2]}"
    assert hook(api, "session-start", "gemini-cli", session, project) == slug
    assert hook(api, "prompt", "gemini-cli", session, project) == slug


def test_a_second_agent_has_a_number_only_while_both_work(api: httpx.Client, project: str):
    first, second, third = word("s-"), word("s-"), word("s-")
    slug = hook(api, "session-start", "codex", first, project)
    assert hook(api, "session-start", "codex", second, project) == f"{slug}-2"
    record(api, "codex", second, project)
    assert agent_of(api, second)["slug"] == f"{slug}-2"
    hook(api, "session-end", "codex", first, project)
    assert hook(api, "session-start", "codex", third, project) == slug
    assert hook(api, "prompt", "codex", second, project) == f"{slug}-2"


def test_projects_and_programs_keep_agents_apart(api: httpx.Client, project: str):
    other = f"/nowhere/{word('q')}"
    found = {
        hook(api, "session-start", client, word("s-"), place) for client in CLIENTS[:2] for place in (project, other)
    }
    assert len(found) == 4


def test_connecting_without_a_project_takes_none_away(api: httpx.Client, project: str):
    program = word("program-")
    client = Program(api, program, f"/mcp?project={project}")
    agent = connected(client)["agent"]
    me = {"agent_id": agent["agent_id"], "token": agent["token"]}
    connected(Program(api, program), **me)
    assert api.get(f"/api/agents/{agent['agent_id']}").json()["project"] == project


def test_bus_connect_is_the_agent_that_the_hook_announced(api: httpx.Client, project: str):
    program, session = word("program-"), word("s-")
    slug = hook(api, "session-start", program, session, project)
    record(api, program, session, project, f"a turn on {(ivy := word())}")
    client = Program(api, program)
    assert client.call("conversation_search_own", query=ivy)["count"] == 1
    assert connected(client)["agent"]["slug"] == slug
    assert client.call("conversation_search_own", query=ivy)["count"] == 1


def test_an_agent_is_called_by_its_project_at_every_door(server: Server, api: httpx.Client, tmp_path: Path):
    folder = tmp_path / word("exporter")
    folder.mkdir()
    program = word("program-")
    client = Program(api, program)
    client.headers["palaver-folder"] = str(folder)
    agent = connected(client)["agent"]
    assert agent["slug"] == f"{program}-{folder.name}"
    assert api.get(f"/api/agents/{agent['slug']}").json()["project"] == str(folder)


def test_the_list_of_agents_names_their_projects(server: Server, api: httpx.Client, project: str):
    slug = hook(api, "session-start", "codex", word("session-"), project)
    rows = started_with(server.env, "--url", server.url, "agents", "--format", "table").stdout.splitlines()
    (row,) = [row for row in rows if row.split()[0] == slug]
    assert f"  {project.rpartition('/')[2]}  " in row
