"""Conversation search, sentence by sentence: recording, searching, who sees what; on both engines."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import httpx
import pytest
from click.testing import Result
from tests.conftest import ONE_ENGINE, Engine, lose_the_index
from tests.doors.test_cli import Terminal
from tests.helpers import Mcp, Server, eventually, palaver_command, start_server, word
from tests.mcp_clients import through

from palaver.app import App
from palaver.client import Palaver
from palaver.model.sessions import Owner, Turn
from palaver.settings import Settings
from palaver.store.sessions.transcripts import Transcripts

TOOLS = ("conversation_search_own", "conversation.search")
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"


def in_path(name: str) -> str:
    """A name as a part of a path; dots alone would be taken for the folder above."""
    return quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")


class Talk:
    """What is recorded and searched over REST, by one agent unless another is named."""

    def __init__(self, api: httpx.Client, agent: str | None = None) -> None:
        self.api, self.agent = api, agent or word("bot-")

    def post(self, content: Any, session: str = "s-1", role: Any = "user", **more: Any) -> httpx.Response:
        return self.api.post(self.path(session), json={"role": role, "content": content, **more})

    def say(self, content: str, session: str = "s-1", role: str = "user", **more: Any) -> dict[str, Any]:
        response = self.post(content, session, role, **more)
        assert response.status_code == 201, response.text
        return dict(response.json())

    def path(self, session: str, what: str = "/messages") -> str:
        return f"/api/v1/agents/{in_path(self.agent)}/sessions/{in_path(session)}{what}"

    def search(self, query: str, **more: Any) -> dict[str, Any]:
        response = self.api.post("/api/v1/conversations/search", json={"agent_id": self.agent, "query": query, **more})
        assert response.status_code == 200, response.text
        return dict(response.json())

    def hits(self, query: str, **more: Any) -> list[dict[str, Any]]:
        return list(self.search(query, **more)["hits"])

    def found(self, query: str, **more: Any) -> list[str]:
        return [hit["id"] for hit in self.hits(query, **more)]

    def contents(self, query: str, **more: Any) -> list[str]:
        return [hit["content"] for hit in self.hits(query, **more)]

    def all(self, query: str, **more: Any) -> list[dict[str, Any]]:
        response = self.api.post("/api/v1/conversations/search/all", json={"query": query, **more})
        assert response.status_code == 200, response.text
        return list(response.json()["hits"])


class OtherProgram(Mcp):
    program = "another program"


@pytest.fixture
def talk(api: httpx.Client) -> Talk:
    """An agent of the test's own."""
    return Talk(api)


def transcripts(server: Server) -> Path:
    return server.home / "sessions" / "default"


def lines(server: Server, talk: Talk, session: str = "s-1") -> list[dict[str, Any]]:
    text = (transcripts(server) / talk.agent / f"{session}.jsonl").read_text("utf-8")
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def write_many(server: Server, talk: Talk, contents: list[str], session: str = "s-1") -> dict[str, Any]:
    """Many turns at once, straight into the transcript; one more over REST takes them all into the index."""
    first = talk.say("many are to come", session)
    owner, at = Owner(first["agent_id"], talk.agent, talk.agent), datetime(2026, 5, 1, tzinfo=UTC)
    turns = [Turn(word("t"), session, owner.id, "user", content, at, at) for content in contents]
    Transcripts(transcripts(server)).append(owner, session, turns)
    talk.say("those were many", session)
    return first


def palaver(server: Server, *args: str, input: str | None = None) -> str:
    """A command on the data of the running server."""
    return Terminal(server.home).ok(*args, input=input, PALAVER_DATABASE_URL=server.env["PALAVER_DATABASE_URL"])


# Every message is persisted twice


def test_recording_answers_with_the_whole_turn(talk: Talk):
    before = datetime.now(UTC)
    said = talk.say("please deploy the staging pipeline tonight", "sess-42", id="msg_abc", ts="2026-06-01T10:00:00Z")
    agent = talk.api.get(f"/api/agents/{talk.agent}").json()
    assert said == {
        "id": "msg_abc",
        "session_id": "sess-42",
        "agent_id": agent["id"],
        "role": "user",
        "content": "please deploy the staging pipeline tonight",
        "ts": "2026-06-01T10:00:00Z",
    }
    later = talk.say("done", "sess-42", "assistant")
    assert later["id"] != said["id"]
    assert before <= datetime.fromisoformat(later["ts"]) <= datetime.now(UTC)
    assert re.fullmatch(TIME, later["ts"])


def test_the_line_is_in_the_transcript_and_the_row_in_the_index_when_the_answer_comes(server: Server, talk: Talk):
    for n in range(3):
        unique = word()
        said = talk.say(f"turn {unique}", role="assistant", ts=f"2026-06-01T10:00:0{n}Z")
        assert len(lines(server, talk)) == n + 1
        line = lines(server, talk)[-1]
        assert re.fullmatch(TIME, line.pop("recorded_at"))
        assert line == said
        assert talk.found(unique) == [said["id"]]


def test_there_is_one_directory_for_each_agent_that_nobody_else_may_read(server: Server, api: httpx.Client):
    one, other = Talk(api), Talk(api)
    said = one.say("hello"), other.say("hello")
    for talk, turn in zip((one, other), said, strict=True):
        folder = transcripts(server) / talk.agent
        assert sorted(path.name for path in folder.iterdir()) == ["agent.json", "s-1.jsonl"]
        assert json.loads((folder / "agent.json").read_bytes())["id"] == turn["agent_id"]
        assert folder.stat().st_mode & 0o077 == 0
        assert (folder / "s-1.jsonl").stat().st_mode & 0o077 == 0


def test_an_agent_comes_to_be_by_its_first_turn(talk: Talk):
    assert talk.api.get(f"/api/agents/{talk.agent}").status_code == 404
    said = talk.say("I am")
    agent = talk.api.get(f"/api/agents/{talk.agent}").json()
    assert (agent["id"], agent["slug"], agent["is_online"]) == (said["agent_id"], talk.agent, False)


def test_a_name_that_can_be_a_slug_is_the_slug(api: httpx.Client):
    name = word("agent_")
    said = Talk(api, name).say("I am")
    agent = api.get(f"/api/agents/{name}").json()
    assert (agent["id"], agent["slug"], agent["name"]) == (said["agent_id"], name, name)


def test_many_first_turns_at_once_are_one_agent(talk: Talk):
    with ThreadPoolExecutor(16) as pool:
        said = list(pool.map(lambda n: talk.say(f"first {n}", f"s-{n % 4}"), range(32)))
    assert len({turn["agent_id"] for turn in said}) == 1
    assert len(talk.found("first", limit=100)) == 32


def test_an_agent_that_registered_before_keeps_its_id(api: httpx.Client):
    slug = word("bot-")
    agent = api.post("/api/agents/register", json={"slug": slug}).json()
    assert Talk(api, slug).say("hello")["agent_id"] == agent["id"]
    assert Talk(api, agent["id"]).say("hello again")["agent_id"] == agent["id"]
    assert len(Talk(api, agent["id"]).found("hello")) == len(Talk(api, slug).found("hello")) == 2


def test_recording_by_rest_cli_tool_and_client_is_the_same(server: Server, api: httpx.Client, talk: Talk):
    unique = word()
    append = ["session", "append", "--agent", talk.agent, "--session", "s-1"]
    talk.say(f"{unique} rest")
    palaver(server, *append, "--role", "user", unique, "text")
    palaver(server, *append, "--role", "user", input=f"{unique} stdin\n")
    jsonl = "".join(json.dumps({"role": "user", "content": f"{unique} jsonl{n}"}) + "\n" for n in (1, 2))
    palaver(server, *append, input=jsonl)
    Mcp(api, f"/mcp?agent={talk.agent}").call("session_append", session_id="s-1", role="user", content=f"{unique} tool")
    with Palaver(server.url) as client:
        client.record(talk.agent, "s-1", "user", f"{unique} client")
    expected = [f"{unique} {way}" for way in ("rest", "text", "stdin", "jsonl1", "jsonl2", "tool", "client")]
    assert [line["content"] for line in lines(server, talk)] == expected
    assert sorted(talk.contents(unique)) == sorted(expected)
    assert [turn["content"] for turn in api.get(talk.path("s-1")).json()["turns"]] == expected


def test_the_same_turn_id_twice_in_a_session_is_one_turn(server: Server, talk: Talk):
    unique = word()
    first = talk.say(f"{unique} first", id="t-1")
    assert talk.say(f"{unique} first", id="t-1") == first
    assert talk.say(f"{unique} other words", id="t-1") == first
    elsewhere = talk.say(f"{unique} elsewhere", "s-2", id="t-1")
    assert elsewhere["session_id"] == "s-2"
    assert sorted(talk.contents(unique)) == [f"{unique} elsewhere", f"{unique} first"]
    assert len(lines(server, talk)) == 1


def test_the_same_turn_id_at_the_same_moment_is_one_turn(talk: Talk):
    unique = word()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: talk.say(unique, id="t-1"), range(16)))
    assert talk.found(unique) == ["t-1"]
    assert len(talk.api.get(talk.path("s-1")).json()["turns"]) == 1
    assert talk.api.get(talk.path("s-1", "/export")).text.count(unique) == 1


@ONE_ENGINE
@pytest.mark.parametrize(
    "given, kept",
    [
        ("2026-06-01T10:00:00Z", "2026-06-01T10:00:00Z"),
        ("2026-06-01T10:00:00.123456Z", "2026-06-01T10:00:00.123456Z"),
        ("2026-06-01T12:00:00+02:00", "2026-06-01T10:00:00Z"),
        ("2026-06-01T10:00:00", "2026-06-01T10:00:00Z"),
        ("2026-06-01", "2026-06-01T00:00:00Z"),
        ("20260601", "2026-06-01T00:00:00Z"),
        ("2026-06-01t10:00:00z", "2026-06-01T10:00:00Z"),
    ],
)
def test_times_are_utc_with_z(talk: Talk, given: str, kept: str):
    assert talk.say("now", ts=given)["ts"] == kept
    assert talk.hits("now")[0]["ts"] == kept


@ONE_ENGINE
@pytest.mark.parametrize(
    "body, field",
    [
        ({"content": "x"}, "role"),
        ({"role": "user"}, "content"),
        ({"role": " ", "content": "x"}, "role"),
        ({"role": 5, "content": "x"}, "role"),
        ({"role": "wizard", "content": "x"}, "role: must be 'user', 'assistant', 'system' or 'tool'"),
        ({"role": "user", "content": ""}, "content"),
        ({"role": "user", "content": 5}, "content"),
        ({"role": "user", "content": ["x"]}, "content"),
        ({"role": "user", "content": None}, "content"),
        ({"role": "user", "content": "a\0b"}, "content"),
        ({"role": "user", "content": "x" * 1_000_001}, "content"),
        ({"role": "user", "content": "x", "ts": "yesterday"}, "ts"),
        ({"role": "user", "content": "x", "ts": 5}, "ts"),
        ({"role": "user", "content": "x", "ts": "0001-01-01T00:00:00+14:00"}, "ts"),
        ({"role": "user", "content": "x", "id": ""}, "id"),
        ({"role": "user", "content": "x", "id": "i" * 257}, "id"),
    ],
)
def test_a_turn_with_a_missing_or_misshapen_field_is_400(talk: Talk, body: dict[str, Any], field: str):
    response = talk.api.post(talk.path("s-1"), json=body)
    assert response.status_code == 400, response.text
    assert field in response.json()["error"]
    assert talk.api.get(f"/api/agents/{talk.agent}").status_code == 404


@ONE_ENGINE
@pytest.mark.parametrize("body", [b"{", b"[]", b"5", b"\xff", b'{"role": "user", "content": NaN}'])
def test_a_turn_that_is_not_json_is_400(talk: Talk, body: bytes):
    response = talk.api.post(talk.path("s-1"), content=body)
    assert response.status_code == 400
    assert response.json()["error"]


def test_a_long_turn_is_kept_and_found_whole(talk: Talk):
    for content in (f"{(first := word())} {'ä ' * 490_000}", f"{'ä ' * 100_000} {(last := word())}"):
        talk.say(content)
    for unique in (first, last):
        (hit,) = talk.hits(unique)
        assert len(hit["content"]) > 200_000
        assert unique in hit["content"]
        assert f"<mark>{unique}</mark>" in hit["snippet"]
        assert len(hit["snippet"]) < 1000


NAMES = [
    "a/b/c",
    "a/messages",
    "x/export",
    "..",
    ".",
    ".hidden",
    "deleted",
    "agent.json",
    "a%2Fb",
    "ünï 日本語 😀",
    "line\nbreak\r\n\ttab",
    "?q=1&r#frag",
    "n" * 256,
    "日" * 256,
    " around ",
    "'; DROP TABLE passages; --",
]


@pytest.mark.on_postgres(session=NAMES[-7:])
@pytest.mark.parametrize("session", NAMES, ids=lambda name: repr(name[:20]))
def test_a_session_may_have_any_name(server: Server, talk: Talk, session: str):
    unique = word()
    said = talk.say(unique, session)
    other = talk.say(unique, "other")
    assert said["session_id"] == session
    assert {hit["session_id"] for hit in talk.hits(unique)} == {session, "other"}
    assert [hit["session_id"] for hit in talk.hits(unique, session_id=session)] == [session]
    shown = talk.api.get(talk.path(session)).json()
    assert (shown["session_id"], shown["turns"]) == (session, [said])
    assert unique in talk.api.get(talk.path(session, "/export")).text
    folder = transcripts(server) / talk.agent
    assert all(path.parent == folder for path in folder.rglob("*"))
    assert talk.api.delete(talk.path(session, "")).json()["session_id"] == session
    assert talk.found(unique) == [other["id"]]
    assert talk.say(unique, session)["session_id"] == session
    assert len(talk.found(unique)) == 2


@ONE_ENGINE
def test_a_name_of_more_than_256_characters_is_400(talk: Talk):
    response = talk.post("x", "n" * 257)
    assert response.status_code == 400
    assert "session" in response.json()["error"]


# API: request and response


def test_the_response_has_exactly_this_shape(talk: Talk):
    said = talk.say(
        "please deploy the staging pipeline tonight", "sess-42", id="msg_abc", ts="2026-06-01T10:00:00Z", role="user"
    )
    assert talk.search("deploy pipeline", limit=20) == {
        "count": 1,
        "query": "deploy pipeline",
        "hits": [
            {
                "id": "msg_abc",
                "session_id": "sess-42",
                "agent_id": talk.agent,
                "agent": said["agent_id"],
                "role": "user",
                "content": "please deploy the staging pipeline tonight",
                "ts": "2026-06-01T10:00:00Z",
                "snippet": "please <mark>deploy</mark> the staging <mark>pipeline</mark> tonight",
            }
        ],
    }


def test_hits_may_be_empty(talk: Talk):
    talk.say("hello")
    unique = word()
    hint = "No turn has all of these words. Try fewer words or another spelling."
    assert talk.search(unique) == {"count": 0, "query": unique, "hits": [], "hint": hint}


def test_the_query_comes_back_as_it_was_asked(talk: Talk):
    talk.say("hello")
    for query in ("  Hello,   World ", 'say "hello"', "héllo OR *"):
        assert talk.search(query)["query"] == query


def test_a_hit_has_the_full_content_and_a_snippet_that_shows_the_match(talk: Talk):
    unique, padding = word(), " ".join(word() for _ in range(200))
    content = f"{padding} the <b>{unique}</b> & more {padding}"
    talk.say(content)
    (hit,) = talk.hits(unique)
    assert hit["content"] == content
    assert len(hit["snippet"]) < len(content) / 4
    assert f"&lt;b&gt;<mark>{unique}</mark>&lt;/b&gt; &amp; more" in hit["snippet"]


def test_agent_id_takes_an_id_or_a_slug_and_hits_name_the_agent_as_it_was_asked_for(talk: Talk):
    said = talk.say(unique := word())
    for asked in (talk.agent, said["agent_id"]):
        (hit,) = Talk(talk.api, asked).hits(unique)
        assert (hit["agent_id"], hit["agent"]) == (asked, said["agent_id"])
        answer = Mcp(talk.api, f"/mcp?agent={asked}").call("conversation_search_own", query=unique)
        assert answer["hits"] == [{**hit, "snippet": hit["snippet"]}]
    (hit,) = talk.all(unique)
    assert (hit["agent_id"], hit["agent"]) == (said["agent_id"], said["agent_id"])


def test_the_default_limit_is_20_and_limits_are_clamped_to_1_and_100(server: Server, talk: Talk):
    unique = word()
    write_many(server, talk, [f"{unique} number{n}" for n in range(103)])
    assert talk.search(unique)["count"] == len(talk.hits(unique)) == 20
    for limit, expected in (
        (-5, 1),
        (0, 1),
        (1, 1),
        (7, 7),
        (20.0, 20),
        (100, 100),
        (101, 100),
        (10**15, 100),
        (None, 20),
    ):
        answer = talk.search(unique, limit=limit)
        assert (limit, answer["count"], len(answer["hits"])) == (limit, expected, expected)


@ONE_ENGINE
@pytest.mark.parametrize(
    "body, field",
    [
        ({"query": "x"}, "agent_id"),
        ({"agent_id": "BOT"}, "query"),
        ({}, "agent_id"),
        ({"agent_id": None, "query": "x"}, "agent_id"),
        ({"agent_id": "", "query": "x"}, "agent_id"),
        ({"agent_id": 5, "query": "x"}, "agent_id"),
        ({"agent_id": ["BOT"], "query": "x"}, "agent_id"),
        ({"agent_id": "BOT", "query": ""}, "query"),
        ({"agent_id": "BOT", "query": " \t\n"}, "query"),
        ({"agent_id": "BOT", "query": None}, "query"),
        ({"agent_id": "BOT", "query": 5}, "query"),
        ({"agent_id": "BOT", "query": ["x"]}, "query"),
        ({"agent_id": "BOT", "query": "x", "limit": "ten"}, "limit"),
        ({"agent_id": "BOT", "query": "x", "limit": "10"}, "limit"),
        ({"agent_id": "BOT", "query": "x", "limit": 1.5}, "limit"),
        ({"agent_id": "BOT", "query": "x", "limit": True}, "limit"),
        ({"agent_id": "BOT", "query": "x", "limit": []}, "limit"),
        ({"agent_id": "BOT", "query": "x", "role": 5}, "role"),
        ({"agent_id": "BOT", "query": "x", "since": "soon"}, "since"),
        ({"agent_id": "BOT", "query": "x", "until": "2026-13-01"}, "until"),
        ({"agent_id": "BOT", "query": "x", "until": 5}, "until"),
        ({"agent_id": "BOT", "query": "x", "until": ""}, "until"),
        ({"agent_id": "BOT", "query": "x" * 100_001}, "query"),
    ],
    ids=lambda value: None if isinstance(value, str) else json.dumps(value)[:60],
)
def test_400_when_a_field_is_missing_or_misshapen(talk: Talk, body: dict[str, Any], field: str):
    talk.say("x")
    asked = {name: talk.agent if value == "BOT" else value for name, value in body.items()}
    response = talk.api.post("/api/v1/conversations/search", json=asked)
    assert response.status_code == 400, response.text
    assert field in response.json()["error"]


@ONE_ENGINE
@pytest.mark.parametrize("body", [b"{", b"nonsense", b"[]", b"5", b'"x"', b"\xff\xfe", b'{"agent_id": "a", "query": }'])
def test_400_when_the_body_is_not_a_json_object(api: httpx.Client, body: bytes):
    for path in ("/api/v1/conversations/search", "/api/v1/conversations/search/all"):
        response = api.post(path, content=body)
        assert response.status_code == 400, response.text
        assert isinstance(response.json()["error"], str)


def test_404_when_the_agent_does_not_exist(api: httpx.Client):
    response = api.post("/api/v1/conversations/search", json={"agent_id": "no-such-agent", "query": "x"})
    assert response.status_code == 404
    assert "no-such-agent" in response.json()["error"]


def test_an_agent_without_turns_is_known_and_has_no_hits(api: httpx.Client):
    slug = api.post("/api/agents/register", json={"slug": word("bot-")}).json()["slug"]
    answer = Talk(api, slug).search("x")
    assert (answer["count"], answer["hits"]) == (0, [])


# Plain words, ranked by relevance


def test_deploy_pipeline_finds_please_deploy_the_staging_pipeline_tonight(talk: Talk):
    said = talk.say("please deploy the staging pipeline tonight")
    talk.say("please deploy it")
    talk.say("the pipeline is green")
    assert talk.found("deploy pipeline") == talk.found("pipeline DEPLOY") == [said["id"]]


def test_all_words_must_match(talk: Talk):
    talk.say("alpha beta gamma")
    talk.say("alpha beta")
    talk.say("gamma")
    assert talk.contents("gamma alpha") == ["alpha beta gamma"]
    assert talk.contents("alpha beta gamma delta") == []


def test_adjacent_words_rank_higher(talk: Talk):
    filler = "some other words stand in between of them"
    apart = talk.say(f"rate {filler} limit")
    together = talk.say(f"{filler} rate limit")
    also_apart = talk.say(f"rate {filler} limit")
    assert talk.found("rate limit") == [together["id"], also_apart["id"], apart["id"]]


def test_the_best_match_comes_first(talk: Talk):
    padding = " ".join(word() for _ in range(60))
    weak = talk.say(f"{padding} harbour {padding}")
    strong = talk.say("harbour harbour harbour")
    assert talk.found("harbour") == [strong["id"], weak["id"]]


def test_ties_are_newest_first(talk: Talk):
    unique = word()
    days = (3, 1, 5, 2, 4)
    for day in days:
        talk.say(f"{unique} same", f"s-{day % 2}", id=f"day-{day}", ts=f"2026-06-0{day}T10:00:00Z")
    assert talk.found(unique) == ["day-5", "day-4", "day-3", "day-2", "day-1"]
    for limit in (1, 2, 3):
        assert talk.found(unique, limit=limit) == ["day-5", "day-4", "day-3"][:limit]


@ONE_ENGINE
@pytest.mark.parametrize("operator", ["OR", "AND", "NOT", "NEAR"])
def test_operators_are_literal_words(talk: Talk, operator: str):
    talk.say(f"alpha {operator.lower()} beta")
    talk.say("alpha beta")
    talk.say("alpha")
    talk.say("beta")
    assert talk.contents(f"alpha {operator} beta") == [f"alpha {operator.lower()} beta"]


@pytest.mark.parametrize(
    "query", ["alph*", "alpha -beta", "NEAR(alpha beta, 1)", '"beta alpha"', "content:alpha", "^beta", "alpha + gamma"]
)
def test_fts5_syntax_is_neutralised(talk: Talk, query: str):
    talk.say("alpha beta")
    expected = {"alpha -beta": ["alpha beta"], '"beta alpha"': ["alpha beta"], "^beta": ["alpha beta"]}
    assert talk.contents(query) == expected.get(query, [])


@pytest.mark.parametrize(
    "query", ["*", '"', "(", ")", "AND", "''", "\0", "- -", "?!…", "NEAR(", 'a"b', "a\0b", "%", "_"]
)
def test_nothing_typed_breaks_the_search(talk: Talk, query: str):
    talk.say("hello world")
    answer = talk.search(query)
    assert answer.pop("hint").endswith(".")
    assert answer == {"count": 0, "query": query, "hits": []}


def test_a_query_of_ten_thousand_characters_is_answered(talk: Talk):
    talk.say("hello")
    assert talk.search("word " * 2_000)["count"] == 0
    assert talk.search("hello " * 1_600)["count"] == 1
    assert talk.search("(" * 10_000)["count"] == 0


@pytest.mark.parametrize(
    "content, queries",
    [
        ("我们昨天讨论了部署流水线", ["部署", "流水线", "昨天 部署"]),
        ("デプロイのパイプラインを確認", ["デプロイ", "パイプライン", "確認"]),
        ("오늘 배포 파이프라인", ["배포", "파이프라인"]),
        ("Le café déjà fermé à Zürich", ["cafe", "DEJA", "zurich ferme", "Café"]),
        ("ship it 🚀 now 👍🏽", ["🚀", "👍", "ship 🚀"]),
        ("naïve façade in STRASSE", ["naive", "facade", "straße"]),
        ("развёртывание сегодня", ["развертывание", "СЕГОДНЯ"]),
        ("fix POL-358 in node.js via quick-brown", ["POL-358", "node.js", "quick-brown", "pol 358"]),
    ],
)
def test_every_script_is_found(talk: Talk, content: str, queries: list[str]):
    said = talk.say(content)
    talk.say("something else entirely")
    for query in queries:
        assert (query, talk.found(query)) == (query, [said["id"]])
        assert "<mark>" in talk.hits(query)[0]["snippet"]


# Filters


def test_a_role_narrows_the_search(talk: Talk):
    unique = word()
    by_role = {role: talk.say(unique, role=role)["id"] for role in ("user", "assistant", "system", "tool")}
    for role, id in by_role.items():
        assert talk.found(unique, role=role) == [id]
    assert talk.found(unique, role="nobody") == []
    assert len(talk.found(unique)) == 4


def test_a_session_narrows_the_search(talk: Talk):
    unique = word()
    one, other = talk.say(unique, "one"), talk.say(unique, "other")
    assert talk.found(unique, session_id="one") == [one["id"]]
    assert talk.found(unique, session_id="other") == [other["id"]]
    assert talk.found(unique, session_id="none") == []


def test_since_and_until_narrow_the_search(talk: Talk):
    unique = word()
    for ts in (
        "2026-05-31T23:59:59.999999Z",
        "2026-06-01T00:00:00Z",
        "2026-06-01T23:59:59.999999Z",
        "2026-06-02T00:00:00Z",
    ):
        talk.say(unique, id=ts, ts=ts)
    first, second, third, fourth = sorted(talk.found(unique))
    assert talk.found(unique, since="2026-06-01", until="2026-06-01") == [third, second]
    assert talk.found(unique, since="2026-06-01T00:00:00.000001Z") == [fourth, third]
    for day in ("2026-06-01", "20260601", " 2026-06-01 ", "2026-W23-1"):
        assert talk.found(unique, until=day) == [third, second, first]
    assert talk.found(unique, until="2026-06-01T00:00:00Z") == [second, first]
    assert talk.found(unique, until="2026-06-01T02:00:00+02:00") == [second, first]
    assert talk.found(unique, since="2026-06-02T00:00:00") == [fourth]
    assert talk.found(unique, since="2026-06-03", until="2026-06-01") == []
    assert talk.found(unique, since="1900-01-01", until="2999-12-31", role="user", session_id="s-1", limit=1) == [
        fourth
    ]


@ONE_ENGINE
def test_an_unparsable_date_is_400_and_never_ignored(talk: Talk):
    talk.say("x")
    for path in ("/api/v1/conversations/search", "/api/v1/conversations/search/all"):
        for name in ("since", "until"):
            response = talk.api.post(path, json={"agent_id": talk.agent, "query": "x", name: "last week"})
            assert response.status_code == 400
            assert name in response.json()["error"]


# Every agent of the workspace


def test_search_all_searches_every_agent_of_the_workspace(api: httpx.Client):
    unique, one, other = word(), Talk(api), Talk(api)
    said = [one.say(f"{unique} we decided", role="assistant"), other.say(f"{unique} we decided")]
    hits = one.all(f"{unique} decided")
    assert [hit["id"] for hit in hits] == [said[1]["id"], said[0]["id"]]
    assert [hit["agent_id"] for hit in hits] == [said[1]["agent_id"], said[0]["agent_id"]]
    assert hits[0] == Talk(api, said[1]["agent_id"]).hits(f"{unique} decided")[0]
    assert [hit["id"] for hit in one.all(unique, role="assistant")] == [said[0]["id"]]
    assert len(one.all(unique, limit=1)) == 1
    assert one.all(unique, until="2020-01-01") == []


@ONE_ENGINE
@pytest.mark.parametrize("body", [{}, {"query": ""}, {"query": 5}, {"query": "x", "limit": "x"}])
def test_search_all_refuses_what_the_other_refuses(api: httpx.Client, body: dict[str, Any]):
    response = api.post("/api/v1/conversations/search/all", json=body)
    assert response.status_code == 400
    assert response.json()["error"]


# Scope and isolation


def test_a_search_is_always_filtered_by_agent(api: httpx.Client):
    unique, one, other = word(), Talk(api), Talk(api)
    mine, yours = one.say(unique, "shared-name", id="same"), other.say(unique, "shared-name", id="same")
    assert [hit["agent"] for hit in one.hits(unique)] == [mine["agent_id"]]
    assert [hit["agent"] for hit in other.hits(unique)] == [yours["agent_id"]]
    assert one.hits(unique, session_id="shared-name")[0]["agent"] == mine["agent_id"]


def test_the_bus_is_not_conversation_history(api: httpx.Client, mcp: Mcp):
    unique = word()
    agent = mcp.call("bus_connect", thread_name=f"topic {word()}")
    mcp.call("msg_post", thread_id=agent["thread"]["thread_id"], content=unique)
    assert Talk(api, agent["agent"]["agent_id"]).found(unique) == []
    Talk(api).say(unique)
    assert mcp.call("msg_search", query=unique)["total"] == 1


class Guarded:
    """A server where everybody needs a token, with two workspaces."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def app(self, work: Callable[[App], Any]) -> Any:
        async def go() -> Any:
            app = App(Settings(home=self.server.home, database_url=self.server.env["PALAVER_DATABASE_URL"]))
            try:
                return await work(app)
            finally:
                await app.close()

        return asyncio.run(go())

    def key(self, workspace: str, kind: Literal["human", "agent"], name: str, *scopes: Any) -> httpx.Client:
        given = list(scopes) or ["read", "write"]
        _, secret = self.app(lambda app: app.access.create_token(workspace, kind, name, given))
        return self.server.client(headers={"authorization": f"Bearer {secret}"})


@pytest.fixture(scope="module")
def guarded(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    home = tmp_path_factory.mktemp("guarded")
    with start_server(home, PALAVER_AUTH="token", PALAVER_DATABASE_URL=engine.fresh()) as server:
        guarded = Guarded(server)
        guarded.app(lambda app: app.create_workspace("elsewhere"))
        yield guarded


@pytest.fixture(scope="module")
def ann(guarded: Guarded) -> httpx.Client:
    return guarded.key("default", "human", "ann")


@pytest.fixture(scope="module")
def eve(guarded: Guarded) -> httpx.Client:
    """Somebody in another workspace, who may do everything there."""
    return guarded.key("elsewhere", "human", "eve", "read", "write", "admin")


@pytest.fixture(scope="module")
def robo(guarded: Guarded) -> httpx.Client:
    return guarded.key("default", "agent", "robo")


@pytest.fixture(scope="module")
def cyber(guarded: Guarded) -> httpx.Client:
    return guarded.key("default", "agent", "cyber")


@ONE_ENGINE
@pytest.mark.parametrize("path", ["/api/v1/conversations/search", "/api/v1/conversations/search/all"])
@pytest.mark.parametrize("header", [None, "Bearer plv_nonsense", "Basic YTpi"])
def test_401_without_a_workspace_in_the_request(guarded: Guarded, path: str, header: str | None):
    headers = {"authorization": header} if header else {}
    with guarded.server.client() as client:
        response = client.post(path, json={"agent_id": "robo", "query": "x"}, headers=headers)
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert any(response.json().values())


def test_another_workspaces_agent_is_404_exactly_as_absent(ann: httpx.Client, eve: httpx.Client):
    secret = word()
    theirs = Talk(eve, slug := word("secret-bot-"))
    said = theirs.say(secret, "s-1")
    for name, absent in ((slug, word("secret-bot-")), (said["agent_id"], "019f7a3e-0000-7000-8000-000000000000")):
        for method, path, body in (
            ("POST", "/api/v1/conversations/search", {"agent_id": name, "query": secret}),
            ("GET", f"/api/v1/agents/{name}/sessions/s-1/messages", None),
            ("GET", f"/api/v1/agents/{name}/sessions/s-1/export", None),
            ("DELETE", f"/api/v1/agents/{name}/sessions/s-1", None),
        ):
            seen = ann.request(method, path, json=body)
            text = json.dumps(body).replace(name, absent) if body else None
            nothing = ann.request(method, path.replace(name, absent), content=text)
            assert (seen.status_code, nothing.status_code) == (404, 404)
            assert seen.text.replace(name, "X") == nothing.text.replace(absent, "X")
            assert {**seen.headers, "date": "", "content-length": ""} == {
                **nothing.headers,
                "date": "",
                "content-length": "",
            }
    assert Talk(ann).all(secret) == []
    assert theirs.found(secret) == [said["id"]]


def test_the_same_slug_in_two_workspaces_is_two_agents(guarded: Guarded, ann: httpx.Client, eve: httpx.Client):
    slug, unique = word("bot-"), word()
    here, there = Talk(ann, slug).say(f"{unique} here"), Talk(eve, slug).say(f"{unique} there")
    assert here["agent_id"] != there["agent_id"]
    assert Talk(ann, slug).contents(unique) == [f"{unique} here"]
    assert Talk(eve, slug).contents(unique) == [f"{unique} there"]
    for workspace, text in (("default", "here"), ("elsewhere", "there")):
        file = guarded.server.home / "sessions" / workspace / slug / "s-1.jsonl"
        assert json.loads(file.read_text())["content"] == f"{unique} {text}"


def test_order_never_depends_on_another_workspaces_text(ann: httpx.Client, eve: httpx.Client):
    rare, common, slug = word(), word(), word("bot-")
    for api in (ann, eve):
        talk = Talk(api, slug)
        talk.say(f"{rare} padding padding", id="one")
        talk.say(f"{common} padding", id="two")
        talk.say(f"{rare} {common} {common}", id="three")
    before = [[hit["snippet"] for hit in Talk(ann, slug).hits(query)] for query in (rare, common)]
    for n in range(30):
        Talk(eve).say(f"{common} {rare} {n}")
    assert [[hit["snippet"] for hit in Talk(ann, slug).hits(query)] for query in (rare, common)] == before


def test_what_a_caller_says_about_workspaces_changes_nothing(ann: httpx.Client, eve: httpx.Client):
    secret = word()
    said = Talk(eve).say(secret)
    more = {"workspace": "elsewhere", "user_id": "eve", "db_path": "elsewhere.db", "workspace_id": "elsewhere"}
    response = ann.post("/api/v1/conversations/search", json={"agent_id": said["agent_id"], "query": secret, **more})
    assert response.status_code == 404
    assert Talk(ann).all(secret, **more) == []


def test_an_agents_token_searches_and_records_only_itself(ann: httpx.Client, robo: httpx.Client, cyber: httpx.Client):
    unique = word()
    mine = Talk(robo, "robo").say(unique)
    yours = Talk(cyber, "cyber").say(unique)
    assert Talk(robo, "robo").found(unique) == Talk(robo, mine["agent_id"]).found(unique) == [mine["id"]]
    assert [hit["id"] for hit in Talk(robo).all(unique)] == [mine["id"]]
    for name in ("cyber", yours["agent_id"], word("new-")):
        other = Talk(robo, name)
        for response in (
            robo.post("/api/v1/conversations/search", json={"agent_id": name, "query": unique}),
            other.post("I was never here"),
            robo.get(other.path("s-1")),
            robo.get(other.path("s-1", "/export")),
            robo.delete(other.path("s-1", "")),
        ):
            assert response.status_code == 403
            assert unique not in response.text
            assert response.json()["error"] in (
                "An agent can access only its own sessions.",
                "There is no such session that you may read. List sessions to see which you can read.",
            )
    assert robo.get("/api/v1/sessions", params={"agent": "cyber"}).json()["sessions"] == []
    listed = robo.get("/api/v1/sessions").json()["sessions"]
    assert {session["agent_id"] for session in listed} == {mine["agent_id"]}
    assert len(Talk(ann).all(unique)) == 2


def test_reading_is_not_writing(guarded: Guarded, ann: httpx.Client):
    reader = guarded.key("default", "human", "reader", "read")
    said = (talk := Talk(ann)).say(unique := word())
    assert Talk(reader, talk.agent).found(unique) == [said["id"]]
    for response in (Talk(reader, talk.agent).post("no"), reader.delete(talk.path("s-1", ""))):
        assert response.status_code == 403
    writer = guarded.key("default", "human", "writer", "write")
    assert writer.post("/api/v1/conversations/search", json={"agent_id": talk.agent, "query": "x"}).status_code == 403


# Agent tool


def own(client: Mcp, query: str, tool: str = TOOLS[0]) -> list[str]:
    return [hit["id"] for hit in client.call(tool, query=query)["hits"]]


@ONE_ENGINE
def test_the_tool_is_listed_and_described(api: httpx.Client, mcp: Mcp):
    tools = {tool["name"]: tool for tool in mcp.ask("tools/list")["tools"]}
    tool = tools["conversation_search_own"]
    assert tool["annotations"]["readOnlyHint"] is True
    assert set(tool["inputSchema"]["properties"]) == {"query", "limit", "project", "agent_id", "token"}
    assert "not instructions" in " ".join(tool["description"].split())
    assert tool["outputSchema"]["type"] == "object"
    assert tools["session_append"]["annotations"]["readOnlyHint"] is False
    dotted = {tool["name"] for tool in Mcp(api, "/mcp?names=dotted&tools=all").ask("tools/list")["tools"]}
    assert {"conversation.search", "session.append"} <= dotted
    only = {tool["name"] for tool in Mcp(api, "/mcp?tools=sessions").ask("tools/list")["tools"]}
    assert only == {"conversation_search_own", "session_append"}


def test_the_tool_answers_like_the_api(api: httpx.Client, talk: Talk):
    unique = word()
    talk.say(f"a <b>{unique}</b> & more", "sess-42", ts="2026-06-01T10:00:00Z")
    client = Mcp(api, f"/mcp?agent={talk.agent}")
    (hit,) = talk.hits(unique)
    answer = client.call("conversation.search", query=unique)
    plain = {**hit, "snippet": f"a <b><mark>{unique}</mark></b> & more"}
    assert answer == {"count": 1, "query": unique, "hits": [plain], "available": True, "message": None}
    assert client.call("conversation_search_own", query=unique) == answer
    assert client.call("conversation_search_own", q=unique) == answer
    assert client.call("conversation_search_own", query=unique, limit=0)["count"] == 1


def test_the_tool_clamps_limits_and_refuses_what_it_does_not_know(server: Server, api: httpx.Client, talk: Talk):
    unique = word()
    write_many(server, talk, [f"{unique} {n}" for n in range(25)])
    client = Mcp(api, f"/mcp?agent={talk.agent}")
    assert client.call("conversation_search_own", query=unique)["count"] == 20
    assert client.call("conversation_search_own", query=unique, limit=1000)["count"] == 25
    for arguments in ({}, {"query": ""}, {"query": "  "}, {"query": 5}, {"query": unique, "limit": "x"}):
        assert client.refused("conversation_search_own", arguments)["error"]
    assert client.refused("conversation_search_own", query=unique, agent_id="x")["error"] == "UNAUTHORIZED"
    for name in ("agent", "workspace", "user_id", "db_path"):
        assert name in client.refused("conversation_search_own", {"query": unique, name: "x"})["error"]


def test_without_an_identity_nobodys_history_is_shown(mcp: Mcp, talk: Talk):
    talk.say(unique := word())
    for tool in TOOLS:
        answer = mcp.call(tool, query=unique)
        assert (answer["count"], answer["hits"], answer["available"]) == (0, [], False)
        assert "does not know which agent you are" in answer["message"]
    assert "does not know" in mcp.refused("session_append", session_id="s", role="user", content="x")["error"]


def test_who_connected_in_the_session_is_that_agent(api: httpx.Client, mcp: Mcp):
    unique = word()
    agent = mcp.call("bus_connect", thread_name=f"topic {word()}")["agent"]
    said = mcp.call("session_append", session_id="s-1", role="assistant", content=unique, id="t-1")
    assert (said["id"], said["session_id"], said["agent_id"]) == ("t-1", "s-1", agent["agent_id"])
    assert own(mcp, unique) == ["t-1"]
    assert Talk(api, agent["agent_id"]).found(unique) == ["t-1"]
    sibling, other = Mcp(api), OtherProgram(api)
    for client in (sibling, other):
        client.call("bus_connect", thread_name=f"topic {word()}")
    assert own(sibling, unique) == ["t-1"]  # another instance of the same program
    assert own(other, unique) == []


@ONE_ENGINE
@pytest.mark.parametrize("door", ["http-2025", "http-2026", "websocket"])
def test_the_address_says_which_agent_a_client_is(server: Server, api: httpx.Client, talk: Talk, door: str):
    unique, other = word(), Talk(api)
    with through(door, server, api, f"?agent={talk.agent}") as client:
        assert client.call("conversation.search", query=unique)["available"] is True
        said = client.call("session_append", session_id="s-1", role="user", content=unique)
        other.say(unique)
        assert own(client, unique) == [said["id"]]
    assert talk.found(unique) == [said["id"]]


@ONE_ENGINE
def test_on_stdio_the_environment_says_which_agent_a_client_is(server: Server, api: httpx.Client, talk: Talk):
    unique, other = word(), Talk(api)
    mine, _ = talk.say(unique), other.say(unique)
    with through("stdio", replace(server, env=server.env | {"PALAVER_AGENT": talk.agent}), api) as client:
        assert own(client, unique) == [mine["id"]]
        said = client.call("session_append", session_id="s-2", role="user", content=unique)
        assert said["agent_id"] == mine["agent_id"]
    with through("stdio", server, api) as nobody:
        assert nobody.call("conversation_search_own", query=unique)["available"] is False
    assert sorted(talk.found(unique)) == sorted([mine["id"], said["id"]])


def test_a_token_is_the_agent_whatever_the_address_says(robo: httpx.Client, cyber: httpx.Client):
    unique = word()
    mine = Mcp(robo).call("session_append", session_id="s-1", role="user", content=unique)
    yours = Mcp(cyber).call("session_append", session_id="s-1", role="user", content=unique)
    assert mine["agent_id"] != yours["agent_id"]
    for path in ("/mcp", "/mcp?agent=cyber", f"/mcp?agent={yours['agent_id']}"):
        client = Mcp(robo, path)
        assert own(client, unique) == [mine["id"]]
        assert client.call("session_append", session_id="s-1", role="user", content="x")["agent_id"] == mine["agent_id"]


def test_a_persons_token_has_no_history_of_its_own(ann: httpx.Client, robo: httpx.Client):
    Talk(robo, "robo").say(unique := word())
    answer = Mcp(ann, "/mcp?agent=robo").call("conversation.search", query=unique)
    assert (answer["count"], answer["available"]) == (0, False)


def test_the_tool_checks_turns_like_the_api(api: httpx.Client, talk: Talk):
    client = Mcp(api, f"/mcp?agent={talk.agent}")
    for arguments, field in (
        ({"role": "user", "content": "x"}, "session_id"),
        ({"session_id": "s", "content": "x"}, "role"),
        ({"session_id": "s", "role": "user"}, "content"),
        ({"session_id": "s", "role": "user", "content": 5}, "content"),
        ({"session_id": "s", "role": "user", "content": "x", "ts": "soon"}, "ts"),
        ({"session_id": "s", "role": "user", "content": "x", "agent_id": "other"}, "UNAUTHORIZED"),
        ({"session_id": "s", "role": "user", "content": "x", "agent": "other"}, "agent"),
    ):
        assert field in client.refused("session_append", arguments)["error"]


# The index is off


@pytest.fixture(scope="module")
def unindexed(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("unindexed")
    with start_server(home, PALAVER_SESSIONS_INDEX="off", PALAVER_DATABASE_URL=engine.fresh()) as server:
        yield server


def test_503_when_the_index_is_off_and_recording_goes_on(unindexed: Server):
    with unindexed.client() as api:
        talk, unique = Talk(api), word()
        said = talk.say(unique)
        assert [line["id"] for line in lines(unindexed, talk)] == [said["id"]]
        for method, path, body in (
            ("POST", "/api/v1/conversations/search", {"agent_id": talk.agent, "query": unique}),
            ("POST", "/api/v1/conversations/search/all", {"query": unique}),
            ("GET", "/api/v1/sessions", None),
        ):
            response = api.request(method, path, json=body)
            assert response.status_code == 503
            assert "not available" in response.json()["error"]
        assert api.post("/api/v1/conversations/search", json={"query": "x"}).status_code == 400
        assert unique in api.get(talk.path("s-1", "/export")).text
        assert api.delete(talk.path("s-1", "")).status_code == 200


def test_the_tool_says_not_available_instead_of_failing(unindexed: Server):
    with unindexed.client() as api:
        client = Mcp(api, f"/mcp?agent={word('bot-')}")
        client.call("session_append", session_id="s-1", role="user", content="hello")
        for tool in TOOLS:
            answer = client.answer(tool, query="hello")
            assert answer.is_error is False
            assert answer.value["message"].count("not available") == 1
            assert answer.value == {
                "count": 0,
                "query": "hello",
                "hits": [],
                "available": False,
                "message": answer.value["message"],
            }


# Looking at sessions


def test_sessions_are_listed_the_latest_first(talk: Talk):
    for session, ts in (
        ("old", "2026-01-01T00:00:00Z"),
        ("new", "2026-03-01T00:00:00Z"),
        ("mid", "2026-02-01T00:00:00Z"),
    ):
        talk.say(f"about {session}\nand more", session, ts=ts)
    said = talk.say("again", "new", ts="2026-03-02T00:00:00Z")
    listed = talk.api.get("/api/v1/sessions", params={"agent": talk.agent}).json()["sessions"]
    assert [session["session_id"] for session in listed] == ["new", "mid", "old"]
    assert listed[0] == {
        "session_id": "new",
        "agent_id": said["agent_id"],
        "agent": talk.agent,
        "title": "about new",
        "turns": 2,
        "created_at": "2026-03-01T00:00:00Z",
        "last_turn_at": "2026-03-02T00:00:00Z",
    }
    assert len(talk.api.get("/api/v1/sessions", params={"agent": talk.agent, "limit": 2}).json()["sessions"]) == 2
    assert talk.api.get("/api/v1/sessions", params={"agent": word()}).status_code == 404


def test_a_session_is_shown_in_the_order_it_was_recorded(talk: Talk):
    said = [
        talk.say(f"turn {n}", role=("user", "assistant")[n % 2], ts=f"2026-06-0{9 - n}T00:00:00Z") for n in range(6)
    ]
    shown = talk.api.get(talk.path("s-1")).json()
    assert shown == {"session_id": "s-1", "agent_id": said[0]["agent_id"], "turns": said}
    assert talk.api.get(talk.path("s-1"), params={"after": 2, "limit": 3}).json()["turns"] == said[2:5]


def test_a_session_is_exported_as_markdown_or_json_lines(talk: Talk):
    one = talk.say("hello\n\n# not a heading of ours", ts="2026-06-01T10:00:00Z")
    other = talk.say("hi", role="assistant", ts="2026-06-01T10:00:01Z")
    markdown = talk.api.get(talk.path("s-1", "/export"))
    assert markdown.headers["content-type"] == "text/plain; charset=utf-8"
    assert markdown.text == (
        "# s-1\n\n## user — 2026-06-01T10:00:00Z\n\nhello\n\n# not a heading of ours\n\n"
        "## assistant — 2026-06-01T10:00:01Z\n\nhi\n\n"
    )
    exported = talk.api.get(talk.path("s-1", "/export"), params={"format": "jsonl"}).text
    assert [json.loads(line) for line in exported.splitlines()] == [one, other]
    assert talk.api.get(talk.path("s-1", "/export"), params={"format": "pdf"}).status_code == 400


def test_a_session_that_is_not_there_is_404(talk: Talk):
    talk.say("x")
    for method, what in (("GET", "/messages"), ("GET", "/export"), ("DELETE", "")):
        response = talk.api.request(method, talk.path("none", what))
        assert response.status_code == 404
        assert "none" in response.json()["error"]


# Deleting


def test_a_deleted_session_is_gone_and_leaves_a_tombstone(server: Server, talk: Talk):
    unique = word()
    said, kept = talk.say(unique, "gone"), talk.say(unique, "kept")
    answer = talk.api.delete(talk.path("gone", "")).json()
    assert answer == {"deleted": True, "session_id": "gone", "agent_id": said["agent_id"]}
    assert talk.found(unique) == [kept["id"]]
    assert talk.api.get(talk.path("gone")).status_code == 404
    assert talk.api.delete(talk.path("gone", "")).status_code == 404
    folder = transcripts(server) / talk.agent
    assert sorted(path.name for path in folder.iterdir()) == ["agent.json", "deleted.jsonl", "kept.jsonl"]
    stone = json.loads((folder / "deleted.jsonl").read_text())
    assert stone["session_id"] == "gone"
    assert re.fullmatch(TIME, stone["deleted_at"])
    assert unique not in (folder / "deleted.jsonl").read_text()


def test_a_session_whose_transcript_somebody_took_away_can_be_deleted(server: Server, talk: Talk):
    unique = word()
    talk.say(unique)
    (transcripts(server) / talk.agent / "s-1.jsonl").unlink()
    assert talk.found(unique) != []
    assert talk.api.delete(talk.path("s-1", "")).json()["deleted"] is True
    assert talk.found(unique) == []
    assert talk.api.delete(talk.path("s-1", "")).status_code == 404


def test_recording_again_after_a_delete_is_a_new_session(server: Server, talk: Talk):
    unique = word()
    talk.say(f"{unique} before", id="t-1")
    for n in range(3):
        talk.api.delete(talk.path("s-1", ""))
        assert talk.found(unique) == []
        assert talk.say(f"{unique} after {n}", id="t-1")["content"] == f"{unique} after {n}"
        assert talk.contents(unique) == [f"{unique} after {n}"]
    assert [line["content"] for line in lines(server, talk)] == [f"{unique} after 2"]


def test_deleting_while_recording_loses_nothing_that_came_after(server: Server, talk: Talk):
    stop = threading.Event()

    def delete_on() -> None:
        for _ in range(200):
            if stop.is_set():
                break
            talk.api.delete(talk.path("s-1", ""))

    deleting = threading.Thread(target=delete_on)
    deleting.start()
    try:
        for n in range(60):
            talk.say(f"turn {n}")
    finally:
        stop.set()
        deleting.join(20)
    last = talk.say("the last turn")
    assert talk.found("the last turn") == [last["id"]]
    shown = [turn["id"] for turn in talk.api.get(talk.path("s-1")).json()["turns"]]
    assert shown == [line["id"] for line in lines(server, talk)]


# The JSONL files remain authoritative; the index is a rebuildable mirror


class Alone:
    """A home that is looked after from a terminal, on either engine."""

    def __init__(self, engine: Engine, home: Path) -> None:
        self.engine, self.home = engine, home
        self.url = engine.fresh()

    def run(self, *args: str, **env: str) -> Result:
        return Terminal(self.home).run(*args, PALAVER_DATABASE_URL=self.url, **env)

    def say(self, content: str, session: str = "s-1", *args: str, **env: str) -> str:
        """Record a turn of the agent 'bot'; returns its id."""
        append = ("session", "append", "--agent", "bot", "--session", session, "--role", "user", *args)
        return str(json.loads(self.run(*append, "--json", "--", content, **env).stdout)["id"])

    def hits(self, query: str) -> list[dict[str, Any]]:
        done = self.run("conversation", "search", "bot", query, "--json", "--limit", "100")
        return list(json.loads(done.stdout)["hits"])

    def found(self, query: str) -> list[str]:
        return sorted(hit["id"] for hit in self.hits(query))

    @property
    def folder(self) -> Path:
        return self.home / "sessions" / "default" / "bot"

    def start(self) -> Any:
        return start_server(self.home, PALAVER_DATABASE_URL=self.url)

    def lose_every_database_file(self) -> None:
        self.url = self.engine.fresh()  # the old one is never looked at again


@pytest.fixture
def alone(engine: Engine, tmp_path: Path) -> Alone:
    return Alone(engine, tmp_path / "home")


def answers(api: httpx.Client, agents: list[str]) -> list[Any]:
    """Everything a rebuild must bring back as it was."""
    asked: list[Any] = [Talk(api).all(query, limit=100) for query in ("harbour", "harbour mooring", "日本", "cafe")]
    for agent in agents:
        talk = Talk(api, agent)
        asked += [
            talk.search("harbour"),
            talk.search("mooring", role="user"),
            talk.search("harbour", since="2026-06-02"),
        ]
        asked.append(api.get("/api/v1/sessions", params={"agent": agent}).json())
        asked.append(api.get(talk.path("a/b")).json())
    return asked


def fill(api: httpx.Client, agents: list[str]) -> None:
    for number, agent in enumerate(agents):
        talk = Talk(api, agent)
        for n in range(8):
            content = f"harbour {'mooring ' * (n % 3)}日本 café {'x ' * n}"
            talk.say(
                content, ("a/b", "s-2")[n % 2], ("user", "assistant")[n % 2], ts=f"2026-06-0{1 + number}T00:00:0{n}Z"
            )
        talk.say("harbour that must not come back", "deleted")
        api.delete(talk.path("deleted", ""))
        talk.say("harbour after the deletion", "again")
        api.delete(talk.path("again", ""))
        talk.say("harbour begun anew", "again", ts="2026-06-05T00:00:00Z")


def test_the_jsonl_alone_brings_back_agents_turns_and_tombstones(alone: Alone):
    agents = ["backend-bot", "front"]
    with alone.start() as server, server.client() as api:
        fill(api, agents)
        before = answers(api, agents)
        ids = [api.get(f"/api/agents/{agent}").json()["id"] for agent in agents]
    alone.lose_every_database_file()
    with alone.start() as server, server.client() as api:
        eventually(lambda: len(Talk(api).all("harbour", limit=100)) == 18)
        assert answers(api, agents) == before
        assert [api.get(f"/api/agents/{agent}").json()["id"] for agent in agents] == ids
        assert Talk(api).all("must not come back") == []
        assert Talk(api, agents[0]).say("harbour again")["agent_id"] == ids[0]
    (alone.home / "sessions" / "default" / "front" / "agent.json").unlink()
    alone.lose_every_database_file()
    assert alone.run("reindex").stdout == "19 turns are in the index.\n"
    hits = json.loads(alone.run("conversation", "search", "front", "harbour", "--json").stdout)
    assert hits == before[-5]
    assert hits["hits"][0]["agent"] == ids[1]


def test_reindex_gives_the_same_answers_after_the_index_was_lost(alone: Alone):
    agents = ["backend-bot", "front"]
    with alone.start() as server, server.client() as api:
        fill(api, agents)
        before = answers(api, agents)
        lose_the_index(alone.url)
        assert Talk(api).all("harbour") == []
        done = alone.run("reindex")
        assert (done.exit_code, done.stdout, done.stderr) == (0, "18 turns are in the index.\n", "")
        assert answers(api, agents) == before
        again = alone.run("reindex")
        assert (again.exit_code, again.stdout) == (0, done.stdout)
        assert answers(api, agents) == before
        assert alone.run("verify").exit_code == 0


def test_verify_says_what_differs_and_reindex_puts_it_right(alone: Alone):
    """Turns that were changed in the transcript behind our back, byte for byte; the first of two twins counts."""
    for n in range(6):
        alone.say(f"harbour {n}", "s-1", "--id", f"t-{n}")
    alone.say("harbour in a file that goes", "s-2")
    assert alone.run("verify", "--json").stdout == "[]\n"
    zero, one, two, three, four, five = (alone.folder / "s-1.jsonl").read_text().splitlines()
    other_id = zero.replace("t-0", "t-8")
    other_text = two.replace("harbour 2", "mooring 2")
    twin = four.replace("t-4", "t-1")
    changed = [other_id, one, other_text, "x" * len(three), twin, five]
    (alone.folder / "s-1.jsonl").write_text("\n".join(changed) + "\n")
    (alone.folder / "s-2.jsonl").unlink()

    done = alone.run("verify", "--json")
    assert done.exit_code == 1
    assert "palaver reindex --discard-missing" in done.stderr
    assert json.loads(done.stdout) == [
        {"agent": "bot", "file": "s-1.jsonl", "missing": 1, "extra": 3, "different": 1, "unreadable": 1},
        {"agent": "bot", "file": "s-2.jsonl", "missing": 0, "extra": 1, "different": 0, "unreadable": 0},
    ]
    kept = alone.run("reindex")
    assert (kept.exit_code, kept.stdout) == (0, "8 turns are in the index.\n")
    assert "1 line of transcripts cannot be read: bot/s-1.jsonl line 4." in kept.stderr
    assert "4 turns are in the index and in no transcript" in kept.stderr
    assert "(bot/s-2.jsonl, bot/s-1.jsonl)" in kept.stderr
    assert len(alone.found("harbour")) == 7  # all that were there, but t-2 is a mooring now, and t-8 is new
    assert alone.found("mooring") == ["t-2"]
    assert alone.run("verify").exit_code == 1
    assert alone.run("reindex", "--discard-missing").stdout == "4 turns are in the index.\n"
    assert alone.found("harbour") == ["t-1", "t-5", "t-8"]
    assert [hit["content"] for hit in alone.hits("harbour 1")] == ["harbour 1"]
    assert alone.found("mooring") == ["t-2"]
    assert alone.run("verify").exit_code == 0


def test_a_damaged_line_or_file_stops_only_itself_in_a_rebuild(alone: Alone):
    """What the index knows of it is the last copy, and stays; everything else is rebuilt."""
    for session in ("torn", "flipped", "lost", "unreadable", "whole"):
        for n in range(3):
            alone.say(f"harbour {session} {n}", session, "--id", f"{session}-{n}")
    torn, flipped, unreadable = (alone.folder / f"{name}.jsonl" for name in ("torn", "flipped", "unreadable"))
    torn.write_bytes(torn.read_bytes()[:-30])
    first, second, third = flipped.read_bytes().splitlines(keepends=True)
    flipped.write_bytes(first + second.replace(b'"content"', b'"con\x00ent"') + third)
    (alone.folder / "lost.jsonl").unlink()
    unreadable.unlink()
    unreadable.mkdir()
    before = alone.found("harbour")

    with alone.start() as server, server.client() as api:
        done = alone.run("reindex")
        assert (done.exit_code, done.stdout) == (0, "15 turns are in the index.\n")
        places = "bot/flipped.jsonl line 2, bot/torn.jsonl line 3, bot/unreadable.jsonl line 1"
        assert f"3 lines of transcripts cannot be read: {places}." in done.stderr
        assert "8 turns are in the index and in no transcript" in done.stderr
        assert all(f"bot/{name}.jsonl" in done.stderr for name in ("torn", "flipped", "lost", "unreadable"))
        assert "whole.jsonl" not in done.stderr
        assert sorted(hit["id"] for hit in Talk(api).all("harbour", limit=100)) == before
    assert alone.run("verify").exit_code == 1
    unreadable.rmdir()

    repaired = alone.run("doctor", "--repair")
    assert repaired.exit_code == 1
    assert "wrote 1 turn to bot/torn.jsonl again, as the index had them" in repaired.stdout
    assert "6 turns are in the index and in no transcript" in repaired.stdout
    assert alone.found("harbour") == before
    assert alone.run("reindex", "--discard-missing").stdout == "9 turns are in the index.\n"
    assert alone.found("harbour") == [id for id in before if not id.startswith(("lost", "unreadable"))]
    assert alone.run("verify").exit_code == 0


def test_reindex_does_not_resurrect_what_was_deleted(alone: Alone):
    alone.say("harbour gone")
    file = alone.folder / "s-1.jsonl"
    old = file.read_bytes()
    alone.run("session", "delete", "bot", "s-1")
    file.write_bytes(old)  # a backup put back, or a deletion that was interrupted
    assert alone.run("reindex").stdout == "0 turns are in the index.\n"
    assert alone.found("harbour") == []
    new = alone.say("harbour new")
    assert alone.run("reindex").stdout == "1 turns are in the index.\n"
    assert alone.found("harbour") == [new]


def test_a_deletion_that_was_interrupted_is_finished_at_the_start(alone: Alone):
    for session in ("one", "two", "three"):
        alone.say("harbour", session)
    stones = [{"session_id": session, "deleted_at": datetime.now(UTC).isoformat()} for session in ("one", "two")]
    (alone.folder / "deleted.jsonl").write_text("".join(json.dumps(stone) + "\n" for stone in stones))
    (alone.folder / "two.jsonl").unlink()
    assert [hit["session_id"] for hit in alone.hits("harbour")] == ["three"]


def test_what_was_recorded_while_the_index_was_off_is_found_once_it_is_on(alone: Alone):
    off = {"PALAVER_SESSIONS_INDEX": "off"}
    said = [alone.say(f"harbour {n}", f"s-{n}", "--id", f"t-{n}", **off) for n in range(5)]
    alone.say("harbour 0", "s-0", "--id", "t-0", **off)  # known again once it is read
    alone.run("session", "delete", "bot", "s-4", **off)
    assert alone.found("harbour") == said[:4]
    assert alone.run("verify").exit_code == 0


def test_what_somebody_else_wrote_into_a_transcript_is_found_at_the_next_start(alone: Alone):
    alone.say("harbour one", "s-1", "--id", "t-1")
    line = json.loads((alone.folder / "s-1.jsonl").read_text())
    with (alone.folder / "s-1.jsonl").open("a") as file:
        file.write(json.dumps({**line, "id": "t-2", "content": "harbour two"}))  # an editor may leave the end out
    assert alone.found("harbour") == ["t-1", "t-2"]


def test_searches_go_on_while_the_index_is_made_again_and_appends_are_included(server: Server, talk: Talk):
    unique = word()
    write_many(server, talk, [f"{unique} number{n} {'filler ' * 40}" for n in range(1500)])
    eventually(lambda: talk.search(unique, limit=100)["count"] == 100)
    process = subprocess.Popen(
        palaver_command("reindex"), env=server.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    added: list[str] = []
    looks = 0
    while process.poll() is None and looks < 5_000:
        assert talk.search(unique, limit=100)["count"] == 100
        added.append(talk.say(f"meanwhile{looks} {unique}x")["id"])
        assert talk.found(f"meanwhile{looks}") == [added[-1]]
        looks += 1
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
    _, complaint = process.communicate(timeout=30)
    assert process.returncode == 0, complaint
    assert looks
    for n, id in enumerate(added):
        assert talk.found(f"meanwhile{n}") == [id]
    assert len(talk.found(f"{unique} number1499")) == 1
    shown = talk.api.get(talk.path("s-1"), params={"after": 1500, "limit": 1000}).json()["turns"]
    assert [turn["id"] for turn in shown][-len(added) :] == added


@ONE_ENGINE
def test_lines_that_cannot_be_read_are_passed_over_and_counted(alone: Alone):
    alone.say("harbour one", "s-1", "--id", "t-1")
    with (alone.folder / "s-1.jsonl").open("ab") as out:
        out.write(b"\xff\xfe not text\n" + b'{"id": 5}\n' + b'{"half": ')
    alone.say("harbour two", "s-1", "--id", "t-2")
    assert alone.found("harbour") == ["t-1", "t-2"]
    done = alone.run("verify", "--json")
    assert done.exit_code == 0
    (row,) = json.loads(done.stdout)
    assert row == {"agent": "bot", "file": "s-1.jsonl", "missing": 0, "extra": 0, "different": 0, "unreadable": 3}
    alone.lose_every_database_file()
    assert alone.run("reindex").stdout == "2 turns are in the index.\n"


def test_a_nul_that_somebody_wrote_into_a_transcript_stops_nothing(alone: Alone):
    alone.say("harbour one", "s-1", "--id", "t-1")
    line = json.loads((alone.folder / "s-1.jsonl").read_text())
    with (alone.folder / "s-1.jsonl").open("a") as out:
        out.write(json.dumps({**line, "id": "t-2", "content": "harbour\0nul"}) + "\n")
    alone.say("harbour three", "s-1", "--id", "t-3")
    assert alone.found("harbour") == ["t-1", "t-2", "t-3"]
