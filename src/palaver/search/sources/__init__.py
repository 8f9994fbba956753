"""The sources of search: one file each, listed here in the order of model/sources.py."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote

from palaver.model.search import Loc
from palaver.search.sources.archive import Archive
from palaver.search.sources.bus import Bus
from palaver.search.sources.characters import Characters
from palaver.search.sources.chats import Chats
from palaver.search.sources.media import MediaSource
from palaver.search.sources.notes import Notes
from palaver.search.sources.prompts import Prompts
from palaver.search.sources.sessions import Sessions
from palaver.search.sources.shapes import CUT_FIELDS, Source, SourceFilters

__all__ = ["CUT_FIELDS", "SOURCES", "ParsedUri", "Source", "SourceFilters", "parse_uri"]

SOURCES: dict[str, Source] = {
    source.name: source
    for source in (Notes(), MediaSource(), Chats(), Characters(), Prompts(), Bus(), Sessions(), Archive())
}


class ParsedUri(NamedTuple):
    """A source, an id in it, and the place in a short URI."""

    source: str
    id: str
    loc: Loc | None


def parse_uri(uri: str) -> ParsedUri | None:
    """The parts of a URI of a search result; None if it is not one. Ids in URIs are quoted, so `#` begins the place."""
    name, separator, rest = uri.partition("://")
    path, _, place = rest.partition("#")
    loc = SOURCES[name].loc_of(place) if name in SOURCES else None
    id = unquote(path if loc else rest)
    return ParsedUri(name, id, loc) if separator and id and "\x00" not in id else None
