"""What readers of files for the library share: text out of bytes, names, and pieces made fit to be stored."""

from __future__ import annotations

import io
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import IO, Any

import orjson

from palaver.importers import Unreadable, clean, cut
from palaver.importers.item import LONGEST_TITLE, Item, Skipped, native_id
from palaver.model.library import Brought, Character, Media, Note, Prompt, Segment

LONGEST_FILE = 64 * 1024 * 1024
LONGEST_CONTENT = 10_000_000
"""In characters: fifteen times War and Peace would not fit. What comes after is left out, and told."""
LONGEST_KEYWORD = 100
MOST_KEYWORDS = 200

TOO_LARGE = "a file of more than 64 MB"
EMPTY = "nothing is written in it"

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_UTF_32 = (b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")
_NOTION_ID = re.compile(r"[ _-][0-9a-f]{32}")
_DATE = re.compile(r"(\d{4}-\d\d-\d\d)(?!\d)")
_LINES = {"title", "name"}

Piece = Note | Media | Character | Prompt


# Reading


def whole(item: Item, most: int = LONGEST_FILE) -> bytes:
    with item.open() as source:
        raw = source.read(most + 1)
    if len(raw) > most:
        raise Unreadable(TOO_LARGE)
    return raw


@contextmanager
def seekable(item: Item) -> Iterator[IO[bytes]]:
    """Its bytes, to be read in any order. What stands in a zip is taken into memory."""
    with io.BytesIO(whole(item)) if item.path is None else item.path.open("rb") as source:
        yield source


def is_text(head: bytes) -> bool:
    return b"\x00" not in head or head.startswith(_UTF_16 + _UTF_32)


def decoded(raw: bytes) -> str:
    """The text of these bytes: UTF-8, UTF-16 or -32 with its mark, or else what Windows wrote in the west."""
    if raw.startswith(_UTF_32):
        return raw.decode("utf-32", "replace")
    if raw.startswith(_UTF_16):
        return raw.decode("utf-16", "replace")
    text = raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    broken = text.count("\ufffd")
    # A few broken signs in good UTF-8 are damage; hardly a good one among them is another encoding.
    if broken and broken * 10 > len(text) - len(text.encode("ascii", "ignore")):
        return raw.decode("cp1252", "replace")
    return text


def stem(item: Item) -> str:
    """The name of a file without its ending, and without the id that Notion puts there."""
    name = unicodedata.normalize("NFC", clean(item.file_name))
    return line(_NOTION_ID.sub("", name.rpartition(".")[0] or name)) or line(name) or "untitled"


def date_in(name: str) -> datetime | None:
    """A file that is named after a day was begun on it."""
    found = _DATE.match(name)
    try:
        return datetime.fromisoformat(found[1]).replace(tzinfo=UTC) if found else None
    except ValueError:
        return None


def parsed(raw: bytes) -> Any:
    """Any JSON; lone surrogates, NaN and bytes that are no UTF-8 are lived with."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        try:
            return json.loads(decoded(raw))
        except (ValueError, RecursionError):
            raise Unreadable("not JSON") from None


# Giving


def keep(item: Item, importer: str, piece: Piece, part: str = "") -> Iterator[Brought | Skipped]:
    """The piece as it can be stored, under an origin that is the same at each import. `part` tells several apart."""
    name = unicodedata.normalize("NFC", item.inside or item.file_name)
    origin = native_id(f"{importer}:{name}#{part}" if part else f"{importer}:{name}")
    kept = storable(piece)
    if isinstance(kept, Note | Media) and not kept.content.strip():
        yield Skipped(item.name, EMPTY)
        return
    yield Brought(origin or importer, kept)
    if isinstance(piece, Note | Media) and len(piece.content) > LONGEST_CONTENT:
        yield Skipped(item.name, "the end of a text of more than 10 million characters")


def storable(piece: Piece) -> Piece:
    """Without what no engine can store. TypeError if it is no piece at all."""
    return replace(piece, **{field.name: _fit(field.name, getattr(piece, field.name)) for field in fields(piece)})


def _fit(name: str, value: Any) -> Any:
    match value:
        case str() if name in _LINES:
            return line(value)
        case str():
            return clean(value[:LONGEST_CONTENT])
        case datetime():
            return _utc(value)
        case tuple() if name in ("keywords", "tags"):
            return keywords(value)
        case tuple():
            return tuple(
                Segment(one.start, one.end, clean(one.text)) if isinstance(one, Segment) else clean(one)
                for one in value
            )
        case None:
            return None
    raise TypeError(f"{name} cannot be stored")


def _utc(at: datetime) -> datetime | None:
    try:
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError:
        return None


def line(text: str) -> str:
    return cut(" ".join(clean(text[: 4 * LONGEST_TITLE]).split()), LONGEST_TITLE)


def keywords(given: Iterable[Any]) -> tuple[str, ...]:
    """Each once, however it is spelled; without a leading `#`."""
    found: dict[str, str] = {}
    for one in given:
        word = " ".join(clean(one).split()).lstrip("#").strip() if isinstance(one, str) else ""
        if word and len(word) <= LONGEST_KEYWORD and len(found) < MOST_KEYWORDS:
            found.setdefault(word.casefold(), word)
    return tuple(found.values())


def listed(value: Any) -> list[str]:
    """Keywords as people write them: a list, or words with commas (or blanks, where there is no comma) between."""
    if isinstance(value, str):
        return re.split(r"[,;\n]", value) if re.search(r"[,;\n]", value) else value.split() if "#" in value else [value]
    return [one for one in value if isinstance(one, str)] if isinstance(value, list | tuple) else []
