"""The table of sources for search, in the order of model/sources.py."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote

from palaver.model.requests import AnyId, NumberId
from palaver.model.search import Loc
from palaver.search.sources import filters
from palaver.search.sources.filters import SourceFilters
from palaver.search.sources.indexing import CHARACTER_TEXTS, GREETINGS, PROMPT_TEXTS
from palaver.search.sources.shapes import CUT_FIELDS, Archive, ConversationSource, SessionsSource, Source

__all__ = ["CUT_FIELDS", "SOURCES", "ParsedUri", "Source", "SourceFilters", "parse_uri"]

_ROWS = (
    Source(
        name="notes",
        filters=filters.NotesFilters,
        search_help="Search notes, best match first.",
        get_help="Open a note: a snippet, the matching chunk with its neighbours, or all of it.",
        id_field="note_id",
        id_help="Id of the note.",
    ),
    Source(
        name="media",
        filters=filters.MediaFilters,
        search_help="Search the texts of videos, podcasts, books and articles, best match first.",
        get_help="Open a media item (video, podcast, book, article): "
        "a snippet, a chunk with its neighbours, or all of it.",
        id_field="media_id",
        id_help="Id of the media item.",
        id_type=AnyId,
        has_numbers=True,
        loc_key="media_id",
        shown_facts=("media_type", "url"),
    ),
    ConversationSource(
        name="chats",
        filters=filters.ChatsFilters,
        search_help="Search chats by title and messages, best match first.",
        get_help="Open a chat: a page of its messages, or the part around one of them.",
        id_field="conversation_id",
        id_help="Id of the chat.",
    ),
    Source(
        name="characters",
        filters=filters.CharactersFilters,
        search_help="Search characters by description or tags, best match first.",
        get_help="Open a character: the whole card, or a part of it.",
        id_field="character_id",
        id_help="Id of the character.",
        id_type=NumberId,
        has_numbers=True,
        fields=(*CHARACTER_TEXTS, GREETINGS),
        labels="tags",
    ),
    Source(
        name="prompts",
        filters=filters.PromptsFilters,
        search_help="Search prompts by name, text, author or keywords, best match first.",
        get_help="Open a prompt by its id or its name: all its fields, or a part of one.",
        id_field="prompt_id_or_name",
        id_help="Id or name of the prompt.",
        fields=PROMPT_TEXTS,
    ),
    ConversationSource(
        name="bus",
        filters=filters.BusFilters,
        search_help="Search messages and threads of the bus with keywords or a question, best match first.",
        get_help="Open a thread of the bus: a page of its messages, or the part around one of them.",
        id_field="thread_id",
        id_help="Id of the thread, or of a message in it.",
        conversation_key="thread_id",
        index_key="seq",
        first_index=1,
    ),
    SessionsSource(
        name="sessions",
        filters=filters.SessionsFilters,
        search_help="Search turns of agents' sessions in your project with keywords or a question, best match first.",
        get_help="Open an agent's session: a page of its turns, or the part around one of them.",
        id_field="session_id",
        id_help="Id from a search result (agent/session), or the plain session id if you are that agent.",
        has_message_ids=False,
        shown_facts=("project",),
    ),
    Archive(
        name="archive",
        filters=filters.ArchiveFilters,
        search_help="Search messages of imported conversations with keywords or a question, best match first.",
        get_help="Open an imported conversation: a page of its messages, or the part around one of them.",
        id_field="conversation_id",
        id_help="Id of the conversation.",
        has_message_ids=False,
        shown_facts=("project",),
    ),
)
SOURCES: dict[str, Source] = {source.name: source for source in _ROWS}


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
