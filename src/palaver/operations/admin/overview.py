"""The overview: how much is said, by whom, and whether the house is in order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from palaver.model.people import Caller
from palaver.model.requests import Ask, clamp
from palaver.model.times import now
from palaver.operations.bus.agents import Nobody
from palaver.operations.bus.connect import BusStatus, get_status
from palaver.operations.operation import Route, operation
from palaver.store.admin import overview
from palaver.store.admin.overview import Day, Speaker
from palaver.store.engines.database import Reader
from palaver.store.library import documents

SPEAKERS = 12


class LookOver(Ask):
    days: Annotated[int, clamp(1, 366)] = 30
    """How many days to look back, today included."""


@dataclass(frozen=True, slots=True)
class Overview:
    """`days` leaves out what was silent; `documents` counts what is kept, by source. For an agent, only its own
    sessions are counted, and `storage_bytes` is null."""

    since: str
    days: list[Day]
    speakers: list[Speaker]
    documents: dict[str, int]
    is_index_complete: bool
    storage_bytes: int | None
    status: BusStatus


@operation(Route("GET", "/api/overview"))
def look_over(read: Reader, caller: Caller, ask: LookOver) -> Overview:
    """Messages a day by source, who said most, how much is kept, and whether the index is complete."""
    since = now().date() - timedelta(days=ask.days - 1)
    whose = overview.SessionOwner(everyone=not caller.is_agent, agent_id=caller.acting_agent)
    return Overview(
        since=since.isoformat(),
        days=overview.per_day(read, since, whose),
        speakers=overview.speakers(read, since, SPEAKERS, whose),
        documents=overview.documents(read, whose),
        is_index_complete=documents.is_complete(read),
        storage_bytes=None if caller.is_agent else overview.storage_bytes(read),
        status=get_status.work(read, caller, Nobody()),
    )
