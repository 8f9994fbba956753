"""Command `doctor`: check the installation and the data, give advice, and repair."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from palaver import __version__
from palaver.doors.cli import options, output, recording_problem
from palaver.doors.cli.manage.setup import client_states, connection_of, says_of
from palaver.doors.hook import PROBLEM_FILE
from palaver.doors.local.running_server import answer_of, client_settings
from palaver.errors import PalaverError
from palaver.model.times import iso, now
from palaver.settings import Settings

OLDEST_SQLITE = (3, 44, 0)
LITTLE_SPACE = 500 * 1024**2
MORE_BUFFERS = "Searches are slower than they could be. Set shared_buffers to a quarter of the memory, then restart it."
RESTORE_FILES = "Restore the files (is a disk not mounted?). 'doctor --repair --discard-missing' drops these turns."


@dataclass(frozen=True)
class CheckResult:
    """The result of one check. `is_well` is None if the check does not apply."""

    what: str
    is_well: bool | None
    says: str
    advice: str = ""

    @property
    def line(self) -> str:
        sign = {True: "✓", False: "✗", None: "–"}[self.is_well]
        return f"{sign} {output.bold(self.what)}: {self.says}" + (f"\n    → {self.advice}" if self.advice else "")


@options.command("doctor", "format", "json", *options.DATA)
@click.option("--repair", is_flag=True, help="Repair damaged data.")
@click.option(
    "--discard-missing",
    is_flag=True,
    help="With --repair: drop turns that are in no transcript. They are moved to the folder 'discarded'.",
)
def doctor(target: options.Target, repair: bool, discard_missing: bool) -> int:
    """Check the installation and the data, and give advice.

    It reads tables, search indexes, the audit log and session transcripts, and changes nothing. The exit code is 0 if
    all checks pass, else 1.

    With --repair it rebuilds damaged search indexes from the texts. It copies the readable part of a damaged SQLite
    file into a new file, and moves unreadable lines of a transcript into a file beside it. The damaged files are kept
    under other names. If data was lost, it says which, and the exit code is 1. A database file can only be repaired
    while no other process has it open.

    If transcripts are missing, their turns stay in the index, unless --discard-missing is given.
    """
    if discard_missing and not repair:
        raise click.UsageError("--discard-missing needs --repair.")
    found = asyncio.run(_examine(target, repair=repair, discard_missing=discard_missing))
    if target.format == "table":
        for finding in found:
            output.say(finding.line)
    else:
        output.show([asdict(finding) for finding in found], target.format, rows="findings")
    return 1 if any(finding.is_well is False for finding in found) else 0


def _hooks(settings: Settings) -> Iterator[CheckResult]:
    """The last problem of a hook within a day. Hooks say nothing to their client, so it is shown here."""
    try:
        note = json.loads((settings.data / PROBLEM_FILE).read_text("utf-8"))
        at, said = datetime.fromtimestamp(note["at"], UTC), f"{note['client']}, {note['event']}: {note['problem']}"
    except (OSError, ValueError, KeyError, TypeError):
        return
    if now() - at < timedelta(days=1):
        advice = "" if "Run 'palaver" in said else "Is the server running? 'palaver serve'"
        yield CheckResult("hooks", None, f"last problem at {iso(at)}: {said}", advice)


def _model(settings: Settings) -> CheckResult:
    """Whether the model of meaning can run."""
    from palaver.search.vectors import background

    if not background.is_set(settings):
        return CheckResult("model", None, "words: only the vectors of words are used")
    problem = background.problem_of(settings)
    if problem:
        advice = "Correct it, or set PALAVER_MODEL=words. Until then searches use words alone."
        return CheckResult("model", False, f"{settings.model} cannot run: {problem}", advice)
    return CheckResult("model", True, settings.model)


async def _examine(target: options.Target, *, repair: bool, discard_missing: bool) -> list[CheckResult]:
    found = list(_versions())
    try:
        settings = target.settings()
    except PalaverError as problem:
        return [*found, CheckResult("settings", False, problem.message, "Correct or remove it.")]
    found += [CheckResult("settings", True, "valid"), await asyncio.to_thread(_model, settings), *_hooks(settings)]
    if last := recording_problem.read(settings.data):
        found.append(CheckResult("recording", False, last, "'palaver setup --check' tries it again."))
    if not settings.database_url:
        found += _directory(settings.data)
    elif settings.database_url.startswith("postgres"):
        postgres = await _postgres(settings)
        found += postgres
        if postgres[0].is_well is False and len(postgres) == 1:
            return [*found, _server(settings)]
    if repair:
        found += [finding async for finding in _repair(settings, discard_missing)]
        from palaver.operations.admin.background_check import check_again

        await asyncio.to_thread(check_again, settings)
    found += [finding async for finding in _data(settings)]
    return [*found, _server(settings), *await asyncio.to_thread(_clients, settings)]


def _versions() -> Iterator[CheckResult]:
    yield CheckResult("palaver", True, __version__)
    yield CheckResult("Python", sys.version_info >= (3, 11), platform.python_version())
    try:
        import apsw
    except ImportError as problem:
        yield CheckResult("SQLite", False, f"cannot be loaded: {problem}", "Install palaver again.")
        return
    version = apsw.sqlite_lib_version()
    is_well = tuple(map(int, version.split("."))) >= OLDEST_SQLITE
    yield CheckResult("SQLite", is_well, f"{version} (apsw {apsw.apsw_version()})", "" if is_well else "Upgrade apsw.")


def _directory(place: Path) -> Iterator[CheckResult]:
    if not place.is_dir():
        yield CheckResult("data directory", None, f"{place} does not exist yet; it is created at first use")
        return
    if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        yield CheckResult("data directory", False, f"{place} cannot be written to", f"Run: chmod u+rwx '{place}'")
    elif os.name == "posix" and place.stat().st_mode & 0o007:
        yield CheckResult("data directory", False, f"{place} is accessible to all users", f"Run: chmod o-rwx '{place}'")
    else:
        yield CheckResult("data directory", True, str(place))
    free = shutil.disk_usage(place).free
    advice = "" if free > LITTLE_SPACE else "Free disk space."
    yield CheckResult("free space", free > LITTLE_SPACE, f"{free / 1024**3:.1f} GB", advice)


async def _postgres(settings: Settings) -> list[CheckResult]:
    from palaver.operations.admin.repair import problems_of_postgres

    try:
        version, problems, slow = await asyncio.to_thread(problems_of_postgres, settings)
    except PalaverError as problem:
        return [CheckResult("PostgreSQL", False, problem.message, _advice(settings))]
    found = [CheckResult("PostgreSQL", True, version), *(CheckResult("PostgreSQL", False, says) for says in problems)]
    return [*found, CheckResult("search speed", None, slow, MORE_BUFFERS)] if slow else found


async def _repair(settings: Settings, discard_missing: bool) -> AsyncIterator[CheckResult]:
    from palaver.operations.admin.repair import repair

    if not settings.database_url and not settings.data.is_dir():
        return
    count = 0
    try:
        async for result in repair(settings, discard_missing=discard_missing):
            count += 1
            yield CheckResult(f"repair of {result.what}", result.is_whole, result.says)
    except PalaverError as problem:
        yield CheckResult("repair", False, problem.message)
    else:
        if not count:
            yield CheckResult("repair", None, "nothing to repair")


async def _data(settings: Settings) -> AsyncIterator[CheckResult]:
    from palaver.app import DEFAULT
    from palaver.doors.cli.connection import open_app
    from palaver.operations.admin.repair import problems

    if not settings.database_url and not settings.data.is_dir():
        return
    if connection_of(settings.data) and not settings.database_url and not any(settings.data.glob("*.db")):
        return  # the clients of this machine use a team's server
    try:
        async with open_app(settings) as app:
            found = await app.check()
            says = found[0].split("\n")[0] if found else "opens; the audit log is intact"
            yield CheckResult("server database", not found, says, _advice(settings) if found else "")
            for loss in await app.losses():
                yield CheckResult("server database", False, loss, "'palaver doctor --repair' acknowledges it.")
            for name in await app.unlisted_workspaces():
                says = f"workspace {name} has data, but is not in the list of workspaces"
                yield CheckResult("server database", False, says, "'palaver doctor --repair' adds it.")
            if DEFAULT not in await app.listed_workspaces():
                await app.open()  # creates the default workspace
            for name in await app.listed_workspaces():
                yield _workspace(settings, name, await problems(settings, name))
    except PalaverError as problem:
        yield CheckResult("database", False, problem.message, _advice(settings))


def _workspace(settings: Settings, name: str, problems: list[str]) -> CheckResult:
    from palaver.operations.sessions.session_index import NO_TRANSCRIPT

    if not problems:
        return CheckResult(f"workspace {name}", True, "opens; data, search index and transcripts are intact")
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    cure = RESTORE_FILES if NO_TRANSCRIPT in problems[0] else _advice(settings)
    return CheckResult(f"workspace {name}", False, problems[0].split("\n")[0] + more, cure)


def _clients(settings: Settings) -> list[CheckResult]:
    """The clients on this machine. One whose server does not run now is not an error."""
    found = []
    for state in client_states(settings):
        advice = " ".join(state.problems) or ("" if state.server else f"Run: palaver setup {state.client.name}")
        found.append(CheckResult(state.client.title, True if state.is_well else None, says_of(state), advice))
    return found


def _advice(settings: Settings) -> str:
    if settings.database_url.startswith("postgres"):
        return "Check PALAVER_DATABASE_URL and that PostgreSQL runs; 'palaver doctor --repair' rebuilds indexes."
    return "Stop palaver, then run 'palaver doctor --repair', or restore a backup into an empty --home."


def _server(settings: Settings) -> CheckResult:
    team = connection_of(settings.data).get("url")
    url = team or client_settings(settings).base_url
    answer = answer_of(url, "/healthz")
    if answer and "version" in answer:
        return CheckResult("server", True, f"palaver {answer['version']} answers at {url}")
    advice = "'palaver setup --url URL' names another one" if team else "'palaver serve' starts one"
    return CheckResult("server", None, f"no server at {url}; {advice}")
