"""The archive: imported conversations, and substring search in them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any, Literal

import orjson

from palaver.model.answers import OmitsDefaults
from palaver.model.library import COPYING, Branch, Conversation, Said, ToolFacts, tool_facts
from palaver.model.times import instant, maybe_instant, micros, parse
from palaver.store.engines.database import FOREVER, Change, PrepareText, Reader, Row, Scope
from palaver.store.engines.id_ranges import id_range_of
from palaver.store.library import documents
from palaver.store.library.documents import IndexedText, NewPassage, substring_form

Outcome = Literal["new", "changed", "unchanged", "older"]

COMMON = 2_000
"""With this many candidates, reading messages from the newest on is faster than sorting all candidates."""
READ_FIRST = 20_000
"""How many of the newest messages are read before the candidates are sorted after all."""
MOST_SORTED = 2_000_000
"""With this many candidates, reading on is always faster than sorting."""
PAGE = 500
"""How many messages are read at once."""
CHATGPT_ORIGINS = ("chatgpt", "canonical-db")
"""Importers that may read the same ChatGPT conversation."""
BRANCHES = "branches"
"""The body of a document that has the branches beside the one that was shown."""
TOOL = "tool"
"""The key in a passage's data with the facts about a tool call or its result."""
UNKNOWN_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""The time of a conversation in which no message has one."""


# Writing


@dataclass(frozen=True, slots=True)
class PreparedConversation:
    """A conversation with its fingerprint and index rows, computed before it is stored, in any thread."""

    conversation: Conversation
    fingerprint: str
    messages: tuple[IndexedText, ...]
    title: IndexedText | None
    followed: Literal["here", "gone"] | None = None
    """Whether it was imported by following a database file only, and is still in that file."""


def prepare(conversation: Conversation, prepare_text: PrepareText | None = None) -> PreparedConversation:
    """Compute the fingerprint and the index rows of a conversation."""
    return PreparedConversation(
        conversation,
        fingerprint_of(conversation),
        tuple(documents.indexed_text("archive", said.text, prepare_text) for said in conversation.messages),
        documents.indexed_text("archive", conversation.title, prepare_text)
        if conversation.title and conversation.is_titled
        else None,
    )


def put(change: Change, conversation: Conversation) -> Outcome:
    """Store the current state of a conversation. An equal or an older state changes nothing."""
    return put_all(change, [prepare(conversation)])[0]


def put_all(change: Change, batch: Sequence[PreparedConversation], *, is_followed: bool = False) -> list[Outcome]:
    """Store many conversations with few statements. See `put`.

    With `is_followed` they come from the database file that is followed: it replaces newer states too.
    """
    outcomes: list[Outcome] = []
    for some in _batches_without_repeats(batch):
        known = _known(change, some)
        new: list[PreparedConversation] = []
        written: list[tuple[int, PreparedConversation]] = []
        for one in some:
            found = known.get(one.conversation.id)
            data = orjson.loads(found["data"]) if found else {}
            if is_followed and (found is None or "followed" in data):  # else it was imported before
                one = replace(one, followed="here")
            outcome = _outcome(one, found, is_followed)
            outcomes.append(outcome)
            if found and outcome == "changed":
                if project := data.get("project"):  # it stays: the folder it was read from may be gone
                    one = replace(one, conversation=replace(one.conversation, project=project))
                _replace_document(change, found["id"], one)
                written.append((found["id"], one))
            elif outcome == "new":
                new.append(one)
        written += _add_documents(change, new)
        change.run_rows(
            "insert_branches",
            (
                (id, BRANCHES, orjson.dumps(one.conversation.branches, option=orjson.OPT_UTC_Z).decode())
                for id, one in written
                if one.conversation.branches
            ),
        )
        documents.add_passages(change, "archive", chain.from_iterable(_passages(id, one) for id, one in written))
    return outcomes


def _batches_without_repeats(batch: Sequence[PreparedConversation]) -> Iterator[list[PreparedConversation]]:
    """Split a batch where a conversation repeats, so that its second state is compared with the first."""
    some: dict[str, PreparedConversation] = {}
    for one in batch:
        if one.conversation.id in some:
            yield list(some.values())
            some = {}
        some[one.conversation.id] = one
    yield list(some.values())


def compare_all(read: Reader, batch: Sequence[PreparedConversation]) -> list[Outcome]:
    """The outcomes that storing these conversations would have."""
    known = _known(read, batch)
    return [_outcome(one, known.get(one.conversation.id)) for one in batch]


def _known(read: Reader, batch: Sequence[PreparedConversation]) -> dict[str, Row]:
    ids = orjson.dumps([one.conversation.id for one in batch]).decode()
    return {row["native_id"]: row for row in read.all("known_conversations", ids=ids)}


def _outcome(one: PreparedConversation, found: Row | None, is_followed: bool = False) -> Outcome:
    if found is None:
        return "new"
    data = orjson.loads(found["data"])
    if data.get("fingerprint") == one.fingerprint:
        gets_project = one.conversation.project and not data.get("project")
        return "changed" if gets_project or data.get("followed") != one.followed else "unchanged"
    updated_at = _updated_at(one.conversation)
    is_older = updated_at and micros(updated_at) < found["modified_at"]
    return "older" if is_older and not is_followed else "changed"


def mark_gone(change: Change, still_there: AbstractSet[str]) -> None:
    """Mark the followed conversations that are no longer in the followed database. They stay in the archive."""
    for row in change.all("conversations_of_origin", prefix="canonical-db:%"):
        data = orjson.loads(row["data"])
        if data.get("followed") == "here" and row["native_id"] not in still_there:
            change.run("mark_conversation", id=row["id"], data=documents.encode_data({**data, "followed": "gone"}))


def fingerprints(read: Reader) -> dict[str, str]:
    """The fingerprint of each conversation from a canonical database, except those that are gone from it."""
    rows = read.all("conversations_of_origin", prefix="canonical-db:%")
    known = {row["native_id"]: orjson.loads(row["data"]) for row in rows}
    return {id: data["fingerprint"] for id, data in known.items() if data.get("followed") != "gone"}


def _replace_document(change: Change, document_id: int, one: PreparedConversation) -> None:
    """Update the document of a changed conversation, and remove its passages and branches."""
    conversation = one.conversation
    documents.remove_passages(change, document_id)
    change.run("drop_body", document_id=document_id, field=BRANCHES)
    first_at = _first_at(conversation)
    change.run(
        "replace_conversation",
        id=document_id,
        title=conversation.title or None,
        created_at=micros(conversation.created_at or first_at),
        modified_at=micros(_updated_at(conversation) or first_at),
        data=documents.encode_data(_data(one)),
    )


def _add_documents(change: Change, new: list[PreparedConversation]) -> Iterator[tuple[int, PreparedConversation]]:
    """Add the documents of new conversations. Returns their ids with the conversations."""
    if not new:
        return iter(())
    ids = orjson.loads(change.must("take_document_ids", count=len(new))["ids"])
    rows = []
    for id, one in zip(ids, new, strict=True):
        conversation, updated_at = one.conversation, _updated_at(one.conversation)
        created_at = micros(conversation.created_at or _first_at(conversation))
        modified_at = max(created_at, micros(updated_at)) if updated_at else created_at
        data = documents.encode_data(_data(one))
        rows.append((id, conversation.id, conversation.title or None, created_at, modified_at, data))
    change.run_rows("insert_conversations", rows)
    return zip(ids, new, strict=True)


def _passages(document_id: int, one: PreparedConversation) -> Iterator[NewPassage]:
    conversation = one.conversation
    scopes = documents.project_scopes(conversation.project)
    data = {documents.SCOPES: scopes} if scopes else {}
    if one.title:
        title_id, at = f"{conversation.id}#title", _first_at(conversation)
        yield NewPassage(document_id, 0, title_id, conversation.title, at, "title", data=data, indexed=one.title)
    for position, (said, indexed) in enumerate(zip(conversation.messages, one.messages, strict=True), 1):
        yield NewPassage(
            document_id,
            position,
            said.id,
            said.text,
            said.ts,
            role=said.role,
            author=said.role,
            data={**data, TOOL: said.tool} if said.tool else data,
            indexed=indexed,
        )


def rename_project(change: Change, old: str, new: str, limit: int) -> bool:
    """Rename the project of some imported conversations. Returns whether there may be more."""
    rows = change.all("conversations_of_project", project=old, limit=limit)
    for row in rows:
        documents.set_project(change, "archive", row["id"], {**orjson.loads(row["data"]), "project": new})
    return len(rows) == limit


def _data(one: PreparedConversation) -> dict[str, str | bool | None]:
    """The data of a document. A title made from the first words is marked, so that nothing is found by it."""
    return {
        "origin": one.conversation.origin,
        "fingerprint": one.fingerprint,
        "project": one.conversation.project,
        "parent": one.conversation.parent,
        "is_titled": None if one.conversation.is_titled else False,
        "followed": one.followed,
    }


def fingerprint_of(conversation: Conversation) -> str:
    digest = hashlib.blake2b(digest_size=16)
    digest.update(conversation.title.encode("utf-8", "replace"))
    if not conversation.is_titled:
        digest.update(b"\0made")
    for said in conversation.messages:
        digest.update(orjson.dumps((said.id, said.role, said.text, micros(said.ts) if said.ts else None)))
        if said.tool:
            digest.update(orjson.dumps(said.tool))
    if conversation.parent:
        digest.update(b"\0parent" + conversation.parent.encode("utf-8", "replace"))
    if conversation.branches:
        digest.update(orjson.dumps(conversation.branches))
    return digest.hexdigest()


def _first_at(conversation: Conversation) -> datetime:
    return next((said.ts for said in conversation.messages if said.ts), None) or UNKNOWN_TIME


def _updated_at(conversation: Conversation) -> datetime | None:
    times = [said.ts for said in conversation.messages if said.ts]
    return conversation.updated_at or (max(times) if times else None)


# Reading


@dataclass(frozen=True)
class ConversationInfo(OmitsDefaults):
    """A conversation as listed. `project` is there where it is known."""

    omit_if_default = ("project",)

    id: str
    origin: str
    title: str
    messages: int
    created_at: datetime | None
    updated_at: datetime | None
    project: str | None = None


def is_empty(read: Reader) -> bool:
    return not read.must("count_archive")["conversations"]


def list_conversations(read: Reader, limit: int, offset: int, project: str | None = None) -> list[ConversationInfo]:
    wanted = documents.projects_named(read, "archive", project)
    rows = read.all("conversations", projects=wanted, limit=limit, offset=offset)
    return [
        ConversationInfo(
            id=row["native_id"],
            origin=(data := orjson.loads(row["data"])).get("origin", ""),
            project=data.get("project"),
            title=row["title"] or "",
            messages=row["messages"],
            created_at=_time(row["created_at"]),
            updated_at=_time(row["modified_at"]),
        )
        for row in rows
    ]


def _time(at: int) -> datetime | None:
    return instant(at) if at else None


def conversation(read: Reader, id: str) -> Conversation | None:
    found = read.one("conversation", native_id=id)
    if found is None:
        return None
    rows = read.all("passages_of_document", document_id=found["id"], after=0, limit=2**31)
    data = orjson.loads(found["data"])
    return Conversation(
        id=id,
        origin=data.get("origin", ""),
        title=found["title"] or "",
        created_at=_time(found["created_at"]),
        updated_at=_time(found["modified_at"]),
        messages=tuple(
            Said(r["native_id"], r["role"], r["text"], maybe_instant(r["created_at"]), _facts(r)) for r in rows
        ),
        is_titled=data.get("is_titled", True),
        project=data.get("project"),
        parent=data.get("parent"),
        branches=branches_of(read, found["id"]),
    )


def _facts(row: Row) -> ToolFacts | None:
    return tool_facts(orjson.loads(row["data"]).get(TOOL)) if TOOL in row["data"] else None


def branches_of(read: Reader, document_id: int) -> tuple[Branch, ...]:
    """The branches of a conversation that a search does not find."""
    found = read.one("body", document_id=document_id, field=BRANCHES)
    return tuple(
        Branch(
            one["after"],
            tuple(
                Said(s["id"], s["role"], s["text"], parse(s["ts"]) if s["ts"] else None, tool_facts(s.get(TOOL)))
                for s in one["messages"]
            ),
        )
        for one in (orjson.loads(found["text"]) if found else ())
    )


# Searching


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A message that contains the substring, with its conversation."""

    conversation: str
    title: str | None
    said: Said
    is_titled: bool = True


def search(read: Reader, part: str | None, scope: Scope, limit: int) -> list[FoundMessage]:
    """The newest messages whose text, or whose conversation's title, contains `part`."""
    found: list[FoundMessage] = []
    copied: set[tuple[str, str]] = set()
    origins: dict[tuple[str, str, str, datetime | None], str] = {}
    for row in _matching(read, part, scope):
        said = Said(row["id"], row["role"], row["text"], maybe_instant(row["created_at"]))
        is_titled = orjson.loads(row["data"]).get("is_titled", True)
        message = FoundMessage(row["conversation"], row["title"], said, is_titled)
        origin, _, id = message.conversation.partition(":")
        if origin in CHATGPT_ORIGINS:  # an export and a database may hold the same message
            same = id, said.role, said.text.strip(), said.ts
            if origins.setdefault(same, origin) != origin:
                continue
        if message.conversation.startswith(COPYING):
            line = message.said.id, message.said.text
            if line in copied:
                continue
            copied.add(line)
        found.append(message)
        if len(found) == limit:
            break
    return found


def _matching(read: Reader, part: str | None, scope: Scope) -> Iterator[Row]:
    part = substring_form(part) if part else ""
    if not part or not documents.has_all_parts(read):
        yield from (row for row in _newest(read, scope) if _contains(row, part))
        return
    hits, seen = read.substring_candidates(part, COMMON, roughly=True), 0
    if len(hits) == COMMON:
        newest, looked = _newest(read, scope, read.connection.dialect.newest_with_parts), 0
        for row in islice(newest, READ_FIRST):
            looked += 1
            if _contains(row, part):
                seen += 1
                yield row
        if looked < READ_FIRST:
            return
        hits = read.substring_candidates(part, MOST_SORTED)
        if len(hits) == MOST_SORTED:
            yield from (row for row in newest if _contains(row, part))
            return
    # These are in the same order, so skip the messages that were found above.
    yield from islice((row for row in _among(read, hits, scope) if _contains(row, part)), seen, None)


def _newest(read: Reader, scope: Scope, statement: str = "archive_newest") -> Iterator[Row]:
    """All messages, newest first, a page at a time. Messages without a time come last."""
    params = {**_params(scope), "limit": PAGE}
    before = FOREVER
    while rows := read.all(statement, **params, before=before):
        yield from rows
        params["until"], before = rows[-1]["created_at"], rows[-1]["passage_id"]
    before = FOREVER
    while params["any_time"] and (rows := read.all("archive_timeless", **params, before=before)):
        yield from rows
        before = rows[-1]["passage_id"]


def _among(read: Reader, hits: list[int], scope: Scope) -> Iterator[Row]:
    """The messages of these passages, newest first. A title means all messages of its conversation."""
    if not hits:
        return
    sorted_ids = [row["id"] for row in read.all("archive_among", **_params(scope), ids=orjson.dumps(hits).decode())]
    for start in range(0, len(sorted_ids), PAGE):
        page = sorted_ids[start : start + PAGE]
        rows = {row["passage_id"]: row for row in read.all("archive_messages", ids=orjson.dumps(page).decode())}
        yield from (rows[id] for id in page)


def _params(scope: Scope) -> dict[str, Any]:
    first, last = id_range_of("archive")
    return {
        "roles": orjson.dumps(scope.roles).decode() if scope.roles else None,
        "since": scope.since,
        "until": scope.until,
        "any_time": int(not scope.is_timed),
        "first": first,
        "last": last,
    }


def _contains(row: Row, part: str) -> bool:
    is_in_text = not part or part in substring_form(row["text"])
    if not is_in_text and part not in substring_form(row["title"] or ""):
        return False
    data = orjson.loads(row["data"])
    return data.get("followed") != "gone" and (is_in_text or bool(data.get("is_titled", True)))
