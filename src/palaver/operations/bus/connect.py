"""Connect to the bus (register or reconnect, and join a thread), and the configuration and status of the bus."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Annotated, Any

from palaver import __version__
from palaver.errors import Refused
from palaver.model import visibility
from palaver.model.answers import answer_of
from palaver.model.events import agent_online
from palaver.model.messages import Message, Status
from palaver.model.people import Agent, Caller
from palaver.model.requests import Id, NoArguments, Project, Seq, Text, clamp
from palaver.operations import identity
from palaver.operations.bus.agents import AgentDescription, register_new
from palaver.operations.bus.messages import Budget, show
from palaver.operations.bus.threads import CreateThread, Topic, open_thread
from palaver.operations.operation import Command, Route, Tool, operation
from palaver.search.vectors.background import ModelProgress, progress_of
from palaver.store.admin.check_state import CheckStatus
from palaver.store.bus import agents, events, messages, read_marks, threads
from palaver.store.engines.database import Change, Reader
from palaver.store.workspaces import Workspace


class Connect(AgentDescription):
    thread_name: Topic
    """Topic of the thread; created if it does not exist."""
    agent_id: Id | None = None
    """Reconnect as this agent; needs token."""
    token: Id | None = None
    """The token of agent_id."""
    project: Project | None = None
    """Folder of the project you work on."""
    after_seq: Seq = 0
    """Only messages after this seq."""
    limit: Annotated[int, clamp(1, 200)] = 50
    """At most this many messages, the newest."""
    max_tokens: Budget | None = None
    """About how many tokens the messages may have."""
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
    """`messages` are the newest. `truncated` and `has_more`: there are earlier ones."""

    agent: ConnectedAgent
    thread: ConnectedThread
    messages: list[Message]
    current_seq: int
    truncated: bool
    has_more: bool
    reply_token: str
    hint: str | None = None
    next: str | None = None
    """Instruction for clients that keep no session."""


PASS_BOTH = "You are this agent. Pass agent_id and token in every further call."


@operation(
    Tool(
        "bus_connect",
        brings_words=True,
        defaults={"max_tokens": 4_000},
        hidden=("description", "capabilities", "skills", "system_prompt", "template", "max_tokens"),
    ),
    Route("POST", "/api/connect"),
)
def connect(change: Change, caller: Caller, request: Connect) -> Connected:
    """Register as an agent (or reconnect as one) and join a thread. Call this first. Returns your agent, the thread,
    its newest messages and current_seq for msg_wait."""
    if not request.thread_name.strip():
        raise Refused("thread_name must not be empty.")
    if project := request.project or caller.client.project:
        caller = replace(caller, client=replace(caller.client, project=project))
    agent, token = _connecting_agent(change, caller, request, request.agent_id, request.token)
    identity.become(change, caller, agent)  # a thread that this creates is its own
    opening = CreateThread(topic=request.thread_name, system_prompt=request.system_prompt, template=request.template)
    stored, is_new = open_thread(change, opening, caller)
    thread = stored.thread
    found = messages.newest(change, stored, request.limit + 1, after_seq=request.after_seq)
    seen = visibility.mask_messages(caller, found[-request.limit :])
    shown = show(seen, request.max_tokens, newest=True, has_more=len(found) > request.limit)
    read_marks.advance(change, agent.id, stored.document_id, thread.current_seq)
    return Connected(
        agent=answer_of(ConnectedAgent, agent, token=token, registered=True),
        thread=answer_of(ConnectedThread, thread, created=is_new),
        messages=shown.messages,
        current_seq=thread.current_seq,
        truncated=shown.has_more,
        has_more=shown.has_more,
        reply_token=agents.sign_reply(change, agent.id),
        hint=shown.hint,
        next=PASS_BOTH if caller.client.is_stateless and not (caller.is_authenticated or caller.session.slug) else None,
    )


def _connecting_agent(
    change: Change, caller: Caller, request: AgentDescription, agent_id: str | None = None, token: str | None = None
) -> tuple[Agent, str | None]:
    """The agent that connects, and its secret: it proves itself, returns without a proof, or is new."""
    if agent_id and not token and not caller.is_authenticated:
        raise identity.missing_token()  # a session is not a proof, not even for a connected agent
    if agent_id or token:
        agent = identity.prove_agent(change, caller, agent_id, token)
    elif caller.agent_id:
        agent = agents.must_exist(change, caller.agent_id)
    elif caller.session.slug:
        agent = identity.must_be_agent(change, caller)
    elif (own := identity.agent_of(change, caller)) and not _contradicts(own, request):
        agent = own
    elif returning := _returning_agent(change, caller, request):
        agent, token = returning, None if caller.is_authenticated else agents.new_secret(change, returning)
    else:
        return register_new(change, request, client=caller.client, owner=caller.owner)
    if request.display_name and request.display_name != agent.display_name:
        agent = agents.rename(change, agent, request.display_name)
    if caller.client.program and not caller.agent_id:
        agents.set_client(change, agent, caller.client.program, caller.client.project or agent.project or "")
        agents.set_about(change, agent, request.ide or agent.ide, request.model or agent.model)
    if agents.touch(change, agent, "bus_connect"):
        change.tell(agent_online(agents.must_exist(change, agent.id)))
    return agent, token


def client_agent(change: Change, caller: Caller) -> tuple[Agent, str | None]:
    """The agent of a client that joins no thread yet, and its secret if the client needs one."""
    agent, token = _connecting_agent(change, caller, AgentDescription())
    identity.become(change, caller, agent)
    return agent, None if caller.is_authenticated or caller.session.slug else token


def _returning_agent(change: Change, caller: Caller, request: AgentDescription) -> Agent | None:
    """The agent that a hook of this client announced, or its earlier agent in this project if nobody acts as it."""
    client = caller.client
    if not client.program:
        return None
    since = identity.active_since()
    announced = agents.announced_by_hook(change, caller.owner, client.program, client.project, since)
    if len(announced) == 1 and not _contradicts(announced[0], request, any_model=True):
        return announced[0]

    def fits(agent: Agent) -> bool:
        is_called_so = not request.display_name or agent.answers_to(request.display_name)  # else it is another agent
        return is_called_so and not _contradicts(agent, request, any_model=bool(client.project))

    # Calls with the token of a person are not linked to each other, so they share an agent.
    same = identity.find_agent(change, caller, client, is_at_work=not caller.is_authenticated, fits=fits)
    slug = agents.slug_of(client.title or client.program)
    if same or client.project or request.display_name or (request.ide and agents.slug_of(request.ide) != slug):
        return same
    return agents.free_named(change, slug, since)


def _contradicts(agent: Agent, request: AgentDescription, *, any_model: bool = False) -> bool:
    """Whether the description in the request contradicts the stored description of the agent."""
    said = [(request.ide, agent.ide), (request.display_name, agent.display_name)]
    if not any_model:
        said.append((request.model, agent.model))
    return any(
        given and known and not known.startswith("Unknown ") and given.casefold() != known.casefold()
        for given, known in said
    )


@dataclass(frozen=True, slots=True)
class BusConfig:
    bus_name: str
    version: str
    endpoint: str
    preferred_language: str
    language_note: str
    statuses: list[str]
    recommended_reactions: list[str]
    how_to: str


def config(read: Reader) -> BusConfig:
    language = read.settings.language
    return BusConfig(
        bus_name="palaver",
        version=__version__,
        endpoint=read.settings.base_url,
        preferred_language=language,
        language_note=f"Please write in {language} where you can.",
        statuses=["discuss", "implement", "review", "done", "closed", "archived"],
        recommended_reactions=["agree", "disagree", "important", "done", "flag", "👍", "👎"],
        how_to=(
            "Call bus_connect to join a thread, msg_wait with current_seq to receive new messages, msg_post to "
            "answer, and msg_search to find earlier messages."
        ),
    )


@operation(Tool("bus_get_config"), Route("GET", "/api/config"))
def get_config(read: Reader, caller: Caller, request: NoArguments) -> BusConfig:
    """Get the bus configuration: language, address, thread statuses, recommended reactions. Call it once, first."""
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
    check: CheckStatus | None = None


@operation(Route("GET", "/api/status"), Command("status"))
async def get_status(here: Workspace, caller: Caller, request: NoArguments) -> BusStatus:
    """Show the version of the server, the number of threads, messages and agents, and damage that the server found."""
    check = await asyncio.to_thread(lambda: here.check_state.status)
    return await here.read(lambda read: status_of(read, caller, check))


def status_of(read: Reader, caller: Caller, check: CheckStatus) -> BusStatus:
    everyone = agents.everyone(read)
    return BusStatus(
        version=__version__,
        engine=read.connection.dialect.name,
        threads=threads.count(read),
        messages=messages.count(read),
        agents=len(everyone),
        agents_online=sum(agent.is_online for agent in everyone),
        last_event_id=events.last_id(read),
        model=progress_of(read) if visibility.sees_everything(caller) else None,
        check=check if visibility.sees_everything(caller) else None,
    )
