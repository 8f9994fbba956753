"""Statistics of a workspace for the console's overview page."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, timedelta, tzinfo
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import Field

from palaver.errors import Invalid
from palaver.model import visibility
from palaver.model.people import Caller
from palaver.model.requests import Request, clamp
from palaver.model.times import now
from palaver.operations.bus.connect import BusStatus, status_of
from palaver.operations.operation import Route, operation
from palaver.store.admin import overview
from palaver.store.admin.check_state import CheckStatus
from palaver.store.admin.overview import AuthorDays, Day, ProjectDays, Speaker
from palaver.store.engines.database import Reader
from palaver.store.library import documents
from palaver.store.sessions import sharing
from palaver.store.workspaces import Workspace

AUTHORS = 12
PROJECTS = 8


class GetOverview(Request):
    days: Annotated[int, clamp(1, 366)] = 30
    """Number of days to count, including today."""
    timezone: Annotated[str, Field(max_length=64)] = "UTC"
    """Time zone in which days begin and end, e.g. Europe/Berlin."""


@dataclass(frozen=True, slots=True)
class Overview:
    """Statistics of a workspace. `days` omits days without messages; `documents` counts documents by source. `authors`
    and `projects` are the most active ones, with their messages by day. For an agent only sessions that it may
    read are counted, and `storage_bytes` is null."""

    since: str
    days: list[Day]
    speakers: list[Speaker]
    authors: list[AuthorDays]
    projects: list[ProjectDays]
    documents: dict[str, int]
    is_index_complete: bool
    storage_bytes: int | None
    status: BusStatus


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise Invalid("timezone: the server does not know this time zone. Use a name such as Europe/Berlin.") from None


@operation(Route("GET", "/api/overview"))
async def get_overview(here: Workspace, caller: Caller, request: GetOverview) -> Overview:
    """Statistics: messages per day and source, most active authors, documents per source, state of the search index."""
    check = await asyncio.to_thread(lambda: here.check_state.status)
    return await here.read(lambda read: _overview(read, caller, request, check))


def _overview(read: Reader, caller: Caller, request: GetOverview, check: CheckStatus) -> Overview:
    zone = _zone(request.timezone)
    today = now().astimezone(zone).date()
    days = [today - timedelta(days=ago) for ago in reversed(range(request.days))]
    groups = sharing.readable_groups(read, sharing.reach_of(read, caller))
    authors = overview.authors(read, days, zone, groups, AUTHORS)
    return Overview(
        since=days[0].isoformat(),
        days=overview.per_day(read, days, zone, groups),
        speakers=[Speaker(one.agent_id, one.name, sum(one.days.values())) for one in authors],
        authors=authors,
        projects=overview.projects(read, days, zone, groups, PROJECTS),
        documents=overview.documents(read, groups),
        is_index_complete=documents.is_complete(read),
        storage_bytes=overview.storage_bytes(read) if visibility.sees_everything(caller) else None,
        status=status_of(read, caller, check),
    )
