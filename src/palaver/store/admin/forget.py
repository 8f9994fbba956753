"""Finds everything in the database that is to be forgotten, and removes it from the tables and the index.

The unit is a turn or message in sessions, imported conversations, chats and threads. Notes, media, prompts and
characters are removed as a whole, and so is a thread or conversation whose own title contains the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from palaver.model.events import encode
from palaver.model.library import Branch
from palaver.model.people import program_of
from palaver.model.projects import is_called, same_project
from palaver.model.times import micros
from palaver.store.engines.database import FOREVER, Change, Reader, Row
from palaver.store.library import archive, documents
from palaver.store.library.documents import substring_form
from palaver.store.sessions.forgotten import item_key, session_of, turn_key
from palaver.store.sessions.outlines import SUBAGENT
from palaver.store.sessions.sessions import title_of

AT_ONCE = 1_000
ITEMS = ("notes", "media", "prompts", "characters")
SMALL_TABLES = {
    "reaction": ("all_reactions", "forget_reaction"),
    "saved search": ("all_saved_searches", "forget_saved_search"),
    "template": ("templates", "delete_template"),
    "claim": ("all_claims", "forget_claim"),
    "import": ("all_import_jobs", "forget_import_job"),
}
"""Rows that are removed if they contain the text: the statement that lists them and the one that removes one."""


@dataclass(frozen=True, slots=True)
class ToForget:
    """What to forget. Conditions that are not given hold for everything."""

    text: str | None = None
    since: int = -FOREVER
    until: int = FOREVER
    session: str | None = None
    agents: frozenset[str] | None = None
    """Ids of agents."""
    program: str | None = None
    project: str | None = None

    @property
    def is_by_passage(self) -> bool:
        """Whether single turns and messages are chosen, not whole sessions."""
        return self.text is not None or self.is_timed

    @property
    def is_timed(self) -> bool:
        return (self.since, self.until) != (-FOREVER, FOREVER)

    @property
    def is_narrow(self) -> bool:
        return any(one is not None for one in (self.session, self.agents, self.project))

    def contains(self, text: str) -> bool:
        """Whether a text, or a text in JSON, has the words that are wanted, in any case."""
        if self.text is None:
            return True
        whole, part = substring_form(text), substring_form(self.text)
        return part in whole or orjson.dumps(part).decode()[1:-1] in whole

    def holds_for(self, text: str, at: int | None) -> bool:
        """Whether a turn or message is wanted, by its text and its time."""
        is_in_time = not self.is_timed or (at is not None and self.since <= at <= self.until)
        return is_in_time and self.contains(text)

    def is_of_session(self, session_id: str) -> bool:
        return self.session is None or session_id == self.session or session_id.startswith(self.session + SUBAGENT)

    def is_of_project(self, project: str | None) -> bool:
        if self.project is None:
            return True
        return bool(project) and (same_project(project, self.project) or is_called(project or "", self.project))

    def is_of_agent(self, agent_id: str | None) -> bool:
        return self.agents is None or agent_id in self.agents


@dataclass(slots=True)
class FoundDocument:
    """A document of which something is to be forgotten."""

    id: int
    source: str
    native_id: str
    title: str
    agent_id: str | None
    facts: dict[str, Any]
    is_whole: bool = False
    passages: dict[int, str] = field(default_factory=dict)
    """The native ids of passages, by id."""
    has_branches: bool = False

    @property
    def session_id(self) -> str:
        return str(self.facts.get("session_id", ""))


def find(read: Reader, wanted: ToForget) -> list[FoundDocument]:
    """The documents of which something is to be forgotten. The passages of whole ones are included."""
    chosen = {row["id"]: row for row in _pages(read, "document_page") if _is_candidate(row, wanted)}
    found: dict[int, FoundDocument] = {}

    def of(id: int) -> FoundDocument:
        if id not in found:
            row = chosen[id]
            facts = orjson.loads(row["data"])
            found[id] = FoundDocument(id, row["source"], row["native_id"], row["title"] or "", row["agent_id"], facts)
        return found[id]

    for id, row in chosen.items():
        is_said = row["source"] in ("sessions", "archive")
        if (is_said and not wanted.is_by_passage) or (not wanted.is_timed and _is_named(row, wanted)):
            of(id).is_whole = True
    posted: dict[int, Row] = {}
    for row in _pages(read, "passage_page_of_all"):
        document = chosen.get(row["document_id"])
        if document is None or not row["position"]:
            continue
        is_posted = document["source"] == "bus"
        if is_posted:
            posted[row["id"]] = {"document_id": row["document_id"], "native_id": row["native_id"]}
        text = f"{row['text']}\n{row['data']}" if is_posted or document["source"] in ITEMS else row["text"]
        is_wanted = wanted.holds_for(text, row["created_at"])
        if is_wanted and is_posted:
            is_wanted = wanted.is_of_agent(row["author_id"])
        if is_wanted or (row["document_id"] in found and found[row["document_id"]].is_whole):
            of(row["document_id"]).passages[row["id"]] = row["native_id"]
    if wanted.text is not None:
        for row in _edits(read):
            message = posted.get(row["passage_id"])
            if message and not wanted.is_narrow and not wanted.is_timed and wanted.contains(row["text"]):
                of(message["document_id"]).passages[row["passage_id"]] = message["native_id"]
        for row in _bodies(read):
            if row["document_id"] in chosen and wanted.contains(row["text"]):
                if row["field"] == archive.BRANCHES:
                    of(row["document_id"]).has_branches = True
                else:
                    of(row["document_id"]).is_whole = True
    for one in found.values():
        one.is_whole = one.is_whole or one.source in ITEMS
    return list(found.values())


def _is_candidate(row: Row, wanted: ToForget) -> bool:
    """Whether a document may have something to forget: by its session, agent, program and project."""
    facts = orjson.loads(row["data"])
    match row["source"]:
        case "sessions":
            is_of_session = wanted.is_of_session(facts.get("session_id", ""))
            return is_of_session and wanted.is_of_agent(row["agent_id"]) and wanted.is_of_project(facts.get("project"))
        case "archive":
            is_of_program = wanted.agents is None or wanted.program == program_of(facts.get("origin", ""))
            ids = {row["native_id"], facts.get("parent") or row["native_id"]}
            is_of_session = any(wanted.is_of_session(session_of(id)) or id == wanted.session for id in ids)
            return is_of_session and is_of_program and wanted.is_of_project(facts.get("project"))
        case "bus":
            return wanted.session is None and wanted.project is None
        case "chats":
            return not wanted.is_narrow and wanted.is_by_passage
    return not wanted.is_narrow and wanted.text is not None


def _is_named(row: Row, wanted: ToForget) -> bool:
    """Whether a document itself contains the text: in its title, or in what its source keeps beside its passages."""
    if wanted.text is None or row["source"] == "sessions" or (row["source"] == "bus" and wanted.is_narrow):
        return False
    if row["source"] == "archive":
        return bool(orjson.loads(row["data"]).get("is_titled", True)) and wanted.contains(row["title"] or "")
    return wanted.contains(f"{row['title'] or ''}\n{row['data']}")


def keys_of(read: Reader, document: FoundDocument, wanted: ToForget) -> set[str]:
    """The keys of the tombstones that keep out what is removed of a document."""
    if document.source in ITEMS:
        rows = read.all("fingerprints_of_document", document_id=document.id)
        return {item_key(document.source, row["fingerprint"][:32]) for row in rows}
    if document.source not in ("sessions", "archive"):
        return set()
    is_session = document.source == "sessions"
    id = document.session_id if is_session else session_of(document.native_id)
    gone = {turn_key(id, one) for one in document.passages.values()}
    for branch in () if is_session else archive.branches_of(read, document.id):
        gone.update(turn_key(id, said.id) for said in branch.messages if _is_said_gone(document, said, wanted))
    return gone


def remove_conversation(change: Change, document: FoundDocument, wanted: ToForget) -> None:
    """Remove an imported conversation, a chat or an item, or some of its messages."""
    if document.is_whole:
        documents.remove_document(change, document.id)
        return
    for id in document.passages:
        documents.remove_passage(change, id)
    if document.source != "archive":
        return
    left = change.all("passages_of_document", document_id=document.id, after=0, limit=1)
    if not left:
        documents.remove_document(change, document.id)
        return
    if not document.facts.get("is_titled", True):
        change.run("retitle_session", id=document.id, title=title_of(left[0]["text"]))
    if branches := archive.branches_of(change, document.id):
        kept = [
            Branch(one.after, some)
            for one in branches
            if (some := tuple(said for said in one.messages if not _is_said_gone(document, said, wanted)))
        ]
        text = orjson.dumps(kept, option=orjson.OPT_UTC_Z).decode()
        change.run("put_body", document_id=document.id, field=archive.BRANCHES, text=text)


def _is_said_gone(document: FoundDocument, said: Any, wanted: ToForget) -> bool:
    return document.is_whole or wanted.holds_for(said.text, micros(said.ts) if said.ts else None)


def find_rows(read: Reader, wanted: ToForget) -> dict[str, list[str]]:
    """The ids of rows in small tables that contain the text, by kind."""
    if wanted.text is None or wanted.is_narrow or wanted.is_timed:
        return {}
    found = {}
    for kind, (listing, _) in SMALL_TABLES.items():
        rows = read.all(listing)
        texts = {row["id"]: "\n".join(value for value in row.values() if isinstance(value, str)) for row in rows}
        if ids := [id for id, text in texts.items() if wanted.contains(text)]:
            found[kind] = ids
    return found


def remove_rows(change: Change, rows: dict[str, list[str]]) -> None:
    for kind, ids in rows.items():
        for id in ids:
            change.run(SMALL_TABLES[kind][1], id=id)


def scrub_events(change: Change, wanted: ToForget, after: int) -> int | None:
    """Empty the fields of events that contain the text. Returns the last event that was looked at; None at the end."""
    rows = change.all("events_after", after=after, limit=AT_ONCE)
    for row in rows:
        if wanted.contains(row["payload"]):
            payload = _scrubbed(orjson.loads(row["payload"]), wanted)
            change.run("replace_event_payload", id=row["id"], payload=encode(payload).decode())
    return rows[-1]["id"] if len(rows) == AT_ONCE else None


def _scrubbed(value: Any, wanted: ToForget) -> Any:
    match value:
        case dict():
            return {name: _scrubbed(one, wanted) for name, one in value.items()}
        case list():
            return [_scrubbed(one, wanted) for one in value]
        case str() if wanted.contains(value):
            return ""
    return value


def scrub_marks(change: Change) -> None:
    """Remove the titles of sessions from the marks of watched files. Versions before 0.3 stored them."""
    for row in change.all("watched_files"):
        reading = orjson.loads(row["reading"])
        if reading.get("title") or reading.get("summaries"):
            reading |= {"title": None, "summaries": {}}
            change.run("keep_watched", **{**row, "reading": orjson.dumps(reading).decode()})


def _pages(read: Reader, statement: str) -> Iterator[Row]:
    after = -FOREVER
    while rows := read.all(statement, after=after, limit=AT_ONCE):
        yield from rows
        after = rows[-1]["id"]


def _bodies(read: Reader) -> Iterator[Row]:
    after, name = -FOREVER, ""
    while rows := read.all("body_page", after=after, field=name, limit=AT_ONCE):
        yield from rows
        after, name = rows[-1]["document_id"], rows[-1]["field"]


def _edits(read: Reader) -> Iterator[Row]:
    after, version = -FOREVER, 0
    while rows := read.all("edit_page", after=after, version=version, limit=AT_ONCE):
        yield from rows
        after, version = rows[-1]["passage_id"], rows[-1]["version"]
