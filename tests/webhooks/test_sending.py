"""Outgoing webhooks: signed, in order, at least once, and to nowhere they may not go."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.conftest import BOTH_ENGINES, Engine
from tests.helpers import PATIENCE, Server, Thread, eventually, start_server, started, word
from tests.store.bus import Bus, opened
from tests.trust.people import Key
from tests.webhooks.receiver import Receiver, receiving

from palaver.errors import Forbidden, Refused
from palaver.model.events import Event
from palaver.model.people import Caller
from palaver.model.requests import NoArguments, Request
from palaver.model.times import now
from palaver.operations.operation import Operation
from palaver.operations.webhooks import sending
from palaver.operations.webhooks import webhooks as operations
from palaver.operations.webhooks.receiving import post
from palaver.settings import Settings
from palaver.store.bus import events, webhooks
from palaver.store.bus.webhooks import StoredWebhook, WebhookCall

pytestmark = BOTH_ENGINES


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def settings(database_url: str, tmp_path: Path, receiver: Receiver) -> Settings:
    return Settings(home=tmp_path, database_url=database_url, fetch_hosts=(receiver.host,))


@pytest.fixture
async def bus(settings: Settings) -> AsyncIterator[Bus]:
    async with opened(settings) as bus:
        yield bus


async def add(bus: Bus, url: str, **given: Any) -> operations.NewWebhook:
    made: operations.NewWebhook = await bus.do(operations.add_webhook, target_url=url, **given)
    return made


async def send_all(bus: Bus, id: str) -> float | None:
    """Send until there is nothing more to do now."""
    while (seconds := await sending.send_next(bus.here, id)) == 0.0:
        pass
    return seconds


async def calls(bus: Bus, id: str) -> list[WebhookCall]:
    found: list[WebhookCall] = await bus.do(operations.list_webhook_calls, webhook_id=id)
    return found


@asynccontextmanager
async def at_work(*buses: Bus) -> AsyncIterator[None]:
    """Servers that send, each for one of these."""
    tasks = [asyncio.create_task(sending.send_forever(lambda bus=bus: [bus.here])) for bus in buses]  # type: ignore[misc]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def arrived(receiver: Receiver, count: int) -> None:
    await asyncio.to_thread(receiver.until, lambda got: len(got) >= count)


# What is sent


async def test_an_event_is_sent_with_its_data_and_a_signature_that_others_can_check(bus: Bus, receiver: Receiver):
    thread = await bus.thread("plans")
    made = await add(bus, receiver.url, thread_id="plans")
    message = await bus.post(thread, "Grüße 🚀", author="ann")
    await send_all(bus, made.id)
    (got,) = receiver.got
    assert got.is_signed_with(made.secret)
    assert not got.is_signed_with(sending.new_secret())
    assert abs(int(got.headers["webhook-timestamp"]) - time.time()) < 600
    assert got.headers["content-type"] == "application/json"
    event_id = await bus.last_event()
    assert got.id == f"evt_{made.id}_{event_id}"
    assert {name: value for name, value in got.json.items() if name != "data"} == {
        "type": "msg.new", "timestamp": got.json["data"]["created_at"], "event_id": event_id, "workspace": "default",
        "topic": "plans",
    }  # fmt: skip
    assert (got.text, got.json["data"]["id"]) == ("Grüße 🚀", message.id)
    (call,) = await calls(bus, made.id)
    assert (call.id, call.event, call.attempts, call.status, call.problem) == (got.id, "msg.new", 1, 200, None)


async def test_the_trace_of_a_message_goes_on_to_the_receiver(bus: Bus, receiver: Receiver):
    thread, trace = await bus.thread(), f"00-{'a1' * 16}-{'b2' * 8}-01"
    made = await add(bus, receiver.url)
    for told in (trace, f"{trace}\r\nx-evil: 1", None):
        await bus.post(thread, "hello", metadata={"traceparent": told})
    await send_all(bus, made.id)
    assert [got.headers.get("traceparent") for got in receiver.got[-3:]] == [trace, None, None]


async def test_only_the_chosen_events_of_its_thread_are_sent(bus: Bus, receiver: Receiver):
    mine, other = await bus.thread(), await bus.thread()
    made = await add(bus, receiver.url, thread_id=mine.id, event=["msg.edit", "msg.react"])
    everywhere = await add(bus, receiver.url.replace("/hook", "/all"))
    for thread in (mine, other):
        message = await bus.post(thread, "one")
        await bus.edit(message, "two")
        await bus.react(message, "agree")
    for webhook in (made, everywhere):
        await send_all(bus, webhook.id)
    seen = [(got.path, got.json["type"], got.json["data"]["thread_id"]) for got in receiver.got]
    assert seen == [
        ("/hook", "msg.edit", mine.id), ("/hook", "msg.react", mine.id),
        ("/all", "msg.new", mine.id), ("/all", "msg.new", other.id),
    ]  # fmt: skip


async def test_people_get_what_is_for_people_only(bus: Bus, receiver: Receiver):
    made = await add(bus, receiver.url)
    await bus.post(await bus.thread(), "for us", metadata={"visibility": "human_only"})
    await send_all(bus, made.id)
    assert receiver.texts == ["for us"]


async def test_a_very_long_text_is_cut(bus: Bus, receiver: Receiver):
    made = await add(bus, receiver.url)
    await bus.post(await bus.thread(), "long " * 100_000)
    await send_all(bus, made.id)
    (got,) = receiver.got
    assert len(got.body) < 30_000
    assert got.json["data"]["is_cut"] is True
    assert got.text == ("long " * 100_000)[: sending.CUT_TO]


async def test_what_webhooks_posted_is_sent_only_if_asked_for(bus: Bus, receiver: Receiver):
    """So a receiver that posts back through a webhook does not get its own message again."""
    thread = await bus.thread()
    made = await add(bus, receiver.url)
    also = await add(bus, receiver.url, from_webhooks=True)
    incoming = await bus.do(operations.add_incoming_webhook, thread_id=thread.id)

    def answer(change: Any) -> None:
        post(change, webhooks.must_exist(change, incoming.id), "bridge", "echo")

    await bus.here.change(answer)
    await send_all(bus, made.id)
    assert receiver.got == []
    await send_all(bus, also.id)
    assert receiver.texts == ["echo"]


async def test_nobody_else_can_mark_a_message_as_posted_by_a_webhook(bus: Bus, receiver: Receiver):
    made = await add(bus, receiver.url)
    message = await bus.post(await bus.thread(), "mine", metadata={"webhook": "x", "note": 1})
    assert message.metadata == {"note": 1}
    await send_all(bus, made.id)
    assert receiver.texts == ["mine"]


# When it fails


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "FIRST_PAUSE", 0.0)


@pytest.mark.usefixtures("at_once")
async def test_what_fails_is_sent_again_with_the_same_id_and_what_follows_waits(bus: Bus, receiver: Receiver):
    made = await add(bus, receiver.url)
    thread = await bus.thread()
    for text in ("first", "second"):
        await bus.post(thread, text)
    receiver.answers = [500, 404, 302, 200, 503]
    await send_all(bus, made.id)
    assert receiver.texts == ["first"] * 4 + ["second"] * 2
    assert len({got.id for got in receiver.got}) == 2
    assert all(got.is_signed_with(made.secret) for got in receiver.got)
    second, first = await calls(bus, made.id)
    assert (first.attempts, first.status, first.problem) == (4, 200, None)
    assert (second.attempts, second.status) == (2, 200)


async def test_a_failure_is_listed_until_it_ends(bus: Bus, receiver: Receiver):
    made = await add(bus, receiver.url)
    await bus.post(await bus.thread(), "text")
    receiver.answers = [500]
    seconds = await send_all(bus, made.id)
    assert 1 < (seconds or 0) <= sending.FIRST_PAUSE
    (listed,) = await bus.do(operations.list_webhooks)
    assert (listed.attempts, listed.disabled) == (1, None)
    assert listed.next_at > listed.failing_since
    (call,) = await calls(bus, made.id)
    assert (call.status, call.problem) == (500, "The receiver answered with status 500.")
    await bus.do(operations.enable_webhook, webhook_id=made.id)  # now, not later
    await send_all(bus, made.id)
    (listed,) = await bus.do(operations.list_webhooks)
    assert (listed.attempts, listed.failing_since, listed.next_at) == (0, None, None)


async def test_a_receiver_that_does_not_answer_holds_up_nobody(
    bus: Bus, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sending, "LOOK_SECONDS", 0.05)
    with receiving() as other:
        settings = replace(bus.here.settings, fetch_hosts=(receiver.host, other.host))
        bus.here.settings = settings
        receiver.open.clear()
        await add(bus, receiver.url)
        await add(bus, other.url)
        thread = await bus.thread()
        async with at_work(bus):
            for number in range(20):
                await bus.post(thread, str(number))
            await arrived(other, 20)
            await arrived(receiver, 1)
        assert other.texts == [str(number) for number in range(20)]
        assert len(receiver.got) == 1


async def test_a_receiver_that_takes_too_long_or_is_not_there_has_failed(
    bus: Bus, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
):
    made = await add(bus, receiver.url)
    await bus.post(await bus.thread(), "text")
    monkeypatch.setattr(sending, "ANSWER_SECONDS", 0.1)
    receiver.open.clear()
    await send_all(bus, made.id)
    (call,) = await calls(bus, made.id)
    assert (call.status, call.problem) == (None, "The receiver took longer than 0 seconds.")
    receiver.open.set()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    bus.here.settings = replace(bus.here.settings, fetch_hosts=(f"127.0.0.1:{port}",))
    gone = await add(bus, f"http://127.0.0.1:{port}/")
    call = await bus.do(operations.test_webhook, webhook_id=gone.id)
    assert "cannot be reached" in str(call.problem)


def stored_webhook(**given: Any) -> StoredWebhook:
    return StoredWebhook("w", "out", "", now(), url="https://example.org/", **given)


EVENT = Event("msg.new", None, b"{}", id=7)


def call(status: int | None, problem: str | None, attempts: int = 1) -> WebhookCall:
    return WebhookCall("c", "msg.new", now(), attempts, status, problem)


def test_pauses_double_up_to_an_hour_and_vary():
    for attempts, most in ((1, 5), (2, 10), (5, 80), (11, 3600), (500, 3600)):
        failing, failed = stored_webhook(attempts=attempts - 1), call(500, "no", attempts)
        due = [sending.after_attempt(failing, EVENT, failed).next_at for _ in range(50)]
        pauses = {(at - failed.at).total_seconds() for at in due if at}
        assert len(pauses) > 1
        assert most / 2 <= min(pauses) <= max(pauses) <= most


def test_after_days_of_failure_a_webhook_is_disabled():
    since = now() - timedelta(days=4)
    failing = stored_webhook(failing_since=since, attempts=100, position=6)
    still = sending.after_attempt(failing, EVENT, call(500, "no", 101))
    assert (still.disabled, still.attempts, still.position, still.failing_since) == (None, 101, 6, since)
    assert sending.after_attempt(failing, EVENT, call(500, "no", sending.MOST_ATTEMPTS)).disabled == "no"
    accepted = sending.after_attempt(failing, EVENT, call(200, None, 101))
    assert (accepted.disabled, accepted.failing_since, accepted.attempts, accepted.position) == (None, None, 0, 7)
    assert sending.after_attempt(stored_webhook(), EVENT, call(410, "gone")).disabled


@pytest.mark.parametrize("has_thread", [True, False])
async def test_it_is_told_that_a_webhook_was_disabled_and_it_can_go_on(bus: Bus, receiver: Receiver, has_thread: bool):
    thread = await bus.thread()
    made = await add(bus, receiver.url, **({"thread_id": thread.id} if has_thread else {}))
    for text in ("one", "two"):
        await bus.post(thread, text)
    receiver.answers = [410]
    assert await send_all(bus, made.id) is None
    topic = thread.topic if has_thread else "Webhooks"
    told = await bus.messages(await bus.thread(topic))
    assert told[-1].author == "palaver (webhook)"
    assert told[-1].content.startswith("The webhook to 127.0.0.1 is disabled. The receiver answered with status 410.")
    assert made.id in told[-1].content
    assert "/hook" not in told[-1].content
    (listed,) = await bus.do(operations.list_webhooks)
    assert "410" in listed.disabled
    await bus.do(operations.enable_webhook, webhook_id=made.id)
    await send_all(bus, made.id)
    assert receiver.texts == ["one", "one", "two"]


async def test_if_the_log_was_cut_the_receiver_is_told(bus: Bus, receiver: Receiver):
    made = await add(bus, receiver.url)
    thread = await bus.thread()
    for number in range(5):
        await bus.post(thread, str(number))
    await bus.here.change(partial(events.forget_old, keep=2))
    await send_all(bus, made.id)
    last = await bus.last_event()
    assert [got.json["type"] for got in receiver.got] == ["reset", "msg.new", "msg.new"]
    assert receiver.got[0].json["data"] == {"thread_id": None, "reason": "too far behind", "last_event_id": last - 2}
    assert receiver.texts[1:] == ["3", "4"]
    assert len({got.id for got in receiver.got}) == 3


async def test_a_clock_that_was_wrong_stops_nothing(bus: Bus, receiver: Receiver):
    made = await add(bus, receiver.url)
    await bus.post(await bus.thread(), "text")
    webhook = await bus.here.read(partial(webhooks.must_exist, id=made.id))
    in_a_year = replace(webhook, next_at=now() + timedelta(days=365))
    assert await bus.here.change(partial(webhooks.change_state, before=webhook, after=in_a_year))
    await send_all(bus, made.id)
    assert receiver.texts == ["text"]


# Several servers, and servers that are killed


async def test_two_servers_on_one_database_send_each_event_once_and_in_order(
    bus: Bus, settings: Settings, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sending, "LOOK_SECONDS", 0.02)
    made = await add(bus, receiver.url)
    thread = await bus.thread()
    async with opened(settings) as other, at_work(bus, other):
        for number in range(30):
            await (bus if number % 2 else other).post(thread, str(number))
        await arrived(receiver, 30)
        receiver.open.clear()  # the last one is stored before the next is sent
        await bus.post(thread, "30")
        await arrived(receiver, 31)
    receiver.open.set()
    assert receiver.texts == [str(number) for number in range(31)]
    assert len({got.id for got in receiver.got}) == 31
    assert len(await calls(bus, made.id)) == 30


async def test_while_one_server_sends_another_waits(bus: Bus, receiver: Receiver):
    made = await add(bus, receiver.url)
    await bus.post(await bus.thread(), "text")
    receiver.open.clear()
    first = asyncio.create_task(sending.send_next(bus.here, made.id))
    await arrived(receiver, 1)
    assert 0 < (await sending.send_next(bus.here, made.id) or 0) <= sending.LEASE_SECONDS
    receiver.open.set()
    await first
    assert len(receiver.got) == 1


QUICK = "from palaver.operations.webhooks import sending as s; s.LEASE_SECONDS = 0.5; s.LOOK_SECONDS = 0.1"


def test_after_a_kill_between_sending_and_storing_it_is_sent_again_with_the_same_id(
    engine: Engine, tmp_path: Path, receiver: Receiver
):
    env: dict[str, Any] = {"PALAVER_DATABASE_URL": engine.fresh(), "PALAVER_FETCH_HOSTS": receiver.host}
    receiver.open.clear()
    with start_server(tmp_path / "home", before=QUICK, **env) as server, server.client() as api:
        made = api.post("/api/webhooks", json={"url": receiver.url}).json()
        thread = Thread(api)
        thread.post("one")
        thread.post("two")
        receiver.until(lambda got: got)
        server.process.kill()
        server.process.wait(PATIENCE)
    receiver.open.set()
    with start_server(tmp_path / "home", before=QUICK, **env) as server, server.client() as api:
        receiver.until(lambda got: len(got) >= 3)
        calls = eventually(lambda: two_calls(api, made["id"]))
    assert receiver.texts == ["one", "one", "two"]
    assert receiver.got[0].id == receiver.got[1].id != receiver.got[2].id
    assert all(got.is_signed_with(made["secret"]) for got in receiver.got)
    assert [call["status"] for call in calls] == [200, 200]


def two_calls(api: httpx.Client, id: str) -> Any:
    found = api.get(f"/api/webhooks/{id}/calls").json()
    return found if len(found) == 2 else None


def test_after_a_start_other_workspaces_send_what_is_left_before_anybody_opens_them(
    engine: Engine, tmp_path: Path, receiver: Receiver
):
    env: dict[str, Any] = {"PALAVER_DATABASE_URL": engine.fresh(), "PALAVER_FETCH_HOSTS": receiver.host}
    create, there = ("workspace", "create", "team"), ("--workspace", "team")
    add, begin, post = ("webhook", "add", receiver.url), ("thread", "create", "plans"), ("post", "plans", "left")
    for command in (create, there + add, there + begin, there + post):
        done = started(tmp_path, *command, **env)
        assert done.returncode == 0, done.stderr
    with start_server(tmp_path, before=QUICK, **env):
        receiver.until(lambda got: got)
    assert receiver.texts == ["left"]
    assert receiver.got[0].json["workspace"] == "team"


# Where it may send


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:9000/", "http://[::1]:9000/", "http://169.254.169.254/latest/meta-data", "http://localhost:9000/",
     "http://[::ffff:169.254.169.254]/", "http://10.0.0.1/", "http://2130706433/", "http://no-such-host.invalid/"],
)  # fmt: skip
async def test_it_sends_to_no_address_that_is_not_public(bus: Bus, url: str):
    with pytest.raises(Refused, match="PALAVER_FETCH_HOSTS can allow"):
        await add(bus, url)
    # Whatever is in the database, it is looked at again for each connection.
    webhook = StoredWebhook("w", "out", "", now(), url=url, secret=sending.new_secret())
    sent = await sending.send(bus.here, webhook, "evt_1", EVENT)
    assert (sent.status, "not lead to a public host" in str(sent.problem)) == (None, True)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://example.org/", "http://ann:secret@example.org/", "x"])
async def test_it_sends_to_web_addresses_only(bus: Bus, url: str):
    with pytest.raises(Refused):
        await add(bus, url)


async def test_a_name_that_leads_elsewhere_later_gains_nothing(
    bus: Bus, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
):
    """A resolver that says a public address first, and this machine when it is asked again."""
    bus.here.settings = replace(bus.here.settings, fetch_hosts=())
    port, asked = int(receiver.host.rpartition(":")[2]), []

    async def resolve(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        address = "93.184.215.14" if len(asked) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    made = await add(bus, f"http://rebind.example:{port}/")
    call = await bus.do(operations.test_webhook, webhook_id=made.id)
    assert "not lead to a public host" in str(call.problem)
    assert asked == ["rebind.example"] * 2
    assert receiver.got == []


async def test_redirects_are_not_followed(bus: Bus, receiver: Receiver):
    with receiving() as inner:
        receiver.location, receiver.answers = inner.url, [301, 302, 303, 307, 308]
        made = await add(bus, receiver.url)
        for status in (301, 302, 303, 307, 308):
            call = await bus.do(operations.test_webhook, webhook_id=made.id)
            assert (call.status, call.problem) == (status, f"The receiver answered with status {status}.")
        assert inner.got == []


# Who may do it


async def test_agents_can_do_nothing_with_webhooks(bus: Bus, receiver: Receiver):
    made = await add(bus, receiver.url)
    agent, one = Caller(kind="agent"), operations.OneWebhook(webhook_id=made.id)
    given: list[tuple[Operation, Request]] = [
        (operations.add_webhook, operations.AddWebhook(target_url=receiver.url)),
        (operations.add_incoming_webhook, operations.AddIncomingWebhook(thread_id="x")),
        (operations.list_webhooks, NoArguments()),
        (operations.delete_webhook, one),
        (operations.enable_webhook, one),
        (operations.test_webhook, one),
        (operations.list_webhook_calls, one),
    ]
    for operation, request in given:
        with pytest.raises(Forbidden):
            await operation.perform(bus.here, agent, request)
        assert operation.tools == []
    assert receiver.got == []


@pytest.fixture(scope="module")
def team(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Receiver]]:
    """A server with tokens, and a receiver that it may send to."""
    with receiving() as receiver:
        env: dict[str, Any] = {
            "PALAVER_DATABASE_URL": engine.fresh(),
            "PALAVER_FETCH_HOSTS": receiver.host,
            "PALAVER_AUTH": "token",
        }
        with start_server(tmp_path_factory.mktemp("team"), before=QUICK, **env) as server:
            yield server, receiver


def test_a_webhook_ends_with_the_tokens_of_its_owner(team: tuple[Server, Receiver]):
    server, receiver = team
    everything = ("read", "write", "admin")
    ann, bob = (Key(server, name=word(name), scopes=everything) for name in ("ann", "bob"))
    assert Key(server, name=word("carl")).api.get("/api/webhooks").status_code == 403
    made = ann.api.post("/api/webhooks", json={"url": receiver.url}).json()
    assert made["owner"] == f"human:{ann.token.name}"
    thread = Thread(bob.api)
    thread.post("before", author=None)
    receiver.until(lambda got: "before" in [one.text for one in got])
    into = ann.api.post("/api/webhooks/incoming", json={"thread_id": thread.id}).json()["url"]
    ann.revoke()
    thread.post("after", author=None)
    (listed, _) = eventually(lambda: disabled(bob.api))
    assert listed["disabled"] == sending.NO_OWNER
    assert "after" not in receiver.texts
    assert httpx.post(into, json={"text": "hello"}).status_code == 404
    log = bob.api.get("/api/audit").json()
    assert "disable_webhook" in [deed["what"] for deed in log]


def disabled(api: httpx.Client) -> Any:
    listed = api.get("/api/webhooks").json()
    return listed if listed[0]["disabled"] else None


def test_secrets_are_shown_once_and_are_in_no_log(team: tuple[Server, Receiver]):
    server, receiver = team
    admin = Key(server, name=word("eve"), scopes=("read", "write", "admin"))
    out = admin.api.post("/api/webhooks", json={"url": receiver.url, "events": ["msg.new", "msg.edit"]}).json()
    into = admin.api.post("/api/webhooks/incoming", json={"thread_id": Thread(admin.api).id}).json()
    assert out["events"] == ["msg.new", "msg.edit"]
    hidden = {out["secret"], into["secret"], into["url"].rpartition("/")[2]}
    answers = [admin.api.get("/api/webhooks").text, admin.api.get("/api/audit").text]
    for webhook in (out, into):
        answers.append(admin.api.get(f"/api/webhooks/{webhook['id']}/calls").text)
        answers.append(admin.api.delete(f"/api/webhooks/{webhook['id']}").text)
    assert httpx.post(into["url"], json={"text": "hello"}).status_code == 404
    for text in (*answers, server.said()):
        assert not any(secret in text for secret in hidden)


def test_a_test_is_sent_at_once_and_its_answer_is_shown_on_the_command_line(
    engine: Engine, tmp_path: Path, receiver: Receiver
):
    env: dict[str, Any] = {"PALAVER_DATABASE_URL": engine.fresh(), "PALAVER_FETCH_HOSTS": receiver.host}
    run = partial(started, tmp_path, **env)
    made = run("webhook", "add", receiver.url, "--event", "msg.new,msg.edit", "--format", "json")
    assert made.returncode == 0, made.stderr
    (listed,) = json.loads(run("webhook", "list", "--format", "json").stdout)
    receiver.answers = [418]
    tested = run("webhook", "test", listed["id"])
    assert "418" in tested.stdout
    assert receiver.got[0].json["type"] == "webhook.test"
    assert "418" in run("webhook", "log", listed["id"]).stdout
    assert run("webhook", "remove", listed["id"]).returncode == 0
    assert run("webhook", "test", listed["id"]).returncode == 3
