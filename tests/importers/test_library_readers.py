"""Readers of what people keep: each kind of file gives what is in it, and says what it leaves out."""

from __future__ import annotations

import io
import json
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.importers import documents
from tests.importers.documents import card_chunk, docx, docx_files, epub, epub_files, p, pdf, pdf_of, png, pptx, zip_of
from tests.importers.shapes import anything, as_json, item_of

from palaver.importers import Unreadable
from palaver.importers.files import html_text, zips
from palaver.importers.item import Item, LibraryImporter, Skipped
from palaver.importers.library import (
    character_cards,
    front_matter,
    item_text,
    notes,
    office,
    plain_text,
    prompt_files,
    recordings,
    web_pages,
)
from palaver.importers.library import epub as books
from palaver.importers.library import pdf as pdfs
from palaver.model.library import Character, ImportedPiece, Media, Note, Prompt, Segment

ALL: tuple[LibraryImporter, ...] = (
    character_cards, prompt_files, recordings, notes, pdfs, books, office, web_pages, plain_text
)  # fmt: skip


def read(reader: LibraryImporter, raw: bytes | str, name: str) -> tuple[list[Any], list[str]]:
    """The pieces of a file its reader recognises, and why the rest was left out."""
    raw = raw.encode() if isinstance(raw, str) else raw
    item = item_of(raw, name)
    assert reader.recognises(item, raw[: 64 * 1024])
    found = list(reader.pieces(item))
    for one in found:
        assert_storable(one)
    return [one.piece for one in found if isinstance(one, ImportedPiece)], [
        one.why for one in found if isinstance(one, Skipped)
    ]


def one(reader: LibraryImporter, raw: bytes | str, name: str) -> Any:
    (piece,), skipped = read(reader, raw, name)
    assert skipped == []
    return piece


def why_not(reader: LibraryImporter, raw: bytes | str, name: str) -> str:
    with pytest.raises(Unreadable) as problem:
        read(reader, raw, name)
    return str(problem.value)


def assert_storable(one: ImportedPiece | Skipped) -> None:
    if isinstance(one, Skipped):
        assert one.name
        assert one.why
        return
    assert 0 < len(one.origin) <= 200
    texts = [one.origin]
    for name in type(one.piece).__dataclass_fields__:
        value = getattr(one.piece, name)
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, datetime):
            assert value.tzinfo is UTC
        elif isinstance(value, tuple):
            for inner in value:
                if isinstance(inner, Segment):
                    assert 0 <= inner.start <= inner.end < 1e9
                    assert inner.text.strip()
                texts.append(inner.text if isinstance(inner, Segment) else inner)
        else:
            assert value is None
    for text in texts:
        assert "\x00" not in text
        text.encode()
    match one.piece:
        case Note() | Media():
            assert one.piece.title
            assert one.piece.content.strip()
            assert len(one.piece.content) <= item_text.LONGEST_CONTENT
        case Character() | Prompt():
            assert one.piece.name


# Notes


def test_a_note_is_its_text_under_the_name_of_its_file():
    text = "# Bread\r\n\r\nFlour, water. See [[Sourdough|the starter]].\t\n"
    assert one(notes, text, "Bread.md") == Note(title="Bread", content=text)


def test_front_matter_gives_title_keywords_and_date_and_is_not_part_of_the_text():
    text = (
        '---\ntitle: "Bread: a start"\ntags: [baking, "#food"]\naliases:\n  - Loaf\ncreated: 2026-05-01T10:00:00+02:00\n'
        "status: draft\n---\nFlour.\n"
    )
    assert one(notes, text, "b.md") == Note(
        title="Bread: a start",
        content="Flour.\n",
        keywords=("baking", "food", "Loaf"),
        created_at=datetime(2026, 5, 1, 8, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    "given, expected",
    [
        ("tags: one, two words, one", ("one", "two words")),
        ("tags: '#one #two'", ("one", "two")),
        ("tags:\n- 2024\n- yes\n- One\n- one", ("2024", "yes", "One")),
        ("tag: solo\nkeywords: [a]\ncategories: b", ("solo", "a", "b")),
        ("tags:", ()),
        ("tags: {a: b}", ()),
    ],
)
def test_keywords_however_they_are_written(given: str, expected: tuple[str, ...]):
    assert one(notes, f"---\n{given}\n---\nx", "x.md").keywords == expected


def test_front_matter_that_is_no_yaml_still_gives_what_can_be_seen():
    note = one(notes, "---\ntitle: Foo: the [bar\ndate: 2026-05-01\n---\nx", "x.md")
    assert (note.title, note.created_at, note.content) == ("Foo: the [bar", datetime(2026, 5, 1, tzinfo=UTC), "x")


def test_rules_at_the_head_of_a_text_are_no_front_matter():
    for text in ("---\n\nJust a rule.\n\n---\nmore", "---\nno end", "--- \nA sentence. Another\n---\nx"):
        assert one(notes, text, "x.md").content == text


def test_tags_in_the_text_are_keywords_but_not_headings_numbers_or_code():
    text = "# Heading\n#garden and (#tree/oak) a#no #12 #2026-plan\n```c\n#include\n```\n`#not` ``a ` #nor`` #Ünïc\n[x](#anchor) http://a#b"
    assert one(notes, text, "x.md").keywords == ("garden", "tree/oak", "2026-plan", "Ünïc", "anchor")
    for text, found in (
        ("` #a `` #b `` #c", ("a", "c")),
        ("`` ` `` #a ``` #b ` #c", ("a", "b", "c")),
        ("`#a` #b `#c` #d `", ("b", "d")),
    ):
        assert one(notes, text, "x.md").keywords == found


def test_a_note_named_after_a_day_was_made_then_and_the_ids_of_notion_are_dropped():
    assert one(notes, "x", "2026-05-01 Friday.md").created_at == datetime(2026, 5, 1, tzinfo=UTC)
    assert one(notes, "x", "2026-13-01.md").created_at is None
    assert one(notes, "x", "My page 0123456789abcdef0123456789abcdef.md").title == "My page"


def test_encodings_are_told_apart():
    for raw in (
        "für".encode(),
        "\ufefffür".encode(),
        "für".encode("utf-16"),
        "für".encode("utf-32"),
        "für".encode("cp1252"),
    ):
        assert one(notes, raw, "x.md").content == "für"
    assert one(notes, "grün für schön über Öl € – „“".encode() + b"\xff", "x.md").content.endswith("“\ufffd")
    assert one(notes, b"a\xed\xa0\x80b", "x.md").content.startswith("a")


def test_an_empty_note_is_left_out_and_a_binary_one_is_none():
    assert read(notes, "---\ntitle: x\n---\n \n", "x.md") == ([], ["nothing is written in it"])
    assert not notes.recognises(item_of(b"", "x.md"), b"a\x00b")


def test_the_end_of_a_very_long_text_is_left_out_with_a_word(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(item_text, "LONGEST_CONTENT", 10)
    (note,), skipped = read(notes, "0123456789abc", "x.md")
    assert note.content == "0123456789"
    assert skipped == ["the end of a text of more than 10 million characters"]


def test_a_file_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(item_text, "LONGEST_FILE", 10)
    monkeypatch.setattr(item_text.read_bytes, "__defaults__", (10, item_text.TOO_LARGE))
    assert why_not(notes, "0123456789abc", "x.md") == item_text.TOO_LARGE


def test_plain_text_is_media():
    assert one(plain_text, "a\r\nb", "2026-05-01 log.txt") == Media(
        title="2026-05-01 log", media_type="txt", content="a\r\nb", created_at=datetime(2026, 5, 1, tzinfo=UTC)
    )


# Web pages

PAGE = """<!DOCTYPE html><html><head><meta charset="utf-8"><title>Ivy &amp; oak | A site</title>
<meta property='og:title' content="Ivy &amp; oak"><meta name=keywords content="garden, trees">
<meta property="article:published_time" content="2026-05-01T10:00:00Z"><meta property="og:url" content="https://example.org/ivy">
<style>p { color: red }</style><script>if (a < b) document.write("<p>no</p>")</script></head>
<body><nav><a href="/">Home</a></nav><h1>Ivy</h1><p>It   climbs,<br>slowly.
</p><!-- <p>hidden</p> --><ul><li>one<li>two</ul><pre>  a
    b</pre><table><tr><td>1</td><td>2</td></tr><tr><td>3<td>4</table>5 < 6 &#233; &bogus; <b>bo</b>ld<footer>©</footer></body></html>"""


def test_a_page_is_its_paragraphs_and_what_it_says_of_itself():
    assert one(web_pages, PAGE, "x.html") == Media(
        title="Ivy & oak",
        media_type="html",
        content="Ivy\n\nIt climbs,\nslowly.\n\n- one\n- two\n\n  a\n    b\n\n1\t2\n3\t4\n\n5 < 6 é &bogus; bold",
        url="https://example.org/ivy",
        keywords=("garden", "trees"),
        created_at=datetime(2026, 5, 1, 10, tzinfo=UTC),
    )


def test_the_main_part_of_a_page_is_enough_if_it_says_enough():
    story = "A long story. " * 20
    assert (
        one(web_pages, f"<div>menu</div><article><p>{story}</article><div>more</div>", "x.htm").content == story.strip()
    )
    assert one(web_pages, "<div>menu</div><main>short</main>", "x.htm").content == "menu\n\nshort"
    assert one(web_pages, "<nav>all there is", "x.htm") == Media(title="x", media_type="html", content="all there is")


@pytest.mark.parametrize("encoding", ["iso-8859-1", "windows-1251", "shift_jis", "utf-8"])
def test_a_page_in_the_encoding_it_names(encoding: str):
    text = {"windows-1251": "сад", "shift_jis": "庭"}.get(encoding, "Gärten")
    assert one(web_pages, f'<meta charset="{encoding}"><p>{text}'.encode(encoding), "x.html").content == text
    strange = f'<meta charset="{encoding}" /><meta charset=zip><p>a'.encode()
    assert one(web_pages, strange, "x.html").content == "a"


@pytest.mark.parametrize(
    "piece",
    ["<!--", "<a ", '<a "', "<a '\">", "<![CDATA[", "<script>", "<script", "</p", "<title>", "&#", "<!", "<td>", "<p><b>", "<a href='", "&amp", "<p ", "<<<<"],
)  # fmt: skip
def test_a_strange_page_takes_no_longer_than_another(piece: str):
    def cpu(count: int) -> float:
        start = time.thread_time()
        html_text.read_page(piece * count + ">")
        return time.thread_time() - start

    few = min(cpu(5_000) for _ in range(3))
    assert any(cpu(50_000) < 40 * max(few, 0.005) for _ in range(3))


def test_a_number_without_end_in_an_entity_is_left_as_it_is():
    assert one(web_pages, f"<p>&#{'9' * 6000};", "x.html").content.startswith("&#999")


# Word, PowerPoint, books


def test_a_word_document_is_its_paragraphs_tables_and_notes():
    body = (
        p("Ivy climbs.") + p(" ") + p("Oak &amp; ash.")
        + f"<w:tbl><w:tr><w:tc>{p('a')}{p('b')}</w:tc><w:tc>{p('c')}</w:tc></w:tr></w:tbl>"
        + "<w:p><w:r><w:t>one</w:t><w:tab/><w:t>two</w:t><w:br/><w:t>three</w:t></w:r>"
        "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:r><w:instrText>PAGE</w:instrText></w:r></w:p>"
        '<mc:AlternateContent xmlns:mc="m"><mc:Choice><w:p><w:r><w:t>box</w:t></w:r></w:p></mc:Choice>'
        "<mc:Fallback><w:p><w:r><w:t>box</w:t></w:r></w:p></mc:Fallback></mc:AlternateContent>"
    )  # fmt: skip
    core = "<dc:title>On ivy</dc:title><cp:keywords>garden; trees</cp:keywords><dcterms:created>2026-05-01T10:00:00Z</dcterms:created>"
    assert one(office, docx(body, core, footnotes=p("a note")), "x.docx") == Media(
        title="On ivy",
        media_type="docx",
        content="Ivy climbs.\n\nOak & ash.\n\na b\tc\n\none\ttwo\nthree\n\nbox\n\na note",
        keywords=("garden", "trees"),
        created_at=datetime(2026, 5, 1, 10, tzinfo=UTC),
    )


def test_a_presentation_is_its_slides_in_order_with_their_notes():
    raw = pptx(*(f"slide {n}" for n in range(1, 12)), notes={2: "say hello"})
    piece = one(office, raw, "Talk.pptx")
    assert piece.media_type == "pptx"
    assert piece.content.split("\n\n") == ["slide 1", "slide 2", "say hello", *(f"slide {n}" for n in range(3, 12))]


def test_a_book_is_its_chapters_in_order():
    about = "<dc:title>The  Garden</dc:title><dc:creator>Ann Oak</dc:creator><dc:subject>Plants</dc:subject><dc:date>1911-08-01</dc:date>"
    assert one(books, epub("<h1>One</h1><p>Ivy.</p>", "<p>Oak&nbsp;tree.</p>", about=about), "b.epub") == Media(
        title="The Garden",
        media_type="epub",
        content="One\n\nIvy.\n\nOak\xa0tree.",
        keywords=("Ann Oak", "Plants"),
        created_at=datetime(1911, 8, 1, tzinfo=UTC),
    )


def test_a_chapter_that_is_missing_is_told_and_the_others_are_kept():
    files = epub_files("<p>one", "<p>two", "<p>three")
    del files["OPS/ch 1.xhtml"]
    (book,), skipped = read(books, zip_of(files), "b.epub")
    assert book.content == "one\n\nthree"
    assert skipped == ["a chapter: damaged: a part of it is missing"]


def test_a_locked_book_and_encrypted_documents_are_refused():
    files = epub_files("<p>one")
    lock = '<encryption xmlns="urn:x"><EncryptedData><CipherReference URI="{}"/></EncryptedData></encryption>'
    assert "DRM" in why_not(
        books, zip_of(files | {"META-INF/encryption.xml": lock.format("OPS/ch%200.xhtml")}), "b.epub"
    )
    assert (
        one(books, zip_of(files | {"META-INF/encryption.xml": lock.format("OPS/font.otf")}), "b.epub").content == "one"
    )
    assert "without a password" in why_not(office, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\x00" * 600, "x.docx")


LAUGHS = "<!DOCTYPE x [<!ENTITY a 'ha'>" + "".join(f"<!ENTITY {b} '{f'&{a};' * 10}'>" for a, b in zip("abcdefgh", "bcdefghi", strict=True)) + "]>"  # fmt: skip


def test_xml_that_laughs_a_billion_times_is_stopped():
    files = docx_files(p("x")) | {"word/document.xml": f"{LAUGHS}<w:document {documents.W}>{p('&i;')}</w:document>"}
    assert "entities of its own" in why_not(office, zip_of(files), "x.docx")
    book = epub_files("<p>x")
    book["OPS/book.opf"] = LAUGHS + "<package>&i;</package>"
    assert "entities of its own" in why_not(books, zip_of(book), "x.epub")


def test_what_came_before_the_damage_is_kept():
    files = docx_files(p("good"))
    files["word/document.xml"] = f"<w:document {documents.W}>{p('good')}<w:p><w:t>bad"
    (media,), skipped = read(office, zip_of(files), "x.docx")
    assert media.content == "good"
    assert skipped == ["damaged: a part of it is not XML; what came before is kept"]


def test_documents_that_unpack_without_end_are_stopped(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(zips, "HARMLESS", 10_000)
    monkeypatch.setattr(zips, "MOST_TIMES", 20)
    assert "unpacks to far more" in why_not(office, docx(p("x" * 1_000_000)), "x.docx")
    assert "unpacks to far more" in why_not(books, epub("x" * 1_000_000), "x.epub")


def test_a_document_of_endless_depth_is_read():
    assert one(office, docx("<w:x>" * 100_000 + p("deep") + "</w:x>" * 100_000), "x.docx").content == "deep"
    assert one(web_pages, "<div>" * 100_000 + "deep", "x.html").content == "deep"


@pytest.mark.parametrize("name", ["x.docx", "x.pptx", "x.epub"])
def test_a_zip_that_is_something_else_is_damaged(name: str):
    reader: LibraryImporter = books if name == "x.epub" else office
    assert "damaged" in why_not(reader, zip_of({"a.txt": "x"}), name)
    assert "damaged" in why_not(reader, zip_of(docx_files(p("x")))[:-30], name)


# PDF


def test_a_pdf_is_its_pages():
    info = "/Title (On ivy) /Keywords (garden, trees) /CreationDate (D:20260501100000+02'00')"
    assert one(pdfs, pdf("Ivy climbs.\nVery slow-\nly it does.", "", "The second page.", info=info), "x.pdf") == Media(
        title="On ivy",
        media_type="pdf",
        content="Ivy climbs.\nVery slowly it does.\n\nThe second page.",
        keywords=("garden", "trees"),
        created_at=datetime(2026, 5, 1, 8, tzinfo=UTC),
    )


def test_a_title_that_is_a_file_name_is_no_title():
    for title in ("Microsoft Word - Document1", "thesis.tex", "untitled", ""):
        assert one(pdfs, pdf("a", info=f"/Title ({title})"), "On oak.pdf").title == "On oak"


def test_pictures_passwords_and_damage_are_told():
    assert why_not(pdfs, pdf(""), "x.pdf") == "there is no text in it, only pictures"
    locked = "/Encrypt << /Filter /Standard /V 1 /R 2 /O <{0}> /U <{0}> /P -4 >> /ID [<00> <00>]".format("41" * 32)
    assert (
        why_not(pdfs, pdf("a", encrypt=locked), "x.pdf") == "encrypted; save it without a password and import it again"
    )
    assert "damaged" in why_not(pdfs, b"%PDF-1.4\nnothing", "x.pdf")


def test_a_damaged_page_is_left_out_and_the_others_are_kept():
    raw = pdf("first", "second", "third").replace(b">>\nstream", b"/Filter /Nonsense >>\nstream", 2)
    raw = raw.replace(b"/Filter /Nonsense ", b"", 1)
    (media,), skipped = read(pdfs, raw, "x.pdf")
    assert media.content == "first\n\nthird"
    assert skipped == ["a page that is damaged"]


def test_a_page_that_is_huge_or_takes_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch):
    stream = b"BT /F1 12 Tf (good) Tj ET"
    raw = pdf_of(stream, b"BT /F1 12 Tf " + b"(x) Tj " * 2_000_000 + b"ET", packed=True)
    (media,), skipped = read(pdfs, raw, "x.pdf")
    assert (media.content, skipped) == ("good", ["a page that is drawn with more than 8 MB"])
    monkeypatch.setattr(pdfs, "SECONDS_A_PAGE", -1.0)
    assert read(pdfs, pdf_of(stream), "x.pdf")[1] == ["nothing is written in it", "a page that takes too long to read"]


def test_a_document_that_takes_too_long_ends_there(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pdfs, "LONGEST_CONTENT", 3)
    (media,), skipped = read(pdfs, pdf("first", "second", "third"), "x.pdf")
    assert (media.content, skipped) == ("first", ["pages at the end of a very long document"])


# Transcripts

SRT = "1\r\n00:00:01,000 --> 00:00:02,500\r\n<i>Hello</i> &amp;\r\n{\\an8}welcome\r\n\r\n2\r\n01:02:03,004 --> 01:02:04,000\r\nto 42\r\n42\r\n\r\n3\r\n00:00:09,000 --> 00:00:08,000\r\nlast"
VTT = """\ufeffWEBVTT - a talk

NOTE 00:00:01.000 is no time

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.000 align:start position:0%
<v.loud Ann Oak>Hello <c.yellow>there</c><00:00:01.500> you</v>

00:00:02.000 --> 01:00:00.000
second
"""


def test_subtitles_become_stretches_with_their_times():
    media = one(recordings, SRT, "My talk.en.srt")
    assert (media.title, media.media_type) == ("My talk", "video")
    assert media.segments == (
        Segment(1.0, 2.5, "Hello &\nwelcome"),
        Segment(9.0, 9.0, "last"),
        Segment(3723.004, 3724.0, "to 42\n42"),
    )
    assert media.content == "Hello &\nwelcome\nlast\nto 42\n42"
    assert one(recordings, VTT, "x.vtt").segments == (
        Segment(1.0, 2.0, "Ann Oak: Hello there you"),
        Segment(2.0, 3600.0, "second"),
    )


def test_captions_that_roll_say_every_line_once():
    cues = [("00:00.000", "00:02.000", " \nhello there"), ("00:02.000", "00:02.010", "hello there\n "), ("00:02.010", "00:04.000", "hello there\nhow are you")]  # fmt: skip
    text = "WEBVTT\n\n" + "\n\n".join(f"{a} --> {b} align:start\n{said}" for a, b, said in cues)
    # The first cue begins with a blank line, as those of YouTube do.
    assert [s.text for s in one(recordings, text, "x.vtt").segments] in (["hello there", "how are you"],)


def test_numbers_between_cues_without_blank_lines_are_not_said():
    text = "1\n00:00:01,000 --> 00:00:02,000\none\n2\n00:00:02,000 --> 00:00:03,000\n\n3\n00:00:03,000 --> 00:00:04,000\nthree"
    assert [segment.text for segment in one(recordings, text, "x.srt").segments] == ["one", "three"]


@pytest.mark.parametrize(
    "found, kind",
    [
        ({"text": "a b", "segments": [{"id": 0, "start": 0.5, "end": 2, "text": " a"}, {"start": 2.0, "end": 3, "text": "b"}]}, "audio"),
        ([{"text": "a", "start": 0.5, "duration": 1.5}, {"text": "b", "start": 2.0, "duration": 1}], "audio"),
        ({"events": [{"tStartMs": 500, "dDurationMs": 1500, "segs": [{"utf8": "a"}]}, {"tStartMs": 1, "segs": [{"utf8": "\n"}]}, {"tStartMs": 2000, "dDurationMs": 1000, "segs": [{"utf8": "b"}]}]}, "video"),
        ({"transcription": [{"timestamps": {"from": "00:00:00,500", "to": "00:00:02,000"}, "offsets": {"from": 500, "to": 2000}, "text": " a"}, {"offsets": {"from": 2000, "to": 3000}, "text": "b"}]}, "audio"),
        ({"segments": [{"start_ms": 500, "end_ms": 2000, "text": "a"}, {"start_time": "00:00:02", "end_time": "0:03", "text": "b"}]}, "audio"),
        ({"transcript": {"segments": [{"start_seconds": "0.5", "text": "a"}, {"start": 2, "end": 3, "text": "b"}]}, "media_type": "podcast"}, "podcast"),
        ({"version": "1.0", "segments": [{"startTime": 0.5, "endTime": 2, "body": "a"}, {"startTime": 2, "endTime": 3, "body": "b"}]}, "audio"),
    ],
)  # fmt: skip
def test_transcripts_in_json_of_every_make(found: Any, kind: str):
    media = one(recordings, as_json(found), "talk.json")
    assert media.segments == (Segment(0.5, 2.0, "a"), Segment(2.0, 3.0, "b"))
    assert (media.title, media.media_type, media.content) == ("talk", kind, "a\nb")


def test_a_transcript_that_begins_with_a_long_text_is_one_all_the_same():
    for length in (70_000, 2_500_000):
        raw = as_json(
            {"text": "x" * length, "segments": [{"id": 0, "start": 0, "end": 1, "text": "a"}], "language": "en"}
        )
        assert one(recordings, raw, "x.json").content == "a"
    raw = as_json({"text": "x" * 2_500_000, "more": 1})
    assert not recordings.recognises(item_of(raw, "x.json"), raw[:65536])


def test_speakers_titles_and_stretches_without_time():
    rows = [{"start": 1.5, "end": 2, "text": "a", "speaker": "Ann"}, {"text": "x"}, 7, {"start": float("nan"), "text": "y"}, {"start": -1, "text": "z"}, {"start": 1e300, "text": "z"}]  # fmt: skip
    (media,), skipped = read(
        recordings, json.dumps({"title": "T", "url": "https://a.example/v", "segments": rows}), "x.json"
    )
    assert (media.title, media.url, media.content) == ("T", "https://a.example/v", "Ann: a")
    assert skipped == ["a segment without text or time"]
    assert (
        why_not(recordings, '{"segments": [{"text": "x", "start": null}]}', "x.json")
        == "nothing is said in it at any time"
    )


@pytest.mark.parametrize(
    "name, title, kind",
    [("a.mp3.srt", "a", "audio"), ("a.mp4.vtt", "a", "video"), ("Some podcast 7.srt", "Some podcast 7", "podcast"), ("a.de-DE.vtt", "a", "video"), (".en.srt", ".en", "video")],
)  # fmt: skip
def test_what_kind_of_recording_it_is_shows_by_its_name(name: str, title: str, kind: str):
    media = one(recordings, "00:00:01,000 --> 00:00:02,000\na", name)
    assert (media.title, media.media_type) == (title, kind)


@pytest.mark.parametrize(
    "row",
    [
        {"start": 0, "end": 1, "text": "a"},
        {"start_ms": 1000, "end_ms": 2000, "text": "a"},
        {"start_seconds": 3, "end_seconds": 4, "text": "a", "speaker": "Ann"},
        {"start_time": "00:00:05", "end_time": "00:00:06", "text": "a"},
    ],
)
def test_a_bare_list_of_segments_is_a_transcript(row: dict[str, Any]):
    assert recordings.recognises(item_of(as_json([row]), "x.json"), as_json([row]))
    (segment,) = one(recordings, as_json([row]), "x.json").segments
    assert segment.end - segment.start == 1


@pytest.mark.parametrize(
    "found",
    [
        [{"start": 0, "end": 5, "text": "Apple", "label": "ORG"}],
        {"text": "x"},
        {"segments": []},
        [],
        {"start": 1, "text": "a"},
    ],
)
def test_other_json_is_no_transcript(found: Any):
    raw = as_json(found)
    assert not recordings.recognises(item_of(raw, "x.json"), raw)


# Character cards

V1 = {"name": "Ivy", "description": "A plant.", "personality": "slow", "scenario": "a wall", "first_mes": "Hello {{user}}", "mes_example": "<START>"}  # fmt: skip
V2 = {
    "spec": "chara_card_v2", "spec_version": "2.0",
    "data": V1 | {
        "creator_notes": "be kind", "system_prompt": "You are a plant.", "post_history_instructions": "stay green",
        "alternate_greetings": ["Hi", 7], "tags": ["plant", "Plant", "slow"], "creator": "ann", "character_version": "1.2",
        "extensions": {"x": 1}, "character_book": {"entries": []},
    },
}  # fmt: skip
IVY = Character(name="Ivy", description="A plant.", personality="slow", scenario="a wall", first_message="Hello {{user}}", message_examples="<START>")  # fmt: skip
IVY_2 = Character(
    name="Ivy", description="A plant.", personality="slow", scenario="a wall", first_message="Hello {{user}}",
    message_examples="<START>", creator_notes="be kind", system_prompt="You are a plant.",
    post_history_instructions="stay green", alternate_greetings=("Hi",), tags=("plant", "slow"), creator="ann",
    character_version="1.2",
)  # fmt: skip


def test_cards_of_every_version_as_json():
    assert one(character_cards, as_json(V1), "ivy.json") == IVY
    assert one(character_cards, as_json(V2), "ivy.json") == IVY_2
    v3 = V2 | {"spec": "chara_card_v3", "data": V2["data"] | {"creation_date": 1777629600, "nickname": "I"}}  # type: ignore[operator]
    assert one(character_cards, as_json(v3), "ivy.json").created_at == datetime(2026, 5, 1, 10, tzinfo=UTC)
    old = {
        "char_name": "Ivy",
        "char_persona": "A plant.",
        "char_greeting": "Hello",
        "example_dialogue": "x",
        "world_scenario": "w",
    }
    assert one(character_cards, as_json(old), "ivy.json").first_message == "Hello"


@pytest.mark.parametrize("kind", [b"tEXt", b"zTXt", b"iTXt"])
def test_cards_in_pictures(kind: bytes):
    assert one(character_cards, png(card_chunk(V2, kind=kind)), "ivy.png") == IVY_2


def test_of_two_cards_in_a_picture_the_newer_version_counts():
    newer = V2 | {"spec": "chara_card_v3"}
    raw = png(card_chunk(V1), card_chunk(newer, b"ccv3"), card_chunk("x", b"Comment"))
    assert one(character_cards, raw, "ivy.png") == IVY_2
    assert one(character_cards, png(card_chunk(V1), documents.chunk(b"tEXt", b"ccv3\x00!!!")), "ivy.png") == IVY


def test_pictures_without_a_card_are_none_and_damaged_cards_are_told(monkeypatch: pytest.MonkeyPatch):
    for raw in (png(), png(card_chunk(V1, b"Comment")), png(card_chunk(V1))[:60], b"\x89PNG\r\n\x1a\n"):
        assert not character_cards.recognises(item_of(raw, "x.png"), raw)
    assert (
        why_not(character_cards, png(documents.chunk(b"tEXt", b"chara\x00e30!")), "x.png")
        == "a character without a name"
    )
    assert (
        why_not(character_cards, png(documents.chunk(b"zTXt", b"chara\x00\x00xx")), "x.png")
        == "a character that is damaged"
    )
    assert why_not(character_cards, as_json(V1 | {"name": 7}), "x.json") == "a character without a name"
    monkeypatch.setattr(character_cards, "LARGEST_CARD", 1000)
    bomb = png(card_chunk(V1 | {"description": "x" * 100_000}, kind=b"zTXt"))
    assert why_not(character_cards, bomb, "x.png") == "a character that is damaged"


# Prompts

SECTIONS = """### TITLE ###
Summarise
### AUTHOR ###
Ann
### SYSTEM ###
You are brief.

### Something
# More
### USER ###
Summarise {{text}}
### SYSTEM ###
inside
### KEYWORDS ###
writing, short
"""


def test_a_prompt_in_sections_keeps_the_headings_in_its_text():
    prompt = Prompt(
        name="Summarise", author="Ann", system_prompt="You are brief.\n\n### Something\n# More",
        user_prompt="Summarise {{text}}\n### SYSTEM ###\ninside", keywords=("writing", "short"),
    )  # fmt: skip
    assert one(prompt_files, SECTIONS, "x.md") == prompt
    assert one(prompt_files, SECTIONS.replace("\n", "\r\n"), "x.md").author == "Ann"
    assert not prompt_files.recognises(item_of(b"", "x.md"), b"# Notes\n### TITLE ###\n")


def test_prompts_with_front_matter():
    text = "---\nname: sum\ndescription: Makes it short\ntools: [a]\nmodel: x\n---\nSummarise ${input}\n"
    assert one(prompt_files, text, "a.prompt.md") == Prompt(
        name="sum", details="Makes it short", user_prompt="Summarise ${input}\n"
    )
    assert one(prompt_files, "Summarise this", "short.prompt.md") == Prompt(name="short", user_prompt="Summarise this")
    prompty = "---\nname: P\nauthors: [ann, bob]\n---\nsystem:\nBe brief.\n\nuser:\n{{q}}\nassistant:\nok\n"
    assert one(prompt_files, prompty, "p.prompty") == Prompt(
        name="P", author="ann, bob", system_prompt="Be brief.", user_prompt="{{q}}"
    )
    dot = '---\nmodel: g\n---\n{{role "system"}}\nBe brief.\n{{role "user"}}\nHi {{name}}'
    assert one(prompt_files, dot, "d.prompt") == Prompt(name="d", system_prompt="Be brief.", user_prompt="Hi {{name}}")


ROWS: list[dict[str, Any]] = [
    {"name": "A", "author": "ann", "details": "d", "system_prompt": "s", "user_prompt": "u", "keywords": ["k", "l"]},
    {
        "title": "B",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}, {"role": "assistant"}],
    },
]
A, B = Prompt(name="A", author="ann", details="d", system_prompt="s", user_prompt="u", keywords=("k", "l")), Prompt(name="B", system_prompt="s", user_prompt="u")  # fmt: skip


@pytest.mark.parametrize(
    "found",
    [
        ROWS,
        {"prompts": ROWS},
        {"A": {k: v for k, v in ROWS[0].items() if k != "name"}, "B": ROWS[1]},
        {"prompts": {"A": ROWS[0], "B": ROWS[1]}},
    ],
)
def test_lists_of_prompts_as_json_and_yaml(found: Any):
    import yaml

    for raw, name in ((json.dumps(found), "p.json"), (yaml.safe_dump(found), "p.yaml")):
        assert read(prompt_files, raw, name) == ([A, B], [])


def test_prompts_of_one_list_have_origins_of_their_own_and_others_are_told():
    raw = as_json([*ROWS, 7, {"name": "empty"}, {"user_prompt": "u"}])
    found = list(prompt_files.pieces(Item("p.json", len(raw), None, lambda: io.BytesIO(raw), "box/p.json")))
    assert [one.origin for one in found if isinstance(one, ImportedPiece)] == [
        "prompt:box/p.json#A",
        "prompt:box/p.json#B",
        "prompt:box/p.json#p 4",
    ]
    assert [one.why for one in found if isinstance(one, Skipped)] == [
        "a prompt in which nothing is written",
        "something that is no prompt",
    ]


def test_one_prompt_in_yaml_with_messages():
    text = "name: Brief\ndescription: short\nmodel: x\nmessages:\n  - role: system\n    content: Be brief.\n  - role: user\n    content: |\n      Hi\n      {{name}}\n"
    assert one(prompt_files, text, "brief.prompt.yml") == Prompt(
        name="Brief", details="short", system_prompt="Be brief.", user_prompt="Hi\n{{name}}\n"
    )
    assert why_not(prompt_files, "a: &a [*a]\nuser_prompt : x: y", "x.prompt.yml") == "no prompts in it"


@pytest.mark.parametrize("text", ["[" * 5000, "- " * 5000, "a: &a [x]\nb: &b [*a,*a]\n" + "\n".join(f"{chr(c + 1)}: &{chr(c + 1)} [*{chr(c)},*{chr(c)},*{chr(c)}]" for c in range(98, 120)), "? " * 5000, "{" * 1999, "!!python/object/apply:os.system [ls]", "\x01: x"])  # fmt: skip
def test_hostile_yaml_does_no_harm(text: str):
    start = time.thread_time()
    found, body = front_matter.split(f"---\n{text}\n---\nx")
    assert isinstance(found, dict)
    assert body.endswith("x")
    assert time.thread_time() - start < 2
    one(notes, f"---\ntags: x\n{text}\n---\nx", "x.md")


# Anything at all


def read_any(raw: bytes, name: str, inside: str = "") -> None:
    item = Item(name or "x", len(raw), None, lambda: io.BytesIO(raw), inside)
    for reader in ALL:
        reader.recognises(item, raw[: 64 * 1024])
        with suppress(Unreadable):
            for found in reader.pieces(item):
                assert_storable(found)


GOOD: list[tuple[bytes, str]] = [
    (pdf("Ivy climbs.", "Second.", info="/Title (x)"), "x.pdf"),
    (pdf_of(b"BT /F1 12 Tf (x) Tj ET", packed=True), "x.pdf"),
    (epub("<p>one</p>", "<p>two"), "x.epub"),
    (docx(p("one") + f"<w:tbl><w:tr><w:tc>{p('a')}</w:tc></w:tr></w:tbl>", "<dc:title>t</dc:title>"), "x.docx"),
    (pptx("one", "two"), "x.pptx"),
    (PAGE.encode(), "x.html"),
    (SRT.encode(), "x.srt"),
    (VTT.encode(), "x.vtt"),
    (png(card_chunk(V2), card_chunk(V1, b"ccv3", b"zTXt")), "x.png"),
    (as_json(V2), "x.json"),
    (as_json(ROWS), "x.json"),
    (as_json({"segments": [{"start": 1.5, "end": 2, "text": "a"}]}), "x.json"),
    (SECTIONS.encode(), "x.md"),
    (b"---\ntitle: x\ntags: [a, b]\n---\n#tag text\n", "x.md"),
    (b"---\nname: x\n---\nsystem:\na\nuser:\nb", "x.prompty"),
    (b"- name: a\n  user_prompt: b\n- name: c\n  system_prompt: d\n", "x.yaml"),
]


@st.composite
def damaged(draw: st.DrawFn) -> tuple[bytes, str]:
    """A good file with a piece cut out, repeated, or changed."""
    good, name = draw(st.sampled_from(GOOD))
    raw = bytearray(good)
    start = draw(st.integers(0, len(raw)))
    piece = bytes(raw[start : start + draw(st.integers(0, 80))])
    if draw(st.booleans()):
        del raw[start : start + len(piece)]
    else:
        place = draw(st.integers(0, len(raw)))
        raw[place:place] = piece * draw(st.integers(1, 3))
    for place, value in draw(st.lists(st.tuples(st.integers(0, len(raw)), st.integers(0, 255)), max_size=5)):
        raw[place : place + 1] = bytes([value])
    return bytes(raw), name


names = st.sampled_from(sorted({name for _, name in GOOD})) | st.text(max_size=12)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(damaged(), st.text(max_size=30))
def test_no_damaged_file_is_too_strange(file: tuple[bytes, str], inside: str):
    read_any(*file, inside)


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass")), names)
def test_no_bytes_are_too_strange(raw: bytes, name: str):
    read_any(raw, name)


keys = st.sampled_from(
    ["segments", "start", "end", "text", "duration", "events", "tStartMs", "segs", "utf8", "offsets", "from", "name", "data", "tags",
     "spec", "prompts", "messages", "role", "content", "system_prompt", "user_prompt", "keywords", "first_mes", "speaker", "title",
     "media_type", "url", "created_at", "creation_date", "alternate_greetings", "timestamps", "transcript"]
)  # fmt: skip
likely = st.recursive(
    anything, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5), max_leaves=12
)


@settings(deadline=None, max_examples=200)
@given(likely)
def test_no_json_is_too_strange(found: Any):
    read_any(as_json(found), "x.json")


front = st.dictionaries(
    st.sampled_from(["title", "tags", "aliases", "created", "date", "keywords"]) | st.text(max_size=5),
    anything,
    max_size=4,
)


@settings(deadline=None, max_examples=150)
@given(front | st.text(max_size=60), st.text(max_size=60))
def test_no_front_matter_is_too_strange(about: Any, text: str):
    between = about if isinstance(about, str) else json.dumps(about, ensure_ascii=False)
    read_any(f"---\n{between}\n---\n{text}".encode("utf-8", "surrogatepass"), "x.md")


@settings(deadline=None, max_examples=100)
@given(st.lists(st.sampled_from(["<p>", "</p>", "<nav>", "<pre>", "<title>", "<script>", "<!--", "-->", "<td>", "<li>", "<br/>", "<svg/>", "&amp;", "x ", "\n", '"', "'", ">", "<", "</main>", "<article>"]), max_size=40))  # fmt: skip
def test_no_page_is_too_strange(parts: list[str]):
    page = html_text.read_page("".join(parts))
    assert page.text == page.text.strip("\n")


@pytest.mark.parametrize(
    "markup, text",
    [
        ("><pre>\x1e<p", ">"),  # a block of blanks is no block
        ("<td>\n<br>x", "x"),
        ("a<pre>\x1c\x1d</pre>b", "a\n\nb"),
    ],
)
def test_a_block_of_blanks_leaves_no_empty_line(markup: str, text: str):
    assert html_text.read_page(markup).text == text
