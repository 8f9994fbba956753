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
from palaver.doors import cli_where, printing
from palaver.errors import PalaverError
from palaver.settings import Settings

OLDEST_SQLITE = (3, 44, 0)
LITTLE_SPACE = 500 * 1024**2


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
        return f"{sign} {printing.bold(self.what)}: {self.says}" + (f"\n    → {self.advice}" if self.advice else "")


@cli_where.takes("format", "json", *cli_where.ON_THE_DATA)
@click.command()
@click.pass_obj
def doctor(where: cli_where.Where) -> int:
    """Check the installation and the data, and say what to do about what is wrong.

    What is stored is only read. Ends with 0 when all is well, with 1 when something needs care.
    """
    found = asyncio.run(_examine(where))
    if where.format == "table":
        for finding in found:
            printing.say(finding.line)
    else:
        printing.show([asdict(finding) for finding in found], where.format, rows="findings")
    return 1 if any(finding.is_well is False for finding in found) else 0


async def _examine(where: cli_where.Where) -> list[Finding]:
    found = list(_versions())
    try:
        settings = where.settings()
    except PalaverError as problem:
        return [*found, Finding("settings", False, problem.message, "Correct it, or take it away.")]
    found += [Finding("settings", True, "can be read")]
    if not settings.database_url:
        found += _directory(settings.data)
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


async def _data(settings: Settings) -> AsyncIterator[Finding]:
    from palaver.doors.client import open_house

    if not settings.database_url and not settings.data.is_dir():
        return
    try:
        async with open_house(settings) as house:
            problems = await house.check()
            says = problems[0].split("\n")[0] if problems else "opens; the audit log is whole"
            yield Finding("house", not problems, says, _cure(settings, "house") if problems else "")
            for name in await house.workspaces():
                try:
                    problems = await (await house.open(name)).check()
                except PalaverError as problem:
                    problems = [problem.message]
                yield _workspace(settings, name, problems)
    except PalaverError as problem:
        yield Finding("database", False, problem.message, _cure(settings, "house"))


def _workspace(settings: Settings, name: str, problems: list[str]) -> Finding:
    if not problems:
        return Finding(f"workspace {name}", True, "opens; data and search index are sound")
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return Finding(f"workspace {name}", False, problems[0].split("\n")[0] + more, _cure(settings, name))


def _cure(settings: Settings, name: str) -> str:
    if settings.database_url.startswith("postgres"):
        return "Check PALAVER_DATABASE_URL and that PostgreSQL is running."
    return (
        f"Stop palaver, put a copy of the file of '{name}' aside, then restore a backup, or save what can be read: "
        "sqlite3 OLD.db .recover | sqlite3 NEW.db"
    )


async def _server(settings: Settings) -> Finding:
    import httpx2

    try:
        async with httpx2.AsyncClient(trust_env=False, timeout=2) as client:
            answer = (await client.get(f"{settings.base_url}/healthz")).json()
        return Finding("server", True, f"palaver {answer['version']} answers at {settings.base_url}")
    except (httpx2.HTTPError, ValueError, KeyError, TypeError):
        return Finding("server", None, f"none answers at {settings.base_url}; 'palaver serve' starts one")
