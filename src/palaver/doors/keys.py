"""Tokens and workspaces over HTTP, for those in charge.

Who is in charge of a workspace makes and revokes its tokens; who is in charge of the default workspace, those of all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from palaver.doors.login import is_owner
from palaver.doors.rest import body_of, error
from palaver.doors.visit import Visit
from palaver.errors import Forbidden, NotFound, PalaverError
from palaver.house import House
from palaver.model.asking import Ask, Id, Line, clamp, read
from palaver.model.events import encode
from palaver.model.people import Scope

Work = Callable[[Request, House, Visit], Awaitable[Response]]


class NewToken(Ask):
    kind: Literal["human", "agent"]
    name: Annotated[Line, Field(min_length=1, max_length=200)]
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=3)] = Field(default=["read", "write"])
    workspace: Id | None = None
    days: Annotated[int, clamp(1, 36500)] | None = None


class NewWorkspace(Ask):
    name: Id


def routes() -> list[BaseRoute]:
    return [
        Route("/api/tokens", _admins(_list_tokens)),
        Route("/api/tokens", _admins(_create_token), methods=["POST"]),
        Route("/api/tokens/{id}", _admins(_revoke_token), methods=["DELETE"]),
        Route("/api/workspaces", _admins(_list_workspaces)),
        Route("/api/workspaces", _admins(_create_workspace), methods=["POST"]),
    ]


def _admins(work: Work) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        visit: Visit = request.scope["palaver.visit"]
        try:
            if "admin" not in visit.caller.scopes or visit.caller.is_agent:
                raise Forbidden("Only people whose token has the 'admin' scope manage tokens and workspaces.")
            return await work(request, request.app.state.house, visit)
        except PalaverError as problem:
            return error(problem)

    return endpoint


def _json(value: object, status: int = 200) -> Response:
    return Response(encode(value), status, media_type="application/json")


def _reaches(visit: Visit, workspace: str) -> bool:
    return workspace == visit.here.name or is_owner(visit)


async def _list_tokens(request: Request, house: House, visit: Visit) -> Response:
    return _json([token for token in await house.tokens() if _reaches(visit, token.workspace)])


async def _create_token(request: Request, house: House, visit: Visit) -> Response:
    ask = read(NewToken, await body_of(request, 10_000), refuse_unknown=True)
    workspace = ask.workspace or visit.here.name
    if not _reaches(visit, workspace):
        raise NotFound("workspace", workspace)
    lasts = timedelta(days=ask.days) if ask.days else None
    token, secret = await house.create_token(workspace, ask.kind, ask.name, list(dict.fromkeys(ask.scopes)), lasts)
    return _json({"token": token, "secret": secret}, 201)


async def _revoke_token(request: Request, house: House, visit: Visit) -> Response:
    id = request.path_params["id"]
    if not any(token.id == id and _reaches(visit, token.workspace) for token in await house.tokens()):
        raise NotFound("token", id[:80], "List tokens to see their ids.")
    await house.revoke_token(id)
    return _json({"revoked": id})


async def _list_workspaces(request: Request, house: House, visit: Visit) -> Response:
    return _json([name for name in await house.workspaces() if _reaches(visit, name)])


async def _create_workspace(request: Request, house: House, visit: Visit) -> Response:
    if not is_owner(visit):
        raise Forbidden("Workspaces are made by those in charge of the default workspace.")
    ask = read(NewWorkspace, await body_of(request, 10_000), refuse_unknown=True)
    await house.create_workspace(ask.name)
    return _json({"name": ask.name}, 201)
