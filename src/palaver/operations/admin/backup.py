"""Backup of everything into one file, and restore from it."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from palaver import __version__
from palaver.model.admin.audit import TERMINAL
from palaver.settings import Settings
from palaver.store.admin import backup
from palaver.store.admin.audit import AuditLog
from palaver.store.workspaces import Workspace, engine_name


async def back_up(
    to: Path, settings: Settings, trail: AuditLog, workspaces: list[Workspace], by: str = TERMINAL
) -> None:
    """Copy all databases and files into `to`. Servers can keep working meanwhile."""
    with backup.write_backup(to, engine_name(settings), __version__) as copy:
        databases = {"house": trail.engine.copy_into}
        databases |= {f"workspaces/{here.name}": here.engine.copy_into for here in workspaces}
        for name, copy_into in databases.items():
            with tempfile.TemporaryDirectory(prefix=".backup-", dir=to.parent) as folder:
                number = await asyncio.to_thread(copy_into, Path(folder))
                await asyncio.to_thread(copy.add_database, name, Path(folder), number)
        for name in backup.FOLDERS:
            await asyncio.to_thread(copy.add_folder, settings.data / name, name)
    await trail.note("upkeep", by, "backup", facts={"workspaces": len(workspaces)})


def restore(settings: Settings, file: Path) -> list[str]:
    """Restore a backup into an empty place, and return the names of its workspaces."""
    return backup.restore(settings, file).workspaces
