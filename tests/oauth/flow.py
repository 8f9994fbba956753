"""An application that connects with OAuth, step by step, and the person who lets it in."""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
from tests.helpers import Mcp, Server
from tests.trust.people import Key

LOCAL = "http://127.0.0.1:4567/callback"


def parameters(address: str) -> dict[str, str]:
    """The query of an address, also of one in its fragment."""
    parts = urlsplit(address)
    return dict(parse_qsl(parts.query or parts.fragment.partition("?")[2]))


class Person:
    """Somebody who is logged in to the console."""

    def __init__(self, server: Server, key: Key | str) -> None:
        self.browser = server.client()
        answer = self.browser.post("/api/session", json={"token": key if isinstance(key, str) else key.secret})
        assert answer.status_code == 200, answer.text
        self.browser.headers["x-palaver-csrf"] = answer.json()["csrf"]

    def sees(self, page: str) -> dict[str, Any]:
        """What the consent page shows."""
        answer = self.browser.post("/api/oauth/request", json={"query": page.partition("?")[2]})
        assert answer.status_code == 200, answer.text
        shown: dict[str, Any] = answer.json()
        return shown

    def decides(self, page: str, *, allow: bool = True, scopes: tuple[str, ...] = ("read", "write")) -> httpx.Response:
        given = {"query": page.partition("?")[2], "allow": allow, "scopes": list(scopes)}
        return self.browser.post("/api/oauth/consent", json=given)


@dataclass
class Program:
    """A program that asks for access."""

    server: Server
    redirect_uri: str = LOCAL
    name: str = "Scribe"
    client_id: str = ""
    address: str = "127.0.0.1"
    """The address it calls from."""
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(40))

    def __post_init__(self) -> None:
        self.api = self.server.client(transport=httpx.HTTPTransport(local_address=self.address))
        if not self.client_id:
            self.client_id = self.register().json()["client_id"]

    def register(self, **more: Any) -> httpx.Response:
        given = {"client_name": self.name, "redirect_uris": [self.redirect_uri], "token_endpoint_auth_method": "none"}
        return self.api.post("/register", json=given | more)

    @property
    def challenge(self) -> str:
        return base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).decode().rstrip("=")

    def asks(self, **more: str | None) -> httpx.Response:
        """Send the browser of a person to the server."""
        query = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "code_challenge": self.challenge,
            "code_challenge_method": "S256",
            "state": "some state",
            "scope": "read write",
            "resource": f"{self.server.url}/mcp",
        } | more
        given = urlencode({name: value for name, value in query.items() if value is not None})
        return self.api.get(f"/authorize?{given}")

    def page(self, **more: str | None) -> str:
        """The address of the consent page."""
        answer = self.asks(**more)
        assert answer.status_code == 302, answer.text
        return str(answer.headers["location"])

    def code(self, person: Person, *, scopes: tuple[str, ...] = ("read", "write"), **more: str | None) -> str:
        answer = person.decides(self.page(**more), scopes=scopes)
        assert answer.status_code == 200, answer.text
        return parameters(answer.json()["redirect"])["code"]

    def exchange(self, code: str, **more: str | None) -> httpx.Response:
        given = {
            "grant_type": "authorization_code",
            "code": code,
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "code_verifier": self.verifier,
        } | more
        return self.api.post("/token", data={name: value for name, value in given.items() if value is not None})

    def refresh(self, refresh_token: str, **more: str) -> httpx.Response:
        given = {"grant_type": "refresh_token", "refresh_token": refresh_token, "client_id": self.client_id}
        return self.api.post("/token", data=given | more)

    def connect(self, person: Person, **more: Any) -> dict[str, Any]:
        """Its tokens, after the whole way."""
        answer = self.exchange(self.code(person, **more))
        assert answer.status_code == 200, answer.text
        tokens: dict[str, Any] = answer.json()
        return tokens


def bearer(server: Server, access_token: str) -> httpx.Client:
    return server.client(headers={"authorization": f"Bearer {access_token}"})


def mcp(server: Server, access_token: str) -> Mcp:
    return Mcp(bearer(server, access_token))
