"""The bridge to Slack of the guide, run against a stand-in for Slack's API."""

from __future__ import annotations

import hmac
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
from tests.conftest import ONE_ENGINE
from tests.helpers import PATIENCE, Thread, eventually, free_port, start_server

pytestmark = ONE_ENGINE
QUICK = "from palaver.operations.webhooks import sending; sending.LOOK_SECONDS = 0.1"
SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "examples" / "slack_bridge.py"
TOKEN, SECRET, CHANNEL = "xoxb-token", "signing-secret", "C1"


class Slack:
    """Takes chat.postMessage and users.info as forms, and tells the bridge of every message in the channel, also of the
    bridge's own, as Slack does."""

    def __init__(self, bridge: str) -> None:
        self.bridge = bridge
        self.channel: list[str] = []
        self.is_away = False
        self.events = 0
        self.echoes: list[int] = []
        """How the bridge answered when it was told of its own messages."""
        slack = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
                is_ours = self.headers["authorization"] == f"Bearer {TOKEN}"
                answer = slack.answer(self.path, {name: values[0] for name, values in form.items()}) if is_ours else {}
                raw = json.dumps(answer or {"ok": False, "error": "invalid_auth"}).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_: Any) -> None:
                return None

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/api"

    def answer(self, path: str, form: dict[str, str]) -> dict[str, Any]:
        if self.is_away:
            return {"ok": False, "error": "ratelimited"}
        if path == "/api/users.info":
            return {"ok": True, "user": {"name": "ann.b", "profile": {"display_name": "Ann"}}}
        assert (path, form["channel"]) == ("/api/chat.postMessage", CHANNEL)
        self.channel.append(form["text"])
        self.echoes.append(self.tell({"user": "U0", "bot_id": "B1", "text": form["text"]}).status_code)
        return {"ok": True}

    def tell(self, event: dict[str, Any], *, id: str | None = None, secret: str = SECRET) -> httpx.Response:
        self.events += 1
        event = {"type": "message", "channel": CHANNEL, **event}
        body = json.dumps({"type": "event_callback", "event_id": id or f"Ev{self.events}", "event": event}).encode()
        return self.send(body, secret)

    def send(self, body: bytes, secret: str = SECRET) -> httpx.Response:
        at = str(int(time.time()))
        signature = hmac.digest(secret.encode(), f"v0:{at}:".encode() + body, "sha256").hex()
        headers = {"x-slack-request-timestamp": at, "x-slack-signature": f"v0={signature}"}
        return httpx.post(f"{self.bridge}/slack", content=body, headers=headers)


@contextmanager
def bridged(api: httpx.Client, thread: Thread, port: int) -> Iterator[Slack]:
    slack = Slack(f"http://127.0.0.1:{port}")
    out = api.post("/api/webhooks", json={"url": f"{slack.bridge}/palaver", "thread_id": thread.id}).json()
    into = api.post("/api/webhooks/incoming", json={"thread_id": thread.id}).json()
    about = {
        "PALAVER_SECRET": out["secret"], "PALAVER_HOOK": into["url"], "SLACK_TOKEN": TOKEN, "PORT": str(port),
        "SLACK_SIGNING_SECRET": SECRET, "SLACK_CHANNEL": CHANNEL, "SLACK_API": slack.url,
    }  # fmt: skip
    serving = threading.Thread(target=slack.server.serve_forever, kwargs={"poll_interval": 0.02})
    serving.start()
    bridge = subprocess.Popen([sys.executable, str(SCRIPT)], env=os.environ | about, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: is_up(slack.bridge))
        yield slack
    finally:
        bridge.kill()
        bridge.wait(PATIENCE)
        slack.server.shutdown()
        slack.server.server_close()
        serving.join()


def is_up(url: str) -> bool:
    try:
        return httpx.post(url).status_code > 0
    except httpx.TransportError:
        return False


def test_the_bridge_of_the_guide_carries_messages_both_ways_and_none_in_a_circle(tmp_path: Path):
    port = free_port()
    hosts = f"127.0.0.1:{port}"
    with start_server(tmp_path / "home", before=QUICK, PALAVER_FETCH_HOSTS=hosts) as server, server.client() as api:
        thread = Thread(api)
        with bridged(api, thread, port) as slack:
            slack.is_away = True
            thread.post("is <b> & c done?")
            (webhook, _) = eventually(lambda: failing(api))
            slack.is_away = False
            api.post(f"/api/webhooks/{webhook['id']}/enable", json={})
            eventually(lambda: slack.echoes)
            assert [slack.tell({"user": "U1", "text": "yes &amp; <no>"}, id="Ev").status_code for _ in range(2)] == [
                200,
                200,
            ]
            assert slack.tell({"user": "U1", "text": "x"}, secret="guess").status_code == 403
            assert slack.tell({"user": "U1", "text": "x", "channel": "C2"}).status_code == 200
            assert slack.send(b'{"type": "url_verification", "challenge": "abc"}').text == "abc"
            thread.post("good")
            eventually(lambda: len(slack.echoes) == 2)  # the second after what came from Slack: that was not sent back
            assert slack.channel == ["*ann*: is &lt;b&gt; &amp; c done?", "*ann*: good"]
            assert slack.echoes == [200, 200]
            said = [(one["author"], one["content"]) for one in thread.messages()]
            assert said == [("ann", "is <b> & c done?"), ("Ann (webhook)", "yes & <no>"), ("ann", "good")]


def failing(api: httpx.Client) -> Any:
    listed = api.get("/api/webhooks").json()
    return listed if any(one["attempts"] for one in listed) else None
