"""Reaching the house from a terminal: straight on its data, or through a running server. Both answer alike."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, urlsplit

from palaver.app import DEFAULT, App
from palaver.doors.authentication import Requester, authenticate
from palaver.doors.cli.target import Where
from palaver.doors.running_server import beside_server
from palaver.errors import Forbidden, Invalid, NotFound, PalaverError, Refused, Unauthorized, Unavailable
from palaver.model import requests
from palaver.model.events import encode
from palaver.model.people import Caller
from palaver.operations.bus.threads import get_thread, list_threads
from palaver.operations.operation import Operation
from palaver.settings import LOOPBACK, Settings

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 60.0
WAITING_SECONDS = 660.0  # a wait may take ten minutes

_IN_PATH = re.compile(r"{(\w+)(?::\w+)?}")


@dataclass(frozen=True, slots=True)
class Told:
    """One event of the stream."""

    id: int
    type: str
    data: dict[str, Any]


class Reach(Protocol):
    async def ask(self, operation: Operation, given: dict[str, Any]) -> Any:
        """Do it, and give the answer as REST shows it: plain JSON values, or text."""

    def events(self, after: int | None, thread_id: str | None) -> AsyncGenerator[Told]:
        """What happens, from `after` or from now on, until the caller has enough."""


@asynccontextmanager
async def reach(where: Where) -> AsyncIterator[Reach]:
    if where.server:
        if where.workspace is not None:
            raise Refused("A server takes the workspace from your token: leave --workspace out, or --url.")
        async with _client(where.server, where.token) as client:
            yield There(client)
    else:
        async with open_app(where.settings()) as app:
            yield Here(await _requester(app, where))


@asynccontextmanager
async def open_app(settings: Settings) -> AsyncIterator[App]:
    try:
        app = App(beside_server(settings))
    except PermissionError:
        raise  # it names the folder, and the command line says what to do
    except OSError as problem:
        raise Unavailable(f"The data directory cannot be used: {problem.strerror or problem}.") from None
    try:
        yield app
    finally:
        await app.close()


async def _requester(app: App, where: Where) -> Requester:
    """Who can open the data may do everything with it; a token narrows that to what it stands for."""
    if where.token and where.workspace is None:
        return await authenticate(app, where.token, "human")
    return Requester(await app.open(where.workspace or DEFAULT), Caller(kind="human", name="human"))


async def thread_id_of(reach: Reach, given: str) -> str:
    """The id of the thread with this id, or else with exactly this topic."""
    if _fits_a_path(given):
        return str((await reach.ask(get_thread, {"thread_id": given}))["id"])
    found = await reach.ask(list_threads, {"topic": given})
    if not found["threads"]:
        raise NotFound("thread", given, "List threads to see which exist.")
    return str(found["threads"][0]["id"])


def _fits_a_path(given: str) -> bool:
    """Servers read %2F as a slash, and many clients resolve dots."""
    return "/" not in given and given.strip(".") != ""


class Here:
    """In this process, on the data itself."""

    def __init__(self, requester: Requester) -> None:
        self._requester = requester

    async def ask(self, operation: Operation, given: dict[str, Any]) -> Any:
        face = operation.routes[0]
        ask = requests.read(operation.ask, given, refuse_unknown=True)
        answer = await operation.perform(self._requester.workspace, self._requester.caller, ask)
        shown = face.show(answer) if face.show else answer
        return shown if face.media_type.startswith("text/") else json.loads(encode(shown))

    async def events(self, after: int | None, thread_id: str | None) -> AsyncGenerator[Told]:
        async with self._requester.workspace.feed(after, thread_id) as listener:
            while True:
                for event in await listener.next(timeout=None):
                    payload = event.payload_for(self._requester.caller.is_agent)
                    yield Told(event.id, event.type, json.loads(payload))


class There:
    """Through a running server."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def ask(self, operation: Operation, given: dict[str, Any]) -> Any:
        face = operation.routes[0]
        in_path = _IN_PATH.findall(face.path)
        path = _IN_PATH.sub(lambda found: quote(str(given[found[1]]), safe=""), face.path)
        names = {field: name for name, field in face.also.items()}
        rest = {names.get(field, field): value for field, value in given.items() if field not in in_path}
        seconds = WAITING_SECONDS if operation.kind == "wait" else ANSWER_SECONDS
        if face.method in ("GET", "DELETE"):
            request = self._client.build_request(face.method, path, params=rest, timeout=seconds)
        else:
            request = self._client.build_request(face.method, path, json=rest, timeout=seconds)
        response = await self._send(request)
        if face.media_type.startswith("text/"):
            return response.text
        return _json(response)

    async def events(self, after: int | None, thread_id: str | None) -> AsyncGenerator[Told]:
        path = f"/api/threads/{quote(thread_id, safe='')}/events" if thread_id else "/events"
        headers = {"Last-Event-ID": str(after)} if after is not None else {}
        request = self._client.build_request("GET", path, headers=headers, timeout=ANSWER_SECONDS)
        response = await self._send(request, stream=True)
        try:
            with _said_plainly(self._client):
                frame: dict[str, str] = {}
                async for line in response.aiter_lines():
                    name, _, value = line.partition(": ")
                    if name:
                        frame[name] = value
                    elif "data" in frame:
                        yield Told(int(frame["id"]), frame["event"], json.loads(frame["data"]))
                        frame = {}
        finally:
            await response.aclose()
        raise Unavailable("The server has ended the stream.")

    async def _send(self, request: httpx2.Request, *, stream: bool = False) -> httpx2.Response:
        with _said_plainly(self._client):
            response = await self._client.send(request, stream=stream)
            if response.is_error:
                await response.aread()
        if not response.is_success:
            raise refusal(response.status_code, _detail(response))
        return response


@asynccontextmanager
async def _client(url: str, token: str | None) -> AsyncIterator[httpx2.AsyncClient]:
    import ssl

    import httpx2

    url = url if "://" in url else f"http://{url}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Refused(f"'{url}' is no address of a server. It looks like http://127.0.0.1:39765.")
    headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    # A plain connection needs no authorities, and reading them all takes longer than most questions.
    verify = True if parts.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    async with httpx2.AsyncClient(
        base_url=url.rstrip("/"),
        verify=verify,
        headers=headers,
        timeout=httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
        trust_env=parts.hostname not in LOOPBACK,  # no proxy stands between us and ourselves
    ) as client:
        yield client


class _said_plainly:
    """Turn what the network complains about into something a person can act on."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._url = str(client.base_url).rstrip("/")

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, _: object) -> None:
        import httpx2

        if isinstance(problem, httpx2.ConnectError | httpx2.ConnectTimeout):
            raise Unavailable(f"No server answers at {self._url}. Start one with 'palaver serve'.") from None
        if isinstance(problem, httpx2.TimeoutException):
            raise Unavailable(f"The server at {self._url} took too long to answer.") from None
        if isinstance(problem, httpx2.TransportError):
            raise Unavailable(f"The connection to {self._url} broke off.") from None


def _json(response: httpx2.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        raise Unavailable(f"What answers at {response.url.host} is not a palaver server.") from None


def _detail(response: httpx2.Response) -> str:
    try:
        detail = response.json()["detail"]
        return str(detail["message"] if isinstance(detail, dict) else detail)
    except (ValueError, KeyError, TypeError):
        return f"The server answered with status {response.status_code}."


class Absent(NotFound):
    """The server says it is not there; its sentence is complete."""

    def __init__(self, message: str) -> None:
        PalaverError.__init__(self, message)


def refusal(status: int, message: str) -> PalaverError:
    """What a status means to us, with the exit code that belongs to it."""
    match status:
        case 400:
            return Refused(message)
        case 422:
            return Invalid(message)
        case 401:
            return Unauthorized(message)
        case 403:
            return Forbidden(message)
        case 404:
            return Absent(message)
        case 429 | 502 | 503 | 504:
            return Unavailable(message)
        case _:
            return PalaverError(message)
