"""The command line: what it prints, where to, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doors.test_cli import Terminal, terminal
from tests.helpers import environment, palaver_command, started

from palaver.doors.cli import output

__all__ = ["terminal"]


@pytest.fixture
def talk(terminal: Terminal) -> Terminal:
    terminal.ok("thread", "create", "plans")
    terminal.ok("post", "plans", "The <b>quick</b> fox & co.", "--author", "ann")
    terminal.ok("post", "plans", "two\nlines", "--author", "bob")
    return terminal


# Formats


def test_a_pipe_gets_a_plain_aligned_table(talk: Terminal):
    header, first, second = talk.ok("thread", "read", "plans").splitlines()
    assert header.split("  ")[0] == "SEQ"
    assert first.endswith("ann          The <b>quick</b> fox & co.")
    assert second.endswith("bob          two lines")
    assert header.index("AUTHOR NAME") == first.index("ann") == second.index("bob")


def test_what_is_a_list_and_nothing_else_is_a_table_too(capsys: pytest.CaptureFixture[str]):
    """As `palaver note list` has it."""
    rows = [{"id": "1", "title": "A note", "content": "long", "keywords": ["a", "b"]}]
    output.show(rows, "table", columns=("id", "title", "keywords"))
    assert capsys.readouterr().out.split() == ["ID", "TITLE", "KEYWORDS", "1", "A", "note", "a,", "b"]
    output.show(rows, "ndjson")
    assert json.loads(capsys.readouterr().out) == rows[0]


def test_a_single_thing_is_shown_as_its_fields(talk: Terminal):
    lines = dict(line.split(None, 1) for line in talk.ok("thread", "show", "plans").splitlines())
    assert lines["topic"] == "plans"
    assert lines["status"] == "discuss"
    assert lines["message_count"] == "2"


def test_json_yaml_and_ndjson_say_the_same(talk: Terminal):
    whole = talk.json("thread", "read", "plans")
    assert [message["content"] for message in whole] == ["The <b>quick</b> fox & co.", "two\nlines"]
    assert yaml.safe_load(talk.ok("thread", "read", "plans", "--format", "yaml")) == whole
    lines = talk.ok("thread", "read", "plans", "--format", "ndjson").splitlines()
    assert [json.loads(line) for line in lines] == whole


def test_ndjson_of_a_page_is_one_row_a_line(talk: Terminal):
    (line,) = talk.ok("search", "quick", "--format", "ndjson").splitlines()
    assert json.loads(line)["sender"] == "ann"


def test_a_transcript_comes_as_it_is(talk: Terminal):
    said = talk.ok("thread", "export", "plans")
    assert said.startswith("# plans\n")
    assert said == talk.json("thread", "export", "plans")["text"]


def test_a_snippet_in_a_pipe_is_plain_text(talk: Terminal):
    assert talk.ok("search", "quick").splitlines()[1].endswith("The <b>quick</b> fox & co.")


def test_an_empty_list_says_so_beside_the_answer(talk: Terminal):
    result = talk.run("search", "nothing")
    assert result.exit_code == 0
    assert result.stdout == "SOURCE  LAST MODIFIED  TITLE  URI  SNIPPET\n"
    assert result.stderr == "palaver: Nothing has any of these words. Try other words or another spelling.\n"


def test_a_query_that_cannot_be_read_comes_back_with_a_hint(talk: Terminal):
    result = talk.run("search", '"quick', "--thread", "plans")
    assert result.exit_code == 0
    assert result.stderr.startswith("palaver: ")
    assert result.stderr != "palaver: No results.\n"


@pytest.mark.parametrize("args", [("search", "quick"), ("config",)])
def test_a_pipe_gets_no_colours(talk: Terminal, args: tuple[str, ...]):
    done = started(talk.home, *args, FORCE_COLOR="1")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


# On a terminal


def on_a_terminal(home: Path, *args: str, columns: int = 70, **env: str) -> str:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    whole = environment(home, COLUMNS=columns, LINES=24, TERM="xterm", **env)
    process = subprocess.Popen(palaver_command(*args), env=whole, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    try:
        while data := os.read(ours, 65536):
            said += data
    except OSError:
        pass  # the other end is closed
    os.close(ours)
    assert process.wait() == 0, said
    return said.decode().replace("\r\n", "\n")


def test_a_terminal_shows_matches_in_bold_and_wraps_long_text(talk: Terminal):
    talk.ok("post", "plans", "zebra " + "and a long tail " * 10)
    said = on_a_terminal(talk.home, "search", "zebra")
    assert "\x1b[1mzebra\x1b[0m" in said
    plain = said.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert max(len(line) for line in plain.splitlines() if "://" not in line) <= 70  # an address stays in one piece
    assert len(plain.splitlines()) > 2


def test_what_others_wrote_cannot_steer_the_terminal_and_no_color_is_heard(talk: Terminal):
    talk.ok("post", "plans", "\x1b]0;owned\x07\x1b[2J harmless \x9b31m \u202eback")
    for args in (("thread", "export", "plans"), ("search", "harmless")):
        said = on_a_terminal(talk.home, *args, NO_COLOR="1")
        assert "harmless" in said
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(said)


STEERING = "\x1b]0;owned\x07 \x85 \x9b31m \u202eback\u2069 \u200f \u061c \ue000 \x7f end"


@pytest.mark.parametrize("format, parse", [("json", json.loads), ("ndjson", json.loads), ("yaml", yaml.safe_load)])
def test_json_and_yaml_escape_what_would_steer_the_terminal_and_keep_the_value(
    talk: Terminal, format: str, parse: Callable[[str], Any]
):
    talk.ok("post", "plans", STEERING)
    said = talk.ok("thread", "read", "plans", "--format", format)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ue000]", said)
    found = parse(said.splitlines()[-1] if format == "ndjson" else said)
    assert (found[-1] if isinstance(found, list) else found)["content"] == STEERING


def test_an_operator_that_excludes_is_no_option(talk: Terminal):
    talk.ok("post", "plans", "another fox", "--author", "carl")
    for query in (("fox", "-from:ann"), ("-from:ann", "fox"), ("-has:code", "fox", "-from:ann", "--limit", "5")):
        assert [one["snippet"] for one in talk.json("search", *query)["results"]] == ["another fox"]
    assert talk.run("search", "fox", "-x").exit_code == 2


def test_an_error_that_repeats_the_input_cannot_steer_the_terminal(talk: Terminal):
    done = talk.run("thread", "read", STEERING)
    assert done.exit_code == 3
    assert not set("\x1b\x07\x9b\u202e") & set(done.output)


@pytest.mark.parametrize(
    "text, room, lines",
    [
        ("one two three", 8, ["one two", "three"]),
        ("one\ntwo", 8, ["one", "two"]),
        ("abcdefghij", 4, ["abcd", "efgh", "ij"]),
        ("日本語の文", 4, ["日本", "語の", "文"]),
        ("", 4, [""]),
        (
            f"a {output.BEGIN}b c{output.END} d",
            3,
            [f"a {output.BEGIN}b{output.END}", f"{output.BEGIN}c{output.END} d"],
        ),
    ],
)
def test_text_is_cut_where_it_reads_best(text: str, room: int, lines: list[str]):
    assert list(output.wrap(text, room)) == lines


# How it ends


@pytest.mark.parametrize(
    "args, code, says",
    [
        (("status",), 0, ""),
        (("thread", "show", "nope"), 3, "Thread 'nope' not found. List threads to see which exist."),
        (
            ("message", "show", "nope"),
            3,
            "Message 'nope' not found. List the messages of its thread, or search for it.",
        ),
        (
            ("search", "x", "--workspace", "nope"),
            3,
            "Workspace 'nope' not found. Create it with 'palaver workspace create NAME'.",
        ),
        (("thread", "create", " "), 2, "topic: must not be empty."),
        (("thread", "create"), 2, None),
        (("search",), 2, "Missing argument 'QUERY…'. See 'palaver search --help'."),
        (("post", "plans", "x", "--expected-last-seq", "1"), 1, "The thread is at seq 2, not 1."),
        (("thread", "lst"), 2, "There is no command 'thread lst'. Did you mean 'list'? See 'palaver thread --help'."),
        (("post", "plans", "x", "--prioritty", "low"), 2, "No such option"),
        (("thread", "update", "plans", "--metadata", "{"), 2, "Invalid value for '--metadata': '{' is not JSON."),
        (("thread", "update", "plans", "--metadata", "[1]"), 2, "metadata: "),
        (("thread", "list", "--limit", "many"), 2, "Invalid value for '--limit'"),
        (
            ("status", "--url", "http://127.0.0.1:9"),
            5,
            "No server answers at http://127.0.0.1:9. Start one with 'palaver serve'.",
        ),
        (("status", "--url", "ftp://x"), 2, "'ftp://x' is not the URL of a server."),
        (
            ("status", "--url", "http://127.0.0.1:9", "--workspace", "w"),
            2,
            "On a server the token decides the workspace",
        ),
        (("status", "--database-url", "mysql://x"), 2, "PALAVER_DATABASE_URL must begin with"),
    ],
)
def test_the_exit_code_and_one_line_say_what_happened(
    talk: Terminal, args: tuple[str, ...], code: int, says: str | None
):
    result = talk.run(*args)
    assert result.exit_code == code, result.output
    if code and says:
        assert result.stdout == ""
        assert result.stderr.startswith(f"palaver: {says}")
        assert result.stderr.count("\n") == 1


def test_a_token_that_reaches_not_far_enough_is_exit_code_4(talk: Terminal):
    token = talk.ok("token", "create", "--scope", "read").strip()
    assert talk.run("status", PALAVER_TOKEN=token).exit_code == 0
    refused = talk.run("post", "plans", "x", PALAVER_TOKEN=token)
    assert refused.exit_code == 4
    assert "no 'write' scope" in refused.stderr
    assert talk.run("status", PALAVER_TOKEN="plv_wrong").exit_code == 4


def test_a_directory_that_cannot_be_used_is_exit_code_5(talk: Terminal, tmp_path: Path):
    (tmp_path / "file").write_text("")
    result = talk.run("status", "--home", str(tmp_path / "file"))
    assert result.exit_code == 5
    assert result.stderr.startswith("palaver: The data directory cannot be")


def test_a_setting_that_cannot_be_read_is_exit_code_2(talk: Terminal):
    result = talk.run("status", PALAVER_PORT="many")
    assert (result.exit_code, result.stderr.split(" is not")[0]) == (2, "palaver: PALAVER_PORT = 'many'")


def test_a_reader_that_has_enough_ends_it_silently(talk: Terminal):
    process = subprocess.Popen(
        palaver_command("events", "--after", "0"),
        env=environment(talk.home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    talk.ok("post", "plans", "one more")
    talk.ok("post", "plans", "and another")
    assert process.stderr.read() == b""
    assert process.wait(20) == 0


@pytest.mark.parametrize("args", [("events", "--after", "0"), ("mcp",)])
def test_ctrl_c_ends_it_with_130_and_no_word(talk: Terminal, args: tuple[str, ...]):
    process = subprocess.Popen(
        palaver_command(*args),
        env=environment(talk.home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    if args == ("mcp",):
        process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        process.stdin.flush()
    process.stdout.readline()  # it is at work
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (130, b"")
