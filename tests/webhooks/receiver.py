"""A stand-in for a program that takes webhooks, on this machine. It checks signatures with code of its own."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.helpers import PATIENCE, eventually


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return str(self.json["data"].get("content"))

    def is_signed_with(self, secret: str) -> bool:
        """As https://github.com/standard-webhooks/standard-webhooks describes it: the key is what follows whsec_, and
        each of the blank-separated signatures of version 1 is an HMAC of the id, the time and the body."""
        kind, _, encoded = secret.partition("_")
        assert kind == "whsec"
        said = ".".join((self.id, self.headers["webhook-timestamp"], self.body.decode()))
        digest = hmac.digest(base64.b64decode(encoded, validate=True), said.encode(), "sha256")
        signatures = [one.split(",", 1) for one in self.headers["webhook-signature"].split(" ")]
        return any(version == "v1" and base64.b64decode(given) == digest for version, given in signatures)


class Receiver:
    def __init__(self) -> None:
        self.got: list[Received] = []
        self.answers: list[int] = []
        """The status of each of the next answers. Then it is 200."""
        self.location = ""
        self.open = threading.Event()
        """While it is not set, requests are kept waiting."""
        self.open.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.got.append(Received(self.path, headers, body))
                receiver.open.wait(PATIENCE)
                self.send_response(receiver.answers.pop(0) if receiver.answers else 200)
                if receiver.location:
                    self.send_header("location", receiver.location)
                self.send_header("content-length", "0")
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *_: Any) -> None:
                return None

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_address[1]}"
        self.url = f"http://{self.host}/hook"

    def until(self, is_enough: Callable[[list[Received]], Any]) -> list[Received]:
        eventually(lambda: is_enough(self.got))
        return self.got

    @property
    def texts(self) -> list[str]:
        return [one.text for one in self.got]


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.open.set()
        receiver.server.shutdown()
        receiver.server.server_close()
        thread.join()


def github_signature(secret: str, body: bytes) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
