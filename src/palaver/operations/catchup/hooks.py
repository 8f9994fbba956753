"""What the hooks of coding agents get: a briefing at the start, messages to the agent at each prompt and stop.

The hook program (`palaver/doors/hook.py`) sends the event and shows the answer in the format of its client.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from palaver.model import visibility
from palaver.model.events import agent_online
from palaver.model.people import Agent, Caller, Client, Session, program_of, title_of
from palaver.model.project_file import read_project_file
from palaver.model.requests import Id, Ids, Line, NotBlank, Project, Request, Text, clamp
from palaver.operations.bus.messages import mark_active
from palaver.operations.catchup import briefing
from palaver.operations.catchup.briefing import compaction_briefing
from palaver.operations.catchup.news import News, collect, item_of
from palaver.operations.catchup.recall import evidence
from palaver.operations.identity import agent_for
from palaver.operations.operation import Route, operation
from palaver.store.bus import agents, deliveries, read_marks
from palaver.store.bus.deliveries import HookContext, HookSession
from palaver.store.bus.read_marks import Mention, reader_of
from palaver.store.engines.database import Change, Reader
from palaver.store.workspaces import Workspace
from palaver.text import notable
from palaver.text.hook_text import GO_ON, NEW_FOR_YOU

Event = Literal["session-start", "prompt", "stop", "pre-compact", "session-end", "confirm"]

BRIEFING_TOKENS = 600
MESSAGES_TOKENS = 700
RECALL_TOKENS = 380
MOST_AT_ONCE = 20
"""At most this many messages are shown at a prompt or a stop. The others come next time."""
MESSAGE_LENGTHS = (600, 300, 150, 80)
"""Maximum characters of a message. If not all messages fit with one length, the next is tried."""

NOT_RECORDED = "The last session could not be recorded: {} Tell your user: palaver doctor says more."
CUT_TEXTS = "Texts that end with … are cut: read them with msg_list."
READ_MORE = "Read a thread with msg_list, answer with msg_post, search with knowledge_search."


HOOK_CONTEXT, HOOK_CONTEXT_END = "<hook_context>", "</hook_context>"


class HookEvent(Request):
    event: Event
    """The event of the client, or confirm: the text of an earlier answer was written."""
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
    source: Annotated[Line, Field(max_length=60)] | None = None
    """Why a session starts (startup, resume, clear or compact) or is compacted (auto or manual)."""
    not_recorded: Annotated[Line, Field(max_length=500)] | None = None
    """Why the last session of the client could not be recorded."""
    confirmed: Ids | None = None
    """The deliveries of earlier answers whose text was written for the model. Clients that confirm always send it."""


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """`text` is for the model. It is empty if there is nothing to say. Otherwise confirm `delivery` when it is written:
    what is not confirmed is offered again."""

    agent: str | None
    text: str
    delivery: str | None = None


@operation(Route("POST", "/api/hooks/{event}"))
async def report_hook(workspace: Workspace, caller: Caller, request: HookEvent) -> HookAnswer:
    """Report an event of a coding agent. Returns the text that the agent should read."""
    await workspace.store_read_marks()
    project = request.project
    client = Client(program_of(request.client), title_of(request.client, None), project or "")
    caller = replace(caller, kind="agent", client=client, session=Session())
    if request.event in ("session-end", "confirm"):

        def end(change: Change) -> None:
            deliveries.confirm(change, request.session, request.confirmed or ())
            if request.event == "session-end":
                agents.end_hook_connection(change, request.session)

        await workspace.change(end)
        return HookAnswer(None, "")

    keeps_context = client.program != "gemini-cli"  # it forgets what its hooks said when a session is resumed

    def arrive(change: Change) -> tuple[Agent, HookContext]:
        deliveries.confirm(change, request.session, request.confirmed or ())
        agent = _agent_of_session(change, caller, request)
        session = HookSession(request.session, reader_of(caller, agent))
        # With "auto", Gemini CLI reports each turn, and the others report a start after the compaction.
        is_compacted = request.source == "compact" or (request.event == "pre-compact" and request.source != "auto")
        if request.event in ("prompt", "stop"):
            deliveries.go_on(change, session)
        elif is_compacted:
            deliveries.end_context(change, session)
        elif request.event == "session-start" and not (request.source == "resume" and keeps_context):
            deliveries.forget(change, session)
        context = deliveries.context_of(change, session, confirms=request.confirmed is not None)
        return agent, replace(context, was_compacted=is_compacted or context.was_compacted)

    agent, context = await workspace.change(arrive)
    caller = replace(caller, session=Session(agent_id=agent.id))
    text, delivery = "", None
    if request.event == "session-start" or (request.event == "prompt" and not context.is_briefed):
        # The hook may have had no answer when the session began. Then the first prompt gets the briefing.
        notes = [NOT_RECORDED.format(notable.one_line(request.not_recorded, 200))] if request.not_recorded else []
        text, delivery = await _briefing(workspace, caller, agent, context, project, notes)
    elif request.event in ("prompt", "stop") and await workspace.read(lambda read: bool(_unseen(read, context, 1))):
        heading = GO_ON if request.event == "stop" else NEW_FOR_YOU
        text, delivery = await workspace.change(lambda change: _new_messages(change, caller, context, heading))
    if request.event == "prompt" and request.prompt and workspace.settings.recall:
        # Whether the project of the client allows evidence in prompts is asked where its folder is.
        folder = request.folder if workspace.settings.is_loopback else None
        is_wanted = not folder or read_project_file(folder).has_recall
        prompt = typed_part(request.prompt)
        found = await evidence(workspace, caller, prompt, request.session, RECALL_TOKENS) if is_wanted else ""
        text = "\n\n".join(part for part in (text, found) if part)
    if text and delivery is None:
        delivery = await workspace.change(lambda change: deliveries.offer(change, context))
    return HookAnswer(agent.slug, text, delivery)


def typed_part(prompt: str) -> str:
    """The prompt without the text of earlier hooks, which Gemini CLI puts before it."""
    begin, found, rest = prompt.partition(HOOK_CONTEXT)
    return begin + rest.rpartition(HOOK_CONTEXT_END)[2] if found else prompt


def _agent_of_session(change: Change, caller: Caller, request: HookEvent) -> Agent:
    """The agent of the client's session."""
    known = agents.hook_connection(change, request.session)
    agent = agent_for(change, caller, caller.client, request.session, is_at_work=True)
    if known is not None and known[1] == agent.id:
        mark_active(change, agent, request.event)
        return agent
    client, folder = caller.client, request.folder or ""
    key = agents.hook_key(request.session, request.pid)
    agents.bind_connection(change, key, agent, client.program, client.project, folder)
    if agents.touch(change, agent, request.event):
        change.tell(agent_online(agents.must_exist(change, agent.id)))
    return agent


async def _briefing(
    workspace: Workspace,
    caller: Caller,
    agent: Agent,
    context: HookContext,
    project: str | None,
    notes: Iterable[str] = (),
) -> tuple[str, str]:
    """What an agent should know when it starts: who it is, what is new, what happened in this project. `notes` come
    before the news. Returns the text and its delivery. Messages in the context, or without room, are not in it."""
    session = context.session

    def who(change: Change) -> str:
        has_token = caller.is_authenticated or context.is_briefed
        return briefing.who_you_are(agent, None if has_token else agents.new_secret(change, agent, session.id))

    if context.was_compacted and (about := await compaction_briefing(workspace, caller, agent, session.id, project)):
        return await workspace.change(
            lambda change: (
                "\n".join([who(change), *notes, about]),
                deliveries.offer(change, context, is_briefing=True),
            )
        )
    found = await workspace.read(
        lambda read: collect(read, caller, session.reader, project=project, without_session=session.id)
    )
    mentions = [one for one in found.mentions if one.passage_id not in context.passage_ids]
    news = replace(found.news, mentions=[item_of(one.topic, one.message) for one in mentions])

    def offer(change: Change) -> tuple[str, str]:
        made = briefing.brief(news, BRIEFING_TOKENS, before=[who(change), READ_MORE, *notes])
        shown = mentions[len(mentions) - made.shown.get(briefing.FOR_YOU, 0) :]  # the newest ones are shown
        return made.text, deliveries.offer(change, context, shown, is_briefing=True)

    return await workspace.change(offer)


def _unseen(read: Reader, context: HookContext, limit: int) -> list[Mention]:
    return read_marks.unseen_mentions(read, context.session.reader, context.session.key["session"], limit)


def _new_messages(change: Change, caller: Caller, context: HookContext, heading: str) -> tuple[str, str | None]:
    """The messages to the agent that it was not shown before, and their delivery. Those without room come next time."""
    found = _unseen(change, context, MOST_AT_ONCE)
    hidden = [mention for mention in found if visibility.hides(caller, mention.message.metadata)]
    read_marks.mark_seen(change, context.session.reader, hidden)
    mentions = [mention for mention in found if mention not in hidden]
    if not mentions:
        return "", None
    for length in MESSAGE_LENGTHS:
        is_short = any(len(mention.message.content) > length for mention in mentions)
        news = News(mentions=[item_of(one.topic, one.message, length=length) for one in mentions])
        before = [heading, *([CUT_TEXTS] if is_short else [])]
        made = briefing.brief(news, MESSAGES_TOKENS, before=before, text_length=length)
        if not made.is_cut:
            break
    shown = mentions[len(mentions) - made.shown[briefing.FOR_YOU] :]
    return made.text, deliveries.offer(change, context, shown)
