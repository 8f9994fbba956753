"""Looking after the data: copying it, putting it back, and taking away for good what was deleted."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from palaver.app import App
from palaver.doors.cli import output, target
from palaver.doors.cli.admin import inside
from palaver.errors import Refused
from palaver.operations.admin import backup as backups
from palaver.operations.admin.purge import PurgeResult
from palaver.operations.admin.purge import purge as purge_workspace

SHOWN = ("format", "json", *target.ON_THE_DATA)


@target.takes(*target.ON_THE_DATA)
@click.command(no_args_is_help=True)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def backup(file: Path) -> None:
    """Copy everything into FILE, a tar archive (compressed if it ends in .gz), while servers go on working.

    Databases, transcripts, uploads, tokens (their hashes) and the audit log are in it: keep it as safe as the data.
    """
    if not file.absolute().parent.is_dir():
        raise Refused(f"There is no folder {file.absolute().parent} to write to.")

    async def work(app: App) -> int:
        workspaces = [await app.open(name) for name in await app.workspaces()]
        await backups.back_up(file.absolute(), app.settings, app.trail, workspaces)
        return len(workspaces)

    count = inside(work)
    size = file.stat().st_size / 1024**2
    output.note(f"Wrote {file.name}: {count} workspace{'s' if count > 1 else ''}, {size:.1f} MB.")


@target.takes(*target.ON_THE_DATA)
@click.command(no_args_is_help=True)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.pass_obj
def restore(where: target.Where, file: Path) -> None:
    """Put a backup back, into a place where nothing is yet: an empty --home, an empty database.

    Every file is compared with its hash and every database is checked first.
    """
    if where.server:
        raise Refused("A backup is restored where the data is: leave --url and PALAVER_URL out.")
    names = backups.restore(where.settings(), file)
    output.note(f"Restored {', '.join(names)}. 'palaver doctor' looks whether all is well.")


@target.takes("workspace", *SHOWN)
@click.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def purge(where: target.Where, yes: bool) -> None:
    """Take away for good what was deleted: empty the trash, and write all files anew without it.

    Deleting takes a message, a thread or a note out of every list and search at once; its words may stay for a while
    in free parts of the database files. After a purge they are in none. Posting waits while files are written: choose
    a quiet hour for a large workspace. Backups made earlier still hold what was there then.
    """
    if not yes:
        click.confirm("What is in the trash cannot be restored afterwards. Go on?", abort=True, err=True)

    async def work(app: App) -> list[PurgeResult]:
        names = [where.workspace] if where.workspace else await app.workspaces()
        return [await purge_workspace(await app.open(name), app.trail) for name in names]

    rows = json.loads(json.dumps([asdict(one) for one in inside(work)]))
    output.show(rows, where.format, columns=("workspace", "items", "images"), rows="rows")
