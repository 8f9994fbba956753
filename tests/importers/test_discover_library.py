"""Finding what people keep, and telling it from what merely lies there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.importers.documents import card_chunk, docx, epub, p, pdf, png, pptx, zip_of
from tests.importers.samples import claude_file, jsonl, typed
from tests.importers.shapes import as_json
from tests.importers.test_discover import chatgpt_export, claude_export, write
from tests.importers.test_library_readers import ROWS, SECTIONS, SRT, V1, assert_storable

from palaver.importers import registry
from palaver.importers.discover import ImportSource, Item, Skipped, find_sources
from palaver.importers.files import file_context
from palaver.model.library import Conversation, ImportedPiece, Note

Told = tuple[dict[str, ImportedPiece], list[Conversation], list[Skipped]]


def everything(*paths: Path, are_uploads: bool = False) -> Told:
    pieces: dict[str, ImportedPiece] = {}
    conversations: list[Conversation] = []
    skipped: list[Skipped] = []
    for found in find_sources(paths, are_uploads=are_uploads):
        for one in found.contents() if isinstance(found, ImportSource) else [found]:
            match one:
                case ImportedPiece():
                    assert one.origin not in pieces
                    assert_storable(one)
                    pieces[one.origin] = one
                case Conversation():
                    conversations.append(one)
                case Skipped():
                    skipped.append(one)
    return pieces, conversations, skipped


def origins(*paths: Path, are_uploads: bool = False) -> list[str]:
    return sorted(everything(*paths, are_uploads=are_uploads)[0])


def whys(*paths: Path) -> list[tuple[str, int]]:
    return [(one.why, one.count) for one in everything(*paths)[2]]


def write_everything(folder: Path) -> None:
    for name, raw in {
        "Bread.md": b"flour",
        "deep/er/Ivy.markdown": b"climbs",
        "a.txt": b"text",
        "b.html": b"<p>page",
        "c.pdf": pdf("a page"),
        "d.epub": epub("<p>a book"),
        "e.docx": docx(p("a letter")),
        "f.pptx": pptx("a slide"),
        "g.srt": SRT.encode(),
        "h.json": as_json({"segments": [{"start": 0.5, "end": 1, "text": "said"}]}),
        "ivy.png": png(card_chunk(V1)),
        "ivy.json": as_json(V1),
        "photo.png": png(),
        "sum.md": SECTIONS.encode(),
        "p.prompt.md": b"Summarise",
        "list.yaml": b"- name: x\n  user_prompt: y\n",
        "rows.json": as_json(ROWS),
        "other.yaml": b"a: b",
        "data.json": b'{"a": 1}',
        "script.py": b"print()",
    }.items():
        write(folder / name, raw)


EVERYTHING = [
    "character-card:box/ivy.json",
    "character-card:box/ivy.png",
    "epub:box/d.epub",
    "html:box/b.html",
    "markdown:box/Bread.md",
    "markdown:box/deep/er/Ivy.markdown",
    "office:box/e.docx",
    "office:box/f.pptx",
    "pdf:box/c.pdf",
    "prompt:box/list.yaml",
    "prompt:box/p.prompt.md",
    "prompt:box/rows.json#A",
    "prompt:box/rows.json#B",
    "prompt:box/sum.md",
    "text:box/a.txt",
    "transcript:box/g.srt",
    "transcript:box/h.json",
]


def test_each_kind_is_found_in_a_folder_and_called_the_same_wherever_the_folder_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write_everything(tmp_path / "here" / "box")
    write_everything(tmp_path / "elsewhere" / "box")
    assert origins(tmp_path / "here" / "box") == EVERYTHING
    assert origins(tmp_path / "elsewhere" / "box") == EVERYTHING
    assert whys(tmp_path / "here" / "box") == [("nothing of a known kind in data.json", 1)]
    monkeypatch.chdir(tmp_path / "here" / "box")
    assert origins(Path(".")) == EVERYTHING
    assert origins(Path("Bread.md")) == ["markdown:box/Bread.md"]


def test_each_kind_is_found_in_a_zip_as_if_it_were_unpacked(tmp_path: Path):
    box = tmp_path / "box"
    write_everything(box)
    files = {path.relative_to(box).as_posix(): path.read_bytes() for path in box.rglob("*") if path.is_file()}
    flat = write(tmp_path / "box.zip", zip_of(files))
    folder = write(tmp_path / "2026-export.zip", zip_of({f"box/{name}": raw for name, raw in files.items()}))
    assert origins(folder) == EVERYTHING
    assert [origin.replace("deep/", "box/deep/") for origin in origins(flat)] == EVERYTHING
    assert len(everything(write(tmp_path / "outer.zip", zip_of({"box.zip": flat.read_bytes()})))[0]) == len(EVERYTHING)


def test_a_file_that_is_named_is_read_wherever_it_stands(tmp_path: Path):
    for name in (".hidden/x.md", "node_modules/y.md", "code/z.txt", ".w.md"):
        write(tmp_path / name, b"x")
    write(tmp_path / "code" / "Makefile", b"")
    named = (tmp_path / name for name in (".hidden/x.md", "node_modules/y.md", "code/z.txt", ".w.md"))
    assert set(origins(*named)) == {
        "markdown:.hidden/x.md",
        f"markdown:{tmp_path.name}/.w.md",
        "markdown:node_modules/y.md",
        "text:code/z.txt",
    }


def test_a_vault_is_read_without_its_settings_and_its_bin(tmp_path: Path):
    vault = tmp_path / "vault"
    for name in ("A.md", "sub/B.md", ".obsidian/plugins/x/README.md", ".trash/Old.md", "sub/.C.md"):
        write(vault / name, b"x " + name.encode())
    write(vault / ".obsidian" / "app.json", b"{}")
    assert origins(vault) == ["markdown:vault/A.md", "markdown:vault/sub/B.md"]
    assert whys(vault) == []
    # A part of a vault keeps its names.
    assert origins(vault / "sub") == origins(vault / "sub" / "B.md") == ["markdown:vault/sub/B.md"]


def test_trees_of_code_are_left_out_unless_they_are_named(tmp_path: Path):
    for name in ("code/README.md", "code/docs/guide.md", "code/docs/page.html", "code/requirements.txt", "code/sub/README.md",
                 "code/node_modules/x/README.md", "code/.github/x.md", "notes.md"):  # fmt: skip
        write(tmp_path / "desk" / name, b"x " + name.encode())
    write(tmp_path / "desk" / "code" / "pyproject.toml", b"")
    write(tmp_path / "desk" / "code" / "sub" / "package.json", b"{}")
    assert origins(tmp_path / "desk") == ["markdown:desk/notes.md"]
    assert (file_context.IN_CODE, 5) in whys(tmp_path / "desk")
    assert origins(tmp_path / "desk" / "code") == [
        "markdown:code/README.md",
        "markdown:code/docs/guide.md",
        "markdown:code/sub/README.md",
    ]


# Histories are no notes


def test_what_an_agent_writes_beside_its_sessions_is_no_note(tmp_path: Path):
    projects = tmp_path / "projects"
    claude_file(projects / "-home-ann", "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", "ivy")
    claude_file(projects / "-home-bob", "2b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", "ivy")
    write(projects / "-home-ann" / "1b9d" / "tool-results" / "x.txt", b"output")
    write(projects / "-home-ann" / "memory" / "MEMORY.md", b"remember")
    write(projects / "README.md", b"x")
    pieces, conversations, skipped = everything(projects)
    assert pieces == {}
    assert len(conversations) == 2
    assert [(one.why, one.count, one.is_error) for one in skipped] == [(file_context.IN_A_HISTORY, 3, False)]


def test_notes_elsewhere_in_the_folder_are_notes_all_the_same(tmp_path: Path):
    write(tmp_path / "downloads" / "export" / "conversations.json", chatgpt_export("c1"))
    write(tmp_path / "downloads" / "export" / "chat.html", b"<p>ivy")
    write(tmp_path / "downloads" / "export" / "file-1.pdf", pdf("a page"))
    write(tmp_path / "downloads" / "bread.md", b"flour")
    write(tmp_path / "downloads" / "claude.zip", zip_of({"conversations.json": claude_export("c1"), "x.md": b"x"}))
    pieces, conversations, skipped = everything(tmp_path / "downloads")
    assert list(pieces) == ["markdown:downloads/bread.md"]
    assert len(conversations) == 2
    assert [(one.why, one.count) for one in skipped] == [(file_context.IN_A_HISTORY, 1)] * 2


@pytest.mark.parametrize("raw", [chatgpt_export("c1"), claude_export("c1")])
def test_an_export_is_no_transcript_and_no_prompt_whatever_is_said_in_it(tmp_path: Path, raw: bytes):
    talk = b'{\\"segments\\": [{\\"start\\": 0.5, \\"text\\": 1}], \\"system_prompt\\": 1, \\"first_mes\\": 1, \\"name\\": 2}'
    pieces, conversations, _ = everything(write(tmp_path / "conversations.json", raw.replace(b"ivy", talk)))
    assert pieces == {}
    assert len(conversations) == 1


def test_sessions_that_speak_of_prompts_stay_sessions(tmp_path: Path):
    raw = jsonl(typed('{"system_prompt": "x", "segments": [{"start": 0.5, "text": "y"}]}', "s1"))
    pieces, conversations, _ = everything(write(tmp_path / "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed.jsonl", raw))
    assert pieces == {}
    assert len(conversations) == 1


# Uploads, damage, strangers


def test_of_an_upload_only_the_name_counts(tmp_path: Path):
    one = write(tmp_path / "incoming" / "x7" / "0" / "Bread.md", b"flour")
    (tmp_path / ".git").mkdir()
    assert origins(one, are_uploads=True) == ["markdown:upload/Bread.md"]


def test_damage_is_an_error_only_for_what_was_named_and_the_rest_is_read(tmp_path: Path):
    bad = write(tmp_path / "box" / "bad.pdf", b"%PDF-1.4 nothing")
    write(tmp_path / "box" / "good.md", b"x")
    pieces, _, skipped = everything(tmp_path / "box")
    assert list(pieces) == ["markdown:box/good.md"]
    assert [(one.name, one.is_error) for one in skipped] == [(str(bad), False)]
    assert [one.is_error for one in everything(bad)[2]] == [True]


def test_names_are_the_same_however_a_machine_writes_them(tmp_path: Path):
    write(tmp_path / "box" / "cafe\u0301.md", b"x")
    strange = os.fsencode(tmp_path / "box") + b"/\xff.md"
    Path(os.fsdecode(strange)).write_bytes(b"y")
    assert origins(tmp_path / "box") == ["markdown:box/caf\u00e9.md", "markdown:box/\ufffd.md"]


def test_importers_of_other_packages_may_bring_pieces_and_come_before_the_librarys_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Theirs:
        name = "theirs"

        def recognises(self, item: Item, head: bytes) -> bool:
            return head.startswith(b"THEIRS")

        def pieces(self, item: Item) -> Iterator[ImportedPiece | Skipped]:
            yield ImportedPiece("theirs:1", Note(title="a\x00", content="b\x00", keywords=("#k", "K")))
            yield Skipped(item.name, "half of it")
            raise KeyError("oops")

    monkeypatch.setitem(sys.modules, "theirs", SimpleNamespace(good=Theirs()))
    monkeypatch.setattr(registry, "entry_points", lambda group: [EntryPoint("good", "theirs:good", group)])
    pieces, _, skipped = everything(write(tmp_path / "x.md", b"THEIRS"))
    assert pieces == {"theirs:1": ImportedPiece("theirs:1", Note(title="a\ufffd", content="b\ufffd", keywords=("k",)))}
    assert [one.why.partition(" (")[0] for one in skipped] == ["half of it", "it cannot be read"]
