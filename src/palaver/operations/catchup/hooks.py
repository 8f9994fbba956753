"""What the hooks of coding agents get: a briefing at the start, messages to the agent at each prompt and stop.

The hook program (`palaver/hook.py`) sends the event and shows the answer in the format of its client.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from palaver.model import visibility
from palaver.model.events import agent_online
from palaver.model.people import Agent, Caller, Client, Session, program_of, title_of
from palaver.model.project_file import read_project_file
from palaver.model.requests import Id, Line, NotBlank, Project, Request, Text, clamp
from palaver.operations.bus.messages import mark_active
from palaver.operations.catchup import briefing
from palaver.operations.catchup.news import News, NewsItem, collect, item_of
from palaver.operations.catchup.recall import evidence
from palaver.operations.client_agents import agent_for
from palaver.operations.operation import Route, operation
from palaver.store.bus import agents, read_marks
from palaver.store.bus.read_marks import reader_of
from palaver.store.engines.database import Change
from palaver.store.workspaces import Workspace
from palaver.text.hook_text import GO_ON, NEW_FOR_YOU

Event = Literal["session-start", "prompt", "stop", "pre-compact", "session-end"]

BRIEFING_TOKENS = 600
MESSAGES_TOKENS = 600
RECALL_TOKENS = 380
MOST_AT_ONCE = 5
"""At most this many messages are shown at a prompt or a stop. The others come next time."""
MESSAGE_LENGTH = 600

READ_MORE = "Read a thread with msg_list, answer with msg_post, search with knowledge_search."


HOOK_CONTEXT, HOOK_CONTEXT_END = "<hook_context>", "</hook_context>"


class HookEvent(Request):
    event: Event
    """The event of the client."""
    client: Annotated[Line, Field(max_length=60), NotBlank]
    """Short name of the client program, e.g. claude-code."""
    session: Id
    """Id of the client's session."""
    project: Project | None = None
    """Folder that the client works in, or its project."""
    folder: Project | None = None
    """Folder that the client works in, if `project` is not a folder."""
    pid: Annotated[int, clamp(0, 2**31)] | None = None
    """Process id of the client, if it runs on the same machine."""
    prompt: Text | None = None
    """What the user typed."""


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """`text` is for the model. It is empty if there is nothing to say."""

    agent: str | None
    text: str


@operation(Route("POST", "/api/hooks/{event}"))
async def report_hook(workspace: Workspace, caller: Caller, request: HookEvent) -> HookAnswer:
    """Report an event of a coding agent. Returns the text that the agent should read."""
    await workspace.store_read_marks()
    project = request.project
    client = Client(program_of(request.client), title_of(request.client, None), project or "")
    caller = replace(caller, kind="agent", client=client, session=Session())
    if request.event == "session-end":
        await workspace.change(lambda change: agents.end_hook_connection(change, request.session))
        return HookAnswer(None, "")
    agent, is_new = await workspace.change(lambda change: _agent_of_session(change, caller, request))
    caller = replace(caller, session=Session(agent_id=agent.id if agent else None))
    if request.event == "session-start" or (request.event == "prompt" and is_new):
        # The server may have been down when the session began. Then the first prompt gets the briefing.
        text = await _briefing(workspace, caller, agent, request.session, project)
    elif request.event in ("prompt", "stop"):
        text = await _new_messages(workspace, caller, agent, GO_ON if request.event == "stop" else NEW_FOR_YOU)
    else:
        text = ""
    if request.event == "prompt" and request.prompt and workspace.settings.recall and _has_recall(workspace, request):
        found = await evidence(workspace, caller, typed_part(request.prompt), request.session, RECALL_TOKENS)
        text = "\n\n".join(part for part in (text, found) if part)
    return HookAnswer(agent.slug if agent else None, text)


def _has_recall(workspace: Workspace, request: HookEvent) -> bool:
    """Whether the project of the client allows evidence in prompts. It is asked where its folder is."""
    is_here = workspace.settings.is_loopback and request.folder
    return not is_here or read_project_file(request.folder or "").has_recall


def typed_part(prompt: str) -> str:
    """The prompt without the text of earlier hooks, which Gemini CLI puts before it."""
    begin, found, rest = prompt.partition(HOOK_CONTEXT)
    return begin + rest.rpartition(HOOK_CONTEXT_END)[2] if found else prompt


def _agent_of_session(change: Change, caller: Caller, request: HookEvent) -> tuple[Agent, bool]:
    """The agent of the client's session, and whether the session is new."""
    known = agents.hook_connection(change, request.session)
    agent = agent_for(change, caller, caller.client, request.session, is_at_work=True)
    if known is not None and known[1] == agent.id:
        mark_active(change, agent, request.event)
        return agent, False
    client, folder = caller.client, request.folder or ""
    key = agents.hook_key(request.session, request.pid)
    agents.bind_connection(change, key, agent, client.program, client.project, folder)
    if agents.touch(change, agent, request.event):
        change.tell(agent_online(agents.must_exist(change, agent.id)))
    return agent, True


async def _briefing(
    workspace: Workspace, caller: Caller, agent: Agent | None, session: str, project: str | None
) -> str:
    """What an agent should know when it starts: who it is, what is new, what happened in this project."""
    reader = reader_of(caller, agent)
    found = await workspace.read(lambda read: collect(read, caller, reader, project=project, without_session=session))

    def show(change: Change) -> str | None:
        read_marks.mark_seen(change, reader, found.mentions)
        return agents.new_secret(change, agent) if agent and not caller.is_authenticated else None

    token = await workspace.change(show)
    who = briefing.who_you_are(agent, token) if agent else f"You use palaver with the token of {caller.name}."
    return briefing.brief(found.news, BRIEFING_TOKENS, before=[who, READ_MORE]).text


async def _new_messages(workspace: Workspace, caller: Caller, agent: Agent | None, heading: str) -> str:
    """The messages to the agent that it was not shown before. Each is shown once."""
    reader = reader_of(caller, agent)
    if not await workspace.read(lambda read: read_marks.unseen_mentions(read, reader, 1)):
        return ""

    def show(change: Change) -> list[NewsItem]:
        found = read_marks.unseen_mentions(change, reader, MOST_AT_ONCE)
        new = read_marks.mark_seen(change, reader, found)
        return [
            item_of(mention.topic, mention.message, length=MESSAGE_LENGTH)
            for mention in new
            if not visibility.hides(caller, mention.message.metadata)
        ]

    shown = await workspace.change(show)
    if not shown:
        return ""
    return briefing.brief(News(mentions=shown), MESSAGES_TOKENS, before=[heading], text_length=MESSAGE_LENGTH).text
