"""A small Python client: record an agent's sessions, search them, and use the message bus.

from palaver.client import Palaver

with Palaver() as palaver:
    palaver.record("backend-bot", "session-42", "user", "please deploy the staging pipeline tonight")
    palaver.conversations("backend-bot", "deploy pipeline")
"""

from __future__ import annotations

import ssl
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx2

from palaver.errors import PalaverError, Unavailable
from palaver.settings import LOOPBACK

URL = "http://127.0.0.1:39765"


def http_options(url: str, token: str | None) -> dict[str, Any]:
    """The options of every connection to a server."""
    place = httpx2.URL(url)
    return {
        "base_url": url.rstrip("/"),
        "headers": {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {}),
        # Plain HTTP needs no certificates, and loading them takes longer than most requests.
        "verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if place.scheme == "http" else True,
        "trust_env": place.host not in LOOPBACK,  # no proxy for this machine
    }


class Refusal(PalaverError):
    """The server refused the request; see `status_code` and the message."""

    def __init__(self, status_code: int, message: str) -> None:
        super().__init__(message)
        self.status_code = status_code


class Palaver:
    """One connection to a palaver server."""

    def __init__(self, url: str = URL, token: str | None = None, timeout: float = 60.0) -> None:
        self._http = httpx2.Client(**http_options(url, token), timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # An agent's sessions

    def record(
        self, agent: str, session: str, role: str, content: str, *, ts: str | None = None, id: str | None = None
    ) -> dict[str, Any]:
        """Record a turn. It is on disk when this returns. A repeated `id` in a session is stored once."""
        path = f"/api/v1/agents/{_quoted(agent)}/sessions/{_quoted(session)}/messages"
        return self._request("POST", path, {"role": role, "content": content, "ts": ts, "id": id})

    def conversations(self, agent: str, query: str, limit: int = 20) -> list[dict[str, Any]]:
        """Search the turns of an agent's sessions, best match first."""
        ask = {"agent_id": agent, "query": query, "limit": limit}
        hits: list[dict[str, Any]] = self._request("POST", "/api/v1/conversations/search", ask)["hits"]
        return hits

    # The bus

    def thread(self, topic: str) -> dict[str, Any]:
        """The thread with this topic. It is created if it does not exist."""
        return self._request("POST", "/api/threads", {"topic": topic})

    def post(self, thread_id: str, author: str, content: str, **more: Any) -> dict[str, Any]:
        ask = {"author": author, "content": content, **more}
        return self._request("POST", f"/api/threads/{_quoted(thread_id)}/messages", ask)

    def wait(self, thread_id: str, after_seq: int = 0, seconds: float = 45) -> list[dict[str, Any]]:
        """Wait for messages after `after_seq`. The list is empty after `seconds`."""
        path = f"/api/threads/{_quoted(thread_id)}/wait?after_seq={after_seq}&timeout_ms={int(seconds * 1000)}"
        messages: list[dict[str, Any]] = self._request("GET", path)["messages"]
        return messages

    def search(self, query: str, limit: int = 50) -> list[dict[str, Any]]:
        """Search messages of the bus, best match first."""
        found = self._request("GET", f"/api/search?q={quote(query)}&limit={limit}")
        results: list[dict[str, Any]] = found["results"]
        return results

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        given = None if body is None else {name: value for name, value in body.items() if value is not None}
        try:
            response = self._http.request(method, path, json=given)
        except httpx2.ConnectError:
            url = str(self._http.base_url).rstrip("/")
            raise Unavailable(f"No server answers at {url}. Start one with 'palaver serve'.") from None
        if response.is_success:
            answer: dict[str, Any] = response.json()
            return answer
        try:
            body = response.json()
            message = body.get("detail") or body.get("error")
        except ValueError:
            message = response.text
        raise Refusal(response.status_code, str(message))


def _quoted(name: str) -> str:
    return (
        quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")
    )  # a bare .. would mean the parent folder
