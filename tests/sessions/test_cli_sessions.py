"""Sessions from a terminal: recording, searching and looking after them, on the data and through a server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from tests.doors.test_cli import Terminal, terminal
from tests.helpers import Server, environment, free_port, start_server, started, word

__all__ = ["terminal"]

CONTENT = "please deploy the staging pipeline tonight"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_server(tmp_path_factory.mktemp("running")) as server:
        yield server


class Way(Terminal):
    """One of the two ways: on the data itself, or through the server that has it open too."""

    def __init__(self, running: Server, through_server: bool) -> None:
        super().__init__(running.home)
        self.env = {"PALAVER_URL": running.url} if through_server else {}

    def run(self, *args: str, input: str | bytes | None = None, **env: str) -> Result:
        return super().run(*args, input=input, **self.env | env)

    def append(self, agent: str, session: str, *args: str, input: str | bytes | None = None) -> list[dict[str, Any]]:
        said = self.json("session", "append", "--agent", agent, "--session", session, *args, input=input)
        assert isinstance(said, list) == ("--role" not in args), "one turn is one thing, JSON lines are a list"
        return list(said) if isinstance(said, list) else [said]


@pytest.fixture(params=["here", "there"])
def way(request: pytest.FixtureRequest, running: Server) -> Way:
    return Way(running, request.param == "there")


@pytest.fixture
def agent() -> str:
    return word("bot-")


# Recording


def test_a_turn_is_recorded_from_the_line_or_from_standard_input(way: Way, agent: str):
    (said,) = way.append(
        agent, "s-1", "--role", "user", *CONTENT.split(), "--id", "t-1", "--ts", "2026-06-01T10:00:00Z"
    )
    assert said == {
        "id": "t-1",
        "session_id": "s-1",
        "agent_id": way.json("agent", "show", agent)["id"],
        "role": "user",
        "content": CONTENT,
        "ts": "2026-06-01T10:00:00Z",
    }
    for words in ((), ("-",)):
        (said,) = way.append(agent, "s-1", "--role", "assistant", *words, input="one\n  two ü\n")
        assert (said["role"], said["content"]) == ("assistant", "one\n  two ü")
    (said,) = way.append(agent, "s-1", "--role", "tool", "--", "--not-an-option")
    assert said["content"] == "--not-an-option"


def test_without_a_role_standard_input_is_json_lines(way: Way, agent: str):
    turns: list[dict[str, Any]] = [
        {"role": "user", "content": "one\nü"},
        {"role": "assistant", "content": "two", "id": "t-2", "ts": "2026-06-01T12:00:00+02:00", "model": "passed over"},
    ]
    lines = "\n".join(json.dumps(turn) for turn in turns)
    nothing_said = '{"role": "assistant", "content": ""}'
    said = way.append(agent, "s-1", input=f"\n{nothing_said}\n{lines}\n\n")
    assert [turn["content"] for turn in said] == ["one\nü", "two"]
    assert (said[1]["id"], said[1]["ts"]) == ("t-2", "2026-06-01T10:00:00Z")
    assert way.append(agent, "s-1", input=lines)[1] == said[1]
    assert way.json("session", "show", agent, "s-1")["turns"][:2] == said


@pytest.mark.parametrize("bad", ["{", "[]", "5", '"x"', '{"content": "no role"}', '{"role": "user", "content": 5}'])
def test_a_line_that_is_no_turn_is_named_and_what_came_before_is_kept(way: Way, agent: str, bad: str):
    append = ("session", "append", "--agent", agent, "--session", "s-1")
    result = way.run(
        *append, input=f'{{"role": "user", "content": "first"}}\n{bad}\n{{"role": "user", "content": "last"}}\n'
    )
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("palaver: ")
    assert [turn["content"] for turn in way.json("session", "show", agent, "s-1")["turns"]] == ["first"]


def test_what_is_wrong_with_a_turn_is_exit_code_2(way: Way, agent: str):
    append = ("session", "append", "--agent", agent)
    for args, input in (
        ((*append, "--session", "s-1", "some", "text"), None),
        ((*append, "--role", "user", "x"), None),
        ((*append, "--session", "s-1", "--role", "user", "--ts", "soon", "x"), None),
        ((*append, "--session", "", "--role", "user", "x"), None),
        ((*append, "--session", "s-1", "--role", "user"), b"\xff\xfe"),
        (("session", "append"), None),
    ):
        assert way.run(*args, input=input).exit_code == 2, args
    assert way.run("agent", "show", agent).exit_code == 3


@pytest.mark.parametrize("session", ["a/b", "deleted", "ünï 😀", "x" * 256, "two\nlines"])
def test_a_session_of_any_name_can_be_handled(way: Way, agent: str, session: str):
    way.append(agent, session, "--role", "user", "harbour")
    assert way.json("conversation", "search", agent, "harbour", "--session", session)["count"] == 1
    assert way.json("session", "show", agent, session)["session_id"] == session
    assert way.json("session", "list", "--agent", agent)["sessions"][0]["session_id"] == session
    assert way.json("session", "delete", agent, session)["deleted"] is True
    assert way.json("conversation", "search", agent, "harbour")["count"] == 0


# Searching


def test_the_result_is_the_envelope_of_the_api(way: Way, agent: str):
    (said,) = way.append(agent, "sess-42", "--role", "user", CONTENT, "--id", "msg_abc", "--ts", "2026-06-01T10:00:00Z")
    snippet = "please <mark>deploy</mark> the staging <mark>pipeline</mark> tonight"
    for args in (
        ("conversation", "search", agent, "deploy pipeline"),
        ("conversation", "search", agent, "deploy", "pipeline"),
        ("conv", "search", agent, "deploy", "pipeline"),
        ("conv", "search", said["agent_id"], "deploy", "pipeline", "--limit", "5"),
    ):
        hit = {**said, "agent_id": args[2], "agent": said["agent_id"], "snippet": snippet}
        expected = {"count": 1, "query": "deploy pipeline", "hits": [hit]}
        assert way.json(*args) == expected
        assert yaml.safe_load(way.ok(*args, "--format", "yaml")) == expected
        assert [json.loads(line) for line in way.ok(*args, "--format", "ndjson").splitlines()] == expected["hits"]


def test_the_table_shows_time_role_session_and_a_snippet(way: Way, agent: str):
    way.append(agent, "sess-42", "--role", "user", CONTENT, "--ts", "2026-06-01T10:00:00Z")
    header, row = way.ok("conversation", "search", agent, "pipeline").splitlines()
    assert header.split() == ["TS", "ROLE", "SESSION", "ID", "SNIPPET"]
    assert re.split(r"\s{2,}", row) == ["2026-06-01 10:00:00", "user", "sess-42", CONTENT]


def test_nothing_found_is_exit_code_0(way: Way, agent: str):
    way.append(agent, "s-1", "--role", "user", "hello")
    result = way.run("conversation", "search", agent, word())
    hint = "palaver: No turn has all of these words. Try fewer words or another spelling.\n"
    assert (result.exit_code, result.stderr) == (0, hint)
    assert way.ok("conversation", "search", agent, word(), "--format", "ndjson") == ""
    answer = way.json("conversation", "search", agent, "xyzzy")
    assert answer.pop("hint").startswith("No turn has all of these words.")
    assert answer == {"count": 0, "query": "xyzzy", "hits": []}


def test_limits_are_clamped(way: Way, agent: str):
    way.append(agent, "s-1", input="".join('{"role": "user", "content": "hello"}\n' for _ in range(23)))
    for args, count in (
        ((), 20),
        (("--limit", "3"), 3),
        (("--limit", "0"), 1),
        (("--limit", "-9"), 1),
        (("--limit", "999"), 23),
    ):
        assert way.json("conversation", "search", agent, "hello", *args)["count"] == count
    assert way.run("conversation", "search", agent, "hello", "--limit", "many").exit_code == 2


def test_filters_narrow_the_search(way: Way, agent: str):
    for day, role, session in ((1, "user", "one"), (2, "assistant", "one"), (3, "user", "two")):
        way.append(agent, session, "--role", role, "hello", "--ts", f"2026-06-0{day}T10:00:00Z", "--id", f"t-{day}")

    def found(*args: str) -> list[str]:
        return [hit["id"] for hit in way.json("conversation", "search", agent, "hello", *args)["hits"]]

    assert found() == ["t-3", "t-2", "t-1"]
    assert found("--role", "user") == ["t-3", "t-1"]
    assert found("--session", "one") == ["t-2", "t-1"]
    assert found("--since", "2026-06-02") == ["t-3", "t-2"]
    assert found("--until", "2026-06-02") == ["t-2", "t-1"]
    assert found("--since", "2026-06-02", "--until", "2026-06-02T09:00:00Z") == []


def test_all_searches_every_agent(way: Way):
    unique, one, other = word(), word("bot-"), word("bot-")
    for agent in (one, other):
        way.append(agent, "s-1", "--role", "user", unique)
    hits = way.json("conversation", "search", "--all", unique)["hits"]
    assert {hit["agent_id"] for hit in hits} == {way.json("agent", "show", agent)["id"] for agent in (one, other)}
    assert "AGENT ID" in way.ok("conv", "search", "--all", unique)
    assert way.run("conv", "search", "--all", unique, "--session", "s-1").exit_code == 2


def test_operators_are_words(way: Way, agent: str):
    way.append(agent, "s-1", "--role", "user", "this or that")
    way.append(agent, "s-1", "--role", "user", "that alone")
    assert [hit["content"] for hit in way.json("conv", "search", agent, "this", "OR", "that")["hits"]] == [
        "this or that"
    ]
    assert way.json("conv", "search", agent, "th*")["count"] == 0


def test_exit_codes_say_how_it_ended(way: Way, agent: str):
    way.append(agent, "s-1", "--role", "user", "hello")
    for args, code in (
        (("conversation", "search", agent, "hello"), 0),
        (("conversation", "search"), 2),
        (("conversation", "search", agent), 2),
        (("conversation", "search", agent, " "), 2),
        (("conversation", "search", agent, "x", "--since", "soon"), 2),
        (("conversation", "search", agent, "x", "--format", "csv"), 2),
        (("conversation", "search", agent, "x", "--nonsense"), 2),
        (("conversation", "search", word("nobody-"), "x"), 3),
        (("session", "show", agent, "none"), 3),
        (("session", "delete", agent, "none"), 3),
        (("session", "export", agent, "none"), 3),
        (("session", "list", "--agent", word("nobody-")), 3),
        (("conversation", "search", agent, "x", "--url", f"http://127.0.0.1:{free_port()}"), 5),
    ):
        result = way.run(*args)
        assert (args, result.exit_code) == (args, code)
        assert (code == 0) == bool(result.stdout), args
        assert code == 0 or result.stderr, args


def test_an_agents_token_reaches_only_itself(running: Server, way: Way, agent: str):
    other = word("bot-")
    way.append(other, "s-1", "--role", "user", "hello")
    token = Terminal(running.home).ok("token", "create", "--agent", agent).strip()
    as_agent = {"PALAVER_TOKEN": token}
    append = ("session", "append", "--session", "s-1", "--role", "user", "hello", "--agent")
    assert way.run(*append, agent, **as_agent).exit_code == 0
    assert json.loads(way.ok("conv", "search", agent, "hello", "--json", **as_agent))["count"] == 1
    for args in ((*append, other), ("conv", "search", other, "hello"), ("session", "delete", other, "s-1")):
        assert way.run(*args, **as_agent).exit_code == 4
    assert way.run("conv", "search", agent, "hello", PALAVER_TOKEN="plv_nonsense").exit_code == 4


def test_without_an_index_searching_is_exit_code_5_and_recording_is_not(terminal: Terminal):
    off = {"PALAVER_SESSIONS_INDEX": "off"}
    terminal.ok("session", "append", "--agent", "bot", "--session", "s-1", "--role", "user", "hello", **off)
    for args in (("conv", "search", "bot", "hello"), ("session", "list"), ("reindex",), ("verify",)):
        assert terminal.run(*args, **off).exit_code == 5
    assert "hello" in terminal.ok("session", "export", "bot", "s-1", **off)
    assert terminal.json("conv", "search", "bot", "hello")["count"] == 1


def test_piped_output_is_clean(running: Server, agent: str):
    Way(running, False).append(agent, "s-1", "--role", "user", "hello \x1b[31mred\x1b[0m 日本")
    for args in (("conv", "search", agent, "hello"), ("reindex",), ("session", "show", agent, "s-1")):
        done = started(running.home, *args, FORCE_COLOR="1", TERM="xterm-256color")
        assert (done.returncode, done.stderr) == (0, "")
        assert "\x1b" not in done.stdout
        assert "\r" not in done.stdout
    done = started(running.home, "conv", "search", agent, "hello", "--format", "json")
    assert json.loads(done.stdout)["hits"][0]["content"] == "hello \x1b[31mred\x1b[0m 日本"


def test_a_reader_that_has_enough_is_no_trouble(running: Server, agent: str):
    Way(running, False).append(agent, "s-1", input='{"role": "user", "content": "hello"}\n' * 30)
    command = f"'{sys.executable}' -m palaver conv search {agent} hello --limit 100 --format ndjson | head -n 1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], env=environment(running.home), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["content"] == "hello"


# Looking after sessions


def test_sessions_are_listed_shown_exported_and_deleted(way: Way, agent: str):
    (one,) = way.append(agent, "s-1", "--role", "user", "hello there", "--ts", "2026-06-01T10:00:00Z")
    (two,) = way.append(agent, "s-1", "--role", "assistant", "hi", "--ts", "2026-06-01T10:00:01Z")
    way.append(agent, "s-2", "--role", "user", "other", "--ts", "2026-05-01T10:00:00Z")
    listed = way.json("session", "list", "--agent", agent)["sessions"]
    assert [(one["session_id"], one["turns"], one["title"]) for one in listed] == [
        ("s-1", 2, "hello there"),
        ("s-2", 1, "other"),
    ]
    assert way.json("session", "show", agent, "s-1")["turns"] == [one, two]
    assert way.ok("session", "export", agent, "s-1") == (
        "# s-1\n\n## user — 2026-06-01T10:00:00Z\n\nhello there\n\n## assistant — 2026-06-01T10:00:01Z\n\nhi\n\n"
    )
    assert way.json("session", "delete", agent, "s-1")["deleted"] is True
    assert way.run("session", "show", agent, "s-1").exit_code == 3
    assert [one["session_id"] for one in way.json("session", "list", "--agent", agent)["sessions"]] == ["s-2"]


def test_agent_and_session_are_named_like_append_names_them_or_stand_in_their_place(way: Way, agent: str):
    for session in ("s-1", "s-2", "s-3"):
        way.append(agent, session, "--role", "user", "hello")
    shown = way.json("session", "show", agent, "s-1")
    assert way.json("session", "show", "--agent", agent, "--session", "s-1") == shown
    assert way.json("session", "show", "--session", "s-1", agent) == shown
    assert way.json("session", "delete", "--agent", agent, "--session", "s-1")["deleted"] is True
    assert way.json("session", "delete", agent, "--session", "s-2")["deleted"] is True
    assert way.json("session", "delete", "--agent", agent, "s-3")["deleted"] is True
    assert way.json("session", "list", "--agent", agent)["sessions"] == []
    for wrong in ((), (agent,), ("--agent", agent), ("--agent", agent, "--session", "s-1", "s-1")):
        result = way.run("session", "show", *wrong)
        assert (result.exit_code, result.stdout) == (2, "")


def test_what_is_exported_can_be_recorded_again(terminal: Terminal):
    terminal.ok("session", "append", "--agent", "one", "--session", "s-1", "--role", "user", "hello\n日本")
    lines = terminal.ok("session", "export", "one", "s-1", "--format", "jsonl")
    terminal.ok("session", "append", "--agent", "two", "--session", "s-9", input=lines)
    (turn,) = terminal.json("session", "show", "two", "s-9")["turns"]
    assert turn == {**json.loads(lines), "session_id": "s-9", "agent_id": terminal.json("agent", "show", "two")["id"]}


def test_verify_and_reindex_work_where_the_data_is(running: Server, terminal: Terminal):
    for command in ("reindex", "verify"):
        result = terminal.run(command, PALAVER_URL=running.url)
        assert result.exit_code == 2
        assert "only on local data" in result.stderr
    assert terminal.ok("reindex") == "0 turns are in the index.\n"
    result = terminal.run("verify")
    assert (result.exit_code, result.stdout, result.stderr) == (
        0,
        "",
        "palaver: 0 transcripts compared, 0 differ from the index.\n",
    )


def test_verify_shows_what_differs_and_reindex_mends_it(terminal: Terminal):
    for n in range(3):
        terminal.ok("session", "append", "--agent", "bot", "--session", "s-1", "--role", "user", f"harbour {n}")
    file = terminal.home / "sessions" / "default" / "bot" / "s-1.jsonl"
    file.write_text(file.read_text().replace("harbour 1", "mooring 1"))
    result = terminal.run("verify")
    assert result.exit_code == 1
    header, row = result.stdout.splitlines()
    assert header.split() == ["AGENT", "FILE", "MISSING", "EXTRA", "DIFFERENT", "UNREADABLE"]
    assert row.split() == ["bot", "s-1.jsonl", "0", "0", "1", "0"]
    assert "Run 'palaver reindex'" in result.stderr
    assert terminal.ok("reindex") == "3 turns are in the index.\n"
    assert terminal.run("verify").exit_code == 0
    assert terminal.json("conv", "search", "bot", "mooring")["count"] == 1


def test_each_workspace_has_sessions_of_its_own(terminal: Terminal):
    terminal.ok("workspace", "create", "w")
    append = ("session", "append", "--agent", "bot", "--session", "s-1", "--role", "user")
    terminal.ok(*append, "harbour here")
    terminal.ok(*append, "harbour there", "--workspace", "w")
    for workspace, content in (("default", "harbour here"), ("w", "harbour there")):
        hits = terminal.json("conv", "search", "--all", "harbour", "--workspace", workspace)["hits"]
        assert [hit["content"] for hit in hits] == [content]
        assert content in (terminal.home / "sessions" / workspace / "bot" / "s-1.jsonl").read_text()
    assert terminal.ok("reindex", "--workspace", "w") == "1 turns are in the index.\n"
    assert Path(terminal.home, "sessions", "w", "bot", "agent.json").exists()
