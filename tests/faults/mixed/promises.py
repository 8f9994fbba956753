"""Checks that a server keeps what it acknowledged to clients of all kinds."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from tests.faults.mixed.clients import Kept, Ledger
from tests.faults.press import Client
from tests.helpers import Server

SEARCHES = 40


def must_keep_everything(server: Server, ledgers: list[Ledger], rooms: list[str], *, is_full: bool) -> int:
    """Check everything, or only what was touched since the last check. Returns the number of things."""
    client, count = Client(server), 0
    for ledger in ledgers:
        look = _Look(client, ledger, is_full)
        look.messages()
        look.threads()
        look.items("notes", ledger.notes, "content")
        look.items("prompts", ledger.prompts, "user_prompt")
        look.uploads()
        look.turns()
        look.imports()
        count += look.count
        ledger.touched.clear()
    if is_full:
        _must_have_no_gaps(client, ledgers, rooms)
    _must_be_found(client, ledgers)
    client.close()
    return count


class _Look:
    def __init__(self, client: Client, ledger: Ledger, is_full: bool) -> None:
        self.client, self.ledger, self.is_full, self.count = client, ledger, is_full, 0

    def _asked(self, things: dict[str, Any]) -> Iterable[tuple[str, Any]]:
        for id, thing in things.items():
            if self.is_full or id in self.ledger.touched:
                self.count += 1
                yield id, thing

    def _settle(self, what: str, id: str, kept: Kept, status: int, text: str | None) -> None:
        """Compare one thing. From now on, only the text that is there is right."""
        if kept.is_gone:
            assert status == 404, f"{what} {id} was deleted and is back: {text!r}"
            return
        if kept.may_be_gone and status == 404:
            kept.is_gone = True
            return
        assert status == 200, f"{what} {id} was acknowledged and is gone ({status}): {kept}"
        assert text in (kept.text, kept.maybe), f"{what} {id} has another text: {text!r}, not {kept}"
        kept.text, kept.maybe, kept.may_be_gone = text or "", None, False

    def messages(self) -> None:
        for id, kept in self._asked(self.ledger.messages):
            status, answer = self.client.ask("GET", f"/api/messages/{id}")
            self._settle("message", id, kept, status, answer.get("content"))
            if status == 200:
                assert answer["seq"] == kept.seq
                given = {one["reaction"] for one in answer["reactions"]}
                assert self.ledger.reactions.get(id, set()) <= given, f"a reaction to {id} is gone"

    def threads(self) -> None:
        for id, kept in self._asked(self.ledger.threads):
            status, answer = self.client.ask("GET", f"/api/threads/{id}")
            self._settle("thread", id, kept, status, answer.get("status"))

    def items(self, kind: str, things: dict[str, Kept], part: str) -> None:
        for id, kept in self._asked(things):
            status, answer = self.client.ask("GET", f"/api/{kind}/{id}")
            self._settle(kind, id, kept, status, answer.get(part))

    def uploads(self) -> None:
        for url, data in self._asked(self.ledger.uploads):
            status, there = self.client.get(url)
            assert status == 200, f"upload {url} was acknowledged and is gone"
            assert there == data, f"upload {url} has other bytes: {len(there)} instead of {len(data)}"

    def turns(self) -> None:
        sessions: dict[str, dict[str, str]] = {}
        for id, kept in self._asked(self.ledger.turns):
            if kept.where not in sessions:
                sessions[kept.where] = self._session(kept.where)
            text = sessions[kept.where].get(id)
            self._settle(f"turn of {kept.where}", id, kept, 404 if text is None else 200, text)
        for key, deleted in self.ledger.sessions.items():
            if deleted.may_be_gone and not deleted.is_gone:  # now it is clear what is there
                deleted.may_be_gone = False
                for kept in self.ledger.turns.values():
                    assert kept.where != key or kept.is_gone or not kept.may_be_gone

    def _session(self, key: str) -> dict[str, str]:
        agent, _, session = key.partition("/")
        turns: dict[str, str] = {}
        while True:
            path = f"/api/v1/agents/{agent}/sessions/{session}/messages?limit=200&after={len(turns)}"
            status, answer = self.client.ask("GET", path)
            if status == 404:
                return turns
            assert status == 200, answer
            turns |= {turn["id"]: turn["content"] for turn in answer["turns"]}
            if len(answer["turns"]) < 200:
                return turns

    def imports(self) -> None:
        for id, kept in self._asked(self.ledger.imports):
            status, answer = self.client.ask("GET", f"/api/archive/chatgpt:{id}")
            assert status == 200, f"{id} was imported and is gone: {answer}"
            assert [message["text"] for message in answer["messages"]] == [kept.text, "yes"]


def _must_have_no_gaps(client: Client, ledgers: list[Ledger], rooms: list[str]) -> None:
    """Only deleted messages leave a gap. No seq was used twice."""
    deleted = {(kept.where, kept.seq) for ledger in ledgers for kept in ledger.messages.values() if kept.is_gone}
    for room in rooms:
        there = [message["seq"] for message in client.messages(room)]
        assert there == sorted(set(there)), f"a seq of {room} was used twice"
        last = client.ask("GET", f"/api/threads/{room}")[1]["current_seq"]
        missing = set(range(1, last + 1)) - set(there)
        unknown = {seq for seq in missing if (room, seq) not in deleted}
        assert not unknown, f"gaps in {room}: {sorted(unknown)[:10]}"


def _must_be_found(client: Client, ledgers: list[Ledger]) -> None:
    there = [
        (id, kept)
        for ledger in ledgers
        for id, kept in ledger.messages.items()
        if not kept.is_gone and not kept.may_be_gone and kept.maybe is None
    ]
    for id, kept in random.sample(there, min(SEARCHES, len(there))):
        assert client.found(kept.text.split()[0]) == [id]
