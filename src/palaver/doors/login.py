"""Who is looking at the console."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from palaver import __version__
from palaver.doors.rest import error
from palaver.doors.visit import Visit
from palaver.errors import PalaverError
from palaver.model.events import encode
from palaver.operations.agents import Nobody
from palaver.operations.connect import get_status


async def show(request: Request) -> Response:
    """Who is looking, what they may do, and the event from which on they need to listen."""
    visit: Visit = request.scope["palaver.visit"]
    settings = visit.here.settings
    try:
        status = await get_status.perform(visit.here, visit.caller, Nobody())
    except PalaverError as problem:
        return error(problem)
    shown = {
        "is_in": True,
        "needs_login": settings.needs_token,
        "name": visit.caller.name if visit.caller.is_authenticated else None,
        "workspace": visit.here.name,
        "scopes": sorted(visit.caller.scopes),
        "version": __version__,
        "base_url": settings.base_url,
        "last_event_id": status.last_event_id,
        "csrf": None,
    }
    return Response(encode(shown), media_type="application/json")
