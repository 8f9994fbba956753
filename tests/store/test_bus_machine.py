"""The bus against the simplest model of it: whatever is done in whatever order, both agree."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as bounded
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from tests.helpers import PATIENCE
from tests.store.bus import Bus, open_workspace
from tests.store.test_index import index_and_passages

from palaver.errors import Conflict, NotFound, SeqMismatch
from palaver.model.events import Event
from palaver.model.messages import Thread
from palaver.operations.bus import messages, reactions, threads
from palaver.settings import Settings
from palaver.store.bus.feed import Listener

T = TypeVar("T")
WORDS = ["ant", "bee", "cat", "日本", "é"]
CONTENT = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
LABEL = st.sampled_from(["agree", "👍", "a/b"])
AGENT = st.sampled_from([None, "scout"])


@dataclass
class SaidOnce:
    """What the model knows of a message."""

    id: str
    seq: int
    content: str
    edits: list[str] = field(default_factory=list)
    labels: list[tuple[str | None, str]] = field(default_factory=list)


@dataclass
class Room:
    thread: Thread
    last_seq: int = 0
    is_closed: bool = False
    is_gone: bool = False
    said: dict[str, SaidOnce] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)


class Place:
    """One workspace for all runs, on a loop of its own. Each run deletes what it made."""

    def __init__(self, settings: Settings) -> None:
        self.loop = asyncio.new_event_loop()
        self.bus = Bus(open_workspace(settings))

    def run(self, work: Awaitable[T]) -> T:
        async def bounded_run() -> T:
            async with asyncio.timeout(PATIENCE):
                return await work

        return self.loop.run_until_complete(bounded_run())

    def close(self) -> None:
        self.bus.here.dismiss_listeners()
        self.run(asyncio.sleep(0))
        self.bus.here.close()
        self.loop.close()


def machine_on(place: Place) -> type[RuleBasedStateMachine]:
    class Machine(RuleBasedStateMachine):
        rooms = Bundle("rooms")

        def __init__(self) -> None:
            super().__init__()
            self.all: list[Room] = []
            self.told: list[tuple[str, str | None]] = []
            self.listener: Listener | None = None

        def do(self, operation: Any, **ask: Any) -> Any:
            return place.run(place.bus.do(operation, **ask))

        def tell(self, type: str, room: Room) -> None:
            self.told.append((type, room.thread.id))

        @initialize(target=rooms)
        def begin(self):
            for word in WORDS:
                assert place.run(place.bus.found(word)) == set(), "left over from the run before"
            self.listener = place.run(place.bus.here.feed().__aenter__())
            self.began = place.run(place.bus.last_event())
            return self.open("first")

        @rule(target=rooms, name=st.sampled_from(["second", "third", "ant bee"]))
        def open(self, name: str):
            topic = f"{name} {id(self)}"
            thread = place.run(place.bus.thread(topic))
            for room in self.all:
                if room.thread.topic == topic and not room.is_gone:
                    assert thread.id == room.thread.id
                    return multiple()
            room = Room(thread)
            assert thread.id not in {other.thread.id for other in self.all}
            self.all.append(room)
            self.tell("thread.new", room)
            return room

        def refusal(self, room: Room) -> type[Exception] | None:
            return NotFound if room.is_gone else Conflict if room.is_closed else None

        @rule(room=rooms, content=CONTENT)
        def post(self, room: Room, content: str):
            ask = {"thread_id": room.thread.id, "content": content}
            if refusal := self.refusal(room):
                with pytest.raises(refusal):
                    self.do(messages.post_message, **ask)
                return
            self.posted(room, self.do(messages.post_message, **ask), content)

        def posted(self, room: Room, message: Any, content: str) -> None:
            room.last_seq += 1
            assert (message.seq, message.content, message.reactions) == (room.last_seq, content, [])
            room.said[message.id] = SaidOnce(message.id, message.seq, content)
            self.tell("msg.new", room)

        @rule(room=rooms, content=CONTENT, key=st.sampled_from(["k1", "k2"]))
        def post_with_a_key(self, room: Room, content: str, key: str):
            ask = {"thread_id": room.thread.id, "content": content, "idempotency_key": key}
            first = room.said.get(room.keys.get(key, ""))
            if first and not room.is_gone:
                again = self.do(messages.post_message, **ask)
                assert (again.id, again.seq, again.content) == (first.id, first.seq, first.content)
                return
            if refusal := self.refusal(room):
                with pytest.raises(refusal):
                    self.do(messages.post_message, **ask)
                return
            message = self.do(messages.post_message, **ask)
            room.keys[key] = message.id
            self.posted(room, message, content)

        @rule(room=rooms, content=CONTENT, off=st.integers(-2, 2))
        def post_expecting(self, room: Room, content: str, off: int):
            expected = max(room.last_seq + off, 0)
            ask = {"thread_id": room.thread.id, "content": content, "expected_last_seq": expected}
            if room.is_gone or expected != room.last_seq or room.is_closed:
                with pytest.raises((NotFound, Conflict)) as caught:
                    self.do(messages.post_message, **ask)
                if not room.is_gone and expected != room.last_seq:
                    assert isinstance(caught.value, SeqMismatch)
                    unread = [m.seq for m in caught.value.facts["new_messages"]]
                    assert unread == [said.seq for said in room.said.values() if said.seq > expected]
                return
            self.posted(room, self.do(messages.post_message, **ask), content)

        @rule(room=rooms, content=CONTENT, pick=st.randoms(use_true_random=False))
        def edit(self, room: Room, content: str, pick: Any):
            if not room.said:
                return
            said = pick.choice(list(room.said.values()))
            edited = self.do(messages.edit_message, message_id=said.id, content=content)
            if content == said.content:
                assert edited.no_change
                return
            said.edits.append(said.content)
            said.content = content
            assert (edited.content, edited.edit_version) == (content, len(said.edits))
            history = self.do(messages.message_history, message_id=said.id)
            assert [edit.old_content for edit in history.edits] == said.edits
            self.tell("msg.edit", room)

        @rule(room=rooms, pick=st.randoms(use_true_random=False))
        def delete(self, room: Room, pick: Any):
            if not room.said:
                return
            said = room.said.pop(pick.choice(list(room.said)))
            self.do(messages.delete_message, message_id=said.id)
            self.tell("msg.delete", room)
            with pytest.raises(NotFound):
                self.do(messages.get_message, message_id=said.id)

        @rule(room=rooms, label=LABEL, agent=AGENT, pick=st.randoms(use_true_random=False))
        def react(self, room: Room, label: str, agent: str | None, pick: Any):
            if not room.said:
                return
            said = pick.choice(list(room.said.values()))
            reaction = self.do(reactions.react, message_id=said.id, reaction=label, agent_id=agent)
            assert (reaction.reaction, reaction.agent_id) == (label, agent)
            if (agent, label) not in said.labels:
                said.labels.append((agent, label))
                self.tell("msg.react", room)

        @rule(room=rooms, label=LABEL, agent=AGENT, pick=st.randoms(use_true_random=False))
        def unreact(self, room: Room, label: str, agent: str | None, pick: Any):
            if not room.said:
                return
            said = pick.choice(list(room.said.values()))
            answer = self.do(reactions.unreact, message_id=said.id, reaction=label, agent_id=agent)
            assert answer.removed == ((agent, label) in said.labels)
            if answer.removed:
                said.labels.remove((agent, label))
                self.tell("msg.unreact", room)

        @rule(room=rooms, closed=st.booleans())
        def close_or_reopen(self, room: Room, closed: bool):
            ask = {"thread_id": room.thread.id, "status": "closed" if closed else "discuss"}
            if room.is_gone:
                with pytest.raises(NotFound):
                    self.do(threads.update_thread, **ask)
                return
            assert self.do(threads.update_thread, **ask).status == ask["status"]
            if room.is_closed != closed:
                room.is_closed = closed
                self.tell("thread.state", room)

        @rule(room=consumes(rooms))
        def delete_thread(self, room: Room):
            if room.is_gone:
                return
            self.do(threads.delete_thread, thread_id=room.thread.id)
            room.is_gone = True
            room.said.clear()
            self.tell("thread.deleted", room)

        @rule(word=st.sampled_from(WORDS), room=rooms, everywhere=st.booleans())
        def search(self, word: str, room: Room, everywhere: bool):
            where = self.all if everywhere else [room]
            wanted = {said.id for r in where for said in r.said.values() if word in said.content.split()}
            assert place.run(place.bus.found(word, None if everywhere else room.thread)) == wanted

        @rule(one=st.sampled_from(WORDS), other=st.sampled_from(WORDS))
        def search_for_one_without_the_other(self, one: str, other: str):
            wanted = {
                said.id
                for room in self.all
                for said in room.said.values()
                if one in said.content.split() and other not in said.content.split()
            }
            assert place.run(place.bus.found(f"{one} NOT {other}")) == wanted

        @invariant()
        def what_is_listed_is_what_was_said(self):
            for room in self.all[-2:]:
                if room.is_gone:
                    continue
                listed = place.run(place.bus.messages(room.thread))
                assert [
                    (m.id, m.seq, m.content, m.edit_version, [(r.agent_id, r.reaction) for r in m.reactions])
                    for m in listed
                ] == [(s.id, s.seq, s.content, len(s.edits), s.labels) for s in room.said.values()]
                state = place.run(place.bus.state(room.thread))
                assert (state.current_seq, state.message_count) == (room.last_seq, len(room.said))

        def teardown(self) -> None:
            if self.listener is None:
                return
            for room in self.all:
                if not room.is_gone:
                    self.do(threads.delete_thread, thread_id=room.thread.id)
                    self.tell("thread.deleted", room)
            heard: list[Event] = []
            while len(heard) < len(self.told):
                batch = place.run(self.listener.next(timeout=PATIENCE))
                assert batch, "an event was never told"
                heard += batch
            place.run(self.listener.__aexit__(None, None, None))
            assert [(event.type, event.thread_id) for event in heard] == self.told
            assert [event.id for event in heard] == list(range(self.began + 1, self.began + 1 + len(heard)))
            indexed, passages = place.run(place.bus.here.read(index_and_passages))
            assert indexed == passages == set()

    return Machine


def machine_test(settings: Settings, examples: int, steps: int) -> None:
    place = Place(settings)
    try:
        run_state_machine_as_test(
            machine_on(place),
            settings=bounded(
                max_examples=examples,
                stateful_step_count=steps,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        place.close()


def test_random_operations_agree_with_a_model_on_sqlite():
    home = Path(tempfile.mkdtemp())
    try:
        machine_test(Settings(home=home), examples=50, steps=40)
    finally:
        shutil.rmtree(home, ignore_errors=True)


@pytest.mark.thorough
def test_random_operations_agree_with_a_model_on_postgres(postgres: Callable[[], str]):
    machine_test(Settings(database_url=postgres()), examples=20, steps=30)
