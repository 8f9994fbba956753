"""Purge: permanently remove deleted items, from the tables and from the files."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from palaver.model.admin.audit import TERMINAL
from palaver.store.admin import trash
from palaver.store.admin.audit import AuditLog
from palaver.store.search import search_sessions
from palaver.store.workspaces import Workspace


@dataclass(frozen=True, slots=True)
class PurgeResult:
    workspace: str
    items: int
    images: int


async def purge(here: Workspace, trail: AuditLog, by: str = TERMINAL) -> PurgeResult:
    """Empty the trash and rewrite the files, so that no file contains a deleted text."""
    items = 0
    while count := await here.change(trash.empty_trash):
        items += count
    await here.change(trash.forget_events)
    await here.change(search_sessions.forget_all)
    in_use = await here.read(trash.images_in_use)
    images = await asyncio.to_thread(trash.remove_images, here.settings.data / "uploads" / here.name, in_use)
    await asyncio.to_thread(here.engine.wipe)
    await asyncio.to_thread(trail.engine.wipe)
    await trail.note("deletion", by, "purge", here.name, {"items": items, "images": images})
    return PurgeResult(here.name, items, images)
