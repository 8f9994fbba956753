"""Messages that are meant for somebody: they mention a name, hand over to it, or reply to its message."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from palaver.model.messages import Message
from palaver.model.people import Agent
from palaver.model.projects import same_project
from palaver.model.times import micros, now
from palaver.model.visibility import is_human_only
from palaver.store.bus import agents, names, threads
from palaver.store.bus.threads import StoredThread
from palaver.store.engines.database import Change, Reader
from palaver.text.folded_names import fold

MOST_NAMES = 20
"""At most this many names in the text of one message count as mentions."""

_IN_TEXT = re.compile(r"(?<![\w@/.])@(\w[\w.-]{0,59})")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)


@dataclass(slots=True)
class Receivers:
    """Who a message is meant for: agents, people by name, and names that nobody has."""

    agents: dict[str, Agent] = field(default_factory=dict)
    people: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, str] = field(default_factory=dict)

    @property
    def reached(self) -> list[str]:
        return [*(agent.slug for agent in self.agents.values()), *self.people.values()]

    @property
    def keys(self) -> set[str]:
        """The names under which the message is stored. An agent may still take a name that nobody has."""
        return {*map(key_of, self.agents), *self.people, *self.unknown}


def key_of(name: str) -> str:
    return name.strip().removeprefix("@").casefold()


def receivers_of(read: Reader, thread: StoredThread, message: Message, replies_to: str | None) -> Receivers:
    """Who a message is meant for: from its mentions, its handoff, its text, and its reply. Never its author."""
    handoff = (message.metadata or {}).get("handoff_target")
    given = [*message.mentions, handoff if isinstance(handoff, str) else "", replies_to or ""]
    is_quoted = "handoff" in (message.metadata or {})  # the names in a session that is handed over are not called
    text = message.content if "@" in message.content and not is_quoted else ""
    in_text = [found[1].rstrip(".-") for found in islice(_IN_TEXT.finditer(text), MOST_NAMES)]
    found, crowd = Receivers(), _Crowd(read, thread, message)
    for name in [*given, *in_text]:
        if key_of(name):
            crowd.add(found, name.strip().removeprefix("@"))
    if found.unknown and in_text:  # a decorator in a piece of code is no name
        outside = {key_of(one[1].rstrip(".-")) for one in _IN_TEXT.finditer(_CODE.sub(" ", text))}
        outside |= set(map(key_of, given))
        found.unknown = {key: name for key, name in found.unknown.items() if key in outside}
    known = {fold(person) for person in found.people.values()}  # in a text, a hyphen replaces the blanks of a name
    found.unknown = {key: name for key, name in found.unknown.items() if fold(name) not in known}
    if is_human_only(message.metadata):
        found.agents.clear()
    return found


class _Crowd:
    """The agents and people whom the names in one message can mean."""

    def __init__(self, read: Reader, thread: StoredThread, message: Message) -> None:
        self.read, self.thread, self.message = read, thread, message
        self.sender = agents.find(read, message.author_id) if message.author_id else None

    @cached_property
    def authors(self) -> list[tuple[str, str | None]]:
        """The names and ids of those who posted in the thread."""
        return threads.authors(self.read, self.thread)

    def add(self, found: Receivers, name: str) -> None:
        program = names.program_called(name)
        if name.casefold() in (names.ONLINE, names.EVERYBODY):
            authors = self.authors if name.casefold() == names.EVERYBODY else []
            ids = {id for _, id in authors}
            for one in agents.everyone(self.read):
                if one.is_online or one.id in ids:
                    self._meet(found, one)
            for author in (author for author, id in authors if id is None):
                self._meet_person(found, author)
        elif agent := (self._of_program(program) if program else None) or agents.named(self.read, name):
            self._meet(found, agent)
        elif person := self._person(name):
            self._meet_person(found, person)
        elif agent := self._of_program(name):  # by another name of the program, as @gemini
            self._meet(found, agent)
        else:
            found.unknown[key_of(name)] = name

    def _meet(self, found: Receivers, agent: Agent) -> None:
        if self.sender is None or agent.id != self.sender.id:
            found.agents[agent.id] = agent

    def _meet_person(self, found: Receivers, person: str) -> None:
        if self.message.author_id is not None or person != self.message.author:
            found.people[key_of(person)] = person

    def _of_program(self, program: str) -> Agent | None:
        """The agent of a program: one that takes part in the thread, then one of the project of the thread, then of
        the sender's project, then the one that was seen last."""
        others = [one for one in agents.of_program(self.read, program) if one.id != self.message.author_id]
        if len(others) <= 1:
            return others[0] if others else None
        taking_part = {id for _, id in self.authors if id and id != self.message.author_id}
        creator = (self.thread.created_by or "").removeprefix(names.AGENTS)
        known = [agents.find(self.read, id) for id in {*taking_part, creator} - {self.message.author_id}]
        projects = [one.project for one in known if one]
        own = self.sender.project if self.sender else None
        return max(
            others,
            key=lambda one: (
                one.id in taking_part,
                any(same_project(one.project, project) for project in projects),
                same_project(one.project, own),
                one.is_online,
                one.last_heartbeat,
            ),
        )

    def _person(self, name: str) -> str | None:
        """A person with a token, or somebody who posted or read under this name on an open server."""
        holder = names.holder_of(self.read, name) or ""
        if holder.startswith(names.PEOPLE):
            return holder.removeprefix(names.PEOPLE)
        if name.casefold() == "human" or self.read.one("knows_reader", reader=names.PEOPLE + name):
            return name
        return next((author for author, id in self.authors if id is None and fold(author) == fold(name)), None)


def add(change: Change, message: Message, passage_id: int, document_id: int, receivers: Receivers) -> None:
    where = {"passage_id": passage_id, "document_id": document_id, "seq": message.seq}
    change.run_many("insert_mention", [{"name": name, **where} for name in receivers.keys])


def mark_seen(change: Change, names: Iterable[str], passage_ids: Iterable[int]) -> None:
    """Store that messages were shown to their receiver, and that it went on."""
    at = micros(now())
    ids = list(passage_ids)
    change.run_many("mention_seen", [{"name": name, "passage_id": one, "at": at} for name in names for one in ids])
