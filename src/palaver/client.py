"""A small client for programs: record what an agent says, find it again, talk on the bus.

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

URL = "http://127.0.0.1:39765"
THIS_MACHINE = ("127.0.0.1", "localhost", "::1")


class Refusal(PalaverError):
    """The server said no; `status_code` and the message say why."""

    def __init__(self, status_code: int, message: str) -> None:
        super().__init__(message)
        self.status_code = status_code


class Palaver:
    """One connection to a palaver server."""

    def __init__(self, url: str = URL, token: str | None = None, timeout: float = 60.0) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        # A plain connection needs no authorities, and reading them all takes longer than most questions.
        is_plain = httpx2.URL(url).scheme == "http"
        self._http = httpx2.Client(
            base_url=url,
            headers=headers,
            timeout=timeout,
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_plain else True,
            trust_env=httpx2.URL(url).host not in THIS_MACHINE,  # no proxy stands between us and this machine
        )

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
        """Record a turn; it is on disk when this returns. The same `id` twice in a session is one turn."""
        path = f"/api/v1/agents/{_quoted(agent)}/sessions/{_quoted(session)}/messages"
        return self._ask("POST", path, {"role": role, "content": content, "ts": ts, "id": id})

    def conversations(self, agent: str, query: str, limit: int = 20) -> list[dict[str, Any]]:
        """Earlier turns of an agent's sessions, best first."""
        ask = {"agent_id": agent, "query": query, "limit": limit}
        hits: list[dict[str, Any]] = self._ask("POST", "/api/v1/conversations/search", ask)["hits"]
        return hits

    # The bus

    def thread(self, topic: str) -> dict[str, Any]:
        """The thread of a topic; it is opened if there is none yet."""
        return self._ask("POST", "/api/threads", {"topic": topic})

    def post(self, thread_id: str, author: str, content: str, **more: Any) -> dict[str, Any]:
        ask = {"author": author, "content": content, **more}
        return self._ask("POST", f"/api/threads/{_quoted(thread_id)}/messages", ask)

    def wait(self, thread_id: str, after_seq: int = 0, seconds: float = 45) -> list[dict[str, Any]]:
        """What is said after `after_seq`, as soon as it is; empty when the time is up."""
        path = f"/api/threads/{_quoted(thread_id)}/wait?after_seq={after_seq}&timeout_ms={int(seconds * 1000)}"
        messages: list[dict[str, Any]] = self._ask("GET", path)["messages"]
        return messages

    def search(self, query: str, limit: int = 50) -> list[dict[str, Any]]:
        """Messages of the bus, best first."""
        found = self._ask("GET", f"/api/search?q={quote(query)}&limit={limit}")
        results: list[dict[str, Any]] = found["results"]
        return results

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
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
            said = response.json()
            message = said.get("detail") or said.get("error")
        except ValueError:
            message = response.text
        raise Refusal(response.status_code, str(message))


def _quoted(name: str) -> str:
    return quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")  # or it would mean a folder above
