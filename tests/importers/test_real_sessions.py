"""Session files that the real programs wrote (`real/README.md`): imported, watched, and followed while they grow."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.sessions.test_watch import Person

REAL = Path(__file__).parent / "real"

OAK = [("user", "Thank you. Is there oak?"), ("assistant", "The script is at its end.")]


def made_copilot(home: Path) -> Path:
    path = home / ".copilot" / "session-state" / "c7ca8419-c15d-4115-b2a3-26801c314008" / "events.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes((REAL / "copilot-events.jsonl").read_bytes())
    return path


def made_gemini(home: Path) -> Path:
    path = home / ".gemini" / "tmp" / "garden" / "chats" / "session-2026-11-17T06-43-d275a483.jsonl"
    path.parent.mkdir(parents=True)
    (path.parents[1] / ".project_root").write_text("/home/ann/garden")
    path.write_bytes((REAL / "gemini-session.jsonl").read_bytes())
    return path


def made_opencode(home: Path) -> Path:
    path = home / ".local" / "share" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.executescript((REAL / "opencode.sql").read_text("utf-8"))
    database.close()
    return path


def made_cline(home: Path) -> Path:
    path = home / ".cline" / "data" / "tasks" / "1794898666873" / "ui_messages.json"
    path.parent.mkdir(parents=True)
    path.write_bytes((REAL / "cline-ui_messages.json").read_bytes())
    (home / ".cline" / "data" / "state").mkdir()
    (home / ".cline" / "data" / "state" / "taskHistory.json").write_bytes(
        (REAL / "cline-taskHistory.json").read_bytes()
    )
    return path


MADE: dict[str, Callable[[Path], Path]] = {
    "copilot": made_copilot,
    "gemini": made_gemini,
    "opencode": made_opencode,
    "cline": made_cline,
}

LISTED = '[tool {}] {{"command":"ls; echo two words"{}}}'
READ = '[tool {}] {{"command":"cat missing.txt"{}}}'
SAID: dict[str, list[tuple[str, str]]] = {
    "copilot": [
        ("user", "Please look for ivy in this folder."),
        ("tool", LISTED.format("bash", ',"description":"List the files"')),
        ("tool", "ivy.txt\ntwo words\n<shellId: 0 completed with exit code 0>"),
        ("assistant", "The script is at its end."),
        *OAK,
        ("user", "Read missing.txt."),
        ("tool", READ.format("bash", ',"description":"Read a file"')),
        ("tool", "cat: missing.txt: No such file or directory\n<shellId: 0 completed with exit code 1>"),
        ("assistant", "The script is at its end."),
    ],
    "gemini": [
        ("user", "Please look for ivy in this folder."),
        ("tool", LISTED.format("run_shell_command", "")),
        ("tool", "<untrusted_context>\nOutput: ivy.txt\ntwo words\nProcess Group PGID: 17025\n</untrusted_context>"),
        ("assistant", "The script is at its end."),
        *OAK,
        ("user", "Read missing.txt."),
        ("assistant", "The script is at its end."),
    ],
    "opencode": [
        ("user", '"Please look for ivy in this folder."'),
        ("tool", LISTED.format("bash", "")),
        ("tool", "ivy.txt\ntwo words\n"),
        ("assistant", "The script is at its end."),
        ("user", '"Thank you. Is there oak?"'),
        ("assistant", "The script is at its end."),
        ("user", '"Read missing.txt."'),
        ("tool", READ.format("bash", "")),
        ("tool", "cat: missing.txt: No such file or directory\n"),
        ("assistant", "The script is at its end."),
    ],
    "cline": [
        ("user", "Please look for ivy in this folder."),
        ("assistant", "I look."),
        ("tool", LISTED.format("execute_command", "")),
        ("tool", "ivy.txt\n\ntwo words"),
        (
            "tool",
            '[tool readFile] {"path":"ivy.txt","operationIsLocatedInWorkspace":true,"readLineStart":1,"readLineEnd":1}',
        ),
        ("tool", READ.format("execute_command", "")),
        ("tool", "cat: missing.txt: No such file or directory\n"),
        ("assistant", "There is ivy."),
    ],
}


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


def turns_of(person: Person, agent: str) -> list[dict[str, Any]]:
    (one,) = person.terminal.json("session", "list", "--agent", agent)["sessions"]
    shown = person.terminal.json("session", "show", agent, one["session_id"])["turns"]
    assert one["project"] == "/home/ann/garden"
    return list(shown)


def said_by(turns: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(turn["role"], turn["content"]) for turn in turns]


def watch_once(person: Person, *args: str) -> str:
    elsewhere = {"COPILOT_HOME": "", "GEMINI_CLI_HOME": "", "XDG_DATA_HOME": ""}
    return person.once(*args, **elsewhere)


@pytest.mark.parametrize("program", MADE)
def test_a_session_is_watched_in_the_default_folders_and_nothing_twice(person: Person, program: str):
    MADE[program](person.home)
    said = watch_once(person)
    assert said == f"Read 1 session file: {len(SAID[program])} new turns in 1 session.\n"
    turns = turns_of(person, program)
    assert said_by(turns) == SAID[program]
    assert len({turn["id"] for turn in turns}) == len(turns)
    assert all(turn["ts"].startswith("2026-11-17T06:") for turn in turns)
    assert [turn["ts"] for turn in turns] == sorted(turn["ts"] for turn in turns)
    assert watch_once(person) == "Read 1 session file: 0 new turns.\n"
    assert set(person.recorded(program).values()) == {1}


@pytest.mark.parametrize("program", MADE)
def test_a_session_is_imported_with_the_same_ids_and_found_once(person: Person, program: str):
    path = MADE[program](person.home)
    watch_once(person)
    assert "1 new" in person.terminal.ok("import", str(path))
    (listed,) = person.terminal.json("archive", "list")["conversations"]
    assert listed["project"] == "/home/ann/garden"
    messages = person.terminal.json("archive", "show", listed["id"])["messages"]
    assert [(one["role"], one["text"]) for one in messages] == SAID[program]
    found = [one["snippet"] for one in person.terminal.json("search", "ivy folder please")["results"]]
    copies = len(found) - len(set(found))
    assert (copies > 0) is (program == "cline")  # Cline's ids are times, so copies of its messages are not known


@pytest.mark.parametrize("program", MADE)
def test_tool_output_can_be_left_out(person: Person, program: str):
    MADE[program](person.home)
    watch_once(person, "--tool-output", "none")
    assert said_by(turns_of(person, program)) == [said for said in SAID[program] if said[0] != "tool"]
    # A session keeps the choice that it began with, so that two watchers do not undo each other's work.
    path = next(person.home.rglob("opencode.db" if program == "opencode" else "*essages.json"), None)
    if path:
        path.touch()
    assert watch_once(person, "--tool-output", "full") == "Read 1 session file: 0 new turns.\n"


def test_a_gemini_session_keeps_its_turns_when_it_is_resumed(person: Person):
    """The file is read after each of its lines, as a watcher may see it."""
    path = made_gemini(person.home)
    lines = path.read_bytes().splitlines(keepends=True)
    for number in range(1, len(lines) + 1):
        path.write_bytes(b"".join(lines[:number]))
        watch_once(person)
    assert said_by(turns_of(person, "gemini")) == SAID["gemini"]
    assert set(person.recorded("gemini").values()) == {1}


def test_a_gemini_session_of_an_older_version_is_followed_while_it_is_rewritten(person: Person):
    path = made_gemini(person.home)
    path = path.rename(path.with_suffix(".json"))
    whole = json.loads((REAL / "gemini-session.json").read_bytes())
    for number in range(1, len(whole["messages"]) + 1):
        path.write_text(json.dumps(whole | {"messages": whole["messages"][:number]}, indent=2))
        watch_once(person)
    turns = turns_of(person, "gemini")
    assert said_by(turns)[:2] == [SAID["gemini"][0], SAID["gemini"][1]]
    assert [turn["role"] for turn in turns] == [
        "user", "tool", "tool", "assistant", "user", "assistant", "user", "tool", "tool", "assistant",
    ]  # fmt: skip
    assert set(person.recorded("gemini").values()) == {1}


def test_a_rewound_gemini_turn_leaves_and_a_changed_one_is_updated(person: Person):
    path = made_gemini(person.home)
    watch_once(person)
    with path.open("ab") as file:
        file.write(b'{"$rewindTo":"7c5d7212-896d-4a24-829e-d0564f321931"}\n')
        file.write(b'{"id":"n1","timestamp":"2026-11-17T07:00:00.000Z","type":"gemini","content":"Half"}\n')
    assert "1 new turn" in watch_once(person)
    expected = SAID["gemini"][:4]
    assert said_by(turns_of(person, "gemini")) == [*expected, ("assistant", "Half")]
    with path.open("ab") as file:
        file.write(b'{"id":"n1","timestamp":"2026-11-17T07:00:00.000Z","type":"gemini","content":"Half and whole"}\n')
    assert "1 new turn" in watch_once(person)
    assert said_by(turns_of(person, "gemini")) == [*expected, ("assistant", "Half and whole")]
    person.terminal.ok("verify")
    person.terminal.ok("reindex")
    assert said_by(turns_of(person, "gemini")) == [*expected, ("assistant", "Half and whole")]


def test_an_opencode_session_is_followed_through_its_write_ahead_log(person: Person):
    path = made_opencode(person.home)
    watch_once(person)
    database = sqlite3.connect(path)
    try:
        ((session,),) = database.execute("SELECT id FROM session").fetchall()
        at = int(time.time() * 1000)
        user = json.dumps({"role": "user", "time": {"created": at}})
        answer = json.dumps({"role": "assistant", "time": {"created": at + 1}})
        database.execute("INSERT INTO message VALUES ('msg_x1', ?, ?, ?, ?)", (session, at, at, user))
        database.execute("INSERT INTO message VALUES ('msg_x2', ?, ?, ?, ?)", (session, at + 1, at + 1, answer))
        for id, message, data in (
            ("prt_x1", "msg_x1", {"type": "text", "text": "And elm?"}),
            ("prt_x2", "msg_x1", {"type": "text", "text": "added by the program", "synthetic": True}),
            ("prt_x3", "msg_x2", {"type": "text", "text": "Not fini"}),
            ("prt_x4", "msg_x2", {"type": "tool", "tool": "bash", "state": {"status": "running", "input": {}}}),
        ):
            row = (id, message, session, at, at, json.dumps(data))
            database.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", row)
        database.commit()
        assert "1 new turn" in watch_once(person)  # an answer is recorded when it is finished
        answer = json.dumps({"role": "assistant", "time": {"created": at + 1, "completed": at + 2}})
        database.execute("UPDATE message SET data = ?, time_updated = ? WHERE id = 'msg_x2'", (answer, at + 2))
        text = json.dumps({"type": "text", "text": "Not finished before, now it is."})
        database.execute("UPDATE part SET data = ? WHERE id = 'prt_x3'", (text,))
        database.commit()
        assert "1 new turn" in watch_once(person)
        grown = [*SAID["opencode"], ("user", "And elm?"), ("assistant", "Not finished before, now it is.")]
        assert said_by(turns_of(person, "opencode")) == grown
        revert = json.dumps({"messageID": "msg_x1"})
        database.execute("UPDATE session SET revert = ?, time_updated = ?", (revert, at + 9))
        database.commit()
        watch_once(person)
        assert said_by(turns_of(person, "opencode")) == SAID["opencode"]
    finally:
        database.close()


def test_a_cline_task_grows_while_its_file_is_rewritten(person: Person):
    path = made_cline(person.home)
    messages = json.loads(path.read_bytes())
    path.write_text(json.dumps(messages[:3]))
    watch_once(person)
    path.write_text(json.dumps(messages[:3])[:-40])  # a file that is being written
    watch_once(person)
    path.write_text(json.dumps([*messages, {"ts": 1, "type": "say", "say": "text", "text": "half", "partial": True}]))
    watch_once(person)
    assert said_by(turns_of(person, "cline")) == SAID["cline"]
    assert set(person.recorded("cline").values()) == {1}
