"""Remember how far imports of uploads are, for all servers that share the data."""

from __future__ import annotations

from typing import Any

from palaver.store.library import import_jobs
from palaver.store.workspaces import Workspace


async def store_state(here: Workspace, state: dict[str, Any]) -> None:
    """Store the state of an import."""
    await here.change(lambda change: import_jobs.put(change, state))


async def state_of(here: Workspace, id: str) -> dict[str, Any] | None:
    """The state of an import that this or another server has begun."""
    return await here.read(lambda read: import_jobs.find(read, id))
