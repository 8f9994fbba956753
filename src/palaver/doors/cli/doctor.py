"""The doctor: looks at the installation and the data, and says what to do."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from palaver import __version__
from palaver.doors.cli import output, target
from palaver.errors import PalaverError
from palaver.settings import Settings

OLDEST_SQLITE = (3, 44, 0)
LITTLE_SPACE = 500 * 1024**2
BRING_BACK = "Bring the files back (is a disk not mounted?). 'doctor --repair --discard-missing' drops these turns."


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `is_well` is None where nothing can be said, and nothing is wrong."""

    what: str
    is_well: bool | None
    says: str
    advice: str = ""

    @property
    def line(self) -> str:
        sign = {True: "✓", False: "✗", None: "–"}[self.is_well]
        return f"{sign} {output.bold(self.what)}: {self.says}" + (f"\n    → {self.advice}" if self.advice else "")


@target.takes("format", "json", *target.ON_THE_DATA)
@click.command()
@click.option("--repair", is_flag=True, help="Mend what can be mended.")
@click.option(
    "--discard-missing",
    is_flag=True,
    help="With --repair: drop turns that no transcript has. They are kept in the folder 'discarded'.",
)
@click.pass_obj
def doctor(where: target.Where, repair: bool, discard_missing: bool) -> int:
    """Check the installation and the data, and say what to do about what is wrong.

    Tables, search indexes, the audit log and the transcripts of sessions are read, and nothing is changed. Ends with 0
    when all is well, with 1 when something needs care.

    With --repair a damaged search index is made anew from the texts; of a damaged database file (SQLite) all that can
    be read is put into a fresh one; lines of a transcript that cannot be read are moved into a file beside it. What was
    damaged is kept, under a name of its own, and what was lost is said; then it ends with 1. A database file is mended
    only while nobody else has it open.

    Nothing is dropped because its other half is missing. If transcripts are gone, the index of sessions stays as it is,
    unless --discard-missing says otherwise.
    """
    if discard_missing and not repair:
        raise click.UsageError("--discard-missing belongs to --repair.")
    found = asyncio.run(_examine(where, repair=repair, discard_missing=discard_missing))
    if where.format == "table":
        for finding in found:
            output.say(finding.line)
    else:
        output.show([asdict(finding) for finding in found], where.format, rows="findings")
    return 1 if any(finding.is_well is False for finding in found) else 0


async def _examine(where: target.Where, *, repair: bool, discard_missing: bool) -> list[Finding]:
    found = list(_versions())
    try:
        settings = where.settings()
    except PalaverError as problem:
        return [*found, Finding("settings", False, problem.message, "Correct it, or take it away.")]
    found += [Finding("settings", True, "can be read")]
    if not settings.database_url:
        found += _directory(settings.data)
    elif settings.database_url.startswith("postgres"):
        postgres = await _postgres(settings)
        found += postgres
        if postgres[0].is_well is False and len(postgres) == 1:
            return [*found, await _server(settings)]
    if repair:
        found += [finding async for finding in _repaired(settings, discard_missing)]
    found += [finding async for finding in _data(settings)]
    return [*found, await _server(settings)]


def _versions() -> Iterator[Finding]:
    yield Finding("palaver", True, __version__)
    yield Finding("Python", sys.version_info >= (3, 11), platform.python_version())
    try:
        import apsw
    except ImportError as problem:
        yield Finding("SQLite", False, f"cannot be loaded: {problem}", "Install palaver again.")
        return
    version = apsw.sqlite_lib_version()
    is_well = tuple(map(int, version.split("."))) >= OLDEST_SQLITE
    yield Finding("SQLite", is_well, f"{version} (apsw {apsw.apsw_version()})", "" if is_well else "Upgrade apsw.")


def _directory(place: Path) -> Iterator[Finding]:
    if not place.is_dir():
        yield Finding("data directory", None, f"{place} does not exist yet; it is made at first use")
        return
    if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        yield Finding("data directory", False, f"{place} cannot be written to", f"Run: chmod u+rwx '{place}'")
    elif os.name == "posix" and place.stat().st_mode & 0o007:
        yield Finding("data directory", False, f"{place} is open to everybody", f"Run: chmod o-rwx '{place}'")
    else:
        yield Finding("data directory", True, str(place))
    free = shutil.disk_usage(place).free
    advice = "" if free > LITTLE_SPACE else "Make room before the disk is full."
    yield Finding("free space", free > LITTLE_SPACE, f"{free / 1024**3:.1f} GB", advice)


async def _postgres(settings: Settings) -> list[Finding]:
    from palaver.operations.admin.repair import problems_of_postgres

    try:
        version, problems = await asyncio.to_thread(problems_of_postgres, settings)
    except PalaverError as problem:
        return [Finding("PostgreSQL", False, problem.message, _cure(settings))]
    return [Finding("PostgreSQL", True, version), *(Finding("PostgreSQL", False, says) for says in problems)]


async def _repaired(settings: Settings, discard_missing: bool) -> AsyncIterator[Finding]:
    from palaver.operations.admin.repair import repair

    if not settings.database_url and not settings.data.is_dir():
        return
    count = 0
    try:
        async for mended in repair(settings, discard_missing=discard_missing):
            count += 1
            yield Finding(f"repair of {mended.what}", mended.is_whole, mended.says)
    except PalaverError as problem:
        yield Finding("repair", False, problem.message)
    else:
        if not count:
            yield Finding("repair", None, "there was nothing to mend")


async def _data(settings: Settings) -> AsyncIterator[Finding]:
    from palaver.app import DEFAULT
    from palaver.doors.cli.connection import open_app
    from palaver.operations.admin.repair import problems

    if not settings.database_url and not settings.data.is_dir():
        return
    try:
        async with open_app(settings) as app:
            found = await app.check()
            says = found[0].split("\n")[0] if found else "opens; the audit log is whole"
            yield Finding("house", not found, says, _cure(settings) if found else "")
            for loss in await app.losses():
                yield Finding("house", False, loss, "'palaver doctor --repair' takes note of it.")
            for name in await app.unlisted_workspaces():
                says = f"the data of workspace {name} is there, but the workspace is not in the list"
                yield Finding("house", False, says, "'palaver doctor --repair' puts it there.")
            if DEFAULT not in await app.listed_workspaces():
                await app.open()  # the default workspace is made at first use
            for name in await app.listed_workspaces():
                yield _workspace(settings, name, await problems(settings, name))
    except PalaverError as problem:
        yield Finding("database", False, problem.message, _cure(settings))


def _workspace(settings: Settings, name: str, problems: list[str]) -> Finding:
    from palaver.operations.sessions.session_index import NO_TRANSCRIPT

    if not problems:
        return Finding(f"workspace {name}", True, "opens; data, search index and transcripts are sound")
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    cure = BRING_BACK if NO_TRANSCRIPT in problems[0] else _cure(settings)
    return Finding(f"workspace {name}", False, problems[0].split("\n")[0] + more, cure)


def _cure(settings: Settings) -> str:
    if settings.database_url.startswith("postgres"):
        return "Check PALAVER_DATABASE_URL and that PostgreSQL runs; 'palaver doctor --repair' makes indexes anew."
    return "Stop palaver, then run 'palaver doctor --repair', or restore a backup into an empty --home."


async def _server(settings: Settings) -> Finding:
    import ssl

    import httpx2

    # A plain connection needs no authorities, and reading them all takes a while.
    verify = True if settings.base_url.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        async with httpx2.AsyncClient(trust_env=False, timeout=2, verify=verify) as client:
            answer = (await client.get(f"{settings.base_url}/healthz")).json()
        return Finding("server", True, f"palaver {answer['version']} answers at {settings.base_url}")
    except (httpx2.HTTPError, ValueError, KeyError, TypeError):
        return Finding("server", None, f"none answers at {settings.base_url}; 'palaver serve' starts one")
