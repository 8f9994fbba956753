"""The web application: all HTTP and WebSocket routes, behind the security middleware."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.datastructures import URL
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp

from palaver import __version__
from palaver.app import App
from palaver.doors.http import console_files, imports, incoming_webhooks, login, metrics, openapi, rest, sse, uploads
from palaver.doors.http.guard import Guard
from palaver.doors.http.rest import json_response
from palaver.doors.local.local_socket import LocalSocket
from palaver.doors.mcp.lazy_app import LazyMcpRoute
from palaver.doors.oauth import routes as oauth_routes
from palaver.errors import PalaverError


def web_application(app: App, watch: Sequence[Path] = ()) -> ASGIApp:
    mcp, jobs, console = LazyMcpRoute(app), imports.Imports(), console_files.Console()
    local = LocalSocket(app, mcp)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await app.open()
        app.start_background_tasks(watch)
        async with mcp.running(), local.listening():
            yield
        await jobs.close()
        await app.close()

    web = Starlette(
        routes=[
            *rest.routes(app.settings.max_body),
            mcp,
            Route("/", console.home),
            Route("/console/{path:path}", console.file),
            Route("/api/session", login.show),
            Route("/api/session", login.begin, methods=["POST"]),
            Route("/api/session", login.end, methods=["DELETE"]),
            *oauth_routes.routes(app.settings),
            Route("/docs", openapi.show_page),
            Route("/openapi.json", openapi.show_document),
            Route("/healthz", _healthy),
            Route("/readyz", _ready),
            Route("/metrics", metrics.metrics),
            Route("/events", sse.events),
            Route("/api/threads/{thread_id}/events", sse.events),
            Route("/api/import", jobs.begin, methods=["POST"]),
            Route("/api/import/{id}", imports.show),
            Route("/api/import/{id}/events", imports.follow),
            Route("/api/upload/image", uploads.upload_image, methods=["POST"]),
            Route("/api/upload/file", uploads.upload_file, methods=["POST"]),
            Route("/uploads/{name}", uploads.show_image),
            Route("/hooks/{workspace}/{key}", incoming_webhooks.receive, methods=["POST"]),
        ],
        lifespan=lifespan,
        exception_handlers={PalaverError: _problem, HTTPException: _http_problem, Exception: _unexpected},
    )
    web.router.redirect_slashes = False  # see _redirect_target
    web.state.app, web.state.mcp, web.state.started = app, mcp, time.monotonic()
    return Guard(web, app)


async def _healthy(request: Request) -> Response:
    """Liveness."""
    return json_response({"status": "ok", "version": __version__})


async def _ready(request: Request) -> Response:
    """Readiness: MCP is loaded, the database can be read and written, and a quick look finds no missing data.

    `degraded` (200): data is missing, but requests are answered. `unavailable` (503): send no requests here. `watch` is
    the state of the watch of session files: starting, reading, following or failed, and how many turns it has recorded.
    """
    app: App = request.app.state.app
    watch = {"watch": app.watch} if app.watch else {}
    try:
        here = await app.open()
        await here.ping()
        signs = await app.signs()
        request.app.state.mcp.door()
    except PalaverError as problem:
        return json_response({"status": "unavailable", "detail": problem.message} | watch, 503)
    if not signs:
        return json_response({"status": "ready"} | watch)
    detail = f"{signs[0].says}. Run 'palaver doctor' on the server."
    problems = [sign.says for sign in signs]
    if any(sign.stops for sign in signs):
        return json_response({"status": "unavailable", "detail": detail, "problems": problems}, 503)
    return json_response({"status": "degraded", "detail": detail, "problems": problems} | watch)


async def _problem(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, PalaverError)
    return rest.error(problem)


async def _http_problem(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    detail, headers = problem.detail, dict(problem.headers or {})
    if problem.status_code == 405:
        # Each method of a path has its own route.
        routes = [route for route in request.app.routes if isinstance(route, Route)]
        path = next((route.path for route in routes if route.matches(request.scope)[0] is not Match.NONE), "")
        methods = {method for route in routes if route.path == path for method in route.methods or ()}
        headers["Allow"] = ", ".join(sorted(methods or headers.get("Allow", "").split(", ")))
        detail = f"{request.method} is not allowed here. Allowed: {headers['Allow']}."
    elif problem.status_code == 404 and detail == "Not Found":
        if address := _redirect_target(request):
            return RedirectResponse(address)
        detail = "There is no route with this path. /docs lists all routes."
    names = ("error", "detail") if request.url.path.startswith("/api/v1/") else ("detail",)
    return json_response(dict.fromkeys(names, detail), problem.status_code, headers)


def _redirect_target(request: Request) -> URL | None:
    """The URL with or without its last slash, if it has a route for this method.

    Never for DELETE: many clients turn `…/reactions/..` into `…/`, which would delete the message itself.
    """
    scope, path = request.scope, request.scope["path"]
    routes = request.app.routes
    if request.method == "DELETE" or any(route.matches(scope)[0] is not Match.NONE for route in routes):
        return None
    other = {**scope, "path": path[:-1] if path.endswith("/") else f"{path}/"}
    is_there = any(route.matches(other)[0] is Match.FULL for route in routes)
    return URL(scope=other) if is_there else None


async def _unexpected(request: Request, problem: Exception) -> Response:
    return json_response({"detail": "The server failed. Its log says why."}, 500)
