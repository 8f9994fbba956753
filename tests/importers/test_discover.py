from __future__ import annotations

import gzip
import io
import os
import random
import resource
import stat
import struct
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import compress
from tests.importers import test_canonical_db, test_chatgpt, test_claude_ai, test_gemini
from tests.importers.samples import (
    claude_file,
    claude_session,
    codex_file,
    codex_session,
    jsonl,
    message,
    meta,
    rollout,
    typed,
)
from tests.importers.shapes import as_json, assert_storable

from palaver.importers import registry
from palaver.importers.discover import ImportSource, Item, Skipped, find_sources
from palaver.importers.files import streams, zips
from palaver.model.library import Conversation, ImportedPiece, Said

THREAD = "0199a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b"
SESSION = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"


def chatgpt_export(*ids: str, words: str = "ivy", updated: float = 2e9) -> bytes:
    message = test_chatgpt.message("user", words)
    return as_json([test_chatgpt.conversation(message, id=id, conversation_id=id, update_time=updated) for id in ids])


def claude_export(*ids: str) -> bytes:
    return as_json([test_claude_ai.conversation(test_claude_ai.message("u", "human", "ivy"), uuid=id) for id in ids])


def zip_of(files: Mapping[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w", compression) as to:
        for name, raw in files.items():
            to.writestr(name, raw)
    return into.getvalue()


def write(path: Path, raw: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path


def sources(*paths: Path) -> list[tuple[str, str]]:
    return sorted((one.importer, Path(one.label).name) for one in find_sources(paths) if isinstance(one, ImportSource))


def everything(*paths: Path) -> tuple[list[Conversation], list[Skipped]]:
    kept: list[Conversation] = []
    skipped: list[Skipped] = []
    for found in find_sources(paths):
        for one in found.contents() if isinstance(found, ImportSource) else [found]:
            if not isinstance(one, ImportedPiece):
                (kept if isinstance(one, Conversation) else skipped).append(one)  # type: ignore[arg-type]
    assert_storable([*kept, *skipped])
    return kept, skipped


def ids(*paths: Path) -> list[str]:
    return [one.id for one in everything(*paths)[0]]


def whys(*paths: Path) -> list[tuple[str, str]]:
    return [(Path(one.name).name, one.why) for one in everything(*paths)[1]]


# What is found


def test_each_kind_is_found_by_what_is_in_it(tmp_path: Path):
    write(tmp_path / "a" / "chats.json", chatgpt_export("c1", "c2"))
    write(tmp_path / "b" / "conversations.json", claude_export("c1"))
    write(tmp_path / "session-1.jsonl", jsonl(test_gemini.META, test_gemini.message("1", "user", "ivy")))
    codex_file(tmp_path / "sessions", THREAD, "ivy")
    claude_file(tmp_path / "projects", SESSION, "ivy")
    database = test_canonical_db.database(tmp_path / "x.sqlite")
    test_canonical_db.conversation(database, "c1")
    test_canonical_db.message(database, "m1", "c1", "user", '["ivy"]')
    database.close()
    state = apsw.Connection(str(tmp_path / "state.vscdb"))
    state.execute("CREATE TABLE cursorDiskKV (key TEXT UNIQUE, value BLOB)")
    state.execute(
        "INSERT INTO cursorDiskKV VALUES ('composerData:c1', ?)",
        (as_json({"conversation": [{"type": 1, "text": "ivy"}]}),),
    )
    state.close()
    assert sources(tmp_path) == [
        (name, tmp_path.name)
        for name in ("canonical-db", "chatgpt", "claude-ai", "claude-code", "codex", "cursor", "gemini")
    ]
    assert sorted(ids(tmp_path)) == [
        "canonical-db:c1",
        "chatgpt:c1",
        "chatgpt:c2",
        "claude-ai:c1",
        f"claude-code:{SESSION}",
        f"codex:{THREAD}",
        "cursor:c1",
        "gemini:1a2b3c4d-0000",
    ]


def test_a_mark_of_byte_order_before_the_first_line_is_passed_over(tmp_path: Path):
    for place in (claude_file(tmp_path, SESSION, "ivy"), codex_file(tmp_path, THREAD, "ivy")):
        place.write_bytes(b"\xef\xbb\xbf" + place.read_bytes())
    gemini = b"\xef\xbb\xbf" + jsonl(test_gemini.META, test_gemini.message("1", "user", "ivy"))
    write(tmp_path / "session-1.jsonl", gemini)
    assert sorted(ids(tmp_path)) == [f"claude-code:{SESSION}", f"codex:{THREAD}", "gemini:1a2b3c4d-0000"]
    assert whys(tmp_path) == []


def test_the_first_files_of_codex_hold_a_session_in_one_piece(tmp_path: Path):
    items: list[Any] = [
        {"id": "m1", "type": "message", "role": "user", "content": [{"type": "input_text", "text": "where is ivy?"}]},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "name": "shell", "arguments": '{"command": ["ls"]}', "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": "ivy.txt"},
        {"id": "m2", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "here"}]},
        "no item",
    ]
    session = {"timestamp": "2025-04-20T10:00:00.000Z", "id": THREAD, "instructions": ""}
    write(tmp_path / f"rollout-2025-04-20-{THREAD}.json", as_json({"session": session, "items": items}))
    (found,), skipped = everything(tmp_path)
    assert (found.id, found.title) == (f"codex:{THREAD}", "where is ivy?")
    assert [(one.role, one.text) for one in found.messages] == [
        ("user", "where is ivy?"), ("tool", '[tool shell] {"command":["ls"]}'), ("tool", "ivy.txt"), ("assistant", "here"),
    ]  # fmt: skip
    assert {one.ts for one in found.messages} == {datetime(2025, 4, 20, 10, tzinfo=UTC)}
    assert [one.why for one in skipped] == ["an item no JSON object"]


def test_sessions_have_their_titles_and_turns(tmp_path: Path):
    kept, skipped = everything(claude_file(tmp_path, SESSION, "ivy"), codex_file(tmp_path, THREAD, "ivy"))
    assert skipped == []
    for one in kept:
        assert one.title == "please look for ivy"
        assert [said.role for said in one.messages] == ["user", "assistant", "tool", "tool"]
        assert one.created_at == one.messages[0].ts


def test_a_session_that_goes_on_in_a_second_file_is_two_conversations(tmp_path: Path):
    first = codex_file(tmp_path, THREAD, "ivy")
    write(first.with_name(first.stem + "_r2.jsonl"), first.read_bytes())
    assert sorted(ids(tmp_path)) == [f"codex:{THREAD}", f"codex:{THREAD}_r2"]


def test_lines_that_cannot_be_read_are_counted_and_a_torn_end_is_no_error(tmp_path: Path):
    path = claude_file(tmp_path, SESSION, "ivy")
    path.write_bytes(path.read_bytes() + b"\n\n{bad}\n7\n{bad}\n" + b'{"type":"user","mess')
    kept, skipped = everything(path)
    assert len(kept[0].messages) == 4
    assert [(one.why, one.count, one.is_error) for one in skipped] == [
        ("a line not JSON", 2, False),
        ("a line no JSON object", 1, False),
        ("the last line is not complete", 1, False),
    ]


def test_a_line_without_end_is_passed_over(tmp_path: Path):
    path = claude_file(tmp_path, SESSION, "ivy")
    path.write_bytes(b'{"type":"user","x":"' + b"x" * (streams.LONGEST_LINE + 10) + b'"}\n' + path.read_bytes())
    # Its beginning tells nothing, so that it is found by a name only Codex has.
    path = path.rename(path.with_name(f"rollout-2025-10-03T09-15-20-{THREAD}.jsonl"))
    path.write_bytes(path.read_bytes() + codex_session(THREAD, "ivy"))
    kept, skipped = everything(path)
    assert len(kept[0].messages) == 4
    assert ("a line of more than 32 MB", 1) in [(one.why, one.count) for one in skipped]


# Exports


@pytest.mark.parametrize("is_zip", [True, False])
def test_the_shards_of_an_export_are_one_source_and_the_whole_in_one_file_is_left_out(tmp_path: Path, is_zip: bool):
    files = {
        "export/conversations-000.json": chatgpt_export("c1", "c2"),
        "export/conversations-001.json": chatgpt_export("c3"),
        "export/conversations.json": chatgpt_export("c1", "c2", "c3", "old"),
        "export/user.json": b'{"email": "ann@example.org"}',
        "export/other.json": b'{"a": 1}',
        "export/chat.html": b"<html>",
        "__MACOSX/export/._conversations-000.json": b"\x00\x05\x16\x07",
        "export/file-1.png": b"\x89PNG",
    }
    if is_zip:
        path = write(tmp_path / "export.zip", zip_of(files))
    else:
        path = tmp_path / "unpacked"
        for name, raw in files.items():
            write(path / name, raw)
    kept, skipped = everything(path)
    assert [one.id for one in kept] == ["chatgpt:c1", "chatgpt:c2", "chatgpt:c3"]
    assert [one.why for one in skipped] == [
        "the same conversations are in the numbered files beside it",
        "nothing of a known kind in other.json",
    ]
    (found,) = [one for one in find_sources([path]) if isinstance(one, ImportSource)]
    assert found.size == sum(len(raw) for name, raw in files.items() if "/conversations-0" in name)
    list(found.contents())
    assert found.read == found.size


def test_of_two_versions_in_one_source_the_newer_one_is_the_last_that_comes(tmp_path: Path):
    write(tmp_path / "conversations-000.json", chatgpt_export("c1", "c2", words="middle", updated=20))
    write(tmp_path / "conversations-001.json", chatgpt_export("c1", words="new", updated=30))
    write(tmp_path / "conversations-002.json", chatgpt_export("c1", "c2", words="old", updated=10))
    kept, skipped = everything(tmp_path)
    assert {one.id: one.messages[0].text for one in kept} == {"chatgpt:c1": "new", "chatgpt:c2": "middle"}
    assert len(skipped) == 2


def test_reading_twice_gives_the_same(tmp_path: Path):
    path = write(tmp_path / "export.zip", zip_of({"conversations.json": chatgpt_export("c1", "c2")}))
    (found,) = find_sources([path])
    assert isinstance(found, ImportSource)
    assert list(found.contents()) == list(found.contents())


def test_zips_within_the_zip_are_read_and_deeper_ones_are_not(tmp_path: Path):
    inner = {
        f"conversations-00{n}.zip": zip_of({"conversations.json": claude_export(f"c{n}"), "users.json": b"[{}]"})
        for n in range(3)
    }
    deep = zip_of({"deeper.zip": zip_of({"conversations.json": claude_export("deep")})})
    path = write(tmp_path / "data-2026-batch-0000", zip_of(inner | {"deep.zip": deep}, zipfile.ZIP_STORED))
    assert sources(path) == [("claude-ai", "data-2026-batch-0000")]
    kept, skipped = everything(path)
    assert [one.id for one in kept] == ["claude-ai:c0", "claude-ai:c1", "claude-ai:c2"]
    assert "a zip in a zip in a zip; unpack it and import the folder" in [one.why for one in skipped]


def test_sessions_in_a_zip_are_found(tmp_path: Path):
    files = {
        f"projects/x/{SESSION}.jsonl": claude_session(SESSION, "ivy"),
        f"rollout-2025-10-03T09-15-20-{THREAD}.jsonl": codex_session(THREAD, "ivy"),
    }
    assert sorted(ids(write(tmp_path / "backup.zip", zip_of(files)))) == [f"claude-code:{SESSION}", f"codex:{THREAD}"]


# Compressed sessions


ROLLOUT = f"rollout-2025-10-03T09-15-20-{THREAD}.jsonl.zst"


@pytest.mark.parametrize("name", [ROLLOUT, "copy.jsonl"])
def test_compressed_sessions_are_read(tmp_path: Path, name: str):
    """Codex (also .zst)."""
    packed = compress(codex_session(THREAD, "ivy"))
    assert ids(write(tmp_path / name, packed)) == [f"codex:{THREAD}"]


def test_a_compressed_session_that_unpacks_without_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(streams, "HARMLESS", 10_000)
    raw = compress(codex_session(THREAD, "ivy") + b"{}\n" * 1_000_000)
    assert whys(write(tmp_path / ROLLOUT, raw))[-1][1] == streams.BOMB


def test_a_compressed_session_that_is_damaged_says_so(tmp_path: Path):
    packed = compress(codex_session(THREAD, "ivy"))
    assert whys(write(tmp_path / ROLLOUT, packed[:-20]))[-1][1] == "not complete"
    assert whys(write(tmp_path / ROLLOUT, packed[:4] + b"\xff" * 20))[-1][1] == "damaged"


# Sessions as a whole


def test_a_codex_session_is_called_as_its_index_says_and_turns_rolled_back_are_gone(tmp_path: Path):
    rolled_back = rollout("event_msg", type="thread_rolled_back", num_turns=1)
    lines = [
        meta(THREAD),
        message("user", "first"),
        message("assistant", "one"),
        message("user", "taken back"),
        message("assistant", "for nothing"),
        rolled_back,
        message("user", "instead"),
    ]
    folder = tmp_path / ".codex"
    path = folder / "sessions" / "2025" / "10" / "03" / f"rollout-2025-10-03T09-15-20-{THREAD}.jsonl"
    write(path, jsonl(*lines))
    names = [{"id": THREAD, "thread_name": name, "updated_at": "2025-10-03T09:15:20Z"} for name in ("Old", "Ivy")]
    write(folder / "session_index.jsonl", jsonl(*names) + b"torn")
    (one,), skipped = everything(folder)
    assert ([said.text for said in one.messages], one.title, skipped) == (["first", "one", "instead"], "Ivy", [])


def test_a_claude_session_is_imported_as_it_was_seen_last(tmp_path: Path):
    lines = [
        typed("first", SESSION, uuid="u1"),
        typed("taken back", SESSION, uuid="u2", parentUuid="u1"),
        typed("instead", SESSION, uuid="u3", parentUuid="u1"),
    ]
    ((one,), _) = everything(write(tmp_path / f"{SESSION}.jsonl", jsonl(*lines)))
    assert [said.text for said in one.messages] == ["first", "instead"]


# Paths that are strange


def test_a_path_that_cannot_be_read_is_an_error_and_the_others_are_read(tmp_path: Path):
    good = write(tmp_path / "good.json", chatgpt_export("c1"))
    other = write(tmp_path / "photo.jpg", b"\xff\xd8")
    os.mkfifo(tmp_path / "pipe")
    kept, skipped = everything(tmp_path / "missing", tmp_path / "pipe", other, Path("nul\x00"), good)
    assert [one.id for one in kept] == ["chatgpt:c1"]
    assert all(one.is_error for one in skipped)
    assert [one.why for one in skipped][:3] == [
        "there is nothing at this path",
        "neither a file nor a folder",
        "nothing of a known kind in it",
    ]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_said_so(tmp_path: Path):
    path = write(tmp_path / "x.json", chatgpt_export("c1"))
    path.chmod(0)
    assert [(one.why, one.is_error) for one in everything(path)[1]] == [
        ("it may not be read (permission denied)", True)
    ]


def test_links_out_of_a_folder_are_not_followed(tmp_path: Path):
    outside = write(tmp_path / "outside" / "a.json", chatgpt_export("outside"))
    folder = tmp_path / "inside"
    inside = write(folder / "b.json", chatgpt_export("inside"))
    (folder / "link.json").symlink_to(outside)
    (folder / "folder").symlink_to(outside.parent)
    (folder / "again.json").symlink_to(inside)
    (folder / "circle").symlink_to(folder)
    os.mkfifo(folder / "pipe.json")
    assert ids(folder) == ["chatgpt:inside"]
    assert whys(folder) == [
        ("folder", "a link that leads out of the folder"),
        ("link.json", "a link that leads out of the folder"),
    ]
    (tmp_path / "named").symlink_to(folder)
    assert ids(tmp_path / "named") == ["chatgpt:inside"]


def test_names_are_safe_to_print(tmp_path: Path):
    path = write(tmp_path / "x.zip", zip_of({"\x1b[2J\n../../etc/conversations.json": chatgpt_export("c1")[:-5]}))
    ((name, _),) = whys(path)[:1]
    (skipped,) = everything(path)[1]
    assert name
    assert skipped.name.endswith("x.zip › \ufffd[2J\ufffd../../etc/conversations.json")


# Zips that are strange


def test_nothing_is_written_whatever_the_names_are_and_what_leads_out_is_told(tmp_path: Path):
    names = ["../evil/conversations.json", "/tmp/palaver-evil/conversations.json", "C:\\evil\\conversations.json"]
    kept = {name: chatgpt_export(f"c{n}") for n, name in enumerate([*names, "a..b/conversations.json"])}
    path = write(tmp_path / "in" / "x.zip", zip_of(kept))
    assert ids(path) == ["chatgpt:c3"]
    assert [why for _, why in whys(path)] == ["its name leads out of the zip"] * 3
    assert list(tmp_path.rglob("*")) == [path.parent, path]
    assert not Path("/tmp/palaver-evil").exists()


@pytest.mark.parametrize(
    "raw, why",
    [
        (gzip.compress(chatgpt_export("c1")), "packed, but not as a zip; unpack it first"),
        (chatgpt_export("c1").decode().encode("utf-16"), "text in UTF-16; save it as UTF-8 and import that"),
    ],
)
def test_what_somebody_else_can_unpack_or_save_otherwise_says_so(tmp_path: Path, raw: bytes, why: str):
    assert whys(write(tmp_path / "conversations.json", raw)) == [("conversations.json", why)]


def test_a_zip_that_is_cut_or_damaged_is_an_error_and_what_was_good_is_kept(tmp_path: Path):
    raw = zip_of(
        {
            "conversations-000.json": chatgpt_export("c1"),
            "conversations-001.json": chatgpt_export(*(f"d{n}" for n in range(99))),
        },
        zipfile.ZIP_STORED,
    )
    cut = write(tmp_path / "cut.zip", raw[:-100])
    assert [(one.why, one.is_error) for one in everything(cut)[1]] == [("a zip that is damaged or not complete", True)]
    damaged = bytearray(raw)
    damaged[len(raw) - 2000] ^= 1
    kept, skipped = everything(write(tmp_path / "damaged.zip", bytes(damaged)))
    assert kept[0].id == "chatgpt:c1"
    assert skipped[-1].is_error
    assert skipped[-1].why == "a zip that is damaged or not complete"


def test_a_torn_export_keeps_what_came_before(tmp_path: Path):
    kept, skipped = everything(write(tmp_path / "conversations.json", chatgpt_export("c1", "c2", "c3")[:-50]))
    assert [one.id for one in kept] == ["chatgpt:c1", "chatgpt:c2"]
    assert [(one.why, one.is_error) for one in skipped] == [("it ends too early; what came before is kept", True)]


def test_links_encrypted_files_and_databases_in_a_zip_are_left_out_with_a_word(tmp_path: Path):
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w") as to:
        link = zipfile.ZipInfo("link.json")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        to.writestr(link, "/etc/passwd")
        to.writestr("secret.json", chatgpt_export("c1"))
        to.writestr("canonical.db", b"SQLite format 3\x00" + b"\x00" * 100)
        to.writestr("strange.json", chatgpt_export("c2"))
        to.writestr("conversations.json", chatgpt_export("c3"))
    raw = bytearray(into.getvalue())
    for name, at, value in ((b"secret.json", 8, 1), (b"strange.json", 10, 9)):
        place = raw.rindex(b"PK\x01\x02", 0, raw.rindex(name))
        raw[place + at : place + at + 2] = struct.pack("<H", value)
    path = write(tmp_path / "x.zip", bytes(raw))
    assert ids(path) == ["chatgpt:c3"]
    assert whys(path) == [
        ("x.zip › link.json", "a link"),
        ("x.zip › secret.json", "encrypted; unpack it and import the folder"),
        ("x.zip › canonical.db", "a database inside a zip; unpack it and import the file"),
        ("x.zip › strange.json", "packed in a way that is not known here; unpack it and import the folder"),
    ]


def test_a_zip_that_unpacks_without_end_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for module in (streams, zips):
        monkeypatch.setattr(module, "HARMLESS", 100_000)
    bomb = chatgpt_export("c1")[:-1] + b" " * 10_000_000 + b"]"
    assert whys(write(tmp_path / "x.zip", zip_of({"conversations.json": bomb}))) == [
        ("x.zip › conversations.json", streams.BOMB)
    ]
    # Many that are harmless alone: what counts is how much is read of all of them.
    for module in (streams, zips):
        monkeypatch.setattr(module, "MOST_TIMES", 5)
    files = {f"conversations-{n:03}.json": chatgpt_export(f"c{n}", words="x" * 90_000) for n in range(30)}
    kept, skipped = everything(write(tmp_path / "y.zip", zip_of(files)))
    assert len(kept) < 5
    assert streams.BOMB in [one.why for one in skipped]


def test_a_directory_that_would_fill_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(zips, "LARGEST_DIRECTORY", 1000)
    path = write(tmp_path / "x.zip", zip_of({f"{n}.json": b"[]" for n in range(100)}))
    assert whys(path) == [("x.zip", "a zip with far too many files")]


# Importers of others


class Theirs:
    name = "theirs"

    def recognises(self, item: Item, head: bytes) -> bool:
        return head.startswith(b"THEIRS")

    def conversations(self, item: Item) -> Iterator[Conversation | Skipped]:
        with item.open() as source:
            text = source.read().decode()
        yield Conversation(
            "theirs:1",
            "theirs",
            "a\x00",
            None,
            datetime(2026, 1, 1),  # noqa: DTZ001
            (Said("m", "user", text + "\x00", None), Said("m", "user", " ", None)),
        )
        yield Skipped(item.name, "half of it")
        raise KeyError("oops")


def test_importers_of_other_packages_are_asked_and_broken_ones_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Fails(Theirs):
        def recognises(self, item: Item, head: bytes) -> bool:
            raise RuntimeError("no")

    module = SimpleNamespace(good=Theirs(), fails=Fails(), none=None)
    monkeypatch.setitem(sys.modules, "theirs", module)
    names = ("theirs:none", "theirs:fails", "theirs:missing", "theirs:good", "not_here:x")
    monkeypatch.setattr(
        registry, "entry_points", lambda group: [EntryPoint(name.replace(":", "_"), name, group) for name in names]
    )
    kept, skipped = everything(write(tmp_path / "x.theirs", b"THEIRS: ivy"))
    assert [(one.id, one.title, one.messages[0].text) for one in kept] == [("theirs:1", "a\ufffd", "THEIRS: ivy\ufffd")]
    assert [one.why.partition(" (")[0] for one in skipped] == [
        "it cannot be loaded",
        "it cannot be loaded",
        "it cannot be loaded",
        "the importer theirs fails",
        "half of it",
        "it cannot be read",
    ]


# Anything at all

good = st.sampled_from(
    [chatgpt_export("c1", "c2"), claude_export("c1"), claude_session(SESSION, "ivy"), codex_session(THREAD, "ivy")]
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A good file, packed or not, with a piece cut out and some bytes changed."""
    raw = bytearray(draw(good))
    if draw(st.booleans()):
        raw = bytearray(zip_of({f"a{draw(st.text(max_size=9))}": bytes(raw), "conversations.json": bytes(raw)}))
    start = draw(st.integers(0, len(raw)))
    del raw[start : start + draw(st.integers(0, 50))]
    for place, value in draw(
        st.lists(st.tuples(st.integers(0, max(0, len(raw) - 1)), st.integers(0, 255)), max_size=4)
    ):
        raw[place : place + 1] = bytes([value])
    return bytes(raw)


@settings(deadline=None, max_examples=150)
@given(
    st.binary(max_size=300) | damaged(),
    st.sampled_from(["x.zip", "conversations.json", "x.jsonl", f"rollout-2025-10-03T09-15-20-{THREAD}.jsonl", "x.db"]),
)
def test_no_file_is_too_strange(raw: bytes, name: str):
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder, name), raw)
        everything(path)
        everything(path.parent)


# A large one


@pytest.mark.thorough
@pytest.mark.parametrize("is_zip", [False, True])
def test_a_large_export_is_read_in_little_memory(tmp_path: Path, is_zip: bool):
    size = 50_000_000
    path = tmp_path / ("export.zip" if is_zip else "conversations.json")
    if is_zip:
        with (
            zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as to,
            to.open("conversations.json", "w", force_zip64=True) as file,
        ):
            written = write_large(file, size)
    else:
        with path.open("wb") as file:
            written = write_large(file, size)
    (found,) = find_sources([path])
    assert isinstance(found, ImportSource)
    list(zip(found.contents(), range(20), strict=False))  # what is needed once is loaded
    before, start, kept, messages = memory(), time.perf_counter(), 0, 0
    most = before
    for one in found.contents():
        assert isinstance(one, Conversation)
        kept, messages = kept + 1, messages + len(one.messages)
        if kept % 50 == 0:
            most = max(most, memory())
    seconds = time.perf_counter() - start
    grown = (most - before) / 1e6
    print(
        f"\n{path.name}: {size / 1e6 / seconds:.0f} MB/s, {messages / seconds:,.0f} messages/s, {grown:.0f} MB more memory"
    )
    assert kept == written
    assert grown < 40


def memory() -> int:
    """What the process has in memory now, in bytes."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def write_large(file: Any, size: int) -> int:
    """An export of this many bytes, in which no two conversations are the same."""
    draw = random.Random(7)
    words = ["".join(draw.choices("abcdefghijklmnopé", k=draw.randint(2, 9))) for _ in range(5000)]
    texts = [" ".join(draw.choices(words, k=120)) + ' "quoted" \\ \n' for _ in range(2000)]
    file.write(b"[")
    written = count = 0
    while written < size:
        said = [
            test_chatgpt.message("assistant" if n % 2 else "user", texts[draw.randrange(2000)], 1.7e9 + n)
            for n in range(draw.randint(2, 80))
        ]
        raw = orjson.dumps(test_chatgpt.conversation(*said, id=f"c{count}"))
        file.write((b", " if count else b"") + raw)
        written += len(raw)
        count += 1
    file.write(b"]")
    return count


def test_an_export_with_something_after_its_end_says_so(tmp_path: Path):
    path = write(tmp_path / "trailing.json", chatgpt_export("a") + b"\n} garbage")
    assert ids(path) == ["chatgpt:a"]
    assert [why for _, why in whys(path)] == [
        "something that is no part of it follows after its end; what came before is kept"
    ]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_zip_with_a_name_twice_says_so_and_both_are_read(tmp_path: Path):
    path = tmp_path / "dup_names.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("conversations.json", chatgpt_export("a"))
        packed.writestr("conversations.json", chatgpt_export("b"))
    assert sorted(ids(path)) == ["chatgpt:a", "chatgpt:b"]
    assert [why for _, why in whys(path)] == ["the zip has several files of this name; all of them are read"]


def test_a_damaged_database_says_that_it_is_damaged(tmp_path: Path):
    database = apsw.Connection(str(tmp_path / "good.db"))
    database.execute("CREATE TABLE anything (id, text)")
    database.executemany("INSERT INTO anything VALUES (?, ?)", [(n, "text" * 200) for n in range(100)])
    database.close()
    path = write(tmp_path / "broken.db", (tmp_path / "good.db").read_bytes()[:20_000])
    assert [why.partition(" (")[0] for _, why in whys(path)] == ["the database cannot be read"]
