"""Incoming webhooks: what comes to their addresses is posted once, under a name of its own, if it is signed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest
from tests.conftest import BOTH_ENGINES
from tests.helpers import Mcp, Server, Thread, word
from tests.webhooks.receiver import github_signature

from palaver.doors.http import incoming_webhooks
from palaver.operations.webhooks.receiving import LONGEST, github_text

pytestmark = BOTH_ENGINES


class Address:
    """An incoming webhook of the test's own, and its thread."""

    def __init__(self, api: httpx.Client, **given: Any) -> None:
        self.thread = Thread(api)
        made = api.post("/api/webhooks/incoming", json={"thread_id": self.thread.id, **given})
        assert made.status_code == 201, made.text
        self.url, self.secret, self.id = made.json()["url"], made.json()["secret"], made.json()["id"]

    def send(self, body: bytes | None = None, headers: dict[str, str] | None = None, **given: Any) -> httpx.Response:
        raw = json.dumps(given).encode() if body is None else body
        return httpx.post(self.url, content=raw, headers={"content-type": "application/json"} | (headers or {}))

    def github(self, event: str, given: dict[str, Any], **headers: str) -> httpx.Response:
        body = json.dumps(given).encode()
        signed = {"x-hub-signature-256": github_signature(self.secret, body)}
        about = {"x-github-event": event, "x-github-delivery": str(uuid4())}
        return self.send(body, signed | about | {name.replace("_", "-"): value for name, value in headers.items()})

    @property
    def texts(self) -> list[str]:
        return [message["content"] for message in self.thread.messages()]


@pytest.fixture
def form(api: httpx.Client) -> Address:
    return Address(api)


@pytest.fixture
def github(api: httpx.Client) -> Address:
    return Address(api, kind="github")


# Plain messages


def test_json_and_forms_are_posted_under_a_name_that_nobody_else_has(form: Address, api: httpx.Client):
    assert form.send(text="one").status_code == 201
    answer = form.send(text="two", author="ann")
    assert httpx.post(form.url, data={"text": "three & more", "author": "a\n b"}).status_code == 201
    assert httpx.post(form.url, data={"payload": json.dumps({"text": "four"})}).status_code == 201
    found = form.thread.messages()
    assert answer.json() == {"posted": True, "message_id": found[1]["id"], "thread_id": form.thread.id}
    assert [(one["author"], one["author_id"], one["content"]) for one in found] == [
        ("Webhook (webhook)", None, "one"), ("ann (webhook)", None, "two"), ("a b (webhook)", None, "three & more"),
        ("Webhook (webhook)", None, "four"),
    ]  # fmt: skip
    assert {json.dumps(one["metadata"]) for one in found} == {json.dumps({"webhook": form.id})}


@pytest.mark.parametrize("name", ["ann (webhook)", "Ann  (WEBHOOK)", "ann (wеbhооk)"])
def test_no_agent_can_take_such_a_name(api: httpx.Client, name: str):
    assert api.post("/api/agents", json={"display_name": word() + name}).status_code == 409


def test_a_webhook_is_not_the_person_or_agent_that_it_names(form: Address, api: httpx.Client):
    slug = word("robo")
    agent = api.post("/api/agents", json={"display_name": slug, "slug": slug}).json()
    form.send(text="I am your agent", author=slug)
    (message,) = form.thread.messages()
    assert (message["author"], message["author_id"]) == (f"{slug} (webhook)", None)
    assert agent["agent_id"] not in json.dumps(message)


def test_a_mention_reaches_its_agent(form: Address, api: httpx.Client):
    mcp, slug = Mcp(api), word("robo")
    mcp.call("bus_connect", thread_name=form.thread.topic, display_name=slug)
    form.send(text=f"@{slug} the build is red")
    (item,) = mcp.ask("tools/call", name="catch_up", arguments={})["content"]
    assert "the build is red" in item["text"]
    assert "Webhook (webhook)" in item["text"]


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"nonsense", b"{", b'{"text": 1}', b'{"content": "x"}', b'{"text": ""}', b'{"text": "\\u0000"}', b"\xff"]
)  # fmt: skip
def test_what_is_no_message_is_refused_with_words(form: Address, body: bytes):
    answer = form.send(body)
    assert answer.status_code in (400, 422), answer.text
    assert answer.json()["detail"]
    assert form.texts == []


def test_a_secret_in_a_text_is_refused(form: Address):
    answer = form.send(text="key AKIAIOSFODNN7EXAMPLE and -----BEGIN RSA PRIVATE KEY-----")
    assert answer.status_code == 400
    assert form.texts == []


def test_a_signature_of_a_form_must_be_right_if_there_is_one(form: Address):
    body = b'{"text": "signed"}'
    right = {"x-hub-signature-256": github_signature(form.secret, body)}
    wrong = {"x-hub-signature-256": github_signature("guess", body)}
    assert form.send(body, right).status_code == 201
    assert form.send(body, wrong).status_code == 403
    assert form.texts == ["signed"]


@pytest.mark.parametrize("header", ["idempotency-key", "webhook-id"])
def test_a_delivery_that_comes_again_is_posted_once(form: Address, header: str):
    answers = [form.send(headers={header: "once"}, text="hello") for _ in range(3)]
    assert len({answer.json()["message_id"] for answer in answers}) == 1
    assert form.texts == ["hello"]


def test_what_could_not_be_posted_can_come_again(form: Address, api: httpx.Client):
    path = form.thread.path
    assert api.post(f"{path}/close", json={}).status_code == 200
    assert form.send(headers={"webhook-id": "once"}, text="hello").status_code == 409
    assert api.post(f"{path}/state", json={"status": "discuss"}).status_code == 200
    assert form.send(headers={"webhook-id": "once"}, text="hello").status_code == 201


# The address


def test_unknown_addresses_look_alike(form: Address, server: Server):
    key = form.url.rpartition("/")[2]
    wrong = key[:-1] + ("a" if key[-1] != "a" else "b")
    answers = {
        httpx.post(f"{server.url}/hooks/{place}", json={"text": "x"}).text
        for place in (f"default/{wrong}", f"nowhere/{key}", f"nowhere/{wrong}", "default/x", f"Default/{key}", "x/%00")
    }
    assert len(answers) == 1
    assert httpx.get(form.url).status_code == 405


def test_a_removed_webhook_takes_nothing(form: Address, api: httpx.Client):
    assert api.delete(f"/api/webhooks/{form.id}").status_code == 200
    assert form.send(text="x").status_code == 404


def test_too_large_and_too_many_deliveries_are_refused(form: Address):
    assert form.send(b"x" * (incoming_webhooks.LARGEST + 1)).status_code == 413
    answers = [form.send(b"{}") for _ in range(incoming_webhooks.A_MINUTE)]
    assert {answer.status_code for answer in answers[:-1]} == {422}
    assert answers[-1].status_code == 429
    assert 0 < int(answers[-1].headers["retry-after"]) <= 60


# GitHub

REPOSITORY = {"repository": {"full_name": "org/repo"}, "sender": {"login": "ann"}}


def test_github_must_sign(github: Address):
    given = {**REPOSITORY, "action": "published", "release": {"tag_name": "v1", "html_url": "https://x/1"}}
    body = json.dumps(given).encode()
    about = {"x-github-event": "release", "x-github-delivery": "1"}
    good = github_signature(github.secret, body)
    for wrong in (None, "", "sha256=", good[:-1], good.replace("sha256", "sha1"), github_signature("x", body), "ü"):
        headers = {**about, **({"x-hub-signature-256": wrong} if wrong is not None else {})}
        sent = httpx.Headers({name: value.encode() for name, value in headers.items()}.items())  # type: ignore[arg-type]
        assert httpx.post(github.url, content=body, headers=sent).status_code == 403
    assert github.send(body + b" ", {**about, "x-hub-signature-256": good}).status_code == 403
    assert github.texts == []
    assert github.send(body, {**about, "x-hub-signature-256": good}).status_code == 201
    assert github.texts == ["org/repo: ann released v1 https://x/1"]
    assert github.thread.messages()[0]["author"] == "GitHub (webhook)"


def test_a_delivery_of_github_is_posted_once(github: Address):
    given = {**REPOSITORY, "action": "published", "release": {"tag_name": "v1", "html_url": "https://x/1"}}
    for _ in range(2):
        assert github.github("release", given, x_github_delivery="same").status_code == 201
    assert len(github.texts) == 1


def test_events_without_a_message_are_accepted(github: Address):
    for event in ("ping", "star", "", "push"):
        answer = github.github(event, {**REPOSITORY, "zen": "x"})
        assert (answer.status_code, answer.json()) == (200, {"posted": False})
    assert github.texts == []


def test_github_can_send_forms(github: Address):
    given = {**REPOSITORY, "action": "published", "release": {"tag_name": "v1", "html_url": "https://x/1"}}
    body = httpx.Request("POST", "http://x", data={"payload": json.dumps(given)}).content
    headers = {
        "x-hub-signature-256": github_signature(github.secret, body),
        "content-type": "application/x-www-form-urlencoded",
        "x-github-event": "release",
    }
    assert github.send(body, headers).status_code == 201


COMMITS = [{"id": "a" * 40, "message": "First\n\nmore"}, {"id": "b" * 40, "message": "Second"}]
PULL = {"number": 7, "title": "Faster", "html_url": "https://x/7"}
ISSUE = {"number": 3, "title": "Broken", "html_url": "https://x/3"}
RUN = {"name": "tests", "head_branch": "main", "head_sha": "c" * 40, "html_url": "https://x/r"}
SAID: dict[str, tuple[str, dict[str, Any], str | None]] = {
    "push": ("push", {"ref": "refs/heads/main", "commits": COMMITS, "compare": "https://x/c"}, "ann pushed 2 commits to main: Second https://x/c"),
    "one commit": ("push", {"ref": "refs/heads/a/b", "commits": COMMITS[:1], "compare": "https://x/c"}, "ann pushed 1 commit to a/b: First https://x/c"),
    "a new branch": ("push", {"ref": "refs/heads/main", "commits": [], "compare": "https://x/c"}, None),
    "pull request": ("pull_request", {"action": "opened", "pull_request": PULL}, "ann opened pull request #7: Faster https://x/7"),
    "merged": ("pull_request", {"action": "closed", "pull_request": PULL | {"merged": True}}, "ann merged pull request #7: Faster https://x/7"),
    "closed": ("pull_request", {"action": "closed", "pull_request": PULL | {"merged": False}}, "ann closed pull request #7: Faster https://x/7"),
    "a label": ("pull_request", {"action": "labeled", "pull_request": PULL}, None),
    "issue": ("issues", {"action": "opened", "issue": ISSUE}, "ann opened issue #3: Broken https://x/3"),
    "comment": ("issue_comment", {"action": "created", "issue": ISSUE, "comment": {"body": " Why?\n", "html_url": "https://x/3#1"}}, "ann commented on issue #3: Broken https://x/3#1\nWhy?"),
    "approved": ("pull_request_review", {"action": "submitted", "pull_request": PULL, "review": {"state": "approved", "body": None, "html_url": "https://x/7#2"}}, "ann approved pull request #7: Faster https://x/7#2"),
    "changes": ("pull_request_review", {"action": "submitted", "pull_request": PULL, "review": {"state": "changes_requested", "body": "Slow.", "html_url": "https://x/7#2"}}, "ann wants changes in pull request #7: Faster https://x/7#2\nSlow."),
    "dismissed": ("pull_request_review", {"action": "dismissed", "pull_request": PULL, "review": {"state": "approved", "body": "x", "html_url": "y"}}, None),
    "an edit": ("issue_comment", {"action": "edited", "issue": ISSUE, "comment": {"body": "x", "html_url": "y"}}, None),
    "check": ("check_run", {"action": "completed", "check_run": RUN | {"conclusion": "failure"}}, "tests failed on ccccccc (failure) https://x/r"),
    "workflow": ("workflow_run", {"action": "completed", "workflow_run": RUN | {"conclusion": "timed_out"}}, "tests failed on main (timed_out) https://x/r"),
    "success": ("workflow_run", {"action": "completed", "workflow_run": RUN | {"conclusion": "success"}}, None),
    "release": ("release", {"action": "published", "release": {"tag_name": "v1", "html_url": "https://x/v1"}}, "ann released v1 https://x/v1"),
    "a draft": ("release", {"action": "created", "release": {"tag_name": "v1", "html_url": "https://x/v1"}}, None),
}  # fmt: skip


@pytest.mark.parametrize("event, given, said", SAID.values(), ids=SAID)
def test_an_event_of_github_is_one_short_message(event: str, given: dict[str, Any], said: str | None):
    assert github_text(event, REPOSITORY | given) == (f"org/repo: {said}" if said else None)


def test_a_long_comment_is_cut_and_braces_mean_nothing():
    comment = {"body": "{sender[login].__class__} " + "x" * 1000, "html_url": "https://x"}
    said = github_text("issue_comment", {**REPOSITORY, "action": "created", "issue": ISSUE, "comment": comment})
    assert said
    assert len(said) < LONGEST + 100
    assert "{sender[login].__class__}" in said


SPOILS: list[Callable[[dict[str, Any]], Any]] = [
    lambda given: given.pop(next(iter(given))),
    lambda given: given.update(dict.fromkeys(given, None)),
    lambda given: given.update({name: [] for name in given}),
    lambda given: given.update(dict.fromkeys(given, "x")),
    lambda given: given.update(repository=1),
]


@pytest.mark.parametrize("spoil", SPOILS)
def test_what_github_did_not_write_is_no_message(spoil: Callable[[dict[str, Any]], Any]):
    for event, about, _ in SAID.values():
        given = {**about, **REPOSITORY}
        spoil(given)
        github_text(event, given)
