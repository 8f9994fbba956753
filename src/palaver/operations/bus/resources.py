"""MCP resources: the bus (`chat://…`) and every item a search can find (`notes://…`)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace

import orjson

from palaver.errors import NotFound
from palaver.model import visibility
from palaver.model.events import encode
from palaver.model.people import Caller
from palaver.operations import identity
from palaver.operations.bus.connect import config
from palaver.operations.bus.questions import ListQuestions, list_questions
from palaver.operations.catchup.catch_up import ListMentions, list_mentions
from palaver.operations.library.media import media_types
from palaver.search.open import RetrievalOptions, open_document
from palaver.search.sources import SOURCES, parse_uri
from palaver.store.bus import agents, messages, threads
from palaver.store.bus.feed import FeedClosed
from palaver.store.engines.database import Reader
from palaver.store.workspaces import Workspace
from palaver.text.fence import fenced

JSON, TEXT = "application/json", "text/plain"


@dataclass(frozen=True, slots=True)
class Resource:
    uri: str
    name: str
    description: str
    mime_type: str


_TYPES = Resource("media://types", "Media types", "Media types in use, and suggested ones.", JSON)

INBOX = Resource("chat://inbox", "Inbox", "Messages to you, and questions that wait for a person.", TEXT)

FIXED = (
    Resource("chat://bus/config", "Bus configuration", "Language, address and conventions of this bus.", JSON),
    Resource("chat://agents/active", "Agents", "All registered agents and their online status.", JSON),
    Resource("chat://threads/active", "Threads", "All threads that are not archived.", JSON),
    INBOX,
    _TYPES,
)
BY_ID = (
    Resource("chat://threads/{id}/transcript", "Transcript", "All messages of a thread.", TEXT),
    Resource("chat://threads/{id}/summary", "Summary", "The summary of a thread.", TEXT),
    Resource("chat://threads/{id}/state", "State", "Status and latest seq of a thread.", JSON),
    *(Resource(f"{name}://{{id}}", name.capitalize(), "The whole text of a search result.", TEXT) for name in SOURCES),
)

_THREAD = re.compile(r"chat://threads/([^/]{1,256})/(transcript|summary|state)")


def read(read: Reader, caller: Caller, uri: str) -> tuple[str, str]:
    """The resource's type and text."""
    if uri in _READERS:
        return JSON, _pretty(_READERS[uri](read))
    if uri == INBOX.uri:
        return TEXT, fenced(_inbox(read, caller))
    found = _THREAD.fullmatch(uri)
    if found is None:
        return TEXT, _search_result(read, caller, uri)
    stored = threads.must_exist(read, found[1])
    thread = stored.thread
    if found[2] == "transcript":
        lines, after = [f"# {thread.topic} [{thread.status}]", ""], 0
        while batch := messages.after(read, stored, after, 500):
            for m in visibility.mask_messages(caller, batch):
                lines.append(f"[seq={m.seq}] {m.author_name} ({m.role}): {m.content}")
            after = batch[-1].seq
        return TEXT, fenced("\n".join(lines))
    if found[2] == "summary":
        return TEXT, fenced(thread.summary) if thread.summary else "(No summary has been written for this thread.)"
    state = {"thread_id": thread.id, "topic": thread.topic, "status": thread.status}
    return JSON, _pretty(state | {"latest_seq": thread.current_seq, "created_at": thread.created_at})


def _inbox(read: Reader, caller: Caller) -> str:
    caller = identity.resolve(read, caller, identity.Credentials())
    meant = list_mentions.work(read, caller, ListMentions())
    asked = list_questions.work(read, caller, ListQuestions()).questions
    return _pretty({"messages": meant, "questions": asked})


async def changes(workspace: Workspace, caller: Caller, uris: Collection[str]) -> AsyncIterator[str]:
    """The URIs of these resources as they change, until the server closes. The first one is empty: from then on no
    change is missed."""

    def causes_of(read: Reader) -> dict[str, str]:
        """What changes each resource: the events of a thread, or those whose names begin so."""
        found = {"chat://threads/active": "thread.", "chat://agents/active": "agent."}
        for uri in uris:
            if (named := _THREAD.fullmatch(uri)) and (stored := threads.named(read, named[1])):
                found[uri] = stored.thread.id
        return {uri: found[uri] for uri in uris if uri in found}

    def inbox(read: Reader) -> str:
        return _inbox(read, caller) if INBOX.uri in uris else ""

    async with workspace.feed() as listener:
        causes, seen = await workspace.read(lambda read: (causes_of(read), inbox(read)))
        yield ""
        with suppress(FeedClosed):
            while True:
                batch = await listener.next()
                for uri, cause in causes.items():
                    if any(event.thread_id == cause or event.type.startswith((cause, "reset")) for event in batch):
                        yield uri
                before, seen = seen, await workspace.read(inbox) if INBOX.uri in uris else ""
                if seen != before:
                    yield INBOX.uri


def _search_result(read: Reader, caller: Caller, uri: str) -> str:
    """The whole text of an item, without the client's preferences for the size of results."""
    named = parse_uri(uri)
    if named is None or named.source not in SOURCES:
        raise NotFound("resource", uri)
    plain, pages, cursor = replace(caller, config={}), list[str](), None
    try:
        while cursor or not pages:
            options = RetrievalOptions(mode="full", cursor=cursor)
            answer = open_document(read, plain, named._replace(loc=None), options)
            pages.append(str(answer.content))
            cursor = answer.next_cursor
    except NotFound:
        raise NotFound("resource", uri) from None
    return "".join(pages)


def _pretty(value: object) -> str:
    return orjson.dumps(orjson.loads(encode(value)), option=orjson.OPT_INDENT_2).decode()


def _all_threads(read: Reader) -> object:
    shown, _ = threads.page(read, status=None, include_archived=False, limit=200, before=None)
    return [{"thread_id": t.id, "topic": t.topic, "status": t.status, "created_at": t.created_at} for t in shown]


_READERS: dict[str, Callable[[Reader], object]] = {
    "chat://bus/config": config,
    "chat://agents/active": agents.everyone,
    "chat://threads/active": _all_threads,
    _TYPES.uri: media_types,
}
