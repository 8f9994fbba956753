"""Keeping the index of sessions up with their transcripts: catching up, making it again, comparing the two."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TypeVar

from palaver.errors import Conflict, Timeout
from palaver.model.sessions import Owner, Turn
from palaver.store.bus import agents
from palaver.store.engines.database import Change, Reader
from palaver.store.sessions import followed_files, sessions
from palaver.store.sessions.sessions import SessionInfo
from palaver.store.sessions.transcripts import Line as TranscriptLine
from palaver.store.sessions.transcripts import Transcript
from palaver.store.workspaces import Workspace

log = logging.getLogger("palaver")

INDEXED_AT_ONCE = 500
REINDEXED_AT_ONCE = 2_000
TRIES, WAIT_SECONDS = 5, 0.1

T = TypeVar("T")


async def catch_up(here: Workspace, transcript: Transcript) -> int:
    """Index what a transcript has beyond its mark. Returns how many turns that were."""
    done = 0
    while (more := await _index_some(here, transcript)) is not None:
        done += more
    return done


async def _index_some(here: Workspace, transcript: Transcript) -> int | None:
    """The next few turns; None when there are none."""
    owner, file = transcript.owner, transcript.path.name
    start = await here.read(lambda read: sessions.mark(read, owner.id, file))
    if transcript.size < start:  # cut short from outside: what was recorded stays, the rest is read again
        start = await here.change(lambda change: sessions.reset_mark(change, owner, file))
    before = await asyncio.to_thread(here.transcripts.tombstones, owner)
    lines = await asyncio.to_thread(lambda: list(islice(here.transcripts.lines(transcript, start), INDEXED_AT_ONCE)))
    if not lines:
        return None
    turns = [line.turn for line in lines if line.turn]
    if not await _patiently(here, lambda change: sessions.index(change, owner, file, turns, start, lines[-1].end)):
        return 0
    is_gone = await _forget_deleted(here, transcript, {turn.session_id for turn in turns}, before)
    return 0 if is_gone else len(turns)


async def _patiently(here: Workspace, step: Callable[[Change], T]) -> T:
    """A step that may be taken again as often as one likes: who writes the same turns just now may be in its way."""
    for _ in range(TRIES - 1):
        try:
            return await here.change(step)
        except (Conflict, Timeout):
            await asyncio.sleep(WAIT_SECONDS)
    return await here.change(step)


async def _forget_deleted(
    here: Workspace, transcript: Transcript, session_ids: Collection[str], before: dict[str, datetime]
) -> bool:
    """Whoever was deleted between our reading it and our writing it leaves the index again. Tells whether any was."""
    owner, file = transcript.owner, transcript.path.name
    stones = await asyncio.to_thread(here.transcripts.tombstones, owner)
    gone = [session_id for session_id in session_ids if stones.get(session_id) != before.get(session_id)]
    for session_id in gone:
        await here.change(partial(sessions.forget, owner=owner, session_id=session_id, file=file))
    return bool(gone)


async def catch_up_all(here: Workspace) -> int:
    """Whatever was recorded while the index was away: at start-up, and after trouble."""
    transcripts = await _transcripts(here)
    if not here.settings.sessions_index:
        return 0
    done = 0
    known = await here.read(sessions.marks)
    await _finish_deleting(here, known)
    for transcript in transcripts:
        if transcript.size != known.get((transcript.owner.id, transcript.path.name), 0):
            await asyncio.to_thread(here.transcripts.close_torn_line, transcript)
            done += await catch_up(here, transcript)
    return done


async def _transcripts(here: Workspace, *, bring_back: bool = True) -> list[Transcript]:
    owners = await _owners(here, bring_back=bring_back)
    return await asyncio.to_thread(lambda: [one for owner in owners for one in here.transcripts.everything_of(owner)])


async def _owners(here: Workspace, *, bring_back: bool = True) -> list[Owner]:
    """Whoever has transcripts, under the id the database knows; who is only known from transcripts is brought back."""
    owners = await asyncio.to_thread(lambda: list(here.transcripts.owners()))
    known = await here.read(agents.everyone)
    ids, by_slug = {agent.id for agent in known}, {agent.slug: agent.id for agent in known}
    for owner in owners:
        if bring_back and owner.id not in ids and owner.slug not in by_slug:
            await here.change(partial(agents.restore, agent_id=owner.id, slug=owner.slug, name=owner.name))
    return [owner if owner.id in ids else replace(owner, id=by_slug.get(owner.slug, owner.id)) for owner in owners]


async def _finish_deleting(here: Workspace, known: dict[tuple[str, str], int]) -> None:
    """Sessions with a tombstone that are still in the index: their deletion was interrupted."""
    for owner in await _owners(here):
        for session_id in await asyncio.to_thread(here.transcripts.tombstones, owner):
            transcript = here.transcripts.of(owner, session_id)
            if (owner.id, transcript.path.name) in known and not await _has_turns(here, transcript, session_id):
                await forget(here, transcript, session_id)
        await _finish_taking_back(here, owner)


async def _finish_taking_back(here: Workspace, owner: Owner) -> None:
    """Turns that were taken back and are still in the index, although no line has them."""
    ids: dict[str, set[str]] = {}
    for session_id, turn_id in await asyncio.to_thread(here.transcripts.taken_back, owner):
        ids.setdefault(session_id, set()).add(turn_id)
    for session_id, taken in ids.items():
        if left := await here.read(partial(followed_files.known, owner=owner, session_id=session_id, ids=taken)):
            recorded = await asyncio.to_thread(here.transcripts.turn_ids, here.transcripts.of(owner, session_id))
            if gone := left - recorded:
                await here.change(partial(sessions.take_back, owner=owner, session_id=session_id, turn_ids=gone))


async def _has_turns(here: Workspace, transcript: Transcript, session_id: str) -> bool:
    def look() -> bool:
        lines = here.transcripts.lines(transcript)
        return any(line.turn is not None and line.turn.session_id == session_id for line in lines)

    return await asyncio.to_thread(look)


async def forget(here: Workspace, transcript: Transcript, session_id: str) -> None:
    owner, file = transcript.owner, transcript.path.name
    await here.change(lambda change: sessions.forget(change, owner, session_id, file))
    await catch_up(here, transcript)  # somebody may have begun it anew meanwhile


Progress = Callable[[int], None]
"""Told how many more bytes have been read."""


async def reindex(here: Workspace, progress: Progress = lambda read: None, *, discard_missing: bool = False) -> int:
    """Make the index again from the transcripts, piece by piece, while everything goes on.

    Every step leaves the index at least as right as it was: nothing that is there disappears in between. Turns that are
    in the index alone are not dropped: then nothing is done. With `discard_missing` they are written to a folder of
    their own first.
    """
    if alone := await only_in_index(here):
        if not discard_missing:
            raise Conflict(f"{said_of_missing(alone)} {HOW_TO_GO_ON}")
        await asyncio.to_thread(here.keep_discarded, [(one.owner, one.session_id, one.turns) for one in alone])
    done = 0
    pieces = _pieces(here, await _transcripts(here))
    coming = asyncio.create_task(asyncio.to_thread(_next_pieces, pieces))
    while portion := await coming:
        coming = asyncio.create_task(asyncio.to_thread(_next_pieces, pieces))  # read on while these are written
        await _patiently(here, partial(_put_pieces, here=here, pieces=portion))
        for piece in portion:
            done += len(piece.turns)
            progress(piece.end - piece.start)
            if piece.is_last:
                await _forget_deleted(here, piece.transcript, piece.ids, piece.stones)
                if piece.transcript.size != piece.end:
                    await catch_up(here, piece.transcript)
    dropped = {(one.owner.id, one.session_id) for one in alone}
    for transcript, info in await _orphans(here):
        is_deleted = info.session_id in await asyncio.to_thread(here.transcripts.tombstones, transcript.owner)
        if is_deleted or (transcript.owner.id, info.session_id) in dropped:
            await forget(here, transcript, info.session_id)
    return done


# Turns whose transcript is missing

HOW_TO_GO_ON = (
    "Nothing was changed. Bring the files back (is a disk not mounted?), or say --discard-missing to drop these turns "
    "from the index; they are then kept in the folder 'discarded'."
)


@dataclass(frozen=True, slots=True)
class OnlyInIndex:
    """Turns of one session that no transcript has, although nobody deleted them."""

    owner: Owner
    session_id: str
    file: str
    turns: list[Turn]


async def only_in_index(here: Workspace) -> list[OnlyInIndex]:
    """What a rebuild from the transcripts would lose."""
    owners = {owner.id: owner for owner in await _owners(here, bring_back=False)}
    found = []
    for info in await here.read(lambda read: sessions.list_sessions(read, None, limit=2**31, offset=0)):
        owner = owners.get(info.agent_id)
        if owner is None:
            owner = await here.read(partial(_owner_of_session, info=info))
        if turns := await only_indexed_turns(here, owner, info.session_id):
            found.append(
                OnlyInIndex(owner, info.session_id, here.transcripts.of(owner, info.session_id).path.name, turns)
            )
    return found


async def only_indexed_turns(here: Workspace, owner: Owner, session_id: str) -> list[Turn]:
    """The turns of a session that its transcript does not have, as far as nobody deleted them.

    The index is asked first: whatever it has by then was in the transcript before.
    """
    transcript = here.transcripts.of(owner, session_id)
    turns = await here.read(lambda read: sessions.turns_of(read, owner, session_id))
    await asyncio.to_thread(here.transcripts.close_torn_line, transcript)
    recorded = await asyncio.to_thread(here.transcripts.turn_ids, transcript)
    deleted = (await asyncio.to_thread(here.transcripts.tombstones, owner)).get(session_id)
    taken_back = await asyncio.to_thread(here.transcripts.taken_back, owner)
    return [
        turn
        for turn in turns
        if turn.id not in recorded
        and (session_id, turn.id) not in taken_back
        and not (deleted is not None and turn.ts <= deleted)
    ]


NO_TRANSCRIPT = "in no transcript"


def said_of_missing(alone: list[OnlyInIndex]) -> str:
    count, first = sum(len(one.turns) for one in alone), alone[0]
    turns = "1 turn is" if count == 1 else f"{count:,} turns are"
    return (
        f"{turns} in the index and {NO_TRANSCRIPT}: transcripts are missing or were cut short "
        f"(first {first.owner.slug}/{first.file})."
    )


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some turns of a transcript, with the ids of all turns read so far."""

    transcript: Transcript
    turns: list[Turn]
    start: int
    end: int
    is_last: bool
    ids: dict[str, set[str]]
    stones: dict[str, datetime]


def _pieces(here: Workspace, transcripts: list[Transcript]) -> Iterator[_Piece]:
    for transcript in transcripts:
        here.transcripts.close_torn_line(transcript)
        stones = here.transcripts.tombstones(transcript.owner)
        ids: dict[str, set[str]] = {}
        lines, end, is_last = here.transcripts.lines(transcript), 0, False
        while not is_last:
            some = list(islice(lines, REINDEXED_AT_ONCE))
            turns = [line.turn for line in some if line.turn and _is_first(line.turn, ids)]
            start, end = end, some[-1].end if some else end
            is_last = len(some) < REINDEXED_AT_ONCE
            yield _Piece(transcript, turns, start, end, is_last, ids, stones)


def _is_first(turn: Turn, ids: dict[str, set[str]]) -> bool:
    """The same id twice is one turn, and the first one counts."""
    seen = ids.setdefault(turn.session_id, set())
    is_first = turn.id not in seen
    seen.add(turn.id)
    return is_first


def _next_pieces(pieces: Iterator[_Piece]) -> list[_Piece]:
    """As many as make a change worth its while, and not so many that others wait for it."""
    found: list[_Piece] = []
    while sum(len(piece.turns) for piece in found) < REINDEXED_AT_ONCE and len(found) < REINDEXED_AT_ONCE:
        piece = next(pieces, None)
        if piece is None:
            break
        found.append(piece)
    return found


def _put_pieces(change: Change, here: Workspace, pieces: list[_Piece]) -> None:
    for piece in pieces:
        transcript = piece.transcript
        sessions.put(change, transcript.owner, piece.turns, rewrite=True)
        if piece.is_last:
            tail = partial(_turns_after, here, transcript, piece.end)
            sessions.finish_rebuild(change, transcript.owner, transcript.path.name, piece.ids, piece.end, tail)


def _turns_after(here: Workspace, transcript: Transcript, end: int) -> Iterator[Turn]:
    return (line.turn for line in here.transcripts.lines(transcript, end) if line.turn)


async def _orphans(here: Workspace, *, bring_back: bool = True) -> list[tuple[Transcript, SessionInfo]]:
    """Sessions in the index of which no transcript has a turn."""
    owners = {owner.id: owner for owner in await _owners(here, bring_back=bring_back)}
    found = []
    for info in await here.read(lambda read: sessions.list_sessions(read, None, limit=2**31, offset=0)):
        owner = owners.get(info.agent_id)
        if owner is None:
            owner = await here.read(partial(_owner_of_session, info=info))
        transcript = here.transcripts.of(owner, info.session_id)
        if not await _has_turns(here, transcript, info.session_id):
            found.append((transcript, info))
    return found


def _owner_of_session(read: Reader, info: SessionInfo) -> Owner:
    agent = agents.find(read, info.agent_id)
    return Owner(agent.id, agent.slug, agent.name) if agent else Owner(info.agent_id, info.agent_id, info.agent_id)


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


async def verify(here: Workspace) -> list[Difference]:
    """Hold every transcript against the index; nothing is changed."""
    transcripts = await _transcripts(here, bring_back=False)
    found = [await _verify_one(here, transcript) for transcript in transcripts]
    seen = {(difference.agent, difference.file): n for n, difference in enumerate(found)}
    for transcript, info in await _orphans(here, bring_back=False):
        agent, file = transcript.owner.slug, transcript.path.name
        if (n := seen.get((agent, file))) is not None:
            found[n] = replace(found[n], extra=found[n].extra + info.turns)
        else:
            found.append(Difference(agent, file, 0, info.turns, 0, 0))
    return found


async def _verify_one(here: Workspace, transcript: Transcript) -> Difference:
    lines = await asyncio.to_thread(lambda: list(here.transcripts.lines(transcript)))
    return await here.read(lambda read: _compare(read, transcript, lines))


def _compare(read: Reader, transcript: Transcript, lines: list[TranscriptLine]) -> Difference:
    wanted: dict[str, dict[str, tuple[str, str]]] = {}
    for line in lines:
        if line.turn:
            wanted.setdefault(line.turn.session_id, {}).setdefault(line.turn.id, (line.turn.role, line.turn.content))
    missing = extra = different = 0
    for session_id, turns in wanted.items():
        have = sessions.indexed(read, transcript.owner, session_id)
        missing += len(turns.keys() - have.keys())
        extra += len(have.keys() - turns.keys())
        different += sum(have[id] != turns[id] for id in turns.keys() & have.keys())
    unreadable = sum(line.problem is not None for line in lines)
    return Difference(transcript.owner.slug, transcript.path.name, missing, extra, different, unreadable)
