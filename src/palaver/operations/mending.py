"""Looking whether the data is sound, and mending what is not: tables, the search index, transcripts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from palaver.errors import PalaverError, Refused
from palaver.operations import session_index
from palaver.settings import Settings
from palaver.store import documents, tokens
from palaver.store.database import Change
from palaver.store.workspaces import (
    DEFAULT,
    Workspace,
    engine_name,
    file_of,
    files_there,
    open_engine,
    schema_of,
)

if TYPE_CHECKING:
    from palaver.store.salvage import Salvaged

INDEXED_AT_ONCE = 500
LONG = 600.0
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


async def problems(settings: Settings, name: str) -> list[str]:
    """What is wrong in a workspace; an empty list is good news. Nothing is changed."""
    try:
        async with opened(settings, name) as here:
            found = await here.check()
            if found:
                return found
            if not await here.read(documents.is_complete, timeout=LONG):
                found.append("the search index does not have every passage")
            return found + await _problems_of_transcripts(here)
    except PalaverError as problem:
        return [problem.message]


async def _problems_of_transcripts(here: Workspace) -> list[str]:
    found = []
    for path in here.transcripts.files():
        if count := await asyncio.to_thread(here.transcripts.damaged, path):
            found.append(f"{_lines(count)} of the transcript {_name(path)} cannot be read")
    if here.settings.sessions_index:
        different = [difference for difference in await session_index.verify(here) if not difference.is_fine]
        if different:
            found.append(f"the index differs from the transcript {different[0].agent}/{different[0].file}")
    return found


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count:,} lines"


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


# Mending


async def repair(settings: Settings) -> AsyncIterator[Mended]:
    """Mend what can be mended, and say what was done."""
    if engine_name(settings) == "sqlite":
        async for mended in _repair_files(settings):
            yield mended
    for name in await _names(settings):
        if engine_name(settings) == "postgres":
            from palaver.store.postgres import make_indexes_anew

            schema = schema_of(name, "workspace")
            for index in await asyncio.to_thread(make_indexes_anew, settings.database_url, schema):
                yield Mended(f"workspace {name}", f"made the index {index} anew")
        async with opened(settings, name) as here:
            async for mended in _repair_inside(here):
                yield mended


async def _repair_files(settings: Settings) -> AsyncIterator[Mended]:
    from palaver.store import salvage

    house = file_of(settings, "house", "house")
    files = {"house": (house, "house")} if house.exists() else {}
    files |= {f"workspace {name}": (path, "workspace") for name, path in files_there(settings).items()}
    for what, (path, kind) in files.items():
        found = await asyncio.to_thread(salvage.look, path)
        if not found:
            continue
        if salvage.is_index_alone(found) and await asyncio.to_thread(salvage.make_index_anew, path):
            yield Mended(what, "the search index was damaged; it is made anew from the texts")
            continue
        if salvage.is_in_use(path):
            raise Refused(IN_USE)
        result = await asyncio.to_thread(salvage.salvage, path, kind)
        yield Mended(what, _said_of(result), is_whole=not result.lost)
    if "house" in files:
        await _know_again(settings)


def _said_of(result: Salvaged) -> str:
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


async def _know_again(settings: Settings) -> None:
    """Workspaces whose files are there are in the list, whatever happened to the list."""
    names = files_there(settings)

    def work(change: Change) -> None:
        for name in names:
            tokens.add_workspace(change, name)

    engine = await asyncio.to_thread(open_engine, settings, "house", "house")
    try:
        await engine.change(work)
    finally:
        await asyncio.to_thread(engine.close)


async def _names(settings: Settings) -> list[str]:
    engine = await asyncio.to_thread(open_engine, settings, "house", "house")
    try:
        await engine.change(lambda change: tokens.add_workspace(change, DEFAULT))
        return await engine.read(tokens.workspaces)
    finally:
        await asyncio.to_thread(engine.close)


async def _repair_inside(here: Workspace) -> AsyncIterator[Mended]:
    what = f"workspace {here.name}"
    for path in here.transcripts.files():
        if count := await asyncio.to_thread(here.transcripts.set_aside, path):
            aside = f"{path.parent.name}/{path.stem}.damaged"
            said = f"{_lines(count)} of {_name(path)} could not be read; kept in {aside}"
            yield Mended(what, said, is_whole=False)
    passages = 0
    while count := await here.change(lambda change: documents.backfill(change, INDEXED_AT_ONCE)):
        passages += count
    if passages:
        yield Mended(what, f"took {passages:,} passages into the search index")
    if here.settings.sessions_index:
        before = await session_index.verify(here)
        if not all(difference.is_fine for difference in before):
            turns = await session_index.reindex(here)
            yield Mended(what, f"made the index of sessions anew from the transcripts: {turns:,} turns")
