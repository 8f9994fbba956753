"""Running the server: one process, one port."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from types import FrameType

import uvicorn

from palaver.app import App
from palaver.doors.http import logs
from palaver.doors.http.routes import web_application
from palaver.doors.http.timeouts import PatientHttp
from palaver.doors.running_server import announced
from palaver.errors import Refused, Unavailable
from palaver.settings import Settings


class _Server(uvicorn.Server):
    """Lets listeners go at once when told to stop, instead of waiting for streams that never end."""

    app: App

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._captured_signals.clear()  # or it would be raised again at the end: being told to stop is no failure
        asyncio.get_event_loop().call_soon_threadsafe(self.app.dismiss_listeners)


def serve(settings: Settings, banner: str = "") -> None:
    """Serve until told to stop. Everything acknowledged by then is on disk."""
    os.umask(0o077)  # nobody else on the machine reads what is said here
    sys.setswitchinterval(0.001)  # the writer thread must not wait 5 ms for its turn
    sock = listening_socket(settings)
    app = App(settings)
    asyncio.run(must_be_fit_to_serve(app))
    app = App(settings)
    config = uvicorn.Config(
        web_application(app),
        loop="uvloop" if sys.platform != "win32" else "asyncio",
        http=PatientHttp,
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
    with announced(settings):
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


async def must_be_fit_to_serve(app: App) -> None:
    """The data can be opened; and where others can reach us a token exists, or nobody could come in (and everybody
    must not)."""
    settings = app.settings
    try:
        await app.open()
        if not settings.is_loopback and settings.auth == "open":
            raise Refused("PALAVER_AUTH=open is only for loopback addresses: anybody could read everything.")
        if not settings.is_loopback and not await app.access.tokens():
            raise Refused(
                f"{settings.host} can be reached by others, and no token exists yet. "
                "Run 'palaver token create --human NAME --scope read,write,admin' first."
            )
    finally:
        await app.close()
