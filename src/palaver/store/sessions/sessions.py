"""The index of agents' sessions: made from the transcripts, and made again whenever it is wanted.

A mark for each transcript says how many of its bytes stand in the index. Indexing goes from the mark to the end of the
file, in one change that moves the mark; whoever finds the mark moved by another looks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from palaver.errors import NotFound
from palaver.model.answers import Sparse
from palaver.model.library import is_unique
from palaver.model.sessions import Owner, Turn
from palaver.model.times import instant, micros
from palaver.store.engines.database import Change, RankedPassage, Reader, Row, Scope
from palaver.store.library import documents
from palaver.store.library.documents import (
    SCOPES,
    agent_scope,
    document_scope,
    project_scope,
    project_scopes,
)
from palaver.text.query import Query

TITLE_LENGTH = 80
MOST_EQUALS = 1_000


@dataclass(frozen=True)
class SessionInfo(Sparse):
    """A session as listed. `project` is there where it is known."""

    sparse = ("project",)

    session_id: str
    agent_id: str
    agent: str | None
    """The agent's name."""
    title: str | None
    turns: int
    created_at: datetime
    last_turn_at: datetime
    project: str | None = None


def native_id(agent_id: str, session_id: str) -> str:
    return f"{agent_id}/{session_id}"


def mark(read: Reader, agent_id: str, file: str) -> int:
    row = read.one("mark", agent_id=agent_id, file=file)
    return row["bytes"] if row else 0


def marks(read: Reader) -> dict[tuple[str, str], int]:
    return {(row["agent_id"], row["file"]): row["bytes"] for row in read.all("marks")}


def index(change: Change, owner: Owner, file: str, turns: Iterable[Turn], start: int, end: int) -> bool:
    """Take turns into the index and move the mark. False when somebody else has moved it since."""
    if mark(change, owner.id, file) != start:
        return False
    put(change, owner, turns)
    change.run("move_mark", agent_id=owner.id, file=file, bytes=end)
    return True


def reset_mark(change: Change, owner: Owner, file: str) -> int:
    change.run("move_mark", agent_id=owner.id, file=file, bytes=0)
    return 0


def finish_rebuild(
    change: Change,
    owner: Owner,
    file: str,
    ids: dict[str, set[str]],
    end: int,
    tail: Callable[[], Iterable[Turn]],
) -> None:
    """The end of a rebuild: what the transcript does not have leaves the index; the mark stands where it was read.

    `tail` gives what was recorded since. It is asked after the index was: whoever is there by then has its line.
    """
    extra = [row for session_id, kept in ids.items() for row in _others(change, owner, session_id, kept)]
    if extra:
        recent = {turn.id for turn in tail()}
        for row in extra:
            if row["native_id"] not in recent:
                documents.remove_passage(change, row["id"])
    change.run("move_mark", agent_id=owner.id, file=file, bytes=end)


def _others(read: Reader, owner: Owner, session_id: str, ids: set[str]) -> list[Row]:
    """What the index has of a session beyond these turns."""
    found = read.one("session_document", native_id=native_id(owner.id, session_id))
    return [row for row in _rows(read, found["id"]) if row["native_id"] not in ids] if found else []


def put(change: Change, owner: Owner, turns: Iterable[Turn], *, rewrite: bool = False) -> None:
    """Turns in their places. The same id twice is one turn; `rewrite` makes it what the transcript says."""
    writers: dict[str, _SessionWriter] = {}
    for turn in turns:
        if turn.session_id not in writers:
            writers[turn.session_id] = _open_session(change, owner, turn)
        writer = writers[turn.session_id]
        if turn.id in writer.seen:
            continue
        writer.seen.add(turn.id)
        writer.project = turn.project or writer.project
        scopes = project_scopes(writer.project)
        data = {SCOPES: scopes} if scopes else {}
        found = None if writer.is_new else _turn(change, writer.document_id, turn.id)
        if found is None:
            writer.position += 1
            writer.last = max(writer.last, micros(turn.ts))
            documents.add_passage(
                change,
                source="sessions",
                document_id=writer.document_id,
                position=writer.position,
                native_id=turn.id,
                role=turn.role,
                author=owner.slug,
                author_id=owner.id,
                text=turn.content,
                created_at=turn.ts,
                data=data,
            )
        elif rewrite:
            change.run(
                "replace_turn",
                id=found["id"],
                role=turn.role,
                text=turn.content,
                created_at=micros(turn.ts),
                data=documents.encode_data(data),
            )
            row = documents.index_row(
                "sessions", writer.document_id, "content", owner.id, turn.content, turn.role, scopes
            )
            change.index(found["id"], row, is_new=False)
    for writer in writers.values():
        if writer.project != writer.facts.get("project"):
            facts = {**writer.facts, "project": writer.project}
            change.run("describe_session", id=writer.document_id, data=documents.encode_data(facts))
        change.run("document_spoke", id=writer.document_id, modified_at=writer.last)


@dataclass(slots=True)
class _SessionWriter:
    """A session while turns are put into it."""

    document_id: int
    position: int
    is_new: bool
    facts: dict[str, Any]
    project: str | None = None
    """That of its latest turn that names one: turns that name none belong to the same."""
    last: int = 0
    seen: set[str] = field(default_factory=set)


def _open_session(change: Change, owner: Owner, turn: Turn) -> _SessionWriter:
    found = change.one("session_document", native_id=native_id(owner.id, turn.session_id))
    if found:
        last = change.must("last_position", document_id=found["id"])["position"]
        facts = orjson.loads(found["data"])
        return _SessionWriter(found["id"], last, is_new=False, facts=facts, project=facts.get("project"))
    facts = {"session_id": turn.session_id}
    document_id = documents.add_document(
        change,
        source="sessions",
        native_id=native_id(owner.id, turn.session_id),
        title=title_of(turn.content),
        created_at=turn.ts,
        data=facts,
        agent_id=owner.id,
        is_found_by_title=False,
    )
    return _SessionWriter(document_id, 0, is_new=True, facts=facts)


def _turn(read: Reader, document_id: int, turn_id: str) -> Row | None:
    return read.one("passage_by_native", document_id=document_id, native_id=turn_id)


def title_of(text: str) -> str:
    """The first line of what began it."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"


def forget(change: Change, owner: Owner, session_id: str, file: str) -> bool:
    """Take a session out of the index; tells whether it was there."""
    change.run("forget_mark", agent_id=owner.id, file=file)
    found = change.one("session_document", native_id=native_id(owner.id, session_id))
    if found:
        documents.remove_document(change, found["id"])
    return found is not None


def take_back(change: Change, owner: Owner, session_id: str, turn_ids: Iterable[str]) -> None:
    """Take turns out of the index. A session is called after the first turn it has, and is gone when it has none."""
    found = change.one("session_document", native_id=native_id(owner.id, session_id))
    if found is None:
        return
    for id in turn_ids:
        if row := _turn(change, found["id"], id):
            documents.remove_passage(change, row["id"])
    first = change.all("passages_of_document", document_id=found["id"], after=0, limit=1)
    if first:
        change.run("call_session", id=found["id"], title=title_of(first[0]["text"]))
    else:
        documents.remove_document(change, found["id"])


def _rows(read: Reader, document_id: int) -> list[Row]:
    return read.all("passages_of_document", document_id=document_id, after=0, limit=2**31)


def is_known(read: Reader, owner: Owner, session_id: str) -> bool:
    return read.one("session_document", native_id=native_id(owner.id, session_id)) is not None


def indexed(read: Reader, owner: Owner, session_id: str) -> dict[str, tuple[str, str]]:
    """What the index says of a session: role and text by turn."""
    found = read.one("session_document", native_id=native_id(owner.id, session_id))
    if found is None:
        return {}
    return {str(row["native_id"]): (str(row["role"]), str(row["text"])) for row in _rows(read, found["id"])}


def turns_of(read: Reader, owner: Owner, session_id: str) -> list[Turn]:
    """The turns the index has of a session."""
    found = read.one("session_document", native_id=native_id(owner.id, session_id))
    if found is None:
        return []
    project = orjson.loads(found["data"]).get("project")
    return [
        Turn(
            id=row["native_id"],
            session_id=session_id,
            agent_id=owner.id,
            role=row["role"],
            content=row["text"],
            ts=instant(row["created_at"]),
            recorded_at=instant(row["created_at"]),
            project=project,
        )
        for row in _rows(read, found["id"])
    ]


def list_sessions(
    read: Reader, agent_id: str | None, limit: int, offset: int, project: str | None = None
) -> list[SessionInfo]:
    wanted = documents.projects_called(read, "sessions", project)
    rows = read.all("sessions_of_agent", agent_id=agent_id, projects=wanted, limit=limit, offset=offset)
    return [
        SessionInfo(
            session_id=(facts := orjson.loads(row["data"]))["session_id"],
            agent_id=row["agent_id"],
            agent=row["agent"],
            project=facts.get("project"),
            title=row["title"],
            turns=row["turns"],
            created_at=instant(row["created_at"]),
            last_turn_at=instant(row["modified_at"]),
        )
        for row in rows
    ]


def find_turn(read: Reader, owner: Owner, session_id: str, turn_id: str) -> Turn | None:
    document = read.one("session_document", native_id=native_id(owner.id, session_id))
    if document is None:
        return None
    row = read.one("passage_by_native", document_id=document["id"], native_id=turn_id)
    if row is None:
        return None
    ts = instant(row["created_at"])
    return Turn(turn_id, session_id, owner.id, row["role"], row["text"], ts, ts, _project(document))


def turns(read: Reader, owner: Owner, session_id: str, after: int, limit: int) -> list[Turn]:
    document = read.one("session_document", native_id=native_id(owner.id, session_id))
    if document is None:
        raise NotFound("session", session_id, "List sessions to see which exist.")
    rows = read.all("passages_of_document", document_id=document["id"], after=after, limit=limit)
    project = _project(document)
    return [
        Turn(
            id=row["native_id"],
            session_id=session_id,
            agent_id=owner.id,
            role=row["role"],
            content=row["text"],
            ts=(ts := instant(row["created_at"])),
            recorded_at=ts,
            project=project,
        )
        for row in rows
    ]


def _project(document: Row) -> str | None:
    found: str | None = orjson.loads(document["data"]).get("project")
    return found


@dataclass(frozen=True, slots=True)
class FoundTurn:
    turn: Turn
    score: float


def search(read: Reader, query: Query, scope: Scope, limit: int) -> list[FoundTurn]:
    """The best turns; among equals the newest. A turn that a fork of the session copied is found once."""
    wanted = limit
    while True:
        hits = _with_equals(read, query, scope, wanted)
        found = _once(_turns(read, hits))
        if len(found) >= limit or len(hits) < wanted:
            return found[:limit]
        wanted *= 4  # some of them were copies: look further


def _turns(read: Reader, hits: list[RankedPassage]) -> list[FoundTurn]:
    ids = orjson.dumps([hit.passage_id for hit in hits]).decode()
    rows = {row["passage_id"]: row for row in read.all("found_turns", ids=ids)}
    found = []
    for hit in hits:
        row = rows[hit.passage_id]
        session_id = row["document"].removeprefix(f"{row['agent_id']}/")
        ts = instant(row["created_at"])
        turn = Turn(row["native_id"], session_id, row["agent_id"], row["role"], row["text"], ts, ts, _project(row))
        found.append(FoundTurn(turn, hit.score))
    found.sort(key=lambda one: (-one.score, -one.turn.ts.timestamp()))
    return found


def _once(found: Iterable[FoundTurn]) -> list[FoundTurn]:
    """Each turn once. A fork copies the turns it begins with, ids and all."""
    kept: dict[tuple[str, ...], FoundTurn] = {}
    for one in found:
        turn = one.turn
        own = (turn.agent_id, turn.id, turn.content)
        kept.setdefault(own if is_unique(turn.id) else (*own, turn.session_id), one)
    return list(kept.values())


def _with_equals(read: Reader, query: Query, scope: Scope, limit: int) -> list[RankedPassage]:
    """The best hits, and those beyond the limit that are as good as the last: the engine has no times to choose by."""
    finding = read.find_also_apart(query, scope, limit + 1)
    if len(finding.hits) > limit and finding.hits[limit].score == finding.hits[limit - 1].score:
        finding = read.find_also_apart(query, scope, limit + MOST_EQUALS)
    last = finding.hits[limit - 1].score if len(finding.hits) >= limit else None
    return [hit for n, hit in enumerate(finding.hits) if n < limit or hit.score == last]


def search_scope(
    read: Reader,
    *,
    agent_id: str | None = None,
    session_id: str | None = None,
    role: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    project: str | None = None,
) -> Scope | None:
    """The scope of a search for turns. None if the session does not exist, or if its agent is not given."""
    scopes = []
    if agent_id:
        scopes.append(agent_scope(agent_id))
    if session_id:
        found = read.one("session_document", native_id=native_id(agent_id, session_id)) if agent_id else None
        if found is None:
            return None
        scopes.append(document_scope(found["id"]))
    if project:
        scopes.append(project_scope(project))
    # The order of one agent's turns must not depend on the turns of other agents.
    is_blind = agent_id is not None
    roles = (role,) if role else ()
    scope = Scope(("sessions",), titles=False, scopes=tuple(scopes), roles=roles, is_blind=is_blind)
    return scope.between(since, until)
