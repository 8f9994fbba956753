"""Transcripts as files: what is appended is read, whatever stands around it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import PATIENCE, environment

from palaver.model.sessions import Owner, Turn
from palaver.store.sessions.transcripts import Line, Transcripts

AT = datetime(2026, 6, 1, 10, tzinfo=UTC)
BOT = Owner("id-of-bot", "bot", "Bot")


def turn(id: str, content: str = "hello", session: str = "s-1", owner: Owner = BOT) -> Turn:
    return Turn(id, session, owner.id, "user", content, AT, AT)


@pytest.fixture
def files(tmp_path: Path) -> Transcripts:
    return Transcripts(tmp_path / "default")


def read(files: Transcripts, session: str = "s-1", after: int = 0) -> list[Line]:
    return list(files.lines(files.of(BOT, session), after))


def ids(files: Transcripts, session: str = "s-1") -> list[str]:
    return [line.turn.id for line in read(files, session) if line.turn]


def problems(files: Transcripts) -> list[str]:
    return [line.problem for line in read(files) if line.problem]


def scribble(files: Transcripts, data: bytes, session: str = "s-1") -> None:
    """Somebody else writes into the file."""
    with files.path(BOT, session).open("ab") as file:
        file.write(data)


def raw(id: str, **more: Any) -> dict[str, Any]:
    at = "2026-06-01T10:00:00Z"
    whole = {"id": id, "session_id": "s-1", "agent_id": BOT.id, "role": "user", "content": "hello", "ts": at}
    return {**whole, "recorded_at": at, **more}


# Writing and reading


def test_a_turn_is_one_line_of_json(files: Transcripts):
    before = datetime.now(UTC)
    files.append(BOT, "s-1", [turn("t-1", "two\nlines\u2028and\x85more")])
    data = files.path(BOT, "s-1").read_bytes()
    assert data.count(b"\n") == 1
    assert data.endswith(b"\n")
    line = json.loads(data)
    assert before <= datetime.fromisoformat(line.pop("recorded_at")) <= datetime.now(UTC)
    assert line == {
        "id": "t-1",
        "session_id": "s-1",
        "agent_id": "id-of-bot",
        "role": "user",
        "content": "two\nlines\u2028and\x85more",
        "ts": "2026-06-01T10:00:00Z",
    }


def test_where_a_line_ends_the_next_one_begins(files: Transcripts):
    files.append(BOT, "s-1", [turn(f"t-{n}", "ü" * n) for n in range(5)])
    lines = read(files)
    assert lines[-1].end == files.of(BOT, "s-1").size
    for number, line in enumerate(lines):
        assert read(files, after=line.end) == lines[number + 1 :]


def test_a_session_without_turns_is_empty(files: Transcripts):
    assert read(files) == []
    assert files.of(BOT, "s-1").size == 0
    assert list(files.all()) == []
    assert list(files.owners()) == []


def test_everything_is_synced_before_it_counts(files: Transcripts, monkeypatch: pytest.MonkeyPatch):
    synced: list[tuple[str, int]] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        fsync(descriptor)
        synced.append((os.readlink(f"/proc/self/fd/{descriptor}"), os.fstat(descriptor).st_size))

    if not Path("/proc/self/fd").exists():
        pytest.skip("only Linux tells which file a descriptor is")
    monkeypatch.setattr(os, "fsync", watched)
    files.append(BOT, "s-1", [turn("t-1")])
    path = files.path(BOT, "s-1")
    assert synced[-1] == (str(path), path.stat().st_size)
    assert str(path.parent) in [name for name, _ in synced]
    synced.clear()
    files.append(BOT, "s-1", [turn("t-2")])
    assert synced == [(str(path), path.stat().st_size)]


text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


@settings(deadline=None)  # it waits for the disk
@given(st.lists(st.tuples(text.filter(bool), text, text), max_size=8))
def test_whatever_is_appended_is_read_again(said: list[tuple[str, str, str]]):
    with tempfile.TemporaryDirectory() as place:
        files = Transcripts(Path(place))
        turns = [Turn(id, "s-1", BOT.id, role, content, AT, AT) for id, role, content in said]
        for one in turns:
            files.append(BOT, "s-1", [one])
        kept = [line.turn for line in read(files)]
        assert [(t.id, t.role, t.content, t.ts) for t in kept if t] == [(t.id, t.role, t.content, t.ts) for t in turns]


@settings(deadline=None)  # it waits for the disk
@given(text.filter(lambda name: name.strip() != ""), text.filter(lambda name: name.strip() != ""))
def test_every_name_is_a_file_of_its_own(one: str, other: str):
    with tempfile.TemporaryDirectory() as place:
        files = Transcripts(Path(place))
        for session in {one, other}:
            files.append(BOT, session, [turn("t-1", session=session)])
        folder = Path(place) / "bot"
        assert len(list(folder.glob("*.jsonl"))) == len({one, other})
        assert {path.parent for path in Path(place).rglob("*.jsonl")} == {folder}
        found = {line.turn.session_id for t in files.all() for line in files.lines(t) if line.turn}
        assert found == {one, other}


@pytest.mark.parametrize(
    "session",
    ["deleted", "%64eleted", ".", "..", "../../etc", "a/b", "x" * 256, "日" * 256, "日" * 255 + "本", "\n", "agent"],
)
def test_no_name_leaves_its_folder_or_meets_another_file(files: Transcripts, session: str):
    files.append(BOT, session, [turn("t-1", session=session)])
    assert files.path(BOT, session).parent == files.folder / "bot"
    assert len(files.path(BOT, session).name.encode()) < 255
    assert [t.path for t in files.all()] == [files.path(BOT, session)]
    assert files.tombstones(BOT).sessions == {}


# Torn lines


def test_the_next_append_is_not_glued_to_a_torn_line(files: Transcripts):
    files.append(BOT, "s-1", [turn("t-1"), turn("t-2")])
    scribble(files, b'{"id": "t-3", "conte')
    assert ids(files) == ["t-1", "t-2"]
    assert problems(files) == []  # it may still be being written
    files.append(BOT, "s-1", [turn("t-4")])
    assert ids(files) == ["t-1", "t-2", "t-4"]
    assert problems(files) == ["a line that is not whole, or not JSON"]


def test_whole_json_without_its_line_break_is_kept(files: Transcripts):
    files.append(BOT, "s-1", [turn("t-1")])
    scribble(files, json.dumps(raw("t-2")).encode())
    assert ids(files) == ["t-1"]
    files.append(BOT, "s-1", [turn("t-3")])
    assert ids(files) == ["t-1", "t-2", "t-3"]
    assert problems(files) == []


def test_a_torn_line_can_be_closed_without_an_append(files: Transcripts):
    files.append(BOT, "s-1", [turn("t-1")])
    scribble(files, json.dumps(raw("t-2")).encode())
    for _ in range(3):
        files.close_torn_line(files.of(BOT, "s-1"))
        assert ids(files) == ["t-1", "t-2"]
    size = files.of(BOT, "s-1").size
    files.close_torn_line(files.of(BOT, "s-1"))
    assert files.of(BOT, "s-1").size == size
    files.close_torn_line(files.of(BOT, "none"))
    assert not files.path(BOT, "none").exists()


@settings(deadline=None)  # it waits for the disk
@given(st.data())
def test_cut_anywhere_the_rest_is_read_and_what_comes_after_is_whole(data: st.DataObject):
    with tempfile.TemporaryDirectory() as place:
        files = Transcripts(Path(place))
        files.append(BOT, "s-1", [turn(f"t-{n}", content) for n, content in enumerate(("a", "ü\n", "日本"))])
        whole = files.path(BOT, "s-1").read_bytes()
        cut = data.draw(st.integers(0, len(whole)))
        files.path(BOT, "s-1").write_bytes(whole[:cut])
        ends = [line.end for line in _lines_of(whole)]
        kept = sum(end - 1 <= cut for end in ends)  # only the line break may be missing
        files.append(BOT, "s-1", [turn("after")])
        assert ids(files) == [f"t-{n}" for n in range(kept)] + ["after"]
        assert len(problems(files)) == (cut not in (0, *ends) and cut + 1 not in ends)


def _lines_of(whole: bytes) -> list[Line]:
    end, found = 0, []
    for line in whole.splitlines(keepends=True):
        end += len(line)
        found.append(Line(end, None))
    return found


def test_a_failed_write_leaves_the_transcript_unchanged(files: Transcripts, monkeypatch: pytest.MonkeyPatch):
    files.append(BOT, "s-1", [turn("t-1")])
    before = files.path(BOT, "s-1").read_bytes()
    write = os.write

    def half(descriptor: int, data: Any) -> int:
        if len(data) < 10:
            raise OSError(28, "No space left on device")
        return write(descriptor, data[: len(data) // 2])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError, match="No space left"):
        files.append(BOT, "s-1", [turn("t-2")])
    assert files.path(BOT, "s-1").read_bytes() == before
    monkeypatch.undo()
    files.append(BOT, "s-1", [turn("t-3")])
    assert ids(files) == ["t-1", "t-3"]


# Lines that cannot be read


@pytest.mark.parametrize(
    "bad",
    [
        b"not json",
        b"\xff\xfe\xfa",
        b'{"id": "t", "content": "\xff"}',
        b"{",
        b"[]",
        b"5",
        b"null",
        b'"text"',
        b"{}",
        b"\x00\x00\x00",
        b"[" * 100_000,
        json.dumps(raw("t", content=None)).encode(),
        json.dumps(raw("t", content=["a"])).encode(),
        json.dumps(raw("t", content=5)).encode(),
        json.dumps(raw("t", role={})).encode(),
        json.dumps({**raw("t"), "id": 5}).encode(),
        json.dumps(raw("t", session_id=None)).encode(),
        json.dumps(raw("t", ts="yesterday")).encode(),
        json.dumps(raw("t", ts=5)).encode(),
        json.dumps(raw("t", ts=None)).encode(),
        json.dumps(raw("t", ts="0001-01-01T00:00:00+14:00")).encode(),
        json.dumps(raw("t", recorded_at=5)).encode(),
        json.dumps({"session_id": "s-1", "role": "user", "content": "x", "ts": "2026-06-01"}).encode(),
    ],
    ids=lambda bad: repr(bad[:40]),
)
def test_a_line_that_is_no_turn_is_passed_over_and_counted(files: Transcripts, bad: bytes):
    files.append(BOT, "s-1", [turn("t-1")])
    scribble(files, bad + b"\n")
    files.append(BOT, "s-1", [turn("t-2")])
    assert ids(files) == ["t-1", "t-2"]
    assert len(problems(files)) == 1


def test_a_line_of_fifty_megabytes_is_passed_over_and_counted(files: Transcripts):
    files.append(BOT, "s-1", [turn("t-1")])
    scribble(files, json.dumps(raw("huge", content="x" * 50_000_000)).encode() + b"\n")
    files.append(BOT, "s-1", [turn("t-2")])
    assert ids(files) == ["t-1", "t-2"]
    assert problems(files) == ["a line of more than 33,554,432 bytes"]
    assert read(files)[-1].end == files.of(BOT, "s-1").size


def test_blank_lines_and_nul_characters_are_accepted(files: Transcripts):
    files.append(BOT, "s-1", [turn("t-1")])
    scribble(files, b"\n  \n\r\n" + json.dumps(raw("t-2", content="a\0b")).encode() + b"\n\n")
    assert ids(files) == ["t-1", "t-2"]
    assert problems(files) == []
    assert read(files)[-1].end == files.of(BOT, "s-1").size
    assert [line.turn.content for line in read(files) if line.turn] == ["hello", "a\ufffdb"]


@settings(deadline=None)  # it waits for the disk
@given(st.lists(st.one_of(st.binary(max_size=60), st.just(b"TURN")), max_size=12))
def test_between_any_bytes_the_turns_are_read(pieces: list[bytes]):
    with tempfile.TemporaryDirectory() as place:
        files = Transcripts(Path(place))
        files.append(BOT, "s-1", [turn("first")])
        wanted = ["first"]
        for n, piece in enumerate(pieces):
            if piece == b"TURN":
                files.append(BOT, "s-1", [turn(f"t-{n}")])
                wanted.append(f"t-{n}")
            else:
                scribble(files, piece)
        assert ids(files) == wanted


# Deleting


def test_a_tombstone_hides_what_was_recorded_before_it(files: Transcripts):
    for session in ("s-1", "s-2"):
        files.append(BOT, session, [turn("t-1", session=session)])
    old = files.path(BOT, "s-1").read_bytes()
    files.delete(BOT, "s-1")
    assert not files.path(BOT, "s-1").exists()
    assert list(files.tombstones(BOT).sessions) == ["s-1"]
    scribble(files, old)
    assert ids(files) == []
    assert problems(files) == []
    files.append(BOT, "s-1", [turn("t-2")])
    assert ids(files) == ["t-2"]
    assert ids(files, "s-2") == ["t-1"]


def test_a_torn_tombstone_does_not_spoil_the_others(files: Transcripts):
    for session in ("s-1", "s-2"):
        files.append(BOT, session, [turn("t-1", session=session)])
    files.delete(BOT, "s-1")
    with (files.folder / "bot" / "deleted.jsonl").open("ab") as file:
        file.write(b'{"session_id": "s-2", "dele')
    files.delete(BOT, "s-2")
    assert set(files.tombstones(BOT).sessions) == {"s-1", "s-2"}


# Who it is


def test_the_files_tell_who_the_agents_are(files: Transcripts):
    other = Owner("id-of-other", "other", "Other (Ümlaut)")
    for owner in (BOT, other):
        files.append(owner, "s-1", [turn("t-1", owner=owner)])
    assert list(files.owners()) == [BOT, other]
    assert files.owner("id-of-other") == files.owner("other") == files.owner("@other") == other
    assert files.owner("nobody") is None
    assert [(t.owner, t.path.name) for t in files.all()] == [(BOT, "s-1.jsonl"), (other, "s-1.jsonl")]


@pytest.mark.parametrize("card", [None, b"", b"{", b"[]", b"{}", b'{"id": 5, "slug": "bot", "name": "x"}'])
def test_without_its_card_an_agent_is_known_by_its_lines(files: Transcripts, card: bytes | None):
    files.append(BOT, "s-1", [turn("t-1")])
    path = files.folder / "bot" / "agent.json"
    path.unlink()
    if card is not None:
        path.write_bytes(card)
    assert list(files.owners()) == [Owner("id-of-bot", "bot", "bot")]
    assert [t.path.name for t in files.all()] == ["s-1.jsonl"]


def test_other_files_and_empty_folders_are_not_agents(files: Transcripts):
    files.append(BOT, "s-1", [turn("t-1")])
    (files.folder / "empty").mkdir()
    (files.folder / "file").write_text("x")
    assert list(files.owners()) == [BOT]


# Several at once


def test_threads_that_begin_together_do_not_meet(files: Transcripts):
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda n: files.append(BOT, f"s-{n % 2}", [turn(f"t-{n}", session=f"s-{n % 2}")]), range(64)))
    assert sorted(ids(files, "s-0") + ids(files, "s-1")) == sorted(f"t-{n}" for n in range(64))
    assert sorted(path.name for path in (files.folder / "bot").iterdir()) == ["agent.json", "s-0.jsonl", "s-1.jsonl"]


def test_the_lock_holds_across_processes(files: Transcripts):
    """While another process has the lock nobody appends; when it is gone, we do."""
    files.append(BOT, "s-1", [turn("t-1")])
    path = files.path(BOT, "s-1")
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom palaver.synced_files import locked\n"
        "with locked(Path(sys.argv[1])) as file:\n"
        "    print('locked', flush=True)\n    sys.stdin.readline()\n"
        '    os.write(file, b\'{"from": "the other"}\\n\')\n'
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        env=environment(files.folder),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdin
    assert holder.stdout
    with ThreadPoolExecutor(1) as pool:
        try:
            assert holder.stdout.readline() == b"locked\n"
            waiting = pool.submit(files.append, BOT, "s-1", [turn("t-2")])
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.3)
            assert ids(files) == ["t-1"]
            holder.stdin.write(b"\n")
            holder.stdin.flush()
            waiting.result(timeout=PATIENCE)
        finally:
            holder.stdin.close()
            holder.wait(PATIENCE)
            holder.stdout.close()
    kept = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line.get("id") or line["from"] for line in kept] == ["t-1", "the other", "t-2"]


def test_who_waited_for_a_session_that_was_deleted_begins_it_anew(files: Transcripts):
    files.append(BOT, "s-1", [turn("t-0")])

    def work(n: int) -> str | None:
        if n % 5 == 0:
            files.delete(BOT, "s-1")
            return None
        files.append(BOT, "s-1", [turn(f"t-{n}")])
        return f"t-{n}"

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(1, 100)))
    files.append(BOT, "s-1", [turn("last")])
    kept = [json.loads(line)["id"] for line in files.path(BOT, "s-1").read_text().splitlines()]
    assert kept[-1] == "last"
    assert ids(files) == kept  # what stands in the file was recorded after the deletion, and counts
