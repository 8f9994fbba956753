"""The index of sessions: bring it up to date with the transcripts, rebuild it, compare it with them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import islice
from math import inf
from typing import TypeVar

from palaver.errors import Conflict, Timeout
from palaver.model.sessions import Owner, Turn
from palaver.store.bus import agents
from palaver.store.engines.database import Change, Reader
from palaver.store.sessions import sessions
from palaver.store.sessions.transcripts import Line as TranscriptLine
from palaver.store.sessions.transcripts import Transcript
from palaver.store.workspaces import Workspace

log = logging.getLogger("palaver")

INDEXED_AT_ONCE = 500
"""Turns in one change while catching up."""
REINDEXED_AT_ONCE = 2_000
"""Turns in one change while rebuilding."""
REINDEXED_TOGETHER = 16
"""Transcripts that are read at the same time while rebuilding. Their changes share transactions."""
NAMED = 10
"""How many files or lines a warning names."""
TRIES, WAIT_SECONDS = 5, 0.1
"""How often a conflicting change is tried, and the wait in between."""

T = TypeVar("T")


async def catch_up(workspace: Workspace, transcript: Transcript) -> int:
    """Index the turns that a transcript has beyond its mark. Returns their number."""
    done = 0
    owner, file = transcript.owner, transcript.path.name
    while True:
        start = await workspace.read(lambda read: sessions.mark(read, owner.id, file))
        if transcript.size < start:  # the file was cut short: indexed turns stay, and the rest is read again
            await workspace.change(lambda change: sessions.move_mark(change, owner, file, 0))
            start = 0
        before = (await asyncio.to_thread(workspace.transcripts.tombstones, owner)).sessions
        coming = islice(workspace.transcripts.lines(transcript, start), INDEXED_AT_ONCE)
        lines = await asyncio.to_thread(list[TranscriptLine], coming)
        if not lines or lines[-1].end == start:  # nothing more can be read
            return done
        turns = [line.turn for line in lines if line.turn]
        step = partial(sessions.index, owner=owner, file=file, turns=turns, start=start, end=lines[-1].end)
        if await _retry(workspace, step):
            is_gone = await _forget_deleted(workspace, transcript, {turn.session_id for turn in turns}, before)
            done += 0 if is_gone else len(turns)


async def _retry(workspace: Workspace, step: Callable[[Change], T]) -> T:
    """Make a change, again after conflicts: another process may be writing the same turns."""
    for _ in range(TRIES - 1):
        try:
            return await workspace.change(step)
        except (Conflict, Timeout):
            await asyncio.sleep(WAIT_SECONDS)
    return await workspace.change(step)


async def _forget_deleted(
    workspace: Workspace, transcript: Transcript, session_ids: Collection[str], before: dict[str, datetime]
) -> bool:
    """Remove sessions from the index that were deleted while they were indexed. Returns whether there were any."""
    owner, file = transcript.owner, transcript.path.name
    stones = (await asyncio.to_thread(workspace.transcripts.tombstones, owner)).sessions
    gone = [session_id for session_id in session_ids if stones.get(session_id) != before.get(session_id)]
    for session_id in gone:
        await workspace.change(partial(sessions.forget, owner=owner, session_id=session_id, file=file))
    return bool(gone)


async def catch_up_all(workspace: Workspace) -> int:
    """Index everything that was recorded without the index: at start-up, and after problems."""
    owners = await _owners(workspace)
    if not owners or not workspace.settings.sessions_index:
        return 0
    transcripts = await _transcripts(workspace, owners)
    done = 0
    known = await workspace.read(sessions.marks)
    for owner in owners:  # deletions may have been interrupted
        stones = await asyncio.to_thread(workspace.transcripts.tombstones, owner)
        for session_id in stones.sessions:
            transcript = workspace.transcripts.of(owner, session_id)
            if (owner.id, transcript.path.name) in known and not await _has_turns(workspace, transcript, session_id):
                await forget(workspace, transcript, session_id)
        ids: dict[str, set[str]] = {}
        for session_id, turn_id in stones.turns:
            ids.setdefault(session_id, set()).add(turn_id)
        for session_id, taken in ids.items():  # lines that are gone from the transcript
            find = partial(sessions.known_turns, owner=owner, session_id=session_id, ids=taken)
            if left := await workspace.read(find):
                transcript = workspace.transcripts.of(owner, session_id)
                if gone := left - await asyncio.to_thread(workspace.transcripts.turn_ids, transcript):
                    take_back = partial(sessions.take_back, owner=owner, session_id=session_id, turn_ids=gone)
                    await workspace.change(take_back)
    for transcript in transcripts:
        if transcript.size != known.get((transcript.owner.id, transcript.path.name), 0):
            await asyncio.to_thread(workspace.transcripts.close_torn_line, transcript)
            done += await catch_up(workspace, transcript)
    return done


async def _transcripts(workspace: Workspace, owners: list[Owner]) -> list[Transcript]:
    found = (one for owner in owners for one in workspace.transcripts.everything_of(owner))
    return await asyncio.to_thread(list, found)


async def _owners(workspace: Workspace, *, restore: bool = True) -> list[Owner]:
    """The agents with transcripts, under their ids in the database. Agents that only transcripts know are restored."""
    owners = await asyncio.to_thread(lambda: list(workspace.transcripts.owners()))
    workspace.known_agents = known = await workspace.read(agents.everyone)
    ids, by_slug = {agent.id for agent in known}, {agent.slug: agent.id for agent in known}
    for owner in owners:
        if restore and owner.id not in ids and owner.slug not in by_slug:
            await workspace.change(partial(agents.restore, owner=owner))
    return [owner if owner.id in ids else replace(owner, id=by_slug.get(owner.slug, owner.id)) for owner in owners]


async def _has_turns(workspace: Workspace, transcript: Transcript, session_id: str) -> bool:
    lines = workspace.transcripts.lines(transcript)
    said = (line.turn is not None and line.turn.session_id == session_id for line in lines)
    return await asyncio.to_thread(any, said)


async def forget(workspace: Workspace, transcript: Transcript, session_id: str) -> None:
    owner, file = transcript.owner, transcript.path.name
    await workspace.change(lambda change: sessions.forget(change, owner, session_id, file))
    await catch_up(workspace, transcript)  # the session may have new turns by now


Progress = Callable[[int], None]
"""Called with the number of bytes read since the last call."""


@dataclass(slots=True)
class Rebuilt:
    """What a rebuild did. `kept`: turns that no transcript has, which stay in the index as they were."""

    turns: int
    kept: list[OnlyInIndex]
    unreadable: list[str]
    """The places of lines that cannot be read: 'bot/s-1.jsonl line 4'."""

    @property
    def warnings(self) -> list[str]:
        found = []
        if self.unreadable:
            count = "1 line" if len(self.unreadable) == 1 else f"{len(self.unreadable):,} lines"
            found.append(f"{count} of transcripts cannot be read: {some_of(self.unreadable)}.")
        if self.kept:
            found.append(f"{describe_missing(self.kept)} {HOW_TO_GO_ON}")
        return found


async def reindex(
    workspace: Workspace, progress: Progress = lambda read: None, *, discard_missing: bool = False
) -> Rebuilt:
    """Rebuild the index from the transcripts, in small changes, while the server runs.

    No indexed turn disappears in between. Lines that cannot be read are passed over. Turns that the index has and no
    transcript has are kept. With `discard_missing` they are saved in a folder of their own, then removed.
    """
    alone = await only_in_index(workspace)
    if discard_missing and alone:
        await asyncio.to_thread(workspace.keep_discarded, [(one.owner, one.session_id, one.turns) for one in alone])
    kept = [] if discard_missing else alone
    keep = {(one.owner.id, one.session_id): {turn.id for turn in one.turns} for one in kept}
    rebuilt = Rebuilt(sum(len(one.turns) for one in kept), kept, [])
    transcripts = await _transcripts(workspace, await _owners(workspace))
    for first in range(0, len(transcripts), REINDEXED_TOGETHER):
        some = transcripts[first : first + REINDEXED_TOGETHER]
        for unreadable in await asyncio.gather(*(_rebuild(workspace, one, keep, progress, rebuilt) for one in some)):
            rebuilt.unreadable += unreadable
    dropped = {(one.owner.id, one.session_id) for one in alone} - keep.keys()
    for transcript, id in await _indexed_sessions(workspace):
        owner, session = transcript.owner, (transcript.owner.id, id)
        stones = await asyncio.to_thread(workspace.transcripts.tombstones, owner)
        is_unwanted = session in dropped or (id in stones.sessions and session not in keep)
        if is_unwanted and not await _has_turns(workspace, transcript, id):
            await forget(workspace, transcript, id)
    return rebuilt


async def _rebuild(
    workspace: Workspace,
    transcript: Transcript,
    keep: dict[tuple[str, str], set[str]],
    progress: Progress,
    rebuilt: Rebuilt,
) -> list[str]:
    """Put the turns of a transcript into the index again, and remove those that it does not have, but for `keep`.

    Returns the places of lines that cannot be read.
    """
    owner, file = transcript.owner, transcript.path.name
    await asyncio.to_thread(workspace.transcripts.close_torn_line, transcript)
    before = (await asyncio.to_thread(workspace.transcripts.tombstones, owner)).sessions
    lines = workspace.transcripts.lines(transcript)
    ids: dict[str, set[str]] = {}
    unreadable: list[str] = []
    start, total, is_last = 0, 0, False
    while not is_last:
        some = await asyncio.to_thread(list[TranscriptLine], islice(lines, REINDEXED_AT_ONCE))
        end, is_last = some[-1].end if some else start, len(some) < REINDEXED_AT_ONCE
        turns = []
        for number, line in enumerate(some, total + 1):
            if line.problem:
                unreadable.append(f"{owner.slug}/{file} line {number:,}")
            if line.turn and line.turn.id not in (seen := ids.setdefault(line.turn.session_id, set())):
                seen.add(line.turn.id)  # of turns with the same id the first counts
                turns.append(line.turn)
        total += len(some)
        rebuilt.turns += len(turns)

        def put(change: Change, turns: list[Turn] = turns, end: int = end, is_last: bool = is_last) -> None:
            change.room = inf  # index rows that follow later would make turns disappear in between
            sessions.put(change, owner, turns, rewrite=True)
            if is_last:
                kept = {
                    session_id: known | keep.get((owner.id, session_id), set()) for session_id, known in ids.items()
                }
                tail = (line.turn for line in workspace.transcripts.lines(transcript, end) if line.turn)
                sessions.finish_rebuild(change, owner, file, kept, end, tail)

        await _retry(workspace, put)
        progress(end - start)
        start = end
    await _forget_deleted(workspace, transcript, ids, before)
    if transcript.size != start:
        await catch_up(workspace, transcript)
    return unreadable


# Turns whose transcript is missing

HOW_TO_GO_ON = (
    "They were kept in the index. Restore the files (is a disk not mounted?), or pass --discard-missing to remove "
    "these turns from the index. They are then saved in the folder 'discarded'."
)


@dataclass(frozen=True, slots=True)
class OnlyInIndex:
    """Turns of one session that are in the index but in no transcript, and were not deleted."""

    owner: Owner
    session_id: str
    file: str
    turns: list[Turn]


async def only_in_index(workspace: Workspace) -> list[OnlyInIndex]:
    """The turns that a rebuild from the transcripts would lose."""
    found = []
    for transcript, id in await _indexed_sessions(workspace, restore=False):
        owner = transcript.owner
        # The index is read first: every turn in it was in the transcript before.
        turns = await workspace.read(partial(sessions.turns_of, owner=owner, session_id=id))
        await asyncio.to_thread(workspace.transcripts.close_torn_line, transcript)
        recorded = await asyncio.to_thread(workspace.transcripts.turn_ids, transcript)
        stones = await asyncio.to_thread(workspace.transcripts.tombstones, owner)
        gone = {turn_id for session_id, turn_id in stones.turns if session_id == id} | recorded
        if left := [turn for turn in turns if turn.id not in gone and not stones.cover(turn)]:
            found.append(OnlyInIndex(owner, id, transcript.path.name, left))
    return found


NO_TRANSCRIPT = "in no transcript"


def describe_missing(alone: list[OnlyInIndex]) -> str:
    count = sum(len(one.turns) for one in alone)
    turns = "1 turn is" if count == 1 else f"{count:,} turns are"
    files = some_of([f"{one.owner.slug}/{one.file}" for one in alone])
    return f"{turns} in the index and {NO_TRANSCRIPT}: transcripts are missing, damaged or were cut short ({files})."


def some_of(places: list[str]) -> str:
    more = f" and {len(places) - NAMED:,} more" if len(places) > NAMED else ""
    return ", ".join(places[:NAMED]) + more


async def _indexed_sessions(workspace: Workspace, *, restore: bool = True) -> list[tuple[Transcript, str]]:
    """All sessions of the index, with their transcripts."""
    owners = {owner.id: owner for owner in await _owners(workspace, restore=restore)}

    def all_sessions(read: Reader) -> list[tuple[Transcript, str]]:
        found = []
        for one in sessions.filed(read):
            agent = None if one.agent_id in owners else agents.find(read, one.agent_id)
            unknown = Owner.of(agent) if agent else Owner(one.agent_id, one.agent_id, one.agent_id)
            owner = owners.get(one.agent_id, unknown)
            found.append((workspace.transcripts.of(owner, one.session_id), one.session_id))
        return found

    return await workspace.read(all_sessions)


@dataclass(frozen=True, slots=True)
class Difference:
    agent: str
    file: str
    missing: int
    extra: int
    different: int
    unreadable: int

    @property
    def is_fine(self) -> bool:
        return not (self.missing or self.extra or self.different)


async def verify(workspace: Workspace) -> list[Difference]:
    """Compare every transcript with the index. Nothing is changed."""
    transcripts = await _transcripts(workspace, await _owners(workspace, restore=False))
    found = []
    for transcript in transcripts:
        lines = await asyncio.to_thread(lambda one: list(workspace.transcripts.lines(one)), transcript)
        found.append(await workspace.read(partial(_compare, transcript=transcript, lines=lines)))
    seen = {(difference.agent, difference.file): n for n, difference in enumerate(found)}
    for transcript, id in await _indexed_sessions(workspace, restore=False):
        if await _has_turns(workspace, transcript, id):
            continue
        agent, file = transcript.owner.slug, transcript.path.name
        extra = len(await workspace.read(partial(sessions.turns_of, owner=transcript.owner, session_id=id)))
        if (n := seen.get((agent, file))) is not None:
            found[n] = replace(found[n], extra=found[n].extra + extra)
        else:
            found.append(Difference(agent, file, 0, extra, 0, 0))
    return found


def _compare(read: Reader, transcript: Transcript, lines: list[TranscriptLine]) -> Difference:
    wanted: dict[str, dict[str, tuple[str, str]]] = {}
    for line in lines:
        if line.turn:
            wanted.setdefault(line.turn.session_id, {}).setdefault(line.turn.id, (line.turn.role, line.turn.content))
    missing = extra = different = 0
    for session_id, turns in wanted.items():
        have = {one.id: (one.role, one.content) for one in sessions.turns_of(read, transcript.owner, session_id)}
        missing += len(turns.keys() - have.keys())
        extra += len(have.keys() - turns.keys())
        different += sum(have[id] != turns[id] for id in turns.keys() & have.keys())
    unreadable = sum(line.problem is not None for line in lines)
    return Difference(transcript.owner.slug, transcript.path.name, missing, extra, different, unreadable)
