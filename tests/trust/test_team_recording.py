"""A team server records: under the agent of an agent's token, under a person's agents with a person's token."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.bus.test_client_agents import agent_of, hook, record
from tests.helpers import PATIENCE, Server, environment, word
from tests.importers.samples import claude_session, codex_file
from tests.sessions.test_watch import session
from tests.trust.people import Key


def watch_once(server: Server, key: Key, home: Path, *paths: Path) -> subprocess.CompletedProcess[str]:
    env = environment(home) | {"PALAVER_URL": server.url, "PALAVER_TOKEN": key.secret}
    return subprocess.run(
        [sys.executable, "-m", "palaver", "watch", "--once", "--quiet", *map(str, paths)],
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def sessions(key: Key) -> dict[str, dict[str, Any]]:
    listed = key.api.get("/api/v1/sessions", params={"limit": 500}).json()["sessions"]
    return {one["session_id"]: one for one in listed}


def test_every_program_of_an_agents_token_is_recorded_under_that_agent(guarded: Server, admin: Key, tmp_path: Path):
    key = Key(guarded, kind="agent", name=word("bot-"))
    claude, codex = session(), session()
    (tmp_path / "claude.jsonl").write_bytes(claude_session(claude, word()))
    codex_file(tmp_path / "codex", codex, word())
    done = watch_once(guarded, key, tmp_path / "home", tmp_path / "claude.jsonl", tmp_path / "codex")
    assert (done.returncode, done.stderr) == (0, "")
    found = sessions(admin)
    for id, program in ((claude, "claude-code"), (codex, "codex")):
        assert (found[id]["agent_id"], found[id]["program"]) == (key.token.agent_id, program)
        assert found[id]["project"]


def test_sessions_of_a_persons_token_are_the_persons_agents(guarded: Server):
    ann, bob = Key(guarded, name=word("ann")), Key(guarded, name=word("bob"))
    project, slugs = f"/nowhere/{word('p')}", []
    for key in (ann, bob):
        session = word("s-")
        slug = hook(key.api, "session-start", "claude-code", session, project)
        assert record(key.api, "claude-code", session, project).status_code == 200
        agent = agent_of(key.api, session)
        assert (agent["slug"], agent["owner"]) == (slug, f"human:{key.token.name}")
        slugs.append(slug)
    assert slugs[0] != slugs[1]


def test_the_session_of_another_owner_is_not_taken_over(guarded: Server):
    ann, bob = Key(guarded, name=word("ann")), Key(guarded, name=word("bob"))
    agent = Key(guarded, kind="agent", name=word("bot-"))
    project, session = f"/nowhere/{word('p')}", word("s-")
    slug = hook(ann.api, "session-start", "codex", session, project)
    record(ann.api, "codex", session, project)
    assert hook(bob.api, "prompt", "codex", session, project) != slug
    assert hook(agent.api, "prompt", "codex", session, project) == agent.token.name
    assert record(bob.api, "codex", session, project).status_code == 200
    assert (
        len(
            [
                one
                for one in ann.api.get("/api/v1/sessions?limit=500").json()["sessions"]
                if one["session_id"] == session
            ]
        )
        == 2
    )


@pytest.mark.parametrize("kind", ["human", "agent"])
def test_what_is_recorded_is_found_with_the_same_token(guarded: Server, kind: str):
    key = Key(guarded, kind=kind, name=word("one-"))
    project, session, ivy = f"/nowhere/{word('p')}", word("s-"), word()
    hook(key.api, "session-start", "claude-code", session, project)
    record(key.api, "claude-code", session, project, f"we talked about {ivy}")
    found = key.mcp.call("knowledge_search", query=ivy, sources=["sessions"])["results"]
    assert len(found) == 1
