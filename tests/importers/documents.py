"""Small documents of every kind, made of nothing but code: PDF, EPUB, DOCX, PPTX, PNG."""

from __future__ import annotations

import base64
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any


def zip_of(files: Mapping[str, bytes | str], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w", compression) as to:
        for name, raw in files.items():
            to.writestr(name, raw)
    return into.getvalue()


# PDF


def pdf(*pages: str, info: str = "", encrypt: str = "") -> bytes:
    """A PDF of these pages; the lines of a page stand below each other."""
    streams = [
        b"BT /F1 12 Tf 14 TL 72 720 Td\n"
        + b"\n".join(b"(%b) Tj T*" % line.encode("cp1252", "replace") for line in page.split("\n"))
        + b"\nET"
        for page in pages
    ]
    return pdf_of(*streams, info=info, encrypt=encrypt)


def pdf_of(*streams: bytes, info: str = "", encrypt: str = "", packed: bool = False) -> bytes:
    count = len(streams)
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count %d /Kids [%b] >>" % (count, b" ".join(b"%d 0 R" % (5 + 2 * n) for n in range(count))),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        f"<< {info} >>".encode(),
    ]
    for n, stream in enumerate(streams):
        more = b""
        if packed:
            stream, more = zlib.compress(stream), b" /Filter /FlateDecode"
        objects += [
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R"
            b" /Resources << /Font << /F1 3 0 R >> >> >>" % (6 + 2 * n),
            b"<< /Length %d%b >>\nstream\n%b\nendstream" % (len(stream), more, stream),
        ]
    into = bytearray(b"%PDF-1.4\n")
    places = []
    for n, body in enumerate(objects, 1):
        places.append(len(into))
        into += b"%d 0 obj\n%b\nendobj\n" % (n, body)
    start = len(into)
    into += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    into += b"".join(b"%010d 00000 n \n" % place for place in places)
    into += b"trailer\n<< /Size %d /Root 1 0 R /Info 4 0 R %b >>\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1,
        encrypt.encode(),
        start,
    )
    return bytes(into)


# EPUB

CONTAINER = """<?xml version="1.0"?><container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0">
<rootfiles><rootfile full-path="OPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>"""


def epub_files(*chapters: str, about: str = "<dc:title>The Garden</dc:title>") -> dict[str, bytes | str]:
    items = "".join(
        f'<item id="c{n}" href="ch%20{n}.xhtml" media-type="application/xhtml+xml"/>' for n in range(len(chapters))
    )
    order = "".join(f'<itemref idref="c{n}"/>' for n in range(len(chapters)))
    opf = f"""<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0">
    <metadata xmlns:dc="http://purl.org/dc/elements/1.1/">{about}</metadata>
    <manifest><item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>{items}</manifest>
    <spine><itemref idref="nav"/>{order}</spine></package>"""
    files: dict[str, bytes | str] = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": CONTAINER,
        "OPS/book.opf": opf,
        "OPS/nav.xhtml": "<html><body><nav><ol><li>One</li></ol></nav></body></html>",
    }
    for n, chapter in enumerate(chapters):
        files[f"OPS/ch {n}.xhtml"] = f"<html><head><title>{n}</title></head><body>{chapter}</body></html>"
    return files


def epub(*chapters: str, about: str = "<dc:title>The Garden</dc:title>") -> bytes:
    return zip_of(epub_files(*chapters, about=about))


# DOCX and PPTX

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
CORE = (
    'xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties"'
    ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/"'
)


def p(text: str) -> str:
    return f'<w:p><w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def docx_files(body: str, core: str = "", **more: str) -> dict[str, bytes | str]:
    files: dict[str, bytes | str] = {"word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>"}
    if core:
        files["docProps/core.xml"] = f"<cp:coreProperties {CORE}>{core}</cp:coreProperties>"
    return files | {f"word/{name}.xml": f"<w:{name} {W}>{text}</w:{name}>" for name, text in more.items()}


def docx(body: str, core: str = "", **more: str) -> bytes:
    return zip_of(docx_files(body, core, **more))


def pptx(*slides: str, notes: Mapping[int, str] = {}) -> bytes:
    slide = f'<p:sld xmlns:p="x" {A}>%s</p:sld>'
    files = {
        f"ppt/slides/slide{n}.xml": slide % f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p>"
        for n, text in enumerate(slides, 1)
    }
    for n, text in notes.items():
        files[f"ppt/notesSlides/notesSlide{n}.xml"] = slide % f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p>"
    return zip_of(dict(sorted(files.items(), reverse=True)))


# PNG


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(*chunks: bytes) -> bytes:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    picture = chunk(b"IDAT", zlib.compress(b"\x00\x00"))
    return b"\x89PNG\r\n\x1a\n" + header + picture + b"".join(chunks) + chunk(b"IEND", b"")


def card_chunk(card: Any, keyword: bytes = b"chara", kind: bytes = b"tEXt") -> bytes:
    raw = base64.b64encode(json.dumps(card).encode())
    packed = {b"tEXt": raw, b"zTXt": b"\x00" + zlib.compress(raw), b"iTXt": b"\x01\x00en\x00\x00" + zlib.compress(raw)}
    return chunk(kind, keyword + b"\x00" + packed[kind])
