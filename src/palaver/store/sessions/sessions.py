"""The index of agents' sessions. It is built from the transcripts and can be rebuilt at any time.

A mark for each transcript says how many of its bytes are indexed. One change indexes from the mark to the end of the
file and moves the mark. If another process moved the mark meanwhile, the caller tries again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import orjson

from palaver.errors import must_be_found
from palaver.model.answers import OmitsDefaults
from palaver.model.sessions import Mark, Owner, Turn
from palaver.model.times import instant, micros
from palaver.store.bus import agents
from palaver.store.engines.database import Change, Reader, Row
from palaver.store.library import documents
from palaver.store.library.documents import SCOPES, NewPassage, document_scope, project_scopes
from palaver.store.rows import from_row, params_of
from palaver.text.checksum import checksum_of

TOOL = "tool"
"""The key in a passage's data with the facts about a tool call or its result."""
TITLE_LENGTH = 80
"""The length of a session's title, in characters."""


@dataclass(frozen=True)
class SessionInfo(OmitsDefaults):
    """A session as listed. `project` and `program` are there where they are known."""

    omit_if_default = ("project", "program")

    session_id: str
    agent_id: str
    agent: str | None
    """The agent's name."""
    title: str | None
    turns: int
    created_at: datetime
    last_turn_at: datetime
    project: str | None = None
    program: str | None = None


def native_id(agent_id: str, session_id: str) -> str:
    return f"{agent_id}/{session_id}"


def mark(read: Reader, agent_id: str, file: str) -> int:
    """How many bytes of a transcript are indexed."""
    row = read.one("mark", agent_id=agent_id, file=file)
    return row["bytes"] if row else 0


def marks(read: Reader) -> dict[tuple[str, str], int]:
    return {(row["agent_id"], row["file"]): row["bytes"] for row in read.all("marks")}


def index(change: Change, owner: Owner, file: str, turns: Iterable[Turn], start: int, end: int) -> bool:
    """Index turns and move the mark. Returns False if another process has moved the mark."""
    if mark(change, owner.id, file) != start:
        return False
    put(change, owner, turns)
    move_mark(change, owner, file, end)
    return True


def move_mark(change: Change, owner: Owner, file: str, end: int) -> None:
    """Store that a transcript is indexed up to here."""
    change.run("move_mark", agent_id=owner.id, file=file, bytes=end)


def finish_rebuild(
    change: Change, owner: Owner, file: str, ids: dict[str, set[str]], end: int, tail: Iterable[Turn]
) -> None:
    """Finish a rebuild: remove turns that are not in the transcript, and set the mark.

    `tail` are the turns recorded meanwhile. It is read after the index, so it has the lines of all turns in the index.
    """
    extra = []
    for session_id, kept in ids.items():
        found = _session(change, owner, session_id)
        extra += [row for row in _rows(change, found["id"]) if row["native_id"] not in kept] if found else []
    if extra:
        recent = {turn.id for turn in tail}
        for row in extra:
            if row["native_id"] not in recent:
                documents.remove_passage(change, row["id"])
    move_mark(change, owner, file, end)


def put(change: Change, owner: Owner, turns: Iterable[Turn], *, rewrite: bool = False) -> None:
    """Add turns to their sessions. A known turn id is skipped, or updated with `rewrite`."""
    by_session: dict[str, dict[str, Turn]] = {}
    for turn in turns:
        by_session.setdefault(turn.session_id, {}).setdefault(turn.id, turn)  # of equal ids the first counts
    for session_id, some in by_session.items():
        _put_into_session(change, owner, session_id, list(some.values()), rewrite=rewrite)


def _put_into_session(change: Change, owner: Owner, session_id: str, turns: list[Turn], *, rewrite: bool) -> None:
    if found := _session(change, owner, session_id):
        document_id, old = found["id"], orjson.loads(found["data"])
        known = _known_turns(change, document_id, [turn.id for turn in turns])
        position = change.must("last_position", document_id=document_id)["position"]
    else:
        known, position, old = {}, 0, {"session_id": session_id}
        document_id = documents.add_document(
            change,
            source="sessions",
            native_id=native_id(owner.id, session_id),
            title=title_of(turns[0].content),
            created_at=turns[0].ts,
            data=old,
            agent_id=owner.id,
            is_found_by_title=False,
        )
    facts = dict(old)
    new: list[NewPassage] = []
    changed: list[tuple[Any, ...]] = []
    for turn in turns:
        # A turn that names no project belongs to that of the turn before it.
        facts |= {name: value for name, value in (("project", turn.project), ("program", turn.program)) if value}
        scopes = project_scopes(facts.get("project"))
        data: dict[str, Any] = {SCOPES: scopes} if scopes else {}
        if turn.tool:
            data[TOOL] = turn.tool
        passage = NewPassage(
            document_id,
            position + len(new) + 1,
            turn.id,
            turn.content,
            turn.ts,
            role=turn.role,
            author=owner.slug,
            author_id=owner.id,
            data=data,
        )
        passage_id = known.get(turn.id)
        if passage_id is None:
            new.append(passage)
        elif rewrite:
            at, encoded = micros(turn.ts), documents.encode_data(data)
            changed.append((passage_id, turn.role, turn.content, at, encoded, checksum_of(turn.content)))
            row_of = partial(documents.index_row, "sessions", passage)
            change.index_text(passage_id, len(turn.content), row_of, is_new=False)
    if changed:
        change.run_rows("replace_turns", changed)
    documents.add_passages(change, "sessions", new)
    if facts != old:
        change.run("set_session_data", id=document_id, data=documents.encode_data(facts))
    if new:
        last = max(turn.ts for turn in turns if turn.id not in known)
        change.run("touch_document", id=document_id, modified_at=micros(last))


def title_of(text: str) -> str:
    """The first line of a text, shortened."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= TITLE_LENGTH else line[: TITLE_LENGTH - 1].rstrip() + "…"


def refile(change: Change, owner: Owner, target: Owner, session_id: str, project: str, file: str, size: int) -> None:
    """Give an indexed session to another agent, or the same one, and set its project, as `Transcripts.move` did."""
    found = _session(change, owner, session_id)
    change.run("forget_mark", agent_id=owner.id, file=file)
    if found is None:
        return
    if owner.id != target.id and _session(change, target, session_id):
        documents.remove_document(change, found["id"])  # the new file was indexed before this was done
        return
    data = {**orjson.loads(found["data"]), "project": project}
    name = native_id(target.id, session_id)
    change.run("refile_session", id=found["id"], native_id=name, agent_id=target.id)
    change.run("refile_turns", document_id=found["id"], author=target.slug, author_id=target.id)
    documents.set_project(change, "sessions", found["id"], data)
    move_mark(change, target, file, size)


def forget(change: Change, owner: Owner, session_id: str, file: str) -> bool:
    """Remove a session from the index. Returns whether it was there."""
    change.run("forget_mark", agent_id=owner.id, file=file)
    found = _session(change, owner, session_id)
    if found:
        documents.remove_document(change, found["id"])
    return found is not None


def take_back(change: Change, owner: Owner, session_id: str, turn_ids: Iterable[str]) -> None:
    """Remove turns from the index. The title of a session is that of its first turn. An empty session is removed."""
    found = _session(change, owner, session_id)
    if found is None:
        return
    for id in turn_ids:
        if row := change.one("passage_by_native", document_id=found["id"], native_id=id):
            documents.remove_passage(change, row["id"])
    first = change.all("passages_of_document", document_id=found["id"], after=0, limit=1)
    if first:
        change.run("retitle_session", id=found["id"], title=title_of(first[0]["text"]))
    else:
        documents.remove_document(change, found["id"])


def _rows(read: Reader, document_id: int) -> list[Row]:
    return read.all("passages_of_document", document_id=document_id, after=0, limit=2**31)


def _session(read: Reader, owner: Owner, session_id: str) -> Row | None:
    return read.one("session_document", native_id=native_id(owner.id, session_id))


def recorded_by(read: Reader, session_id: str, agent_ids: list[str]) -> str | None:
    """Which of these agents a session was recorded for."""
    names = {native_id(agent_id, session_id): agent_id for agent_id in agent_ids}
    row = read.one("session_of_agents", native_ids=orjson.dumps(list(names)).decode()) if names else None
    return names[row["native_id"]] if row else None


@dataclass(frozen=True, slots=True)
class FiledSession:
    """Where a session is filed. Without a program, it was recorded by an earlier version or through a door."""

    agent_id: str
    session_id: str
    project: str
    program: str


def filed(read: Reader, agent_id: str | None = None) -> list[FiledSession]:
    """Where the sessions of an agent, or of all agents, are filed, the latest first."""
    rows = [(row["agent_id"], orjson.loads(row["data"])) for row in read.all("filed_sessions", agent_id=agent_id)]
    return [FiledSession(id, one["session_id"], one.get("project") or "", one.get("program") or "") for id, one in rows]


def is_known(read: Reader, owner: Owner, session_id: str) -> bool:
    return _session(read, owner, session_id) is not None


def project_of(read: Reader, agent_id: str, session_id: str) -> str | None:
    """The project of a session; None if it has none or does not exist."""
    found = read.one("session_document", native_id=native_id(agent_id, session_id))
    return _project(found) if found else None


def turns_of(read: Reader, owner: Owner, session_id: str) -> list[Turn]:
    """All turns of a session that are in the index."""
    found = _session(read, owner, session_id)
    return [_turn(row, owner.id, session_id, _project(found)) for row in _rows(read, found["id"])] if found else []


def find_turn(read: Reader, owner: Owner, session_id: str, turn_id: str) -> Turn | None:
    found = _session(read, owner, session_id)
    row = read.one("passage_by_native", document_id=found["id"], native_id=turn_id) if found else None
    return _turn(row, owner.id, session_id, _project(found)) if found and row else None


def turns(read: Reader, owner: Owner, session_id: str, after: int, limit: int) -> list[Turn]:
    """A page of the turns of a session."""
    found = must_be_found(_session(read, owner, session_id), "session", session_id, "List sessions to see which exist.")
    rows = read.all("passages_of_document", document_id=found["id"], after=after, limit=limit)
    return [_turn(row, owner.id, session_id, _project(found)) for row in rows]


def scopes_of(read: Reader, session_id: str, agent_names: Iterable[str | None]) -> tuple[str, ...]:
    """The index tokens of the documents of a session that one of these agents may have recorded."""
    owners = [agent for name in agent_names if name and (agent := agents.named(read, name))]
    found = [read.one("session_document", native_id=native_id(owner.id, session_id)) for owner in owners]
    return tuple(dict.fromkeys(document_scope(row["id"]) for row in found if row))


def _turn(row: Row, agent_id: str, session_id: str, project: str | None) -> Turn:
    ts = instant(row["created_at"])
    return Turn(row["native_id"], session_id, agent_id, row["role"], row["text"], ts, ts, project)


def list_sessions(read: Reader, groups: str | None, limit: int, offset: int) -> list[SessionInfo]:
    """The latest sessions of these groups (see `sharing.readable_groups`), or of all."""
    rows = read.all("sessions_of_groups", groups=groups, limit=limit, offset=offset)
    return [
        from_row(
            SessionInfo,
            (facts := orjson.loads(row["data"])) | row,
            project=facts.get("project"),
            program=facts.get("program") or row["client"] or None,
            last_turn_at=instant(row["modified_at"]),
        )
        for row in rows
    ]


def _project(document: Row) -> str | None:
    found: str | None = orjson.loads(document["data"]).get("project")
    return found


def turns_by_passage(read: Reader, passage_ids: list[int]) -> dict[int, Turn]:
    """The turns with these passage ids."""
    rows = read.all("found_turns", ids=orjson.dumps(passage_ids).decode())
    return {
        row["passage_id"]: _turn(
            row, row["agent_id"], row["document"].removeprefix(f"{row['agent_id']}/"), _project(row)
        )
        for row in rows
    }


def known_turns(read: Reader, owner: Owner, session_id: str, ids: Iterable[str]) -> set[str]:
    """The ids of this list that a session has."""
    found = _session(read, owner, session_id)
    return set(_known_turns(read, found["id"], ids)) if found else set()


def _known_turns(read: Reader, document_id: int, ids: Iterable[str]) -> dict[str, int]:
    """The passages of turns with these ids, by id."""
    return dict(read.rows("known_turns", document_id=document_id, ids=orjson.dumps(list(ids)).decode()))


# Marks of the session files of other programs: how far each was read. A mark moves after the turns are recorded. A
# process that stops in between reads some turns again, and recognises them by their ids.


def file_marks(read: Reader, paths: Iterable[str] | None = None) -> dict[str, Mark]:
    """The marks of these files and of the sessions in them, by path; of all files by default."""
    if paths is None:
        rows = read.all("watched_files")
    else:
        rows = [row for path in paths for row in read.all("watched_file", path=path)]
    return {row["path"]: Mark(**row) for row in rows}


def keep_file_mark(change: Change, mark: Mark, instead_of: str | None = None) -> None:
    """Store a mark. `instead_of` is the previous name of the file."""
    if instead_of is not None:
        change.run("forget_watched", path=instead_of)
    change.run("keep_watched", **params_of(mark))


# Open points of sessions that were closed


def closed_points(read: Reader) -> dict[str, datetime]:
    """When each point was closed, by its id."""
    return {row["point"]: instant(row["closed_at"]) for row in read.all("closed_points")}


def close_point(change: Change, point: str, at: datetime, by: str) -> None:
    change.run("close_point", point=point, closed_at=micros(at), closed_by=by)
