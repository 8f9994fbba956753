"""Which open points of sessions were closed, and when."""

from __future__ import annotations

from datetime import datetime

from palaver.model.times import instant, micros
from palaver.store.engines.database import Change, Reader


def closed_at(read: Reader) -> dict[str, datetime]:
    """When each point was closed, by its id."""
    return {row["point"]: instant(row["closed_at"]) for row in read.all("closed_points")}


def close(change: Change, point: str, at: datetime, by: str) -> None:
    change.run("close_point", point=point, closed_at=micros(at), closed_by=by)
