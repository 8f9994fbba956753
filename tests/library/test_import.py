"""`palaver import` and `POST /api/import` take what people keep: once, counted by kind, updated when a file changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.archive.test_cli_import import Desk, chatgpt_folder, desk, written
from tests.archive.test_import_uploads import send
from tests.conftest import Engine
from tests.helpers import Server, start_server, word
from tests.importers.documents import card_chunk, docx, epub, p, pdf, png
from tests.importers.shapes import as_json
from tests.importers.test_library_readers import ROWS, SRT, V2

__all__ = ["desk"]


def listed(desk: Desk, what: str) -> list[dict[str, Any]]:
    return list(desk.json(what, "list"))


def counts(new: int = 0, changed: int = 0, unchanged: int = 0) -> dict[str, int]:
    return {"new": new, "changed": changed, "unchanged": unchanged}


def shelf(folder: Path) -> Path:
    for name, raw in {
        "vault/Bread.md": b"---\ntags: [baking]\n---\nFlour and #water, see [[Ivy]].\n",
        "vault/Ivy.md": b"It climbs.",
        "vault/.obsidian/app.json": b"{}",
        "vault/.trash/Gone.md": b"gone",
        "a.pdf": pdf("A page about oaks."),
        "b.epub": epub("<p>A book about ferns."),
        "c.docx": docx(p("A letter about moss.")),
        "d.srt": SRT.encode(),
        "ivy.png": png(card_chunk(V2)),
        "prompts.json": as_json(ROWS),
    }.items():
        written(folder / name, raw)
    return folder


def test_a_folder_of_everything_is_imported_once_and_counted_by_kind(desk: Desk, tmp_path: Path):
    folder = shelf(tmp_path / "shelf")
    summary = desk.bring(folder)
    assert summary["kinds"] == {
        "characters": counts(1),
        "media": counts(4),
        "notes": counts(2),
        "prompts": counts(2),
    }
    assert (summary["new"], summary["changed"], summary["unchanged"], summary["skipped"]) == (9, 0, 0, [])
    assert summary["formats"] == {
        "character-card": 1, "epub": 1, "markdown": 2, "office": 1, "pdf": 1, "prompt": 2, "transcript": 1
    }  # fmt: skip
    again = desk.bring(folder)
    assert (again["new"], again["changed"], again["unchanged"]) == (0, 0, 9)
    found = {(note["title"], note["content"], tuple(note["keywords"])) for note in listed(desk, "note")}
    assert found == {
        ("Bread", "Flour and #water, see [[Ivy]].\n", ("baking", "water")),
        ("Ivy", "It climbs.", ()),
    }
    assert {one["media_type"] for one in listed(desk, "media")} == {"pdf", "epub", "docx", "video"}
    assert [one["name"] for one in listed(desk, "character")] == ["Ivy"]
    assert sorted(one["name"] for one in listed(desk, "prompt")) == ["A", "B"]


def test_the_summary_says_what_came_of_each_kind(desk: Desk, tmp_path: Path):
    folder = written(tmp_path / "notes" / "Bread.md", b"flour").parent
    written(folder / "empty.md", b"")
    written(folder / "a.txt", b"text")
    said = "Would import 1 new and 0 changed notes; 0 unchanged.\nWould import 1 new and 0 changed media; 0 unchanged, 1 skipped. Items by format: markdown 1, text 1.\n"
    assert desk.ok("import", "--dry-run", str(folder)) == said
    assert listed(desk, "note") == []
    assert desk.ok("import", str(folder)) == said.replace("Would import", "Imported")
    chatgpt_folder(tmp_path / "x")
    assert desk.ok("import", str(tmp_path / "x"), str(folder)) == (
        "Imported 2 new and 0 changed conversations; 0 unchanged; 3 messages read.\n"
        "Imported 0 new and 0 changed notes; 1 unchanged.\n"
        "Imported 0 new and 0 changed media; 1 unchanged, 1 skipped. Items by format: chatgpt 2, markdown 1, text 1.\n"
    )


def test_a_file_that_has_changed_is_updated_and_stays_one(desk: Desk, tmp_path: Path):
    path = written(tmp_path / "notes" / "Bread.md", b"flour")
    desk.bring(path.parent)
    (before,) = listed(desk, "note")
    path.write_bytes(b"---\ntitle: Loaf\n---\nflour")
    assert desk.bring(path.parent)["kinds"] == {"notes": counts(changed=1)}
    path.write_bytes(b"---\ntitle: Loaf\n---\nflour and water")
    assert desk.bring(path)["kinds"] == {"notes": counts(changed=1)}  # the file alone is the same as in its folder
    (after,) = listed(desk, "note")
    assert (after["id"], after["title"], after["content"]) == (before["id"], "Loaf", "flour and water")


def test_the_same_content_twice_is_one_item_whatever_it_is_called_and_wherever_it_lies(desk: Desk, tmp_path: Path):
    for name in ("a/Bread.md", "a/Copy of Bread.md", "b/Bread.md"):
        written(tmp_path / name, b"flour")
    for name in ("x.pdf", "y.pdf"):
        written(tmp_path / "a" / name, pdf("A page."))
    dry = desk.json("import", "--dry-run", str(tmp_path / "a"), str(tmp_path / "b"))
    summary = desk.bring(tmp_path / "a", tmp_path / "b")
    assert summary["kinds"] == dry["kinds"] == {"notes": counts(1, 0, 2), "media": counts(1, 0, 1)}
    assert len(listed(desk, "note")) == len(listed(desk, "media")) == 1


def test_what_is_removed_at_the_terminal_stays_away_until_its_file_changes(desk: Desk, tmp_path: Path):
    path = written(tmp_path / "notes" / "Bread.md", b"flour")
    desk.bring(path)
    (note,) = listed(desk, "note")
    desk.ok("note", "rm", note["id"])
    assert desk.bring(path)["kinds"] == {"notes": counts(unchanged=1)}
    assert listed(desk, "note") == []
    path.write_bytes(b"rye")
    desk.bring(path)
    assert [note["content"] for note in listed(desk, "note")] == ["rye"]


def test_a_damaged_file_that_was_named_is_told_and_the_others_are_imported(desk: Desk, tmp_path: Path):
    bad = written(tmp_path / "bad.pdf", b"%PDF-1.4 nothing")
    good = written(tmp_path / "good.md", b"fine")
    result = desk.run("import", str(bad), str(good))
    assert result.exit_code == 1
    assert "bad.pdf: damaged" in result.stderr
    assert [note["title"] for note in listed(desk, "note")] == ["good"]


# Over HTTP


@pytest.fixture(scope="module")
def own(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp(f"library-{engine.name}")
    with start_server(home, PALAVER_DATABASE_URL=engine.fresh()) as server:
        yield server


@pytest.fixture(scope="module")
def web(own: Server) -> Iterator[httpx.Client]:
    with own.client() as client:
        yield client


def found(web: httpx.Client, query: str, source: str) -> list[Any]:
    hits = web.post("/api/knowledge/search", json={"query": query, "sources": [source]}).json()["results"]
    return list(dict.fromkeys(hit["id"] for hit in hits))


def test_files_are_uploaded_under_their_own_names_and_uploading_again_updates(web: httpx.Client):
    unique = word()
    name = f"Über {unique} & 庭.md"
    first = send(web, (name, b"flour"))
    assert first["kinds"] == {"notes": counts(1)}
    (item,) = first["items"]
    assert web.get(f"/api/notes/{item['id']}").json()["uri"] == item["uri"]
    assert send(web, (name, b"flour"))["items"] == [{**item, "outcome": "unchanged"}]
    assert send(web, (name, b"rye"))["kinds"] == {"notes": counts(changed=1)}
    (note,) = [one for one in web.get("/api/notes").json() if unique in one["title"]]
    assert (note["title"], note["content"]) == (name.removesuffix(".md"), "rye")


def test_what_was_deleted_here_does_not_come_back_by_itself(web: httpx.Client):
    unique = word()
    file = (f"{unique}.md", f"words about {unique}".encode())
    send(web, file)
    (id,) = found(web, unique, "notes")
    assert web.delete(f"/api/notes/{id}").status_code == 200
    assert send(web, file)["kinds"] == {"notes": counts(unchanged=1)}
    assert found(web, unique, "notes") == []


@pytest.mark.parametrize(
    "name", ["../../evil.md", "a\\b\\evil.md", "/etc/evil.md", "..", "evil.md\x00", "x" * 400 + ".md"]
)
def test_no_name_leads_anywhere(own: Server, web: httpx.Client, name: str):
    done = send(web, (name, f"words {word()}".encode()))
    assert done["status"] == "done"
    assert not [path for path in own.home.rglob("*") if "evil" in path.name]
    assert all("/" not in one["name"] for one in done["skipped"])


def test_a_pdf_is_uploaded_and_found_by_its_words(web: httpx.Client):
    unique = word()
    assert send(web, ("a.pdf", pdf(f"A page about {unique}.")))["kinds"] == {"media": counts(1)}
    (id,) = found(web, unique, "media")
    media = web.get(f"/api/media/{id}").json()
    assert (media["title"], media["media_type"], media["content"]) == ("a", "pdf", f"A page about {unique}.")
