"""List and close what was left open in sessions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from palaver.errors import must_be_found
from palaver.model.people import Caller
from palaver.model.requests import Line, NotBlank, Project, Request
from palaver.model.times import now
from palaver.operations.catchup.session_facts import OpenPoint, points_of, read_facts
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.operations.sessions.owners import must_be_indexed
from palaver.store.engines.database import Change, Reader
from palaver.store.sessions import sessions
from palaver.text import notable


class ListOpenPoints(Request):
    project: Project | None = None
    """Only points of this project: path or folder name."""


@dataclass(frozen=True, slots=True)
class OpenPoints:
    points: list[OpenPoint]


@operation(
    Route("GET", "/api/open-points"),
    Command("point list", columns=("point", "agent", "project", "said_at", "text"), rows="points"),
)
def list_open_points(read: Reader, caller: Caller, request: ListOpenPoints) -> OpenPoints:
    """List what was left open in sessions, the latest first."""
    must_be_indexed(read)
    return OpenPoints([one for one in _points(read, caller, request.project) if not one.is_closed])


class ClosePoint(Request):
    point: Annotated[Line, Field(max_length=400), NotBlank]
    """Id or text of the open point."""


@operation(
    Tool("point_close", acts=True, toolset="points"),
    Route("POST", "/api/open-points/{point:any}/close"),
    Command("point close", takes=("point",)),
)
def close_point(change: Change, caller: Caller, request: ClosePoint) -> OpenPoint:
    """Close an open point of a session: it is done or no longer wanted. Briefings do not show it again."""
    must_be_indexed(change)
    about = notable.content_words(request.point)
    found = _points(change, caller, None)
    named = [one for one in found if one.point == request.point]
    alike = [one for one in found if about and notable.content_words(one.text) == about]
    point = next(iter(named + alike), None)
    point = must_be_found(point, "point", request.point, "List the open points to see their ids.")
    sessions.close_point(change, point.point, now(), caller.acting_agent or caller.name)
    return replace(point, is_closed=True)


def _points(read: Reader, caller: Caller, project: str | None) -> list[OpenPoint]:
    return points_of(read, read_facts(read, caller, project))
