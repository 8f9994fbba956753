"""The sources of search: one file each, listed here in the order of model/sources.py."""

from __future__ import annotations

from palaver.search.sources.archive import Archive
from palaver.search.sources.bus import Bus
from palaver.search.sources.characters import Characters
from palaver.search.sources.chats import Chats
from palaver.search.sources.media import MediaSource
from palaver.search.sources.notes import Notes
from palaver.search.sources.prompts import Prompts
from palaver.search.sources.sessions import Sessions
from palaver.search.sources.shapes import CUT_FIELDS, Source, SourceFilters, parse_uri

__all__ = ["CUT_FIELDS", "SOURCES", "Source", "SourceFilters", "parse_uri"]

SOURCES: dict[str, Source] = {
    source.name: source
    for source in (Notes(), MediaSource(), Chats(), Characters(), Prompts(), Bus(), Sessions(), Archive())
}
