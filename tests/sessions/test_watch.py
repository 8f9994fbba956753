"""`palaver watch`: the sessions of Claude Code and Codex, read and followed."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.doors.test_cli import Terminal, terminal
from tests.helpers import PATIENCE, Server, compress, environment, eventually, palaver_command, started_with, word
from tests.importers.samples import (
    TURNS_A_WORD,
    answered,
    claude_file,
    claude_session,
    codex_file,
    jsonl,
    line,
    message,
    rollout,
    text,
    tool_result,
    typed,
)

from palaver.app import App
from palaver.errors import Unavailable
from palaver.importers.files import streams
from palaver.model.people import Caller
from palaver.operations.sessions import watch as watching
from palaver.operations.sessions import watched_file
from palaver.operations.sessions.local_watch import LocalTurns
from palaver.settings import Settings
from palaver.store.sessions.transcripts import Transcripts

__all__ = ["terminal"]


def session() -> str:
    return str(uuid4())


class Person:
    """Somebody with a home, in which the programs keep their sessions and palaver its data."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.projects = home / ".claude" / "projects"
        self.rollouts = home / ".codex" / "sessions"
        self.terminal = Terminal(home / "palaver")

    @property
    def env(self) -> dict[str, str]:
        kept = environment(self.home / "palaver", HOME=self.home)
        return {name: value for name, value in kept.items() if name not in ("CLAUDE_CONFIG_DIR", "CODEX_HOME")}

    def start(self, *args: str) -> subprocess.Popen[str]:
        command = palaver_command("watch", *args)
        return subprocess.Popen(
            command, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def once(self, *args: str, **env: str) -> str:
        quiet = {"HOME": str(self.home), "CLAUDE_CONFIG_DIR": "", "CODEX_HOME": ""}
        return self.terminal.ok("watch", "--once", *args, **quiet | env)

    def found(self, wanted: str, agent: str = "claude-code") -> list[dict[str, Any]]:
        """What a search finds; nothing while there is no such agent."""
        result = self.terminal.run("conversation", "search", agent, wanted, "--format", "json", "--limit", "100")
        return list(json.loads(result.stdout)["hits"]) if result.exit_code == 0 else []

    def turns(self, session_id: str, agent: str = "claude-code") -> int:
        listed = self.terminal.json("session", "list", "--agent", agent)["sessions"]
        return sum(one["turns"] for one in listed if one["session_id"] == session_id)

    def recorded(self, agent: str = "claude-code") -> Counter[str]:
        """How often each turn stands in the transcripts."""
        folder = self.terminal.home / "sessions" / "default"
        lines = [line for file in folder.glob(f"{agent}*/*.jsonl") for line in file.read_text("utf-8").splitlines()]
        return Counter(json.loads(line).get("id") for line in lines if '"content"' in line)


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path)


# Reading what is there


def test_tool_output_is_left_out_short_or_full(person: Person):
    for wanted, agent in (("none", "a"), ("short", "b"), ("full", "c"), (None, "d")):
        unique, id = word(), session()
        place = person.projects / agent
        place.mkdir(parents=True)
        output = "\n".join([f"first{unique}", *(f"{n} " + "x" * 40 for n in range(60)), f"middle{unique}",
                            *(f"{n} " + "y" * 40 for n in range(60)), f"last{unique}"])  # fmt: skip
        (place / f"{id}.jsonl").write_bytes(jsonl(typed(f"look {unique}", id), tool_result(output, id)))
        person.once(str(place), "--agent", agent, *(["--tool-output", wanted] if wanted else []))
        there = [part for part in ("first", "middle", "last") if person.found(f"{part}{unique}", agent)]
        expected = {"none": [], "full": ["first", "middle", "last"]}.get(wanted or "short", ["first", "last"])
        assert (wanted, there) == (wanted, expected)
        assert person.found(unique, agent)


@pytest.mark.examples(1)
@pytest.mark.parametrize("way", ["watch", "import"])
def test_lines_that_cannot_be_read_are_left_out_alone_wherever_they_are(person: Person, way: str):
    """A damaged first line, also one that is longer than what is kept in memory, does not hide those after it."""
    torn = b'{"type": "user", "message": {"content": "' + b"x" * (33 * 1024 * 1024) + b"\n"
    place = person.projects / "-home-ann-garden"
    place.mkdir(parents=True)
    unique = word()
    for before in (b"\x00\xff garbage\n", b"[1]\n{torn\n", torn):
        id = session()
        said = [jsonl(typed(f"{unique} {n}", id)) for n in range(2)]
        (place / f"{id}.jsonl").write_bytes(before + said[0] + before + said[1])
    events = person.home / ".copilot" / "session-state" / session() / "events.jsonl"
    events.parent.mkdir(parents=True)
    event = {"type": "user.message", "data": {"content": unique}, "id": session(), "timestamp": "2026-01-01T00:00:00Z"}
    events.write_bytes(b"garbage\n" + jsonl(event))
    if way == "watch":
        person.once()
        assert len(person.found(unique)) == 6
        assert len(person.found(unique, "copilot")) == 1
    else:
        told = person.terminal.run("import", str(person.projects), str(events.parent.parent))
        assert (told.exit_code, "32 MB" in told.stderr + told.stdout) == (0, True)
        found = person.terminal.json("search", unique, "--source", "archive", "--limit", "50")
        assert len(found["results"]) >= 3


def test_links_that_lead_out_of_a_watched_folder_are_not_followed(person: Person):
    """Neither a linked file nor a linked folder, at the start or later. A place that was named may be a link itself."""
    unique = word()
    outside = person.home / "elsewhere"
    outside.mkdir()
    place = person.projects / "-home-ann-garden"
    place.mkdir(parents=True)
    own, other = session(), session()
    (place / f"{own}.jsonl").write_bytes(jsonl(typed(f"{unique} mine", own)))
    (outside / f"{other}.jsonl").write_bytes(jsonl(typed(f"{unique} secret", other)))
    (place / f"{other}.jsonl").symlink_to(outside / f"{other}.jsonl")
    (person.projects / "linked").symlink_to(outside)
    (place / f"{session()}.jsonl").symlink_to(place / f"{own}.jsonl")
    told = person.terminal.run("watch", "--once", str(person.projects))
    assert (told.exit_code, "1 linked to a place outside" in told.stdout) == (0, True)
    assert [hit["content"] for hit in person.found(unique)] == [f"{unique} mine"]
    process = person.start(str(person.projects))
    try:
        late = session()
        (outside / f"{late}.jsonl").write_bytes(jsonl(typed(f"{unique} late secret", late)))
        (place / f"{late}.jsonl").symlink_to(outside / f"{late}.jsonl")
        new = session()
        (place / f"{new}.jsonl").write_bytes(jsonl(typed(f"{unique} new", new)))
        eventually(lambda: len(person.found(unique)) == 2)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
    assert sorted(hit["content"] for hit in person.found(unique)) == [f"{unique} mine", f"{unique} new"]
    named = person.home / "named"
    named.symlink_to(outside)
    person.once(str(named))
    assert len(person.found(unique)) == 4


def test_prompts_for_subagents_are_the_models_words_watched_and_imported(person: Person):
    unique, id = word(), session()
    place = person.projects / "-home-ann-garden"
    place.mkdir(parents=True)
    lines = [typed("Find the ivy.", id), typed(f"Look for {unique}.", id, isSidechain=True)]
    (place / f"{id}.jsonl").write_bytes(jsonl(*lines))
    person.once()
    assert [(hit["role"], hit["session_id"]) for hit in person.found(unique)] == [("assistant", id)]
    person.terminal.ok("import", str(place))
    (listed,) = person.terminal.json("archive", "list")["conversations"]
    shown = person.terminal.json("archive", "show", listed["id"])
    assert [said["role"] for said in shown["messages"]] == ["user", "assistant"]


def test_sessions_of_both_programs_are_read_and_found(person: Person):
    ivy, oak = word(), word()
    claude_file(person.projects / "-home-ann-garden", mine := session(), ivy)
    codex_file(person.rollouts, thread := session(), oak)
    assert person.once() == "Read 2 session files: 8 new turns in 2 sessions.\n"
    hits = person.found(ivy)
    assert {(hit["role"], hit["content"]) for hit in hits} == {
        ("user", f"please look for {ivy}"),
        ("assistant", f"I will look for {ivy}."),
        ("tool", f'[tool Grep] {{"pattern":"{ivy}"}}'),
        ("tool", f"garden.txt: {ivy}"),
    }
    assert {(hit["session_id"], hit["ts"]) for hit in hits} == {(mine, "2026-05-01T10:00:00.123000Z")}
    assert {hit["session_id"] for hit in person.found(oak, "codex")} == {thread}


def test_a_second_time_nothing_is_read_again(person: Person):
    claude_file(person.projects / "p", session(), *(word() for _ in range(500)))
    assert "2,000 new turns" in person.once()
    assert person.once() == "Read 1 session file: 0 new turns.\n"
    assert set(person.recorded().values()) == {1}


def test_subagents_have_sessions_of_their_own(person: Person):
    ivy, parent = word(), session()
    folder = person.projects / "p" / parent / "subagents"
    folder.mkdir(parents=True)
    (folder / "agent-a1b2c3.jsonl").write_bytes(claude_session(parent, ivy))
    other = person.projects / "p" / session() / "subagents"
    claude_file(other, "agent-a1b2c3", ivy)
    person.once()
    assert {hit["session_id"] for hit in person.found(ivy)} == {
        f"{parent}.agent-a1b2c3", f"{other.parent.name}.agent-a1b2c3",
    }  # fmt: skip


def test_the_agent_and_the_places_can_be_said(person: Person, tmp_path: Path):
    ivy = word()
    path = claude_file(tmp_path / "elsewhere", session(), ivy)
    assert "4 new turns" in person.once(str(path), "--agent", "gardener")
    assert person.found(ivy, "gardener")
    assert not person.found(ivy)


def test_the_programs_own_variables_say_where_they_are(person: Person, tmp_path: Path):
    claude_file(tmp_path / "c" / "projects" / "p", session(), word())
    codex_file(tmp_path / "x" / "archived_sessions", session(), word())
    said = person.once("--json", CLAUDE_CONFIG_DIR=str(tmp_path / "c"), CODEX_HOME=str(tmp_path / "x"))
    assert json.loads(said) == {"files": 2, "sessions": 2, "turns": 8, "skipped_lines": {}, "skipped_files": {}}


def test_what_is_broken_is_skipped_with_a_word(person: Person):
    ivy, mine = word(), session()
    path = claude_file(person.projects / "p", mine)
    with path.open("ab") as file:
        file.write(b"{half of a line\n\n[1,2]\n")
        file.write(b'{"type":"user","message":7,"sessionId":"s"}\n')
        file.write(b'{"type":"user","message":{"content":"' + b"x" * streams.LONGEST_LINE + b'"}}\n')
        file.write(b'{"type":"user","uuid":"u1","message":{"content":"\xff\\u0000\\ud800 ' + ivy.encode() + b'"}}\n')
        file.write(jsonl(typed(f"the last {ivy}", mine))[:-1])
    (path.parent / "notes.jsonl").write_text('{"a": 1}\n')
    (path.parent / "nothing.jsonl").touch()
    os.mkfifo(path.parent / "pipe.jsonl")
    said = person.once()
    assert said == (
        "Read 1 session file: 1 new turn in 1 session. Skipped 4 lines (1 not JSON, 1 no JSON object, "
        "1 without a message, 1 over 32 MB). Skipped 1 file (1 no session of a known kind).\n"
    )
    assert [hit["content"] for hit in person.found(ivy)] == [f"��� {ivy}"]


def test_a_file_that_may_not_be_read_does_not_stop_the_others(person: Person, monkeypatch: pytest.MonkeyPatch):
    ivy = word()
    closed = claude_file(person.projects / "p", session(), word())
    claude_file(person.projects / "q", session(), ivy)
    opened = watched_file.open_file

    def refuse(path: Path) -> Any:
        if path == closed:
            raise PermissionError(13, "Permission denied")
        return opened(path)

    monkeypatch.setattr(watched_file, "open_file", refuse)
    assert "Skipped 1 file (1 cannot be read)" in person.once()
    assert person.found(ivy)


def test_compressed_files_are_read(person: Person):
    ivy, oak, thread = word(), word(), session()
    path = codex_file(person.rollouts, thread, ivy)
    assert "4 new turns" in person.once()
    small = path.with_name(path.name + ".zst")
    small.write_bytes(compress(path.read_bytes()))
    path.unlink()
    assert person.once() == "Read 1 session file: 0 new turns.\n"
    small.write_bytes(compress(jsonl() + codex_file(person.rollouts, thread, ivy, oak).read_bytes())[:-9])
    assert "cannot be read" in person.once(str(small))
    assert len(person.found(ivy, "codex")) == TURNS_A_WORD


# Going on after an end


def test_whoever_ends_before_the_mark_moves_reads_again_and_repeats_nothing(
    person: Person, monkeypatch: pytest.MonkeyPatch
):
    claude_file(person.projects / "p", mine := session(), word(), word())

    def fail(*args: Any) -> None:
        raise Unavailable("The disk is full.")

    with monkeypatch.context() as broken:
        broken.setattr("palaver.store.sessions.sessions.keep_file_mark", fail)
        result = person.terminal.run("watch", "--once", str(person.projects))
    assert (result.exit_code, result.stderr) == (5, "palaver: The disk is full.\n")
    assert person.once() == "Read 1 session file: 0 new turns.\n"
    assert person.turns(mine) == 2 * TURNS_A_WORD
    assert set(person.recorded().values()) == {1}


def test_without_the_index_nothing_is_repeated_either(person: Person):
    path = claude_file(person.projects / "p", session(), word())
    assert "4 new turns" in person.once(PALAVER_SESSIONS_INDEX="off")
    (person.terminal.home / "workspaces" / "default.db").unlink()
    assert "0 new turns" in person.once(PALAVER_SESSIONS_INDEX="off")
    with path.open("ab") as file:
        file.write(jsonl(typed("one more")))
    assert "1 new turn in 1 session" in person.once()
    assert set(person.recorded().values()) == {1}


def test_a_session_deleted_here_does_not_come_back(person: Person):
    ivy, oak, mine = word(), word(), session()
    path = claude_file(person.projects / "p", mine, ivy)
    person.once()
    person.terminal.ok("session", "delete", "claude-code", mine)
    path.write_bytes(b"\n" + path.read_bytes() + jsonl(typed(f"later, {oak}", mine, timestamp="2999-01-01T00:00:00Z")))
    assert "1 new turn in 1 session" in person.once()
    assert not person.found(ivy)
    assert person.found(oak)


def test_what_was_rewound_leaves_and_what_is_gone_back_to_returns(person: Person):
    """Branches: the text the user saw last is what is found."""
    first, dead, instead, again = (f"{kind} {word()}" for kind in ("first", "dead", "instead", "again"))
    path = person.projects / "p" / f"{session()}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(
        jsonl(
            typed(first, path.stem, uuid="u1"),
            answered(text("one"), session=path.stem, uuid="a1", parentUuid="u1"),
            typed(dead, path.stem, uuid="u2", parentUuid="a1"),
            answered(text(f"about {dead}"), session=path.stem, uuid="a2", parentUuid="u2"),
        )
    )
    person.once()
    assert len(person.found(dead)) == 2

    def say(*lines: dict[str, Any]) -> None:
        with path.open("ab") as file:
            file.write(jsonl(*lines))
        person.once()

    say(typed(instead, path.stem, uuid="u3", parentUuid="a1"))
    assert [len(person.found(one)) for one in (first, dead, instead)] == [1, 0, 1]
    person.terminal.ok("reindex")
    assert [len(person.found(one)) for one in (first, dead, instead)] == [1, 0, 1]
    assert person.turns(path.stem) == 3
    say(typed(again, path.stem, uuid="u4", parentUuid="a2"))
    assert [len(person.found(one)) for one in (first, dead, instead, again)] == [1, 2, 0, 1]
    person.terminal.ok("verify")
    say(typed("more", path.stem, uuid="u5", parentUuid="u4"))
    assert [len(person.found(one)) for one in (first, dead, instead, again)] == [1, 2, 0, 1]


def test_turns_that_were_rolled_back_leave_and_a_session_is_called_after_what_is_left(person: Person):
    wrong, right = word(), word()
    path = person.rollouts / f"rollout-2026-01-02T03-04-05-{session()}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(jsonl(message("user", f"do {wrong}"), message("assistant", f"{wrong} is done")))
    person.once()
    assert len(person.found(wrong, "codex")) == 2
    with path.open("ab") as file:
        file.write(jsonl(rollout("event_msg", type="thread_rolled_back", num_turns=1), message("user", f"do {right}")))
    person.once()
    assert (person.found(wrong, "codex"), len(person.found(right, "codex"))) == ([], 1)
    assert [one["title"] for one in person.terminal.json("session", "list", "--agent", "codex")["sessions"]] == [
        f"do {right}"
    ]


def test_what_was_taken_back_leaves_the_index_even_if_that_was_interrupted(person: Person):
    ivy, mine = word(), session()
    claude_file(person.projects, mine, ivy)
    person.once()
    transcripts = Transcripts(person.terminal.home / "sessions" / "default")
    (owner,) = transcripts.owners()
    transcripts.take_back(owner, mine, transcripts.turn_ids(transcripts.of(owner, mine)))
    person.once()
    assert person.found(ivy) == []
    person.terminal.ok("verify")


# While it runs


class Followed(Person):
    """A person whose sessions are being followed."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.projects.mkdir(parents=True)
        self.single = claude_file(home / "apart", session(), word())
        self.process = self.start(str(self.projects), str(self.rollouts.parent), str(self.single))
        assert self.process.stdout
        assert self.process.stdout.readline().startswith("Read ")

    def eventually_found(self, wanted: str, agent: str = "claude-code", times: int = TURNS_A_WORD) -> None:
        eventually(lambda: len(self.found(wanted, agent)) == times)


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    home = tmp_path_factory.mktemp("followed")
    (home / ".codex").mkdir()
    followed = Followed(home)
    try:
        yield followed
        assert set(followed.recorded().values()) == {1}  # whatever happened, no turn was recorded twice
    finally:
        followed.process.terminate()
        assert followed.process.wait(PATIENCE) == 0


def test_what_is_written_is_found_at_once(followed: Followed):
    ivy, oak, elm, mine = word(), word(), word(), session()
    path = claude_file(followed.projects / "p", mine, ivy)
    followed.eventually_found(ivy)
    with path.open("ab") as file:
        file.write(claude_session(mine, oak))
    followed.eventually_found(oak)
    with followed.single.open("ab") as file:
        file.write(claude_session(followed.single.stem, elm))
    followed.eventually_found(elm)
    assert followed.turns(mine) == 2 * TURNS_A_WORD


def test_a_half_written_line_waits_for_its_end(followed: Followed):
    ivy, oak, mine = word(), word(), session()
    path = claude_file(followed.projects / "half", mine, ivy)
    raw = jsonl(typed(f"🌿 {oak}", mine))
    with path.open("ab") as file:
        file.write(raw[: raw.index("🌿".encode()) + 2])
    followed.eventually_found(ivy)
    assert not followed.found(oak)
    with path.open("ab") as file:
        file.write(raw[raw.index("🌿".encode()) + 2 :])
    followed.eventually_found(oak, times=1)
    assert followed.found(oak)[0]["content"] == f"🌿 {oak}"


def test_a_file_that_was_cut_short_is_read_anew(followed: Followed):
    ivy, oak, elm, mine = word(), word(), word(), session()
    path = claude_file(followed.projects / "cut", mine, ivy, oak)
    followed.eventually_found(oak)
    kept = path.read_bytes().splitlines(True)[: 1 + 7]
    path.write_bytes(b"".join(kept) + jsonl(typed(elm, mine)))
    followed.eventually_found(elm, times=1)
    assert followed.turns(mine) == 2 * TURNS_A_WORD + 1


def test_a_file_that_was_replaced_is_read_from_its_start(followed: Followed):
    ivy, oak, mine = word(), word(), session()
    path = claude_file(followed.projects / "replaced", mine, ivy)
    followed.eventually_found(ivy)
    draft = path.with_suffix(".draft")
    draft.write_bytes(claude_session(mine, oak) + jsonl(line("progress", mine, data="x" * 5000)))
    os.replace(draft, path)
    followed.eventually_found(oak)
    elm = word()
    os.replace(followed.single, followed.single.with_suffix(".1"))
    followed.single.write_bytes(claude_session(followed.single.stem, elm))
    followed.eventually_found(elm)


def test_what_was_deleted_on_disk_stays(followed: Followed):
    ivy, oak = word(), word()
    path = claude_file(followed.projects / "deleted", session(), ivy)
    followed.eventually_found(ivy)
    shutil.rmtree(path.parent)
    claude_file(followed.projects / "deleted", session(), oak)
    followed.eventually_found(oak)
    assert len(followed.found(ivy)) == TURNS_A_WORD


def test_a_renamed_file_goes_on_in_its_session(followed: Followed):
    ivy, oak, mine = word(), word(), session()
    path = claude_file(followed.projects / "renamed", mine, ivy)
    followed.eventually_found(ivy)
    new = path.rename(path.with_name(f"{session()}.jsonl"))
    with new.open("ab") as file:
        file.write(claude_session(mine, oak))
    followed.eventually_found(oak)
    assert {hit["session_id"] for hit in followed.found(oak)} == {mine}


def test_folders_that_appear_later_are_followed(followed: Followed):
    ivy, oak, mine = word(), word(), session()
    claude_file(followed.projects / "new" / mine / "subagents", "agent-1f", ivy)
    codex_file(followed.rollouts, session(), oak)
    followed.eventually_found(ivy)
    followed.eventually_found(oak, "codex")


def test_the_folder_itself_may_appear_later_and_be_made_anew(followed: Followed):
    ivy, oak = word(), word()
    shutil.rmtree(followed.projects, ignore_errors=True)
    claude_file(followed.projects / "p", session(), ivy)
    followed.eventually_found(ivy)
    claude_file(followed.projects / "q", session(), oak)
    followed.eventually_found(oak)


def test_it_says_which_session_grew(followed: Followed):
    mine = session()
    claude_file(followed.projects / "said", mine, word())
    assert followed.process.stdout
    for said in followed.process.stdout:
        if mine in said:
            assert said == f"claude-code  {mine}  4 new turns\n"
            return


def test_ended_and_started_again_it_goes_on_where_it_was(person: Person):
    ivy, oak, mine = word(), word(), session()
    path = claude_file(person.projects / "p", mine, ivy)
    first = person.start("--quiet")
    eventually(lambda: person.found(ivy))
    first.send_signal(signal.SIGINT)
    said, complaints = first.communicate(timeout=PATIENCE)
    assert (first.returncode, said, complaints) == (130, "", "")
    with path.open("ab") as file:
        file.write(claude_session(mine, oak))
    second = person.start()
    assert second.stdout
    assert second.stdout.readline() == "Read 1 session file: 4 new turns in 1 session.\n"
    second.terminate()
    second.communicate(timeout=PATIENCE)
    assert second.returncode == 0
    assert person.turns(mine) == 2 * TURNS_A_WORD
    assert set(person.recorded().values()) == {1}


@pytest.mark.anyio
async def test_where_the_system_does_not_tell_it_looks_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def too_many(*places: Path, **options: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("watchfiles.awatch", too_many)
    monkeypatch.setattr(watching, "RESCAN_ALONE_SECONDS", 0.01)
    app = App(Settings(home=tmp_path / "palaver"))
    try:
        (tmp_path / "p").mkdir()
        watch = watching.Watch(LocalTurns(await app.open(), Caller(kind="human")), [tmp_path / "p"])
        await watch.read_all()
        grown: asyncio.Queue[watching.NewTurns] = asyncio.Queue()
        following = asyncio.create_task(watch.follow(grown.put_nowait))
        claude_file(tmp_path / "p", mine := session(), word())
        assert await asyncio.wait_for(grown.get(), PATIENCE) == watching.NewTurns("claude-code", mine, TURNS_A_WORD)
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following
    finally:
        await app.close()


def test_it_works_beside_a_running_server(server: Server, api: httpx.Client, tmp_path: Path):
    ivy, agent = word(), word("agent")
    path = tmp_path / f"{session()}.jsonl"
    path.write_bytes(jsonl(typed(ivy), answered(text(f"{ivy} it is"))))
    command = ["watch", "--once", "--agent", agent, str(path)]
    done = started_with(server.env, *command)
    assert (done.returncode, done.stdout) == (0, "Read 1 session file: 2 new turns in 1 session.\n"), done.stderr
    found = api.post("/api/v1/conversations/search", json={"agent_id": agent, "query": ivy}).json()
    assert {hit["role"] for hit in found["hits"]} == {"user", "assistant"}
    again = started_with(server.env, *command)
    assert again.stdout == "Read 1 session file: 0 new turns.\n"


# What it refuses


def test_nothing_to_follow_is_not_found(person: Person):
    result = person.terminal.run("watch", HOME=str(person.home), CLAUDE_CONFIG_DIR="", CODEX_HOME="")
    assert result.exit_code == 3
    assert "Found no sessions of Claude Code, Codex, Gemini CLI" in result.stderr
    result = person.terminal.run("watch", str(person.home / "nowhere"))
    assert result.exit_code == 3
    assert "There is no file or folder" in result.stderr


def test_who_may_only_read_may_not_watch(person: Person):
    claude_file(person.projects, session(), word())
    token = person.terminal.ok("token", "create", "--human", "ann", "--scope", "read").strip()
    assert person.terminal.run("watch", "--once", str(person.projects), PALAVER_TOKEN=token).exit_code == 4
