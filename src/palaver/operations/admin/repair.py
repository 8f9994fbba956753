"""Looking whether the data is sound, and mending what is not: tables, the search index, transcripts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from palaver.errors import Conflict, PalaverError, Refused, Unavailable
from palaver.model.sessions import Owner
from palaver.operations.sessions import session_index
from palaver.settings import Settings
from palaver.store.admin import data_losses, tokens, trash
from palaver.store.bus import agents
from palaver.store.bus import threads as bus_threads
from palaver.store.engines.database import Change
from palaver.store.engines.missing_tables import is_derived, missing
from palaver.store.library import documents
from palaver.store.sessions import sessions
from palaver.store.workspaces import (
    Workspace,
    engine_name,
    file_of,
    has_data,
    has_lost_log,
    has_server_database,
    missing_tables,
    open_engine,
    schema_of,
    sqlite_files,
    workspaces_with_data,
)

if TYPE_CHECKING:
    from palaver.store.engines.sqlite.recovery import RecoveryResult

INDEXED_AT_ONCE = 500
LONG = 600.0
OLDEST_POSTGRES = 14
DATABASE_MISSING = (
    "its database is missing. Bring it back (is a disk not mounted?) or restore a backup. A server makes an empty one "
    "when it is started; sessions come back from their transcripts, the rest does not"
)
IN_USE = "Another palaver has this data open. Stop every server and agent that uses it, then run this again."


@dataclass(frozen=True, slots=True)
class Mended:
    """One thing that was mended. `is_whole`: nothing was lost."""

    what: str
    says: str
    is_whole: bool = True


@asynccontextmanager
async def opened(settings: Settings, name: str) -> AsyncIterator[Workspace]:
    """A workspace as it is: nothing is caught up with."""
    engine = await asyncio.to_thread(open_engine, settings, name)
    here = Workspace(name, engine, settings)
    try:
        yield here
    finally:
        await asyncio.to_thread(here.close)


def problems_of_postgres(settings: Settings) -> tuple[str, list[str]]:
    """The version of the PostgreSQL server, and what is wrong with the database for our use of it."""
    from palaver.store.engines.postgres import schemas as postgres

    about = postgres.server_info(settings.database_url)
    found = []
    if about.number < OLDEST_POSTGRES * 10_000:
        found.append(f"version {about.version} is too old; {OLDEST_POSTGRES} or newer is needed")
    if about.encoding != "UTF8":
        found.append(f"the database has the encoding {about.encoding}; make one with UTF8")
    if not about.may_create:
        found.append("this user may not create schemas; GRANT CREATE ON DATABASE lets it make workspaces")
    if about.is_old_collation:
        found.append("the collation has changed; run REINDEX DATABASE, then ALTER DATABASE … REFRESH COLLATION VERSION")
    return about.version, found


async def problems(settings: Settings, name: str) -> list[str]:
    """What is wrong in a workspace; an empty list is good news. Nothing is changed."""
    try:
        if found := await problems_of_files(settings, name):
            return found
        async with opened(settings, name) as here:
            return await problems_of_data(here) or await problems_of_uploads(here) + await _problems_of_transcripts(
                here
            )
    except PalaverError as problem:
        return [problem.message]


async def problems_of_files(settings: Settings, name: str) -> list[str]:
    """What can be told before the workspace is opened: opening it would make some of what is missing."""
    if not await asyncio.to_thread(has_data, settings, name):
        return ["its database is missing" + (" (is a disk not mounted?)" if engine_name(settings) == "sqlite" else "")]
    if await asyncio.to_thread(has_lost_log, settings, name):
        return ["the log with the newest changes (-wal) is missing: they may be lost"]
    gone = await asyncio.to_thread(missing_tables, settings, name)
    return [f"tables or indexes are missing: {', '.join(gone)}"] if gone else []


async def problems_before_opening(settings: Settings, name: str) -> list[str]:
    """The same of a workspace that need not exist yet."""
    return await problems_of_files(settings, name) if await asyncio.to_thread(has_data, settings, name) else []


async def problems_of_data(here: Workspace) -> list[str]:
    """The engine's own check, and the search index against the texts."""
    found = await here.check()
    if found:
        return found
    threads = await here.read(lambda read: bus_threads.count_miscounted(read), timeout=LONG)
    if threads:
        found.append(f"{threads:,} threads have fewer or more messages than were posted to them")
    if not await here.read(documents.is_complete, timeout=LONG):
        found.append("the search index does not have every passage")
    elif not await _holds_the_texts(here):
        found.append("the search index does not hold the words of the texts: one of the two was changed or damaged")
    return found


async def _holds_the_texts(here: Workspace) -> bool:
    try:
        return await here.read(documents.matches_texts, timeout=LONG)
    except orjson.JSONDecodeError:
        raise Unavailable("Rows of the database are damaged: their data is no JSON.") from None


async def problems_of_uploads(here: Workspace) -> list[str]:
    """Images that are shown somewhere, and whose files are gone. Only a backup can bring them back."""
    gone = await missing_uploads(here)
    return [f"{_images(len(gone))} missing in the folder 'uploads' (first {gone[0]})"] if gone else []


async def missing_uploads(here: Workspace) -> list[str]:
    shown = await here.read(trash.images_in_use, timeout=LONG)
    folder = here.settings.data / "uploads" / here.name
    return await asyncio.to_thread(lambda: sorted(name for name in shown if not (folder / name).exists()))


async def _problems_of_transcripts(here: Workspace) -> list[str]:
    found = []
    for path in here.transcripts.files():
        if count := await asyncio.to_thread(here.transcripts.damaged, path):
            found.append(f"{_lines(count)} of the transcript {_name(path)} cannot be read")
    if here.settings.sessions_index:
        different = [difference for difference in await session_index.verify(here) if not difference.is_fine]
        if alone := await session_index.only_in_index(here) if different else []:
            found.append(session_index.said_of_missing(alone))
        elif different:
            found.append(f"the index differs from the transcript {different[0].agent}/{different[0].file}")
    return found


def _images(count: int) -> str:
    return "1 image is" if count == 1 else f"{count:,} images are"


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count:,} lines"


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


# At a glance


@dataclass(frozen=True, slots=True)
class Sign:
    """Something that is wrong and quick to see. `stops`: requests fail, or what is written may be lost."""

    says: str
    stops: bool


async def signs(here: Workspace) -> list[Sign]:
    """What a load balancer or a monitor should hear of. No names are in it: everybody may ask."""
    found = [Sign(says, stops=True) for says in here.lost_files()]
    if gone := await here.read(lambda read: missing(read, "workspace")):
        found.append(Sign(f"tables or indexes are missing in the database: {', '.join(gone)}", stops=True))
        return found
    if here.settings.sessions_index:
        recorded, gone_files = await _missing_transcripts(here)
        if gone_files:
            said = f"{gone_files:,} of {recorded:,} transcripts are missing"
            found.append(Sign(said, stops=gone_files == recorded))
    if here.missing_uploads:
        found.append(Sign(f"{_images(len(here.missing_uploads))} missing in the folder 'uploads'", stops=False))
    return found


async def _missing_transcripts(here: Workspace) -> tuple[int, int]:
    """How many transcripts were indexed, and how many of their files are gone although nobody deleted them."""
    known = await here.read(sessions.marks)
    if not known:
        return 0, 0
    slugs = {agent.id: agent.slug for agent in await here.read(agents.everyone)}

    def count() -> int:
        there: dict[str, set[str]] = {}
        gone = 0
        for agent_id, file in known:
            owner = Owner(agent_id, slugs.get(agent_id, agent_id), "")
            if agent_id not in there:
                there[agent_id] = here.transcripts.names_of(owner)
            if file not in there[agent_id]:
                stones = here.transcripts.tombstones(owner)
                gone += all(here.transcripts.path(owner, session_id).name != file for session_id in stones)
        return gone

    return len(known), await asyncio.to_thread(count)


# Mending


async def repair(settings: Settings, *, discard_missing: bool = False) -> AsyncIterator[Mended]:
    """Mend what can be mended, and say what was done. Nothing is dropped that is in one place only."""
    for mended in await asyncio.to_thread(_lost_logs, settings):
        yield mended
    if engine_name(settings) == "sqlite":
        async for mended in _repair_files(settings):
            yield mended
    async for mended in _repair_list(settings):
        yield mended
    for name in await _names(settings):
        if not await asyncio.to_thread(has_data, settings, name):
            yield Mended(f"workspace {name}", DATABASE_MISSING, is_whole=False)
            continue
        if gone := await asyncio.to_thread(missing_tables, settings, name):
            yield Mended(f"workspace {name}", _said_of_tables(settings, gone), is_whole=not _lost(settings, gone))
        if engine_name(settings) == "postgres":
            from palaver.store.engines.postgres.schemas import rebuild_invalid_indexes

            schema = schema_of(name, "workspace")
            for index in await asyncio.to_thread(rebuild_invalid_indexes, settings.database_url, schema):
                yield Mended(f"workspace {name}", f"made the index {index} anew")
        async with opened(settings, name) as here:
            async for mended in _repair_inside(here, discard_missing):
                yield mended


def _lost_logs(settings: Settings) -> list[Mended]:
    """Told before any file is opened: opening it begins a new log."""
    if engine_name(settings) == "postgres":
        return []
    kinds = {"house": ("house", "house")} | {
        f"workspace {name}": (name, "workspace") for name in sqlite_files(settings)
    }
    said = "the log with its newest changes (-wal) was missing: they may be lost. A backup may have them"
    return [Mended(what, said, is_whole=False) for what, of in kinds.items() if has_lost_log(settings, *of)]


def _lost(settings: Settings, gone: list[str]) -> list[str]:
    return [name for name in gone if not is_derived(engine_name(settings), "workspace", name)]


def _said_of_tables(settings: Settings, gone: list[str]) -> str:
    if lost := _lost(settings, gone):
        return f"tables are missing, and nothing else has their rows: {', '.join(lost)}. Restore a backup"
    return f"made what was missing again: {', '.join(gone)}"


async def _repair_files(settings: Settings) -> AsyncIterator[Mended]:
    from palaver.store.engines.sqlite import recovery

    house = file_of(settings, "house", "house")
    files = {"house": (house, "house")} if house.exists() else {}
    files |= {f"workspace {name}": (path, "workspace") for name, path in sqlite_files(settings).items()}
    for what, (path, kind) in files.items():
        found = await asyncio.to_thread(recovery.check_file, path) or await asyncio.to_thread(
            _lost_tables, settings, what
        )
        if not found:
            continue
        if recovery.is_index_alone(found) and await asyncio.to_thread(recovery.recreate_index, path):
            yield Mended(what, "the search index was damaged; it is made anew from the texts")
            continue
        if recovery.is_in_use(path):
            raise Refused(IN_USE)
        result = await asyncio.to_thread(recovery.recover, path, kind)
        yield Mended(what, _said_of(result), is_whole=not result.lost)


def _lost_tables(settings: Settings, what: str) -> list[str]:
    """Missing tables that hold more than copies."""
    name, kind = ("house", "house") if what == "house" else (what.removeprefix("workspace "), "workspace")
    gone = missing_tables(settings, name, kind)
    return [f"the table {one} is missing" for one in gone if not is_derived("sqlite", kind, one)]


def _said_of(result: RecoveryResult) -> str:
    rows = sum(result.saved.values())
    if not rows:
        return (
            f"the file could not be read at all, so an empty one stands in its place; the damaged one is kept as "
            f"{result.aside}. Sessions come back from their transcripts; for the rest, restore a backup"
        )
    said = f"saved {rows:,} rows into a fresh file; the damaged one is kept as {result.aside}"
    if not result.lost:
        return f"{said}. Nothing is lost"
    lost = [f"{table} ({'some' if count is None else f'{count:,}'})" for table, count in sorted(result.lost.items())]
    return f"{said}. Rows lost: {', '.join(lost)}; a backup may have them"


async def _repair_list(settings: Settings) -> AsyncIterator[Mended]:
    """Workspaces whose data is there are in the list, whatever happened to the list. Losses that were found earlier
    are said once more, and then count as known."""
    there = await asyncio.to_thread(workspaces_with_data, settings)
    is_lost = bool(there) and not await asyncio.to_thread(has_server_database, settings)

    def work(change: Change) -> tuple[list[str], list[str]]:
        data_losses.note_lost_server_database(change, there if is_lost else [])
        again = [name for name in there if tokens.add_workspace(change, name)]
        known = data_losses.unsettled(change)
        if known:
            data_losses.settle(change)
        return again, known

    engine = await asyncio.to_thread(open_engine, settings, "house", "house")
    try:
        again, known = await engine.change(work)
    finally:
        await asyncio.to_thread(engine.close)
    for name in again:
        yield Mended("house", f"the workspace {name} was not in the list, and is there again")
    for loss in known:
        yield Mended("house", loss, is_whole=False)


async def _names(settings: Settings) -> list[str]:
    engine = await asyncio.to_thread(open_engine, settings, "house", "house")
    try:
        return await engine.read(tokens.workspaces)
    finally:
        await asyncio.to_thread(engine.close)


async def _repair_inside(here: Workspace, discard_missing: bool) -> AsyncIterator[Mended]:
    what = f"workspace {here.name}"
    damaged = []
    for path in here.transcripts.files():
        if count := await asyncio.to_thread(here.transcripts.set_aside, path):
            damaged.append(path)
            aside = f"{path.parent.name}/{path.stem}.damaged"
            said = f"{_lines(count)} of {_name(path)} could not be read; kept in {aside}"
            yield Mended(what, said, is_whole=False)
    if threads := await here.change(lambda change: bus_threads.recount(change)):
        said = f"messages are missing in {threads:,} threads; they were counted again. A backup may have them"
        yield Mended(what, said, is_whole=False)
    passages = await fill_index(here)
    if not await _holds_the_texts(here):
        await here.empty_index()
        passages = await fill_index(here)
        yield Mended(what, "the search index did not hold the words of the texts; it was made again from them")
    elif passages:
        yield Mended(what, f"took {passages:,} passages into the search index")
    if here.settings.sessions_index:
        for said in await _write_again(here, damaged):
            yield Mended(what, said)
        before = await session_index.verify(here)
        if not all(difference.is_fine for difference in before):
            try:
                turns = await session_index.reindex(here, discard_missing=discard_missing)
            except Conflict as problem:
                yield Mended(what, problem.message, is_whole=False)
            else:
                yield Mended(what, f"made the index of sessions anew from the transcripts: {turns:,} turns")
    for said in await problems_of_uploads(here):
        yield Mended(what, f"{said}; a backup may have them", is_whole=False)


async def fill_index(here: Workspace) -> int:
    """Take into the search index what it does not have. Returns how many passages that were."""
    await here.create_missing_tables()
    passages = 0
    while count := await here.change(lambda change: documents.backfill(change, INDEXED_AT_ONCE)):
        passages += count
    return passages


async def _write_again(here: Workspace, damaged: list[Path]) -> list[str]:
    """Turns whose line was damaged, and that the index still has, are written to their transcript again."""
    said = []
    for one in await session_index.only_in_index(here) if damaged else []:
        path = here.transcripts.of(one.owner, one.session_id).path
        if path in damaged:
            await asyncio.to_thread(here.transcripts.append, one.owner, one.session_id, one.turns)
            turns = "1 turn" if len(one.turns) == 1 else f"{len(one.turns):,} turns"
            said.append(f"wrote {turns} to {_name(path)} again, as the index had them")
    return said
