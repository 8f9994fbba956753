"""Run the HTTP server with uvicorn: one process, one port."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import uvicorn

from palaver.app import App
from palaver.doors.http import logs
from palaver.doors.http.routes import web_application
from palaver.doors.http.timeouts import HttpProtocol
from palaver.errors import Refused, Unavailable
from palaver.settings import Settings


class _Server(uvicorn.Server):
    """Closes event streams at once when it stops, as they would never end by themselves."""

    app: App

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._captured_signals.clear()  # uvicorn would raise the signal again at the end
        asyncio.get_event_loop().call_soon_threadsafe(self.app.dismiss_listeners)


def serve(settings: Settings, banner: str = "", watch: Sequence[Path] = ()) -> None:
    """Serve until a signal stops the process. All acknowledged data is on disk.

    `watch` are places of session files to follow meanwhile.
    """
    os.umask(0o077)  # new files are private
    sys.setswitchinterval(0.001)  # the default of 5 ms delays the writer thread
    sock = listening_socket(settings)
    app = App(settings)
    asyncio.run(check_before_serving(app))
    app = App(settings)
    config = uvicorn.Config(
        web_application(app, watch),
        loop="uvloop" if sys.platform != "win32" else "asyncio",
        http=HttpProtocol,
        ws="websockets-sansio",
        log_level=logs.library_level(settings),
        log_config=logs.config(settings),
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        timeout_keep_alive=30,
        ws_max_size=settings.max_body,
        lifespan="on",
    )
    server = _Server(config)
    server.app = app
    if banner:
        print(banner, flush=True)
    server.run(sockets=[sock])
    if not server.started:
        raise Unavailable("The server could not start. See the messages above.")


def listening_socket(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    sock = socket.socket(family)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((settings.host, settings.port))
    except OSError as problem:
        sock.close()
        raise Unavailable(
            f"Cannot listen on {settings.host}:{settings.port} ({os.strerror(problem.errno or 0)}). "
            "Is palaver running already? Choose another port with --port."
        ) from None
    sock.listen(2048)
    return sock


async def check_before_serving(app: App) -> None:
    """Check that the data can be opened, and that a server with a public address has a token."""
    settings = app.settings
    try:
        await app.open()
        if not settings.is_loopback and settings.auth == "open":
            raise Refused("PALAVER_AUTH=open is only allowed on loopback addresses. Others could read all data.")
        if not settings.is_loopback and not await app.access.tokens():
            raise Refused(
                f"Other machines can reach {settings.host}, and no token exists yet. "
                "Run 'palaver token create --human NAME --scope read,write,admin' first."
            )
    finally:
        await app.close()
