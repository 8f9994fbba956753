"""The bus as resources, `chat://…`, and everything that can be found: for clients that read rather than call."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import orjson

from palaver.errors import NotFound
from palaver.model.events import encode
from palaver.model.people import Caller
from palaver.operations import visibility
from palaver.operations.bus.connect import config
from palaver.operations.library.captions import media_types
from palaver.search.open import RetrievalOptions, how_of, open_item
from palaver.search.sources import SOURCES
from palaver.search.sources.shapes import parse_uri
from palaver.store.bus import agents, messages, threads
from palaver.store.engines.database import Reader
from palaver.text.fence import fenced

JSON, TEXT = "application/json", "text/plain"


@dataclass(frozen=True, slots=True)
class Resource:
    uri: str
    name: str
    description: str
    mime_type: str


_TYPES = Resource("media://types", "Media types", "The kinds of media that are kept here, and the usual ones.", JSON)

FIXED = (
    Resource("chat://bus/config", "Bus configuration", "Language, address and customs of this bus.", JSON),
    Resource("chat://agents/active", "Agents", "Everyone who is registered, and whether they are online.", JSON),
    Resource("chat://threads/active", "Threads", "All threads that are not archived.", JSON),
    _TYPES,
)
BY_ID = (
    Resource("chat://threads/{id}/transcript", "Transcript", "Everything said in a thread.", TEXT),
    Resource("chat://threads/{id}/summary", "Summary", "What came out of a thread.", TEXT),
    Resource("chat://threads/{id}/state", "State", "How far a thread has come.", JSON),
    *(Resource(f"{name}://{{id}}", name.capitalize(), "The whole text of a search result.", TEXT) for name in SOURCES),
)

_THREAD = re.compile(r"chat://threads/([^/]{1,256})/(transcript|summary|state)")


def read(read: Reader, caller: Caller, uri: str) -> tuple[str, str]:
    """The resource's type and text."""
    if uri in _READERS:
        return JSON, _pretty(_READERS[uri](read))
    found = _THREAD.fullmatch(uri)
    if found is None:
        return TEXT, _item(read, caller, uri)
    stored = threads.must_exist(read, found[1])
    match found[2]:
        case "transcript":
            return TEXT, fenced(_transcript(read, caller, stored))
        case "summary":
            summary = stored.thread.summary
            return TEXT, fenced(summary) if summary else "(No summary has been written for this thread.)"
        case _:
            thread = stored.thread
            return JSON, _pretty(
                {
                    "thread_id": thread.id,
                    "topic": thread.topic,
                    "status": thread.status,
                    "latest_seq": thread.current_seq,
                    "created_at": thread.created_at,
                }
            )


def _item(read: Reader, caller: Caller, uri: str) -> str:
    named = parse_uri(uri)
    if named is None or named[0] not in SOURCES:
        raise NotFound("resource", uri)
    plain, pages, cursor = replace(caller, config={}), list[str](), None
    try:
        while cursor or not pages:
            how = how_of(RetrievalOptions(mode="full", cursor=cursor), plain)
            answer = open_item(read, caller, *named, how)
            pages.append(str(answer.content))
            cursor = answer.next_cursor
    except NotFound:
        raise NotFound("resource", uri) from None
    return "".join(pages)


def _pretty(value: object) -> str:
    return orjson.dumps(orjson.loads(encode(value)), option=orjson.OPT_INDENT_2).decode()


def _all_agents(read: Reader) -> object:
    return agents.everyone(read)


def _all_threads(read: Reader) -> object:
    shown = threads.page(read, status=None, include_archived=False, limit=200, before=None).threads
    return [{"thread_id": t.id, "topic": t.topic, "status": t.status, "created_at": t.created_at} for t in shown]


_READERS: dict[str, Callable[[Reader], object]] = {
    "chat://bus/config": config,
    "chat://agents/active": _all_agents,
    "chat://threads/active": _all_threads,
    _TYPES.uri: media_types,
}


def _transcript(read: Reader, caller: Caller, stored: threads.StoredThread) -> str:
    lines = [f"# {stored.thread.topic} [{stored.thread.status}]", ""]
    after = 0
    while batch := messages.after(read, stored, after, 500):
        lines += [
            f"[seq={m.seq}] {m.author_name} ({m.role}): {m.content}" for m in visibility.all_seen_by(caller, batch)
        ]
        after = batch[-1].seq
    return "\n".join(lines)
