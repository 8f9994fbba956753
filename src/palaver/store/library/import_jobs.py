"""The state of imports of uploads. Servers that share a database know the imports of each other."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import orjson

from palaver.model.times import instant, micros, now
from palaver.store.engines.database import Change, Reader

KEPT = timedelta(days=7)
"""How long an import is remembered."""
SILENT = timedelta(seconds=30)
"""The server of a running import writes its state more often than this. If it does not, it was stopped or killed."""
STOPPED = "The server that ran this import was stopped. Upload the same files again: the import continues."


def put(change: Change, state: dict[str, Any]) -> None:
    """Store the state of an import, and forget old imports when a new one begins."""
    change.run("forget_import_jobs", before=micros(now() - KEPT))
    change.run("put_import_job", id=state["id"], state=orjson.dumps(state).decode(), changed_at=micros(now()))


def find(read: Reader, id: str) -> dict[str, Any] | None:
    """The state of an import. One whose server is gone has failed."""
    row = read.one("import_job", id=id)
    if row is None:
        return None
    state: dict[str, Any] = orjson.loads(row["state"])
    if state["status"] == "running" and instant(row["changed_at"]) < now() - SILENT:
        state |= {"status": "failed", "message": STOPPED}
    return state
