"""The web application: all HTTP and WebSocket doors on one port, behind the guard."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from palaver import __version__
from palaver.doors import imports, login, openapi, pages, rest, sse, uploads
from palaver.doors.guard import Guard
from palaver.doors.late import LateMcp
from palaver.doors.visit import Visit
from palaver.errors import PalaverError
from palaver.house import House
from palaver.model.events import encode
from palaver.operations.agents import Nobody
from palaver.operations.connect import get_status


def application(house: House) -> ASGIApp:
    agents = LateMcp(house)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await house.open()
        house.start_sweeping()
        async with agents.opening():
            yield
        await house.close()

    app = Starlette(
        routes=[*rest.routes(house.settings.max_body), agents, *_pages()],
        lifespan=lifespan,
        exception_handlers={HTTPException: _http_problem, Exception: _unexpected},
    )
    app.state.house, app.state.started = house, time.monotonic()
    return Guard(app, house)


def _pages() -> list[BaseRoute]:
    console = pages.Console()
    coming = imports.Imports()
    return [
        Route("/", console.home),
        Route("/console/{path:path}", console.file),
        Route("/api/session", login.show),
        Route("/api/session", login.begin, methods=["POST"]),
        Route("/api/session", login.end, methods=["DELETE"]),
        Route("/docs", _docs),
        Route("/openapi.json", _openapi),
        Route("/healthz", _healthy),
        Route("/readyz", _ready),
        Route("/metrics", _metrics),
        Route("/events", sse.all_events),
        Route("/api/threads/{thread_id}/events", sse.thread_events),
        Route("/api/import", coming.begin, methods=["POST"]),
        Route("/api/import/{id}", coming.show),
        Route("/api/import/{id}/events", coming.follow),
        Route("/api/upload/image", uploads.upload_image, methods=["POST"]),
        Route("/uploads/{name}", uploads.show_image),
    ]


def _json(value: object, status: int = 200) -> Response:
    return Response(encode(value), status, media_type="application/json")


async def _docs(request: Request) -> Response:
    return HTMLResponse(openapi.page())


async def _openapi(request: Request) -> Response:
    return _json(openapi.document())


async def _healthy(request: Request) -> Response:
    """The process answers."""
    return _json({"status": "ok", "version": __version__})


async def _ready(request: Request) -> Response:
    """The database answers too."""
    try:
        here = await request.app.state.house.open()
        await here.read(lambda read: read.must("last_event_id"))
    except PalaverError as problem:
        return _json({"status": "unavailable", "detail": problem.message}, 503)
    return _json({"status": "ready"})


async def _metrics(request: Request) -> Response:
    """A few numbers in the format Prometheus reads."""
    visit: Visit = request.scope["palaver.visit"]
    try:
        status = await get_status.perform(visit.here, visit.caller, Nobody())
    except PalaverError as problem:
        return rest.error(problem)
    uptime = time.monotonic() - request.app.state.started
    lines = [
        "# TYPE palaver_info gauge",
        f'palaver_info{{version="{__version__}",engine="{status.engine}"}} 1',
        "# TYPE palaver_uptime_seconds gauge",
        f"palaver_uptime_seconds {uptime:.0f}",
        "# TYPE palaver_messages gauge",
        f"palaver_messages {status.messages}",
        "# TYPE palaver_threads gauge",
        f"palaver_threads {status.threads}",
        "# TYPE palaver_agents_online gauge",
        f"palaver_agents_online {status.agents_online}",
        "# TYPE palaver_events_total counter",
        f"palaver_events_total {status.last_event_id}",
        "",
    ]
    return PlainTextResponse("\n".join(lines), media_type="text/plain; version=0.0.4")


async def _http_problem(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    return Response(
        encode({"detail": problem.detail}), problem.status_code, problem.headers, media_type="application/json"
    )


async def _unexpected(request: Request, problem: Exception) -> Response:
    return _json({"detail": "Something went wrong on the server's side. It has been written to its log."}, 500)
