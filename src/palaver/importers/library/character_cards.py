"""Character cards: PNG pictures with a card in them (`chara`, `ccv3`), and JSON files; versions 1, 2 and 3.

Kept: name, description, personality, scenario, greetings, message examples, system prompt, instructions after the
history, notes of the creator, tags, version. Placeholders like `{{char}}` stay as they are.

Left out: the picture, the lore book, extensions, greetings for groups, translations of the notes.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

from palaver.importers import Unreadable
from palaver.importers.files.json_stream import is_json
from palaver.importers.item import Item, Skipped, parse_any_time
from palaver.importers.library.item_text import keep_piece, parse_json, read_bytes, split_keywords
from palaver.model.library import Character, ImportedPiece

name = "character-card"

PNG = b"\x89PNG\r\n\x1a\n"
LARGEST_CARD = 32 * 1024 * 1024
MOST_CHUNKS = 100_000

_TEXTS = (b"tEXt", b"zTXt", b"iTXt")
_KEYWORDS = (b"ccv3", b"chara")  # the newer one counts
_SPEC = re.compile(rb'"spec"\s*:\s*"chara_card_v\d"')
_V1 = re.compile(rb'"(?:first_mes|char_greeting|mes_example|example_dialogue)"\s*:')
_NAMED = re.compile(rb'"(?:name|char_name)"\s*:')


def recognises(item: Item, head: bytes) -> bool:
    if head.startswith(PNG):
        with item.open() as source:
            return any(True for _ in _texts(source, is_long=False))
    if not is_json(item, head) or not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return False
    return bool(_SPEC.search(head) or (_V1.search(head) and _NAMED.search(head)))


def pieces(item: Item) -> Iterator[ImportedPiece | Skipped]:
    card, problem = None, Unreadable("no character in it")
    with item.open() as source:
        is_png = source.read(8) == PNG
    if is_png:
        with item.open() as source:
            found = dict(_texts(source, is_long=True))
        for keyword in _KEYWORDS:
            if keyword in found and card is None:
                try:
                    card = parse_json(base64.b64decode(found[keyword] + b"===", validate=False))
                except (binascii.Error, Unreadable):
                    problem = Unreadable("a character that is damaged")
    else:
        card = parse_json(read_bytes(item))
    if not isinstance(card, dict):
        raise problem
    yield from keep_piece(item, name, character(card))


def character(card: dict[str, Any]) -> Character:
    inner = card.get("data")
    data = {**card, **inner} if isinstance(inner, dict) else card

    def text(*names: str) -> str:
        return next((data[name] for name in names if isinstance(data.get(name), str) and data[name]), "")

    given = text("name", "char_name")
    if not given.strip():
        raise Unreadable("a character without a name")
    greetings = data.get("alternate_greetings")
    return Character(
        name=given,
        description=text("description", "char_persona"),
        personality=text("personality"),
        scenario=text("scenario", "world_scenario"),
        system_prompt=text("system_prompt"),
        first_message=text("first_mes", "char_greeting"),
        message_examples=text("mes_example", "example_dialogue"),
        alternate_greetings=tuple(one for one in greetings if isinstance(one, str))
        if isinstance(greetings, list)
        else (),
        post_history_instructions=text("post_history_instructions"),
        creator=text("creator"),
        creator_notes=text("creator_notes", "creatorcomment"),
        character_version=text("character_version"),
        tags=tuple(split_keywords(data.get("tags"))),
        created_at=parse_any_time(data.get("creation_date") or data.get("create_date")),
    )


# PNG


def _texts(source: BinaryIO, *, is_long: bool) -> Iterator[tuple[bytes, bytes]]:
    """The text chunks of a card in a picture. Without `is_long` the texts are empty: only the keywords count."""
    if source.read(8) != PNG:
        return
    for _ in range(MOST_CHUNKS):
        about = source.read(8)
        length, kind = int.from_bytes(about[:4], "big"), about[4:]
        if len(about) < 8 or kind == b"IEND":
            return
        left = length + 4
        if kind in _TEXTS and length <= LARGEST_CARD:
            raw = source.read(length if is_long else min(length, 100))
            left -= len(raw)
            keyword, _, rest = raw.partition(b"\x00")
            if keyword in _KEYWORDS:
                yield keyword, _unpacked(kind, rest) if is_long else b""
        if not _skip(source, left):
            return


def _skip(source: BinaryIO, length: int) -> bool:
    if source.seekable():
        source.seek(length, 1)
        return True
    while length > 0:
        piece = source.read(min(length, 1024 * 1024))
        if not piece:
            return False
        length -= len(piece)
    return True


def _unpacked(kind: bytes, rest: bytes) -> bytes:
    if kind == b"zTXt":
        return _inflated(rest[1:])
    if kind == b"iTXt":
        is_packed, _, rest = rest[:1] == b"\x01", rest[:2], rest[2:]
        rest = rest.partition(b"\x00")[2].partition(b"\x00")[2]  # after its language and its translated keyword
        return _inflated(rest) if is_packed else rest
    return rest


def _inflated(raw: bytes) -> bytes:
    """Decompress the data; empty if it is damaged or too large."""
    try:
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(raw, LARGEST_CARD)
    except zlib.error:
        return b""
    return b"" if unpacking.unconsumed_tail else text
