"""An answer without results says why, through every door."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from tests.helpers import Mcp, Server, Thread, started_with, word

SOURCES = ("notes", "media", "chats", "characters", "prompts", "bus", "sessions", "archive")
NO_WORD = "There is no word to look for in this query."


@pytest.fixture
def agent(mcp: Mcp) -> Mcp:
    mcp.call("bus_connect", thread_name=word("hints-"))
    return mcp


def empty(mcp: Mcp, tool: str, **asked: Any) -> str:
    """The hint of an answer that has no results."""
    answer = mcp.call(tool, **asked)
    found = answer["hits"] if "hits" in answer else answer["results"]
    assert not found, answer
    return str(answer["hint"])


@pytest.mark.parametrize(
    "tool", ["msg_search", "conversation_search_own", "knowledge_search", "knowledge_answer_context"]
)
def test_no_match_and_no_word_are_told_apart(agent: Mcp, tool: str):
    assert "these words" in empty(agent, tool, query=word()) or tool == "msg_search"
    for query in ("???", "/ : ,"):
        assert empty(agent, tool, query=query) == NO_WORD


def test_each_source_says_why_it_found_nothing(agent: Mcp):
    for source in SOURCES:
        assert "any of these words" in empty(agent, f"{source}_search", query=word())
        assert empty(agent, f"{source}_search", query="!!") == NO_WORD


def test_deep_research_answers_just_what_its_clients_expect(api: httpx.Client):
    research = Mcp(api, "/mcp?profile=deep-research")
    assert research.call("search", query=word()) == {"results": []}


def test_filters_that_leave_everything_out_are_named(api: httpx.Client, agent: Mcp, thread: Thread):
    unique = word()
    thread.post(f"the {unique} is here")
    other = api.post("/api/threads", json={"topic": word("other-")}).json()["id"]
    assert "(thread_id)" in empty(agent, "msg_search", query=unique, thread_id=other)
    assert "(thread_id)" in empty(agent, "bus_search", query=unique, thread_id="nowhere")
    assert "(sources)" in empty(agent, "knowledge_search", query=unique, sources=["notes"])
    assert "(date_to, project)" in empty(agent, "knowledge_search", query=unique, date_to="2001-01-01", project="none")
    assert "(project)" in empty(agent, "conversation_search_own", query=unique, project="none")
    assert "(sources)" in empty(agent, "knowledge_answer_context", query=unique, sources=["notes"])
    body = {"query": unique, "role": "user", "since": "2030-01-01"}
    answer = api.post("/api/v1/conversations/search/all", json=body).json()
    assert (answer["hits"], answer["count"]) == ([], 0)
    assert "(role, since)" in answer["hint"]


def test_a_page_behind_the_last_says_how_many_there_are(agent: Mcp, thread: Thread):
    thread.post(unique := word())
    assert "the search has 1 in all" in empty(agent, "knowledge_search", query=unique, dedupe=False, offset=5)
    assert "the search has 1 in all" in empty(agent, "bus_search", query=unique, offset=5)


def test_an_unknown_agent_has_no_sessions(mcp: Mcp):
    for tool, more in (("sessions_search", {}), ("knowledge_search", {"sources": ["sessions"]})):
        assert "which agent you are" in empty(mcp, tool, query=word(), **more)
    assert "which agent you are" in mcp.call("conversation_search_own", query=word())["message"]


def test_a_search_with_results_has_no_hint(api: httpx.Client, agent: Mcp, thread: Thread):
    thread.post(unique := word())
    assert "hint" not in agent.call("msg_search", query=unique)
    assert agent.call("knowledge_search", query=unique, dedupe=False)["hint"] is None
    assert "hint" not in agent.call("knowledge_answer_context", query=unique)


@pytest.mark.parametrize(
    "command",
    [
        ("search",),
        ("search", "--expression"),
        ("search", "--format", "ndjson"),
        ("conversation", "search", "--all"),
        ("context",),
    ],
)
def test_the_command_line_says_it_on_stderr(server: Server, command: tuple[str, ...]):
    done = started_with({**server.env, "PALAVER_URL": server.url}, *command, word())
    assert done.returncode == 0
    assert "No message matches." in done.stderr or "of these words." in done.stderr
