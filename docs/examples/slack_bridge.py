"""A bridge between a thread of palaver and a channel of Slack. It needs Python 3.11 and nothing else.

palaver sends its messages to /palaver, Slack sends its events to /slack. Each is checked by its signature. Both send
again after an error, so an error of one side is passed on to the other, and what came before is known by its id.
"""

import base64
import hmac
import json
import os
import time
from collections import deque
from email.message import Message
from html import escape, unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlencode
from urllib.request import Request, urlopen

PALAVER_SECRET = os.environ["PALAVER_SECRET"]  # the secret that `palaver webhook add` shows
PALAVER_HOOK = os.environ["PALAVER_HOOK"]  # the address that `palaver webhook in` shows
TOKEN = os.environ["SLACK_TOKEN"]  # xoxb-…, with the scopes chat:write, channels:history and users:read
SIGNING_SECRET = os.environ["SLACK_SIGNING_SECRET"]
CHANNEL = os.environ["SLACK_CHANNEL"]  # C…
SLACK = os.environ.get("SLACK_API", "https://slack.com/api")
PORT = int(os.environ.get("PORT", "8900"))
done: deque[str] = deque(maxlen=10_000)
names: dict[str, str] = {}


def call(url: str, body: bytes, **headers: str) -> dict:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with urlopen(Request(url, body, named), timeout=8) as answer:
        return json.load(answer)


def slack(method: str, **given: str) -> dict:
    answer = call(f"{SLACK}/{method}", urlencode(given).encode(), authorization=f"Bearer {TOKEN}")
    if not answer.get("ok"):
        raise OSError(f"Slack: {answer.get('error')}")
    return answer


def name_of(user: str) -> str:
    if user not in names:
        about = slack("users.info", user=user)["user"]
        names[user] = about["profile"].get("display_name") or about["name"]
    return names[user]


def must_be_signed(right: bytes, given: bytes, at: str) -> None:
    if not hmac.compare_digest(right, given) or abs(time.time() - int(at)) > 300:
        raise PermissionError


def from_palaver(headers: Message, body: bytes) -> None:
    id, at = headers["webhook-id"], headers["webhook-timestamp"]
    key = base64.b64decode(PALAVER_SECRET.removeprefix("whsec_"))
    right = b"v1," + base64.b64encode(hmac.digest(key, f"{id}.{at}.".encode() + body, "sha256"))
    must_be_signed(right, headers["webhook-signature"].encode(), at)
    event = json.loads(body)
    if event["type"] == "msg.new" and id not in done:
        author, text = event["data"]["author"], event["data"]["content"]
        slack("chat.postMessage", channel=CHANNEL, text=f"*{author}*: {escape(text, quote=False)}")
        done.append(id)


def from_slack(headers: Message, body: bytes) -> str:
    at = headers["x-slack-request-timestamp"]
    right = b"v0=" + hmac.digest(SIGNING_SECRET.encode(), f"v0:{at}:".encode() + body, "sha256").hex().encode()
    must_be_signed(right, headers["x-slack-signature"].encode(), at)
    request = json.loads(body)
    event = request.get("event", {})
    is_new = event.get("type") == "message" and not {"bot_id", "subtype"} & event.keys()
    if is_new and event["channel"] == CHANNEL:
        told = json.dumps({"text": unescape(event["text"]), "author": name_of(event["user"])}).encode()
        call(PALAVER_HOOK, told, content_type="application/json", webhook_id=request["event_id"])
    return request.get("challenge", "")  # Slack asks once whether this address is ours


class Bridge(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body, status, said = self.rfile.read(int(self.headers["content-length"])), 200, None
        try:
            said = {"/palaver": from_palaver, "/slack": from_slack}[self.path](self.headers, body)
        except (PermissionError, KeyError, AttributeError, ValueError):
            status = 403
        except OSError as problem:  # the other side is away or refuses: this side will send again
            self.log_error("%s", problem)
            status = 502
        self.send_response(status)
        self.end_headers()
        self.wfile.write((said or "").encode())


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", PORT), Bridge).serve_forever()
