"""Connecting: one call that makes an agent ready to talk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from palaver import __version__
from palaver.errors import Refused
from palaver.model.asking import Id, Seq, Text, clamp
from palaver.model.events import agent_online
from palaver.model.people import Agent, Caller
from palaver.model.talk import Message, Status
from palaver.operations import identity, visibility
from palaver.operations.agents import About, Nobody, arrive
from palaver.operations.faces import Command, Route, Tool, operation
from palaver.operations.messages import new_reply_token
from palaver.operations.stronger import ModelProgress, progress_of
from palaver.operations.threads import CreateThread, Topic, open_thread
from palaver.store import agents, messages
from palaver.store.database import Change, Reader


class Connect(About):
    thread_name: Topic
    """Topic of the thread to join; it is created if it does not exist."""
    agent_id: Id | None = None
    """Come back as this agent; needs its token."""
    token: Id | None = None
    """The secret that belongs to agent_id."""
    after_seq: Seq = 0
    """Only messages after this seq."""
    limit: Annotated[int, clamp(1, 200)] = 50
    """How many messages at the most: the newest ones."""
    system_prompt: Text | None = None
    """Rules for the thread, if this call creates it."""
    template: Id | None = None
    """Template for the thread, if this call creates it."""


@dataclass(frozen=True, slots=True)
class ConnectedAgent:
    id: str
    agent_id: str
    name: str
    display_name: str | None
    slug: str
    token: str | None
    registered: bool


@dataclass(frozen=True, slots=True)
class ConnectedThread:
    id: str
    thread_id: str
    topic: str
    status: Status
    created: bool
    system_prompt: str | None
    metadata: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Connected:
    agent: ConnectedAgent
    thread: ConnectedThread
    messages: list[Message]
    current_seq: int
    truncated: bool
    reply_token: str


@operation(Tool("bus_connect", brings_words=True), Route("POST", "/api/connect"))
def connect(change: Change, caller: Caller, ask: Connect) -> Connected:
    """Register (or come back) and join a thread in one call. Returns who you are, the thread, its newest messages,
    current_seq for msg_wait, and a reply_token for your first msg_post."""
    if not ask.thread_name.strip():
        raise Refused("thread_name must not be empty.")
    agent, token = _who(change, caller, ask)
    opening = CreateThread(topic=ask.thread_name, system_prompt=ask.system_prompt, template=ask.template)
    stored, is_new = open_thread(change, opening)
    thread = stored.thread
    found = messages.newest(change, stored, ask.limit + 1, after_seq=ask.after_seq)
    caller.session.agent_id = agent.id
    return Connected(
        agent=ConnectedAgent(agent.id, agent.id, agent.name, agent.display_name, agent.slug, token, registered=True),
        thread=ConnectedThread(
            thread.id, thread.id, thread.topic, thread.status, is_new, thread.system_prompt, thread.metadata
        ),
        messages=visibility.all_seen_by(caller, found[-ask.limit :]),
        current_seq=thread.current_seq,
        truncated=len(found) > ask.limit,
        reply_token=new_reply_token(agent.id),
    )


def _who(change: Change, caller: Caller, ask: Connect) -> tuple[Agent, str | None]:
    """A returning agent proves itself; a token's agent is itself; anyone else is new."""
    if ask.agent_id and not ask.token and not caller.is_authenticated:
        raise identity.unproven()  # also from who connected before: a session is no proof to come back with
    if ask.agent_id or ask.token:
        agent, token = identity.must_be(change, caller, ask.agent_id, ask.token), ask.token
    elif caller.agent_id:
        agent, token = agents.must_exist(change, caller.agent_id), None
    else:
        return arrive(change, ask)
    if ask.display_name and ask.display_name != agent.display_name:
        agent = agents.rename(change, agent, ask.display_name)
    if agents.touch(change, agent, "bus_connect"):
        change.tell(agent_online(agents.must_exist(change, agent.id)))
    return agent, token


@dataclass(frozen=True, slots=True)
class Config:
    bus_name: str
    version: str
    endpoint: str
    preferred_language: str
    language_note: str
    statuses: list[str]
    recommended_reactions: list[str]
    how_to: str


def config(read: Reader) -> Config:
    language = read.settings.language
    return Config(
        bus_name="palaver",
        version=__version__,
        endpoint=read.settings.base_url,
        preferred_language=language,
        language_note=f"Please write in {language} where you can.",
        statuses=["discuss", "implement", "review", "done", "closed", "archived"],
        recommended_reactions=["agree", "disagree", "important", "done", "flag", "👍", "👎"],
        how_to=(
            "bus_connect to join a thread; msg_wait with current_seq to hear what comes next; msg_post to answer; "
            "msg_search to find what was said before."
        ),
    )


@operation(Tool("bus_get_config"), Route("GET", "/api/config"))
def get_config(read: Reader, caller: Caller, ask: Nobody) -> Config:
    """What to know about this bus: its language, address and customs. Read it once, at the start."""
    return config(read)


@dataclass(frozen=True, slots=True)
class BusStatus:
    version: str
    engine: str
    threads: int
    messages: int
    agents: int
    agents_online: int
    last_event_id: int
    model: ModelProgress | None = None


@operation(Route("GET", "/api/status"), Command("status"))
def get_status(read: Reader, caller: Caller, ask: Nobody) -> BusStatus:
    """How much there is, and who is here."""
    everyone = agents.everyone(read)
    return BusStatus(
        version=__version__,
        engine=read.connection.dialect.name,
        threads=read.must("count_threads", status=None, include_archived=1)["total"],
        messages=read.must("count_passages")["messages"],
        agents=len(everyone),
        agents_online=sum(agent.is_online for agent in everyone),
        last_event_id=read.must("last_event_id")["value"],
        model=progress_of(read),
    )
