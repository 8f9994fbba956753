"""Forget: remove a session, a text or a period everywhere, for good, and keep it from coming back.

First the tombstones are written, then transcripts, then tables and index; last the files are rewritten. If this stops
in between, it can be run again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from palaver.errors import NotFound, Refused
from palaver.model.admin.audit import signature
from palaver.model.events import message_deleted, thread_deleted
from palaver.model.people import Caller, program_of
from palaver.model.requests import Date, Id, Line, Project, Request, Text
from palaver.model.sessions import Owner
from palaver.model.times import between_dates, micros
from palaver.operations.operation import Route, operation
from palaver.operations.sessions.sessions import delete_recorded
from palaver.store.admin import forget as store
from palaver.store.admin import trash
from palaver.store.admin.forget import FoundDocument, ToForget
from palaver.store.bus import agents, messages, threads
from palaver.store.engines.database import Change, Reader
from palaver.store.search import search_sessions
from palaver.store.sessions import sessions
from palaver.store.sessions.forgotten import turn_key
from palaver.store.sessions.transcripts import Transcripts
from palaver.store.workspaces import Workspace

MOST_LISTED = 1_000
SHORTEST_TEXT = 3
KINDS = {"sessions": "session", "archive": "conversation", "bus": "thread", "chats": "chat"}


class Forget(Request):
    session: Id | None = None
    """Id of a session, or of an imported conversation."""
    text: Text | None = None
    """Everything that contains this text, in any case. At least 3 characters."""
    since: Date | None = None
    """Everything said at this time or later."""
    until: Date | None = None
    """Everything said up to this time."""
    agent: Id | None = None
    """Only of this agent (id or slug)."""
    program: Line | None = None
    """Only of this program, e.g. claude-code."""
    project: Project | None = None
    """Only of this project: path, address or name."""
    dry_run: bool = False
    """List what would be removed, and remove nothing."""


@dataclass(frozen=True, slots=True)
class ForgottenPart:
    """Something that contains what is forgotten. `count` is the number of turns or messages that are removed."""

    kind: str
    id: str
    title: str
    count: int
    whole: bool


@dataclass(frozen=True, slots=True)
class ForgetAnswer:
    """What was removed, or would be. `items` has at most 1,000 entries; `counts` has all of them, by kind."""

    dry_run: bool
    counts: dict[str, int]
    items: list[ForgottenPart]


@dataclass(slots=True)
class _OldSession:
    """A session of which turns are to be forgotten."""

    owner: Owner
    session_id: str
    title: str = ""
    is_whole: bool = False
    turn_ids: set[str] = field(default_factory=set)


@operation(Route("POST", "/api/forget"))
async def forget(workspace: Workspace, caller: Caller, request: Forget) -> ForgetAnswer:
    """Permanently remove a session, a text or a period from sessions, imports, the library, threads and events.

    A watch, an import or a rebuild does not bring it back. Try it with dry_run first.
    """
    wanted = await workspace.read(lambda read: _wanted(read, request))
    found = await workspace.read(lambda read: store.find(read, wanted))
    rows = await workspace.read(lambda read: store.find_rows(read, wanted))
    known = await workspace.read(agents.everyone)
    owners = {agent.id: Owner(agent.id, agent.slug, agent.name) for agent in known}
    recorded = _indexed_sessions(found, owners)
    await asyncio.to_thread(_find_in_files, workspace.transcripts, wanted, owners, recorded)
    items = [*_sessions_shown(recorded), *_documents_shown(found)]
    items += [ForgottenPart(kind, id, "", 1, True) for kind, ids in rows.items() for id in ids]
    counts: dict[str, int] = {}
    for item in items:
        counts[item.kind] = counts.get(item.kind, 0) + 1
    counts |= {"turns and messages": sum(item.count for item in items)} if items else {}
    answer = ForgetAnswer(request.dry_run, counts, items[:MOST_LISTED])
    if request.dry_run:
        return answer
    keys = {turn_key(one.session_id, id) for one in recorded.values() for id in one.turn_ids}
    keys |= await workspace.read(lambda read: {key for one in found for key in store.keys_of(read, one, wanted)})
    await asyncio.to_thread(workspace.forgotten.add, keys)
    for one in recorded.values():
        if one.is_whole:
            await delete_recorded(workspace, one.owner, one.session_id)
        else:
            await asyncio.to_thread(workspace.transcripts.forget, one.owner, one.session_id, one.turn_ids)
            forget_turns = partial(
                sessions.take_back, owner=one.owner, session_id=one.session_id, turn_ids=one.turn_ids
            )
            await workspace.change(forget_turns)
    for document in found:
        if document.source != "sessions":
            await workspace.change(partial(_forget_document, document=document, wanted=wanted))
    await workspace.change(lambda change: store.remove_rows(change, rows))
    await workspace.change(trash.forget_events)
    after: int | None = 0
    while wanted.text is not None and not wanted.is_narrow and after is not None:
        after = await workspace.change(partial(store.scrub_events, wanted=wanted, after=after))
    await workspace.change(store.scrub_marks)
    await workspace.change(search_sessions.forget_all)
    await asyncio.to_thread(_forget_in_other_files, workspace, wanted, owners)
    await asyncio.to_thread(workspace.engine.wipe)
    if workspace.keyring:
        facts: dict[str, str | int] = {kind.replace(" ", "_"): count for kind, count in counts.items()}
        await workspace.keyring.note("deletion", signature(caller), "forget", facts)
    return answer


def _wanted(read: Reader, request: Forget) -> ToForget:
    since, until = between_dates(request.since, request.until)
    chosen = None
    if request.agent is not None:
        agent = agents.named(read, request.agent)
        if agent is None:
            raise NotFound("agent", request.agent, "List agents to see the known ones.")
        chosen = frozenset([agent.id])
    program = program_of(request.program) if request.program else None
    if program:
        of_program = {one.id for one in agents.everyone(read) if program in (one.client, program_of(one.slug))}
        chosen = frozenset(of_program) if chosen is None else chosen & of_program
    if request.text is not None and len(request.text.strip()) < SHORTEST_TEXT:
        raise Refused("The text to forget is too short: it needs at least 3 characters.")
    wanted = ToForget(request.text, since, until, request.session, chosen, program, request.project)
    if not wanted.is_narrow and not wanted.is_by_passage:
        raise Refused("Say what to forget: a session, a text, a period (since, until), an agent, program or project.")
    return wanted


# Sessions


def _indexed_sessions(found: list[FoundDocument], owners: dict[str, Owner]) -> dict[tuple[str, str], _OldSession]:
    recorded = {}
    for one in found:
        if one.source == "sessions" and one.agent_id:
            owner = owners.get(one.agent_id) or Owner(one.agent_id, one.agent_id, one.agent_id)
            ids = set(one.passages.values())
            recorded[owner.slug, one.session_id] = _OldSession(owner, one.session_id, one.title, one.is_whole, ids)
    return recorded


def _find_in_files(
    transcripts: Transcripts, wanted: ToForget, owners: dict[str, Owner], found: dict[tuple[str, str], _OldSession]
) -> None:
    """Add the turns of the transcripts: also those that were taken back, and those that are not indexed."""
    by_slug = {owner.slug: owner for owner in owners.values()}
    for owner in transcripts.owners():
        owner = by_slug.get(owner.slug, owner)
        if not wanted.is_of_agent(owner.id):
            continue
        for transcript in transcripts.everything_of(owner):
            project = None
            for turn in transcripts.everything_in(transcript):
                project = turn.project or project
                known = found.get((owner.slug, turn.session_id))
                is_of_project = wanted.is_of_project(project) or known is not None
                if not wanted.is_of_session(turn.session_id) or not is_of_project:
                    continue
                if not wanted.is_by_passage or wanted.holds_for(turn.content, micros(turn.ts)):
                    if known is None:
                        known = _OldSession(owner, turn.session_id, is_whole=not wanted.is_by_passage)
                        found[owner.slug, turn.session_id] = known
                    known.turn_ids.add(turn.id)


def _forget_in_other_files(workspace: Workspace, wanted: ToForget, owners: dict[str, Owner]) -> None:
    """Erase turns that a rebuild saved in the folder 'discarded', and lines with the text that cannot be read."""
    saved = workspace.settings.data / "discarded" / workspace.name
    for place in [workspace.transcripts, *(Transcripts(folder) for folder in saved.glob("*") if folder.is_dir())]:
        if place is not workspace.transcripts:
            found: dict[tuple[str, str], _OldSession] = {}
            _find_in_files(place, wanted, owners, found)
            for one in found.values():
                place.forget(one.owner, one.session_id, one.turn_ids)
        if wanted.text is not None:
            for path in [*place.folder.glob("*/*.damaged"), *place.folder.glob("*/*.jsonl")]:
                if path.name != "deleted.jsonl":
                    place.erase_unreadable(path, wanted.contains)


# Everything else


def _forget_document(change: Change, document: FoundDocument, wanted: ToForget) -> None:
    if document.source != "bus":
        store.remove_conversation(change, document, wanted)
        return
    if document.is_whole:
        if thread := threads.find(change, document.native_id):
            threads.remove(change, thread)
            change.tell(thread_deleted(thread.thread))
        return
    threads.lock(change, document.id)
    for id in document.passages.values():
        if stored := messages.find(change, id):
            messages.remove(change, stored)
            change.tell(message_deleted(stored.message))


# The list


def _sessions_shown(recorded: dict[tuple[str, str], _OldSession]) -> Iterator[ForgottenPart]:
    for one in recorded.values():
        yield ForgottenPart("session", one.session_id, one.title, len(one.turn_ids), one.is_whole)


def _documents_shown(found: list[FoundDocument]) -> Iterator[ForgottenPart]:
    for one in found:
        if one.source != "sessions":
            kind = KINDS.get(one.source, one.source.removesuffix("s"))
            count = len(one.passages) + one.has_branches if one.source in KINDS else 1
            yield ForgottenPart(kind, one.native_id, one.title, count, one.is_whole)
