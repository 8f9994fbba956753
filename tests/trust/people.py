"""People and agents with tokens, on a server that asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.helpers import Mcp, Server

from palaver.app import App
from palaver.settings import Settings


def with_app(server: Server, work: Callable[[App], Any]) -> Any:
    """Run work on the server's data from another process, as an administrator does at the terminal."""

    async def go() -> Any:
        app = App(Settings(home=server.home, database_url=server.env["PALAVER_DATABASE_URL"]))
        try:
            return await work(app)
        finally:
            await app.close()

    return asyncio.run(go())


class Key:
    """A token, and a client that carries it."""

    def __init__(
        self,
        server: Server,
        workspace: str = "default",
        kind: Any = "human",
        name: str = "ann",
        scopes: tuple[Any, ...] = ("read", "write"),
        expires_in: timedelta | None = None,
    ) -> None:
        self.server = server
        self.token, self.secret = with_app(
            server, lambda app: app.access.create_token(workspace, kind, name, list(scopes), expires_in)
        )
        self.headers = {"authorization": f"Bearer {self.secret}"}
        self.api = server.client(headers=self.headers)

    @property
    def mcp(self) -> Mcp:
        return Mcp(self.api)

    def revoke(self) -> None:
        with_app(self.server, lambda app: app.access.revoke_token(self.token.id))


def make_workspace(server: Server, name: str) -> None:
    with_app(server, lambda app: app.create_workspace(name))


def files_below(place: Path) -> list[Path]:
    return [path for path in place.rglob("*") if path.is_file()]
