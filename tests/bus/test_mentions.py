"""Mentions: who a message is meant for, and what the answer to a post says about it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.conftest import Engine
from tests.helpers import Mcp, Server, Thread, start_server, started_with, word


class Program(Mcp):
    """An agent of a client program in a project."""

    def __init__(self, api: httpx.Client, program: str, project: str, topic: str | None = None) -> None:
        self.program = program
        super().__init__(api, f"/mcp?project=/src/{project}")
        self.agent: dict[str, Any] = self.call("bus_connect", thread_name=topic or f"topic {word()}")["agent"]
        self.slug: str = self.agent["slug"]

    def post(self, thread: Thread, content: str, **more: Any) -> dict[str, Any]:
        return dict(self.call("msg_post", thread_id=thread.id, content=content, **more))


@pytest.fixture
def alone(engine: Engine, tmp_path: Path) -> Iterator[Server]:
    """A server with no agents but those of the test."""
    with start_server(tmp_path, PALAVER_DATABASE_URL=engine.fresh()) as server:
        yield server


@pytest.fixture
def bus(alone: Server) -> Iterator[httpx.Client]:
    with alone.client() as client:
        yield client


def messages_for(api: httpx.Client, slug: str) -> str:
    return str(Mcp(api, f"/mcp?agent={slug}").ask("tools/call", name="catch_up", arguments={}))


def test_a_program_is_its_agent_in_the_project_of_the_thread(bus: httpx.Client):
    claudes = {project: Program(bus, "claude-code", project) for project in ("one", "two")}
    codexes = {project: Program(bus, "codex", project) for project in ("one", "two")}
    for project in ("one", "two", "one"):
        thread = Thread(bus)
        codexes[project].post(thread, "I work here")
        posted = thread.post(f"@claude-code please look {(unique := word())}", author="human")
        assert (posted["reached"], posted["unknown_names"]) == ([claudes[project].slug], [])
        for name, claude in claudes.items():
            assert (unique in messages_for(bus, claude.slug)) == (name == project)


def test_a_program_is_its_agent_in_the_project_of_the_sender(bus: httpx.Client):
    claudes = {project: Program(bus, "claude-code", project) for project in ("one", "two")}
    for project in ("two", "one", "two"):
        codex = Program(bus, "codex", project)
        posted = codex.post(Thread(bus), "@Claude-Code?")
        assert posted["reached"] == [claudes[project].slug]


def test_a_program_without_a_project_is_the_one_seen_last(bus: httpx.Client):
    claudes = [Program(bus, "claude-code", project) for project in ("one", "two", "three")]
    claudes[1].call("agent_heartbeat")
    assert Thread(bus).post("@claude-code")["reached"] == [claudes[1].slug]
    assert claudes[1].post(Thread(bus), "@claude-code")["reached"] == [claudes[2].slug]
    assert Thread(bus).post("@codex")["unknown_names"] == ["codex"]


def test_everybody_and_those_here(bus: httpx.Client):
    thread = Thread(bus)
    ann, bob = Program(bus, "ann-program", "one"), Program(bus, "bob-program", "one")
    gone = Program(bus, "gone-program", "one")
    away = Program(bus, "away-program", "one")
    gone.post(thread, "I was here")
    thread.post("so was I", author="eve")
    for one in (gone, away):
        one.call("agent_unregister")
    posted = ann.post(thread, f"@all {(unique := word())}")
    assert sorted(posted["reached"]) == sorted([bob.slug, gone.slug, "eve"])
    assert unique in messages_for(bus, bob.slug)
    assert unique in messages_for(bus, gone.slug)
    assert unique not in messages_for(bus, ann.slug)
    assert unique not in messages_for(bus, away.slug)
    for one in (gone, away):
        one.call("agent_unregister")
    assert bob.post(thread, "@here")["reached"] == [ann.slug]


def test_a_text_for_people_only_reaches_no_agent(bus: httpx.Client):
    thread, ann = Thread(bus), Program(bus, "ann-program", "one")
    secret = {"visibility": "human_only"}
    assert "reached" not in thread.post(f"@all @{ann.slug}", metadata=secret, author="human")


@pytest.mark.parametrize("door", ["tool", "rest", "command"])
def test_the_answer_says_who_was_reached_and_which_names_nobody_has(server: Server, api: httpx.Client, door: str):
    thread, nobody = Thread(api), word("nobody")
    bob = Mcp(api).call("bus_connect", thread_name=thread.topic, display_name=word("Bob"))["agent"]
    content = f"@{bob['slug']} @{bob['display_name'].upper()} and @{nobody}, but `@{word('code')}` is code"
    if door == "tool":
        posted = Mcp(api).call("msg_post", thread_id=thread.id, content=content, author=word())
    elif door == "rest":
        posted = thread.post(content)
    else:
        done = started_with(server.env, "--url", server.url, "post", thread.id, content, "--format", "json")
        assert done.returncode == 0, done.stderr
        posted = json.loads(done.stdout)
    assert (posted["reached"], posted["unknown_names"]) == ([bob["slug"]], [nobody])
    again = thread.post(content, idempotency_key="k")
    assert thread.post(content, idempotency_key="k") == again
    assert "reached" not in thread.post("nobody is meant")


def test_a_reply_reaches_the_author_and_nobody_reaches_oneself(api: httpx.Client, mcp: Mcp):
    thread = Thread(api)
    bob = mcp.call("bus_connect", thread_name=thread.topic, display_name=word("Bob"))["agent"]
    said = mcp.call("msg_post", thread_id=thread.id, content=f"@{bob['slug']} is me")
    assert "reached" not in said
    assert thread.post("yes", reply_to_msg_id=said["id"])["reached"] == [bob["slug"]]
    to_person = thread.post("hello", author=(eve := word("eve")))
    answer = mcp.call("msg_post", thread_id=thread.id, content="hi", reply_to_msg_id=to_person["id"])
    assert answer["reached"] == [eve]


def test_waiting_for_an_agent_hears_all_that_is_meant_for_it(api: httpx.Client, mcp: Mcp):
    thread = Thread(api)
    bob = mcp.call("bus_connect", thread_name=thread.topic, display_name=word("Bob"))["agent"]
    thread.post("not this")
    meant = [thread.post(text)["id"] for text in (f"@{bob['slug']} this", "@all and this")]
    waited = mcp.call("msg_wait", thread_id=thread.id, for_agent=bob["slug"])
    assert [message["id"] for message in waited["messages"]] == meant


def test_an_edit_reaches_whom_it_names_now(api: httpx.Client, mcp: Mcp):
    thread = Thread(api)
    bob = mcp.call("bus_connect", thread_name=thread.topic, display_name=word("Bob"))["agent"]
    message = thread.post("for nobody")
    api.put(f"/api/messages/{message['id']}", json={"content": f"@{bob['slug']} {(unique := word())}"})
    assert unique in messages_for(api, bob["slug"])
