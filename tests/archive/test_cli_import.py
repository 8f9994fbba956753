"""`palaver import`, `palaver export` and `palaver archive`: a history comes in, once, and goes out again."""

from __future__ import annotations

import io
import json
import os
import random
import re
import stat
import subprocess
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from tests.archive.test_conversation_search import NOON, NOTHING, answer, chat
from tests.conftest import ONE_ENGINE, Engine
from tests.doors.test_cli import Terminal
from tests.helpers import environment, eventually, palaver_command
from tests.importers import samples
from tests.importers import test_canonical_db as canonical
from tests.importers import test_chatgpt as chatgpt
from tests.importers import test_claude_ai as claude_ai
from tests.importers import test_cursor as cursor
from tests.importers import test_gemini as gemini
from tests.importers.shapes import as_json

from palaver.operations.archive.import_batches import MESSAGES_AT_ONCE
from palaver.settings import Settings


class Desk(Terminal):
    """A terminal on one of the engines, and a look at what conversation_search finds there."""

    def __init__(self, home: Path, database_url: str) -> None:
        super().__init__(home)
        self.database_url = database_url

    def run(self, *args: str, input: str | bytes | None = None, **env: str) -> Result:
        return super().run(*args, input=input, **{"PALAVER_DATABASE_URL": self.database_url} | env)

    def bring(self, *paths: Path | str, **env: str) -> dict[str, Any]:
        """Import what must be importable; the numbers."""
        return dict(self.json("import", *map(str, paths), **env))

    def find(self, **arguments: Any) -> list[str]:
        text, is_error = answer(Settings(home=self.home, database_url=self.database_url), **arguments)
        assert not is_error, text
        return [] if text == NOTHING else [block.partition("\n")[2] for block in text.split("\n\n---\n\n")]

    @property
    def is_empty(self) -> bool:
        return not self.json("archive", "list")["conversations"]


@pytest.fixture
def desk(tmp_path: Path, database_url: str) -> Desk:
    return Desk(tmp_path / "home", database_url)


def export_of(path: Path, *conversations: dict[str, Any]) -> Path:
    return written(path, as_json(list(conversations)))


def written(path: Path, raw: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path


def zip_of(path: Path, files: Mapping[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, raw in files.items():
            archive.writestr(name, raw)
    return written(path, buffer.getvalue())


IVY = chat("Ivy", ("user", "Does ivy climb?", NOON), ("assistant", "It does.", NOON + 1), id="c-ivy")
OAK = chat("Oak", ("user", "How old are oaks?", NOON + 60), id="c-oak")


def chatgpt_json(to: Path) -> Path:
    return export_of(to / "conversations.json", IVY, OAK)


def chatgpt_folder(to: Path) -> Path:
    export_of(to / "export" / "conversations.json", IVY, OAK)
    written(to / "export" / "user.json", b'{"id": "user-1", "email": "ann@example.org"}')
    written(to / "export" / "chat.html", b"<html>Does ivy climb?</html>")
    return to / "export"


def chatgpt_shards(to: Path) -> Path:
    export_of(to / "export" / "conversations-000.json", IVY)
    export_of(to / "export" / "conversations-001.json", OAK)
    return to / "export"


def chatgpt_zip(to: Path) -> Path:
    return zip_of(
        to / "export.zip", {"conversations.json": as_json([IVY, OAK]), "user.json": b"{}", "image.png": b"\x89PNG"}
    )


def claude_export(to: Path) -> Path:
    one = claude_ai.conversation(
        claude_ai.message("m1", "human", "Does ivy climb?"), claude_ai.message("m2", "assistant", "It does.")
    )
    two = claude_ai.conversation(claude_ai.message("m1", "human", "How old are oaks?"), uuid="other", name="Oak")
    return export_of(to / "conversations.json", one, two)


def canonical_file(to: Path) -> Path:
    to.mkdir(parents=True)
    database = canonical.database(to / "canonical.db")
    canonical.conversation(database, "c1")
    canonical.conversation(database, "c2", "Oak")
    canonical.message(database, "m1", "c1", "user", "Does ivy climb?", str(NOON))
    canonical.message(database, "m2", "c1", "assistant", '["It does."]', NOON + 1, 2)
    canonical.message(database, "m3", "c2", "user", "How old are oaks?", "2025-02-10T12:01:00")
    database.close()
    return to / "canonical.db"


def claude_code_folder(to: Path) -> Path:
    for session, words in (("s1", ("ivy", "does")), ("s2", ("oaks",))):
        samples.claude_file(to / "projects" / "garden", session, *words)
    return to / "projects"


def codex_folder(to: Path) -> Path:
    samples.codex_file(to, "0199a000-0000-7000-8000-000000000001", "ivy", "does")
    samples.codex_file(to, "0199a000-0000-7000-8000-000000000002", "oaks")
    return to


def gemini_folder(to: Path) -> Path:
    for n, texts in enumerate((("Does ivy climb?", "It does."), ("How old are oaks?",))):
        meta = gemini.META | {"sessionId": f"session-{n}"}
        records = [gemini.message(f"m{i}", ("user", "gemini")[i], text) for i, text in enumerate(texts)]
        name = f"session-2026-05-01T10-0{n}-1a2b3c4{n}.jsonl"
        written(to / "tmp" / "f00" / "chats" / name, samples.jsonl(meta, *records))
    return to / "tmp"


def cursor_database(to: Path) -> Path:
    to.mkdir(parents=True)
    values: dict[str, Any] = {}
    for c, texts in (("c1", ("Does ivy climb?", "It does.")), ("c2", ("How old are oaks?",))):
        bubbles = {f"bubbleId:{c}:b{n}": {"type": n + 1, "text": text} for n, text in enumerate(texts)}
        headers = [{"bubbleId": key.rpartition(":")[2], "type": b["type"]} for key, b in bubbles.items()]
        about = {
            "_v": 10,
            "name": "Ivy",
            "createdAt": cursor.MILLIS,
            "lastUpdatedAt": cursor.MILLIS,
            "fullConversationHeadersOnly": headers,
        }
        values |= {f"composerData:{c}": about, **bubbles}
    cursor.database(to / "state.vscdb", values).close()
    return to / "state.vscdb"


MAKERS: list[tuple[str, Callable[[Path], Path]]] = [
    ("chatgpt", chatgpt_json),
    ("chatgpt", chatgpt_folder),
    ("chatgpt", chatgpt_shards),
    ("chatgpt", chatgpt_zip),
    ("claude-ai", claude_export),
    ("canonical-db", canonical_file),
    ("claude-code", claude_code_folder),
    ("codex", codex_folder),
    ("gemini-cli", gemini_folder),
    ("cursor", cursor_database),
]


# What can be brought


@pytest.mark.on_postgres(kind=["canonical-db"])  # the next tests import all kinds on both engines
@pytest.mark.parametrize("kind, make", MAKERS, ids=[make.__name__ for _, make in MAKERS])
def test_each_kind_is_recognised_imported_counted_found_and_brought_again_without_doubling(
    desk: Desk, tmp_path: Path, kind: str, make: Callable[[Path], Path]
):
    path = make(tmp_path / "source")
    first = desk.bring(path)
    (origin,) = first["formats"]
    assert origin.startswith(kind.split("-cli")[0])
    assert (first["new"], first["changed"], first["unchanged"]) == (2, 0, 0)
    assert first["formats"] == {origin: 2}
    listed = desk.json("archive", "list", "--limit", "1000")["conversations"]
    assert {held["origin"] for held in listed} == {origin}
    assert sum(held["messages"] for held in listed) == first["messages"] >= 3
    ivy, oak = desk.find(query="IVY", limit=200), desk.find(query="OAKS", limit=200)
    assert any("ivy" in text.lower() for text in ivy)
    assert any("oaks" in text for text in oak)
    again = desk.bring(path)
    assert (again["new"], again["changed"], again["unchanged"]) == (0, 0, 2)
    assert desk.find(query="IVY", limit=200) == ivy
    assert desk.json("archive", "list", "--limit", "1000")["conversations"] == listed


def test_the_summary_says_what_was_new_changed_unchanged_and_skipped_and_why(desk: Desk, tmp_path: Path):
    empty = chat("Nothing", id="c-empty")
    path = export_of(tmp_path / "conversations.json", IVY, OAK, empty)
    result = desk.run("import", str(path))
    assert result.exit_code == 0
    assert result.stdout == (
        "Imported 2 new and 0 changed conversations; 0 unchanged, 1 skipped; 3 messages read. Items by format: chatgpt 2.\n"
    )
    assert re.search(r"skipped .*conversations\.json: ", result.stderr)
    changed = chat("Oak", ("user", "How old are oaks?", NOON + 60), ("assistant", "Very.", NOON + 90), id="c-oak")
    path = export_of(
        tmp_path / "later" / "conversations.json", IVY, changed, chat("Fern", ("user", "?", NOON), id="c-fern")
    )
    assert desk.ok("import", str(path)) == (
        "Imported 1 new and 1 changed conversations; 1 unchanged, 0 skipped; 5 messages read. Items by format: chatgpt 3.\n"
    )


def test_several_paths_of_several_kinds_are_imported_at_once(desk: Desk, tmp_path: Path):
    summary = desk.bring(*(make(tmp_path / str(n)) for n, (_, make) in enumerate(MAKERS)))
    assert summary["new"] == 2 * 7
    assert summary["unchanged"] == 2 * 3  # ChatGPT's four times are one
    assert len(summary["formats"]) == 7


def test_a_folder_with_everything_in_it_is_sorted_out(desk: Desk, tmp_path: Path):
    for n, (_, make) in enumerate(MAKERS):
        make(tmp_path / "all" / str(n))
    assert len(desk.bring(tmp_path / "all")["formats"]) == 7


# Again


def test_a_newer_export_updates_and_adds_an_older_one_undoes_nothing_and_what_vanished_stays(
    desk: Desk, tmp_path: Path
):
    old = export_of(tmp_path / "old" / "conversations.json", IVY, OAK)
    grown = chat(
        "Ivy renamed", ("user", "Does ivy climb?", NOON), ("assistant", "It does, high.", NOON + 500), id="c-ivy"
    )
    new = export_of(
        tmp_path / "new" / "conversations.json", grown, chat("Fern", ("user", "And ferns?", NOON), id="c-fern")
    )
    desk.bring(old)
    summary = desk.bring(new)
    assert (summary["new"], summary["changed"], summary["unchanged"]) == (1, 1, 0)
    assert desk.find(query="high") == ["It does, high."]
    assert desk.find(query="renamed") == ["It does, high.", "Does ivy climb?"]
    assert desk.find(query="ferns") == ["And ferns?"]
    assert desk.find(query="oaks") == ["How old are oaks?"]  # gone from the newer export
    summary = desk.bring(old)
    assert (summary["new"], summary["changed"], summary["unchanged"]) == (0, 0, 2)
    assert desk.find(query="high") == ["It does, high."]
    assert len(desk.json("archive", "list")["conversations"]) == 3


def test_after_a_regenerated_answer_the_branch_seen_last_is_found_and_the_other_is_not(desk: Desk, tmp_path: Path):
    def tree(current: str, updated: float) -> dict[str, Any]:
        question, one, two = (
            chatgpt.message(role, text, NOON + n)
            for n, (role, text) in enumerate(
                (("user", "which tree?"), ("assistant", "the beech"), ("assistant", "the larch"))
            )
        )
        nodes = {
            "root": chatgpt.node("root", None, None, "q"),
            "q": chatgpt.node("q", "root", question, "a1", "a2"),
            "a1": chatgpt.node("a1", "q", one),
            "a2": chatgpt.node("a2", "q", two),
        }
        return chatgpt.conversation(
            mapping=nodes, current_node=current, update_time=updated, id="t", conversation_id="t", title="Trees"
        )

    desk.bring(export_of(tmp_path / "1" / "conversations.json", tree("a1", NOON + 10)))
    assert (desk.find(query="beech"), desk.find(query="larch")) == (["the beech"], [])
    desk.bring(export_of(tmp_path / "2" / "conversations.json", tree("a2", NOON + 20)))
    assert (desk.find(query="beech"), desk.find(query="larch")) == ([], ["the larch"])
    assert desk.find(query="Trees") == ["the larch", "which tree?"]


def test_a_session_that_has_grown_is_updated(desk: Desk, tmp_path: Path):
    path = samples.claude_file(tmp_path / "p", "s1", "ivy")
    desk.bring(path)
    with path.open("ab") as file:
        file.write(samples.jsonl(samples.typed("now the oak", "s1", timestamp="2026-05-02T10:00:00Z")))
    summary = desk.bring(path)
    assert (summary["new"], summary["changed"]) == (0, 1)
    assert desk.find(query="now the oak") == ["now the oak"]


def test_a_dry_run_says_the_same_and_writes_nothing(desk: Desk, tmp_path: Path):
    path = chatgpt_zip(tmp_path)
    said = desk.ok("import", "--dry-run", str(path))
    assert (
        said
        == "Would import 2 new and 0 changed conversations; 0 unchanged, 0 skipped; 3 messages read. Items by format: chatgpt 2.\n"
    )
    assert desk.is_empty
    desk.bring(path)
    assert desk.json("import", "--dry-run", str(path))["unchanged"] == 2


def test_it_goes_into_the_workspace_that_was_named(desk: Desk, tmp_path: Path):
    desk.ok("workspace", "create", "hers")
    desk.ok("import", "--workspace", "hers", str(chatgpt_json(tmp_path)))
    assert desk.is_empty
    assert len(desk.json("archive", "list", "--workspace", "hers")["conversations"]) == 2
    assert desk.run("import", "--workspace", "nobodys", str(tmp_path)).exit_code == 3


# What cannot be read


def refused(desk: Desk, *paths: Path | str) -> str:
    """Importing these ends with 1; what is said about it."""
    result = desk.run("import", *map(str, paths))
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.output
    return result.output


def test_a_path_that_is_not_there_is_said_and_the_others_are_still_imported(desk: Desk, tmp_path: Path):
    said = refused(desk, tmp_path / "gone.zip", chatgpt_json(tmp_path), tmp_path / "gone too")
    assert "gone.zip" in said
    assert "gone too" in said
    assert "Imported 2 new" in said
    assert desk.find(query="oaks") == ["How old are oaks?"]


def test_no_path_at_all_is_used_wrongly(desk: Desk):
    assert desk.run("import").exit_code == 2


def test_a_torn_last_line_is_skipped_with_a_word_and_exit_0(desk: Desk, tmp_path: Path):
    path = written(tmp_path / "s1.jsonl", samples.claude_session("s1", "ivy") + b'{"type":"user","message":{"role":"us')
    result = desk.run("import", str(path))
    assert result.exit_code == 0
    assert "s1.jsonl: the last line is not complete" in result.stderr
    assert len(desk.find(query="ivy")) == samples.TURNS_A_WORD


def bomb(to: Path) -> Path:
    whole = b'[{"title":"x","mapping":{},"create_time":1,"filling":"' + b" " * (80 * 1024 * 1024) + b'"}]'
    return zip_of(to / "bomb.zip", {"conversations.json": whole})


def climbing(to: Path) -> Path:
    return zip_of(
        to / "up.zip", {"../../../escaped/conversations.json": as_json([IVY]), "/tmp/absolute-palaver.json": b"{}"}
    )


def deep(to: Path) -> Path:
    return written(
        to / "conversations.json",
        b'[{"title":"x","create_time":1,"mapping":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001 + b"]",
    )


def cut_zip(to: Path) -> Path:
    path = zip_of(to / "cut.zip", {"conversations.json": as_json([IVY] * 500)}, zipfile.ZIP_STORED)
    return written(path, path.read_bytes()[:5000])


def noise(to: Path) -> Path:
    return written(to / "noise.bin", random.Random(5).randbytes(200_000))


def noise_called_json(to: Path) -> Path:
    return written(to / "conversations.json", b"[" + random.Random(6).randbytes(100_000))


def noise_called_database(to: Path) -> Path:
    return written(to / "state.vscdb", b"SQLite format 3\x00" + random.Random(7).randbytes(100_000))


def linked(to: Path) -> Path:
    info = zipfile.ZipInfo("conversations.json")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(info, "/etc/passwd")
    return written(to / "link.zip", buffer.getvalue())


def nothing(to: Path) -> Path:
    return written(to / "empty.json", b"")


HOSTILE = [bomb, deep, cut_zip, noise, noise_called_json, noise_called_database, linked, nothing]


@pytest.mark.examples(4)
@ONE_ENGINE
@pytest.mark.parametrize("make", HOSTILE, ids=[make.__name__ for make in HOSTILE])
def test_a_hostile_file_is_a_clear_message_that_names_it_and_the_good_one_is_kept(
    desk: Desk, tmp_path: Path, make: Callable[[Path], Path]
):
    path = make(tmp_path / "bad")
    result = desk.run("import", str(path), str(chatgpt_json(tmp_path / "good")))
    assert result.exit_code in ((0, 1) if make is deep else (1,)), result.output
    assert path.name in result.stderr
    assert "Traceback" not in result.output
    assert "Imported 2 new" in result.stdout
    assert len(desk.json("archive", "list")["conversations"]) == 2


def test_names_that_climb_out_of_a_zip_lead_nowhere(desk: Desk, tmp_path: Path):
    path = climbing(tmp_path / "a" / "b" / "c")
    before = {file for file in tmp_path.rglob("*") if desk.home not in file.parents}
    desk.run("import", str(path))
    assert {file for file in tmp_path.rglob("*") if desk.home not in file.parents and file != desk.home} == before
    assert not Path("/tmp/absolute-palaver.json").exists()
    assert len(desk.json("archive", "list")["conversations"]) <= 1


def test_names_with_control_characters_do_not_reach_the_terminal(desk: Desk, tmp_path: Path):
    path = zip_of(
        tmp_path / "e.zip",
        {"\x1b[2Jevil\n.json": b'{"neither": "nor"}', "conversations.json": as_json([IVY, chat("x", id="e")])},
    )
    result = desk.run("import", str(path))
    assert "\x1b" not in result.output


STOP_AFTER_TWO_BATCHES = """
import asyncio
from palaver.operations.archive import import_batches
read_batches = import_batches.read_batches
async def stop_after_two(*args, **options):
    left = 2
    async for batch in read_batches(*args, **options):
        if not left:
            await asyncio.sleep(3600)
        left -= 1
        yield batch
import_batches.read_batches = stop_after_two
"""


def test_an_interrupted_import_goes_on_when_it_is_run_again(engine: Engine, tmp_path: Path):
    desk = Desk(tmp_path / "home", engine.fresh())
    count, each = 240, 25
    path = export_of(
        tmp_path / "conversations.json",
        *(
            chat(f"talk {c}", *(("user", f"talk {c} word {n}", NOON + c * 100 + n) for n in range(each)), id=f"c{c}")
            for c in range(count)
        ),
    )
    desk.ok("status")
    command = palaver_command("import", str(path), before=STOP_AFTER_TWO_BATCHES)
    env = environment(desk.home, PALAVER_DATABASE_URL=desk.database_url)
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            eventually(lambda: desk.json("archive", "list")["conversations"])
        finally:
            process.kill()
    before = len(desk.json("archive", "list", "--limit", "1000")["conversations"])
    assert 0 < before < count
    size = MESSAGES_AT_ONCE if engine.name == "sqlite" else MESSAGES_AT_ONCE // 2
    assert before * each % size == 0, "only whole changes"
    summary = desk.bring(path)
    assert (summary["new"], summary["unchanged"], summary["changed"]) == (count - before, before, 0)
    listed = desk.json("archive", "list", "--limit", "1000")["conversations"]
    assert [one["messages"] for one in listed] == [each] * count
    assert desk.find(query="talk 239 word 24") == ["talk 239 word 24"]
    assert desk.find(query="talk 0 word 0") == ["talk 0 word 0"]


# Out again


def test_one_conversation_is_exported_as_markdown(desk: Desk, tmp_path: Path):
    desk.bring(chatgpt_json(tmp_path))
    assert desk.ok("export", "chatgpt:c-ivy") == (
        "# Ivy\n\n*chatgpt, chatgpt:c-ivy*\n\n"
        "## user — 2025-02-10T12:00:00Z\n\nDoes ivy climb?\n\n"
        "## assistant — 2025-02-10T12:00:01Z\n\nIt does.\n\n"
    )


def test_one_conversation_is_exported_as_a_json_line(desk: Desk, tmp_path: Path):
    desk.bring(chatgpt_json(tmp_path))
    said = desk.ok("export", "--format", "jsonl", "chatgpt:c-oak")
    assert said.count("\n") == 1
    assert json.loads(said) == {
        "id": "chatgpt:c-oak",
        "origin": "chatgpt",
        "title": "Oak",
        "created_at": "2025-02-10T12:01:00Z",
        "updated_at": "2025-02-10T12:01:00Z",
        "messages": [{"id": "n1", "role": "user", "text": "How old are oaks?", "ts": "2025-02-10T12:01:00Z"}],
        "is_titled": True,
    }


def test_the_whole_archive_is_exported(desk: Desk, tmp_path: Path):
    desk.bring(chatgpt_json(tmp_path), claude_export(tmp_path / "claude"))
    lines = [json.loads(line) for line in desk.ok("export", "--format", "jsonl").splitlines()]
    assert {line["id"] for line in lines} == {held["id"] for held in desk.json("archive", "list")["conversations"]}
    assert len(lines) == 4
    result = desk.run("export", "-o", str(tmp_path / "all.md"))
    assert result.exit_code == 0
    assert "Wrote 4 conversations to all.md." in result.stderr
    assert (tmp_path / "all.md").read_text("utf-8") == desk.ok("export")
    assert desk.ok("export").count("\n# ") + 1 == 4


def test_what_was_exported_as_json_lines_comes_back_as_it_was(desk: Desk, tmp_path: Path):
    desk.run("import", str(chatgpt_folder(tmp_path)))
    desk.run("import", str(codex_folder(tmp_path)))
    everything = tmp_path / "everything.jsonl"
    desk.run("export", "--format", "jsonl", "-o", str(everything))
    assert "0 new and 0 changed" in desk.run("import", str(everything)).stdout
    other = Desk(tmp_path / "other", "")
    with everything.open("ab") as file:
        file.write(b'{"id": "x", "origin": "y", "tit')
    done = other.run("import", str(everything))
    assert "the last line is not complete" in done.stderr
    again = other.run("export", "--format", "jsonl").stdout
    assert sorted(again.splitlines()) == sorted(everything.read_text("utf-8").splitlines()[:-1])


def test_what_is_not_there_is_not_exported_and_leaves_no_file(desk: Desk, tmp_path: Path):
    assert desk.ok("export") == ""
    result = desk.run("export", "chatgpt:gone")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "chatgpt:gone" in result.stderr
    written(tmp_path / "kept.md", b"precious")
    assert desk.run("export", "chatgpt:gone", "-o", str(tmp_path / "kept.md")).exit_code == 3
    assert (tmp_path / "kept.md").read_bytes() == b"precious"
    assert desk.run("export", "chatgpt:gone", "-o", str(tmp_path / "new.md")).exit_code == 3
    assert not (tmp_path / "new.md").exists()


def test_a_file_that_cannot_be_written_is_said_so(desk: Desk, tmp_path: Path):
    desk.bring(chatgpt_json(tmp_path))
    result = desk.run("export", "-o", str(tmp_path / "no" / "such" / "folder.md"))
    assert result.exit_code == 1
    assert "folder.md" in result.stderr
    assert "unexpected" not in result.stderr


# Looking at it


def test_the_archive_is_listed_latest_first_and_shown(desk: Desk, tmp_path: Path):
    desk.bring(chatgpt_json(tmp_path))
    listed = desk.json("archive", "list")["conversations"]
    assert listed == [
        {"id": "chatgpt:c-oak", "origin": "chatgpt", "title": "Oak", "messages": 1,
         "created_at": "2025-02-10T12:01:00Z", "updated_at": "2025-02-10T12:01:00Z"},
        {"id": "chatgpt:c-ivy", "origin": "chatgpt", "title": "Ivy", "messages": 2,
         "created_at": "2025-02-10T12:00:00Z", "updated_at": "2025-02-10T12:00:01Z"},
    ]  # fmt: skip
    assert desk.json("archive", "list", "--limit", "1", "--offset", "1")["conversations"] == listed[1:]
    table = desk.ok("archive", "list")
    assert table.splitlines()[0].split() == ["ID", "ORIGIN", "MESSAGES", "UPDATED", "AT", "TITLE"]
    shown = desk.json("archive", "show", "chatgpt:c-ivy")
    assert [message["text"] for message in shown["messages"]] == ["Does ivy climb?", "It does."]
    assert desk.run("archive", "show", "chatgpt:gone").exit_code == 3


def test_progress_is_only_for_those_who_look(desk: Desk, tmp_path: Path):
    result = desk.run("import", str(chatgpt_json(tmp_path)))
    assert "\r" not in result.output
    assert os.linesep.join(result.stdout.splitlines()).count("Imported") == 1
