"""Connection of a command to the local data or to a running server. Both give the same answers."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from palaver.app import DEFAULT, App
from palaver.doors.authentication import Requester, authenticate
from palaver.doors.cli.options import Target, ThreadOption
from palaver.doors.local.running_server import client_settings
from palaver.errors import NotFound, Refused, Unavailable, error_of_status
from palaver.model import requests
from palaver.model.events import encode
from palaver.model.people import Caller
from palaver.operations.bus.threads import get_thread, list_threads
from palaver.operations.operation import Operation
from palaver.settings import Settings
from palaver.store.workspaces import Workspace

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 60.0
WAIT_SECONDS = 660.0  # a wait can take ten minutes

_IN_PATH = re.compile(r"{(\w+)(?::\w+)?}")


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of the event stream."""

    id: int
    type: str
    data: dict[str, Any]


@asynccontextmanager
async def connect(target: Target) -> AsyncIterator[LocalConnection | ServerConnection]:
    if target.server:
        if target.workspace is not None:
            raise Refused("On a server the token decides the workspace. Remove --workspace or --url.")
        async with server_client(target.server, target.token) as client:
            yield ServerConnection(client)
    else:
        async with open_app(target.settings()) as app:
            yield LocalConnection(await local_requester(app, target.token, target.workspace))


@asynccontextmanager
async def open_app(settings: Settings) -> AsyncIterator[App]:
    try:
        app = App(client_settings(settings))
    except PermissionError:
        raise  # it names the folder, and `run_to_exit_code` adds advice
    except OSError as problem:
        raise Unavailable(f"The data directory cannot be used: {problem.strerror or problem}.") from None
    try:
        yield app
    finally:
        await app.close()


@asynccontextmanager
async def open_workspace(target: Target) -> AsyncIterator[tuple[App, Workspace]]:
    """Open the local workspace, for commands that need the index of sessions."""
    refuse_server(target)
    async with open_app(target.settings()) as app:
        if not app.settings.sessions_index:
            raise Unavailable("The index of sessions is off (PALAVER_SESSIONS_INDEX).")
        yield app, await app.open(target.workspace or DEFAULT)


def refuse_server(target: Target) -> None:
    if target.server:
        raise Refused("This command works only on local data. Remove --url and PALAVER_URL.")


async def local_requester(app: App, token: str | None, workspace: str | None) -> Requester:
    """Access to the files means full access. A token (PALAVER_TOKEN) reduces it to the token's own."""
    if token and workspace is None:
        return await authenticate(app, token, "human")
    return Requester(await app.open(workspace or DEFAULT), Caller(kind="human", name="human"))


async def perform(
    connection: LocalConnection | ServerConnection, operation: Operation, given: dict[str, Any], thread: ThreadOption
) -> Any:
    """Perform an operation whose thread may be given by its topic."""
    if thread != "none" and "thread_id" in given:
        try:
            given = {**given, "thread_id": await thread_id_of(connection, given["thread_id"])}
        except NotFound:
            if thread == "required":  # as a filter, the operation reports an unknown thread
                raise
    return await connection.call(operation, given)


async def thread_id_of(connection: LocalConnection | ServerConnection, given: str) -> str:
    """The id of the thread with this id or this exact topic."""
    if "/" not in given and given.strip(".") != "":  # servers read %2F as a slash, and many clients resolve dots
        return str((await connection.call(get_thread, {"thread_id": given}))["id"])
    found = await connection.call(list_threads, {"topic": given})
    if not found["threads"]:
        raise NotFound("thread", given, "List threads to see which exist.")
    return str(found["threads"][0]["id"])


class LocalConnection:
    """Works on the data in this process."""

    def __init__(self, requester: Requester) -> None:
        self._requester = requester

    async def call(self, operation: Operation, given: dict[str, Any]) -> Any:
        """Perform the operation and return the answer as REST shows it: plain JSON values, or text."""
        face = operation.routes[0]
        ask = requests.read(operation.request, given, refuse_unknown=True)
        answer = await operation.perform(self._requester.workspace, self._requester.caller, ask)
        shown = face.show(answer) if face.show else answer
        return shown if face.media_type.startswith("text/") else json.loads(encode(shown))

    async def events(self, after: int | None, thread_id: str | None) -> AsyncGenerator[StreamEvent]:
        """Events after the id `after`, or from now on, until the caller stops."""
        async with self._requester.workspace.feed(after, thread_id) as listener:
            while True:
                for event in await listener.next(timeout=None):
                    payload = event.payload_for(self._requester.caller.is_agent)
                    yield StreamEvent(event.id, event.type, json.loads(payload))


class ServerConnection:
    """Works through the REST API of a running server."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def call(self, operation: Operation, given: dict[str, Any]) -> Any:
        face = operation.routes[0]
        in_path = _IN_PATH.findall(face.path)
        path = _IN_PATH.sub(lambda found: quote(str(given[found[1]]), safe=""), face.path)
        names = {field: name for name, field in face.also.items()}
        rest = {names.get(field, field): value for field, value in given.items() if field not in in_path}
        seconds = WAIT_SECONDS if operation.kind == "wait" else ANSWER_SECONDS
        if face.method in ("GET", "DELETE"):
            request = self._client.build_request(face.method, path, params=rest, timeout=seconds)
        else:
            request = self._client.build_request(face.method, path, json=rest, timeout=seconds)
        response = await self._send(request)
        if face.media_type.startswith("text/"):
            return response.text
        try:
            return response.json()
        except ValueError:
            raise Unavailable(f"The server at {response.url.host} is not a palaver server.") from None

    async def events(self, after: int | None, thread_id: str | None) -> AsyncGenerator[StreamEvent]:
        path = f"/api/threads/{quote(thread_id, safe='')}/events" if thread_id else "/events"
        headers = {"Last-Event-ID": str(after)} if after is not None else {}
        request = self._client.build_request("GET", path, headers=headers, timeout=ANSWER_SECONDS)
        response = await self._send(request, stream=True)
        try:
            with readable_errors(self._client):
                frame: dict[str, str] = {}
                async for line in response.aiter_lines():
                    name, _, value = line.partition(": ")
                    if name:
                        frame[name] = value
                    elif "data" in frame:
                        yield StreamEvent(int(frame["id"]), frame["event"], json.loads(frame["data"]))
                        frame = {}
        finally:
            await response.aclose()
        raise Unavailable("The server ended the event stream.")

    async def _send(self, request: httpx2.Request, *, stream: bool = False) -> httpx2.Response:
        with readable_errors(self._client):
            response = await self._client.send(request, stream=stream)
            if response.is_error:
                await response.aread()
        if response.is_success:
            return response
        try:
            detail = response.json()["detail"]
            message = str(detail["message"] if isinstance(detail, dict) else detail)
        except (ValueError, KeyError, TypeError):
            message = f"The server answered with status {response.status_code}."
        raise error_of_status(response.status_code, message)


@asynccontextmanager
async def server_client(url: str, token: str | None) -> AsyncIterator[httpx2.AsyncClient]:
    import httpx2

    from palaver.client import http_options

    url = url if "://" in url else f"http://{url}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Refused(f"'{url}' is not the URL of a server. Use for example http://127.0.0.1:39765.")
    timeout = httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
    async with httpx2.AsyncClient(**http_options(url, token), timeout=timeout) as client:
        yield client


@contextmanager
def readable_errors(client: httpx2.AsyncClient) -> Iterator[None]:
    """Turn network errors into messages that say what to do."""
    import httpx2

    url = str(client.base_url).rstrip("/")
    try:
        yield
    except (httpx2.ConnectError, httpx2.ConnectTimeout):
        raise Unavailable(f"No server answers at {url}. Start one with 'palaver serve'.") from None
    except httpx2.TimeoutException:
        raise Unavailable(f"The server at {url} took too long to answer.") from None
    except httpx2.TransportError:
        raise Unavailable(f"The connection to {url} was lost.") from None
