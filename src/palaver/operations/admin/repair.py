"""Check the data and repair it: tables, the search index, transcripts (`palaver doctor`, `/health`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from palaver.errors import PalaverError, Refused, Unavailable
from palaver.model.sessions import Owner
from palaver.operations.sessions import session_index
from palaver.operations.sessions.session_index import NAMED, some_of
from palaver.settings import Settings
from palaver.store.admin import data_losses, tokens, trash
from palaver.store.bus import agents, events
from palaver.store.bus import threads as bus_threads
from palaver.store.engines.database import Change
from palaver.store.engines.missing_tables import is_data, missing
from palaver.store.library import documents
from palaver.store.sessions import sessions
from palaver.store.workspaces import (
    Workspace,
    engine_name,
    file_of,
    has_data,
    has_lost_log,
    missing_tables,
    open_engine,
    schema_of,
    sqlite_files,
    workspaces_with_data,
)

if TYPE_CHECKING:
    from palaver.store.engines.sqlite.recovery import RecoveryResult

SERVER = "the server database"
INDEXED_AT_ONCE = 500
"""Passages that are indexed in one change."""
OLDEST_POSTGRES = 14
"""The oldest supported major version."""
DATABASE_MISSING = (
    "its database is missing. Bring it back (is a disk not mounted?) or restore a backup. A server creates an empty "
    "one when it starts. Sessions are then restored from their transcripts; the rest is not"
)
IN_USE = "Another palaver has this data open. Stop every server and agent that uses it, then run this again."


@dataclass(frozen=True, slots=True)
class Repaired:
    """One thing that was repaired. `is_whole`: nothing was lost."""

    what: str
    says: str
    is_whole: bool = True


@asynccontextmanager
async def opened(settings: Settings, name: str) -> AsyncIterator[Workspace]:
    """A workspace without the work that a server does at start-up."""
    engine = await asyncio.to_thread(open_engine, settings, name)
    workspace = Workspace(name, engine, settings)
    try:
        yield workspace
    finally:
        await asyncio.to_thread(workspace.close)


def problems_of_postgres(settings: Settings) -> tuple[str, list[str], str]:
    """The version of the PostgreSQL server, the problems of the database, and what makes searches slow, if anything."""
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
    slow = ""
    if about.index_bytes > about.buffer_bytes:
        slow = f"shared_buffers is {_megabytes(about.buffer_bytes)}, the search index {_megabytes(about.index_bytes)}"
    return about.version, found, slow


def _megabytes(size: int) -> str:
    return f"{size / 1024**2:,.0f} MB"


async def problems(settings: Settings, name: str) -> list[str]:
    """All problems of a workspace. Nothing is changed."""
    try:
        if found := await problems_of_files(settings, name):
            return found
        async with opened(settings, name) as workspace:
            return await problems_of_data(workspace) or await problems_of_uploads(
                workspace
            ) + await _problems_of_transcripts(workspace)
    except PalaverError as problem:
        return [problem.message]


async def problems_of_files(settings: Settings, name: str) -> list[str]:
    """Problems that must be found before the workspace is opened: opening it creates missing tables."""
    if not await asyncio.to_thread(has_data, settings, name):
        return ["its database is missing" + (" (is a disk not mounted?)" if engine_name(settings) == "sqlite" else "")]
    if await asyncio.to_thread(has_lost_log, settings, name):
        return ["the log with the newest changes (-wal) is missing: they may be lost"]
    gone = await asyncio.to_thread(missing_tables, settings, name)
    return [f"tables or indexes are missing: {', '.join(gone)}"] if gone else []


async def problems_before_opening(settings: Settings, name: str) -> list[str]:
    """The problems of its files; none if the workspace does not exist yet."""
    return await problems_of_files(settings, name) if await asyncio.to_thread(has_data, settings, name) else []


async def problems_of_data(workspace: Workspace) -> list[str]:
    """The engine's own check, and whether the search index matches the texts."""
    found = await asyncio.to_thread(workspace.engine.check)
    if found:
        return found
    if damaged := await workspace.read(documents.damaged_texts):
        names = await workspace.read(lambda read: [documents.name_of_text(read, one) for one in damaged[:NAMED]])
        texts_are = counted(len(damaged), "text", "is")
        return [f"{texts_are} not as written: changed or damaged on the disk ({some_of(names)})"]
    found += await miscounted_threads(workspace)
    if not await workspace.read(documents.is_complete):
        found.append("the search index does not have every passage")
    elif not await _holds_the_texts(workspace):
        found.append("the search index does not match the texts: one of them was changed or damaged")
    return found


async def _holds_the_texts(workspace: Workspace) -> bool:
    try:
        return await workspace.read(documents.matches_texts)
    except orjson.JSONDecodeError:
        raise Unavailable("Rows of the database are damaged: their data is not JSON.") from None


async def miscounted_threads(workspace: Workspace) -> list[str]:
    wrong = await workspace.read(bus_threads.count_miscounted)
    return [f"{counted(wrong, 'thread', 'has')} fewer or more messages than were posted"] if wrong else []


async def problems_of_uploads(workspace: Workspace) -> list[str]:
    """Images that messages show but whose files are missing. Only a backup can restore them."""
    await look_for_uploads(workspace)
    gone = workspace.missing_uploads
    return [f"{says} (first {gone[0]})" for says in known_missing_uploads(workspace)]


async def look_for_uploads(workspace: Workspace) -> None:
    shown = await workspace.read(trash.images_in_use)
    folder = workspace.settings.data / "uploads" / workspace.name
    gone = await asyncio.to_thread(lambda: sorted(name for name in shown if not (folder / name).exists()))
    workspace.missing_uploads = gone


def known_missing_uploads(workspace: Workspace) -> list[str]:
    """The same without a name, as everyone may read it, and as they were found last."""
    gone = workspace.missing_uploads
    return [f"{counted(len(gone), 'image', 'is')} missing in the folder 'uploads'"] if gone else []


async def _problems_of_transcripts(workspace: Workspace) -> list[str]:
    found = []
    for path in workspace.transcripts.files():
        if count := await asyncio.to_thread(workspace.transcripts.damaged, path):
            found.append(f"{counted(count, 'line')} of the transcript {_name(path)} cannot be read")
    if workspace.settings.sessions_index:
        different = [difference for difference in await session_index.verify(workspace) if not difference.is_fine]
        if alone := await session_index.only_in_index(workspace) if different else []:
            found.append(session_index.describe_missing(alone))
        elif different:
            found.append(f"the index differs from the transcript {different[0].agent}/{different[0].file}")
    return found


def counted(count: int, thing: str, verb: str = "") -> str:
    """'1 text', '1,000 texts'; with the verb 'is': '1 text is', '1,000 texts are'."""
    is_one = count == 1
    verb = {"": "", "is": " is" if is_one else " are", "has": " has" if is_one else " have"}[verb]
    return f"{count:,} {thing}{'' if is_one else 's'}{verb}"


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


# Quick checks for /health


@dataclass(frozen=True, slots=True)
class HealthProblem:
    """A problem that is quick to find. `stops`: requests fail, or new data may be lost."""

    says: str
    stops: bool


async def health_problems(workspace: Workspace) -> list[HealthProblem]:
    """Problems for load balancers and monitors. They contain no names, as everyone may read them."""
    found = [HealthProblem(says, stops=True) for says in workspace.engine.lost_files()]
    if gone := await workspace.read(lambda read: missing(read.connection, "workspace")):
        found.append(HealthProblem(f"tables or indexes are missing in the database: {', '.join(gone)}", stops=True))
        return found
    recorded, gone_files = await missing_transcripts(workspace)
    found += [HealthProblem(says, stops=gone_files == recorded) for says in phrase_missing(recorded, gone_files)]
    found += [HealthProblem(says, stops=False) for says in known_missing_uploads(workspace)]
    return found


def phrase_missing(recorded: int, gone: int) -> list[str]:
    return [f"{gone:,} of {recorded:,} transcripts are missing"] if gone else []


async def missing_transcripts(workspace: Workspace) -> tuple[int, int]:
    """The number of indexed transcripts, and how many of them are missing without having been deleted."""
    known = await workspace.read(sessions.marks) if workspace.settings.sessions_index else {}
    if not known:
        return 0, 0
    slugs = {agent.id: agent.slug for agent in await workspace.read(agents.everyone)}

    def count() -> int:
        there: dict[str, set[str]] = {}
        gone = 0
        for agent_id, file in known:
            owner = Owner(agent_id, slugs.get(agent_id, agent_id), "")
            if agent_id not in there:
                there[agent_id] = workspace.transcripts.names_of(owner)
            if file not in there[agent_id]:
                stones = workspace.transcripts.tombstones(owner).sessions
                gone += all(workspace.transcripts.path(owner, session_id).name != file for session_id in stones)
        return gone

    return len(known), await asyncio.to_thread(count)


# Repair


async def repair(settings: Settings, *, discard_missing: bool = False) -> AsyncIterator[Repaired]:
    """Repair the data, and report each step. Data that exists in one place only is never removed."""
    for repaired in await asyncio.to_thread(_lost_logs, settings):
        yield repaired
    if engine_name(settings) == "sqlite":
        async for repaired in _repair_files(settings):
            yield repaired
    done, names = await _repair_list(settings)
    for repaired in done:
        yield repaired
    for name in names:
        if not await asyncio.to_thread(has_data, settings, name):
            yield Repaired(f"workspace {name}", DATABASE_MISSING, is_whole=False)
            continue
        if gone := await asyncio.to_thread(missing_tables, settings, name):
            says = f"recreated missing tables or indexes: {', '.join(gone)}"
            if lost := [table for table in gone if is_data("workspace", table)]:
                says = f"tables are missing, and nothing else has their rows: {', '.join(lost)}. Restore a backup"
            yield Repaired(f"workspace {name}", says, is_whole=not lost)
        if engine_name(settings) == "postgres":
            from palaver.store.engines.postgres.schemas import rebuild_invalid_indexes

            schema = schema_of(name, "workspace")
            for index in await asyncio.to_thread(rebuild_invalid_indexes, settings.database_url, schema):
                yield Repaired(f"workspace {name}", f"rebuilt the index {index}")
        async with opened(settings, name) as workspace:
            async for repaired in _repair_inside(workspace, discard_missing):
                yield repaired


def _lost_logs(settings: Settings) -> list[Repaired]:
    """Databases whose write-ahead log is missing. Opening the file would begin a new log, so this comes first."""
    if engine_name(settings) == "postgres":
        return []
    kinds = {SERVER: ("server", "server")} | {
        f"workspace {name}": (name, "workspace") for name in sqlite_files(settings)
    }
    said = "the log with its newest changes (-wal) was missing: they may be lost. A backup may have them"
    return [Repaired(what, said, is_whole=False) for what, of in kinds.items() if has_lost_log(settings, *of)]


async def _repair_files(settings: Settings) -> AsyncIterator[Repaired]:
    from palaver.store.engines.sqlite import recovery

    file = file_of(settings, "server", "server")
    files = {SERVER: (file, "server")} if file.exists() else {}
    files |= {f"workspace {name}": (path, "workspace") for name, path in sqlite_files(settings).items()}
    for what, (path, kind) in files.items():
        found = await asyncio.to_thread(recovery.check_file, path)
        if not found:
            gone = await asyncio.to_thread(missing_tables, settings, what.removeprefix("workspace "), kind)
            found = [f"the table {one} is missing" for one in gone if is_data(kind, one)]
        if not found:
            continue
        if recovery.is_index_alone(found) and await asyncio.to_thread(recovery.recreate_index, path):
            yield Repaired(what, "the search index was damaged; it is rebuilt from the texts")
            continue
        if recovery.is_in_use(path):
            raise Refused(IN_USE)
        result = await asyncio.to_thread(recovery.recover, path, kind)
        yield Repaired(what, _describe(result), is_whole=not (result.lost or result.changed_texts))


def _describe(result: RecoveryResult) -> str:
    rows, is_unsure = sum(result.saved.values()), result.texts_without_checksum
    if not rows:
        return (
            f"the file could not be read at all and was replaced by an empty one; the damaged one is kept as "
            f"{result.aside}. Sessions are restored from their transcripts; for the rest, restore a backup"
        )
    said = f"saved {rows:,} rows into a fresh file; the damaged one is kept as {result.aside}"
    if result.changed_texts:
        said += f". {counted(result.changed_texts, 'text', 'is')} damaged, see below"
    elif not result.lost:
        return f"{said}. No row is lost" + (", and every text is as it was" if not is_unsure else "")
    if not result.lost:
        return said
    lost = [f"{table} ({'some' if count is None else f'{count:,}'})" for table, count in sorted(result.lost.items())]
    return f"{said}. Rows lost: {', '.join(lost)}; a backup may have them"


async def _repair_list(settings: Settings) -> tuple[list[Repaired], list[str]]:
    """Add workspaces with data that are missing in the list of workspaces. Losses that were found earlier are reported
    once more, and then count as known. Returns this, and the names of all workspaces."""
    there = await asyncio.to_thread(workspaces_with_data, settings)
    is_lost = bool(there) and not await asyncio.to_thread(has_data, settings, "server", "server")

    def work(change: Change) -> tuple[list[Repaired], list[str]]:
        data_losses.note_lost_server_database(change, there if is_lost else [])
        data_losses.restore_audit_protection(change)
        again = [name for name in there if tokens.add_workspace(change, name)]
        done = [
            Repaired(SERVER, f"the workspace {name} was missing in the list, and was added again") for name in again
        ]
        if losses := data_losses.unsettled(change):
            data_losses.settle(change)
        done += [Repaired(SERVER, loss, is_whole=False) for loss in losses]
        return done, tokens.workspaces(change)

    engine = await asyncio.to_thread(open_engine, settings, "server", "server")
    try:
        return await engine.change(work)
    finally:
        await asyncio.to_thread(engine.close)


async def _repair_inside(workspace: Workspace, discard_missing: bool) -> AsyncIterator[Repaired]:
    what = f"workspace {workspace.name}"
    damaged = []
    for path in workspace.transcripts.files():
        try:
            count = await asyncio.to_thread(workspace.transcripts.set_aside, path)
        except OSError as problem:
            yield Repaired(what, f"{_name(path)} cannot be read ({problem.strerror})", is_whole=False)
            continue
        if count:
            damaged.append(path)
            aside = f"{path.parent.name}/{path.stem}.damaged"
            said = f"{counted(count, 'line')} of {_name(path)} could not be read; kept in {aside}"
            yield Repaired(what, said, is_whole=False)
    damaged_texts = await workspace.read(documents.damaged_texts)
    if damaged_texts:
        lost = await workspace.change(lambda change: _restore_texts(change, workspace, damaged_texts))
        said = f"{counted(len(damaged_texts), 'text', 'is')} damaged on the disk; a good copy was found of "
        if lost:
            said += f"{len(damaged_texts) - len(lost):,}. The others stay as they can be read ({some_of(lost)}); "
            said += "a backup may have them"
        yield Repaired(what, said if lost else f"{said}each", is_whole=not lost)
    if threads := await workspace.change(lambda change: bus_threads.recount(change)):
        said = f"messages are missing in {threads:,} threads; they were counted again. A backup may have them"
        yield Repaired(what, said, is_whole=False)
    passages = await fill_index(workspace)
    if not await _holds_the_texts(workspace):
        await asyncio.to_thread(workspace.engine.empty_index)
        passages = await fill_index(workspace)
        yield Repaired(what, "the search index did not match the texts; it was rebuilt from them")
    elif passages:
        yield Repaired(what, f"added {passages:,} passages to the search index")
    if workspace.settings.sessions_index:
        for one in await session_index.only_in_index(workspace) if damaged else []:
            path = workspace.transcripts.of(one.owner, one.session_id).path
            if path in damaged:  # the index still has turns whose lines were damaged
                await asyncio.to_thread(workspace.transcripts.append, one.owner, one.session_id, one.turns)
                turns = counted(len(one.turns), "turn")
                yield Repaired(what, f"wrote {turns} to {_name(path)} again, as the index had them")
        before = await session_index.verify(workspace)
        if not all(difference.is_fine for difference in before):
            rebuilt = await session_index.reindex(workspace, discard_missing=discard_missing)
            yield Repaired(what, f"rebuilt the index of sessions from the transcripts: {rebuilt.turns:,} turns")
            for said in rebuilt.warnings:
                yield Repaired(what, said, is_whole=False)
    for said in await problems_of_uploads(workspace):
        yield Repaired(what, f"{said}; a backup may have them", is_whole=False)


def _restore_texts(change: Change, workspace: Workspace, damaged: list[documents.DamagedText]) -> list[str]:
    """Restore damaged texts from transcripts and the event log. Returns the names of those that neither has."""

    def copies(source: str, id: str, document: str) -> list[str]:
        if source == "bus":
            return events.contents_of(change, id)
        agent = agents.find(change, document.partition("/")[0]) if source == "sessions" else None
        if agent is None:
            return []
        owner = Owner.of(agent)
        transcript = workspace.transcripts.of(owner, document.removeprefix(f"{agent.id}/"))
        return [
            line.turn.content for line in workspace.transcripts.lines(transcript) if line.turn and line.turn.id == id
        ]

    return [documents.name_of_text(change, one) for one in damaged if not documents.restore_text(change, one, copies)]


async def fill_index(workspace: Workspace) -> int:
    """Add missing passages to the search index. Returns their number."""
    await asyncio.to_thread(workspace.engine.create_missing_tables)
    passages = 0
    while count := await workspace.change(lambda change: documents.backfill(change, INDEXED_AT_ONCE)):
        passages += count
    return passages
