"""The script that every client plays, and the checks on what palaver stored and on what the model saw."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from tests.clients.model import Call, Model, Script
from tests.clients.tap import Tap
from tests.helpers import eventually, word

CHECKS = ("connects", "tools", "author", "wait", "error", "search", "memory", "restart", "exit")
"""connects: the guide's command works, and the client reaches palaver. tools: the model is offered palaver's tools.
author: posts are by the agent of bus_connect. wait: a post over REST ends msg_wait. error: the model reads SEQ_MISMATCH and
what it missed. search: knowledge_search finds a post. memory: conversation_search_own finds a turn. restart: the last five
once more after `kill -9`. exit: the client ends by itself, without an error."""

NEEDED = ("bus_connect", "msg_post", "msg_wait", "knowledge_search", "session_append", "conversation_search_own")


@dataclass
class Visit:
    """One client's run: where it talks to, and what was found."""

    client: str
    rest: Callable[[], httpx.Client]
    tap: Tap
    restart: Callable[[], None]
    """Kill palaver with -9 and start it again on the same home and port."""

    topic: str = field(default_factory=lambda: f"clients {word()}")
    with_token: bool = False
    """Pass agent_id and token in every call, as one of several agents of the same program does."""

    all_connected: threading.Barrier | None = None
    """Where agents that run at once wait for each other after bus_connect."""

    agent_id: str = ""
    model: Model | None = None
    verdicts: dict[str, str] = field(default_factory=dict)
    """For each check "ok", or why it failed."""

    @contextlib.contextmanager
    def check(self, name: str, part: str = "") -> Iterator[None]:
        """A failed assertion in this block is the verdict. The first failure of a check is kept."""
        try:
            yield
            self.verdicts.setdefault(name, "ok")
        except Exception as error:
            if self.verdicts.get(name, "ok") == "ok":
                self.verdicts[name] = f"{part}{': ' if part else ''}{str(error) or type(error).__name__}"

    def post_over_rest(self, thread_id: str, content: str) -> None:
        with self.rest() as rest:
            done = rest.post(f"/api/threads/{thread_id}/messages", json={"author": "ann", "content": content})
            done.raise_for_status()

    def messages(self, thread_id: str) -> list[dict[str, Any]]:
        with self.rest() as rest:
            return list(rest.get(f"/api/threads/{thread_id}/messages").raise_for_status().json())


def take(text: str, *names: str) -> str:
    """The value of the first of these fields that is in a text: JSON, JSON inside JSON, `name: value` or `name=value`."""
    for name in names:
        if found := re.search(rf'(?<![\w]){name}\\*"?\s*[:=]\s*\\*"?([\w.-]+)', text):
            return found[1]
    raise AssertionError(f"no {' or '.join(names)} in: {text[:300]}")


def play(visit: Visit) -> Script:
    """bus_connect, a round of everything, a restart, and the round again."""
    with visit.check("tools"):
        assert visit.model is not None
        missing = [name for name in NEEDED if name not in visit.model.tools]
        assert not missing, f"the model is not offered {', '.join(missing)}"
    about = {"thread_name": visit.topic, "ide": visit.client, "model": "scripted"}
    answer = yield Call("bus_connect", about)
    visit.agent_id, thread_id = take(answer, "agent_id"), take(answer, "thread_id")
    identity = {"agent_id": visit.agent_id, "token": take(answer, "token")} if visit.with_token else {}
    if visit.all_connected:
        visit.all_connected.wait(60)
    yield from _round(visit, thread_id, identity, is_restarted=False)
    if visit.all_connected:
        return  # the others are still at it
    visit.restart()
    yield from _round(visit, thread_id, identity, is_restarted=True)


def _round(visit: Visit, thread_id: str, identity: dict[str, str], is_restarted: bool) -> Script:
    def check(name: str) -> contextlib.AbstractContextManager[None]:
        return visit.check("restart", name) if is_restarted else visit.check(name)

    place = {"thread_id": thread_id, **identity}
    said = word("said")
    with check("author"):
        answers = []
        for number in (1, 2):
            answers.append((yield Call("msg_post", {**place, "content": f"{said} number {number}"})))
        stored = [message for message in visit.messages(thread_id) if said in message["content"]]
        assert len(stored) == 2, f"{len(stored)} of 2 posts are stored; the model was told: {answers[-1][:300]}"
        for message in stored:
            author = f"{message['author_id']} ({message['author']})"
            assert message["author_id"] == visit.agent_id, f"posted by {author}, connected as {visit.agent_id}"

    with check("wait"):
        heard, waits = word("heard"), visit.tap.calls_of("msg_wait")

        def answer_when_waiting() -> None:
            with contextlib.suppress(AssertionError):
                eventually(lambda: visit.tap.calls_of("msg_wait") > waits)
                visit.post_over_rest(thread_id, f"{heard} you")

        threading.Thread(target=answer_when_waiting, daemon=True).start()
        answer = ""
        for _ in range(9 if visit.all_connected else 1):  # other agents' posts end a wait too
            posts = visit.messages(thread_id)
            last = max((post["seq"] for post in posts if heard not in post["content"]), default=0)
            last = min([last, *(post["seq"] - 1 for post in posts if heard in post["content"])])
            answer = yield Call("msg_wait", {**place, "after_seq": last, "timeout_ms": 30000})
            if heard in answer:
                break
        assert heard in answer, f"the model does not see the post that ended the wait: {answer[:300]}"

    with check("error"):
        missed, stale = word("missed"), max(message["seq"] for message in visit.messages(thread_id))
        visit.post_over_rest(thread_id, f"{missed} this")
        late = {"content": "too late", "expected_last_seq": stale}
        answer = yield Call("msg_post", {**place, **late})
        assert "SEQ_MISMATCH" in answer, f"the model does not see SEQ_MISMATCH: {answer[:300]}"
        assert missed in answer, f"the model does not see the missed message: {answer[:300]}"

    with check("search"):
        answer = yield Call("knowledge_search", {"query": said})
        assert f"{said} number" in re.sub(r"[*_<>]|</?\w+>", "", answer), f"the post is not found: {answer[:300]}"

    with check("memory"):
        turn = word("turn")
        about = {"session_id": f"session-{visit.agent_id}", "role": "user", "content": f"{turn} deploy tonight"}
        answer = yield Call("session_append", {**about, **identity})
        found = yield Call("conversation_search_own", {"query": turn, **identity})
        assert f"{turn} deploy" in re.sub(r"[*_<>]|</?\w+>", "", found), (
            f"the turn is not found: {found[:200]} (session_append: {answer[:150]})"
        )
