"""Functions for library importers: decode text, make titles and keywords, and make pieces that can be stored."""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import IO, Any

from palaver.importers import Unreadable, clean, read_json
from palaver.importers.item import Item, Skipped, native_id, single_line
from palaver.model.library import Character, ImportedPiece, Media, Note, Prompt, Segment

LONGEST_FILE = 64 * 1024 * 1024
LONGEST_CONTENT = 10_000_000
"""The most characters of one text. The rest is left out and reported."""
LONGEST_KEYWORD = 100
MOST_KEYWORDS = 200

TOO_LARGE = "a file of more than 64 MB"
LONGEST_SESSION = 128 * 1024 * 1024
SESSION_TOO_LARGE = "more than 128 MB in one piece"
EMPTY = "nothing is written in it"

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_UTF_32 = (b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")
_NOTION_ID = re.compile(r"[ _-][0-9a-f]{32}")
_DATE = re.compile(r"(\d{4}-\d\d-\d\d)(?!\d)")
_LINES = {"title", "name"}

Piece = Note | Media | Character | Prompt


# Reading


def read_bytes(item: Item, most: int = LONGEST_FILE, too_large: str = TOO_LARGE) -> bytes:
    with item.open() as source:
        raw = source.read(most + 1)
    if len(raw) > most:
        raise Unreadable(too_large)
    return raw


def read_session(item: Item) -> bytes:
    return read_bytes(item, LONGEST_SESSION, SESSION_TOO_LARGE)


def read_text(item: Item) -> str:
    return decode_text(read_bytes(item))


@contextmanager
def open_seekable(item: Item) -> Iterator[IO[bytes]]:
    """Open a file for reading in any order. A file in a zip is loaded into memory."""
    with io.BytesIO(read_bytes(item)) if item.path is None else item.path.open("rb") as source:
        yield source


def is_text(head: bytes) -> bool:
    return b"\x00" not in head or head.startswith(_UTF_16 + _UTF_32)


def decode_text(raw: bytes) -> str:
    """Decode UTF-8, UTF-16 or UTF-32 with a byte order mark, or else Windows-1252."""
    if raw.startswith(_UTF_32):
        return raw.decode("utf-32", "replace")
    if raw.startswith(_UTF_16):
        return raw.decode("utf-16", "replace")
    text = raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    broken = text.count("\ufffd")
    # A few invalid characters in UTF-8 are damage. If most are invalid, the text has another encoding.
    if broken and broken * 10 > len(text) - len(text.encode("ascii", "ignore")):
        return raw.decode("cp1252", "replace")
    return text


def title_from_name(item: Item) -> str:
    """The name of a file without its suffix and without the id that Notion adds."""
    name = unicodedata.normalize("NFC", clean(item.file_name))
    return single_line(_NOTION_ID.sub("", name.rpartition(".")[0] or name)) or single_line(name) or "untitled"


def date_in(name: str) -> datetime | None:
    """The date at the start of a file name, if there is one."""
    found = _DATE.match(name)
    try:
        return datetime.fromisoformat(found[1]).replace(tzinfo=UTC) if found else None
    except ValueError:
        return None


def parse_json(raw: bytes) -> Any:
    """Parse JSON. Lone surrogates, NaN and invalid UTF-8 are accepted."""
    return read_json(raw, decode_text)


# Pieces


def keep_piece(item: Item, importer: str, piece: Piece, part: str = "") -> Iterator[ImportedPiece | Skipped]:
    """Yield the piece with an origin that is the same at each import. `part` distinguishes the pieces of one file."""
    name = unicodedata.normalize("NFC", item.inside or item.file_name)
    origin = native_id(f"{importer}:{name}#{part}" if part else f"{importer}:{name}")
    kept = storable(piece)
    if isinstance(kept, Note | Media) and not kept.content.strip():
        yield Skipped(item.name, EMPTY)
        return
    yield ImportedPiece(origin or importer, kept)
    if isinstance(piece, Note | Media) and len(piece.content) > LONGEST_CONTENT:
        yield Skipped(item.name, "the end of a text of more than 10 million characters")


def storable(piece: Piece) -> Piece:
    """The piece without anything that a database cannot store. Raises TypeError if a field has a wrong type."""
    return replace(piece, **{field.name: _fit(field.name, getattr(piece, field.name)) for field in fields(piece)})


def _fit(name: str, value: Any) -> Any:
    match value:
        case str() if name in _LINES:
            return single_line(value)
        case str():
            return clean(value[:LONGEST_CONTENT])
        case datetime():
            try:
                return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
            except OverflowError:
                return None
        case tuple() if name in ("keywords", "tags"):
            return clean_keywords(value)
        case tuple():
            return tuple(
                Segment(one.start, one.end, clean(one.text)) if isinstance(one, Segment) else clean(one)
                for one in value
            )
        case None:
            return None
    raise TypeError(f"{name} cannot be stored")


def clean_keywords(given: Iterable[Any]) -> tuple[str, ...]:
    """Keywords without a leading `#`, each once; case is ignored."""
    found: dict[str, str] = {}
    for one in given:
        word = " ".join(clean(one).split()).lstrip("#").strip() if isinstance(one, str) else ""
        if word and len(word) <= LONGEST_KEYWORD and len(found) < MOST_KEYWORDS:
            found.setdefault(word.casefold(), word)
    return tuple(found.values())


def split_keywords(value: Any) -> list[str]:
    """Keywords from a list, or from text with commas between them, or with blanks between `#` tags."""
    if isinstance(value, str):
        return re.split(r"[,;\n]", value) if re.search(r"[,;\n]", value) else value.split() if "#" in value else [value]
    return [one for one in value if isinstance(one, str)] if isinstance(value, list | tuple) else []
