"""The archive: conversations that were held elsewhere, and finding any part of what was said in them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal

import orjson

from palaver.model.library import Conversation, Said
from palaver.model.times import instant, maybe_instant, micros
from palaver.store import documents
from palaver.store.database import Change, Reader, Row
from palaver.store.documents import substring_form
from palaver.store.lanes import lane_of

Outcome = Literal["new", "changed", "unchanged", "older"]

COMMON = 2_000
"""So many hits, and reading from the newest on is quicker than sorting them all."""
LOOKED_THROUGH = 20_000
PAGE = 500
FAR = 2**62
UNKNOWN_TIME = datetime(1970, 1, 1, tzinfo=UTC)


# Writing


def put(change: Change, conversation: Conversation) -> Outcome:
    """Store a conversation as it is now. The same again changes nothing; an older state does not undo a newer one."""
    outcome = judge(change, conversation)
    if outcome == "new":
        _write(change, _add_document(change, conversation), conversation)
    elif outcome == "changed":
        _replace(change, conversation)
    return outcome


def judge(read: Reader, conversation: Conversation) -> Outcome:
    """What storing it would come to."""
    found = read.one("conversation", native_id=conversation.id)
    if found is None:
        return "new"
    if orjson.loads(found["data"]).get("fingerprint") == _fingerprint(conversation):
        return "unchanged"
    updated_at = _updated_at(conversation)
    return "older" if updated_at and micros(updated_at) < found["modified_at"] else "changed"


def _replace(change: Change, conversation: Conversation) -> None:
    document_id = change.must("conversation", native_id=conversation.id)["id"]
    for row in change.all("passage_ids", document_id=document_id):
        documents.remove_passage(change, row["id"])
    first_at = _first_at(conversation)
    change.run(
        "replace_conversation",
        id=document_id,
        title=conversation.title or None,
        created_at=micros(conversation.created_at or first_at),
        modified_at=micros(_updated_at(conversation) or first_at),
        data=documents.encode_data(_data(conversation)),
    )
    if conversation.title:
        documents.add_title(change, "archive", document_id, conversation.id, conversation.title, first_at)
    _write(change, document_id, conversation)


def _add_document(change: Change, conversation: Conversation) -> int:
    document_id = documents.add_document(
        change,
        source="archive",
        native_id=conversation.id,
        title=conversation.title or None,
        created_at=conversation.created_at or _first_at(conversation),
        data=_data(conversation),
    )
    modified_at = _updated_at(conversation)
    if modified_at:
        change.run("document_spoke", id=document_id, modified_at=micros(modified_at))
    return document_id


def _write(change: Change, document_id: int, conversation: Conversation) -> None:
    for position, said in enumerate(conversation.messages, 1):
        documents.add_passage(
            change,
            source="archive",
            document_id=document_id,
            position=position,
            native_id=said.id,
            role=said.role,
            author=said.role,
            text=said.text,
            created_at=said.ts,
        )


def _data(conversation: Conversation) -> dict[str, str]:
    return {"origin": conversation.origin, "fingerprint": _fingerprint(conversation)}


def _fingerprint(conversation: Conversation) -> str:
    digest = hashlib.blake2b(digest_size=16)
    digest.update(conversation.title.encode("utf-8", "replace"))
    for said in conversation.messages:
        digest.update(orjson.dumps((said.id, said.role, said.text, micros(said.ts) if said.ts else None)))
    return digest.hexdigest()


def _first_at(conversation: Conversation) -> datetime:
    return next((said.ts for said in conversation.messages if said.ts), None) or UNKNOWN_TIME


def _updated_at(conversation: Conversation) -> datetime | None:
    times = [said.ts for said in conversation.messages if said.ts]
    return conversation.updated_at or (max(times) if times else None)


# Reading


@dataclass(frozen=True, slots=True)
class Held:
    """A conversation as listed."""

    id: str
    origin: str
    title: str
    messages: int
    created_at: datetime
    updated_at: datetime


def is_empty(read: Reader) -> bool:
    return not read.must("count_archive")["conversations"]


def everyone(read: Reader, limit: int, offset: int) -> list[Held]:
    rows = read.all("conversations", limit=limit, offset=offset)
    return [
        Held(
            id=row["native_id"],
            origin=orjson.loads(row["data"]).get("origin", ""),
            title=row["title"] or "",
            messages=row["messages"],
            created_at=instant(row["created_at"]),
            updated_at=instant(row["modified_at"]),
        )
        for row in rows
    ]


def conversation(read: Reader, id: str) -> Conversation | None:
    found = read.one("conversation", native_id=id)
    if found is None:
        return None
    rows = read.all("passages_of_document", document_id=found["id"], after=0, limit=2**31)
    return Conversation(
        id=id,
        origin=orjson.loads(found["data"]).get("origin", ""),
        title=found["title"] or "",
        created_at=instant(found["created_at"]),
        updated_at=instant(found["modified_at"]),
        messages=tuple(Said(r["native_id"], r["role"], r["text"], maybe_instant(r["created_at"])) for r in rows),
    )


# Finding


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is looked for: a part of the text or of the title, who said it, and when."""

    part: str | None = None
    roles: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class FoundMessage:
    conversation: str
    title: str | None
    said: Said


def search(read: Reader, wanted: Wanted) -> list[FoundMessage]:
    """The newest messages that hold the part, or whose conversation's title does."""
    found: list[FoundMessage] = []
    for row in _matching(read, wanted):
        found.append(_message(row))
        if len(found) == wanted.limit:
            break
    return found


def _matching(read: Reader, wanted: Wanted) -> Iterator[Row]:
    part = substring_form(wanted.part) if wanted.part else ""
    if len(part) < 3:
        yield from (row for row in _newest(read, wanted) if not part or _holds(row, part))
        return
    match = read.connection.dialect.substring_match(part)
    hits, seen = _hits(read, match, COMMON), 0
    if len(hits) == COMMON:
        for row in islice(_newest(read, wanted), LOOKED_THROUGH):
            if _holds(row, part):
                seen += 1
                yield row
        hits = _hits(read, match, FAR)
    # What was found so far comes again, for it is found in the same order.
    yield from islice((row for row in _among(read, hits, wanted) if _holds(row, part)), seen, None)


def _hits(read: Reader, match: str, cap: int) -> list[int]:
    return [row["id"] for row in read.all("substring_hits", match=match, cap=cap)]


def _newest(read: Reader, wanted: Wanted) -> Iterator[Row]:
    """All messages, newest first, each page from where the last one ended; those without a time come last."""
    narrow = {**_narrow(wanted), "limit": PAGE}
    before = FAR
    while rows := read.all("archive_newest", **narrow, before=before):
        yield from rows
        narrow["until"], before = rows[-1]["created_at"], rows[-1]["passage_id"]
    before = FAR
    while narrow["any_time"] and (rows := read.all("archive_timeless", **narrow, before=before)):
        yield from rows
        before = rows[-1]["passage_id"]


def _among(read: Reader, hits: list[int], wanted: Wanted) -> Iterator[Row]:
    """The messages these passages are, or are the title of: sorted first, then read a page at a time."""
    sorted_ids = [row["id"] for row in read.all("archive_among", **_narrow(wanted), ids=orjson.dumps(hits).decode())]
    for start in range(0, len(sorted_ids), PAGE):
        page = sorted_ids[start : start + PAGE]
        rows = {row["passage_id"]: row for row in read.all("archive_messages", ids=orjson.dumps(page).decode())}
        yield from (rows[id] for id in page)


def _narrow(wanted: Wanted) -> dict[str, Any]:
    lane, lane_end = lane_of("archive")
    return {
        "roles": orjson.dumps(wanted.roles).decode() if wanted.roles else None,
        "since": micros(wanted.since) if wanted.since else -FAR,
        "until": micros(wanted.until) if wanted.until else FAR,
        "any_time": int(wanted.since is None and wanted.until is None),
        "lane": lane,
        "lane_end": lane_end,
    }


def _holds(row: Row, part: str) -> bool:
    return part in substring_form(row["text"]) or part in substring_form(row["title"] or "")


def _message(row: Row) -> FoundMessage:
    said = Said(row["id"], row["role"], row["text"], maybe_instant(row["created_at"]))
    return FoundMessage(row["conversation"], row["title"], said)
